"""The result of every planner."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

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
    unrepeatable: frozenset[str] = frozenset()
