"""What a trace says of its end: the outcome and the planner's summary, as far as they are there."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from llm_planning.events import Event


def summary_there(events: Sequence[Event]) -> dict[str, Any]:
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


def outcome_there(events: Sequence[Event]) -> dict[str, Any]:
    """Success, plan, metrics and seconds of the outcome, each empty where no line has it.

    Of a trace that is cut off, the plan is what was carried out.
    """
    line = next((event for event in events if event["type"] == "outcome"), {})
    carried_out = [str(event.get("action", "")) for event in events if event["type"] == "execution"]
    success, plan, metrics, seconds = (
        line.get(key) for key in ("success", "plan", "metrics", "seconds")
    )
    return {
        "success": success if isinstance(success, bool) else None,
        "plan": [str(option) for option in plan] if isinstance(plan, list) else carried_out,
        "metrics": metrics if isinstance(metrics, dict) else {},
        "seconds": float(seconds) if isinstance(seconds, int | float) else None,
    }


def broken_off(summary: Mapping[str, Any]) -> str | None:
    """What ended a run before its end, in one sentence; None if nothing did.

    Args:
        summary: its `raised` are the lines of the error, of which the last one says what it was.
    """
    raised = summary.get("raised")
    lines = [str(line) for line in raised if str(line).strip()] if isinstance(raised, list) else []
    return f"The run was broken off: {lines[-1].strip()}" if lines else None
