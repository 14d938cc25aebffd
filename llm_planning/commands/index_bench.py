"""Times the backends that search an index, after comparing their answers."""

from __future__ import annotations

import statistics
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from rich.table import Table

from llm_base.memory import free_memory
from llm_base.terminal import literal
from llm_kernels import EmbeddingIndex, available_backends, choose_backend
from llm_planning.endings import UsageError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence
    from pathlib import Path

    from numpy.typing import NDArray

    from llm_kernels import Match

# A measurement is the median of so many searches, or of as many as fit the time, at least three.
_SEARCHES = 30
_SECONDS = 0.5
_SCORE_ERROR = 1e-6
DIMENSION = 384
"""Dimension of the random vectors that are timed: that of the bundled encoder."""

# Copies of the vectors at one time: the drawn ones, the index's, a backend's, and one more while
# the backend makes its own.
_COPIES = 4
_KEY_BYTES = 256
_MATCH_BYTES = 400


class BenchError(Exception):
    """Nothing is timed, as the index is empty or two backends give different answers."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Measurement:
    """The time of one search of a backend.

    Attributes:
        rows: entries of the index.
        queries: texts searched for at once.
        backend: the timed backend.
        milliseconds: median over several searches, from vectors to matches.
        chosen: whether `auto` would take this backend.
    """

    rows: int
    queries: int
    backend: str
    milliseconds: float
    chosen: bool


def table_of(measured: Iterable[Measurement]) -> Table:
    """The measurements, by size, the fastest first."""
    table = Table("rows", "queries", "backend", "milliseconds", "queries/s", "auto")
    for column in (table.columns[i] for i in (0, 1, 3, 4)):
        column.justify = "right"
    for one in sorted(measured, key=lambda one: (one.rows, one.queries, one.milliseconds)):
        table.add_row(
            f"{one.rows:,}",
            str(one.queries),
            literal(one.backend),
            f"{one.milliseconds:.3f}",
            f"{one.queries * 1000 / one.milliseconds:,.0f}",
            "<-" if one.chosen else "",
        )
    return table


def timed_backends(device: str) -> tuple[str, ...]:
    """The backends to compare on a device: all available ones except interpreted ones."""
    return tuple(
        name
        for name in available_backends(device=device)
        if name != "triton" or device.startswith("cuda")
    )


def refuse_sizes(sizes: Sequence[int], *, queries: Sequence[int], dimension: int, k: int) -> None:
    """Checks before anything is made that the memory can hold it.

    Args:
        sizes: rows of each index.
        queries: how many are searched for at once.
        dimension: of the vectors.
        k: results per query.

    Raises:
        UsageError: says what fits.
    """
    free = free_memory()
    row = _COPIES * 4 * dimension + _KEY_BYTES
    rows, most = max(sizes, default=0), max(queries)
    if rows * row > free:
        raise UsageError(
            f"--rows {rows} takes {rows * row / 2**30:.1f} GiB, and {free / 2**30:.1f} GiB of "
            f"memory are free: at most {free // row} rows fit"
        )
    # Two sets of answers exist at a time.
    query = 8 * dimension + 2 * _MATCH_BYTES * min(k, rows or k)
    if most * query > free - rows * row:
        raise UsageError(
            f"--queries {most} with -k {k} takes {most * query / 2**30:.1f} GiB beside the index, "
            f"and {(free - rows * row) / 2**30:.1f} GiB of memory are free: at most "
            f"{(free - rows * row) // query} queries fit"
        )


def bench_sizes(
    sizes: Sequence[int], *, queries: Sequence[int], dimension: int, dtype: str, k: int, device: str
) -> Iterator[Measurement]:
    """Measures on seeded random vectors.

    Args:
        sizes: rows of each index.
        queries: how many are searched for at once.
        dimension: of the vectors.
        dtype: "float32" or "float16".
        k: results per query.
        device: "cpu", "cuda" or "cuda:1" and the like.

    Raises:
        BenchError: two backends give different answers.
        SimilarityError: a size, dtype or device that no index has.
    """
    random = np.random.default_rng(0)
    for rows in sizes:
        vectors = random.standard_normal((rows, dimension), dtype=np.float32)
        asked = random.standard_normal((max(queries), dimension), dtype=np.float32)
        keys = [str(row) for row in range(rows)]

        def filled(
            backend: str, keys: list[str] = keys, vectors: NDArray[np.float32] = vectors
        ) -> EmbeddingIndex:
            index = EmbeddingIndex(dimension, dtype=dtype, backend=backend, device=device)
            index.add(keys, vectors)
            return index

        yield from _compared(filled, asked, queries=queries, k=k, device=device)


def bench_folder(
    folder: Path, *, queries: Sequence[int], k: int, device: str
) -> Iterator[Measurement]:
    """Measures on a saved index, with queries near its own vectors.

    Args:
        folder: where it was saved.
        queries: how many are searched for at once.
        k: results per query.
        device: "cpu", "cuda" or "cuda:1" and the like.

    Raises:
        BenchError: the index is empty, or two backends give different answers.
        SimilarityError: the folder holds no index, or there is no such device.
    """
    index = EmbeddingIndex.load(folder)
    keys = index.keys
    if not keys:
        raise BenchError(f"{folder} holds an index without entries: there is nothing to time")
    random = np.random.default_rng(0)
    near = [index.vector(keys[row]) for row in random.integers(len(keys), size=max(queries))]
    # Noise of length 0.5 beside unit vectors: near the entries, but never an entry itself.
    noise = random.standard_normal((len(near), index.dimension)) * 0.5 / np.sqrt(index.dimension)
    asked = (np.stack(near) + noise).astype(np.float32)
    del index

    def loaded(backend: str) -> EmbeddingIndex:
        return EmbeddingIndex.load(folder, backend=backend, device=device)

    yield from _compared(loaded, asked, queries=queries, k=k, device=device)


def _compared(
    opened: Callable[[str], EmbeddingIndex],
    asked: NDArray[np.float32],
    *,
    queries: Sequence[int],
    k: int,
    device: str,
) -> Iterator[Measurement]:
    expected: dict[int, tuple[tuple[Match, ...], ...]] = {}
    first = ""
    # If possible, the backend that needs only NumPy comes first, as the reference for the others.
    for backend in reversed(timed_backends(device)):
        index = opened(backend)
        first = first or backend
        for number in queries:
            answers = index.search_batch(asked[:number], k)
            if not _agree(answers, expected.setdefault(number, answers)):
                raise BenchError(
                    f"{backend} and {first} give different answers to {number} queries on "
                    f"{len(index)} rows: nothing is timed"
                )
            chosen = choose_backend(
                device=device,
                rows=len(index),
                k=k,
                dimension=index.dimension,
                dtype=index.dtype,
            )
            yield Measurement(
                rows=len(index),
                queries=number,
                backend=backend,
                milliseconds=_milliseconds(index, asked[:number], k),
                chosen=backend == chosen,
            )


def _agree(answers: tuple[tuple[Match, ...], ...], expected: tuple[tuple[Match, ...], ...]) -> bool:
    return all(
        ours.key == theirs.key and abs(ours.score - theirs.score) <= _SCORE_ERROR
        for answer, other in zip(answers, expected, strict=True)
        for ours, theirs in zip(answer, other, strict=True)
    )


def _milliseconds(index: EmbeddingIndex, asked: NDArray[np.float32], k: int) -> float:
    spent: list[float] = []
    while len(spent) < 3 or (len(spent) < _SEARCHES and sum(spent) < _SECONDS):
        began = time.perf_counter()
        index.search_batch(asked, k)
        spent.append(time.perf_counter() - began)
    return 1000 * statistics.median(spent)
