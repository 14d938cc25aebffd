"""The search with faiss' brute-force inner products."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from llm_kernels.numpy_search import screen
from llm_kernels.rescore import rank_screened
from llm_kernels.sources import ArraySource, Scaling
from llm_kernels.vectors import blocks

if TYPE_CHECKING:
    from llm_kernels.vectors import Floats, Indices, Rows

# Results beyond k that faiss is asked for, so that the answer is nearly always among them.
_SPARE = 8
# Numbers of a block that has to be copied: 64 megabytes of float32.
_COPIED = 1 << 24


def search(queries: Floats, corpus: Rows, inverse_norms: Floats, k: int) -> tuple[Floats, Indices]:
    """The k most similar rows of each query.

    A corpus of float32 unit rows is searched without a copy. Any other corpus is copied and scaled
    block by block.

    Args:
        queries: float32 [Q, D], unit rows, Q >= 1.
        corpus: [N, D] float32 or float16.
        inverse_norms: float32 [N]; 0 leaves the row out.
        k: 1 to the number of rows that take part.

    Returns:
        scores: float32 [Q, k], descending.
        indices: int64 [Q, k]; of equal scores the lower index first.
    """
    rows, dimension = corpus.shape
    scaling = Scaling.of(inverse_norms, dimension)
    as_it_is = (
        scaling.unit
        and scaling.complete
        and corpus.dtype == np.float32
        and corpus.flags.c_contiguous
    )

    width = min(rows, k + _SPARE)
    if as_it_is:
        found, nearest = _knn(queries, corpus, width)
    else:
        found, nearest = _scaled_knn(queries, corpus, inverse_norms, width)
    source = ArraySource(corpus, inverse_norms)
    scores, indices, doubtful = rank_screened(
        queries, source, nearest, found[:, -1], k, margin=scaling.margin
    )
    if len(doubtful):
        scores[doubtful], indices[doubtful] = screen(queries[doubtful], source, k)
    return scores, indices


def _scaled_knn(
    queries: Floats, corpus: Rows, inverse_norms: Floats, width: int
) -> tuple[Floats, Indices]:
    """Merges the best of blocks of scaled rows; -inf where fewer than `width` take part."""
    best = np.full((len(queries), width), -np.inf, np.float32)
    best_rows = np.full((len(queries), width), -1)
    for part in blocks(len(corpus), max(1, _COPIED // corpus.shape[1])):
        live = part.start + np.flatnonzero(inverse_norms[part])
        if len(live):
            scaled = corpus[live] * inverse_norms[live, None]
            found, nearest = _knn(queries, scaled, min(width, len(live)))
            scores = np.concatenate((best, found), axis=1)
            rows = np.concatenate((best_rows, live[nearest]), axis=1)
            order = np.argsort(-scores, axis=1)[:, :width]
            best = np.take_along_axis(scores, order, axis=1)
            best_rows = np.take_along_axis(rows, order, axis=1)
    return best, best_rows


def _knn(queries: Floats, rows: Rows, width: int) -> tuple[Floats, Indices]:
    import faiss

    scores, nearest = faiss.knn(queries, rows, width, metric=faiss.METRIC_INNER_PRODUCT)
    return scores, nearest
