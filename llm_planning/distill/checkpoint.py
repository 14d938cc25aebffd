"""Checkpoints: all that a training needs to go on, in one file that is whole or not there."""

from __future__ import annotations

import json
from dataclasses import dataclass, field, fields
from typing import TYPE_CHECKING, Any

import torch

from llm_base.files import open_regular, write_durably

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from torch import Tensor

FILE = "checkpoint.safetensors"

MEMORY = 400
"""Questions of a role over which its share of right answers is averaged."""

_TENSORS = ("flat", "mean", "square")


class TrainingError(Exception):
    """A training cannot go on; the message says why and what to do."""


@dataclass(slots=True, kw_only=True)
class Checkpoint:
    """Where a training stands.

    Attributes:
        meant: what it trains and how, JSON-able.
        flat: what is learned.
        mean: AdamW's mean gradient.
        square: AdamW's mean squared gradient.
        batch: batches learned.
        questions: learned.
        computed: tokens that went through the network.
        one_by_one: tokens that would have, question by question.
        seconds: spent.
        examined: seconds spent at the last evaluation.
        right: role -> running share of right answers.
        seen: role -> questions so far.
        curve: evaluations so far: batch, questions, seconds and figures of each.
        over: whether the last evaluation was taken: the training has had all of its time.
    """

    meant: Mapping[str, Any]
    flat: Tensor
    mean: Tensor
    square: Tensor
    batch: int = 0
    questions: int = 0
    computed: int = 0
    one_by_one: int = 0
    seconds: float = 0.0
    examined: float = 0.0
    right: dict[str, float] = field(default_factory=dict)
    seen: dict[str, int] = field(default_factory=dict)
    curve: list[dict[str, Any]] = field(default_factory=list)
    over: bool = False

    @classmethod
    def new(cls, flat: Tensor, meant: Mapping[str, Any]) -> Checkpoint:
        """A training that has not begun."""
        return cls(
            meant=meant, flat=flat, mean=torch.zeros_like(flat), square=torch.zeros_like(flat)
        )

    def count(self, role: str, *, right: bool) -> None:
        """Takes whether one more question was answered right."""
        self.seen[role] = self.seen.get(role, 0) + 1
        before = self.right.get(role, 0.0)
        self.right[role] = before + (right - before) / min(self.seen[role], MEMORY)


_COUNTS = tuple(kept.name for kept in fields(Checkpoint) if kept.name not in _TENSORS)


def write_checkpoint(folder: Path, state: Checkpoint) -> None:
    """Replaces the checkpoint of a folder; killed at any moment, the old one or this one is there.

    Raises:
        OSError: it cannot be written; the old one is still there.
    """
    from safetensors.torch import save

    tensors = {name: getattr(state, name) for name in _TENSORS}
    counts = {name: getattr(state, name) for name in _COUNTS}
    write_durably(folder / FILE, save(tensors, metadata={"state": json.dumps(counts)}))


def read_checkpoint(folder: Path, device: torch.device) -> Checkpoint | None:
    """The checkpoint of a folder; None if there is none.

    Raises:
        TrainingError: it cannot be read.
    """
    from safetensors import safe_open

    path = folder / FILE
    if not path.exists():
        return None
    try:
        # A pipe would let the reader wait for ever.
        open_regular(path).close()
        with safe_open(path, framework="pt", device=str(device)) as file:
            counts = json.loads(file.metadata()["state"])
            state = Checkpoint(**{name: file.get_tensor(name) for name in _TENSORS}, **counts)
        if {"identity", "recipe"} - state.meant.keys():
            raise ValueError("it does not say what was trained")
    except Exception as error:
        raise TrainingError(
            f"{path} cannot be read ({type(error).__name__}): remove it to train from the beginning"
        ) from error
    return state
