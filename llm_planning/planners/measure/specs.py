"""`measure`: asks a model questions of one role whose right answers the domain knows.

One role of one model in one domain is one trial, so ledgers, caches, sweeps and reports treat a
measurement as any other run. `llm-planning roles measure` makes such trials.
"""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING, Any, Final

from pydantic import Field

from llm_planning.names import remedy
from llm_planning.outcome import Outcome
from llm_planning.registry import exercise_makers, find_domain
from llm_planning.roles.exercises import Words  # noqa: TC001 (a setting's type)
from llm_planning.roles.measuring import (
    ask_all,
    by_kind,
    confusions,
    counted,
    counted_items,
    digest,
    draw_exercises,
    invented_among,
)
from llm_planning.settings import Settings, SettingsError
from llm_planning.specs import PlannerSpec

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from llm_planning.roles.exercises import Exercise
    from llm_planning.roles.measuring import Answered, Count
    from llm_planning.specs import DomainSpec, Run

MOST_QUESTIONS: Final = 10_000

MOST_CONFUSIONS: Final = 10
"""Different wrong answers that a measurement reports, the most frequent ones."""


class MeasureSettings(Settings):
    """Settings of a measurement.

    Attributes:
        role: the role to measure.
        questions: the most questions; a domain may have fewer different ones.
        words: of the prompts: `general` for any model, `taught` for one that a simulator taught.
        exercises_sha256: `digest` of the exercises, so that other exercises make another trial.
            `roles measure` finds it, together with `words`. The planner needs it, and refuses to
            measure if the exercises are others now.
        hold_out: names that count as held out, instead of those that the domain's teacher holds
            out by default.
    """

    role: str = ""
    questions: int = Field(200, ge=1, le=MOST_QUESTIONS)
    words: Words = "general"
    exercises_sha256: str = ""
    hold_out: tuple[str, ...] = ()


def exercises_of(
    domain: DomainSpec, settings: MeasureSettings, *, seed: int
) -> tuple[Exercise, ...]:
    """Draws the exercises of a measurement.

    Raises:
        SettingsError: no planner has exercises of the role in this domain, or they changed.
        DomainError: a name cannot be held out.
    """
    makers = exercise_makers(domain.holding_out(settings.hold_out), words=settings.words)
    if settings.role not in makers:
        raise SettingsError(
            f"no planner makes exercises of the role {settings.role!r} in {domain.name}; "
            + (remedy(settings.role, makers) if makers else "it has exercises of no role")
        )
    made = draw_exercises(makers[settings.role], settings.role, count=settings.questions, seed=seed)
    if not made:
        raise SettingsError(f"{domain.name} has no exercises of the role {settings.role!r}")
    if settings.exercises_sha256 not in {"", digest(made)}:
        raise SettingsError(
            f"the exercises of the role {settings.role!r} in {domain.name} are others than when "
            "this measurement began: begin it anew"
        )
    return made


async def measure(run: Run[Any, MeasureSettings]) -> Outcome:
    """Asks the exercises of one role and counts the right answers; the task plays no part.

    Raises:
        SettingsError: `exercises_sha256` is missing, or see `exercises_of`.
        ServingError: the engine failed.
    """
    settings = run.settings
    if not settings.exercises_sha256:
        raise SettingsError(
            "exercises_sha256 is missing, so a resumed run could keep answers to other questions: "
            "measure with `llm-planning roles measure`, which finds it"
        )
    exercises = exercises_of(find_domain(run.domain), settings, seed=run.seed)
    answers = await ask_all(exercises, run.engines.of(settings.role))
    total, kinds, items = counted(answers), by_kind(answers), counted_items(answers)
    invented = invented_among(answers)
    return Outcome(
        success=None,
        plan=(),
        metrics={
            "right": total.right,
            "questions": total.questions,
            "kinds": _pairs(kinds),
            "confusions": [
                [confusion.expected, confusion.said, confusion.count]
                for confusion in confusions(answers)[:MOST_CONFUSIONS]
            ],
            **({} if items is None else {"items": items}),
            **(_invented(invented) if invented else {}),
        },
        trace={"answers": [asdict(answer) for answer in answers]},
        text="\n".join(_lines(settings.role, total, kinds)),
        verdict=f"{total.right} of {total.questions} answers are right.",
    )


def _invented(answers: Sequence[Answered]) -> dict[str, Any]:
    """The metrics of answers that `invented_among` returned."""
    total = counted(answers)
    return {
        "invented": [total.right, total.questions],
        "invented_kinds": _pairs(by_kind(answers)),
    }


def _pairs(kinds: Mapping[str, Mapping[str, Count]]) -> dict[str, dict[str, list[int]]]:
    return {
        aspect: {value: [count.right, count.questions] for value, count in values.items()}
        for aspect, values in kinds.items()
    }


def _lines(role: str, total: Count, kinds: Mapping[str, Mapping[str, Count]]) -> Iterator[str]:
    yield f"{role}: {total.right} of {total.questions} answers are right."
    for aspect, values in kinds.items():
        for value, count in values.items():
            yield f"{aspect}, {value}: {count.right} of {count.questions}"


SPECS: Final[tuple[PlannerSpec, ...]] = (
    PlannerSpec(
        name="measure",
        summary="plans nothing: asks a model questions of one role and counts right answers",
        paper="Measurements",
        settings=MeasureSettings,
        run=measure,
    ),
)
