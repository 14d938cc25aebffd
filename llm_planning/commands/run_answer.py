"""What `llm-planning run` answers, to people and as JSON."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from rich.table import Table

from llm_planning.roles.oracles import tell
from llm_serving.encoder_engine import NO_MODEL
from llm_serving.request import Usage
from llm_serving.terminal import SafeConsole, literal, say

if TYPE_CHECKING:
    from collections.abc import Mapping

    from llm_planning.outcome import Outcome
    from llm_planning.running import PlannerRun

_TOLD = ("problems", "executions")
"""Parts of a trace that `--json` prints: each problem, or each execution with its programs, what
the world said of them, and its verdict."""


def report_of(outcome: Outcome, record: PlannerRun, *, model: str) -> dict[str, Any]:
    """All that `--json` prints."""
    return {
        "success": outcome.success,
        "model": model,
        "metrics": dict(outcome.metrics),
        "plan": list(outcome.plan),
        **{key: outcome.trace[key] for key in _TOLD if key in outcome.trace},
        "oracles": list(outcome.trace.get("oracles", ())),
        "seconds": round(record.seconds, 3),
        "usage": {
            "total": _counts(_total(record.usage)),
            "roles": {role: _counts(one) for role, one in record.usage.items()},
        },
    }


def _counts(usage: Usage) -> dict[str, int]:
    return {
        "calls": usage.calls,
        "prompt_tokens": usage.prompt_tokens,
        "cached_tokens": usage.cached_tokens,
        "completion_tokens": usage.completion_tokens,
    }


def _total(usage: Mapping[str, Usage]) -> Usage:
    return sum(usage.values(), Usage())


def print_answer(outcome: Outcome, record: PlannerRun, *, model: str) -> None:
    """Prints the plan, how it was found and what it cost."""
    console = SafeConsole()
    say(outcome.text)
    console.print()
    if "problems" in outcome.trace:
        console.print("Plans: --json has that of each problem")
    else:
        console.print(literal("Plan", "bold"))
        for number, option in enumerate(outcome.plan, start=1):
            console.print(literal(f"  {number}. {option}"), soft_wrap=True)
        if not outcome.plan:
            console.print("  (empty)")
    console.print()
    for key, value in {"success": outcome.success, **outcome.metrics}.items():
        console.print(literal(f"{key}: {value}"), soft_wrap=True)
    for line in tell(outcome.trace.get("oracles", ())):
        console.print(literal(f"oracle of {line}"), soft_wrap=True)
    table = Table("role", "calls", "replayed", "prompt tokens", "cached", "written", "seconds")
    for column in table.columns[1:]:
        column.justify = "right"
    for role, one in [*record.usage.items(), ("total", _total(record.usage))]:
        table.add_row(
            literal(role),
            str(one.calls),
            str(one.replayed),
            str(one.prompt_tokens),
            str(one.cached_tokens),
            str(one.completion_tokens),
            f"{one.seconds:.1f}",
        )
    console.print(table)
    by = "" if model == NO_MODEL else f" with {model}"
    console.print(literal(f"planned in {record.seconds:.1f} s{by}"))
