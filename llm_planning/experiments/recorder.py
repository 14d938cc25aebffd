"""One thread that writes results to the ledger, in order, while the event loop goes on."""

from __future__ import annotations

import asyncio
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Protocol

from llm_planning.experiments.ledger import UnkeepableResultError

if TYPE_CHECKING:
    from collections.abc import Mapping
    from concurrent.futures import Future

    from llm_planning.experiments.trial import TrialResult


class Records(Protocol):
    """What a sweep needs of its ledger."""

    def record(self, result: TrialResult, *, attempt: int, final: bool) -> None:
        """Keeps one attempt; it is on the disk when this returns."""
        ...

    def finished(self) -> frozenset[str]:
        """Keys of the trials that have their final row."""
        ...

    def attempts(self) -> Mapping[str, int]:
        """Failed attempts so far of trials that have none."""
        ...


class Recorder:
    """Hands results to the ledger one after the other.

    A record takes milliseconds, most of them spent waiting for the disk, so the thread that feeds
    the engine must not wait for it.

    Args:
        ledger: only this object's thread calls its `record`.

    Attributes:
        error: why the first result that should be on the disk is not.
    """

    def __init__(self, ledger: Records) -> None:
        self._ledger = ledger
        self._thread = ThreadPoolExecutor(max_workers=1, thread_name_prefix="ledger")
        self._pending: set[Future[None]] = set()
        self.error: BaseException | None = None

    @property
    def backlog(self) -> int:
        """Results that are handed over and not yet on the disk."""
        return len(self._pending)

    async def record(self, result: TrialResult, *, attempt: int, final: bool) -> None:
        """Returns when the result is on the disk; a cancelled call's result gets there too.

        Raises:
            UnkeepableResultError: the result is not one that a ledger can hold.
            LedgerError: the disk does not take it.
        """
        written = self._thread.submit(self._ledger.record, result, attempt=attempt, final=final)
        self._pending.add(written)
        written.add_done_callback(self._written)
        waiting = asyncio.wrap_future(written)
        # An error that comes when the caller has left is in `error`.
        waiting.add_done_callback(lambda done: done.cancelled() or done.exception())
        await asyncio.shield(waiting)

    def close(self) -> None:
        """Waits until everything handed over is on the disk, or was refused."""
        self._thread.shutdown(wait=True)

    def _written(self, written: Future[None]) -> None:
        self._pending.discard(written)
        error = written.exception()
        if not isinstance(error, UnkeepableResultError):
            self.error = self.error or error
