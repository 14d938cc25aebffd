"""A superset of the answer, kept small while blocks of approximate scores pass by."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from llm_kernels.rescore import descending, rank, rank_all
from llm_kernels.vectors import blocks

if TYPE_CHECKING:
    from collections.abc import Sequence

    from llm_kernels.sources import Source
    from llm_kernels.vectors import Floats, Indices

LOWEST = np.float32(np.finfo(np.float32).min)
# Candidates of several queries are ranked together in tables of about this many.
_TABLE = 1 << 14
# Rows that are candidates of one query in eight or more are ranked for all, this many together.
_SHARED_BY = 8
_TOGETHER = 2048


class Pairs(NamedTuple):
    """Pairs of query and row.

    Attributes:
        query_of: int64 [P].
        row_of: int64 [P].
        scores: float32 [P], approximate or exact.
    """

    query_of: Indices
    row_of: Indices
    scores: Floats

    @classmethod
    def joined(cls, parts: Sequence[Pairs]) -> Pairs:
        """All pairs of the parts."""
        if len(parts) == 1:
            return parts[0]
        query_of, row_of, scores = zip(*parts, strict=True)
        return cls(np.concatenate(query_of), np.concatenate(row_of), np.concatenate(scores))

    @classmethod
    def of_tables(cls, scores: Floats, rows: Indices) -> Pairs:
        """The pairs of tables [Q, C] of scores and rows."""
        count, width = rows.shape
        return cls(np.repeat(np.arange(count), width), rows.ravel(), scores.ravel())


class Candidates:
    """Pairs that may belong to the answer.

    Attributes:
        threshold: float32 [Q]; a row whose approximate score is below it is not a candidate.
    """

    def __init__(self, queries: Floats, source: Source, k: int, *, margin: float) -> None:
        """Starts empty.

        Args:
            queries: float32 [Q, D], unit rows.
            source: the corpus.
            k: results per query; at most the number of rows that will be offered.
            margin: how far below the k-th best approximate score a row of the answer can lie.
        """
        self.threshold = np.full(len(queries), LOWEST, np.float32)
        self._queries = queries
        self._source = source
        self._k = k
        self._margin = np.float32(margin)
        self._parts: list[Pairs] = []
        self._limit = len(queries) * (16 * k + 256)

    def add(self, pairs: Pairs) -> None:
        """Offers pairs, each once, of rows that take part."""
        self._parts.append(pairs)
        if self._size() <= self._limit:
            return
        # Pruning sorts; where that many came at once, it would keep most of them anyway.
        if self._size() <= 4 * self._limit:
            self.prune()
        if self._size() > self._limit // 2:
            self._settle()

    def raise_threshold(self, bound: Floats) -> None:
        """Takes lower bounds [Q] on the k-th best approximate score."""
        np.maximum(self.threshold, bound - self._margin, out=self.threshold)

    def prune(self) -> None:
        """Raises the threshold to the k-th best score so far, and drops the candidates below it."""
        pairs = Pairs.joined(self._parts)
        count = np.bincount(pairs.query_of, minlength=len(self.threshold))
        order = np.argsort((pairs.query_of << 32) + descending(pairs.scores))
        full = np.flatnonzero(count >= self._k)
        kth = order[np.cumsum(count)[full] - count[full] + self._k - 1]
        bound = np.full(len(self.threshold), LOWEST, np.float32)
        bound[full] = pairs.scores[kth]
        self.raise_threshold(bound)
        kept = np.flatnonzero(pairs.scores >= self.threshold[pairs.query_of])
        self._parts = [Pairs(pairs.query_of[kept], pairs.row_of[kept], pairs.scores[kept])]

    def result(self) -> tuple[Floats, Indices]:
        """The answer: scores [Q, k] and indices [Q, k]."""
        if len(self._parts) > 1:
            self.prune()
        return self._ranked(self._parts[0])

    def _size(self) -> int:
        return sum(len(pairs.scores) for pairs in self._parts)

    def _settle(self) -> None:
        """Keeps only the exact winners of candidates that rounding cannot tell apart."""
        pairs = Pairs.joined(self._parts)
        rows = np.unique(pairs.row_of)
        if len(rows) * len(self.threshold) > _SHARED_BY * len(pairs.row_of):
            self._parts = [Pairs.of_tables(*self._ranked(pairs))]
            return
        # Equal rows, or a corpus around one point: the winners of some rows for all queries.
        self._parts = [
            Pairs.of_tables(
                *rank_all(
                    self._queries, self._source, rows[part], min(self._k, part.stop - part.start)
                )
            )
            for part in blocks(len(rows), _TOGETHER)
        ]

    def _ranked(self, pairs: Pairs) -> tuple[Floats, Indices]:
        """Ranks the candidates of one range of queries after the other, as tables."""
        by_query = np.argsort(pairs.query_of, kind="stable")
        query_of, row_of = pairs.query_of[by_query], pairs.row_of[by_query]
        count = np.bincount(query_of, minlength=len(self.threshold))
        ends = np.cumsum(count)
        scores = np.empty((len(count), self._k), np.float32)
        indices = np.empty((len(count), self._k), np.int64)
        for some in _ranges(count):
            first = ends[some.start] - count[some.start]
            part = slice(first, ends[some.stop - 1])
            table = np.full((some.stop - some.start, count[some].max()), -1)
            nth = np.arange(part.start, part.stop) - (ends - count)[query_of[part]]
            table[query_of[part] - some.start, nth] = row_of[part]
            scores[some], indices[some] = rank(self._queries[some], self._source, table, self._k)
        return scores, indices


def _ranges(count: Indices) -> list[slice]:
    """Consecutive ranges of queries whose candidates, padded to the widest, fit one table."""
    if count.max() * len(count) <= _TABLE:
        return [slice(0, len(count))]
    result = []
    start, widest = 0, 0
    for query, candidates in enumerate(count.tolist()):
        if start < query and max(widest, candidates) * (query + 1 - start) > _TABLE:
            result.append(slice(start, query))
            start, widest = query, 0
        widest = max(widest, candidates)
    return [*result, slice(start, len(count))]
