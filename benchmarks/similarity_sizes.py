"""What `similarity_gpu.py` searches, its rows, and what it asks of them; needs no GPU."""

from __future__ import annotations

import itertools
from dataclasses import dataclass, field
from statistics import geometric_mean
from typing import TYPE_CHECKING

from harness import Finding
from rich.table import Table

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

KERNEL, BEFORE, TORCH, EXACT, FAISS = "kernel", "before", "torch", "torch made exact", "faiss"


@dataclass(frozen=True, slots=True, kw_only=True)
class Size:
    """One search.

    Attributes:
        itemsize: bytes of a corpus element.
    """

    rows: int
    dimension: int
    queries: int
    k: int
    itemsize: int

    @property
    def corpus_bytes(self) -> int:
        """Of the rows alone."""
        return self.rows * self.dimension * self.itemsize

    @property
    def least_bytes(self) -> int:
        """Bytes that any search must read: the corpus and its weights."""
        return self.corpus_bytes + 4 * self.rows


# The most telling first: time may be up before the last.
_CORPORA = (
    (1_000_000, 384),
    (10_000_000, 384),
    (10_000, 384),
    (10_000_000, 768),
    (100_000, 384),
    (1_000_000, 768),
    (100_000, 768),
    (10_000, 768),
)
_QUERIES = (1, 16, 64, 512)
K = 10
# Lists of this length are asked for in the first corpus, too.
LONG_K = 64


def sizes(itemsize: int) -> tuple[Size, ...]:
    """All searches, those of one corpus together."""
    every = [
        (rows, dimension, queries, K)
        for (rows, dimension), queries in itertools.product(_CORPORA, _QUERIES)
    ]
    rows, dimension = _CORPORA[0]
    every[len(_QUERIES) : len(_QUERIES)] = [(rows, dimension, q, LONG_K) for q in _QUERIES]
    return tuple(
        Size(rows=rows, dimension=dimension, queries=queries, k=k, itemsize=itemsize)
        for rows, dimension, queries, k in every
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """Medians of one size; what is missing or wrong says so in `notes`.

    Attributes:
        device: seconds of the device alone, from a CUDA graph, by name of who searched.
        python: seconds that a search's launches take of Python, likewise.
        search: seconds of whole searches, from queries on the host to the answer there, by backend.
    """

    size: Size
    device: dict[str, float] = field(default_factory=dict)
    python: dict[str, float] = field(default_factory=dict)
    search: dict[str, float] = field(default_factory=dict)
    notes: dict[str, str] = field(default_factory=dict)

    def over_kernel(self, peer: str) -> float | None:
        """A peer's time on the device over the kernel's."""
        if not {peer, KERNEL} <= self.device.keys():
            return None
        return self.device[peer] / self.device[KERNEL]

    def share(self, ceiling: float) -> float | None:
        """Of the copy bandwidth, bytes a second, counting what any search must read."""
        taken = self.device.get(KERNEL)
        return None if taken is None else self.size.least_bytes / taken / ceiling


@dataclass(frozen=True, slots=True, kw_only=True)
class _Target:
    """What is asked, of which sizes.

    Attributes:
        figure: of a row and the copy bandwidth; None where it was not measured.
        together: makes one figure of all.
    """

    label: str
    least: float
    figure: Callable[[Row, float], float | None]
    aimed: Callable[[Size], bool]
    together: Callable[[Sequence[float]], float] = min


def _over(peer: str) -> Callable[[Row, float], float | None]:
    return lambda row, _: row.over_kernel(peer)


_LARGE = 1_500_000_000

TARGETS = (
    _Target(
        label="share of the copy bandwidth, rows of more than 1.5 GB, Q <= 16",
        least=0.85,
        figure=Row.share,
        aimed=lambda size: size.corpus_bytes > _LARGE and size.queries <= 16,
    ),
    _Target(
        label="share of the copy bandwidth, N >= 1M below that, Q <= 16",
        least=0.8,
        figure=Row.share,
        aimed=lambda size: (
            size.rows >= 1_000_000 and size.corpus_bytes <= _LARGE and size.queries <= 16
        ),
    ),
    _Target(
        label="torch's inexact product and topk over the kernel, every size",
        least=0.85,
        figure=_over(TORCH),
        aimed=lambda _: True,
    ),
    _Target(
        label="the same, geometric mean",
        least=1.3,
        figure=_over(TORCH),
        aimed=lambda _: True,
        together=geometric_mean,
    ),
    _Target(
        label="torch made exact over the kernel, Q >= 16",
        least=1.5,
        figure=_over(EXACT),
        aimed=lambda size: size.queries >= 16,
    ),
    _Target(
        label="faiss' flat index over the kernel, k <= 64",
        least=1.0,
        figure=_over(FAISS),
        aimed=lambda size: size.k <= LONG_K,
    ),
)


def findings(rows: Sequence[Row], ceiling: float, planned: Iterable[Size]) -> list[Finding]:
    """What is asked, and what was measured; each says of how many of its sizes.

    Args:
        ceiling: copy bandwidth, bytes a second.
        planned: all sizes, also those that time did not suffice for.
    """
    planned = tuple(planned)
    found = []
    for target in TARGETS:
        aimed = [row for row in rows if target.aimed(row.size)]
        figures = [one for row in aimed if (one := target.figure(row, ceiling)) is not None]
        every = sum(map(target.aimed, planned))
        kind = "worst" if target.together is min else "mean"
        found.append(
            Finding(
                label=f"{target.label}: {kind} of {len(figures)} of {every} sizes",
                measured=target.together(figures) if figures else None,
                unit="" if target.figure is Row.share else "x",
                bound="at least",
                target=target.least,
            )
        )
    return found


def table_of(rows: Iterable[Row], ceiling: float) -> Table:
    """A line per size."""
    peers = (BEFORE, TORCH, EXACT, FAISS)
    backends = ("triton", "torch", "faiss")
    columns = ["N", "D", "Q", "k", "device ms", "Python ms", "of copying", *peers]
    columns += [f"whole, {backend}, ms" for backend in backends]
    table = Table(*columns, title="similarity_gpu", title_justify="left")
    for row in rows:
        size = row.size
        share = row.share(ceiling)
        numbers = (size.rows, size.dimension, size.queries, size.k)
        ratios = ((name, row.over_kernel(name)) for name in peers)
        table.add_row(
            *(f"{number:,}" for number in numbers),
            _milliseconds(row.device.get(KERNEL)),
            _milliseconds(row.python.get(KERNEL)),
            "" if share is None else f"{share:.0%}",
            *(row.notes.get(name, "") if one is None else f"{one:.2f}x" for name, one in ratios),
            *(_milliseconds(row.search.get(backend)) for backend in backends),
        )
    return table


def _milliseconds(seconds: float | None) -> str:
    return "" if seconds is None else f"{seconds * 1e3:.3f}"
