"""The definition of the search, in float64 and with a full sort: what every backend must return."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from llm_kernels import vectors

if TYPE_CHECKING:
    from llm_kernels.vectors import Floats, Indices, Rows


def topk_oracle(
    queries: Rows, corpus: Rows, k: int, *, inverse_norms: Floats | None = None
) -> tuple[Floats, Indices]:
    """The k rows of the corpus that are most similar to each query.

    Args:
        queries: [Q, D], any length but zero.
        corpus: [N, D].
        k: how many.
        inverse_norms: float32 [N], 1 / ‖row‖, or 0 for a row that is left out; computed if None.

    Returns:
        scores: float32 [Q, K], descending; K = min(k, rows that take part).
        indices: int64 [Q, K]; of equal scores the lower index first.
    """
    if inverse_norms is None:
        inverse_norms = vectors.inverse_norms(corpus)
    part = np.flatnonzero(inverse_norms)
    unit = vectors.unit_queries(queries).astype(np.float64)
    dots = np.einsum("qd,nd->qn", unit, corpus[part].astype(np.float64))
    scores = (dots * inverse_norms[part].astype(np.float64)).astype(np.float32)
    order = np.argsort(-scores, axis=1, kind="stable")[:, :k]
    return np.take_along_axis(scores, order, axis=1), part[order]
