"""The search with torch, on whichever device the tensors are."""

from __future__ import annotations

import math
import sys
from typing import TYPE_CHECKING, TypeAlias

from llm_kernels.numpy_search import SPARE, product_error, rank, search_in_blocks
from llm_kernels.vectors import blocks, on_host

if TYPE_CHECKING:
    from collections.abc import Callable

    from torch import Tensor

    from llm_kernels.vectors import Floats, Indices

    BestOf: TypeAlias = Callable[[Tensor, Tensor, Tensor, int], tuple[Tensor, Tensor]]

# Numbers of a block, and of its scores, on a device: half a gigabyte of float32.
_BLOCK = 1 << 27
# How much a float32 product rounds its inputs, relative to them, by torch's precision settings.
_INPUT_ERROR = {"ieee": 0.0, "tf32": 2.0**-11, "bf16": 2.0**-8}


def search(
    queries: Floats, corpus: Tensor, inverse_norms: Tensor, k: int
) -> tuple[Floats, Indices]:
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
        halves = corpus.itemsize == 2 and _multiplies_halves(corpus)
        return search_on_device(
            queries,
            corpus,
            inverse_norms,
            k,
            best_of=best_of_halves if halves else best_of_floats,
            error=halves_error(corpus) if halves else floats_error(corpus),
        )

    def multiply(part: slice, some: Floats, out: Floats) -> None:
        torch.mm(corpus[part].float(), torch.from_numpy(some).T, out=torch.from_numpy(out))

    with torch.inference_mode():
        return search_in_blocks(
            queries, corpus, inverse_norms, k, multiply=multiply, error=floats_error(corpus)
        )


def search_on_device(
    queries: Floats,
    corpus: Tensor,
    inverse_norms: Tensor,
    k: int,
    *,
    best_of: BestOf,
    error: float,
) -> tuple[Floats, Indices]:
    """As `search`, for a corpus on a device of any kind.

    Args:
        queries: float32 [Q, D], unit rows, on the host.
        corpus: [N, D] float32, float16 or bfloat16.
        inverse_norms: float32 [N]; 0 leaves the row out.
        k: 1 to the number of rows that take part.
        best_of: of queries, a block's rows, its norms and a width, at most `width` approximate
            scores [Q, W] and their rows in the block, int64 [Q, W]. The score of a row that is left
            out is -inf, or the row is not among them.
        error: of such a score, at most.
    """
    import torch

    with torch.inference_mode():
        best, best_rows = candidates(
            torch.from_numpy(queries).to(corpus.device),
            corpus,
            inverse_norms,
            k + SPARE,
            best_of=best_of,
            block=_BLOCK // max(corpus.shape[1], len(queries)),
        )
        return rank(
            queries,
            corpus,
            inverse_norms,
            k,
            scores=on_host(best),
            rows=best_rows.cpu().numpy(),
            error=error,
        )


def candidates(
    queries: Tensor,
    corpus: Tensor,
    inverse_norms: Tensor,
    width: int,
    *,
    best_of: BestOf,
    block: int,
) -> tuple[Tensor, Tensor]:
    """The `width` best approximate scores of each query and their rows, on the device.

    Args:
        best_of: as for `search_on_device`.
        block: rows that are multiplied together, if `width` is no more.
    """
    import torch

    best = queries.new_empty((len(queries), 0))
    best_rows = best.long()
    for part in blocks(len(corpus), max(width, block)):
        scores, found = best_of(queries, corpus[part], inverse_norms[part], width)
        together = torch.cat((best, scores), 1)
        best, order = together.topk(min(width, together.shape[1]))
        best_rows = torch.cat((best_rows, found + part.start), 1).gather(1, order)
    return best, best_rows


def best_of_floats(
    queries: Tensor, rows: Tensor, inverse_norms: Tensor, width: int
) -> tuple[Tensor, Tensor]:
    """The best rows of a block, by torch's own product in float32."""
    return _best(queries @ rows.float().T, inverse_norms, width)


def best_of_halves(
    queries: Tensor, rows: Tensor, inverse_norms: Tensor, width: int
) -> tuple[Tensor, Tensor]:
    """The best rows of a block of 16 bits, without a float32 copy of it.

    A query enters as the sum of two vectors of 16 bits, both in one product with float32 sums.
    """
    import torch

    high = queries.to(rows.dtype)
    low = (queries - high.float()).to(rows.dtype)
    products = torch.mm(torch.cat((high, low)), rows.T, out_dtype=torch.float32)
    return _best(products[: len(queries)] + products[len(queries) :], inverse_norms, width)


def floats_error(corpus: Tensor) -> float:
    """How far a score of `best_of_floats` may be off."""
    return product_error(corpus.shape[1], input_error=_input_error(corpus.device.type))


def halves_error(corpus: Tensor) -> float:
    """How far a score of `best_of_halves` may be off.

    Tensor cores cut sums off where others round, which doubles their error. Of a query's number two
    halves of p bits leave 2^-2p of it, or half of the least step that there is (Cauchy-Schwarz).
    """
    import torch

    bits, dimension = torch.finfo(corpus.dtype), corpus.shape[1]
    least_step = float(bits.smallest_normal * bits.eps)
    query = float(bits.eps**2) / 4.0 + math.sqrt(dimension) * least_step / 2.0
    return 2.0 * product_error(dimension) + query


def _best(scores: Tensor, inverse_norms: Tensor, width: int) -> tuple[Tensor, Tensor]:
    scores *= inverse_norms
    scores.masked_fill_(inverse_norms == 0.0, float("-inf"))
    best, found = scores.topk(min(width, scores.shape[1]))
    return best, found


def _multiplies_halves(corpus: Tensor) -> bool:
    """Whether torch has a product of 16-bit matrices with a float32 result on this device."""
    import torch

    # torch has it from 2.8 on, for NVIDIA's GPUs.
    return corpus.is_cuda and torch.version.hip is None and hasattr(torch.ops.aten.mm, "dtype")


def _input_error(device: str) -> float:
    backends = sys.modules["torch"].backends
    own = backends.mkldnn if device == "cpu" else backends.cuda
    for setting in (own.matmul, own, backends):
        precision = getattr(setting, "fp32_precision", "none")
        if precision != "none":
            return _INPUT_ERROR[precision]
    return 0.0
