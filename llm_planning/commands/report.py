"""`llm-planning report`: tables and figures of papers, measured."""

from __future__ import annotations

import json
import shlex
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.console import Console
from rich.table import Table
from rich.text import Text

from llm_kernels.files import write_durably
from llm_planning.experiments.grid import SweepConfigError, sweep_name
from llm_planning.experiments.ledger import Ledger, LedgerError
from llm_planning.experiments.measures import MeasureError
from llm_planning.experiments.paper_report import EmptyReportError, PaperReport, report
from llm_planning.experiments.papers import Paper, PublishedError, find_paper
from llm_planning.experiments.plots import PICTURES, PlotError
from llm_planning.experiments.plots import picture as draw_picture
from llm_planning.experiments.report_text import TemplateFileError, as_csv, as_json, markdown
from llm_planning.experiments.runs import UnknownFieldError, read_runs

if TYPE_CHECKING:
    from llm_planning.experiments.published import PublishedTable

app = typer.Typer(no_args_is_help=True, help="Tables and figures, made from ledgers alone.")

PaperArgument = Annotated[str, typer.Argument(metavar="NAME", help="A paper, such as `too`.")]
TableArgument = Annotated[
    str | None, typer.Argument(metavar="TABLE", help="One of its tables; lists them if left out.")
]
FromOption = Annotated[
    Path | None,
    typer.Option("--from", metavar="FOLDER", help="The sweep's folder; ./sweeps/<its name>."),
]
CsvOption = Annotated[
    Path | None, typer.Option("--csv", metavar="FILE", help="Write every cell, unrounded.")
]
PlotOption = Annotated[
    Path | None,
    typer.Option("--plot", metavar="FILE", help=f"Draw it: {', '.join(PICTURES)}."),
]
JsonOption = Annotated[bool, typer.Option("--json", help="Print one JSON object instead.")]

_SWEEPS = Path("sweeps")


class _UsageError(ValueError):
    """The command line asks for something that there is not."""


@app.callback()
def choose() -> None:
    """Tables and figures, made from ledgers alone."""


@app.command()
def paper(
    name: PaperArgument,
    table: TableArgument = None,
    *,
    folder: FromOption = None,
    csv: CsvOption = None,
    picture: PlotOption = None,
    as_json_: JsonOption = False,
) -> None:
    """Prints a table of a paper as Markdown, with what a sweep measured beside it.

    Exits with 1 if the sweep was not run or its ledger cannot be read; with 2 for a paper or a
    table that does not exist, or a file of theirs that says something impossible.
    """
    try:
        chosen = find_paper(name)
        if table is None:
            _list(chosen, as_json=as_json_)
            return
        chosen.table(table)  # before a missing sweep, a wrong name
        _check_files(csv, picture)
        sweep = folder or _default_folder(chosen, table)
    except (PublishedError, SweepConfigError, _UsageError) as error:
        raise _failure(error, 2) from error
    try:
        _check_folder(sweep, chosen, table)
        with Ledger.open(sweep) as ledger:
            runs = read_runs(ledger)
            provenance = {name: dict(known) for name, known in ledger.provenances.items()}
        made = report(chosen, table, runs)
        _write_files(made, csv, picture)
        if as_json_:
            typer.echo(json.dumps({**as_json(made), "sweep": str(sweep), "provenance": provenance}))
        else:
            typer.echo(markdown(made, {"sweep": sweep}), nl=False)
    except (
        EmptyReportError,
        LedgerError,
        MeasureError,
        OSError,
        PlotError,
        SweepConfigError,
        TemplateFileError,
        UnknownFieldError,
        _UsageError,
    ) as error:
        raise _failure(error, 1) from error


def _list(paper: Paper, *, as_json: bool) -> None:
    """Lists the tables of a paper, and which of their columns are measured."""
    tables = {name: paper.table(name) for name in paper.tables()}
    if as_json:
        typer.echo(
            json.dumps(
                {
                    "paper": paper.name,
                    "title": paper.title,
                    "citation": paper.citation,
                    "tables": [
                        {"name": name, **_columns(table), "sweeps": _sweeps(paper, name)}
                        for name, table in tables.items()
                    ],
                }
            )
        )
        return
    shown = Table("table", "what", "measured", "cited only")
    for name, table in tables.items():
        columns = _columns(table)
        shown.add_row(
            name,
            Text(columns["title"]),
            Text(", ".join(columns["measured"])),
            Text(", ".join([*columns["cited"], *columns["cited_rows"]])),
        )
    console = Console()
    console.print(Text(f"{paper.title}. {paper.citation}"), soft_wrap=True)
    console.print(shown)
    for name in tables:
        for path in _sweeps(paper, name):
            # Below the table, where nothing is folded: commands stay whole when they are copied.
            console.print(Text(_run_command(path)), soft_wrap=True)


def _columns(table: PublishedTable) -> dict[str, Any]:
    return {
        "title": table.title,
        "measured": [column.label for column in table.columns if column.measure is not None],
        "cited": [column.label for column in table.columns if column.measure is None],
        "cited_rows": [str(row.label) for row in table.rows if row.cited is not None],
    }


def _sweeps(paper: Paper, table: str) -> list[str]:
    return [_shown_path(path) for path in paper.sweeps(table)]


def _default_folder(paper: Paper, table: str) -> Path:
    sweeps = paper.sweeps(table)
    if not sweeps:
        raise _UsageError(f"no sweep measures {paper.name} {table}; name a folder with --from")
    return _SWEEPS / sweep_name(sweeps[0])


def _check_folder(folder: Path, paper: Paper, table: str) -> None:
    """Says which command fills a missing folder."""
    if folder.is_dir():
        return
    lines = [f"no sweep was run in {folder}; run one:"]
    for path in paper.sweeps(table):
        lines.append(f"  {_run_command(_shown_path(path))}")
        other = _SWEEPS / sweep_name(path)
        if other.is_dir():
            lines[-1] = f"  or read the one that was run: --from {shlex.quote(str(other))}"
    raise _UsageError("\n".join(lines))


def _check_files(csv: Path | None, picture: Path | None) -> None:
    """Refuses what cannot be written before anything is measured."""
    for option, path in (("--csv", csv), ("--plot", picture)):
        if path is not None and not path.absolute().parent.is_dir():
            raise _UsageError(f"{option} {path}: the folder {path.absolute().parent} is missing")
    if picture is not None and picture.suffix.lower() not in PICTURES:
        raise _UsageError(f"--plot {picture}: a picture's name ends in {', '.join(PICTURES)}")


def _write_files(made: PaperReport, csv: Path | None, picture: Path | None) -> None:
    if picture is not None:
        _write(picture, draw_picture(made, picture.suffix))
    if csv is not None:
        _write(csv, as_csv(made).encode())


def _write(path: Path, content: bytes) -> None:
    """Writes all of a file or nothing; what is no file, such as a pipe, is written to."""
    target = path.resolve()
    if target.exists() and not target.is_file():
        target.write_bytes(content)
    else:
        write_durably(target, content, temporary=target.with_name(f".{target.name}.tmp"))


def _run_command(sweep: str) -> str:
    return f"llm-planning sweep run {shlex.quote(sweep)}"


def _shown_path(path: Path) -> str:
    """From the working directory, where the file is below it."""
    here = Path.cwd()
    return str(path.relative_to(here) if path.is_relative_to(here) else path)


def _failure(error: Exception, code: int) -> typer.Exit:
    typer.echo(f"error: {error}", err=True)
    return typer.Exit(code)
