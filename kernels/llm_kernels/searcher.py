"""Runs one search over an index's newest snapshot, on the host's arrays or on a device's copy.

The copy is updated with the rows that are new.
"""

from __future__ import annotations

import re
import threading
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any

import numpy as np

from llm_kernels import similarity
from llm_kernels.errors import BackendError

if TYPE_CHECKING:
    from collections.abc import Callable

    import torch

    from llm_kernels.snapshots import Snapshot
    from llm_kernels.vectors import Floats, Indices, Rows


class Searcher:
    """One backend on one device.

    Args:
        backend: "auto" chooses anew for every search, by device, size and dtype.
        device: "cpu", "cuda" or "cuda:1" and the like.

    Raises:
        BackendError: the backend or the device does not exist here, or they do not go together.
    """

    def __init__(self, *, backend: str, device: str) -> None:
        _check_device(device)
        if backend != "auto":
            similarity.check_backend(backend, device)
        self._backend = backend
        self._device = device
        self._mirror = None if device == "cpu" else DeviceMirror(device)

    def search(
        self, newest: Callable[[], Snapshot], queries: Floats, k: int
    ) -> tuple[Snapshot, Floats, Indices]:
        """The best rows of the newest snapshot.

        Args:
            newest: reads the index's snapshot.
            queries: unit rows, float32 [Q, D], Q >= 1.
            k: at least 1.

        Returns:
            The snapshot that was searched, scores float32 [Q, K] and row numbers int64 [Q, K];
            K = min(k, live rows).
        """
        corpus: Any
        inverse_norms: Any
        if self._mirror is None:
            snapshot = newest()
            corpus = snapshot.rows[: snapshot.count]
            inverse_norms = snapshot.inverse_norms[: snapshot.count]
        else:
            snapshot, corpus, inverse_norms = self._mirror.follow(newest)
        kept = min(k, snapshot.live)
        if kept == 0:
            nothing = (len(queries), 0)
            return snapshot, np.empty(nothing, np.float32), np.empty(nothing, np.int64)
        backend = self._backend_for(snapshot, kept)
        search, takes_arrays = similarity.search_of(backend, self._device)
        if takes_arrays:
            scores, rows = search(queries, corpus, inverse_norms, kept)
            return snapshot, scores, rows
        import torch

        if self._mirror is None:
            corpus, inverse_norms = torch.from_numpy(corpus), torch.from_numpy(inverse_norms)
        asked = torch.from_numpy(queries).to(self._device)
        scores, rows = search(asked, corpus, inverse_norms, kept)
        return snapshot, scores.cpu().numpy(), rows.cpu().numpy()

    def _backend_for(self, snapshot: Snapshot, k: int) -> str:
        if self._backend != "auto":
            return self._backend
        return similarity.choose_backend(
            device=self._device,
            rows=snapshot.count,
            k=k,
            dimension=snapshot.rows.shape[1],
            dtype=str(snapshot.rows.dtype),
        )


class DeviceMirror:
    """The rows of the newest snapshot as tensors.

    Rows keep their place from one snapshot to the next, so only those added since the last call
    are sent, and all of them only after they were renumbered. Inverse norms are sent whole when
    a row was removed, into a new tensor: a search that still runs keeps the old one. Room grows
    with the index's own, by doubling.

    Args:
        device: anything that torch takes; the tests use "cpu".
    """

    def __init__(self, device: str) -> None:
        self._device = device
        self._lock = threading.Lock()
        self._copy: _DeviceCopy | None = None

    def follow(self, newest: Callable[[], Snapshot]) -> tuple[Snapshot, torch.Tensor, torch.Tensor]:
        """Brings the copy up to the newest snapshot.

        Args:
            newest: reads the index's snapshot. It is called under the mirror's lock, so that the
                copy never goes back to an older one.

        Returns:
            The snapshot, its rows [count, D] and its inverse norms, float32 [count]. Later
            calls leave these parts of the tensors as they are.
        """
        with self._lock:
            snapshot = newest()
            # Dropped until it is complete: after an update that failed, the copy is made anew.
            copy, self._copy = self._copy, None
            if copy is None or copy.generation != snapshot.generation:
                copy = _DeviceCopy(snapshot, self._device)
            copy.update(snapshot)
            self._copy = copy
            return snapshot, copy.rows[: snapshot.count], copy.inverse_norms[: snapshot.count]


class _DeviceCopy:
    """Tensors on the device, and the arrays that they are copies of."""

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


def _check_device(device: str) -> None:
    if device == "cpu":
        return
    if re.fullmatch(r"cuda(:\d+)?", device) is None:
        raise BackendError(f"no device is called {device!r}: choose 'cpu', 'cuda' or 'cuda:<n>'")
    if find_spec("torch") is None:
        raise BackendError(f"device {device!r} needs torch, which is not installed: use 'cpu'")
    import torch

    number = int(device.partition(":")[2] or 0)
    if number >= torch.cuda.device_count():
        raise BackendError(
            f"device {device!r} is not here: torch finds {torch.cuda.device_count()} GPUs; "
            "use device 'cpu'"
        )
