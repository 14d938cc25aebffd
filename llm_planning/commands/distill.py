"""`llm-planning distill`: a domain's rules teach a small model the roles of planners."""

from __future__ import annotations

import json
import time
from dataclasses import asdict, dataclass, replace
from typing import TYPE_CHECKING, Any, Final

from rich.table import Table

from llm_kernels.files import make_folder, write_durably
from llm_planning.cli.options import check_writable_folder
from llm_planning.distill.adapters import LowRank
from llm_planning.distill.architecture import read_model
from llm_planning.distill.checkpoint import FILE as CHECKPOINT
from llm_planning.distill.checkpoint import TrainingError
from llm_planning.distill.course import Course, lessons_of
from llm_planning.distill.network import Network
from llm_planning.distill.peft_format import write_adapter
from llm_planning.distill.tokens import LessonTokenizer
from llm_planning.distill.training import Recipe, shares_right, train
from llm_planning.endings import UsageError, refusing
from llm_planning.interrupts import heard_while_loading
from llm_planning.names import remedy
from llm_planning.registry import exercise_makers, find_domain
from llm_planning.running import REFUSALS
from llm_serving.models import Card, merge, resolve
from llm_serving.terminal import SafeConsole, complain, say

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

    from llm_planning.distill.tokens import Lesson
    from llm_planning.distill.training import Progress
    from llm_planning.roles.exercises import ExerciseMaker

EXAM: Final = 60
"""Held-out questions of each role that the curve is drawn from."""

ADAPTER: Final = "adapter"
MERGED: Final = "merged"
"""Folders in the output folder."""

_LINE_EVERY = 15.0

Makers = list[tuple["ExerciseMaker", tuple[str, ...]]]


@dataclass(frozen=True, slots=True, kw_only=True)
class LessonOptions:
    """What is taught.

    Attributes:
        roles: the roles; empty for all that are asked of a taught model in words of its own.
        hold_out: names that are left out; None for those that the domain leaves out by default.
        states: asked about in one batch.
        seed: of the lessons.
    """

    roles: Sequence[str]
    hold_out: Sequence[str] | None
    states: int
    seed: int


@dataclass(frozen=True, slots=True, kw_only=True)
class LearningOptions:
    """How it is learned.

    Attributes:
        minutes: that teaching takes.
        rank: of the adapter.
        rate: the highest learning rate.
    """

    minutes: float
    rank: int
    rate: float


def distill(
    domain: str,
    *,
    model: str,
    out: Path | None,
    lessons: LessonOptions,
    learning: LearningOptions,
    resume: bool,
    merged: bool,
    as_json: bool,
) -> None:
    """Teaches a model, writes its adapter and prints the curve."""
    if out is None:
        raise UsageError("--out is missing: name the folder of the adapter")
    check_writable_folder(out)
    if resume and not (out / CHECKPOINT).exists():
        raise UsageError(f"--resume: {out} holds no training to go on with; leave --resume out")
    if not resume and (out / CHECKPOINT).exists():
        raise UsageError(f"--out {out} holds a training: go on with --resume, or name another")
    makers = _makers(domain, lessons)
    with heard_while_loading():
        import torch

        base = resolve(model)
        tokenizer = LessonTokenizer(base.path)
        course = Course(makers, states=lessons.states, seed=lessons.seed)
        device = "cuda" if torch.cuda.is_available() else "cpu"
        student = read_model(base.path, dtype=torch.bfloat16, device=device)
        learned = LowRank(student, rank=learning.rank, alpha=2.0 * learning.rank, seed=0)
    roles = [role for _, those in makers for role in those]
    words = next(words for maker, _ in makers if (words := maker.taught_words))
    identity = {
        "base": model,
        "base_revision": base.revision,
        "domain": domain,
        "words_sha256": words,
        "rank": learning.rank,
        **asdict(lessons),
        "roles": roles,
    }
    report = _Report(lessons_of(course.exam(EXAM), tokenizer))
    make_folder(out)
    with refusing(TrainingError):
        done = train(
            Network(student, learned),
            lambda batch: lessons_of(course.exercises(batch), tokenizer),
            Recipe(minutes=learning.minutes, rate=learning.rate),
            folder=out,
            # As the checkpoint's JSON has it.
            identity=json.loads(json.dumps(identity)),
            report=report,
            examine=report.examine,
        )
    card = Card(
        base=model,
        base_revision=base.revision,
        domain=domain,
        roles=tuple(roles),
        words_sha256=words,
        recipe={
            **{key: identity[key] for key in ("rank", "states", "seed", "hold_out")},
            **asdict(learning),
            "questions": done.questions,
            "tokens": done.computed,
            "tokens_one_by_one": done.one_by_one,
            "seconds": round(done.seconds),
        },
    )
    write_adapter(out / ADAPTER, learned, base=model, card=card.to_json())
    if merged:
        merge(base.path, out / ADAPTER, out / MERGED, base_revision=base.revision)
    if as_json:
        made = {"adapter": str(out / ADAPTER), "card": card.to_json(), "curve": done.curve}
        say(json.dumps(made))
        return
    _print_curve(done.curve, roles)
    say(f"plan with it: llm-planning run too --model {out / ADAPTER}")


def export(domain: str, *, lessons: LessonOptions, file: Path, questions: int) -> None:
    """Writes exercises as chats, a JSON object a line, as trainers such as trl read them."""
    lines: list[str] = []
    batch = 0
    course = Course(_makers(domain, lessons), states=lessons.states, seed=lessons.seed)
    while len(lines) < questions:
        for one in course.exercises(batch)[: questions - len(lines)]:
            turns = [{"role": turn.role, "content": turn.content} for turn in one.prompt]
            turns.append({"role": "assistant", "content": one.answer})
            lines.append(json.dumps({"messages": turns, "role": one.role}))
        batch += 1
    write_durably(file, ("\n".join(lines) + "\n").encode())
    say(f"{file}: {len(lines)} questions")


def _makers(domain: str, lessons: LessonOptions) -> Makers:
    """The makers of the exercises, each with its roles that are taught."""
    with refusing(*REFUSALS):
        spec = find_domain(domain)
    if spec.teacher is None:
        raise UsageError(f"{domain} has no teacher, so nothing can be taught; minecraft has one")
    held_out = None if lessons.hold_out is None else tuple(lessons.hold_out)
    with refusing(ValueError):
        teacher = spec.teacher(held_out)
    made = exercise_makers(replace(spec, teacher=lambda _: teacher), words="taught")
    for role in lessons.roles:
        if role not in made:
            raise UsageError(f"--role {role}: {domain} has no such role; {remedy(role, made)}")
    chosen = lessons.roles or [role for role, maker in made.items() if maker.taught_words]
    makers = {id(made[role]): made[role] for role in chosen}
    return [
        (maker, tuple(role for role in chosen if made[role] is maker)) for maker in makers.values()
    ]


class _Report:
    """Writes a line of progress now and then to standard error.

    Args:
        exam: held-out questions.
    """

    def __init__(self, exam: Sequence[Lesson]) -> None:
        self._exam = exam
        self._shares: Mapping[str, float] = {}
        self._last = -_LINE_EVERY

    def examine(self, network: Network) -> Mapping[str, float]:
        """Role -> share of held-out questions that the network gets right."""
        self._shares = shares_right(network, self._exam)
        return self._shares

    def __call__(self, now: Progress) -> None:
        if now.seconds - self._last < _LINE_EVERY:
            return
        self._last = now.seconds
        left = time.strftime("%H:%M:%S", time.gmtime(now.seconds_left))
        complain(
            f"{now.questions} questions, {now.questions_per_second:.1f}/s, loss {now.loss:.3f}, "
            f"{left} left; right when first seen: {_told(now.right)}"
            + (f"; of the held-out ones: {_told(self._shares)}" if self._shares else "")
        )


def _told(shares: Mapping[str, float]) -> str:
    return ", ".join(f"{role} {share:.0%}" for role, share in sorted(shares.items()))


def _print_curve(curve: Sequence[Mapping[str, Any]], roles: Sequence[str]) -> None:
    """A table of the share right by role on held-out questions, by questions learned."""
    table = Table("questions", *roles, title="Held-out questions whose answers are all right")
    for point in curve:
        shares = [f"{point['figures'].get(role, 0.0):.0%}" for role in roles]
        table.add_row(str(point["questions"]), *shares)
    SafeConsole().print(table)
