"""What is learned: a low-rank change of every matrix (LoRA).

It is kept in float32 in one flat tensor. The network multiplies with matrices that have the change
in them already: one product less a token than a path of its own beside the frozen matrix, in both
directions. They are rounded to the type that the network computes in, as they are where the change
is merged for serving.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

import torch

from llm_planning.distill.architecture import PARTS

if TYPE_CHECKING:
    from torch import Tensor

    from llm_planning.distill.architecture import Model


@dataclass(frozen=True, slots=True)
class _Change:
    """The low-rank change of one matrix, copies to compute with.

    Attributes:
        down: A of its parts, one below the other.
        up: B of its parts, one below the other.
        merged: the matrix with the change in it.
    """

    down: Tensor
    up: Tensor
    merged: Tensor


class LowRank:
    """LoRA: of each matrix W, W + (alpha / rank)·B·A is used, and A and B are learned.

    Args:
        rank: of the change of each published matrix.
        alpha: its scale, times the rank.
        seed: of the first A; B begins at zero.
    """

    def __init__(self, model: Model, *, rank: int, alpha: float, seed: int) -> None:
        self.rank, self.alpha = rank, alpha
        self.scale = alpha / rank
        self._model = model
        sizes = {name: model.architecture.sizes(name) for name in PARTS}
        self._shapes = [
            ((layer, name), shape)
            for layer in range(model.architecture.layers)
            for name, (outputs, inputs) in sizes.items()
            for shape in ((len(outputs) * rank, inputs), (sum(outputs), rank))
        ]
        self.flat = torch.zeros(
            sum(rows * columns for _, (rows, columns) in self._shapes), device=model.device
        )
        drawn = torch.Generator().manual_seed(seed)
        self._masters = self.views(self.flat)
        self.changes: dict[tuple[int, str], _Change] = {}
        for (layer, name), (down, up) in self._masters.items():
            bound = 1 / math.sqrt(down.shape[1])
            down.copy_((torch.rand(down.shape, generator=drawn) * 2 - 1) * bound)
            self.changes[layer, name] = _Change(
                down=torch.empty_like(down, dtype=model.dtype),
                up=torch.empty_like(up, dtype=model.dtype),
                merged=torch.empty_like(model.layers[layer].matrices[name]),
            )
        self.refresh()

    def views(self, flat: Tensor) -> dict[tuple[int, str], tuple[Tensor, Tensor]]:
        """Cuts a tensor like `flat` into A and B of each matrix."""
        cut = flat.split([rows * columns for _, (rows, columns) in self._shapes])
        shaped = [part.view(shape) for part, (_, shape) in zip(cut, self._shapes, strict=True)]
        keys = [key for key, _ in self._shapes[::2]]
        return dict(zip(keys, zip(shaped[::2], shaped[1::2], strict=True), strict=True))

    def refresh(self) -> None:
        """Makes the matrices anew after `flat` was changed."""
        for (layer, name), (down, up) in self._masters.items():
            change = self.changes[layer, name]
            change.down.copy_(down)
            change.up.copy_(up)
            frozen = self._model.layers[layer].matrices[name]
            for rows, ranks in self.places(name):
                torch.addmm(
                    frozen[rows],
                    change.up[rows],
                    change.down[ranks],
                    alpha=self.scale,
                    out=change.merged[rows],
                )

    def matrix(self, layer: int, name: str) -> Tensor:
        """Returns a matrix of `PARTS` to multiply with, [outputs, inputs]."""
        return self.changes[layer, name].merged

    def gradient(self) -> LowRankGradient:
        """Makes a gradient of zeros."""
        return LowRankGradient(self)

    def tensors(self) -> dict[str, Tensor]:
        """A and B of each published matrix, by PEFT's names."""
        named = {}
        for (layer, name), (down, up) in self._masters.items():
            for part, (rows, ranks) in zip(PARTS[name], self.places(name), strict=True):
                start = f"base_model.model.model.layers.{layer}.{part}"
                named[f"{start}.lora_A.weight"] = down[ranks]
                named[f"{start}.lora_B.weight"] = up[rows]
        return named

    def places(self, name: str) -> list[tuple[slice, slice]]:
        """Of each part of a matrix: its rows in B, and in A."""
        outputs, _ = self._model.architecture.sizes(name)
        places, start = [], 0
        for number, count in enumerate(outputs):
            ranks = slice(number * self.rank, (number + 1) * self.rank)
            places.append((slice(start, start + count), ranks))
            start += count
        return places


class LowRankGradient:
    """The gradient of A and B: the products go through the narrow side."""

    def __init__(self, learned: LowRank) -> None:
        self.flat = torch.zeros_like(learned.flat)
        self._learned = learned
        self._views = learned.views(self.flat)

    def learn(self, layer: int, name: str, inputs: Tensor, gradient: Tensor) -> None:
        """Adds what a matrix's inputs [nodes, inputs] and its outputs' gradient say."""
        change, scale = self._learned.changes[layer, name], self._learned.scale
        of_down, of_up = self._views[layer, name]
        narrow = inputs @ change.down.T
        back = torch.empty_like(narrow)
        for rows, ranks in self._learned.places(name):
            part = gradient[:, rows]
            torch.mm(part, change.up[rows], out=back[:, ranks])
            of_up[rows].add_(part.T @ narrow[:, ranks], alpha=scale)
        of_down.add_(back.T @ inputs, alpha=scale)
