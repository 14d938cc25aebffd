"""The search with faiss' brute-force inner products, on a CPU or on an NVIDIA GPU."""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING, Any

import numpy as np

from llm_kernels.numpy_search import screen
from llm_kernels.rescore import rank_screened
from llm_kernels.sources import ArraySource, Scaling
from llm_kernels.vectors import blocks

if TYPE_CHECKING:
    from torch import Tensor

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


def search_on_gpu(
    queries: Tensor, corpus: Tensor, inverse_norms: Tensor, k: int
) -> tuple[Tensor, Tensor]:
    """As `search`, for tensors on a GPU, where faiss multiplies and selects.

    Args:
        queries: float32 [Q, D], unit rows, Q >= 1.
        corpus: [N, D] float32, float16 or bfloat16.
        inverse_norms: float32 [N]; 0 leaves the row out.
        k: 1 to the number of rows that take part.
    """
    import torch

    from llm_kernels.torch_search import TensorSource, search_on_device

    with torch.inference_mode():
        scores, indices = search_on_device(
            queries, TensorSource(corpus, inverse_norms), k, best_of=_best_of
        )
    return (
        torch.from_numpy(scores).to(corpus.device),
        torch.from_numpy(indices).to(corpus.device),
    )


def why_not_on_gpu() -> str | None:
    """Why faiss cannot search on a GPU here; None if it can."""
    import faiss

    if not hasattr(faiss, "StandardGpuResources") or faiss.get_num_gpus() == 0:
        return (
            f"faiss {faiss.__version__} is built for the CPU: install faiss-gpu-cu12, or "
            "faiss-cuda on a card of compute capability 9.0"
        )
    return None


def _best_of(
    queries: Tensor, rows: Tensor, inverse_norms: Tensor, width: int
) -> tuple[Tensor, Tensor]:
    """See `torch_search.BestOf`."""
    live = inverse_norms.nonzero()[:, 0]
    scaled = rows[live].float() * inverse_norms[live, None]
    scores, nearest = _knn_gpu(queries, scaled, min(width, len(live)))
    return scores, live[nearest]


def _knn_gpu(queries: Tensor, rows: Tensor, width: int) -> tuple[Tensor, Tensor]:
    import faiss
    import faiss.contrib.torch_utils  # makes `knn_gpu` take tensors

    device = queries.device.index or 0
    scores, nearest = faiss.knn_gpu(
        _resources(device), queries, rows, width, metric=faiss.METRIC_INNER_PRODUCT, device=device
    )
    return scores, nearest


@cache
def _resources(device: int) -> Any:  # noqa: ANN401, ARG001 - faiss' class; one for each device
    import faiss

    return faiss.StandardGpuResources()


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
