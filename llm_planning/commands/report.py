"""`llm-planning report`: tables and figures of papers, measured."""

from __future__ import annotations

import os
import shlex
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from llm_planning.commands.options import JsonOption, VerboseOption, named_path
from llm_planning.endings import UsageError, refusing

if TYPE_CHECKING:
    from llm_planning.experiments.paper_report import PaperReport
    from llm_planning.experiments.papers import Paper
    from llm_planning.experiments.published import PublishedTable

app = typer.Typer(help="Tables and figures of papers, beside what sweeps measured.")

PaperArgument = Annotated[str, typer.Argument(metavar="NAME", help="A paper, such as `too`.")]
TableArgument = Annotated[
    str | None,
    typer.Argument(metavar="TABLE", help="One of its tables; without it, they are listed."),
]
FromOption = Annotated[
    Path | None,
    typer.Option(
        "--from",
        metavar="PATH",
        parser=named_path,
        help="The sweep's folder, or its export: .csv or .parquet.  [default: ./sweeps/NAME]",
    ),
]
CsvOption = Annotated[
    Path | None,
    typer.Option(
        "--csv",
        metavar="FILE",
        parser=named_path,
        help="Write every cell, unrounded, to this file.",
    ),
]
PlotOption = Annotated[
    Path | None,
    typer.Option(
        "--plot",
        metavar="FILE",
        parser=named_path,
        help="Draw it into this file: .png, .svg or .pdf.",
    ),
]


_SWEEPS = Path("sweeps")


class NoSweepError(ValueError):
    """The sweep that measures a table was not run."""


@app.callback()
def choose() -> None:
    """Tables and figures of papers, beside what sweeps measured."""


@app.command()
def paper(
    name: PaperArgument,
    table: TableArgument = None,
    *,
    source: FromOption = None,
    csv: CsvOption = None,
    picture: PlotOption = None,
    verbose: VerboseOption = False,
    as_json: JsonOption = False,
) -> None:
    """Prints a table of a paper as Markdown, with what a sweep measured beside it.

    How many of the paper's figures hold comes first.

    Exits with 1 if the sweep was not run or its ledger or export cannot be read; with 2 for a
    paper or a table that does not exist, a file that cannot be written, or a file of theirs that
    says something impossible.
    """
    from llm_base.terminal import say, say_json
    from llm_planning.experiments.export import provenances_of, read_export
    from llm_planning.experiments.ledger import Ledger
    from llm_planning.experiments.paper_report import as_json as as_values
    from llm_planning.experiments.paper_report import markdown, report
    from llm_planning.experiments.papers import PublishedError, find_paper
    from llm_planning.experiments.runs import mark_equal_seeds, read_trials, runs_of
    from llm_planning.experiments.sweep_files import SweepConfigError

    with refusing(PublishedError, SweepConfigError):
        chosen = find_paper(name)
        if table is None:
            _list_tables(chosen, as_json=as_json)
            return
        chosen.table(table)  # a wrong name is reported before a missing sweep
        _check_files(csv, picture)
        sweep = source or _default_folder(chosen, table)
    if os.path.isfile(sweep):
        records = read_export(sweep)
        runs, provenance = runs_of(records), provenances_of(records)
    else:
        _check_folder(sweep, chosen, table)
        with Ledger.open(sweep) as ledger:
            runs = mark_equal_seeds(read_trials(ledger), ledger)
            provenance = {name: dict(known) for name, known in ledger.provenances.items()}
    measured = report(chosen, table, runs)
    _write_files(measured, csv, picture)
    if as_json:
        say_json({**as_values(measured), "sweep": str(sweep), "provenance": provenance})
    else:
        say(markdown(measured, sweep=sweep, verbose=verbose).removesuffix("\n"))


def _list_tables(paper: Paper, *, as_json: bool) -> None:
    """Lists the tables of a paper, and which of their columns are measured."""
    from rich.table import Table

    from llm_base.terminal import SafeConsole, literal, say_json

    tables = {key: paper.table(key) for key in paper.tables()}
    if as_json:
        listed = [
            {"name": key, **_columns(table), "sweeps": _sweeps(paper, key)}
            for key, table in tables.items()
        ]
        about = {"paper": paper.name, "title": paper.title, "citation": paper.citation}
        say_json({**about, "tables": listed})
        return
    listing = Table("table", "what", "measured", "cited only")
    for key, table in tables.items():
        columns = _columns(table)
        listing.add_row(
            literal(key),
            literal(columns["title"]),
            literal(", ".join(columns["measured"])),
            literal(", ".join([*columns["cited"], *columns["cited_rows"]])),
        )
    console = SafeConsole()
    console.print(literal(f"{paper.title}. {paper.citation}"), soft_wrap=True)
    console.print(listing)
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
    from llm_planning.experiments.sweep_files import sweep_argument

    return [sweep_argument(path) for path in paper.sweeps(table)]


def _default_folder(paper: Paper, table: str) -> Path:
    from llm_planning.experiments.grid_file import sweep_name

    sweeps = paper.sweeps(table)
    if not sweeps:
        raise UsageError(
            f"no sweep measures {paper.name} {table}; name a folder or a file with --from"
        )
    return _SWEEPS / sweep_name(sweeps[0])


def _check_folder(folder: Path, paper: Paper, table: str) -> None:
    """Makes the error for a missing folder, with the command that fills it."""
    from llm_planning.experiments.grid_file import sweep_name

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
    from llm_base.files import TargetError, check_target
    from llm_planning.experiments.plots import PICTURES

    for option, path in (("--csv", csv), ("--plot", picture)):
        if path is not None:
            try:
                check_target(path)
            except TargetError as error:
                raise UsageError(f"{option}: {error}") from error
    if picture is not None and picture.suffix.lower() not in PICTURES:
        raise UsageError(f"--plot {picture}: a picture's name ends in {', '.join(PICTURES)}")


def _write_files(report: PaperReport, csv: Path | None, picture: Path | None) -> None:
    from llm_base.files import write_durably
    from llm_planning.experiments.paper_report import as_csv
    from llm_planning.experiments.plots import picture as draw_picture

    if picture is not None:
        write_durably(picture, draw_picture(report, picture.suffix))
    if csv is not None:
        write_durably(csv, as_csv(report).encode())


def _run_command(sweep: str) -> str:
    return f"llm-planning sweep run {shlex.quote(sweep)}"
