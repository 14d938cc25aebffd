"""`llm-planning distill`: a domain's rules teach a small model the roles of planners."""

from __future__ import annotations

import json
import time
from dataclasses import asdict, dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Any, Final

from rich.table import Table

from llm_kernels.files import make_folder, write_durably
from llm_planning.cli.options import check_writable_folder
from llm_planning.distill.adapters import LowRank
from llm_planning.distill.architecture import read_model
from llm_planning.distill.course import Course
from llm_planning.distill.network import Network
from llm_planning.distill.peft_format import write_adapter
from llm_planning.distill.tokens import LessonTokenizer
from llm_planning.distill.training import Recipe, shares_right, train
from llm_planning.endings import UsageError, refusing
from llm_planning.interrupts import heard_while_loading
from llm_planning.names import remedy
from llm_planning.planners.tree_of_options.exercises import IMPORTANCE
from llm_planning.planners.tree_of_options.prompts import taught_words
from llm_planning.registry import exercise_makers, find_domain
from llm_serving.models import Card, merge, resolve
from llm_serving.terminal import SafeConsole, say

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

    from llm_planning.distill.training import Progress
    from llm_planning.roles.exercises import ExerciseMaker
    from llm_planning.specs import DomainSpec
    from llm_serving.models import ResolvedModel
    from llm_serving.request import Message

EXAM: Final = 60
"""Held-out questions of each role that the progress reports."""

ADAPTER: Final = "adapter"
MERGED: Final = "merged"
"""Folders in the output folder."""

_LINE_EVERY = 15.0


@dataclass(frozen=True, slots=True, kw_only=True)
class LessonOptions:
    """What is taught.

    Attributes:
        roles: the roles; empty for all that the domain's planners bring.
        hold_out: names that are left out; None for those that the domain leaves out by default.
        states: asked about in one batch.
        seed: of the lessons.
    """

    roles: Sequence[str]
    hold_out: Sequence[str] | None
    states: int
    seed: int


def distill(
    domain: str,
    *,
    model: str,
    out: Path | None,
    lessons: LessonOptions,
    minutes: float,
    rank: int,
    rate: float,
    resume: bool,
    merge: bool,
    as_json: bool,
) -> None:
    """Teaches a model and writes its adapter."""
    if out is None:
        raise UsageError("--out is missing: name the folder of the adapter")
    check_writable_folder(out)
    if (out / CHECKPOINT).exists() != resume:
        raise UsageError(
            f"--resume: {out} holds no training to go on with; leave it out"
            if resume
            else f"--out {out} holds a training already: go on with --resume, or name another"
        )
    spec = find_domain(domain)
    makers = _makers(spec, lessons)
    with heard_while_loading():
        import torch

        base = resolve(model)
        course = Course(makers, LessonTokenizer(base.path), states=lessons.states, seed=lessons.seed)
        device = "cuda" if torch.cuda.is_available() else "cpu"
        network = Network(
            learning := read_model(base.path, dtype=fastest_dtype(device), device=device),
            LowRank(learning, rank=rank, alpha=2.0 * rank, seed=lessons.seed),
        )
    exam = [course.lesson(exercise) for exercise in course.exam(EXAM)]
    recipe = Recipe(minutes=minutes, rate=rate)
    make_folder(out)
    done = train(
        network,
        course.lessons,
        recipe,
        folder=out,
        identity={
            "base": base.revision,
            "domain": spec.name,
            "roles": [role for _, roles in makers for role in roles],
            "words": _words(makers),
            "hold_out": lessons.hold_out,
            "states": lessons.states,
            "seed": lessons.seed,
            "rank": rank,
        },
        report=_Display(),
        examine=partial(shares_right, lessons=exam),
    )
