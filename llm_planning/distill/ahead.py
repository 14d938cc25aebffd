"""Batches of lessons, made by other processes while earlier ones are learned.

A batch is a pure function of its number, so nobody sees who made it. On a GPU a batch is learned
faster than one core makes it.
"""

from __future__ import annotations

import multiprocessing
import os
import signal
import threading
from concurrent.futures import Future, ProcessPoolExecutor
from typing import TYPE_CHECKING, Any, Final, Generic, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable

T = TypeVar("T")

_EACH: Final = 2
"""Batches that are under way for each process."""


class Ahead(Generic[T]):
    """Makes batches ahead; a function from a batch's number to the batch.

    Args:
        begin: makes the function in a process; it is pickled.
        processes: how many make batches, at least one. They begin at once.
    """

    def __init__(self, begin: Callable[[], Callable[[int], T]], *, processes: int) -> None:
        # A copy of a process that uses a GPU could not go on.
        context = multiprocessing.get_context("spawn")
        self._most = _EACH * processes
        self._pool = ProcessPoolExecutor(processes, context, _begin, (begin,))
        self._made: dict[int, Future[T]] = {}
        for _ in range(processes):
            self._pool.submit(int)

    def __call__(self, batch: int) -> T:
        """Returns a batch, and has those after it made."""
        for number in range(batch, batch + self._most):
            if number not in self._made:
                self._made[number] = self._pool.submit(_make, number)
        lessons = self._made.pop(batch).result()
        self._made = {number: future for number, future in self._made.items() if number > batch}
        return lessons

    def close(self) -> None:
        """Ends the processes; what is under way is lost."""
        self._pool.shutdown(cancel_futures=True)


_made_by: Callable[[int], Any]


def _begin(begin: Callable[[], Callable[[int], Any]]) -> None:
    global _made_by  # noqa: PLW0603 - it is this process's only one
    # Ctrl-C ends the training, which ends this process; so does whatever else ends it.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    threading.Thread(target=_end_with_the_training, daemon=True).start()
    _made_by = begin()


def _end_with_the_training() -> None:
    training = multiprocessing.parent_process()
    if training is not None:
        training.join()
        os._exit(1)


def _make(batch: int) -> Any:  # noqa: ANN401 - a batch
    return _made_by(batch)
