"""The command line of `llm-planning report`."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Annotated

import typer

from llm_planning.cli.options import JsonOption, Work, named_path

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
    as_json: JsonOption = False,
) -> Work:
    """Prints a table of a paper as Markdown, with what a sweep measured beside it.

    Exits with 1 if the sweep was not run or its ledger or export cannot be read; with 2 for a
    paper or a table that does not exist, a file that cannot be written, or a file of theirs that
    says something impossible.
    """
    from llm_planning.commands import report as commands

    if table is None:
        return partial(commands.list_tables, name, as_json=as_json)
    return partial(
        commands.paper, name, table, source=source, csv=csv, picture=picture, as_json=as_json
    )
