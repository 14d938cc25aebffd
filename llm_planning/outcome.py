"""The result of every planner."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from statistics import fmean
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from collections.abc import Mapping


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """The result of one planner on one task.

    Attributes:
        success: whether the goal was reached; None if that was not judged.
            `metrics["success_basis"]` says how it was judged.
        plan: the options or actions as they are written, in order.
        metrics: numbers and words that describe the run; times are in seconds.
        trace: the planner's decisions and their reasons, JSON-able.
        text: the same for people.
        verdict: what came of it in a sentence, where `success` does not say it.
        unrepeatable: names of the metrics that may differ in another run with the same answers,
            such as times, or work that memory saves.

    Example:
        >>> from llm_planning import Outcome
        >>> outcome = Outcome(
        ...     success=True, plan=("up", "up"), metrics={"reward": 1.0}, trace={}, text="Done."
        ... )
        >>> outcome.metrics["reward"]
        1.0
    """

    success: bool | None
    plan: tuple[str, ...]
    metrics: Mapping[str, Any]
    trace: Mapping[str, Any]
    text: str
    verdict: str = ""
    unrepeatable: frozenset[str] = frozenset()

    def _repr_html_(self) -> str:
        """The plan, its tree and its costs, under a cell of Jupyter."""
        from llm_planning.notebook import outcome_html

        return outcome_html(self)


NOT_REACHED: Final = "goal not reached"
"""The class of a failure for which a planner names none."""

NO_PLAN: Final = "no plan"
"""In the place of such a class where no plan can reach the goal, which is no failure."""


def score_text(score: float, most: float | None) -> str:
    """A score in words, such as `1 point` or `3 of 10 points`.

    Args:
        most: points that can be had; None or 0 if that is not known.
    """
    of_most = f" of {most:g}" if most else ""
    return f"{score:g}{of_most} point{'' if (most or score) == 1 else 's'}"


def without_plan(reason: str, traits: Mapping[str, Any]) -> Outcome:
    """The outcome of a problem that has no plan."""
    metrics = {**traits, "failure": NO_PLAN, "failure_cause": reason}
    return Outcome(
        success=None,
        plan=(),
        metrics=metrics,
        trace={},
        text=f"{NO_PLAN}: {reason}",
        verdict=f"No plan can reach the goal: {reason}.",
    )


_OF_FILES: Final = ("dialect", "rules")
"""Traits of a problem from a file that are told of each."""


def summed_up(outcomes: Mapping[str, Outcome]) -> Outcome:
    """Sums the outcomes of several problems up.

    Args:
        outcomes: name of a problem -> its outcome, at least one.

    Returns:
        An outcome without a plan. It succeeds if all problems do that have a plan. Its metrics are
        the number of `problems`, of those `solved` and, if there are any, of those `without_plan`;
        `failures`, class -> number, by the metric `failure` of each; `rules`, those that problems
        were planned by -> number; and the means over the solved ones of `actions`, of their
        `optimum` and of the difference, `excess`, if all know their optimum. Its trace has every
        problem with its plan, its failure and the cause of that, and their traces.
    """
    solved = {name: outcome for name, outcome in outcomes.items() if outcome.success}
    classes = {
        name: str(outcome.metrics.get("failure") or NOT_REACHED)
        for name, outcome in outcomes.items()
        if name not in solved
    }
    impossible = list(classes.values()).count(NO_PLAN)
    possible = len(outcomes) - impossible
    rules = Counter(
        outcome.metrics["rules"] for outcome in outcomes.values() if "rules" in outcome.metrics
    )
    lengths = [len(outcome.plan) for outcome in solved.values()]
    optima = [outcome.metrics.get("optimum") for outcome in solved.values()]
    known = [optimum for optimum in optima if optimum is not None]
    means: dict[str, float] = {"actions": fmean(lengths)} if lengths else {}
    if known and len(known) == len(lengths):
        means |= {"optimum": fmean(known), "excess": fmean(lengths) - fmean(known)}
    problems = {
        name: {
            "success": outcome.success,
            "plan": list(outcome.plan),
            "optimum": outcome.metrics.get("optimum"),
            "failure": classes.get(name),
            "cause": outcome.metrics.get("failure_cause"),
            **{key: outcome.metrics[key] for key in _OF_FILES if key in outcome.metrics},
        }
        for name, outcome in outcomes.items()
    }
    oracles = next(
        (outcome.trace for outcome in outcomes.values() if "oracles" in outcome.trace), {}
    )
    return Outcome(
        success=len(solved) == possible if possible else None,
        plan=(),
        metrics={
            "problems": len(outcomes),
            "solved": len(solved),
            **({"without_plan": impossible} if impossible else {}),
            "failures": dict(
                Counter(failure for failure in classes.values() if failure != NO_PLAN)
            ),
            **({"rules": dict(rules)} if rules else {}),
            **{key: round(mean, 4) for key, mean in means.items()},
        },
        trace={
            **{key: errors for key, errors in oracles.items() if key == "oracles"},
            "problems": problems,
            "traces": {name: outcome.trace for name, outcome in outcomes.items()},
        },
        text="\n".join(_line(name, problem) for name, problem in problems.items()),
        verdict=f"{len(solved)} of {len(outcomes)} problems are solved.",
    )


def _line(name: str, problem: Mapping[str, Any]) -> str:
    """A problem's result, for people."""
    optimum = f", the optimum is {problem['optimum']}" if problem["optimum"] is not None else ""
    why = f" ({problem['cause']})" if problem["cause"] else ""
    actions = f"solved in {len(problem['plan'])} actions"
    how = actions if problem["success"] else f"{problem['failure']}{why}"
    return f"{name}: {how}{optimum}"
