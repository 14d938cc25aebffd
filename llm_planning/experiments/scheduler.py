"""Runs the trials of a sweep: starts them, retries them, and sees their results into the ledger."""

from __future__ import annotations

import asyncio
import heapq
import itertools
import time
from collections import deque
from dataclasses import dataclass
from typing import TYPE_CHECKING, cast

from llm_planning.experiments.ledger import UnkeepableResultError
from llm_planning.experiments.progress import Progress
from llm_planning.experiments.recorder import Recorder
from llm_planning.experiments.trial import TrialResult
from llm_planning.worker_processes import WorkerLostError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from llm_planning.experiments.pool import TrialPool
    from llm_planning.experiments.recorder import Records
    from llm_planning.experiments.trial import Trial
    from llm_serving.request import Usage

TICK = 0.25
"""Seconds after which the pool's limit is asked anew though nothing has ended."""

RETRY_AFTER = 0.5
"""Seconds before a failed trial's second attempt; each further one waits twice as long."""

LONGEST_WAIT = 60.0
"""Seconds that no attempt waits longer for."""

MOST_LOSSES = 3
"""Workers that one trial may lose; with the next one it has failed."""

MOST_UNWRITTEN = 64
"""Results on their way to the disk beyond which no trial is started."""


async def run_sweep(
    trials: Iterable[Trial],
    *,
    pool: TrialPool,
    ledger: Records,
    retries: int,
    watch: Callable[[Progress], None],
) -> Progress:
    """Runs every trial that has no final row in the ledger yet.

    Trials start in the order given, as many at once as the pool's limit says. A trial that fails
    is recorded and started again later; when its retries are used up the failure is its result.
    Cancelled, it cancels the trials in flight, waits until finished ones are on the disk and
    leaves; a trial without a final row is run by the next call.

    Args:
        trials: the sweep's trials, or some of them; equal ones are run once.
        pool: runs them; stays open.
        ledger: keeps their results. While this runs, nobody else may write to it.
        retries: attempts beyond the first that a failing trial gets.
        watch: called whenever something changed, and a few times per second.

    Returns:
        What was done: `left` is 0.

    Raises:
        EngineStoppedError: nothing can run any more; what had ended is recorded.
        LedgerError: a result could not be kept; those before it are.
    """
    sweep = _Sweep(trials, pool=pool, ledger=ledger, retries=retries, watch=watch)
    return await sweep.run()


@dataclass(slots=True)
class _Attempts:
    """A trial that has no final row yet.

    Attributes:
        trial: what is run.
        failed: attempts that failed so far, those of earlier runs included.
        lost: workers that this run lost on it.
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
        ledger: Records,
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
        self._error: Exception | None = None

    async def run(self) -> Progress:
        try:
            while self._error is None:
                self._start()
                self._watch(self._progress())
                if not self._tasks and not self._ready and not self._later:
                    break
                await self._something()
        finally:
            await self._leave()
        return self._progress()

    def _start(self) -> None:
        """Starts what may start now."""
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

    async def _something(self) -> None:
        """Waits for an end, or for a moment."""
        try:
            async with asyncio.timeout(TICK):
                await self._changed.wait()
        except TimeoutError:
            return
        self._changed.clear()

    async def _attempt(self, attempts: _Attempts) -> None:
        """Runs a trial once; what nobody can mend ends the sweep."""
        try:
            await self._run_once(attempts)
        except Exception as error:  # the first says why; those after it are its consequences
            self._error = self._error or error

    async def _run_once(self, attempts: _Attempts) -> None:
        """Runs a trial once and sees to what comes of it."""
        started, begun = time.time(), time.monotonic()
        try:
            result = await self._pool.run(attempts.trial)
        except WorkerLostError as error:
            attempts.lost += 1
            if attempts.lost <= MOST_LOSSES:
                self._lost += 1
                self._again(attempts, after=0.0)
                return
            result = _failed(attempts.trial, error, started, time.monotonic() - begun, {})
        finally:
            # The next trial may start while this one's result is on its way to the disk.
            self._in_pool.discard(cast("asyncio.Task[None]", asyncio.current_task()))
            self._changed.set()
        await self._record(attempts, result)

    async def _record(self, attempts: _Attempts, result: TrialResult) -> None:
        try:
            final = await self._write(attempts, result)
        except UnkeepableResultError as error:
            failed = _failed(result.trial, error, result.started, result.seconds, result.usage)
            result, final = failed, await self._write(attempts, failed)
        if final:
            self._done += result.status == "done"
            self._failed += result.status == "failed"
            return
        self._retried += 1
        attempts.failed += 1
        self._again(attempts, after=min(RETRY_AFTER * 2 ** (attempts.failed - 1), LONGEST_WAIT))

    async def _write(self, attempts: _Attempts, result: TrialResult) -> bool:
        """Puts a result on the disk; returns whether it is the trial's last one."""
        used_up = attempts.failed >= self._retries or attempts.lost > MOST_LOSSES
        final = result.status == "done" or used_up
        await self._recorder.record(result, attempt=attempts.failed + 1, final=final)
        return final

    def _again(self, attempts: _Attempts, *, after: float) -> None:
        """Puts a trial behind all others that are waiting now."""
        heapq.heappush(self._later, (time.monotonic() + after, next(self._order), attempts))

    def _ended(self, task: asyncio.Task[None]) -> None:
        self._tasks.discard(task)
        self._in_pool.discard(task)  # a task that is cancelled before its first step never ran
        self._changed.set()

    async def _leave(self) -> None:
        """Cancels what is in flight; what had ended before gets to the disk."""
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


def _failed(
    trial: Trial, error: Exception, started: float, seconds: float, usage: Mapping[str, Usage]
) -> TrialResult:
    return TrialResult(
        trial=trial,
        status="failed",
        success=None,
        plan=(),
        metrics={},
        usage=usage,
        trace={},
        error=f"{type(error).__name__}: {error}",
        started=started,
        seconds=seconds,
    )
