"""The rows of an index: buffers that only ever grow at their end, and views that never change.

A search works on one `Snapshot`, which it takes with one attribute read. Writers add rows behind
the last one that any snapshot counts, and publish a new snapshot when everything is in place, so
that a reader neither waits nor sees half of a write.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Sequence

    from llm_kernels.vectors import Floats, Rows


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Snapshot:
    """What an index holds at one moment.

    Of all columns only the first `count` entries belong to the snapshot; a later one may share
    the columns and use more of them.

    Attributes:
        rows: unit rows, [capacity, D].
        inverse_norms: 1 / ‖row‖, float32 [capacity]; 0 for a row that was removed.
        keys: [at least count].
        payloads: JSON texts or None, [at least count].
        count: rows in use, removed ones included.
        live: rows that were not removed.
        generation: how often rows were renumbered before; within a generation a row number means
            one vector.
    """

    rows: Rows
    inverse_norms: Floats
    keys: list[str]
    payloads: list[str | None]
    count: int
    live: int
    generation: int

    def live_rows(self) -> np.ndarray[tuple[int], np.dtype[np.int64]]:
        """Numbers of the rows that were not removed, ascending, int64 [live]."""
        return np.flatnonzero(self.inverse_norms[: self.count])


def snapshot_of(
    rows: Rows, inverse_norms: Floats, keys: list[str], payloads: list[str | None]
) -> Snapshot:
    """A first snapshot, which takes over the given columns; all of one length."""
    return Snapshot(
        rows=rows,
        inverse_norms=inverse_norms,
        keys=keys,
        payloads=payloads,
        count=len(keys),
        live=len(keys),
        generation=0,
    )


class RowTable:
    """The newest snapshot, the writes that lead to the next one, and the row of each key.

    All methods are for one thread at a time; `snapshot` is for any number of them.

    Attributes:
        snapshot: the newest.
    """

    def __init__(self, first: Snapshot) -> None:
        self.snapshot = first
        self._row_of: dict[str, int] = {}
        self._known = (first.generation, 0)

    def find(self, key: str) -> int | None:
        """The row of a key in the newest snapshot, None if it has none."""
        self._learn_keys()
        row = self._row_of.get(key)
        return row if row is not None and self.snapshot.inverse_norms[row] > 0 else None

    def remove(self, removed: Sequence[int]) -> None:
        """Removes live rows, in one step for every reader."""
        self._publish(_without(self.snapshot, removed))

    def write(
        self,
        *,
        removed: Sequence[int],
        rows: Rows,
        inverse_norms: Floats,
        keys: Sequence[str],
        payloads: Sequence[str | None],
    ) -> None:
        """Removes live rows and appends others, in one step for every reader.

        Room is made by doubling, so that n rows added one by one are copied less than 2 n times.

        Args:
            removed: live rows.
            rows: [N, D].
            inverse_norms: float32 [N].
            keys: [N].
            payloads: [N].
        """
        kept = _without(self.snapshot, removed)
        self._publish(_with(kept, rows, inverse_norms, keys, payloads))

    def _publish(self, after: Snapshot) -> None:
        # Where most rows are removed, moving the others costs less than their removal did.
        sparse = after.live < after.count - after.live
        self.snapshot = _moved_together(after) if sparse else after

    def _learn_keys(self) -> None:
        """Brings the dictionary up to the newest snapshot.

        It is only filled from published snapshots, so a write that fails or is interrupted leaves
        no trace in it.
        """
        now = self.snapshot
        generation, known = self._known
        if generation != now.generation:
            self._row_of, known = {}, 0
        if known < now.count:
            new = range(known, now.count)
            self._row_of.update(zip(now.keys[known : now.count], new, strict=True))
        self._known = (now.generation, now.count)


def _without(before: Snapshot, removed: Sequence[int]) -> Snapshot:
    if not removed:
        return before
    inverse_norms = before.inverse_norms.copy()
    inverse_norms[removed] = 0
    return replace(before, inverse_norms=inverse_norms, live=before.live - len(removed))


def _with(
    before: Snapshot,
    rows: Rows,
    inverse_norms: Floats,
    keys: Sequence[str],
    payloads: Sequence[str | None],
) -> Snapshot:
    count = before.count + len(keys)
    grown = before if count <= len(before.rows) else _grown(before, count)
    grown.rows[before.count : count] = rows
    grown.inverse_norms[before.count : count] = inverse_norms
    # Assigned and not appended: an interrupted write may have left something there.
    grown.keys[before.count :] = keys
    grown.payloads[before.count :] = payloads
    return replace(grown, count=count, live=before.live + len(keys))


def _grown(before: Snapshot, count: int) -> Snapshot:
    capacity = max(count, 2 * len(before.rows))
    rows = np.empty((capacity, before.rows.shape[1]), before.rows.dtype)
    inverse_norms = np.empty(capacity, np.float32)
    rows[: before.count] = before.rows[: before.count]
    inverse_norms[: before.count] = before.inverse_norms[: before.count]
    return replace(before, rows=rows, inverse_norms=inverse_norms)


def _moved_together(before: Snapshot) -> Snapshot:
    live = before.live_rows()
    return Snapshot(
        rows=before.rows[live],
        inverse_norms=before.inverse_norms[live],
        keys=[before.keys[row] for row in live],
        payloads=[before.payloads[row] for row in live],
        count=len(live),
        live=len(live),
        generation=before.generation + 1,
    )
