"""A run that somebody watches: what it has cost so far, twice a second."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

from llm_planning.roles import usage_by_role
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
    """Awaits a run, and shows what it has cost so far.

    Args:
        planning: `run_planner` with these meters.
        meters: count for this run.
        show: takes a line.

    Raises:
        CancelledError: the caller was cancelled; the run is cancelled first.
    """
    running = asyncio.create_task(planning)
    try:
        while not running.done():
            await asyncio.wait({running}, timeout=EVERY)
            show(f"planning: {spent(meters)}")
        return running.result()
    finally:
        if not running.done():
            running.cancel()
            await asyncio.wait({running})


def spent(meters: Engines) -> str:
    """The calls and the tokens that were written, in words."""
    usage = sum(usage_by_role(meters).values(), Usage())
    return f"{usage.calls} calls, {usage.completion_tokens} tokens written"
