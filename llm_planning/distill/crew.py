"""Workers that pass rows through a network side by side, each on cores of its own."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING

import torch

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from torch import Tensor

    from llm_planning.distill.network import Judged, Network
    from llm_planning.distill.trie import Row

MOST_WORKERS = 4
"""More would leave too little of a batch to each."""


class Crew:
    """Workers that pass rows through one network; each adds to a gradient of its own.

    They wait for each other once a batch, where threads inside each product would wait hundreds of
    times: so little is lost if a core is not free. Which worker gets which row follows from the
    rows, so the gradient is the same every time.

    Args:
        network: they share it.
        workers: how many; None for one a core, at most `MOST_WORKERS`, and one on a GPU.

    Raises:
        ValueError: there is no worker.
    """

    def __init__(self, network: Network, workers: int | None) -> None:
        threads = torch.get_num_threads()
        if workers is None:
            on_gpu = network.learned.flat.is_cuda
            workers = 1 if on_gpu else min(threads, MOST_WORKERS)
        if workers < 1:
            raise ValueError(f"workers={workers}: at least one computes")
        self.size = workers
        self._network = network
        self._gradients = [network.learned.gradient() for _ in range(workers)]
        self._rooms = [network.room() for _ in range(workers)]
        # The number of threads inside a product is a worker's own.
        self._pool = ThreadPoolExecutor(
            workers, "teach", initializer=torch.set_num_threads, initargs=(threads // workers or 1,)
        )

    @property
    def gradient(self) -> Tensor:
        """The gradient of the rows that were taught last."""
        return self._gradients[0].flat

    def teach(self, rows: Sequence[Row], *, scale: float) -> list[Judged]:
        """Computes the loss and the gradient of rows, in their order; see `Network.teach`."""
        for gradient in self._gradients:
            gradient.flat.zero_()

        def teach(worker: int, row: Row) -> Judged:
            return self._network.teach(
                row, room=self._rooms[worker], gradient=self._gradients[worker], scale=scale
            )

        judged = self._share(rows, teach)
        for other in self._gradients[1:]:
            self.gradient.add_(other.flat)
        return judged

    def judge(self, rows: Sequence[Row]) -> list[Judged]:
        """Judges rows, in their order; see `Network.judge`."""
        return self._share(
            rows, lambda worker, row: self._network.judge(row, room=self._rooms[worker])
        )

    def _share(self, rows: Sequence[Row], done_by: Callable[[int, Row], Judged]) -> list[Judged]:
        """Deals the rows out in turn."""

        def work(worker: int) -> list[Judged]:
            return [done_by(worker, row) for row in rows[worker :: self.size]]

        parts = list(self._pool.map(work, range(self.size)))
        return [parts[number % self.size][number // self.size] for number in range(len(rows))]

    def close(self) -> None:
        """Ends the workers."""
        self._pool.shutdown()
