"""From a superset of the answer to the answer: exact scores in a fixed order, then a stable sort.

Matrix products round differently from library to library, and within one at the edges of its tiles,
so equal rows may get unequal float32 scores. The backends `numpy`, `torch` and `faiss` therefore
only *screen* with them: every row within the rounding bound of the k-th best approximate score
stays a candidate. The candidates' scores are then summed in float64, every row in the same order,
and rounded once. These backends return the same bits, and equal rows tie exactly.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from llm_kernels.vectors import blocks

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from llm_kernels.sources import Source
    from llm_kernels.vectors import Floats, Indices

# Numbers of a gathered piece: a quarter of a megabyte in float64, which stays in cache.
_PIECE = 1 << 15


def rank(queries: Floats, source: Source, candidates: Indices, k: int) -> tuple[Floats, Indices]:
    """The k best of each query's candidates by exact score.

    Args:
        queries: float32 [Q, D], unit rows.
        source: the corpus.
        candidates: int64 [Q, C], distinct rows of the corpus in any order; -1 for none.
        k: at most the number of any query's candidates that take part.

    Returns:
        scores: float32 [Q, k], descending.
        indices: int64 [Q, k]; of equal scores the lower index first.
    """
    exact = _exact_scores(queries, source, candidates)
    order = np.lexsort((candidates, -exact))[:, :k]
    if len(order) > 1:
        order += np.arange(len(order))[:, None] * candidates.shape[1]
    return exact.ravel()[order], candidates.ravel()[order]


def rank_screened(
    queries: Floats, source: Source, candidates: Indices, worst: Floats, k: int, *, margin: float
) -> tuple[Floats, Indices, Indices]:
    """Ranks a few more than k rows of each query, and names the queries that need a wider search.

    Args:
        queries: float32 [Q, D], unit rows.
        source: the corpus.
        candidates: int64 [Q, C], the rows of the best approximate scores in any order; -1 for none.
        worst: float32 [Q], the least of these scores, which no other row exceeds; -inf if all rows
            that take part are candidates.
        k: at most the number of any query's candidates that take part.
        margin: how far below the k-th best approximate score a row of the answer can lie.

    Returns:
        Scores and indices as `rank`, and the queries, int64, for which a row outside the candidates
        could still belong to the answer.
    """
    scores, indices = rank(queries, source, candidates, k)
    if candidates.shape[1] == source.shape[0]:
        return scores, indices, np.empty(0, np.int64)
    # Half the margin: the k-th best score is exact.
    reaches = (worst + np.float32(margin / 2) >= scores[:, -1]) & (worst > -np.inf)
    return scores, indices, np.flatnonzero(reaches)


def rank_all(
    queries: Floats, source: Source, rows: Indices | slice, k: int
) -> tuple[Floats, Indices]:
    """Ranks the same rows for every query; the fastest where these are few.

    A float64 matrix product errs by so little that its rounding to float32 is nearly always beyond
    doubt; the others are summed in order.

    Args:
        queries: float32 [Q, D], unit rows.
        source: the corpus.
        rows: int64 [C], ascending, or a slice of the corpus.
        k: at most C.

    Returns:
        As `rank`, with a score of -inf for rows that are left out.
    """
    candidates = np.arange(rows.start, rows.stop) if isinstance(rows, slice) else rows
    inverse_norms = source.inverse_norms(rows)
    with np.errstate(invalid="ignore"):  # Rows that are left out may hold anything.
        scores = queries.astype(np.float64) @ source.rows(rows).astype(np.float64).T
        scores *= inverse_norms
    error = (queries.shape[1] + 8) * 2.0**-52
    exact = (scores + error).astype(np.float32)
    doubtful = (exact != (scores - error).astype(np.float32)) & (inverse_norms != 0.0)
    for query in np.flatnonzero(doubtful.any(axis=1)):
        columns = np.flatnonzero(doubtful[query])
        some = slice(query, query + 1)
        exact[query, columns] = _exact_scores(queries[some], source, candidates[None, columns])
    exact[:, inverse_norms == 0.0] = -np.inf
    # Score and place in one integer: distinct, and in the order of the answer.
    keys = (descending(exact) << 32) | np.arange(len(candidates))
    if k < len(candidates):
        keys = np.partition(keys, k - 1)[:, :k]
    keys.sort()
    places = keys & 0xFFFFFFFF
    return np.take_along_axis(exact, places, axis=1), candidates[places]


def descending(scores: Floats) -> Indices:
    """Maps float32 to integers in [-2^31, 2^31), a greater score to a lesser one; no -0.0."""
    bits = scores.view(np.int32)
    return (~bits ^ ((bits >> 31) & np.int32(0x7FFFFFFF))).astype(np.int64)


def _exact_scores(queries: Floats, source: Source, candidates: Indices) -> Floats:
    """Scores [Q, C]: products and sums in float64, in an order that depends on D alone."""
    dots = _dots(queries.astype(np.float64), source, candidates)
    inverse_norms = source.inverse_norms(candidates)
    dots *= inverse_norms
    dots[(inverse_norms == 0.0) | (candidates < 0)] = -np.inf
    # -0.0 becomes 0.0, its equal.
    return dots.astype(np.float32) + np.float32(0.0)


def _dots(queries: NDArray[np.float64], source: Source, candidates: Indices) -> NDArray[np.float64]:
    (count, width), dimension = candidates.shape, queries.shape[1]
    # The product of two float32 numbers is exact in float64.
    if candidates.size * dimension <= _PIECE:
        rows = source.rows(candidates).astype(np.float64)
        result: NDArray[np.float64] = np.einsum("qcd,qd->qc", rows, queries)
        return result
    columns = min(width, max(1, _PIECE // dimension))
    height = min(count, max(1, _PIECE // (dimension * width)))
    # One buffer for all pieces: fresh memory costs more than the sums.
    converted = np.empty((height, columns, dimension), np.float64)
    result = np.empty((count, width), np.float64)
    for some in blocks(count, height):
        for part in blocks(width, columns):
            target = result[some, part]
            rows = converted[: target.shape[0], : target.shape[1]]
            rows[...] = source.rows(candidates[some, part])
            np.einsum("qcd,qd->qc", rows, queries[some], out=target)
    return result
