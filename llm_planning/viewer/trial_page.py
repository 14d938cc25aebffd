"""The page of a trial: one trace, or two side by side."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from llm_planning.viewer.page import page

if TYPE_CHECKING:
    from collections.abc import Sequence

    from llm_planning.viewer.reading import ReadTrace


def trial_page(traces: Sequence[ReadTrace]) -> bytes:
    """The HTML of a page of one trace, or of two."""
    about = [
        {"name": one.name, "header": one.header, "damage": one.damage, "events": len(one.events)}
        for one in traces
    ]
    names = " and ".join(one.name for one in traces)
    return page("trial", title=names, blocks={"about": json.dumps(about).encode()})
