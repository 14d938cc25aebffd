"""`llm-planning report`: tables and figures of papers, measured."""

from __future__ import annotations

import json
import os
import shlex
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rich.table import Table

from llm_kernels.files import TargetError, check_target, write_durably
from llm_planning.endings import UsageError, refusing
from llm_planning.experiments.export import provenances_of, read_export
from llm_planning.experiments.grid_file import SweepConfigError, sweep_name
from llm_planning.experiments.ledger import Ledger
from llm_planning.experiments.paper_report import PaperReport, report
from llm_planning.experiments.papers import Paper, PublishedError, find_paper
from llm_planning.experiments.plots import PICTURES
from llm_planning.experiments.plots import picture as draw_picture
from llm_planning.experiments.report_text import as_csv, markdown
from llm_planning.experiments.report_text import as_json as as_values
from llm_planning.experiments.runs import read_runs, runs_of
from llm_planning.experiments.sweep_files import shown_sweep
from llm_serving.terminal import SafeConsole, literal, say

if TYPE_CHECKING:
    from llm_planning.experiments.published import PublishedTable

_SWEEPS = Path("sweeps")


class NoSweepError(ValueError):
    """The sweep that measures a table was not run."""


def paper(
    name: str,
    table: str,
    *,
    source: Path | None,
    csv: Path | None,
    picture: Path | None,
    as_json: bool,
) -> None:
    """Prints a table of a paper as Markdown, with what a sweep measured beside it.

    Args:
        name: of the paper.
        table: of the paper.
        source: folder of the sweep, or a file that `sweep export` wrote; by default the folder of
            the table's own sweep.
        csv: file for every cell.
        picture: file to draw it into.
        as_json: whether to print JSON.
    """
    with refusing(PublishedError, SweepConfigError):
        chosen = find_paper(name)
        chosen.table(table)  # a wrong name is reported before a missing sweep
        _check_files(csv, picture)
        sweep = source or _default_folder(chosen, table)
    if os.path.isfile(sweep):
        records = read_export(sweep)
        runs, provenance = runs_of(records), provenances_of(records)
    else:
        _check_folder(sweep, chosen, table)
        with Ledger.open(sweep) as ledger:
            runs = read_runs(ledger)
            provenance = {name: dict(known) for name, known in ledger.provenances.items()}
    made = report(chosen, table, runs)
    _write_files(made, csv, picture)
    if as_json:
        about = {"sweep": str(sweep), "provenance": provenance}
        say(json.dumps({**as_values(made), **about}))
    else:
        say(markdown(made, {"sweep": sweep}).removesuffix("\n"))


def list_tables(name: str, *, as_json: bool) -> None:
    """Lists the tables of a paper, and which of their columns are measured."""
    with refusing(PublishedError):
        paper = find_paper(name)
        tables = {key: paper.table(key) for key in paper.tables()}
    if as_json:
        say(
            json.dumps(
                {
                    "paper": paper.name,
                    "title": paper.title,
                    "citation": paper.citation,
                    "tables": [
                        {"name": key, **_columns(table), "sweeps": _sweeps(paper, key)}
                        for key, table in tables.items()
                    ],
                }
            )
        )
        return
    shown = Table("table", "what", "measured", "cited only")
    for key, table in tables.items():
        columns = _columns(table)
        shown.add_row(
            literal(key),
            literal(columns["title"]),
            literal(", ".join(columns["measured"])),
            literal(", ".join([*columns["cited"], *columns["cited_rows"]])),
        )
    console = SafeConsole()
    console.print(literal(f"{paper.title}. {paper.citation}"), soft_wrap=True)
    console.print(shown)
    for key in tables:
        for sweep in _sweeps(paper, key):
            # Below the table, where lines are not folded, so that commands can be copied.
            console.print(literal(_run_command(sweep)), soft_wrap=True)


def _columns(table: PublishedTable) -> dict[str, Any]:
    return {
        "title": table.title,
        "measured": [column.label for column in table.columns if column.measure is not None],
        "cited": [column.label for column in table.columns if column.measure is None],
        "cited_rows": [str(row.label) for row in table.rows if row.cited is not None],
    }


def _sweeps(paper: Paper, table: str) -> list[str]:
    return [shown_sweep(path) for path in paper.sweeps(table)]


def _default_folder(paper: Paper, table: str) -> Path:
    sweeps = paper.sweeps(table)
    if not sweeps:
        raise UsageError(
            f"no sweep measures {paper.name} {table}; name a folder or a file with --from"
        )
    return _SWEEPS / sweep_name(sweeps[0])


def _check_folder(folder: Path, paper: Paper, table: str) -> None:
    """Makes the error for a missing folder, with the command that fills it."""
    if os.path.isdir(folder):
        return
    ways = [f"`{_run_command(sweep)}`" for sweep in _sweeps(paper, table)]
    others = [_SWEEPS / sweep_name(path) for path in paper.sweeps(table)]
    ways += [
        f"read the one that was run with --from {shlex.quote(str(other))}"
        for other in others
        if os.path.isdir(other)
    ]
    raise NoSweepError(f"no sweep was run in {folder}; run one: {' or '.join(ways)}")


def _check_files(csv: Path | None, picture: Path | None) -> None:
    """Checks before measuring that the files can be written."""
    for option, path in (("--csv", csv), ("--plot", picture)):
        if path is not None:
            try:
                check_target(path)
            except TargetError as error:
                raise UsageError(f"{option}: {error}") from error
    if picture is not None and picture.suffix.lower() not in PICTURES:
        raise UsageError(f"--plot {picture}: a picture's name ends in {', '.join(PICTURES)}")


def _write_files(made: PaperReport, csv: Path | None, picture: Path | None) -> None:
    if picture is not None:
        write_durably(picture, draw_picture(made, picture.suffix))
    if csv is not None:
        write_durably(csv, as_csv(made).encode())


def _run_command(sweep: str) -> str:
    return f"llm-planning sweep run {shlex.quote(sweep)}"
