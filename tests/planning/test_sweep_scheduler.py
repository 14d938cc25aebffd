"""Starting, retrying, losing and ending trials, with a pool and a ledger in memory."""

import asyncio
import threading
import time
from collections import Counter
from dataclasses import replace

import pytest

import llm_planning.experiments.scheduler as scheduler_module
from llm_planning.experiments.ledger import UnkeepableResultError
from llm_planning.experiments.pool import PoolLoad
from llm_planning.experiments.scheduler import MOST_LOSSES, run_sweep
from llm_planning.experiments.trial import Trial, TrialResult
from llm_planning.worker_processes import WorkerLostError
from llm_serving.errors import EngineStoppedError


@pytest.fixture(autouse=True)
def soon(monkeypatch):
    monkeypatch.setattr(scheduler_module, "RETRY_AFTER", 0.01)


def trial_of(seed):
    return Trial(planner="cot", domain="minecraft", task="t", model="m", seed=seed)


def result_of(trial, error=None):
    status = "failed" if error else "done"
    return TrialResult(trial=trial, status=status, error=error, usage={}, started=0.0, seconds=0.0)


async def fails(trial):
    return result_of(trial, error="E: no")


class MemoryLedger:
    """Rows by key; `slow` seconds a record, an error after `room` of them."""

    def __init__(self, *, finished=(), attempts=(), slow=0.0, room=None):
        self.rows = []
        self.threads = set()
        self._finished = frozenset(trial.key for trial in finished)
        self._attempts = {trial.key: count for trial, count in attempts}
        self._slow = slow
        self._room = room

    def finished(self):
        return self._finished

    def attempts(self):
        return self._attempts

    def record(self, result, *, attempt, final):
        time.sleep(self._slow)
        self.threads.add(threading.get_ident())
        if self._room is not None and len(self.rows) >= self._room:
            raise OSError("no space left on device")
        if result.plan and result.plan[0] is None:
            raise UnkeepableResultError("None is no option")
        self.rows.append((result.trial.seed, result.status, attempt, final))


class MemoryPool:
    """Runs what it is told to."""

    def __init__(self, run, *, limit=4):
        self._run = run
        self.limit = limit
        self.started = []
        self.ended = []
        self.running = self.most = 0
        self.four_running = asyncio.Event()

    def load(self):
        return PoolLoad(running=self.running)

    async def run(self, trial):
        self.started.append(trial.seed)
        self.running += 1
        self.most = max(self.most, self.running)
        if self.running == 4:
            asyncio.get_running_loop().call_later(0.01, self.four_running.set)
        try:
            return await self._run(trial)
        finally:
            self.running -= 1
            self.ended.append(trial.seed)


async def works(trial):
    await asyncio.sleep(0.001 * (trial.seed % 3))
    return result_of(trial)


async def sweep_of(pool, ledger, trials, *, retries=0, watch=lambda _: None):
    return await run_sweep(trials, pool=pool, ledger=ledger, retries=retries, watch=watch)


async def test_trials_start_in_order_within_the_limit_and_each_is_recorded_once():
    pool, ledger, seen = MemoryPool(works), MemoryLedger(slow=0.001), []
    trials = [trial_of(seed) for seed in range(50)]
    progress = await sweep_of(pool, ledger, [*trials, trials[3]], watch=seen.append)
    assert pool.started == list(range(50))
    assert pool.most == 4
    assert sorted(ledger.rows) == [(seed, "done", 1, True) for seed in range(50)]
    assert len(ledger.threads) == 1
    assert threading.get_ident() not in ledger.threads
    assert (progress.total, progress.done, progress.left, progress.running) == (50, 50, 0, 0)
    counts = [progress.done for progress in seen]
    assert counts == sorted(counts)
    assert seen[-1].done == 50


async def test_a_result_counts_only_when_it_is_on_the_disk():
    ledger, seen = MemoryLedger(slow=0.02), []

    def watch(progress):
        seen.append((progress.done, len(ledger.rows)))

    await sweep_of(MemoryPool(works), ledger, map(trial_of, range(6)), watch=watch)
    assert all(done <= rows for done, rows in seen)


async def test_the_loop_does_not_wait_for_the_disk():
    longest, last = 0.0, time.monotonic()
    sweep = asyncio.ensure_future(
        sweep_of(MemoryPool(works), MemoryLedger(slow=0.5), map(trial_of, range(2)))
    )
    while not sweep.done():
        await asyncio.sleep(0.001)
        now = time.monotonic()
        longest, last = max(longest, now - last), now
    assert longest < 0.4


async def test_finished_trials_are_not_run_again():
    trials = [trial_of(seed) for seed in range(6)]
    pool = MemoryPool(works)
    progress = await sweep_of(pool, MemoryLedger(finished=trials[:4]), trials)
    assert pool.started == [4, 5]
    assert (progress.kept, progress.done, progress.total) == (4, 2, 6)


async def test_a_failing_trial_is_retried_behind_the_others_and_stops_nobody():
    async def fail_odd_seeds(trial):
        return result_of(trial, error="E: no" if trial.seed % 2 else None)

    pool, ledger = MemoryPool(fail_odd_seeds, limit=1), MemoryLedger()
    progress = await sweep_of(pool, ledger, map(trial_of, range(4)), retries=2)
    assert pool.started[:4] == [0, 1, 2, 3]
    assert Counter(pool.started) == {0: 1, 1: 3, 2: 1, 3: 3}
    assert [row[1:] for row in ledger.rows if row[0] == 1] == [
        ("failed", 1, False),
        ("failed", 2, False),
        ("failed", 3, True),
    ]
    assert (progress.done, progress.failed, progress.retried) == (2, 2, 4)


async def test_a_second_attempt_may_succeed():
    async def first_fails(trial):
        return result_of(trial, error=None if pool.started.count(trial.seed) > 1 else "E: no")

    pool, ledger = MemoryPool(first_fails), MemoryLedger()
    progress = await sweep_of(pool, ledger, [trial_of(7)], retries=1)
    assert ledger.rows == [(7, "failed", 1, False), (7, "done", 2, True)]
    assert (progress.done, progress.failed) == (1, 0)


async def test_attempts_of_earlier_runs_count():
    trial = trial_of(1)
    ledger = MemoryLedger(attempts=[(trial, 2)])
    await sweep_of(MemoryPool(fails), ledger, [trial], retries=2)
    assert ledger.rows == [(1, "failed", 3, True)]


async def test_a_retry_waits_without_spinning(monkeypatch):
    monkeypatch.setattr(scheduler_module, "RETRY_AFTER", 0.2)

    async def first_fails(trial):
        return result_of(trial, error=None if len(pool.started) > 1 else "E: no")

    pool, seen = MemoryPool(first_fails), []
    begun = time.monotonic()
    await sweep_of(pool, MemoryLedger(), [trial_of(0)], retries=1, watch=seen.append)
    assert time.monotonic() - begun >= 0.2
    assert len(seen) < 20


async def test_a_lost_worker_costs_no_attempt_but_not_forever():
    async def lost(trial):
        if trial.seed == 0 or pool.started.count(trial.seed) < 3:
            raise WorkerLostError("worker 3 is gone")
        return result_of(trial)

    pool, ledger = MemoryPool(lost), MemoryLedger()
    progress = await sweep_of(pool, ledger, [trial_of(0), trial_of(1)], retries=5)
    assert sorted(ledger.rows) == [(0, "failed", 1, True), (1, "done", 1, True)]
    assert pool.started.count(0) == MOST_LOSSES + 1
    assert progress.lost == MOST_LOSSES + 2


async def test_the_end_of_the_engine_ends_the_sweep_after_recording():
    async def third_kills(trial):
        if trial.seed == 3:
            raise EngineStoppedError("the engine died: out of paper")
        if trial.seed > 3:
            await asyncio.sleep(60)
        return result_of(trial)

    pool, ledger = MemoryPool(third_kills), MemoryLedger(slow=0.01)
    with pytest.raises(EngineStoppedError, match="out of paper"):
        await sweep_of(pool, ledger, map(trial_of, range(9)))
    assert sorted(row[0] for row in ledger.rows) == [0, 1, 2]
    assert pool.running == 0


async def test_a_ledger_that_refuses_ends_the_sweep():
    pool, ledger = MemoryPool(works), MemoryLedger(room=5)
    with pytest.raises(OSError, match="no space"):
        await sweep_of(pool, ledger, map(trial_of, range(100)))
    assert len(ledger.rows) == 5
    assert len(pool.started) < 100
    assert pool.running == 0


async def test_a_result_that_cannot_be_kept_is_a_failure():
    async def odd(trial):
        return replace(result_of(trial), plan=(None,))

    pool, ledger = MemoryPool(odd), MemoryLedger()
    progress = await sweep_of(pool, ledger, [trial_of(0)], retries=1)
    assert ledger.rows == [(0, "failed", 1, False), (0, "failed", 2, True)]
    assert progress.failed == 1


async def test_cancelled_it_cancels_trials_and_keeps_what_has_ended():
    async def every_other_is_slow(trial):
        if trial.seed % 2:
            await asyncio.sleep(60)
        return result_of(trial)

    pool, ledger, seen = MemoryPool(every_other_is_slow), MemoryLedger(slow=0.05), []
    sweep = asyncio.ensure_future(
        sweep_of(pool, ledger, map(trial_of, range(20)), watch=seen.append)
    )
    await pool.four_running.wait()
    sweep.cancel()
    with pytest.raises(asyncio.CancelledError):
        await sweep
    # Trials 0, 2, 4, 6 ended and 1, 3, 5, 7 hold the four places.
    assert [row[0] for row in ledger.rows] == [0, 2, 4, 6]
    assert sorted(pool.ended) == list(range(8))
    assert pool.running == 0
    assert (seen[-1].done, seen[-1].running) == (4, 0)


async def test_a_refusal_after_the_cancel_is_not_dropped():
    async def slow_but_first(trial):
        if trial.seed:
            await asyncio.sleep(60)
        return result_of(trial)

    pool, ledger = MemoryPool(slow_but_first), MemoryLedger(slow=0.1, room=0)
    sweep = asyncio.ensure_future(sweep_of(pool, ledger, map(trial_of, range(5))))
    await pool.four_running.wait()
    sweep.cancel()
    with pytest.raises(OSError, match="no space"):
        await sweep


async def test_a_limit_that_rises_is_noticed_without_any_trial_ending(monkeypatch):
    monkeypatch.setattr(scheduler_module, "TICK", 0.01)
    opened = asyncio.Event()

    async def waits(trial):
        await opened.wait()
        return result_of(trial)

    pool = MemoryPool(waits, limit=1)
    sweep = asyncio.ensure_future(sweep_of(pool, MemoryLedger(), map(trial_of, range(8))))
    for pool.limit in (1, 5):
        while pool.running < pool.limit:  # noqa: ASYNC110 - nothing tells it
            await asyncio.sleep(0.01)
        await asyncio.sleep(0.05)  # in which others could begin
        assert pool.running == pool.limit
    opened.set()
    assert (await sweep).done == 8


async def test_results_do_not_pile_up_before_a_slow_disk(monkeypatch):
    monkeypatch.setattr(scheduler_module, "MOST_UNWRITTEN", 3)
    pool, ledger = MemoryPool(works, limit=2), MemoryLedger(slow=0.01)
    ahead = []

    def watch(_):
        ahead.append(len(pool.ended) - len(ledger.rows))

    await sweep_of(pool, ledger, map(trial_of, range(30)), watch=watch)
    assert max(ahead) <= 3 + 2
