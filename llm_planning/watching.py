"""A run that somebody watches: how far it is and what it has cost, twice a second."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

from llm_planning.roles import usage_by_role
from llm_planning.trace import tracing
from llm_serving.request import Usage

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine

    from llm_planning.roles import Engines
    from llm_planning.running import PlannerRun

EVERY = 0.5
"""Seconds between two pictures."""


async def watched(
    planning: Coroutine[Any, Any, PlannerRun], meters: Engines, show: Callable[[str], object]
) -> PlannerRun:
    """Awaits a run, and shows how far it is and what it has cost.

    Args:
        planning: `run_planner` with these meters.
        meters: count for this run.
        show: takes a line.

    Raises:
        CancelledError: the caller was cancelled; the run is cancelled first.
    """
    running = asyncio.create_task(planning)
    # What ends it and the loop at once, such as another Ctrl-C, is raised there.
    running.add_done_callback(lambda ended: ended.cancelled() or ended.exception())
    pace = _Pace()
    try:
        while not running.done():
            await asyncio.wait({running}, timeout=EVERY)
            show(f"planning: {', '.join([*pace(), spent(meters)])}")
        return running.result()
    finally:
        if not running.done():
            running.cancel()
            await asyncio.wait({running})


def spent(meters: Engines) -> str:
    """The calls and the tokens that were written, in words."""
    usage = sum(usage_by_role(meters).values(), Usage())
    return f"{usage.calls} calls, {usage.completion_tokens} tokens written"


class _Pace:
    """How far a run is, by the events of its trace."""

    def __init__(self) -> None:
        self._trace = tracing()
        self._seen = self._taken = self._simulation = 0

    def __call__(self) -> list[str]:
        """The real actions so far, and the simulation of the present search; nothing if 0."""
        events = self._trace.events[self._seen :] if self._trace is not None else []
        self._seen += len(events)
        for event in events:
            if event["type"] == "execution":
                self._taken += 1
                self._simulation = 0
            elif event["type"] == "simulation":
                self._simulation = event["number"]
        taken, simulation = self._taken, self._simulation
        return [
            *([f"{taken} {'action' if taken == 1 else 'actions'} taken"] if taken else []),
            *([f"simulation {simulation}"] if simulation else []),
        ]
