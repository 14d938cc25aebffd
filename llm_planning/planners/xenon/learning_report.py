"""What a learning run hands back: experienced graph accuracy (EGA) over time, and more."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from llm_planning.outcome import Outcome
from llm_planning.planners.xenon.prior_quality import quality

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping, Sequence

    from llm_planning.environments.minecraft.perturbation import Perturbed
    from llm_planning.environments.minecraft.rulebook import RuleBook
    from llm_planning.planners.xenon.graph import DependencyGraph
    from llm_planning.planners.xenon.initial import Initial
    from llm_planning.planners.xenon.knowledge import Knowledge
    from llm_planning.planners.xenon.settings import LearningSettings

MARKS = 20
"""Points of a curve among the metrics."""


@dataclass(slots=True)
class Curve:
    """N_true and the goals obtained, each time that they had changed.

    Attributes:
        points: (environment steps since the first episode began, N_true, goals obtained).
    """

    points: list[tuple[int, int, int]] = field(default_factory=list)

    def note(self, steps: int, n_true: int, obtained: int) -> None:
        """Adds a point unless nothing has changed."""
        if not self.points or self.points[-1][1:] != (n_true, obtained):
            self.points.append((steps, n_true, obtained))

    def at(self, steps: int) -> tuple[int, int]:
        """(N_true, goals obtained) after so many steps."""
        reached = [point for point in self.points if point[0] <= steps] or self.points[:1]
        return reached[-1][1:]


@dataclass(frozen=True, slots=True, kw_only=True)
class Learnt:
    """A finished learning run.

    Attributes:
        goals: V_0.
        perturbed: the rules at the end, and what was changed in them.
        known: what the agent knew at the end.
        before: Ĝ as it was before the first step.
        demonstrated: items that the human-written plans obtained.
        initial: what was predicted.
        curve: how it went.
    """

    goals: tuple[str, ...]
    perturbed: Perturbed
    known: Knowledge
    before: DependencyGraph
    demonstrated: frozenset[str]
    initial: Initial
    curve: Curve


def learning_outcome(
    learnt: Learnt,
    *,
    task: str,
    settings: LearningSettings,
    seed: int,
    oracles: Sequence[Mapping[str, object]],
) -> Outcome:
    """The outcome of a learning run; nothing was to be reached, so nothing succeeds.

    Metrics: `ega` is N_true(Ĝ) / |V_0| at the end (Section 5.1) and `ega_at_<step>` on the way
    (`ega_after_<episode>` with several episodes); `obtained` and `obtained_at_<step>` the share of
    goals that the agent obtained itself; `relearnt` the share of the goals with changed rules that
    are right and were obtained under them (Table 16): where only actions change, requirements stay
    right by themselves; `initially_right` the goals of which requirements and action are right
    beforehand (Table 4); `learnt_descendants` of `hallucinated_descendants` the goals that were
    learnt although an item that does not exist was among what they seemed to need (Table 2), and
    `learnt_descendants_share` their share;
    `learnt_unobtainable` the share of right ones among the goals that what was known beforehand did
    not suffice for (Table 13); `prior_...` the rows of Table 12, where something was predicted.
    """
    goals, known, book = learnt.goals, learnt.known, learnt.perturbed.book
    truth = {v: book.requirements(v) for v in goals}
    right = {v for v in goals if known.graph.requirements(v) == truth[v]}
    changed = [v for v in learnt.perturbed.items if v in truth]
    obtainable = _obtainable(learnt)
    invented = _after_the_invented(learnt.before, goals, book)
    metrics: dict[str, Any] = {
        "success_basis": "not judged",
        "ega": len(right) / len(goals),
        "obtained": sum(v in known.obtained for v in goals) / len(goals),
        **_on_the_way(learnt, settings),
        "relearnt": _share(changed, right & known.obtained),
        "initially_right": sum(_is_told(learnt, v) for v in goals),
        "hallucinated_descendants": len(invented),
        "learnt_descendants": len(invented & right),
        "learnt_descendants_share": _share(sorted(invented), right),
        "learnt_unobtainable": _share([v for v in goals if v not in obtainable], right),
        "revisions": sum(count - 1 for count in known.revisions.values()),
        "inadmissible": sum(count > settings.c0 for count in known.revisions.values()),
        "known_items": len(known.graph.items),
        "unasked_items": len(learnt.initial.unasked),
        **_quality(learnt.initial, book),
    }
    wrong = [v for v in goals if v not in right]
    return Outcome(
        success=None,
        plan=(),
        metrics=metrics,
        trace={
            "task": task,
            "seed": seed,
            "settings": settings.to_json(),
            "oracles": list(oracles),
            "changed": list(learnt.perturbed.items),
            "demonstrated": sorted(learnt.demonstrated),
            "predicted": {v: dict(r) for v, r in learnt.initial.predicted.items()},
            "cyclic": list(learnt.initial.cyclic),
            "unasked": list(learnt.initial.unasked),
            "graph": {v: dict(known.graph.requirements(v)) for v in known.graph.items},
            "obtained": sorted(known.obtained),
            "revisions": known.revisions,
            "curve": learnt.curve.points,
        },
        text=_text(learnt, wrong),
    )


def _on_the_way(learnt: Learnt, settings: LearningSettings) -> dict[str, float]:
    """The curve at equally spaced moments."""
    total = len(learnt.goals)
    unit, ends = settings.steps, settings.episodes
    name = "after"
    if settings.episodes == 1:
        unit, ends, name = 1, settings.steps, "at"
    marks = sorted({round(ends * i / MARKS) for i in range(1, MARKS + 1)} - {0})
    values: dict[str, float] = {}
    for mark in marks:
        n_true, obtained = learnt.curve.at(mark * unit)
        values[f"ega_{name}_{mark}"] = n_true / total
        values[f"obtained_{name}_{mark}"] = obtained / total
    return values


def _obtainable(learnt: Learnt) -> set[str]:
    """Goals for which what was known beforehand suffices: right all the way down to the ground."""
    book = learnt.perturbed.book
    sound: set[str] = set()
    for v in book.closure(learnt.goals):
        if _is_told(learnt, v) and sound.issuperset(book.requirements(v)):
            sound.add(v)
    return sound.intersection(learnt.goals)


def _is_told(learnt: Learnt, item: str) -> bool:
    """Whether requirements and action of an item were right beforehand."""
    right = learnt.before.requirements(item) == learnt.perturbed.book.requirements(item)
    return right and item in learnt.before and item not in learnt.perturbed.actions


def _after_the_invented(
    before: DependencyGraph, goals: Collection[str], book: RuleBook
) -> set[str]:
    """Goals that seemed to need something that does not exist."""
    invented = {u for u in before.items if u not in book}
    return {v for v in goals if not invented.isdisjoint(before.ancestors(v))}


def _quality(initial: Initial, book: RuleBook) -> dict[str, float]:
    if not initial.predicted:
        return {}
    return {f"prior_{row}": value for row, value in quality(initial.predicted, book).rows().items()}


def _share(items: Collection[str], right: set[str]) -> float | None:
    return sum(v in right for v in items) / len(items) if items else None


def _text(learnt: Learnt, wrong: Collection[str]) -> str:
    total = len(learnt.goals)
    lines = [
        f"step {steps}: {n_true} of {total} goals right, {obtained} obtained"
        for steps, n_true, obtained in learnt.curve.points
    ]
    graph, book = learnt.known.graph, learnt.perturbed.book
    rest = [
        f"{v}: believed {_set(graph.requirements(v))}, true {_set(book.requirements(v))}"
        for v in wrong
    ]
    return "\n".join([*lines, *rest])


def _set(requirements: Mapping[str, int]) -> str:
    return ", ".join(f"{count} {item}" for item, count in requirements.items()) or "nothing"
