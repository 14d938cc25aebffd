"""The report of a learning run: experienced graph accuracy (EGA) over time, and other metrics.

The quality of the predicted requirements is that of Table 12 (Appendix K.1). The paper does not
define its rows; `PriorQuality` says what each is taken over here. Quantity errors are taken over
wrong quantities. Over all quantities the published figures are impossible. A mean absolute error of
2.05 and a mean of -0.55 make (2.05 + 0.55) / 2 = 1.30 missing on average. But a prediction of 1 for
every requirement of the 67 goals, the lowest possible, misses only 1.2.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field, fields
from typing import TYPE_CHECKING, Any

from llm_planning.environments.minecraft.items.goals import GOAL_GROUPS_67
from llm_planning.outcome import Outcome
from llm_planning.planners.xenon.graph import ancestors

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Mapping, Sequence

    from llm_planning.environments.minecraft.book.rulebook import RuleBook
    from llm_planning.environments.minecraft.items.perturbation import Perturbed
    from llm_planning.planners.xenon.graph import DependencyGraph, Initial
    from llm_planning.planners.xenon.memory import Knowledge
    from llm_planning.planners.xenon.roles import Requirements
    from llm_planning.planners.xenon.settings import LearningSettings
    from llm_planning.specs import Run

MARKS = 20
"""Number of points of each curve among the metrics."""


@dataclass(slots=True)
class Curve:
    """N_true and the number of goals obtained, whenever they changed.

    Attributes:
        points: (environment steps since the first episode began, N_true, goals obtained).
    """

    points: list[tuple[int, int, int]] = field(default_factory=list)

    def note(self, steps: int, n_true: int, obtained: int) -> None:
        """Adds a point if something has changed."""
        if not self.points or self.points[-1][1:] != (n_true, obtained):
            self.points.append((steps, n_true, obtained))

    def at(self, steps: int) -> tuple[int, int]:
        """Returns (N_true, goals obtained) after so many environment steps."""
        reached = [point for point in self.points if point[0] <= steps] or self.points[:1]
        return reached[-1][1:]


@dataclass(frozen=True, slots=True, kw_only=True)
class LearningResult:
    """A finished learning run.

    Attributes:
        goals: V_0.
        perturbed: the rules at the end, and the items that they change.
        known: what the agent knew at the end.
        before: Ĝ before the first step.
        demonstrated: items that the human-written plans obtained.
        initial: what was predicted.
        curve: N_true and the goals obtained over time.
    """

    goals: tuple[str, ...]
    perturbed: Perturbed
    known: Knowledge
    before: DependencyGraph
    demonstrated: frozenset[str]
    initial: Initial
    curve: Curve


def learning_outcome(
    result: LearningResult,
    run: Run[Any, LearningSettings],
    *,
    oracles: Sequence[Mapping[str, object]],
) -> Outcome:
    """Returns the outcome of a learning run, which neither succeeds nor fails.

    A goal is right if its requirements in Ĝ are the true ones.

    Metrics:
        ega, ega_at_<step>: share of right goals, N_true(Ĝ) / |V_0|, at the end and on the way
            (Section 5.1); with several episodes ega_after_<episode>.
        ega_of_<group>: the same at the end, of the goals of a group of Table 10 (Appendix K.3).
        obtained, obtained_at_<step>: share of the goals that the agent obtained itself.
        relearnt: of the goals with changed rules, the share that is right and was obtained under
            them (Table 16). If only actions change, requirements stay right by themselves.
        initially_right: goals whose requirements and action were right beforehand (Table 4).
        hallucinated_descendants: goals that seemed to require an item that does not exist.
        learnt_descendants, learnt_descendants_share: right goals among these (Table 2).
        learnt_unobtainable: of the goals that could not be obtained with what was known beforehand,
            the share that is right (Table 13).
        prior_...: the rows of Table 12, if anything was predicted.
    """
    goals, known, book = result.goals, result.known, result.perturbed.book
    settings = run.settings
    truth = {v: book.requirements(v) for v in goals}
    right = {v for v in goals if known.graph.requirements(v) == truth[v]}
    obtained = sum(v in known.obtained for v in goals)
    changed = [v for v in result.perturbed.items if v in truth]
    obtainable = _obtainable(result)
    misled = _after_the_invented(result.before, goals, book)
    predicted = result.initial.predicted
    rows = quality(predicted, book).rows() if predicted else {}
    metrics: dict[str, Any] = {
        "success_basis": "not judged",
        "ega": len(right) / len(goals),
        "obtained": obtained / len(goals),
        **_on_the_way(result, settings),
        **{
            f"ega_of_{group.lower()}": _share([v for v in members if v in truth], right)
            for group, members in GOAL_GROUPS_67.items()
        },
        "relearnt": _share(changed, right & known.obtained),
        "initially_right": sum(_right_beforehand(result, v) for v in goals),
        "hallucinated_descendants": len(misled),
        "learnt_descendants": len(misled & right),
        "learnt_descendants_share": _share(sorted(misled), right),
        "learnt_unobtainable": _share([v for v in goals if v not in obtainable], right),
        "revisions": sum(count - 1 for count in known.revisions.values()),
        "inadmissible": sum(count > settings.c0 for count in known.revisions.values()),
        "known_items": len(known.graph.items),
        "unasked_items": len(result.initial.unasked),
        **{f"prior_{row}": value for row, value in rows.items()},
    }
    wrong = [v for v in goals if v not in right]
    return Outcome(
        success=None,
        plan=(),
        metrics=metrics,
        trace={
            **run.header,
            "oracles": list(oracles),
            "changed": list(result.perturbed.items),
            "demonstrated": sorted(result.demonstrated),
            "predicted": {v: dict(r) for v, r in predicted.items()},
            "cyclic": list(result.initial.cyclic),
            "unasked": list(result.initial.unasked),
            "graph": {v: dict(known.graph.requirements(v)) for v in known.graph.items},
            "obtained": sorted(known.obtained),
            "revisions": known.revisions,
            "curve": result.curve.points,
        },
        text=_text(result, wrong),
        verdict=(
            f"{obtained} of {len(goals)} goals are obtained; the needs of {len(right)} are known "
            "rightly."
        ),
    )


def _on_the_way(result: LearningResult, settings: LearningSettings) -> dict[str, float]:
    """Returns the curve at equally spaced moments."""
    total = len(result.goals)
    unit, ends = settings.steps, settings.episodes
    name = "after"
    if settings.episodes == 1:
        unit, ends, name = 1, settings.steps, "at"
    marks = sorted({round(ends * i / MARKS) for i in range(1, MARKS + 1)} - {0})
    values: dict[str, float] = {}
    for mark in marks:
        n_true, obtained = result.curve.at(mark * unit)
        values[f"ega_{name}_{mark}"] = n_true / total
        values[f"obtained_{name}_{mark}"] = obtained / total
    return values


def _obtainable(result: LearningResult) -> set[str]:
    """Returns the goals for which all that they require was known rightly beforehand."""
    book = result.perturbed.book
    sound: set[str] = set()
    for v in book.closure(result.goals):
        if _right_beforehand(result, v) and sound.issuperset(book.requirements(v)):
            sound.add(v)
    return sound.intersection(result.goals)


def _right_beforehand(result: LearningResult, item: str) -> bool:
    """Whether the requirements and the action of an item were right beforehand."""
    right = result.before.requirements(item) == result.perturbed.book.requirements(item)
    return right and item in result.before and item not in result.perturbed.actions


def _after_the_invented(
    before: DependencyGraph, goals: Collection[str], book: RuleBook
) -> set[str]:
    """Returns the goals that seemed to require an item that does not exist."""
    invented = {u for u in before.items if u not in book}
    return {v for v in goals if not invented.isdisjoint(before.ancestors(v))}


def _share(items: Collection[str], right: set[str]) -> float | None:
    return sum(v in right for v in items) / len(items) if items else None


def _text(result: LearningResult, wrong: Collection[str]) -> str:
    total = len(result.goals)
    lines = [
        f"step {steps}: {obtained} of {total} goals are obtained, the needs of {n_true} are known"
        for steps, n_true, obtained in result.curve.points
    ]
    graph, book = result.known.graph, result.perturbed.book
    rest = [
        f"{v} needs {_set(book.requirements(v))}; believed: {_set(graph.requirements(v))}"
        for v in wrong
    ]
    return "\n".join([*lines, *rest])


def _set(requirements: Mapping[str, int]) -> str:
    return ", ".join(f"{count} {item}" for item, count in requirements.items()) or "nothing"


@dataclass(frozen=True, slots=True, kw_only=True)
class PriorQuality:
    """The rows of Table 12; None for a mean of nothing.

    Attributes:
        items: number of names in the predicted graph, asked for or only mentioned (the table's
            "over 75").
        right_items: share of real items asked for with the right requirements, in any quantities.
        exact: share of real items asked for with the right requirements and quantities.
        nonexistent: share of names that the world does not have.
        after_nonexistent: share of names that seem to require such a name, directly or not.
        unnecessary: share of real items asked for with a requirement too many.
        omitted: share of real items asked for with a requirement too few.
        quantity_std: standard deviation of predicted - true, over wrong quantities of right
            requirements.
        quantity_absolute: mean of |predicted - true| over these quantities.
        quantity_signed: mean of predicted - true over these quantities.
    """

    items: int
    right_items: float | None
    exact: float | None
    nonexistent: float | None
    after_nonexistent: float | None
    unnecessary: float | None
    omitted: float | None
    quantity_std: float | None
    quantity_absolute: float | None
    quantity_signed: float | None

    def rows(self) -> dict[str, float]:
        """Returns name -> value of every row that has a value."""
        values = {field.name: getattr(self, field.name) for field in fields(self)}
        return {name: value for name, value in values.items() if value is not None}


def quality(predicted: Mapping[str, Requirements], book: RuleBook) -> PriorQuality:
    """Compares predictions with the truth.

    Args:
        predicted: v -> R(v) for every item asked for.
        book: the true rules; a name without a rule does not exist.
    """
    names = dict.fromkeys((*predicted, *(u for r in predicted.values() for u in r)))
    nonexistent = {name for name in names if name not in book.rules}
    pairs = [
        (requirements, book.requirements(v))
        for v, requirements in predicted.items()
        if v not in nonexistent
    ]
    errors = [
        answer[u] - quantity
        for answer, true in pairs
        for u, quantity in true.items()
        if u in answer and answer[u] != quantity
    ]
    signed = _mean(errors)
    return PriorQuality(
        items=len(names),
        right_items=_mean(answer.keys() == true.keys() for answer, true in pairs),
        exact=_mean(dict(answer) == dict(true) for answer, true in pairs),
        nonexistent=_mean(name in nonexistent for name in names),
        after_nonexistent=_mean(
            not nonexistent.isdisjoint(ancestors(name, predicted)) for name in names
        ),
        unnecessary=_mean(bool(answer.keys() - true.keys()) for answer, true in pairs),
        omitted=_mean(bool(true.keys() - answer.keys()) for answer, true in pairs),
        quantity_std=(
            None
            if signed is None
            else math.sqrt(math.fsum((e - signed) ** 2 for e in errors) / len(errors))
        ),
        quantity_absolute=_mean(map(abs, errors)),
        quantity_signed=signed,
    )


def _mean(values: Iterable[float]) -> float | None:
    numbers = list(values)
    return sum(numbers) / len(numbers) if numbers else None
