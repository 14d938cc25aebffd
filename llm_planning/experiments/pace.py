"""How many trials to keep in flight so that the engine's batch is full and nothing is thrown out.

The rule is that of TCP's congestion control: quickly upwards until the first sign of too much, down
by a fraction at every sign, and slowly upwards again. Signs are requests that vLLM preempted, whose
work is lost, and requests that pile up outside a batch that cannot grow.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from llm_serving.vllm_stats import EngineLoad

START = 4
"""Trials that begin."""

BLIND = 16
"""Trials in flight on an engine that does not tell its load."""

SMOOTHING = 0.3
"""Weight of the newest sample in a mean."""

SHRINK = 0.75
"""What is left of the limit after a sign of too much."""

FULL_CACHE = 0.9
"""Share of the KV cache beyond which no trial is added."""

CALM = 8
"""Samples without a sign of too much before the limit grows again by one."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Pace:
    """The limit, and what it was chosen from.

    Attributes:
        limit: trials to keep in flight.
        least: lower bound of the limit.
        most: upper bound.
        requests: r, requests that one trial has in flight: a running mean, at least 1.
        waiting: requests outside the batch: a running mean.
        preempted: the engine's count at the last sample.
        calm: samples since the last sign of too much; None before the first sign.
    """

    limit: int
    least: int
    most: int
    requests: float = 1.0
    waiting: float = 0.0
    preempted: int = 0
    calm: int | None = None


def first_pace(*, least: int, most: int, preempted: int = 0) -> Pace:
    """Where the limit begins.

    Args:
        least: lower bound of the limit, at least 1.
        most: upper bound, at least `least`.
        preempted: the engine's count so far.
    """
    limit = min(max(START, least), most)
    return Pace(limit=limit, least=least, most=most, preempted=preempted)


def next_limit(pace: Pace, load: EngineLoad, *, trials: int) -> Pace:
    """The pace after one more sample.

    Args:
        pace: after the samples before.
        load: of the engine now.
        trials: in flight now.
    """
    requests = load.running + load.waiting
    seen = replace(
        pace,
        requests=max(1.0, _mean(pace.requests, requests / trials)) if trials else pace.requests,
        waiting=_mean(pace.waiting, load.waiting),
        preempted=load.preempted,
        calm=None if pace.calm is None else pace.calm + 1,
    )
    if trials > pace.limit:
        return seen  # trials in flight are never stopped: an earlier cut still has to show
    preempted = load.preempted > pace.preempted
    # With room in the batch, requests wait for the step that is under way to end, not for room.
    no_room = load.running >= load.capacity or load.kv_usage > FULL_CACHE
    piled_up = no_room and seen.waiting > max(load.running / 3, 2 * seen.requests)
    if preempted or piled_up:
        cut = _bounded(seen, min(pace.limit - 1, math.floor(SHRINK * pace.limit)))
        return replace(cut, waiting=0.0, calm=0)
    room = load.capacity - requests
    if trials < pace.limit or room < seen.requests or load.kv_usage > FULL_CACHE:
        return seen
    if seen.calm is None:
        # Half of the way, as a trial's requests are known only roughly.
        return _bounded(seen, pace.limit + max(1, math.floor(room / seen.requests / 2)))
    if seen.calm < CALM:
        return seen
    return replace(_bounded(seen, pace.limit + 1), calm=0)


def _mean(before: float, now: float) -> float:
    return (1 - SMOOTHING) * before + SMOOTHING * now


def _bounded(pace: Pace, limit: int) -> Pace:
    return replace(pace, limit=min(max(limit, pace.least), pace.most))
