"""The search with NumPy, and what every search on the host shares: blocks, and exact scores.

Matrix products round differently from library to library, and within one at the edges of its tiles,
so equal rows may get unequal float32 scores. The backends `numpy`, `torch` and `faiss` therefore
only find candidates with them: rows within the rounding bound of the k-th best approximate score.
The candidates' scores are then summed in float64, as the oracle does it, and rounded once. So these
backends return the same bits, and equal rows tie.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from llm_kernels.vectors import blocks, on_host

if TYPE_CHECKING:
    from collections.abc import Callable

    from llm_kernels.vectors import Array, Floats, Indices, Rows

SPARE = 16
"""Results beyond k that are looked for, so that all candidates are nearly always among them."""

_UNIT_ROUNDOFF = 2.0**-24
# Scores of a block: eight megabytes, which stay in the caches.
_BLOCK_SCORES = 1 << 21
# Queries that share a block; more of them would make it too short for groups of rows.
_QUERIES = 256
# Numbers of 16-bit rows that are converted at a time: 16 megabytes of float32.
_CONVERTED = 1 << 22
# Up to this many scores are selected from at once.
_FEW_SCORES = 1 << 14
# Groups of a block, at least: few enough to look at, and the best rows rarely share one.
_GROUPS = 256
# Numbers whose products are summed at a time: a quarter of a megabyte in float64.
_SUMMED = 1 << 15


def search(queries: Floats, corpus: Rows, inverse_norms: Floats, k: int) -> tuple[Floats, Indices]:
    """The k most similar rows of each query; the matrix of all scores is never held.

    Args:
        queries: float32 [Q, D], unit rows, Q >= 1.
        corpus: [N, D] float32 or float16.
        inverse_norms: float32 [N]; 0 leaves the row out.
        k: 1 to the number of rows that take part.

    Returns:
        scores: float32 [Q, k], descending.
        indices: int64 [Q, k]; of equal scores the lower index first.
    """

    def multiply(part: slice, some: Floats, out: Floats) -> None:
        np.matmul(corpus[part].astype(np.float32, copy=False), some.T, out=out)

    return search_in_blocks(
        queries, corpus, inverse_norms, k, multiply=multiply, error=product_error(queries.shape[1])
    )


def product_error(dimension: int, *, input_error: float = 0.0) -> float:
    """A bound on the error of an approximate score of unit vectors.

    A float32 dot product of unit vectors, in any order of summation, errs by at most
    D u / (1 - D u), u = 2^-24 (Higham, Accuracy and Stability of Numerical Algorithms, 3.1);
    scaling and the last rounding add a few u.

    Args:
        input_error: how much the product rounds its inputs beforehand, relative to them.
    """
    rounding = (dimension + 8) * _UNIT_ROUNDOFF
    return rounding / (1.0 - rounding) + input_error * (2.0 + input_error)


def search_in_blocks(
    queries: Floats,
    corpus: Array,
    inverse_norms: Array,
    k: int,
    *,
    multiply: Callable[[slice, Floats, Floats], None],
    error: float,
) -> tuple[Floats, Indices]:
    """As `search`, with any product of float32 scores on the host.

    Args:
        queries: float32 [Q, D], unit rows.
        corpus: [N, D], an array or a tensor.
        inverse_norms: float32 [N], of the corpus' kind.
        k: 1 to the number of rows that take part.
        multiply: writes the product of a block of rows and some queries into an array [B, Q].
        error: of such a product of unit vectors, at most.
    """
    (rows, dimension), width = corpus.shape, k + SPARE
    if rows <= 2 * width:
        return rank_all(queries, corpus, inverse_norms, k)
    scales = on_host(inverse_norms)
    answers = []
    for some in blocks(len(queries), _QUERIES):
        asked = queries[some]
        size = max(width, _BLOCK_SCORES // len(asked))
        if corpus.itemsize < 4:
            size = min(size, max(width, _CONVERTED // dimension))
        best = np.empty((len(asked), 0), np.float32)
        best_rows = np.empty((len(asked), 0), np.int64)
        buffer = np.empty((min(rows, size), len(asked)), np.float32)
        for part in blocks(rows, size):
            scale = scales[part, None]
            scores = buffer[: len(scale)]
            with np.errstate(invalid="ignore", over="ignore"):  # rows left out may hold anything
                multiply(part, asked, scores)
                scores *= scale
            scores[scale[:, 0] == 0.0] = -np.inf
            block, block_rows = _candidates(scores, best, k, margin=2.0 * error)
            best, best_rows = keep_best(
                np.concatenate((best, block), axis=1),
                np.concatenate((best_rows, block_rows + part.start), axis=1),
                width,
            )
        answers.append(
            rank(asked, corpus, inverse_norms, k, scores=best, rows=best_rows, error=error)
        )
    best, best_rows = (np.concatenate(side) for side in zip(*answers, strict=True))
    return best, best_rows


def keep_best(scores: Floats, rows: Indices, width: int) -> tuple[Floats, Indices]:
    """The `width` greatest of scores [Q, W] in any order, and their rows."""
    first = scores.shape[1] - width
    if first <= 0:
        return scores, rows
    kept = scores.argpartition(first, axis=1)[:, first:]
    every = np.arange(len(scores))[:, None]
    return scores[every, kept], rows[every, kept]


def rank(
    queries: Floats,
    corpus: Array,
    inverse_norms: Array,
    k: int,
    *,
    scores: Floats,
    rows: Indices,
    error: float,
) -> tuple[Floats, Indices]:
    """The answer, from the rows of the best approximate scores.

    Args:
        queries: float32 [Q, D], unit rows.
        corpus: [N, D], an array or a tensor.
        inverse_norms: float32 [N], of the corpus' kind.
        k: 1 to the number of rows that take part.
        scores: [Q, W >= k], in any order, the k + SPARE best approximate scores, or all that are
            within twice the error of the k-th; -inf for what is no row.
        rows: int64 [Q, W], theirs.
        error: of an approximate score, at most.
    """
    every = np.arange(len(queries))[:, None]
    order = np.argsort(-scores, axis=1)
    scores, rows = scores[every, order], rows[every, order]
    # Both the row and the k-th best may err.
    near = scores >= scores[:, k - 1 : k] - np.float32(2.0 * error)
    near &= scores > -np.inf
    width = int(near.sum(axis=1).max())
    exact = _exact_scores(queries, corpus, inverse_norms, rows[:, :width])
    exact[~near[:, :width]] = -np.inf
    order = np.lexsort((rows[:, :width], -exact))[:, :k]
    answer = exact[every, order], rows[every, order]
    if k + SPARE <= scores.shape[1] < len(corpus):
        for query in np.flatnonzero(near[:, -1]):  # rows beyond these may be candidates, too
            some = slice(query, query + 1)
            answer[0][some], answer[1][some] = rank_all(queries[some], corpus, inverse_norms, k)
    return answer


def rank_all(
    queries: Floats, corpus: Array, inverse_norms: Array, k: int
) -> tuple[Floats, Indices]:
    """The answer from the exact scores of all rows, block by block."""
    dimension = queries.shape[1]
    wide, every = queries.astype(np.float64), np.arange(len(queries))[:, None]
    best = np.empty((len(queries), 0), np.float32)
    best_rows = np.empty((len(queries), 0), np.int64)
    for part in blocks(len(corpus), max(k, _SUMMED // max(dimension, len(queries)))):
        scales = on_host(inverse_norms[part])
        with np.errstate(invalid="ignore"):
            dots = np.einsum("qd,nd->qn", wide, on_host(corpus[part]).astype(np.float64)) * scales
        dots[:, scales == 0.0] = -np.inf
        scores = np.concatenate((best, dots.astype(np.float32)), axis=1)
        numbers = np.broadcast_to(np.arange(part.start, part.stop), dots.shape)
        rows = np.concatenate((best_rows, numbers), axis=1)
        order = np.argsort(-scores, axis=1, kind="stable")[:, :k]
        best, best_rows = scores[every, order], rows[every, order]
    return best, best_rows


def _candidates(scores: Floats, best: Floats, k: int, *, margin: float) -> tuple[Floats, Indices]:
    """The scores of each query that are great enough for its k best, and their rows.

    To select from all scores takes longer than to compute them. So the maxima of groups of rows are
    taken, by vector instructions, and only groups whose maximum is great enough are looked into.

    Args:
        scores: [B, Q].
        best: [Q, W], the best ones of other blocks, W >= k; or W = 0, and then B >= k.
        margin: how far below the k-th best a score can be great enough.

    Returns:
        Scores [Q, C] in any order, filled with -inf, and rows [Q, C].
    """
    height, count = scores.shape
    if scores.size <= _FEW_SCORES:
        every = np.broadcast_to(np.arange(height), (count, height))
        return keep_best(scores.T, every, k + SPARE)
    group = max(1, height // max(_GROUPS, 4 * k))
    groups = height // group
    # Row g groups + m is in layer g of group m; the last rows, less than a layer, stay over.
    whole = group * groups
    layers = scores[:whole].reshape(group, groups * count)
    maxima = layers.max(axis=0).reshape(groups, count)
    known = best.T if best.size else maxima
    least = np.partition(known, len(known) - k, axis=0)[len(known) - k] - np.float32(margin)
    chosen = np.flatnonzero(maxima >= least)
    inside = layers.take(chosen, axis=1)
    layer, hit = np.nonzero(inside >= least[chosen % count])
    order = np.argsort(chosen[hit] % count, kind="stable")
    layer, hit = layer[order], hit[order]
    query_of = chosen[hit] % count
    counts = np.bincount(query_of, minlength=count)
    place = np.arange(len(order)) - (counts.cumsum() - counts)[query_of]
    table = np.full((count, counts.max() + height - whole), -np.inf, np.float32)
    rows = np.zeros(table.shape, np.int64)
    table[query_of, place] = inside[layer, hit]
    rows[query_of, place] = layer * groups + chosen[hit] // count
    table[:, counts.max() :] = scores[whole:].T
    rows[:, counts.max() :] = np.arange(whole, height)
    return table, rows


def _exact_scores(queries: Floats, corpus: Array, inverse_norms: Array, rows: Indices) -> Floats:
    """Scores [Q, C] of rows [Q, C], summed in float64 in an order that depends on D alone."""
    (count, width), dimension = rows.shape, queries.shape[1]
    wide = queries.astype(np.float64)
    dots = np.empty(rows.shape, np.float64)
    for some in blocks(count, max(1, _SUMMED // (width * dimension))):
        taken = on_host(corpus[rows[some]]).astype(np.float64)
        np.einsum("qcd,qd->qc", taken, wide[some], out=dots[some])
    dots *= on_host(inverse_norms[rows])
    return dots.astype(np.float32)
