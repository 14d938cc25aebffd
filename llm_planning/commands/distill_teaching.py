"""A domain's rules, or searches, teach a model the roles of planners."""

from __future__ import annotations

import json
import os
from contextlib import closing, contextmanager, nullcontext
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from time import perf_counter
from typing import TYPE_CHECKING, Any, Final

from filelock import FileLock, Timeout

from llm_base.files import at_home, make_folder, write_durably
from llm_base.terminal import SafeConsole, complain
from llm_planning.distill.adapters import LowRank
from llm_planning.distill.ahead import Ahead
from llm_planning.distill.architecture import read_model
from llm_planning.distill.checkpoint import FILE as CHECKPOINT
from llm_planning.distill.checkpoint import TrainingError
from llm_planning.distill.course import Course, lessons_of
from llm_planning.distill.network import Network
from llm_planning.distill.peft_format import read_weights, write_adapter
from llm_planning.distill.tokens import LessonTokenizer
from llm_planning.distill.training import Recipe, shares_right, train
from llm_planning.distill.trie import LONGEST_ROW, LONGEST_ROW_ON_GPU
from llm_planning.endings import UsageError, refusing
from llm_planning.interrupts import heard_while_loading
from llm_planning.names import remedy
from llm_planning.planners.any_domain.exercises import why_none
from llm_planning.registry import exercise_makers, find_domain
from llm_planning.roles.exercises import (
    GENERAL_WORDS,
    HELD_OUT,
    STATE,
    STATE_UNPREDICTED,
    VERDICT,
    LearnsFromTraces,
    TracedMaker,
    parts_asked,
)
from llm_planning.roles.measuring import digest
from llm_planning.roles.options import INFEASIBLE
from llm_planning.running import REFUSALS
from llm_planning.trace_file import TraceError
from llm_planning.viewer.reading import read_trace
from llm_serving.errors import AdapterError, UnknownModelError
from llm_serving.models import Card, adapter_folder, check_fit, merge, read_adapter, resolve
from llm_serving.vllm_arguments import emulates_bfloat16

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
    from contextlib import AbstractContextManager

    from llm_planning.distill.architecture import Model
    from llm_planning.distill.course import Makers
    from llm_planning.distill.tokens import Lesson
    from llm_planning.distill.training import Progress
    from llm_planning.roles.exercises import ExerciseMaker
    from llm_serving.models import Adapter, ResolvedModel

EXAM: Final = 60
"""Held-out questions of each role that the curve is drawn from."""

_PROBE: Final = 20
"""One in so many of them is asked first, to see how long all will take."""

RECORDED: Final = 16
"""Batches whose prompts' parts are on a card; their exercises have all that lessons have."""

ADAPTER: Final = "adapter"
MERGED: Final = "merged"
"""Folders in the output folder."""

TRACES: Final = "traces"
"""The folder of traces in that of a sweep."""

_TRACE_FILES = (".jsonl", ".jsonl.gz")


@dataclass(frozen=True, slots=True, kw_only=True)
class LessonOptions:
    """Which questions are taught.

    Attributes:
        roles: the roles; empty for all that are asked of a taught model in words of its own, or
            for all if there are none.
        hold_out: names that are left out; None for those that the domain leaves out by default.
        states: asked about in one batch.
        seed: of the lessons.
        traces: files of searches, or folders of them, that teach π in the place of the rules.
        also: settings of the domain under which it is taught, too: every second state is of the
            domain as it is, the others take turns.
    """

    roles: Sequence[str]
    hold_out: Sequence[str] | None
    states: int
    seed: int
    traces: Sequence[Path] = ()
    also: Sequence[Mapping[str, object]] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class LearningOptions:
    """How long and how fast the adapter learns.

    Attributes:
        minutes: that teaching takes; None if it counts batches.
        batches: that are taught; None if it takes a time.
        rate: the highest learning rate.
        start: the adapter that is taught further, as `adapter_folder` takes it; None for a new one.
    """

    minutes: float | None
    batches: int | None
    rank: int
    rate: float
    start: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Taught:
    """What came of teaching.

    Attributes:
        curve: by questions learned, the share of held-out ones that are answered right.
    """

    adapter: Path
    card: Card
    curve: Sequence[Mapping[str, Any]]


def teach(
    domain: str,
    *,
    model: str,
    out: Path,
    lessons: LessonOptions,
    learning: LearningOptions,
    resume: bool,
    merged: bool,
) -> Taught:
    """Teaches a model and writes its adapter.

    Args:
        resume: go on where a training in the folder was broken off.

    Raises:
        UsageError: the options do not fit the folder, the domain or the model.
        TrainingError: another training runs in the folder, or it failed.
    """
    _check_out(out, resume=resume, merged=merged)
    worlds = _worlds(domain, lessons)
    makers = worlds[0]
    roles = tuple(role for _, maker_roles in makers for role in maker_roles)
    with SafeConsole(stderr=True).waiting("loading the model"), heard_while_loading():
        # What is wrong with a world or an adapter is told before the model is read.
        held_out = _held_out(domain, lessons)
        course = Course(worlds, states=lessons.states, seed=lessons.seed)
        first = digest(course.exercises(0))
        base = _base(model)
        begun = None if learning.start is None else _begun(learning.start, base, learning.rank)
        making = _making(partial(_batches, domain, lessons, base.path))
        tokenizer = LessonTokenizer(base.path)
        student, dtype = _student(base.path)
        learned = LowRank(student, rank=learning.rank, alpha=_alpha(learning.rank), seed=0)
        start = None if begun is None else _begin(learned, begun, learning.start)
    searched = [maker for maker, _ in makers if isinstance(maker, TracedMaker)]
    for maker in searched:
        complain(f"traces: {maker.counts_text}")
    taught = {
        "rank": learning.rank,
        "start": start,
        "dtype": dtype,
        "states": lessons.states,
        "seed": lessons.seed,
        "hold_out": held_out,
        "also": [dict(settings) for settings in lessons.also],
        "traces": [
            {"decisions": len(maker.decisions), "sha256": maker.digest()} for maker in searched
        ],
        "lessons_sha256": first,
    }
    make_folder(out)
    longest = LONGEST_ROW_ON_GPU if student.device.type == "cuda" else LONGEST_ROW
    with _alone(out), making as make, SafeConsole(stderr=True).waiting("teaching") as status:
        report = _Report(exam_of(course, tokenizer), status.update, minutes=learning.minutes)
        done = train(
            Network(student, learned),
            make,
            Recipe(
                minutes=learning.minutes,
                batches=learning.batches,
                rate=learning.rate,
                longest_row=longest,
            ),
            folder=out,
            identity={"base": base.revision, "domain": domain, "roles": roles, **taught},
            report=report,
            examine=report.examine,
        )
        card = Card(
            base=base.name,
            base_revision=base.revision,
            domain=domain,
            roles=roles,
            words_sha256=_words(worlds),
            parts=parts_asked(
                exercise for batch in range(RECORDED) for exercise in course.exercises(batch)
            ),
            recipe={
                **taught,
                "minutes": learning.minutes,
                "batches": learning.batches,
                "rate": learning.rate,
                "questions": done.questions,
                "tokens": done.computed,
                "tokens_one_by_one": done.one_by_one,
            },
        )
        write_adapter(out / ADAPTER, learned, base=base.name, card=card.to_json())
        if merged:
            merge(base.path, out / ADAPTER, out / MERGED, base_revision=base.revision)
    return Taught(adapter=out / ADAPTER, card=card, curve=done.curve)


def _check_out(out: Path, *, resume: bool, merged: bool) -> None:
    if resume and not (out / CHECKPOINT).exists():
        raise UsageError(f"--resume: {out} holds no training to go on with; leave --resume out")
    if not resume and (out / CHECKPOINT).exists():
        raise UsageError(f"--out {out} holds a training: go on with --resume, or name another")
    if merged and (out / MERGED).exists():
        raise UsageError(f"--merge: {out / MERGED} exists already; remove it or leave --merge out")


@contextmanager
def _alone(out: Path) -> Iterator[None]:
    """Makes sure that nobody else teaches in this folder."""
    try:
        with FileLock(out / ".lock", timeout=0):
            yield
    except Timeout:
        raise TrainingError(f"another training runs in {out}: wait, or name another") from None


def _base(model: str) -> ResolvedModel:
    """The model to teach, by a name that means the same in every folder."""
    base = resolve(model)
    if base.taught is not None:
        raise UsageError(f"--model {model} was taught already: name the model that it was made of")
    return replace(base, name=str(base.path)) if Path(at_home(model)).is_dir() else base


def _alpha(rank: int) -> float:
    return 2.0 * rank


def _begun(start: str, base: ResolvedModel, rank: int) -> Adapter:
    """The adapter that is taught further; its weights are not read yet."""
    try:
        begun = read_adapter(adapter_folder(start))
        check_fit(begun, base.path, base_revision=base.revision)
    except (AdapterError, UnknownModelError) as error:
        raise UsageError(f"--start {start}: {error}") from error
    if (begun.rank, begun.alpha) != (rank, _alpha(rank)):
        raise UsageError(
            f"--start {start} has rank {begun.rank} and alpha {begun.alpha:g}, but --rank "
            f"{rank} has alpha {_alpha(rank):g}: an adapter is taught further as it is"
        )
    return begun


def _begin(learned: LowRank, begun: Adapter, start: str | None) -> Mapping[str, Any]:
    """Begins with the weights of an adapter; returns its hash and how it was taught."""
    try:
        read_weights(begun.path, learned)
    except ValueError as error:
        raise UsageError(f"--start {start}: {error}; only all of them are taught") from error
    return {"revision": begun.revision, "recipe": begun.card and begun.card.recipe}


def _student(folder: Path) -> tuple[Model, str]:
    """The model, in the type that this machine multiplies fastest, and the type's name."""
    import torch

    if torch.cuda.is_available():
        return read_model(folder, dtype=torch.bfloat16, device="cuda"), "bfloat16"
    if emulates_bfloat16():
        return read_model(folder, dtype=torch.float32, device="cpu"), "float32"
    return read_model(folder, dtype=torch.bfloat16, device="cpu"), "bfloat16"


def _batches(domain: str, lessons: LessonOptions, model: Path) -> Callable[[int], Sequence[Lesson]]:
    """A function from a batch's number to its lessons."""
    course = Course(_worlds(domain, lessons), states=lessons.states, seed=lessons.seed)
    tokenizer = LessonTokenizer(model)
    return lambda batch: lessons_of(course.exercises(batch), tokenizer)


def _making(
    begin: Callable[[], Callable[[int], Sequence[Lesson]]],
) -> AbstractContextManager[Callable[[int], Sequence[Lesson]]]:
    """Makes lessons: on a GPU's machine ahead, on all cores but one, as one core is too slow."""
    import torch

    if not torch.cuda.is_available():
        return nullcontext(begin())
    return closing(Ahead(begin, processes=max(len(os.sched_getaffinity(0)) - 1, 1)))


def _held_out(domain: str, lessons: LessonOptions) -> Sequence[str] | None:
    """The names that were held out; of those that stand for many, these."""
    if lessons.hold_out is None:
        return None
    return sorted(find_domain(domain).holding_out(lessons.hold_out).held_out) or lessons.hold_out


def _words(worlds: Sequence[Makers]) -> tuple[str, ...]:
    """The hashes of the words of a taught model; a role without such words is asked as ever."""
    words = (maker.taught_words for makers in worlds for maker, _ in makers if maker.taught_words)
    return tuple(dict.fromkeys(words)) or (GENERAL_WORDS,)


def exam_of(course: Course, tokenizer: LessonTokenizer) -> list[Lesson]:
    """Held-out questions; the role of each says also which kind they are of.

    That is whether goal and recipe were taught, and whether it tells s_0 and the options since.
    What infeasible options change is not taught, so it is not asked.
    """
    asked = [
        exercise
        for exercise in course.exam(EXAM)
        if exercise.role != "dynamics" or exercise.kinds.get(VERDICT) != INFEASIBLE
    ]
    named = [
        exercise.role
        + (f", {HELD_OUT}" if HELD_OUT in exercise.kinds.values() else "")
        + (f", {STATE_UNPREDICTED}" if exercise.kinds.get(STATE) == STATE_UNPREDICTED else "")
        for exercise in asked
    ]
    return [
        replace(lesson, role=name)
        for name, lesson in zip(named, lessons_of(asked, tokenizer), strict=True)
    ]


def write_questions(domain: str, *, lessons: LessonOptions, file: Path, questions: int) -> int:
    """Writes exercises as chats, a JSON object a line, as trainers such as trl read them.

    Returns:
        How many were written.
    """
    lines: list[str] = []
    batch = 0
    course = Course(_worlds(domain, lessons), states=lessons.states, seed=lessons.seed)
    while len(lines) < questions:
        for exercise in course.exercises(batch)[: questions - len(lines)]:
            turns = [{"role": turn.role, "content": turn.content} for turn in exercise.prompt]
            turns.append({"role": "assistant", "content": exercise.answer})
            lines.append(json.dumps({"messages": turns, "role": exercise.role}))
        batch += 1
    write_durably(file, ("\n".join(lines) + "\n").encode())
    return len(lines)


def _worlds(domain: str, lessons: LessonOptions) -> list[Makers]:
    """The makers of the domain as it is, and in turns with these those under other settings."""
    main = _makers(domain, lessons, {})
    others = [_makers(domain, lessons, settings) for settings in lessons.also]
    return [makers for other in others for makers in (main, other)] or [main]


def _makers(domain: str, lessons: LessonOptions, settings: Mapping[str, object]) -> Makers:
    """The makers of the exercises, each with its roles that are taught."""
    with refusing(*REFUSALS, TraceError):
        spec = find_domain(domain).under(settings).holding_out(lessons.hold_out or ())
        by_role = exercise_makers(spec, words="taught")
        if not by_role:
            raise UsageError(f"nothing can be taught in {domain}: {why_none(spec)}")
        if lessons.traces:
            by_role |= _by_traces(domain, by_role, lessons)
    for role in lessons.roles:
        if role not in by_role:
            raise UsageError(f"--role {role}: {domain} has no such role; {remedy(role, by_role)}")
    # Roles without short words are taught in the general ones, if no others are named.
    words = {role: maker.taught_words for role, maker in by_role.items()}
    first = next((family for family in words.values() if family), "")
    chosen = lessons.roles or [role for role in by_role if words[role] == first]
    if len({words[role] for role in chosen} - {""}) > 1:
        raise UsageError(
            f"--role {' --role '.join(chosen)}: these are asked in words of different families, "
            "and an adapter knows the words of one: teach them apart"
        )
    makers = {id(by_role[role]): by_role[role] for role in chosen}
    return [
        (maker, tuple(role for role in chosen if by_role[role] is maker))
        for maker in makers.values()
    ]


def _by_traces(
    domain: str, makers: Mapping[str, ExerciseMaker], lessons: LessonOptions
) -> dict[str, ExerciseMaker]:
    """Role -> the maker that teaches what searches found out, of the roles that learn so."""
    able = {role: maker for role, maker in makers.items() if isinstance(maker, LearnsFromTraces)}
    if not able:
        raise UsageError(f"--from-traces: {domain} has no role that searches teach")
    chosen = [role for role in able if not lessons.roles or role in lessons.roles]
    if not chosen:
        raise UsageError(f"--from-traces teaches {', '.join(able)}: add --role {next(iter(able))}")
    return {
        role: able[role].from_traces(map(read_trace, _files(lessons.traces))) for role in chosen
    }


def _files(paths: Iterable[Path]) -> Iterator[Path]:
    """The files of traces among these paths, in folders and in those of sweeps."""
    for path in paths:
        if not path.is_dir():
            yield path
            continue
        inside = path / TRACES if (path / TRACES).is_dir() else path
        files = [
            file for file in sorted(inside.iterdir()) if file.name.lower().endswith(_TRACE_FILES)
        ]
        if not files:
            raise UsageError(
                f"--from-traces {path}: no {' or '.join(_TRACE_FILES)} is in it; name the folder "
                "of a sweep, or what `run --trace FILE` wrote"
            )
        yield from files


class _Report:
    """Says on a terminal how far the training is.

    Args:
        exam: held-out questions.
        show: takes a line.
        minutes: that the training is to take; None if it counts batches.
    """

    def __init__(
        self, exam: Sequence[Lesson], show: Callable[[str], None], *, minutes: float | None
    ) -> None:
        self._exam = exam
        self._show = show
        self._minutes = minutes
        self._shares: Mapping[str, float] = {}

    def examine(self, network: Network) -> Mapping[str, float]:
        """Role -> share of held-out questions whose right answer is the likeliest in each token."""
        if self._exam:
            if self._minutes is not None and not self._shares:
                self._note_how_long(network, self._minutes)
            self._shares = shares_right(network, self._exam)
        return self._shares

    def _note_how_long(self, network: Network, minutes: float) -> None:
        """Says so if the exams need most of the time: with fewer questions they would tell less."""
        begun = perf_counter()
        shares_right(network, self._exam[::_PROBE])
        needed = 2 * _PROBE * (perf_counter() - begun) / 60
        if needed > minutes / 2:
            complain(
                f"note: the exams before and after teaching, {len(self._exam)} questions each, "
                f"take about {needed:.1f} minutes here; --minutes {minutes:g} leaves "
                f"{'little' if needed < minutes else 'no'} time to teach"
            )

    def __call__(self, now: Progress) -> None:
        minutes, seconds = divmod(round(now.seconds_left), 60)
        shares = sorted((self._shares or now.right).items())
        right = ", ".join(f"{role} {share:.0%}" for role, share in shares)
        self._show(
            f"teaching: {now.questions} questions, loss {now.loss:.3f}, "
            f"{minutes}:{seconds:02} left; right: {right}"
        )
