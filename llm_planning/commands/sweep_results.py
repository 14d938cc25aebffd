"""What a ledger holds, at any time, as JSON."""

from __future__ import annotations

from collections import Counter
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from llm_serving.request import Usage

if TYPE_CHECKING:
    from llm_planning.experiments.ledger import Ledger
    from llm_planning.experiments.summary import Summary

_LONGEST_LINE = 200


def status_of(ledger: Ledger) -> dict[str, Any]:
    """How far a sweep is, what it cost, and why trials failed."""
    sweep = ledger.sweep
    counts: Counter[str] = Counter()
    errors: Counter[str] = Counter()
    spent = Usage()
    for row in ledger.rows():
        result = row.result
        counts[result.status] += 1
        spent = sum(result.usage.values(), start=spent)
        if result.error is not None:
            errors[result.error] += 1
    total = len(sweep["trials"])
    return {
        "name": sweep["name"],
        "total": total,
        "finished": counts.total(),
        "done": counts["done"],
        "failed": counts["failed"],
        "left": total - counts.total(),
        "retrying": len(ledger.attempts()),
        "calls": spent.calls,
        "prompt_tokens": spent.prompt_tokens,
        "completion_tokens": spent.completion_tokens,
        "errors": dict(errors.most_common()),
    }


def groups_of(found: Summary) -> list[dict[str, Any]]:
    """Each group of runs with its estimates."""
    return [
        {
            "by": dict(zip(found.by, group.values, strict=True)),
            "done": group.done,
            "failed": group.failed,
            "not_run": group.pending,
            **{name: asdict(one.estimate) for name, one in group.measured.items()},
        }
        for group in found.groups
    ]


def shortened(text: str) -> str:
    """Shortens a text to a line; the whole text is in the JSON output and in the ledger."""
    line = " ".join(text.split())
    return line if len(line) <= _LONGEST_LINE else f"{line[:_LONGEST_LINE]}..."
