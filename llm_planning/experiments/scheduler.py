"""Runs the trials of a sweep: starts them, retries them and records their results."""

from __future__ import annotations

import asyncio
import heapq
import itertools
import time
from collections import deque
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Protocol, cast

from llm_planning.experiments.ledger import UnkeepableResultError
from llm_planning.experiments.pool import PoolLoad
from llm_planning.experiments.trial import Count, Seconds, TrialResult
from llm_planning.worker_processes import WorkerLostError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping
    from concurrent.futures import Future

    from llm_planning.experiments.pool import TrialPool
    from llm_planning.experiments.trial import Trial

TICK = 0.25
"""Seconds between two looks at the pool's limit if no trial ends."""

RETRY_AFTER = 0.5
"""Seconds before a failed trial's second attempt; each further one waits twice as long."""

LONGEST_WAIT = 60.0
"""Seconds that an attempt waits at most."""

MOST_LOSSES = 3
"""Workers that one trial may lose; if it loses another one, it has failed."""

MOST_UNWRITTEN = 64
"""Results on their way to the disk, at most, for another trial to start."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Progress:
    """How far a sweep is.

    Attributes:
        kept: trials that an earlier run finished.
        done: trials whose planner ran to its end in this run.
        failed: trials that failed for good in this run.
        running: trials in flight.
        retried: failed attempts of this run that are followed by another one.
        lost: trials that were started again because their worker died.
        seconds: since this run began.
        load: what the engines are doing.
    """

    total: Count
    kept: Count = 0
    done: Count = 0
    failed: Count = 0
    running: Count = 0
    retried: Count = 0
    lost: Count = 0
    seconds: Seconds = 0.0
    load: PoolLoad = field(default_factory=PoolLoad)

    @property
    def finished(self) -> int:
        """Trials with a row in the ledger."""
        return self.kept + self.done + self.failed

    @property
    def left(self) -> int:
        """Trials without a row in the ledger."""
        return self.total - self.finished

    @property
    def remaining_seconds(self) -> float | None:
        """Seconds to the end at the speed of this run; None before a trial has ended."""
        here = self.done + self.failed
        return self.seconds / here * self.left if here else None

    def after(self, earlier: Progress) -> Progress:
        """This progress as a part of a larger sweep.

        Args:
            earlier: progress of the whole sweep when this part began.
        """
        return Progress(
            total=earlier.total,
            kept=earlier.kept,
            done=earlier.done + self.done,
            failed=earlier.failed + self.failed,
            running=self.running,
            retried=earlier.retried + self.retried,
            lost=earlier.lost + self.lost,
            seconds=earlier.seconds + self.seconds,
            load=earlier.load.past + self.load,
        )


class ResultLedger(Protocol):
    """The ledger as far as the scheduler needs it."""

    def record(self, result: TrialResult, *, attempt: int, final: bool) -> None:
        """Records one attempt, which is on the disk when this returns."""
        ...

    def finished(self) -> frozenset[str]:
        """Keys of the trials with a row."""
        ...

    def attempts(self) -> Mapping[str, int]:
        """Key -> number of failed attempts, of the trials without a row."""
        ...


class Recorder:
    """Hands results to the ledger one after the other.

    Recording takes milliseconds, mostly spent waiting for the disk, so it has its own thread beside
    the one that feeds the engine.

    Args:
        ledger: only this object's thread calls its `record`.

    Attributes:
        error: the first error of recording, except for results that a ledger cannot hold.
    """

    def __init__(self, ledger: ResultLedger) -> None:
        self._ledger = ledger
        self._thread = ThreadPoolExecutor(max_workers=1, thread_name_prefix="ledger")
        self._pending: set[Future[None]] = set()
        self.error: BaseException | None = None

    @property
    def backlog(self) -> int:
        """Results that are not on the disk yet."""
        return len(self._pending)

    async def record(self, result: TrialResult, *, attempt: int, final: bool) -> None:
        """Returns when the result is on the disk, where a cancelled call's result arrives too.

        Raises:
            UnkeepableResultError: a ledger cannot hold the result.
            LedgerError: the disk does not take it.
        """
        written = self._thread.submit(self._ledger.record, result, attempt=attempt, final=final)
        self._pending.add(written)
        written.add_done_callback(self._written)
        waiting = asyncio.wrap_future(written)
        # After the caller was cancelled, `error` holds what is raised here.
        waiting.add_done_callback(lambda done: done.cancelled() or done.exception())
        await asyncio.shield(waiting)

    def close(self) -> None:
        """Waits until every result is on the disk or was refused."""
        self._thread.shutdown(wait=True)

    def _written(self, written: Future[None]) -> None:
        self._pending.discard(written)
        error = written.exception()
        if not isinstance(error, UnkeepableResultError):
            self.error = self.error or error


async def run_sweep(
    trials: Iterable[Trial],
    *,
    pool: TrialPool,
    ledger: ResultLedger,
    retries: int,
    watch: Callable[[Progress], None],
) -> Progress:
    """Runs every trial that has no row in the ledger.

    Trials start in the order given, as many at once as the pool's limit allows. A failed attempt is
    recorded and its trial started again later; the last attempt's failure is the trial's result.
    If this is cancelled, it cancels the trials in flight and waits until finished ones are on the
    disk; the next call runs the trials that still have no row.

    Args:
        trials: the sweep's trials, or some of them; equal ones are run once.
        pool: runs the trials; stays open.
        ledger: records the results; only this call may write to it meanwhile.
        retries: attempts beyond the first that a failing trial gets.
        watch: called after every change and a few times per second.

    Returns:
        The progress at the end: `left` is 0.

    Raises:
        EngineStoppedError: no further trial can run; results of trials that ended are recorded.
        LedgerError: a result could not be recorded; earlier results are.
    """
    sweep = _Sweep(trials, pool=pool, ledger=ledger, retries=retries, watch=watch)
    return await sweep.run()


@dataclass(slots=True)
class _Attempts:
    """The attempts at a trial that has no row yet.

    Attributes:
        failed: failed attempts so far, in earlier runs too.
        lost: workers that died in this run while they ran it.
    """

    trial: Trial
    failed: int
    lost: int = 0


class _Sweep:
    def __init__(
        self,
        trials: Iterable[Trial],
        *,
        pool: TrialPool,
        ledger: ResultLedger,
        retries: int,
        watch: Callable[[Progress], None],
    ) -> None:
        by_key = {trial.key: trial for trial in trials}
        finished, failed = ledger.finished(), ledger.attempts()
        self._pool = pool
        self._retries = retries
        self._watch = watch
        self._recorder = Recorder(ledger)
        self._ready = deque(
            _Attempts(trial, failed.get(key, 0))
            for key, trial in by_key.items()
            if key not in finished
        )
        self._later: list[tuple[float, int, _Attempts]] = []
        self._order = itertools.count()
        self._tasks: set[asyncio.Task[None]] = set()
        self._in_pool: set[asyncio.Task[None]] = set()
        self._changed = asyncio.Event()
        self._total, self._kept = len(by_key), len(by_key) - len(self._ready)
        self._done = self._failed = self._retried = self._lost = 0
        self._begun = time.monotonic()
        self._error: BaseException | None = None

    async def run(self) -> Progress:
        try:
            while self._error is None:
                self._start()
                self._watch(self._progress())
                if not self._tasks and not self._ready and not self._later:
                    break
                await self._wait()
        finally:
            await self._stop()
        return self._progress()

    def _start(self) -> None:
        """Starts trials up to the limit."""
        now = time.monotonic()
        while self._later and self._later[0][0] <= now:
            self._ready.append(heapq.heappop(self._later)[2])
        while (
            self._ready
            and len(self._in_pool) < self._pool.limit
            and self._recorder.backlog < MOST_UNWRITTEN
        ):
            task = asyncio.create_task(self._attempt(self._ready.popleft()))
            self._tasks.add(task)
            self._in_pool.add(task)
            task.add_done_callback(self._ended)

    async def _wait(self) -> None:
        """Waits until a trial ends, for `TICK` seconds at most."""
        try:
            async with asyncio.timeout(TICK):
                await self._changed.wait()
        except TimeoutError:
            return
        self._changed.clear()

    async def _attempt(self, attempts: _Attempts) -> None:
        """Runs a trial once; an error that is not the trial's own ends the sweep."""
        try:
            await self._run_once(attempts)
        except asyncio.CancelledError:
            raise
        except BaseException as error:  # the first is the cause, later ones are its consequences
            self._error = self._error or error

    async def _run_once(self, attempts: _Attempts) -> None:
        """Runs a trial once, and records its result or queues it again."""
        started, begun = time.time(), time.monotonic()
        try:
            result = await self._pool.run(attempts.trial)
        except WorkerLostError as error:
            attempts.lost += 1
            if attempts.lost <= MOST_LOSSES:
                self._lost += 1
                self._retry(attempts, after=0.0)
                return
            seconds = time.monotonic() - begun
            result = TrialResult.failed(attempts.trial, error, started=started, seconds=seconds)
        finally:
            # The next trial may start while this one's result is being written.
            self._in_pool.discard(cast("asyncio.Task[None]", asyncio.current_task()))
            self._changed.set()
        await self._record(attempts, result)

    async def _record(self, attempts: _Attempts, result: TrialResult) -> None:
        try:
            final = await self._write(attempts, result)
        except UnkeepableResultError as error:
            result = TrialResult.failed(
                result.trial,
                error,
                started=result.started,
                seconds=result.seconds,
                usage=result.usage,
            )
            final = await self._write(attempts, result)
        if final:
            self._done += result.status == "done"
            self._failed += result.status == "failed"
            return
        self._retried += 1
        attempts.failed += 1
        self._retry(attempts, after=min(RETRY_AFTER * 2 ** (attempts.failed - 1), LONGEST_WAIT))

    async def _write(self, attempts: _Attempts, result: TrialResult) -> bool:
        """Records a result; returns whether it is the trial's final one."""
        used_up = attempts.failed >= self._retries or attempts.lost > MOST_LOSSES
        final = result.status == "done" or used_up
        await self._recorder.record(result, attempt=attempts.failed + 1, final=final)
        return final

    def _retry(self, attempts: _Attempts, *, after: float) -> None:
        """Queues a trial behind all others that wait now."""
        heapq.heappush(self._later, (time.monotonic() + after, next(self._order), attempts))

    def _ended(self, task: asyncio.Task[None]) -> None:
        self._tasks.discard(task)
        self._in_pool.discard(task)  # a task that is cancelled before its first step never ran
        self._changed.set()

    async def _stop(self) -> None:
        """Cancels the trials in flight; waits until results of ended ones are on the disk."""
        for task in self._in_pool:
            task.cancel()
        try:
            await asyncio.gather(*self._tasks, return_exceptions=True)
        finally:
            self._recorder.close()
        self._watch(self._progress())
        error = self._error or self._recorder.error
        if error is not None:
            raise error

    def _progress(self) -> Progress:
        return Progress(
            total=self._total,
            kept=self._kept,
            done=self._done,
            failed=self._failed,
            running=len(self._in_pool),
            retried=self._retried,
            lost=self._lost,
            seconds=time.monotonic() - self._begun,
            load=self._pool.load(),
        )
