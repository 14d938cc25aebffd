"""Similarity search over embedding vectors: the lowest layer, which imports no other."""

from __future__ import annotations

from llm_base.exports import lazy_exports

TYPE_CHECKING = False  # like the one in `typing`, whose import takes some milliseconds
if TYPE_CHECKING:
    from llm_kernels.errors import (
        BackendError,
        EntryError,
        IndexFileError,
        SimilarityError,
        VectorError,
    )
    from llm_kernels.index import EmbeddingIndex, Match
    from llm_kernels.similarity import available_backends, choose_backend, topk_cosine, topk_oracle
    from llm_kernels.vectors import inverse_norms, unit_queries

__all__ = [
    "BackendError",
    "EmbeddingIndex",
    "EntryError",
    "IndexFileError",
    "Match",
    "SimilarityError",
    "VectorError",
    "available_backends",
    "choose_backend",
    "inverse_norms",
    "topk_cosine",
    "topk_oracle",
    "unit_queries",
]

__getattr__, __dir__ = lazy_exports(
    __name__,
    {
        "errors": [
            "BackendError",
            "EntryError",
            "IndexFileError",
            "SimilarityError",
            "VectorError",
        ],
        "index": ["EmbeddingIndex", "Match"],
        "similarity": ["available_backends", "choose_backend", "topk_cosine", "topk_oracle"],
        "vectors": ["inverse_norms", "unit_queries"],
    },
)
