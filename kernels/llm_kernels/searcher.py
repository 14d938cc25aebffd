"""Runs one search over an index' newest snapshot, on the host's arrays or on a device's copy."""

from __future__ import annotations

import re
from importlib import import_module
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any

import numpy as np

from llm_kernels import similarity
from llm_kernels.errors import BackendError
from llm_kernels.mirror import DeviceMirror

if TYPE_CHECKING:
    from collections.abc import Callable

    from llm_kernels.snapshots import Snapshot
    from llm_kernels.vectors import Floats, Indices

_ARRAY_BACKENDS = frozenset({"numpy", "faiss"})


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
            newest: reads the index' snapshot.
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
        search = import_module(f"llm_kernels.{backend}_search").search
        if backend in _ARRAY_BACKENDS:
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
