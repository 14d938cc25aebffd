"""The command line of `llm-planning view`."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Annotated

import typer

from llm_planning.cli.options import JsonOption, Work, named_path

TraceArgument = Annotated[
    Path,
    typer.Argument(metavar="TRACE", parser=named_path, help="A trace: .json, .jsonl or .jsonl.gz."),
]
OtherArgument = Annotated[
    Path | None,
    typer.Argument(metavar="OTHER", parser=named_path, help="A second trace, to be put beside it."),
]
OutOption = Annotated[
    Path | None,
    typer.Option(
        metavar="FILE", parser=named_path, help="The page.  [default: ./NAME.html, by the trace]"
    ),
]
OpenOption = Annotated[bool, typer.Option("--open", help="Open the page in the web browser.")]


def view(
    trace: TraceArgument,
    other: OtherArgument = None,
    *,
    out: OutOption = None,
    open_: OpenOption = False,
    as_json: JsonOption = False,
) -> Work:
    """Writes a trace as a page: one HTML file that works from disk, offline.

    What is missing of a damaged trace is said on the page and on standard error. Exits with 1 if a
    trace cannot be read or holds no line; with 2 if the page cannot be written there.
    """
    from llm_planning.commands import view as commands

    return partial(commands.view, trace, other, out=out, open_=open_, as_json=as_json)
