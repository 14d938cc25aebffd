"""The search with NumPy, whose screening every other search on the host uses too.

Selecting the top k of N scores costs more than computing them if every score is written to memory
and read again. So a block of rows times the queries stays in cache. The maxima of groups of rows
are taken over it by vector instructions. Only groups whose maximum reaches a lower bound of the
k-th best score are looked into. A small search selects at once.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from llm_kernels.candidates import LOWEST, Candidates, Pairs
from llm_kernels.rescore import rank, rank_all, rank_screened
from llm_kernels.sources import ArraySource, Scaling
from llm_kernels.vectors import blocks

if TYPE_CHECKING:
    from llm_kernels.sources import Multiplier
    from llm_kernels.vectors import Floats, Indices, Rows

# Scores of a block: eight megabytes.
_BLOCK_SCORES = 1 << 21
# Queries that share a block; more of them would make it too short for group maxima.
_QUERIES = 256
# Up to this many scores are selected from at once, and this many more than k of them.
_SMALL_SCORES = 1 << 14
_SPARE = 6
# Up to this many rows per result, and this many per result and query, float64 scores of all rows
# are faster than float32 scores and a selection first.
_FEW_ROWS = 48
_FEW_ROWS_PER_QUERY = 4


def search(queries: Floats, corpus: Rows, inverse_norms: Floats, k: int) -> tuple[Floats, Indices]:
    """The k most similar rows of each query in a NumPy corpus; arguments and answer as `screen`.

    Args:
        queries: float32 [Q, D], unit rows, Q >= 1.
        corpus: [N, D] float32 or float16.
        inverse_norms: float32 [N]; 0 leaves the row out.
        k: 1 to the number of rows that take part.
    """
    return screen(queries, ArraySource(corpus, inverse_norms), k)


def screen(
    queries: Floats, source: Multiplier, k: int, *, input_error: float = 0.0
) -> tuple[Floats, Indices]:
    """The k most similar rows of each query; the memory that it takes does not grow with N.

    Args:
        queries: float32 [Q, D], unit rows, Q >= 1.
        source: the corpus.
        k: 1 to the number of rows that take part.
        input_error: how much the source's products round their inputs beforehand, relative to them.

    Returns:
        scores: float32 [Q, k], descending.
        indices: int64 [Q, k]; of equal scores the lower index first.
    """
    (rows, dimension), count = source.shape, len(queries)
    few = rows <= k * min(_FEW_ROWS, _FEW_ROWS_PER_QUERY * count)
    if few and rows * max(dimension, count) <= _BLOCK_SCORES:
        return rank_all(queries, source, slice(0, rows), k)
    scaling = Scaling.of(source.inverse_norms(slice(0, rows)), dimension, input_error=input_error)
    if rows * count <= _SMALL_SCORES:
        return _search_small(queries, source, scaling, k)
    if count == 1 and rows <= _BLOCK_SCORES:
        return _search_one(queries, source, scaling, k)
    together = max(_QUERIES, _BLOCK_SCORES // rows)
    if count <= together:
        return _search(queries, source, scaling, k)
    parts = [_search(queries[part], source, scaling, k) for part in blocks(count, together)]
    scores, indices = zip(*parts, strict=True)
    return np.concatenate(scores), np.concatenate(indices)


def _search_small(
    queries: Floats, source: Multiplier, scaling: Scaling, k: int
) -> tuple[Floats, Indices]:
    """The answer from one selection of a few more than k."""
    rows = source.shape[0]
    approximate = np.empty((rows, len(queries)), np.float32)
    _score(source, scaling, slice(0, rows), queries, approximate)
    first = max(0, rows - k - _SPARE)
    candidates = approximate.T.argpartition(first, axis=1)[:, first:]
    worst = approximate[candidates[:, 0], np.arange(len(queries))]
    scores, indices, doubtful = rank_screened(
        queries, source, candidates, worst, k, margin=scaling.margin
    )
    if len(doubtful):
        scores[doubtful], indices[doubtful] = _search(queries[doubtful], source, scaling, k)
    return scores, indices


def _search_one(
    queries: Floats, source: Multiplier, scaling: Scaling, k: int
) -> tuple[Floats, Indices]:
    """The answer for one query and one block.

    After the rows have passed through the caches every step runs cold, and takes five times as
    long as in a loop. So there are few steps.
    """
    rows = source.shape[0]
    scores = np.empty(rows, np.float32)
    _score(source, scaling, slice(0, rows), queries, scores[:, None])
    group = _group(rows, k)
    groups = rows // group
    threshold = LOWEST
    if groups >= k:
        # The rows beyond the last whole group only make the bound a little lower.
        maxima = scores[: groups * group].reshape(group, groups).max(axis=0)
        maxima.partition(groups - k)
        threshold = max(threshold, maxima[groups - k] - np.float32(scaling.margin))
    found = (scores >= threshold).nonzero()[0]
    return rank(queries, source, found[None], k)


def _search(
    queries: Floats, source: Multiplier, scaling: Scaling, k: int
) -> tuple[Floats, Indices]:
    """The answer for queries that share blocks."""
    rows, count = source.shape[0], len(queries)
    size = min(rows, _BLOCK_SCORES // count)
    group = _group(size, k)
    buffer = np.empty((-(-size // group) * group, count), np.float32)
    candidates = Candidates(queries, source, k, margin=scaling.margin)
    next_prune = 2 * size
    for part in blocks(rows, size):
        groups = -(-(part.stop - part.start) // group)
        scores = buffer[: groups * group]
        _score(source, scaling, part, queries, scores)
        # Row r of the block is in group r mod `groups`: the maxima run along memory.
        layers = scores.reshape(group, groups * count)
        maxima = layers.max(axis=0).reshape(groups, count)
        if part.start == 0 and groups >= k:
            by_query = maxima.T.copy()
            by_query.partition(groups - k)
            candidates.raise_threshold(by_query[:, groups - k])
        column = np.flatnonzero(maxima >= candidates.threshold)
        query_of = column % count
        found = layers[:, column]
        layer, hit = np.nonzero(found >= candidates.threshold[query_of])
        row_of = part.start + layer * groups + column[hit] // count
        candidates.add(Pairs(query_of[hit], row_of, found[layer, hit]))
        if next_prune <= part.stop < rows:
            candidates.prune()
            next_prune = 4 * part.stop
    return candidates.result()


def _score(source: Multiplier, scaling: Scaling, part: slice, queries: Floats, out: Floats) -> None:
    """Writes the scores of a block, and -inf for rows that are left out and beyond its end."""
    length = part.stop - part.start
    scores = out[:length]
    with np.errstate(invalid="ignore", over="ignore"):  # Rows left out may hold anything.
        source.multiply(part, queries, scores)
        if not scaling.unit:
            scores *= source.inverse_norms(part)[:, None]
    if not scaling.complete:
        scores[source.inverse_norms(part) == 0.0] = -np.inf
    out[length:] = -np.inf


def _group(rows: int, k: int) -> int:
    """Rows per group. Groups are few enough to look at, and the best rows rarely share one."""
    return max(1, rows // max(16 * k, 256))
