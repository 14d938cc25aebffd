"""Processes for environments that block: a simulator that waits or computes must not stop the loop.

One event loop feeds the engine and every trial. An environment whose step takes more than some
milliseconds hands it to `in_worker`. A call carries its whole input and returns its whole result
(an environment's state is JSON), because the next call may meet another process.
"""

from __future__ import annotations

import asyncio
import multiprocessing
import os
import threading
from concurrent.futures import ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from typing import TYPE_CHECKING, ParamSpec, TypeVar

from llm_planning.experiments.pool import WorkerLostError

if TYPE_CHECKING:
    from collections.abc import Callable

P = ParamSpec("P")
Value = TypeVar("Value")


class _Shared:
    """The processes that all trials share; started when the first call comes."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._processes: ProcessPoolExecutor | None = None

    def get(self) -> ProcessPoolExecutor:
        with self._lock:
            if self._processes is None:
                # A forked copy of a process with an engine in it has locks that nobody releases.
                self._processes = ProcessPoolExecutor(
                    max_workers=len(os.sched_getaffinity(0)),
                    mp_context=multiprocessing.get_context("spawn"),
                )
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
        WorkerLostError: the process ended in the middle; processes that follow are new ones.
        Exception: whatever the function raises.
    """
    processes = _shared.get()
    try:
        return await asyncio.wrap_future(processes.submit(function, *args, **kwargs))
    except BrokenProcessPool as error:
        _shared.drop(processes)
        raise WorkerLostError(f"a worker process ended during {function.__name__}") from error


def end_workers() -> None:
    """Ends the processes, if there are any; the next call starts new ones."""
    _shared.drop()
