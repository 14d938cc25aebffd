"""`llm-planning view`: a trace, or two, as a page; a sweep as pages."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Annotated

import typer

from llm_planning.commands.options import MOST, JsonOption, named_path
from llm_planning.endings import UsageError, refusing

_USUAL_PAGES = 200
"""Trials of a sweep that get a page, unless the user says how many."""


def _pages(text: str) -> int:
    """How many trials get a page.

    Raises:
        typer.BadParameter: it is neither `all`, nor `none`, nor a whole number.
    """
    if text in {"all", "none"}:
        return MOST if text == "all" else 0
    if text.isascii() and text.isdecimal() and len(text) <= len(str(MOST)):
        return int(text)
    raise typer.BadParameter("write `all`, `none` or a whole number")


TraceArgument = Annotated[
    Path,
    typer.Argument(
        metavar="TRACE",
        parser=named_path,
        help="A trace (.json, .jsonl or .jsonl.gz), or a sweep's folder.",
    ),
]
OtherArgument = Annotated[
    Path | None,
    typer.Argument(metavar="OTHER", parser=named_path, help="A second trace, to be put beside it."),
]
OutOption = Annotated[
    Path | None,
    typer.Option(
        metavar="FILE",
        parser=named_path,
        help="The page; of a sweep a folder, or a file that ends in .html.  [default: ./NAME.html, "
        "by the trace; FOLDER/pages of a sweep]",
    ),
]
OpenOption = Annotated[bool, typer.Option("--open", help="Open the page in the web browser.")]
TrialsOption = Annotated[
    int | None,
    typer.Option(
        metavar="all|none|N",
        parser=_pages,
        help=f"Trials of a sweep that get a page.  [default: {_USUAL_PAGES}]",
    ),
]
LiveOption = Annotated[
    bool, typer.Option("--live", help="Show a sweep while it runs, on this machine alone.")
]
PortOption = Annotated[
    int | None,
    typer.Option(
        min=0, max=65535, metavar="N", help="Port of --live.  [default: any that is free]"
    ),
]


def view(
    trace: TraceArgument,
    other: OtherArgument = None,
    *,
    out: OutOption = None,
    open_: OpenOption = False,
    trials: TrialsOption = None,
    live: LiveOption = False,
    port: PortOption = None,
    as_json: JsonOption = False,
) -> None:
    """Writes a trace, or a sweep and its trials, as pages that work from disk, offline.

    The page of a trace is one HTML file. What is missing of a damaged trace is said on the page and
    on standard error. Of a sweep's folder, the pages are the sweep's own and those of some trials:
    the first of every planner and task, then the second, and so on.

    With --live, a sweep that runs is shown at a link that every browser of this machine can open,
    until Ctrl-C.

    Exits with 1 if a trace or a sweep cannot be read; with 2 if a page cannot be written there.
    """
    is_sweep = live or os.path.isdir(trace)
    if other is not None and is_sweep:
        raise UsageError(
            "OTHER is for two traces: leave it out; to compare sweeps, join what "
            "`llm-planning sweep export` writes of each"
        )
    for option, odd, needed in (
        ("--trials", trials is not None and (live or not is_sweep), "a sweep without --live"),
        ("--out", out is not None and live, "pages without --live, which writes none"),
        ("--port", port is not None and not live, "--live"),
    ):
        if odd:
            raise UsageError(f"{option} is for {needed}: leave it out")
    if not is_sweep:
        _write_page(trace, other, out=out, open_=open_, as_json=as_json)
        return
    from llm_planning.commands import view_sweep

    if live:
        view_sweep.live(trace, port=port or 0, open_=open_, as_json=as_json)
    else:
        most = _USUAL_PAGES if trials is None else trials
        view_sweep.write(trace, out=out, most=most, open_=open_, as_json=as_json)


def _write_page(
    trace: Path, other: Path | None, *, out: Path | None, open_: bool, as_json: bool
) -> None:
    import webbrowser

    from llm_base.files import TargetError, check_target, write_durably
    from llm_base.terminal import complain, say, say_json
    from llm_planning.viewer.reading import read_trace
    from llm_planning.viewer.trial_page import trial_page

    out = out or default_page(trace)
    with refusing(TargetError):
        check_target(out)
    traces = [read_trace(path) for path in (trace, other) if path is not None]
    for opened in traces:
        for sentence in opened.damage:
            complain(f"note: {opened.name}: {sentence}")
    write_durably(out, trial_page(traces))
    if as_json:
        about = [
            {"name": opened.name, "events": len(opened.events), "damage": list(opened.damage)}
            for opened in traces
        ]
        say_json({"page": str(out), "traces": about})
    else:
        say(f"{out}")
    if open_ and not webbrowser.open(out.resolve().as_uri()):
        complain(f"note: no web browser could be started: open {out} in one")


def default_page(trace: Path) -> Path:
    """The page of a trace in the working directory, named after it."""
    name = trace.name
    for ending in (".gz", ".jsonl", ".json"):
        name = name.removesuffix(ending) or name
    return Path(f"{name}.html")
