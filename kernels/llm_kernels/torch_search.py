"""The search with torch, on whichever device the tensors are."""

from __future__ import annotations

import sys
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

from llm_kernels.numpy_search import screen
from llm_kernels.rescore import rank_screened
from llm_kernels.sources import product_error
from llm_kernels.vectors import blocks

if TYPE_CHECKING:
    from torch import Tensor

    from llm_kernels.vectors import Floats, Indices

SPARE = 32
"""Results beyond k that a device is asked for, so that the answer is nearly always among them."""
# Numbers of a 16-bit piece that is converted at a time on the host: 16 megabytes of float32. Every
# piece is one more hand-over between threads, which a busy machine makes slow.
_CONVERTED = 1 << 22
# Numbers of a block, and of its scores, on a device: half a gigabyte of float32.
_BLOCK = 1 << 27
# How much a float32 product rounds its inputs, relative to them, by torch's precision settings.
_INPUT_ERROR = {"ieee": 0.0, "tf32": 2.0**-11, "bf16": 2.0**-8}


def search(queries: Tensor, corpus: Tensor, inverse_norms: Tensor, k: int) -> tuple[Tensor, Tensor]:
    """The k most similar rows of each query; the matrix of all scores is never held.

    On the CPU torch multiplies and converts, and the blocks are screened as with NumPy. On another
    device torch multiplies and selects there, and only candidates come to the host. Under torch's
    settings for coarser float32 products (TF32, bfloat16) more rows are candidates, and the answer
    is the same.

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

    source = TensorSource(corpus, inverse_norms)
    with torch.inference_mode():
        if corpus.device.type == "cpu":
            scores, indices = screen(queries.numpy(), source, k, input_error=_input_error("cpu"))
        else:
            scores, indices = search_on_device(queries, source, k)
    return (
        torch.from_numpy(scores).to(corpus.device),
        torch.from_numpy(indices).to(corpus.device),
    )


class BestOf(Protocol):
    """Finds the best rows of a block on a device."""

    def __call__(
        self, queries: Tensor, rows: Tensor, inverse_norms: Tensor, width: int
    ) -> tuple[Tensor, Tensor]:
        """At most `width` approximate scores [Q, W], and their rows in the block, int64 [Q, W].

        The score of a row that is left out is -inf, or the row is not among them.
        """
        ...


@dataclass(frozen=True, slots=True)
class TensorSource:
    """A corpus in torch.

    Attributes:
        corpus: [N, D] float32, float16 or bfloat16, on any device.
        scales: float32 [N], the inverse norms, on the same device.
    """

    corpus: Tensor
    scales: Tensor

    @property
    def shape(self) -> tuple[int, int]:
        """[N, D]."""
        rows, dimension = self.corpus.shape
        return rows, dimension

    def rows(self, index: Indices | slice) -> Floats:
        """Rows [..., D] on the host."""
        rows: Floats = self.corpus[self._place(index)].float().cpu().numpy()
        return rows

    def inverse_norms(self, index: Indices | slice) -> Floats:
        """Inverse norms [...] on the host."""
        scales: Floats = self.scales[self._place(index)].cpu().numpy()
        return scales

    def multiply(self, part: slice, queries: Floats, out: Floats) -> None:
        """A block times the queries, where the corpus is."""
        torch = sys.modules["torch"]
        block = self.corpus[part]
        on_host = block.device.type == "cpu"
        transposed = torch.from_numpy(queries).to(block.device).T
        product = torch.from_numpy(out)
        if on_host and block.dtype == torch.float32:
            torch.mm(block, transposed, out=product)
            return
        numbers = _CONVERTED if on_host else _BLOCK
        for piece in blocks(len(block), max(1, numbers // block.shape[1])):
            product[piece] = torch.mm(block[piece].float(), transposed)

    def _place(self, index: Indices | slice) -> Tensor | slice:
        if isinstance(index, slice):
            return index
        return sys.modules["torch"].from_numpy(index).to(self.corpus.device)


def search_on_device(
    queries: Tensor, source: TensorSource, k: int, *, best_of: BestOf | None = None
) -> tuple[Floats, Indices]:
    """The answer, on the host, for tensors on a device.

    Args:
        queries: float32 [Q, D], unit rows.
        source: the corpus on the queries' device.
        k: 1 to the number of rows that take part.
        best_of: scores a block there; torch's own product if None.
    """
    rows, dimension = source.shape
    error = _input_error(queries.device.type)
    found, rows_found = _topk(queries, source, min(rows, k + SPARE), best_of or _best_of)
    asked, candidates, worst = (side.cpu().numpy() for side in (queries, rows_found, found[:, -1]))
    margin = 2.0 * product_error(dimension, input_error=error)
    scores, indices, doubtful = rank_screened(asked, source, candidates, worst, k, margin=margin)
    if len(doubtful):
        scores[doubtful], indices[doubtful] = screen(asked[doubtful], source, k, input_error=error)
    return scores, indices


def _best_of(
    queries: Tensor, rows: Tensor, inverse_norms: Tensor, width: int
) -> tuple[Tensor, Tensor]:
    """See `BestOf`."""
    scores = queries @ rows.float().T
    scores *= inverse_norms
    scores.masked_fill_(inverse_norms == 0.0, float("-inf"))
    best, found = scores.topk(min(width, scores.shape[1]))
    return best, found


def _topk(
    queries: Tensor, source: TensorSource, width: int, best_of: BestOf
) -> tuple[Tensor, Tensor]:
    """Approximate scores [Q, width], -inf for rows that are left out, and rows, block by block."""
    torch = sys.modules["torch"]
    rows, dimension = source.shape
    best, best_rows = None, None
    for part in blocks(rows, max(width, _BLOCK // max(dimension, len(queries)))):
        scores, found = best_of(queries, source.corpus[part], source.scales[part], width)
        found += part.start
        if best is not None:
            together = torch.cat((best, scores), 1)
            scores, order = together.topk(min(width, together.shape[1]))
            found = torch.cat((best_rows, found), 1).gather(1, order)
        best, best_rows = scores, found
    return best, best_rows


def _input_error(device: str) -> float:
    backends = sys.modules["torch"].backends
    own = backends.mkldnn if device == "cpu" else backends.cuda
    for setting in (own.matmul, own, backends):
        precision = getattr(setting, "fp32_precision", "none")
        if precision != "none":
            return _INPUT_ERROR[precision]
    return 0.0
