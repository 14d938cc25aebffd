"""Trials as coroutines on the engines of this process."""

from __future__ import annotations

import asyncio
import time
import traceback
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Protocol, runtime_checkable

from llm_planning.experiments.pace import BLIND, first_pace, next_limit
from llm_planning.experiments.pool import PoolLoad
from llm_planning.experiments.trial import TrialResult
from llm_planning.metering import metered, usage_by_role
from llm_planning.planners.registry import find_planner
from llm_planning.worker_processes import WorkerLostError
from llm_serving.errors import EngineStoppedError

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from llm_planning.experiments.trial import Trial
    from llm_planning.planners.outcome import Outcome
    from llm_planning.roles import Engines
    from llm_serving.dispatcher import Activity
    from llm_serving.engine import Counters
    from llm_serving.vllm_stats import EngineLoad

SAMPLE_EVERY = 0.25
"""Seconds between two looks at the engines' load."""


class Counting(Protocol):
    """An engine, as far as its counters go."""

    @property
    def counters(self) -> Counters:
        """What was asked of it so far."""
        ...


@runtime_checkable
class Loaded(Protocol):
    """An engine that tells how full it is."""

    def load(self) -> EngineLoad:
        """Requests in its batch and outside of it."""
        ...


@runtime_checkable
class Active(Protocol):
    """An engine that tells how it spent its time."""

    @property
    def activity(self) -> Activity:
        """Steps and the time inside and outside of them."""
        ...


class LocalPool:
    """Runs trials as coroutines; the engines batch whatever they ask at the same moment.

    Args:
        engines: who answers a trial's questions: the same engines for all, or chosen by trial.
        gauges: the engines whose load and counters are looked at, beneath any response cache;
            those that do not tell their load cannot steer the limit.
        least: trials to keep in flight at least.
        most: trials to keep in flight at most; equal to `least`, the limit is fixed.
    """

    def __init__(
        self,
        engines: Engines | Callable[[Trial], Engines],
        *,
        most: int,
        least: int = 1,
        gauges: Sequence[Counting] = (),
    ) -> None:
        self._engines = engines if callable(engines) else lambda _: engines
        self._gauges = tuple(gauges)
        self._trials = 0
        self._before = self._now()
        self._telling = [gauge for gauge in self._gauges if isinstance(gauge, Loaded)]
        least = min(least, most)
        if self._telling:
            self._pace = first_pace(least=least, most=most, preempted=self._before.preempted)
        else:
            limit = min(max(BLIND, least), most)
            self._pace = first_pace(least=limit, most=limit)
        self._sampled = time.monotonic()

    @property
    def limit(self) -> int:
        """Trials that should be in flight now; follows the load of the fullest engine."""
        now = time.monotonic()
        if self._telling and now - self._sampled >= SAMPLE_EVERY:
            self._sampled = now
            loads = [gauge.load() for gauge in self._telling]
            preempted = sum(load.preempted for load in loads)
            fullest = replace(max(loads, key=_fullness), preempted=preempted)
            self._pace = next_limit(self._pace, fullest, trials=self._trials)
        return self._pace.limit

    def load(self) -> PoolLoad:
        """What the engines are doing, and did since this pool was made."""
        now, before = self._now(), self._before
        return PoolLoad(
            running=now.running,
            waiting=now.waiting,
            written_tokens=now.written_tokens - before.written_tokens,
            prompt_tokens=now.prompt_tokens - before.prompt_tokens,
            cached_tokens=now.cached_tokens - before.cached_tokens,
            preempted=now.preempted - before.preempted,
            stepping_seconds=now.stepping_seconds - before.stepping_seconds,
            waiting_seconds=now.waiting_seconds - before.waiting_seconds,
        )

    async def run(self, trial: Trial) -> TrialResult:
        """Runs one trial; what the planner raises becomes a failed result.

        Raises:
            EngineStoppedError: the engine was closed or died.
            WorkerLostError: the process in which the environment ran is gone.
        """
        self._trials += 1
        try:
            return await run_trial(trial, self._engines(trial))
        finally:
            self._trials -= 1

    async def aclose(self) -> None:
        """Leaves the engines to whoever opened them."""

    def _now(self) -> PoolLoad:
        loads = [gauge.load() for gauge in self._gauges if isinstance(gauge, Loaded)]
        active = [gauge.activity for gauge in self._gauges if isinstance(gauge, Active)]
        spent = [gauge.counters.total for gauge in self._gauges]
        return PoolLoad(
            running=sum(load.running for load in loads),
            waiting=sum(load.waiting for load in loads),
            written_tokens=sum(usage.completion_tokens for usage in spent),
            prompt_tokens=sum(usage.prompt_tokens for usage in spent),
            cached_tokens=sum(usage.cached_tokens for usage in spent),
            preempted=sum(load.preempted for load in loads),
            stepping_seconds=sum(activity.stepping_seconds for activity in active),
            waiting_seconds=sum(activity.waiting_seconds for activity in active),
        )


async def run_trial(trial: Trial, engines: Engines) -> TrialResult:
    """Runs one trial on engines that others may use at the same time.

    Args:
        trial: what is run.
        engines: who answers; they stay open.

    Returns:
        What came of it; what the planner raised is a failed result.

    Raises:
        EngineStoppedError: the engine was closed or died.
        WorkerLostError: the process in which the environment ran is gone.
    """
    meters = metered(engines)
    started, begun = time.time(), time.perf_counter()
    try:
        outcome = await _plan(trial, meters)
    except (EngineStoppedError, WorkerLostError):
        raise
    except asyncio.CancelledError as error:
        if _being_cancelled():
            raise
        ended = _raised(error)  # something inside the planner was cancelled, not the trial
    except Exception as error:  # whatever a planner raises is its trial's result
        ended = _raised(error)
    else:
        ended = _returned(outcome)
    seconds = time.perf_counter() - begun
    return TrialResult(
        trial=trial, usage=usage_by_role(meters), started=started, seconds=seconds, **ended
    )


async def _plan(trial: Trial, engines: Engines) -> Outcome:
    spec = find_planner(trial.planner)
    settings = spec.settings.read(trial.settings)
    return await spec.run(trial.task, engines=engines, settings=settings, seed=trial.seed)


def _returned(outcome: Outcome) -> dict[str, Any]:
    return {
        "status": "done",
        "success": outcome.success,
        "plan": outcome.plan,
        "metrics": outcome.metrics,
        "trace": outcome.trace,
        "error": None,
    }


def _raised(error: BaseException) -> dict[str, Any]:
    return {
        "status": "failed",
        "success": None,
        "plan": (),
        "metrics": {},
        "trace": {"raised": "".join(traceback.format_exception(error)).splitlines()},
        "error": f"{type(error).__name__}: {error}",
    }


def _being_cancelled() -> bool:
    task = asyncio.current_task()
    return task is not None and task.cancelling() > 0


def _fullness(load: EngineLoad) -> float:
    return (load.running + load.waiting) / load.capacity
