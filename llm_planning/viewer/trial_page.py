"""The page of a trial: one trace, or two side by side."""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from llm_planning.viewer.columns import Columns
from llm_planning.viewer.difference import first_difference
from llm_planning.viewer.ending import broken_off, outcome_there, summary_there
from llm_planning.viewer.page import page
from llm_planning.viewer.texts import json_text

if TYPE_CHECKING:
    from collections.abc import Sequence

    from llm_planning.viewer.reading import ReadTrace

_IN_TREE = "tree"
"""The part of a summary that the page has at the edges of the tree, or from `subtask` lines."""


def trial_page(traces: Sequence[ReadTrace]) -> bytes:
    """The HTML of a page of one trace, or of two."""
    blocks: dict[str, bytes] = {}
    for place, trace in enumerate(traces):
        blocks |= {f"{place}-{name}": content for name, content in _blocks(trace).items()}
    about: dict[str, Any] = {"traces": len(traces), "difference": None}
    if len(traces) == 2:
        difference = first_difference(traces[0].events, traces[1].events)
        about["difference"] = difference and asdict(difference)
    blocks["page"] = json_text(about).encode()
    return page("trial", title=" and ".join(map(_title, traces)), blocks=blocks)


def _title(trace: ReadTrace) -> str:
    words = [str(trace.header[key]) for key in ("planner", "task") if key in trace.header]
    return " · ".join([*words, trace.name])


def _blocks(trace: ReadTrace) -> dict[str, bytes]:
    """What the page reads of one trace."""
    columns = Columns(trace.events)
    summary = summary_there(trace.events)
    nodes = columns.nodes
    columns.detail_tree(summary.pop(_IN_TREE, None))
    unused = [
        f"{number} of its `{kind}` lines say something that cannot be: they are left out."
        for kind, number in columns.unused.items()
    ]
    ended = broken_off(summary)
    content, places = columns.packed()
    about = {
        "name": trace.name,
        "header": trace.header,
        "damage": [*([ended] if ended else []), *trace.damage, *unused],
        **outcome_there(trace.events),
        "nodes": nodes,
        "summary": summary,
        "prompts": columns.prompts,
        "strings": columns.strings.listed(),
        "starts": columns.texts.starts,
        "columns": places,
    }
    chunks = {f"texts-{place}": chunk for place, chunk in enumerate(columns.texts.chunks())}
    return {"about": json_text(about).encode(), "columns": content, **chunks}
