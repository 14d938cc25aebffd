"""Trials as coroutines on the engines of this process.

The number of trials in flight follows the engines' load, so that the batch is full, nothing is
preempted, and no trial displaces what another one has in the prefix cache. The rule is that of
TCP's congestion control: the limit grows quickly until the first sign of overload, falls by a
fraction at every sign, and grows slowly again. Signs of overload are requests that vLLM preempted,
whose work is lost, and requests that pile up outside a full batch.
"""

from __future__ import annotations

import functools
import math
import time
from contextlib import nullcontext
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Protocol, runtime_checkable

from llm_planning.data_files import files_read
from llm_planning.experiments.pool import PoolLoad
from llm_planning.experiments.prefix_room import PrefixRoom
from llm_planning.experiments.provenance import fixed_texts
from llm_planning.experiments.trial import TrialResult
from llm_planning.own_code import OwnCodeError, changed_since, read_at_import
from llm_planning.registry import domains, planners
from llm_planning.roles import metered
from llm_planning.running import Prepared, find_where, joined, prepare, run_planner
from llm_planning.settings import CODE_SETTINGS
from llm_planning.trace import Gauge, recording
from llm_planning.worker_processes import WorkerLostError
from llm_serving.errors import EngineStoppedError

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from llm_planning.data_files import FilesRead
    from llm_planning.experiments.trial import Trial
    from llm_planning.roles import Engines
    from llm_planning.specs import DomainSpec, PlannerSpec
    from llm_serving.dispatcher import Activity
    from llm_serving.vllm_stats import EngineLoad

SAMPLE_EVERY = 0.25
"""Seconds between two looks at the engines' load."""

START = 4
"""Trials in flight at first."""

BLIND = 16
"""Trials in flight on an engine that does not report its load."""

SMOOTHING = 0.3
"""Weight of the newest sample in a mean."""

SHRINK = 0.75
"""Factor of the limit after a sign of overload."""

FULL_CACHE = 0.9
"""Share of the KV cache beyond which no trial is added."""

CALM = 8
"""Samples without a sign of overload before the limit grows again by one."""


@runtime_checkable
class Active(Protocol):
    """An engine that reports how it spends its time."""

    @property
    def activity(self) -> Activity:
        """Steps and the time inside and outside of them."""
        ...


class LocalPool:
    """Runs trials as coroutines; the engines batch the questions of all trials.

    Args:
        engines: the engines of all trials, or a function from a trial to its engines.
        gauges: the engines, beneath any response cache, whose load is read.
        least: lower bound of the trials in flight.
        most: upper bound of the trials in flight; if it equals `least`, the limit is fixed.
    """

    def __init__(
        self,
        engines: Engines | Callable[[Trial], Engines],
        *,
        most: int,
        least: int = 1,
        gauges: Sequence[Gauge] = (),
    ) -> None:
        self._engines = engines if callable(engines) else lambda _: engines
        self._gauges = tuple(gauges)
        self._since = time.time()
        self._trials = 0
        self._before = self._now().past
        # A room is of one cache; of several engines it is not known here which one a trial fills.
        held = self._gauges[0].load().cache_tokens if len(self._gauges) == 1 else 0
        self._room = PrefixRoom(held) if held else None
        least = min(least, most)
        if self._gauges:
            self._limit = first_limit(least=least, most=most, preempted=self._before.preempted)
        else:
            limit = min(max(BLIND, least), most)
            self._limit = first_limit(least=limit, most=limit)
        self._sampled = time.monotonic()

    @property
    def limit(self) -> int:
        """Trials that should be in flight now; follows the load of the fullest engine.

        None is added while one waits for room in the prefix cache.
        """
        if self._room is not None and self._room.waiting:
            return min(self._limit.limit, self._trials)
        now = time.monotonic()
        if self._gauges and now - self._sampled >= SAMPLE_EVERY:
            self._sampled = now
            loads = [gauge.load() for gauge in self._gauges]
            preempted = sum(load.preempted for load in loads)
            fullest = replace(
                max(loads, key=lambda load: (load.running + load.waiting) / load.capacity),
                preempted=preempted,
            )
            self._limit = next_limit(self._limit, fullest, trials=self._trials)
        return self._limit.limit

    def load(self) -> PoolLoad:
        """What the engines do now, and did since this pool was made."""
        return self._now() - self._before

    async def run(self, trial: Trial) -> TrialResult:
        """Runs one trial; an error of the planner becomes a failed result.

        Raises:
            EngineStoppedError: the engine was closed or died.
            WorkerLostError: the process in which the domain ran is gone.
            OwnCodeError: the user's own code changed after the sweep was read.
        """
        engines, room = self._engines(trial), self._room
        self._trials += 1
        try:
            with nullcontext(engines) if room is None else room.trial(engines) as asked:
                return await run_trial(trial, asked, gauges=self._gauges, since=self._since)
        finally:
            self._trials -= 1

    async def aclose(self) -> None:
        """Does nothing: the caller that opened the engines closes them."""

    def _now(self) -> PoolLoad:
        loads = [gauge.load() for gauge in self._gauges]
        active = [gauge.activity for gauge in self._gauges if isinstance(gauge, Active)]
        return PoolLoad(
            running=sum(load.running for load in loads),
            waiting=sum(load.waiting for load in loads),
            written_tokens=sum(load.written_tokens for load in loads),
            prompt_tokens=sum(load.prompt_tokens for load in loads),
            cached_tokens=sum(load.cached_tokens for load in loads),
            preempted=sum(load.preempted for load in loads),
            stepping_seconds=sum(activity.stepping_seconds for activity in active),
            waiting_seconds=sum(activity.waiting_seconds for activity in active),
        )


async def run_trial(
    trial: Trial, engines: Engines, *, gauges: Sequence[Gauge] = (), since: float | None = None
) -> TrialResult:
    """Runs one trial on engines that others may use at the same time.

    Args:
        engines: answer its questions; they stay open.
        gauges: engines whose load the trace records.
        since: when the sweep began, in seconds since the epoch; by default now. Own code that reads
            a file which changed later reads what the sweep makes.

    Returns:
        The trial's result; an error of the planner becomes a failed result.

    Raises:
        EngineStoppedError: the engine was closed or died.
        WorkerLostError: the process in which the domain ran is gone.
        OwnCodeError: the user's own code changed after the sweep was read.
    """
    with recording(gauges=gauges), files_read(before=since) as read:
        record = await run_planner(
            functools.partial(prepare_trial, trial), metered(engines), seed=trial.seed
        )
    outcome = record.outcome
    if isinstance(outcome, EngineStoppedError | WorkerLostError | OwnCodeError):
        raise outcome
    files = _files(trial, read)
    if isinstance(outcome, BaseException):
        failed = TrialResult.failed(
            trial,
            outcome,
            started=record.started,
            seconds=record.seconds,
            usage=record.usage,
            events=record.events,
        )
        return replace(failed, files=files)
    return TrialResult(
        trial=trial,
        status="done",
        success=outcome.success,
        plan=outcome.plan,
        metrics=outcome.metrics,
        unrepeatable=outcome.unrepeatable,
        usage=record.usage,
        started=record.started,
        seconds=record.seconds,
        trace=outcome.trace,
        events=record.events,
        prompts=fixed_texts(record.events),
        files=files,
    )


def _files(trial: Trial, read: FilesRead) -> dict[str, str | None]:
    """The files that a trial's own code read, at first or now, with the hash of each.

    Those that the trial wrote have None.

    Raises:
        OwnCodeError: one was read with two contents.
    """
    words = [f"{trial.settings.get(key)}:words" for key in CODE_SETTINGS]
    files = read_at_import((trial.planner, trial.domain, *words))
    for path, sha256 in read.hashes().items():
        if files.setdefault(path, sha256) != sha256:
            read.changed.add(path)
    if read.changed:
        raise changed_since(sorted(read.changed))
    return files | dict.fromkeys(read.written())


def prepare_trial(trial: Trial) -> Prepared:
    """Looks up the planner, the domain and the settings of a trial.

    Raises:
        OwnCodeError: the user's own code changed after the sweep was read.
        ValueError: another of `REFUSALS`.
    """
    planner: str | PlannerSpec = trial.planner
    domain: str | DomainSpec | None = trial.domain
    if trial.source:
        read = frozenset(read_at_import((trial.planner, trial.domain)).items())
        planner, domain = _own_code(trial.planner, trial.domain, trial.source, read)
    return prepare(planner, domain=domain, task=trial.task, settings=trial.settings)


@functools.cache
def _own_code(
    planner: str, domain: str, source: str, _read: frozenset[tuple[str, str]]
) -> tuple[PlannerSpec, DomainSpec]:
    """Loads a user's planner or domain; refuses code that has changed before any of it runs.

    Args:
        _read: `read_at_import`: the code is run anew after one has changed.
    """
    files = {planner: planners.source(planner), domain: domains.source(domain)}
    if joined(*files.values()) != source:
        began = source.split("+")
        changed = [code.origin for code in files.values() if code and code.sha256 not in began]
        raise changed_since(changed or files)
    spec = planners.find(planner)
    return spec, find_where(spec, domain=domain, task=None)


@dataclass(frozen=True, slots=True, kw_only=True)
class LimitState:
    """The limit of trials in flight, and the measurements that it is chosen from.

    Attributes:
        requests: running mean of the requests that one trial has in flight, at least 1.
        waiting: running mean of the requests outside the batch.
        preempted: the engine's count of preempted requests at the last sample.
        calm: samples since the last sign of overload; None before the first sign.
    """

    limit: int
    least: int
    most: int
    requests: float = 1.0
    waiting: float = 0.0
    preempted: int = 0
    calm: int | None = None


def first_limit(*, least: int, most: int, preempted: int = 0) -> LimitState:
    """The limit before any measurement: `START`, within its bounds.

    Args:
        least: lower bound of the limit, at least 1.
        most: upper bound, at least `least`.
        preempted: the engine's count of preempted requests so far.
    """
    limit = min(max(START, least), most)
    return LimitState(limit=limit, least=least, most=most, preempted=preempted)


def next_limit(state: LimitState, load: EngineLoad, *, trials: int) -> LimitState:
    """The state after one more sample.

    Args:
        state: after the earlier samples.
        trials: trials in flight now.
    """
    requests = load.running + load.waiting
    seen = replace(
        state,
        requests=max(1.0, _mean(state.requests, requests / trials)) if trials else state.requests,
        waiting=_mean(state.waiting, load.waiting),
        preempted=load.preempted,
        calm=None if state.calm is None else state.calm + 1,
    )
    if trials > state.limit:
        return seen  # an earlier cut takes effect only as trials end, since none is stopped
    preempted = load.preempted > state.preempted
    # If the batch has room, requests wait only for the end of the current step.
    no_room = load.running >= load.capacity or load.kv_usage > FULL_CACHE
    piled_up = no_room and seen.waiting > max(load.running / 3, 2 * seen.requests)
    if preempted or piled_up:
        cut = _bounded(seen, min(state.limit - 1, math.floor(SHRINK * state.limit)))
        return replace(cut, waiting=0.0, calm=0)
    room = load.capacity - requests
    if trials < state.limit or room < seen.requests or load.kv_usage > FULL_CACHE:
        return seen
    if seen.calm is None:
        # Half of the room, as the number of a trial's requests is only an estimate.
        return _bounded(seen, state.limit + max(1, math.floor(room / seen.requests / 2)))
    if seen.calm < CALM:
        return seen
    return replace(_bounded(seen, state.limit + 1), calm=0)


def _mean(before: float, now: float) -> float:
    return (1 - SMOOTHING) * before + SMOOTHING * now


def _bounded(state: LimitState, limit: int) -> LimitState:
    return replace(state, limit=min(max(limit, state.least), state.most))
