"""`llm-planning sweep status|report|export`: reads a ledger, at any time."""

from __future__ import annotations

import json
import sys
from collections import Counter
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from rich.table import Table

from llm_kernels.files import TargetError, check_target
from llm_planning.endings import refusing
from llm_planning.experiments.export import export as export_ledger
from llm_planning.experiments.ledger import Ledger
from llm_planning.experiments.runs import UnknownFieldError, read_runs
from llm_planning.experiments.summary import summary
from llm_serving.request import Usage
from llm_serving.terminal import SafeConsole, literal, say

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from llm_planning.experiments.summary import Summary

_LONGEST_LINE = 200


def status(folder: Path, *, as_json: bool) -> None:
    """Shows how far a sweep is, also while it runs."""
    with Ledger.open(folder) as ledger:
        found = _status(ledger)
    if as_json:
        say(json.dumps({"folder": str(folder), **found}))
        return
    console = SafeConsole()
    console.print(
        literal(
            f"{found['name']}: {found['finished']} of {found['total']} trials finished, "
            f"{found['done']} done, {found['failed']} failed, {found['left']} left"
        ),
        soft_wrap=True,
    )
    console.print(
        literal(
            f"{found['calls']} calls, {found['prompt_tokens']} tokens read, "
            f"{found['completion_tokens']} written"
        ),
        soft_wrap=True,
    )
    for reason, count in found["errors"].items():
        console.print(literal(f"{count} x {_shortened(reason)}"), soft_wrap=True)


def report(folder: Path, *, by: Sequence[str], as_json: bool) -> None:
    """Shows success, calls, tokens and seconds of each planner and setting, with intervals."""
    with refusing(UnknownFieldError), Ledger.open(folder) as ledger:
        found = summary(read_runs(ledger), by=by or None)
    if as_json:
        say(json.dumps({"folder": str(folder), "groups": _groups(found)}))
        return
    table = Table()
    for column in found.header:
        table.add_column(literal(column))
    for cells in found.cells:
        table.add_row(*map(literal, cells))
    # A pipe has no width, so cells are not cut.
    SafeConsole(width=None if sys.stdout.isatty() else 200).print(table)


def export(folder: Path, *, out: Path, as_json: bool) -> None:
    """Writes a row for every finished trial to a CSV or Parquet file."""
    with refusing(TargetError):
        check_target(out)
    with Ledger.open(folder) as ledger:
        rows = export_ledger(ledger, out)
    if as_json:
        say(json.dumps({"folder": str(folder), "file": str(out), "rows": rows}))
    else:
        say(f"{out}: {rows} rows")


def _status(ledger: Ledger) -> dict[str, Any]:
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


def _groups(found: Summary) -> list[dict[str, Any]]:
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


def _shortened(text: str) -> str:
    """Shortens a text to a line; the whole text is in the JSON output and in the ledger."""
    line = " ".join(text.split())
    return line if len(line) <= _LONGEST_LINE else f"{line[:_LONGEST_LINE]}..."
