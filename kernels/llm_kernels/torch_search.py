"""The search with torch, on whichever device the tensors are."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, TypeAlias

from llm_kernels.numpy_search import SPARE, product_error, rank, search_in_blocks
from llm_kernels.vectors import blocks, on_host

if TYPE_CHECKING:
    from collections.abc import Callable

    from torch import Tensor

    from llm_kernels.vectors import Floats

    BestOf: TypeAlias = Callable[[Tensor, Tensor, Tensor, int], tuple[Tensor, Tensor]]

# Numbers of a block, and of its scores, on a device: half a gigabyte of float32.
_BLOCK = 1 << 27
# How much a float32 product rounds its inputs, relative to them, by torch's precision settings.
_INPUT_ERROR = {"ieee": 0.0, "tf32": 2.0**-11, "bf16": 2.0**-8}


def search(queries: Tensor, corpus: Tensor, inverse_norms: Tensor, k: int) -> tuple[Tensor, Tensor]:
    """The k most similar rows of each query; the matrix of all scores is never held.

    On the CPU torch multiplies and converts, and NumPy selects. On another device torch multiplies
    and selects there, and only candidates come to the host. Under torch's settings for coarser
    float32 products (TF32, bfloat16) more rows are candidates, and the answer is the same.

    Args:
        queries: float32 [Q, D], unit rows, Q >= 1.
        corpus: [N, D] float32, float16 or bfloat16.
        inverse_norms: float32 [N]; 0 leaves the row out.
        k: 1 to the number of rows that take part.

    Returns:
        scores: float32 [Q, k], descending.
        indices: int64 [Q, k]; of equal scores the lower index first.
    """
    import torch

    if corpus.device.type != "cpu":
        return search_on_device(queries, corpus, inverse_norms, k)

    def multiply(part: slice, some: Floats, out: Floats) -> None:
        torch.mm(corpus[part].float(), torch.from_numpy(some).T, out=torch.from_numpy(out))

    error = product_error(queries.shape[1], input_error=_input_error("cpu"))
    with torch.inference_mode():
        scores, indices = search_in_blocks(
            queries.numpy(), corpus, inverse_norms, k, multiply=multiply, error=error
        )
    return torch.from_numpy(scores), torch.from_numpy(indices)


def _best_of(
    queries: Tensor, rows: Tensor, inverse_norms: Tensor, width: int
) -> tuple[Tensor, Tensor]:
    """The best rows of a block, by torch's own product."""
    scores = queries @ rows.float().T
    scores *= inverse_norms
    scores.masked_fill_(inverse_norms == 0.0, float("-inf"))
    best, found = scores.topk(min(width, scores.shape[1]))
    return best, found


def search_on_device(
    queries: Tensor, corpus: Tensor, inverse_norms: Tensor, k: int, *, best_of: BestOf = _best_of
) -> tuple[Tensor, Tensor]:
    """As `search`, for tensors on one device of any kind.

    Args:
        queries: float32 [Q, D], unit rows.
        corpus: [N, D] float32, float16 or bfloat16.
        inverse_norms: float32 [N]; 0 leaves the row out.
        k: 1 to the number of rows that take part.
        best_of: of queries, a block's rows, its norms and a width, at most `width` approximate
            scores [Q, W] and their rows in the block, int64 [Q, W]. The score of a row that is left
            out is -inf, or the row is not among them.
    """
    import torch

    (rows, dimension), width = corpus.shape, k + SPARE
    with torch.inference_mode():
        best = queries.new_empty((len(queries), 0))
        best_rows = best.long()
        for part in blocks(rows, max(width, _BLOCK // max(dimension, len(queries)))):
            scores, found = best_of(queries, corpus[part], inverse_norms[part], width)
            together = torch.cat((best, scores), 1)
            best, order = together.topk(min(width, together.shape[1]))
            best_rows = torch.cat((best_rows, found + part.start), 1).gather(1, order)
        answer = rank(
            on_host(queries),
            corpus,
            inverse_norms,
            k,
            scores=on_host(best),
            rows=best_rows.cpu().numpy(),
            error=product_error(dimension, input_error=_input_error(queries.device.type)),
        )
    scores, indices = (torch.from_numpy(side).to(corpus.device) for side in answer)
    return scores, indices


def _input_error(device: str) -> float:
    backends = sys.modules["torch"].backends
    own = backends.mkldnn if device == "cpu" else backends.cuda
    for setting in (own.matmul, own, backends):
        precision = getattr(setting, "fp32_precision", "none")
        if precision != "none":
            return _INPUT_ERROR[precision]
    return 0.0
