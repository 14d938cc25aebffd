"""One thread that steps an engine core, and the coroutines that wait for it.

A core is not thread-safe and its `step` blocks, so a single thread owns it from its construction
to its end. Coroutines of any event loop put commands on a queue and await futures. The thread
takes commands between two steps: a request joins the running batch at once, and waits for no
longer answer of another search.
"""

from __future__ import annotations

import asyncio
import atexit
import itertools
import threading
import time
from concurrent.futures import Future
from contextlib import suppress
from dataclasses import dataclass
from queue import Empty, SimpleQueue
from typing import TYPE_CHECKING, Any, Generic, NoReturn, Protocol, TypeVar, cast

from llm_serving.errors import EngineStoppedError

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

Job = TypeVar("Job")
Result = TypeVar("Result")
Job_contra = TypeVar("Job_contra", contravariant=True)
Result_co = TypeVar("Result_co", covariant=True)
Value = TypeVar("Value")
CoreT = TypeVar("CoreT", bound="Core[Any, Any]")


class Core(Protocol[Job_contra, Result_co]):
    """What the stepping thread drives; called from that thread only, but for `wake`."""

    def add(self, ticket: int, job: Job_contra) -> None:
        """Takes a job into the running batch; raises if the job itself is unacceptable."""
        ...

    def abort(self, tickets: Sequence[int]) -> None:
        """Drops jobs whose callers are gone."""
        ...

    def step(self) -> Sequence[tuple[int, Result_co]]:
        """Advances every job in flight and returns the finished ones."""
        ...

    def wake(self) -> None:
        """Ends a step that only waits, from any thread: there is a command."""
        ...

    def close(self) -> None:
        """Releases what the core holds."""
        ...


@dataclass(frozen=True, slots=True)
class _Waiter(Generic[Result]):
    loop: asyncio.AbstractEventLoop
    future: asyncio.Future[Result]


@dataclass(slots=True)
class Activity:
    """What the stepping thread has done.

    Attributes:
        steps: steps taken; of an engine in a process of its own, how often its outputs were read.
        stepping_seconds: time spent inside them, or waiting for such outputs and reading them.
        waiting_seconds: time without any job in flight.
        job_steps: jobs in flight, summed over steps.
    """

    steps: int = 0
    stepping_seconds: float = 0.0
    waiting_seconds: float = 0.0
    job_steps: int = 0

    @property
    def mean_in_flight(self) -> float:
        """Jobs that an average step advanced; 0 before the first."""
        return self.job_steps / self.steps if self.steps else 0.0

    def since(self, earlier: Activity) -> Activity:
        """What was done after an earlier copy of this record was taken."""
        return Activity(
            steps=self.steps - earlier.steps,
            stepping_seconds=self.stepping_seconds - earlier.stepping_seconds,
            waiting_seconds=self.waiting_seconds - earlier.waiting_seconds,
            job_steps=self.job_steps - earlier.job_steps,
        )


class Dispatcher(Generic[Job, Result, CoreT]):
    """Lets many coroutines share one core.

    The core is built on the thread that steps it, because a core may bind its own worker threads
    to the thread that made it.
    """

    def __init__(self, make_core: Callable[[], CoreT], *, name: str) -> None:
        self.activity = Activity()
        self._tickets = itertools.count()
        self._commands: SimpleQueue[Callable[[CoreT], None] | None] = SimpleQueue()
        self._waiters: dict[int, _Waiter[Result]] = {}
        self._admission = threading.Lock()
        self._stopped: EngineStoppedError | None = None
        self._waits = False
        ready: Future[CoreT] = Future()
        self._thread = threading.Thread(
            target=self._run, args=(make_core, ready), name=name, daemon=True
        )
        self._thread.start()
        self.core = ready.result()
        atexit.register(self.close)

    @property
    def in_flight(self) -> int:
        """Jobs that wait for an answer now."""
        return len(self._waiters)

    async def submit(self, job: Job) -> Result:
        """Joins the running batch and awaits the result; cancelling the await aborts the job.

        Raises:
            EngineStoppedError: the core was closed or died, before or while this job ran.
        """
        loop = asyncio.get_running_loop()
        future: asyncio.Future[Result] = loop.create_future()
        ticket = next(self._tickets)

        def add(core: CoreT) -> None:
            if future.cancelled():
                return
            self._waiters[ticket] = _Waiter(loop, future)
            try:
                core.add(ticket, job)
            except EngineStoppedError:
                raise  # all who wait hear of it, this caller too
            except Exception as error:  # the error goes to the job's caller
                del self._waiters[ticket]
                self._deliver([(_Waiter(loop, future), error)])

        self._command(add)
        try:
            return await future
        except asyncio.CancelledError:
            self._command_quietly(lambda core: self._drop(core, ticket))
            raise

    async def call(self, work: Callable[[CoreT], Value]) -> Value:
        """Runs a function of the core on the stepping thread, between two steps."""
        done: Future[Value] = Future()

        def run(core: CoreT) -> None:
            if not done.set_running_or_notify_cancel():
                return  # the caller is gone
            try:
                done.set_result(work(core))
            except BaseException as error:  # carried to the caller
                done.set_exception(error)

        self._command(run)
        return await asyncio.wrap_future(done)

    def close(self) -> None:
        """Stops the thread; callers that still wait get the error. A second call does nothing."""
        self._command_quietly(None)
        self._thread.join()
        atexit.unregister(self.close)

    def _command(self, command: Callable[[CoreT], None] | None) -> None:
        with self._admission:  # no command may enter after the queue was drained for the last time
            if self._stopped is not None:
                raise EngineStoppedError(str(self._stopped)) from self._stopped
            self._put(command)

    def _command_quietly(self, command: Callable[[CoreT], None] | None) -> None:
        with self._admission:
            if self._stopped is None:
                self._put(command)

    def _put(self, command: Callable[[CoreT], None] | None) -> None:
        self._commands.put(command)
        # The thread says that it waits before it looks for commands the last time. So it either
        # finds this one there, or is woken.
        if self._waits:
            self._waits = False
            self.core.wake()

    def _drop(self, core: CoreT, ticket: int) -> None:
        if self._waiters.pop(ticket, None) is not None:
            core.abort([ticket])

    def _run(self, make_core: Callable[[], CoreT], ready: Future[CoreT]) -> None:
        try:
            core = make_core()
        except BaseException as error:  # raised again by the constructor
            self._stopped = EngineStoppedError(f"the engine did not start: {error}")
            ready.set_exception(error)
            return
        ready.set_result(core)
        reason = EngineStoppedError("the engine was closed")
        try:
            self._serve(core)
        except EngineStoppedError as error:  # every waiter hears of it
            reason = error
        except BaseException as error:
            reason = EngineStoppedError(f"the engine died: {type(error).__name__}: {error}")
            reason.__cause__ = error
        self._stop(reason)
        core.close()

    def _serve(self, core: CoreT) -> None:
        activity, waiters, clock = self.activity, self._waiters, time.perf_counter
        while True:
            if not waiters:
                idle_since = clock()
                command = self._commands.get()
                activity.waiting_seconds += clock() - idle_since
                if command is None:
                    return
                command(core)
            self._waits = True
            while True:
                try:
                    command = self._commands.get_nowait()
                except Empty:
                    break
                if command is None:
                    return
                command(core)
            if not waiters:
                continue
            activity.job_steps += len(waiters)
            begun = clock()
            finished = core.step()
            activity.stepping_seconds += clock() - begun
            activity.steps += 1
            if finished:
                self._deliver(
                    [
                        (waiters.pop(ticket), result)
                        for ticket, result in finished
                        if ticket in waiters
                    ]
                )

    def _stop(self, reason: EngineStoppedError) -> None:
        with self._admission:
            self._stopped = reason
        stopped = cast("CoreT", _Stopped(reason))
        while True:
            try:
                command = self._commands.get_nowait()
            except Empty:
                break
            if command is not None:
                with suppress(EngineStoppedError):  # whoever waits for it hears of it below
                    command(stopped)
        failed = [(waiter, reason) for waiter in self._waiters.values()]
        self._waiters.clear()
        self._deliver(failed)

    @staticmethod
    def _deliver(results: Sequence[tuple[_Waiter[Result], Result | Exception]]) -> None:
        """Wakes each event loop once for all of its futures that are done."""
        by_loop: dict[asyncio.AbstractEventLoop, list[Any]] = {}
        for waiter, result in results:
            by_loop.setdefault(waiter.loop, []).append((waiter.future, result))
        for loop, settled in by_loop.items():
            try:
                loop.call_soon_threadsafe(_settle, settled)
            except RuntimeError:  # the loop was closed, and its callers are gone
                continue


class _Stopped:
    """Stands for the core after its end: every call but `abort` fails with the reason."""

    def __init__(self, reason: EngineStoppedError) -> None:
        self._reason = reason

    def abort(self, tickets: Sequence[int]) -> None:
        """Nothing runs any more, so there is nothing to drop."""

    def __getattr__(self, name: str) -> NoReturn:
        raise self._reason


def _settle(settled: Sequence[tuple[asyncio.Future[Any], Any]]) -> None:
    for future, result in settled:
        if future.done():
            continue
        if isinstance(result, Exception):
            future.set_exception(result)
        else:
            future.set_result(result)
