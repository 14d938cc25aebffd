"""`llm-planning sweep status|report|export`: what a ledger holds, at any time."""

from __future__ import annotations

import json
import sys
from collections import Counter
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.console import Console
from rich.table import Table
from rich.text import Text

from llm_planning.experiments.export import export as export_ledger
from llm_planning.experiments.ledger import Ledger, LedgerError
from llm_planning.experiments.runs import UnknownFieldError
from llm_planning.experiments.summary import summary
from llm_serving.request import Usage

if TYPE_CHECKING:
    from llm_planning.experiments.summary import Summary

FolderArgument = Annotated[Path, typer.Argument(metavar="FOLDER", help="The sweep's folder.")]
ByOption = Annotated[
    list[str], typer.Option(metavar="FIELD", help="Group by this field; may be repeated.")
]
TableOption = Annotated[
    Path, typer.Option("--out", metavar="FILE", help="Ends in .csv or .parquet.")
]
JsonOption = Annotated[bool, typer.Option("--json", help="Print one JSON object instead.")]

_LONGEST_LINE = 200


def status(folder: FolderArgument, *, as_json: JsonOption = False) -> None:
    """Shows how far a sweep is, also while it runs; exits with 1 if it cannot be read."""
    try:
        with Ledger.open(folder) as ledger:
            found = _status(ledger)
    except LedgerError as error:
        raise failure(error, 1) from error
    if as_json:
        typer.echo(json.dumps({"folder": str(folder), **found}))
        return
    console = Console()
    console.print(
        Text(
            f"{found['name']}: {found['finished']} of {found['total']} trials finished, "
            f"{found['done']} done, {found['failed']} failed, {found['left']} left"
        ),
        soft_wrap=True,
    )
    console.print(
        Text(
            f"{found['calls']} calls, {found['prompt_tokens']} tokens read, "
            f"{found['completion_tokens']} written"
        ),
        soft_wrap=True,
    )
    for reason, count in found["errors"].items():
        console.print(Text(f"{count} x {_shortened(reason)}"), soft_wrap=True)


def report(folder: FolderArgument, *, by: ByOption = [], as_json: JsonOption = False) -> None:  # noqa: B006 - typer reads the default, nobody changes it
    """Shows success, calls, tokens and seconds of each planner and setting, with intervals.

    Exits with 1 if the sweep cannot be read; with 2 for a field that trials do not have.
    """
    try:
        with Ledger.open(folder) as ledger:
            found = summary(ledger.rows(), by=by or None, expected=ledger.trials)
    except LedgerError as error:
        raise failure(error, 1) from error
    except UnknownFieldError as error:
        raise failure(error, 2) from error
    if as_json:
        typer.echo(json.dumps({"folder": str(folder), "groups": _groups(found)}))
        return
    table = Table(*found.header)
    for cells in found.cells:
        table.add_row(*map(Text, cells))
    # A pipe has no width: no cell need be cut.
    Console(width=None if sys.stdout.isatty() else 200).print(table)


def export(folder: FolderArgument, *, out: TableOption, as_json: JsonOption = False) -> None:
    """Writes a row for every finished trial to a CSV or Parquet file; exits with 1 if it cannot."""
    try:
        with Ledger.open(folder) as ledger:
            rows = export_ledger(ledger, out)
    except LedgerError as error:
        raise failure(error, 1) from error
    if as_json:
        typer.echo(json.dumps({"folder": str(folder), "file": str(out), "rows": rows}))
    else:
        typer.echo(f"{out}: {rows} rows")


def _status(ledger: Ledger) -> dict[str, Any]:
    sweep = ledger.sweep
    counts: Counter[str] = Counter()
    errors: Counter[str] = Counter()
    spent = Usage()
    for row in ledger.rows():
        counts[row.status] += 1
        spent = sum(row.usage.values(), start=spent)
        if row.error is not None:
            errors[row.error] += 1
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
    """One line that fits a terminal's few; the whole is in the JSON and in the ledger."""
    line = " ".join(text.split())
    return line if len(line) <= _LONGEST_LINE else f"{line[:_LONGEST_LINE]}..."


def failure(error: Exception, code: int) -> typer.Exit:
    """Says what went wrong; raise what it returns."""
    typer.echo(f"error: {error}", err=True)
    return typer.Exit(code)
