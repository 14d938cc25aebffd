"""Worker processes, so that a simulator that waits or computes does not block the event loop.

One event loop serves the engine and every trial. An environment whose step takes more than a few
milliseconds passes it to `in_worker`. A call takes its whole input and returns its whole result,
because the next call may run in another process. A function that may kill its process goes to
`in_lone_worker`, where no other call is lost with it. `bounded` ends a function that may never
return.
"""

from __future__ import annotations

import asyncio
import multiprocessing
import os
import pickle
import resource
import signal
import sys
import threading
import traceback
from concurrent.futures import ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, ParamSpec, TypeVar

from llm_planning.interrupts import was_interrupted
from llm_planning.own_code import describe_error

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from concurrent.futures import Future

P = ParamSpec("P")
Value = TypeVar("Value")


SAFE_PATH = "PYTHONSAFEPATH"
"""The environment variable that is equivalent to Python's option -P, for the processes started."""

MOST_MEMORY = 2 << 30
"""Memory that a function in `bounded` may use on top of that of its process, in bytes."""

LONGEST_FILE = 1 << 20
"""The largest file that a function in `bounded` may write, in bytes. Jericho's copy of its library
has half this size."""


class WorkerLostError(RuntimeError):
    """The process of a call ended before the call returned, perhaps because of another call."""


class _Processes(ProcessPoolExecutor):
    """Processes with this one's import path, but without the working directory.

    Args:
        count: largest number of processes; `submit` starts them one by one.
    """

    def __init__(self, count: int) -> None:
        # The first semaphore starts `multiprocessing`'s own helper process, also with `-c`.
        with _elsewhere():
            super().__init__(
                max_workers=count,
                # A forked copy of a process with an engine has locks that are never released.
                mp_context=multiprocessing.get_context("spawn"),
                initializer=_leave_stdout,
            )

    def submit(
        self, function: Callable[P, Value], /, *args: P.args, **kwargs: P.kwargs
    ) -> Future[Value]:
        """Starts a call, as the method of `ProcessPoolExecutor` does."""
        with _elsewhere():
            return super().submit(function, *args, **kwargs)

    def kill(self) -> None:
        """Ends what is left when one of the processes was lost.

        Python 3.11 ends the others, but not one that `submit` starts meanwhile. For that `shutdown`
        would wait without end.
        """
        for process in list((self._processes or {}).values()):
            process.kill()


_starting = threading.Lock()


@contextmanager
def _elsewhere() -> Iterator[None]:
    """A context in which started processes do not import from the working directory.

    `multiprocessing` starts Python with `-c`, which searches that directory before the standard
    library, and offers no way to add `-P`. The command line sets the variable for good, but the
    environment of a program that calls this package must not change.
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


@dataclass(frozen=True, slots=True)
class _Answer:
    """What came of a call in another process.

    Attributes:
        pickled: the result, or the error.
        raised: the error in words, with its traceback; None if there is none.
    """

    pickled: bytes
    raised: tuple[str, str] | None = None


def _answered(call: bytes) -> _Answer:
    """Runs a pickled function without arguments, in another process."""
    try:
        return _Answer(pickle.dumps(pickle.loads(call)()))
    except BaseException as error:
        if was_interrupted(error):
            raise
        raised = describe_error(error), "".join(traceback.format_exception(error))
        try:
            return _Answer(pickle.dumps(error), raised)
        except Exception:  # an error of others holds anything
            return _Answer(b"", raised)


async def _called(
    processes: _Processes, function: Callable[P, Value], *args: P.args, **kwargs: P.kwargs
) -> Value:
    """Runs a function in one of the processes.

    What one side writes and the other cannot read is an error of this call. The executor would take
    it for the end of a process, and all other calls would be lost with it.
    """
    call = pickle.dumps(partial(function, *args, **kwargs))
    answer = await asyncio.wrap_future(processes.submit(_answered, call))
    if answer.raised is None:
        value: Value = pickle.loads(answer.pickled)
        return value
    described, trace = answer.raised
    try:
        error = pickle.loads(answer.pickled)
        error.add_note(f"In another process:\n{trace}")
    except Exception:  # nor does every error that is written become one again
        error = RuntimeError(described)
    raise error


def _leave_stdout() -> None:
    """Redirects stdout to stderr: a simulator may print, but stdout is for the command's answer."""
    sys.stdout.flush()
    os.dup2(2, 1)


class _Shared:
    """The processes that all trials share; the first call starts them."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._processes: _Processes | None = None

    def get(self) -> _Processes:
        with self._lock:
            if self._processes is None:
                self._processes = _Processes(len(os.sched_getaffinity(0)))
            return self._processes

    def give_up(self, processes: _Processes) -> None:
        """Lets the next call start new processes if the given ones are the present ones."""
        with self._lock:
            if self._processes is processes:
                self._processes = None

    def end(self) -> None:
        """Ends the present processes, after the calls that run in them."""
        with self._lock:
            ended, self._processes = self._processes, None
        if ended is not None:
            ended.shutdown(cancel_futures=True)


_shared = _Shared()


async def in_worker(function: Callable[P, Value], *args: P.args, **kwargs: P.kwargs) -> Value:
    """Runs a function in another process and awaits its result.

    Function, arguments and result are pickled, so the function must be importable by its name. A
    call that is cancelled before it starts never runs; a running call goes on, and its result is
    dropped.

    Args:
        function: a function at the top level of a module, without global state.
        *args: its positional arguments.
        **kwargs: its keyword arguments.

    Raises:
        WorkerLostError: the process ended during the call, because of this call or another one. The
            next call starts new processes.
        RuntimeError: the function raised an error that cannot be pickled; has it in words.
        BaseException: any other error that the function raises.
    """
    processes = _shared.get()
    try:
        return await _called(processes, function, *args, **kwargs)
    except BrokenProcessPool as error:
        _shared.give_up(processes)
        processes.kill()
        _end_beside(processes)
        raise _lost(function) from error


async def in_lone_worker(function: Callable[P, Value], *args: P.args, **kwargs: P.kwargs) -> Value:
    """Like `in_worker`, in a process of its own, which takes about a second to start.

    At most as many calls run at once as there are processors; the others wait.

    Raises:
        WorkerLostError: the function ended the process.
        RuntimeError: the function raised an error that cannot be pickled; has it in words.
        BaseException: any other error that the function raises.
    """
    async with _turns():
        processes = _Processes(1)
        try:
            return await _called(processes, function, *args, **kwargs)
        except BrokenProcessPool as error:
            processes.kill()
            raise _lost(function) from error
        finally:
            _end_beside(processes)


def _end_beside(processes: _Processes) -> None:
    """Ends processes without blocking the event loop, which waits for them when it ends.

    With `wait=False` nobody waits. The exit of Python 3.11 may then write into a pipe that the
    executor's thread closes at that moment: "Bad file descriptor" on stderr.
    """
    end = partial(processes.shutdown, cancel_futures=True)
    asyncio.get_running_loop().run_in_executor(None, end)


_turns_of: dict[asyncio.AbstractEventLoop, asyncio.Semaphore] = {}


def _turns() -> asyncio.Semaphore:
    """The semaphore that limits the lone workers of the running event loop."""
    loop = asyncio.get_running_loop()
    if loop not in _turns_of:
        for old in [each for each in list(_turns_of) if each.is_closed()]:
            _turns_of.pop(old, None)
        _turns_of[loop] = asyncio.Semaphore(len(os.sched_getaffinity(0)))
    return _turns_of[loop]


def bounded(seconds: float, function: Callable[..., Value], *args: object) -> Value:
    """Runs a function in a worker process, and ends the process if that takes too long.

    The operating system ends it, even if the function hangs in C; the caller of `in_worker` then
    gets a `WorkerLostError`. During the call the process can use `MOST_MEMORY` more than before,
    write no file larger than `LONGEST_FILE`, and leave no core dump.

    Args:
        seconds: limit of processor time, which does not depend on the load of the machine.
        *args: its arguments.

    Raises:
        Exception: any exception that the function raises.
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
        lowest = min(
            (bound for bound in (soft, limit) if bound != resource.RLIM_INFINITY), default=limit
        )
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
    """Ends the shared processes, if there are any; the next call starts new ones."""
    _shared.end()
