"""The events of a run: plain values, which become text when the run is over (`trace_file`)."""

from __future__ import annotations

from time import perf_counter
from typing import Any, TypeAlias

Event: TypeAlias = "dict[str, Any]"
"""A JSON object with its `type`."""


class Events:
    """What happened, in the order in which it did.

    Attributes:
        events: JSON-able lines, each with its `type`; without header, summary and end.
    """

    def __init__(self) -> None:
        self.events: list[Event] = []
        self._begun = perf_counter()

    def add(self, kind: str, /, **fields: object) -> None:
        """Adds an event that happens now."""
        self.events.append({"type": kind, "at": self.now(), **fields})

    def now(self) -> float:
        """Seconds since the recording began."""
        return round(perf_counter() - self._begun, 6)
