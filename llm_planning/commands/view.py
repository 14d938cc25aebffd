"""`llm-planning view`: a trace, or two, as a page."""

from __future__ import annotations

import json
import webbrowser
from pathlib import Path
from typing import TYPE_CHECKING

from llm_kernels.files import TargetError, check_target, write_durably
from llm_planning.endings import refusing
from llm_planning.viewer.reading import read_trace
from llm_planning.viewer.trial_page import trial_page
from llm_serving.terminal import complain, say

if TYPE_CHECKING:
    from llm_planning.viewer.reading import ReadTrace

_ENDINGS = (".gz", ".jsonl", ".json")


def view(trace: Path, other: Path | None, *, out: Path | None, open_: bool, as_json: bool) -> None:
    """Writes the page of a trace; the arguments are those of the command line."""
    out = out or default_page(trace)
    with refusing(TargetError):
        check_target(out)
    traces = [read_trace(path) for path in (trace, other) if path is not None]
    for one in traces:
        for sentence in one.damage:
            complain(f"note: {one.name}: {sentence}")
    write_durably(out, trial_page(traces))
    if as_json:
        say(json.dumps({"page": str(out), "traces": [_told(one) for one in traces]}))
    else:
        say(f"{out}")
    if open_ and not webbrowser.open(out.resolve().as_uri()):
        complain(f"note: no web browser could be started: open {out} in one")


def default_page(trace: Path) -> Path:
    """The page of a trace in the working directory, named after it."""
    name = trace.name
    for ending in _ENDINGS:
        name = name.removesuffix(ending) or name
    return Path(f"{name}.html")


def _told(one: ReadTrace) -> dict[str, object]:
    return {"name": one.name, "events": len(one.events), "damage": list(one.damage)}
