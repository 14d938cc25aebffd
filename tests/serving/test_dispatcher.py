import asyncio
import itertools
import threading
import time
from contextlib import asynccontextmanager, suppress
from dataclasses import replace
from types import SimpleNamespace

import pytest

from llm_serving.dispatcher import Dispatcher
from llm_serving.errors import EngineStoppedError


class CountdownCore:
    """A job is the number of steps it takes; its result is how many jobs ran beside it."""

    def __init__(self, *, pace=0.0005, dies_at=None):
        self.jobs = {}
        self.aborted = []
        self.pace = pace
        self.dies_at = dies_at
        self.steps = 0
        self.threads = {threading.get_ident()}
        self.closed = False
        self.woken = threading.Event()

    def add(self, ticket, job):
        self.threads.add(threading.get_ident())
        if job < 0:
            raise ValueError(f"a job of {job} steps")
        self.jobs[ticket] = job

    def abort(self, tickets):
        self.aborted += tickets
        for ticket in tickets:
            self.jobs.pop(ticket, None)

    def step(self):
        self.threads.add(threading.get_ident())
        time.sleep(self.pace)
        self.steps += 1
        if self.steps == self.dies_at:
            raise RuntimeError("a bad step")
        beside = len(self.jobs)
        for ticket in self.jobs:
            self.jobs[ticket] -= 1
        done = [ticket for ticket, left in self.jobs.items() if left <= 0]
        for ticket in done:
            del self.jobs[ticket]
        return [(ticket, beside) for ticket in done]

    def wake(self):
        self.woken.set()

    def close(self):
        self.closed = True


def start(kind=CountdownCore, **options):
    cores = []

    def make():
        cores.append(kind(**options))
        return cores[0]

    dispatcher = Dispatcher(make, name="test-step")
    return dispatcher, cores[0]


@asynccontextmanager
async def all_at_once(dispatcher):
    """The thread takes up what tasks ask of it in here when all have asked, not in between."""
    left = threading.Event()
    busy = asyncio.create_task(dispatcher.call(lambda _: left.wait()))
    await asyncio.sleep(0)
    yield
    await asyncio.sleep(0)  # the tasks begin
    left.set()
    await busy


async def test_jobs_join_the_running_batch():
    dispatcher, core = start()
    straggler = asyncio.create_task(dispatcher.submit(1_000_000))
    await asyncio.sleep(0)
    async with all_at_once(dispatcher):
        short = [asyncio.create_task(dispatcher.submit(3)) for _ in range(5)]
    beside = await asyncio.gather(*short)
    assert beside == [6] * 5, "five short jobs ran together with the straggler"
    assert not straggler.done(), "and none of them waited for it"
    straggler.cancel()
    with suppress(asyncio.CancelledError):
        await straggler
    assert len(core.threads) == 1, "one thread builds and drives the core"
    assert threading.get_ident() not in core.threads
    dispatcher.close()
    assert core.closed


async def test_cancelling_a_caller_aborts_its_job_only():
    dispatcher, core = start()
    doomed = asyncio.create_task(dispatcher.submit(10_000))
    kept = asyncio.create_task(dispatcher.submit(60))
    await asyncio.sleep(0)
    await dispatcher.call(lambda core: None)  # both have begun
    doomed.cancel()
    with pytest.raises(asyncio.CancelledError):
        await doomed
    assert await kept > 0
    await dispatcher.call(lambda core: None)  # the abort came before
    assert len(core.aborted) == 1
    assert dispatcher.in_flight == 0
    dispatcher.close()


async def test_a_bad_job_fails_its_own_caller():
    dispatcher, _ = start()
    good, bad = await asyncio.gather(
        dispatcher.submit(5), dispatcher.submit(-1), return_exceptions=True
    )
    assert good in (1, 2)
    assert isinstance(bad, ValueError)
    dispatcher.close()


async def test_a_dead_core_fails_every_waiting_caller_and_all_later_ones():
    dispatcher, core = start(dies_at=5)
    waiting = await asyncio.wait_for(
        asyncio.gather(*(dispatcher.submit(100) for _ in range(8)), return_exceptions=True), 60
    )
    assert all(isinstance(outcome, EngineStoppedError) for outcome in waiting)
    assert "a bad step" in str(waiting[0])
    with pytest.raises(EngineStoppedError, match="a bad step"):
        await dispatcher.submit(1)
    dispatcher.close()
    assert core.closed


class HeldCore(CountdownCore):
    """A step ends when it is left."""

    def __init__(self, **options):
        super().__init__(**options)
        self.stepping, self.left = threading.Event(), threading.Event()

    def step(self):
        self.stepping.set()
        self.left.wait()
        return super().step()


async def test_a_caller_that_leaves_as_the_core_dies_hangs_nobody():
    """The abort lies in the queue when the core dies; the other callers must still hear of it."""
    dispatcher, core = start(HeldCore, dies_at=1)
    leaving, staying = (asyncio.create_task(dispatcher.submit(100)) for _ in range(2))
    await asyncio.to_thread(core.stepping.wait)
    leaving.cancel()
    await asyncio.sleep(0)
    core.left.set()
    outcomes = await asyncio.wait_for(asyncio.gather(leaving, staying, return_exceptions=True), 60)
    assert isinstance(outcomes[0], asyncio.CancelledError)
    assert isinstance(outcomes[1], EngineStoppedError)
    dispatcher.close()


class WaitingCore(CountdownCore):
    """Steps by itself elsewhere, and puts nothing out: a step waits until it is woken."""

    def step(self):
        assert self.woken.wait(50), "nothing wakes a step that waits"
        self.woken.clear()
        return []

    def add(self, ticket, job):
        if job == "the last straw":
            raise EngineStoppedError("the core is gone")
        super().add(ticket, job)


async def test_a_step_that_waits_ends_for_every_command():
    dispatcher, core = start(WaitingCore)

    async def jobs_after(*_):
        await asyncio.sleep(0)  # so that the tasks have begun
        return await dispatcher.call(lambda core: len(core.jobs))

    async with asyncio.timeout(60):
        first = asyncio.create_task(dispatcher.submit(10_000))
        assert await jobs_after(first) == 1
        second = asyncio.create_task(dispatcher.submit(10_000))
        assert await jobs_after(second) == 2
        for task in (first, second):
            task.cancel()
        await asyncio.gather(first, second, return_exceptions=True)
        assert await jobs_after() == 0
        waiting = asyncio.create_task(dispatcher.submit(10_000))
        assert await jobs_after(waiting) == 1
        await asyncio.to_thread(dispatcher.close)
        with pytest.raises(EngineStoppedError):
            await waiting
    assert core.closed


async def test_a_core_that_is_gone_as_a_job_comes_fails_every_caller_with_its_reason():
    dispatcher, core = start(WaitingCore)
    waiting = asyncio.create_task(dispatcher.submit(10_000))
    outcomes = await asyncio.wait_for(
        asyncio.gather(waiting, dispatcher.submit("the last straw"), return_exceptions=True), 60
    )
    assert [str(outcome) for outcome in outcomes] == ["the core is gone"] * 2
    with pytest.raises(EngineStoppedError, match="the core is gone"):
        await dispatcher.submit(1)
    dispatcher.close()
    assert core.closed


async def test_closing_fails_waiting_callers():
    dispatcher, _ = start()
    waiting = [asyncio.create_task(dispatcher.submit(1_000_000)) for _ in range(3)]
    await asyncio.sleep(0.01)
    dispatcher.close()
    outcomes = await asyncio.wait_for(asyncio.gather(*waiting, return_exceptions=True), 60)
    assert all(isinstance(outcome, EngineStoppedError) for outcome in outcomes)
    with pytest.raises(EngineStoppedError):
        await dispatcher.call(lambda core: core.steps)
    dispatcher.close()


def test_a_core_that_does_not_start_raises_its_own_error():
    def fail():
        raise MemoryError("no room")

    with pytest.raises(MemoryError, match="no room"):
        Dispatcher(fail, name="test-step")


def test_two_event_loops_share_one_core():
    dispatcher, _ = start()
    results = []

    def caller():
        results.append(asyncio.run(_some(dispatcher)))

    threads = [threading.Thread(target=caller) for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    dispatcher.close()
    assert [len(result) for result in results] == [20, 20]
    assert all(beside >= 1 for result in results for beside in result)


async def _some(dispatcher):
    return await asyncio.gather(*(dispatcher.submit(2 + i % 5) for i in range(20)))


async def test_calls_run_between_steps_on_the_stepping_thread():
    dispatcher, core = start()
    ident = await dispatcher.call(lambda _: threading.get_ident())
    assert ident in core.threads
    with pytest.raises(ZeroDivisionError):
        await dispatcher.call(lambda _: 1 / 0)
    dispatcher.close()


async def test_a_call_whose_caller_is_gone_hurts_nobody():
    dispatcher, core = start()
    job = asyncio.create_task(dispatcher.submit(2))
    async with all_at_once(dispatcher):
        calls = [
            asyncio.create_task(dispatcher.call(lambda core: core.aborted.append("called")))
            for _ in range(2)
        ]
        await asyncio.sleep(0)
        calls[0].cancel()
    assert await calls[1] is None
    assert await job == 1
    assert core.aborted == ["called"]
    dispatcher.close()


async def test_activity_counts_steps_and_the_jobs_they_advance(monkeypatch):
    """By a clock that goes on by a second whenever it is read."""
    clock = SimpleNamespace(perf_counter=itertools.count().__next__)
    monkeypatch.setattr("llm_serving.dispatcher.time", clock)
    dispatcher, core = start()
    before = replace(dispatcher.activity)
    async with all_at_once(dispatcher):
        jobs = [asyncio.create_task(dispatcher.submit(10)) for _ in range(4)]
    await asyncio.gather(*jobs)
    await dispatcher.call(lambda core: core.steps)
    done = dispatcher.activity.since(before)
    assert done.steps == core.steps == 10
    assert done.mean_in_flight == 4
    assert done.stepping_seconds == 10
    assert done.waiting_seconds == 2  # for the first command, and for the last
    dispatcher.close()
