"""What a trace says of its end: success, plan, cost. Traces of all ages, and damaged ones."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from llm_planning.events import Event


def lenient_summary(events: Iterable[Event]) -> dict[str, Any]:
    """The planner's summary, as far as its lines can be read."""
    summary: dict[str, Any] = {}
    for event in events:
        key = event.get("key")
        if event["type"] != "summary" or not isinstance(key, str) or "value" not in event:
            continue
        if "index" not in event:
            summary[key] = event["value"]
        elif isinstance(items := summary.setdefault(key, []), list):
            items.append(event["value"])
    return summary


def success(events: Iterable[Event], summary: Mapping[str, Any]) -> bool | None:
    """Whether the world says that the goal was reached; None if the trace does not tell.

    A trace of today has an `outcome` line. Of older ones the planners' summaries tell.
    """
    for event in events:
        if event["type"] == "outcome" and isinstance(event.get("success"), bool):
            return bool(event["success"])
    execution = summary.get("execution")
    executions = summary.get("executions")
    said = [
        summary.get("success"),
        execution.get("success") if isinstance(execution, dict) else None,
        *(one.get("won") for one in _objects(executions)),
    ]
    verdicts = [one for one in said if isinstance(one, bool)]
    if verdicts:
        return any(verdicts)
    if isinstance(ending := summary.get("ending"), str) and ending != "over":
        return bool(ending == "victory")
    return None


def plan(events: Iterable[Event], summary: Mapping[str, Any]) -> list[str]:
    """The plan, or what was carried out where the trace has none."""
    carried_out: list[str] = []
    for event in events:
        if event["type"] == "outcome" and isinstance(event.get("plan"), list):
            return [str(option) for option in event["plan"]]
        if event["type"] == "execution":
            carried_out.append(str(event.get("action", "")))
    said = summary.get("plan")
    return [str(option) for option in said] if isinstance(said, list) else carried_out


def metrics(events: Iterable[Event]) -> dict[str, Any]:
    """The metrics of the outcome, if the trace has them."""
    for event in events:
        if event["type"] == "outcome" and isinstance(event.get("metrics"), dict):
            return dict(event["metrics"])
    return {}


def seconds(events: Iterable[Event]) -> float | None:
    """How long the run took; None if the trace does not tell."""
    for event in events:
        if event["type"] == "outcome" and isinstance(event.get("seconds"), int | float):
            return float(event["seconds"])
    return None


def _objects(value: object) -> list[dict[str, Any]]:
    return [one for one in value if isinstance(one, dict)] if isinstance(value, list) else []
