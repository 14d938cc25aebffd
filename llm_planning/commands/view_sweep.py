"""`llm-planning view` of a sweep's folder: its pages as files, or its live page."""

from __future__ import annotations

import os
import sys
import webbrowser
from contextlib import closing
from importlib.util import find_spec
from typing import TYPE_CHECKING

from llm_base.files import TargetError, check_target
from llm_base.terminal import complain, say, say_json
from llm_planning.commands.options import check_writable_folder
from llm_planning.endings import UsageError, refusing
from llm_planning.experiments.ledger import Ledger
from llm_planning.interrupts import sigterm_as_ctrl_c
from llm_planning.viewer.live import LivePages, link_of, listen, serve
from llm_planning.viewer.live_data import LiveSweep
from llm_planning.viewer.sweep_pages import INDEX, live_page, trace_page, write_pages

if TYPE_CHECKING:
    from pathlib import Path

_NICE = 10
"""The live page's priority is this much lower than the sweep's, which may want every core."""

_MOST_NOTES = 5
"""Traces that cannot be read and are told one by one."""

_NEEDED = ("starlette", "uvicorn", "h11")


def write(folder: Path, *, out: Path | None, most: int, open_: bool, as_json: bool) -> None:
    """Writes the pages of a sweep.

    Args:
        out: the folder of the pages, or a file that ends in .html for the sweep's page alone;
            by default a folder in the sweep's.
        most: trials that get a page of their own, at most.
    """
    out = out or folder / "pages"
    alone = out.suffix.lower() in {".html", ".htm"}
    with Ledger.open(folder) as ledger:
        index = out if alone else out / INDEX
        check_writable_folder(index.parent)
        if index.parent.is_dir():
            with refusing(TargetError):
                check_target(index)
        written = write_pages(ledger, index, most=0 if alone else most)
    for reason in written.unreadable[:_MOST_NOTES]:
        complain(f"note: no page of a trial: {reason}")
    if further := written.unreadable[_MOST_NOTES:]:
        complain(f"note: {len(further)} more trials have no page for such reasons")
    if as_json:
        about = {"page": str(index), "trials": written.trials, "traces": written.traces}
        say_json({**about, "pages": written.pages})
    else:
        some = f"{written.pages} of {written.traces}" if written.pages < written.traces else "all"
        say(f"{index}: {written.trials} trials; {some} that left a trace have a page of their own")
        if written.pages + len(written.unreadable) < written.traces and not alone:
            say(f"pages of all: llm-planning view {folder} --trials all")
    if open_ and not webbrowser.open(index.resolve().as_uri()):
        complain(f"note: no web browser could be started: open {index} in one")


def live(folder: Path, *, port: int, open_: bool, as_json: bool) -> None:
    """Shows a sweep to browsers of this machine, until Ctrl-C.

    Args:
        port: of 127.0.0.1; 0 for any that is free.

    Raises:
        KeyboardInterrupt: Ctrl-C or SIGTERM.
    """
    if missing := [name for name in _NEEDED if find_spec(name) is None]:
        raise UsageError(
            f"--live needs {', '.join(missing)}: pip install 'llm-planning[viewer]', or leave it "
            "out for pages without a server"
        )
    os.nice(_NICE)
    with (
        sigterm_as_ctrl_c(),
        Ledger.open(folder) as ledger,
        closing(listen(port)) as listening,
    ):
        sweep = LiveSweep(ledger)
        sweep.read()  # a damaged ledger ends the command now
        link = link_of(listening.getsockname()[1])

        def trial(key: str) -> bytes | None:
            sha256 = sweep.trace_of(key)
            return None if sha256 is None else trace_page(ledger, key, sha256)

        pages = LivePages(page=live_page(), state=sweep.read, trial=trial)
        if as_json:
            say_json({"url": link})
        else:
            say(link)
        sys.stdout.flush()
        complain("note: browsers of this machine can open it; Ctrl-C ends the page")
        if open_:
            webbrowser.open(link)
        serve(pages, listening)
