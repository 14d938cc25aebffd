"""The search with faiss' brute-force inner products, on a CPU or on an NVIDIA GPU."""

from __future__ import annotations

import threading
from functools import cache
from typing import TYPE_CHECKING, Any

import numpy as np

from llm_kernels.errors import VectorError
from llm_kernels.numpy_search import SPARE, keep_best, product_error, rank
from llm_kernels.vectors import blocks

if TYPE_CHECKING:
    from torch import Tensor

    from llm_kernels.vectors import Floats, Indices, Rows

# Numbers of a block that has to be copied: 64 megabytes of float32.
_COPIED = 1 << 24
# GPU_MAX_SELECTION_K: faiss ends the process where it is asked for more.
_GREATEST_ON_GPU = 2048
# Threads may not share faiss' streams and scratch memory.
_ONE_AT_A_TIME = threading.Lock()


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
    dimension, width = corpus.shape[1], min(len(corpus), k + SPARE)
    error = product_error(dimension)
    # Of rows that differ from unit length by no more than a product rounds, it counts as error; of
    # a row that is left out it is 1.
    deviation = float(np.abs(inverse_norms - np.float32(1.0)).max())
    if deviation <= error and corpus.dtype == np.float32 and corpus.flags.c_contiguous:
        scores, nearest = _knn(queries, corpus, width)
        error += deviation
    else:
        scores, nearest = _scaled_knn(queries, corpus, inverse_norms, width)
    return rank(queries, corpus, inverse_norms, k, scores=scores, rows=nearest, error=error)


def search_on_gpu(
    queries: Floats, corpus: Tensor, inverse_norms: Tensor, k: int
) -> tuple[Floats, Indices]:
    """As `search`, for a corpus on a GPU, where faiss multiplies and selects.

    Args:
        queries: float32 [Q, D], unit rows, Q >= 1.
        corpus: [N, D] float32, float16 or bfloat16.
        inverse_norms: float32 [N]; 0 leaves the row out.
        k: 1 to the number of rows that take part, and at most 2,032.

    Raises:
        VectorError: k is greater.
    """
    from llm_kernels.torch_search import floats_error, search_on_device

    misfit = misfit_on_gpu(k)
    if misfit is not None:
        raise VectorError(misfit)
    return search_on_device(
        queries, corpus, inverse_norms, k, best_of=_best_of, error=floats_error(corpus)
    )


def misfit_on_gpu(k: int) -> str | None:
    """Why faiss does not look for so many rows on a GPU, or None if it does."""
    if k > _GREATEST_ON_GPU - SPARE:
        return f"k is {k}; faiss on a GPU has 1 to {_GREATEST_ON_GPU - SPARE}: use backend 'torch'"
    return None


def why_not_on_gpu() -> str | None:
    """Why faiss cannot search on a GPU here, with the remedy; None if it can."""
    try:
        import faiss
    except (ImportError, RuntimeError) as error:
        return f"faiss cannot be imported: {error}"
    if not hasattr(faiss, "StandardGpuResources"):
        return (
            f"faiss {faiss.__version__} is built for the CPU: "
            "pip uninstall faiss-cpu, then pip install faiss-gpu"
        )
    if faiss.get_num_gpus() == 0:
        return f"faiss {faiss.__version__} finds no GPU: `nvidia-smi` says whether one is here"
    return None


def _best_of(
    queries: Tensor, rows: Tensor, inverse_norms: Tensor, width: int
) -> tuple[Tensor, Tensor]:
    """The best rows of a block, by faiss."""
    live = inverse_norms.nonzero()[:, 0]
    if len(live) == 0:  # faiss refuses an empty matrix.
        return queries.new_empty((len(queries), 0)), live.new_empty((len(queries), 0))
    scaled = rows[live].float() * inverse_norms[live, None]
    scores, nearest = _knn_gpu(queries, scaled, min(width, len(live)))
    return scores, live[nearest]


def _knn_gpu(queries: Tensor, rows: Tensor, width: int) -> tuple[Tensor, Tensor]:
    import faiss
    import faiss.contrib.torch_utils  # makes `knn_gpu` take tensors
    import torch

    # faiss waits for the stream of the current device, whichever device the tensors are on.
    with _ONE_AT_A_TIME, torch.cuda.device_of(queries):
        scores, nearest = faiss.knn_gpu(
            _resources(), queries, rows, width, metric=faiss.METRIC_INNER_PRODUCT
        )
    return scores, nearest


@cache
def _resources() -> Any:  # noqa: ANN401 - faiss' class
    """Streams and scratch memory of every device, made when a device is first used."""
    import faiss

    return faiss.StandardGpuResources()


def _scaled_knn(
    queries: Floats, corpus: Rows, inverse_norms: Floats, width: int
) -> tuple[Floats, Indices]:
    """Merges the best of blocks of scaled rows; -inf where fewer than `width` take part."""
    best = np.full((len(queries), width), -np.inf, np.float32)
    best_rows = np.zeros((len(queries), width), np.int64)
    for part in blocks(len(corpus), max(1, _COPIED // corpus.shape[1])):
        live = part.start + np.flatnonzero(inverse_norms[part])
        if len(live):
            scaled = corpus[live] * inverse_norms[live, None]
            products, nearest = _knn(queries, scaled, min(width, len(live)))
            scores = np.concatenate((best, products), axis=1)
            rows = np.concatenate((best_rows, live[nearest]), axis=1)
            best, best_rows = keep_best(scores, rows, width)
    return best, best_rows


def _knn(queries: Floats, rows: Rows, width: int) -> tuple[Floats, Indices]:
    import faiss

    scores, nearest = faiss.knn(queries, rows, width, metric=faiss.METRIC_INNER_PRODUCT)
    return scores, nearest
