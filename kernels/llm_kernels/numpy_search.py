"""The search with NumPy alone."""

from __future__ import annotations

from typing import TYPE_CHECKING

from llm_kernels.screen import screen
from llm_kernels.sources import ArraySource

if TYPE_CHECKING:
    from llm_kernels.vectors import Floats, Indices, Rows


def search(queries: Floats, corpus: Rows, inverse_norms: Floats, k: int) -> tuple[Floats, Indices]:
    """The k most similar rows of each query; the memory that it takes does not grow with N.

    Args:
        queries: float32 [Q, D], unit rows, Q >= 1.
        corpus: [N, D] float32 or float16.
        inverse_norms: float32 [N]; 0 leaves the row out.
        k: 1 to the number of rows that take part.

    Returns:
        scores: float32 [Q, k], descending.
        indices: int64 [Q, k]; of equal scores the lower index first.
    """
    return screen(queries, ArraySource(corpus, inverse_norms), k)
