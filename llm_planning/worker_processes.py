"""Processes for environments that block: a simulator that waits or computes must not stop the loop.

One event loop feeds the engine and every trial. An environment whose step takes more than some
milliseconds hands it to `in_worker`. A call carries its whole input and returns its whole result
(an environment's state is data), because the next call may meet another process. What a call may
kill a process with goes to `in_lone_worker`, where nobody else is lost with it. What may never
return is called by `bounded`.
"""

from __future__ import annotations

import asyncio
import multiprocessing
import os
import resource
import signal
import sys
import threading
from concurrent.futures import ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, ParamSpec, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from concurrent.futures import Future

P = ParamSpec("P")
Value = TypeVar("Value")


SAFE_PATH = "PYTHONSAFEPATH"
"""What `-P` is to a process, this variable is to those that it starts."""

MOST_MEMORY = 2 << 30
"""Bytes that `bounded` lets a function add to those of its process."""

LONGEST_FILE = 1 << 20
"""Bytes of a file that `bounded` lets a function write: the copy of its library that Jericho loads
has half of it."""


class WorkerLostError(RuntimeError):
    """The process that did the work is gone; who asked for it is not to blame."""


class _Processes(ProcessPoolExecutor):
    """Processes that import from where this one does, and nothing from the working directory.

    Args:
        count: at most so many; `submit` starts them one by one.
    """

    def __init__(self, count: int) -> None:
        # The first semaphore starts a process of `multiprocessing`'s own, with `-c` as well.
        with _elsewhere():
            super().__init__(
                max_workers=count,
                # A forked copy of a process with an engine has locks that nobody releases.
                mp_context=multiprocessing.get_context("spawn"),
                initializer=_leave_stdout,
            )

    def submit(
        self, function: Callable[P, Value], /, *args: P.args, **kwargs: P.kwargs
    ) -> Future[Value]:
        """Like the executor's."""
        with _elsewhere():
            return super().submit(function, *args, **kwargs)


_starting = threading.Lock()


@contextmanager
def _elsewhere() -> Iterator[None]:
    """Processes started meanwhile do not look for modules in the working directory.

    `multiprocessing` starts Python with `-c`, which looks there before it looks in the standard
    library, and lets nobody add `-P`. The command line has the variable set for good; a program
    that calls this package keeps its own environment.
    """
    with _starting:
        before = os.environ.get(SAFE_PATH)
        os.environ[SAFE_PATH] = "1"
        try:
            yield
        finally:
            if before is None:
                del os.environ[SAFE_PATH]
            else:
                os.environ[SAFE_PATH] = before


def _leave_stdout() -> None:
    """What a simulator prints goes to stderr: stdout belongs to the answer of the command."""
    sys.stdout.flush()
    os.dup2(2, 1)


class _Shared:
    """The processes that all trials share; started when the first call comes."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._processes: ProcessPoolExecutor | None = None

    def get(self) -> ProcessPoolExecutor:
        with self._lock:
            if self._processes is None:
                self._processes = _Processes(len(os.sched_getaffinity(0)))
            return self._processes

    def drop(self, processes: ProcessPoolExecutor | None = None) -> None:
        """Ends the processes; if some are named, only those."""
        with self._lock:
            ended, keep = self._processes, processes not in {None, self._processes}
            if ended is None or keep:
                return
            self._processes = None
        ended.shutdown(wait=False, cancel_futures=True)


_shared = _Shared()


async def in_worker(function: Callable[P, Value], *args: P.args, **kwargs: P.kwargs) -> Value:
    """Runs a function in another process and awaits its result.

    Function, arguments and result are pickled: the function must be importable by its name. A call
    that is cancelled before its turn never runs; one that runs then goes on, unheard.

    Args:
        function: a module's own, free of global state.
        *args: what it is given.
        **kwargs: what it is given by name.

    Raises:
        WorkerLostError: the process ended in the middle, by this call or by another one; processes
            that follow are new ones.
        Exception: whatever the function raises.
    """
    processes = _shared.get()
    try:
        return await asyncio.wrap_future(processes.submit(function, *args, **kwargs))
    except BrokenProcessPool as error:
        _shared.drop(processes)
        raise _lost(function) from error


async def in_lone_worker(function: Callable[P, Value], *args: P.args, **kwargs: P.kwargs) -> Value:
    """Like `in_worker`, in a process that is started for this call alone; takes about a second.

    As many run at once as there are processors; others wait for their turn.

    Raises:
        WorkerLostError: the function ended the process.
        Exception: whatever the function raises.
    """
    async with _turns():
        processes = _Processes(1)
        try:
            return await asyncio.wrap_future(processes.submit(function, *args, **kwargs))
        except BrokenProcessPool as error:
            raise _lost(function) from error
        finally:
            processes.shutdown(wait=False, cancel_futures=True)


_turns_of: dict[asyncio.AbstractEventLoop, asyncio.Semaphore] = {}


def _turns() -> asyncio.Semaphore:
    """What the lone workers of this event loop wait for."""
    loop = asyncio.get_running_loop()
    if loop not in _turns_of:
        for old in [each for each in list(_turns_of) if each.is_closed()]:
            _turns_of.pop(old, None)
        _turns_of[loop] = asyncio.Semaphore(len(os.sched_getaffinity(0)))
    return _turns_of[loop]


def bounded(seconds: float, function: Callable[..., Value], *args: object) -> Value:
    """Runs a function in a worker process, and ends the process where that takes too long.

    The system ends it, so this holds for what hangs in C too; who waits gets `WorkerLostError`.
    Meanwhile the process may have `MOST_MEMORY` more than before, write no file longer than
    `LONGEST_FILE`, and leave no image of its memory behind.

    Args:
        seconds: of processor time, so that nothing depends on what else the machine does.
        function: what is to be run.
        *args: what it is given.

    Raises:
        Exception: whatever the function raises.
    """
    signal.signal(signal.SIGPROF, signal.SIG_DFL)
    signal.setitimer(signal.ITIMER_PROF, seconds)
    try:
        with _confined():
            return function(*args)
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0.0)


@contextmanager
def _confined() -> Iterator[None]:
    pages = int(Path("/proc/self/statm").read_text("ascii").split()[0])
    limits = {
        resource.RLIMIT_AS: pages * resource.getpagesize() + MOST_MEMORY,
        resource.RLIMIT_FSIZE: LONGEST_FILE,
        resource.RLIMIT_CORE: 0,
    }
    before = {kind: resource.getrlimit(kind) for kind in limits}
    for kind, limit in limits.items():
        soft, hard = before[kind]
        lowest = min((one for one in (soft, limit) if one != resource.RLIM_INFINITY), default=limit)
        resource.setrlimit(kind, (lowest, hard))
    try:
        yield
    finally:
        for kind, both in before.items():
            resource.setrlimit(kind, both)


def _lost(function: Callable[..., object]) -> WorkerLostError:
    name = getattr(function, "__name__", type(function).__name__)
    return WorkerLostError(f"a worker process ended during {name}")


def end_workers() -> None:
    """Ends the processes, if there are any; the next call starts new ones."""
    _shared.drop()
