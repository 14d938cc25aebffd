"""A copy of an index' newest rows on a device, brought up to date by what is new."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable

    import torch

    from llm_kernels.snapshots import Snapshot
    from llm_kernels.vectors import Floats, Rows


class DeviceMirror:
    """The rows of the newest snapshot as tensors.

    Rows keep their place from one snapshot to the next, so only those added since the last call
    are sent, and all of them only after they were renumbered. Inverse norms are sent whole when
    a row was removed, into a new tensor: a search that still runs keeps the old one. Room grows
    with the index' own, by doubling.

    Args:
        device: anything that torch takes; the tests use "cpu".
    """

    def __init__(self, device: str) -> None:
        self._device = device
        self._lock = threading.Lock()
        self._held: _Held | None = None

    def follow(self, newest: Callable[[], Snapshot]) -> tuple[Snapshot, torch.Tensor, torch.Tensor]:
        """Brings the copy up to the newest snapshot.

        Args:
            newest: reads the index' snapshot. It is called under the mirror's lock, so that the
                copy never goes back to an older one.

        Returns:
            The snapshot, its rows [count, D] and its inverse norms, float32 [count]. The tensors
            never change where the snapshot looks at them.
        """
        with self._lock:
            snapshot = newest()
            # Taken apart until it is complete: a copy that failed on the way is made anew.
            held, self._held = self._held, None
            if held is None or held.generation != snapshot.generation:
                held = _Held(snapshot, self._device)
            held.update(snapshot)
            self._held = held
            return snapshot, held.rows[: snapshot.count], held.inverse_norms[: snapshot.count]


class _Held:
    """What is on the device, and of which arrays it is the copy."""

    def __init__(self, snapshot: Snapshot, device: str) -> None:
        self._device = device
        self.generation = snapshot.generation
        self._count = 0
        self._rows_of = snapshot.rows
        self._inverse_norms_of = snapshot.inverse_norms
        self.rows = self._room_for(snapshot.rows)
        self.inverse_norms = self._room_for(snapshot.inverse_norms)
        self._sent_norms = 0

    def update(self, snapshot: Snapshot) -> None:
        if self._rows_of is not snapshot.rows:
            grown = self._room_for(snapshot.rows)
            grown[: self._count] = self.rows[: self._count]
            self.rows, self._rows_of = grown, snapshot.rows
        self._send(snapshot.rows, self.rows, self._count, snapshot.count)
        known = self._count
        if self._inverse_norms_of is not snapshot.inverse_norms:
            self.inverse_norms = self._room_for(snapshot.inverse_norms)
            self._inverse_norms_of = snapshot.inverse_norms
            known = 0
        self._send(snapshot.inverse_norms, self.inverse_norms, known, snapshot.count)
        self._count = snapshot.count

    def _room_for(self, array: Rows | Floats) -> torch.Tensor:
        import torch

        dtype = torch.float16 if array.dtype == "float16" else torch.float32
        return torch.empty(array.shape, dtype=dtype, device=self._device)

    def _send(self, array: Rows | Floats, tensor: torch.Tensor, first: int, end: int) -> None:
        import torch

        if first < end:
            # Waits until the copy is done, so every stream that searches later sees it.
            tensor[first:end].copy_(torch.from_numpy(array[first:end]))
