"""Top-k search on a GPU: chooses the shapes of the Triton kernels and launches them."""

from __future__ import annotations

from contextlib import nullcontext
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import TYPE_CHECKING

from llm_kernels.errors import BackendError, VectorError

if TYPE_CHECKING:
    from torch import Tensor

MAX_DIMENSION = 1024
MAX_K = 64
# A slab may end up to half as far again behind the last row, and row numbers are 32-bit.
MAX_ROWS = 2**30
_DTYPES = ("float32", "float16", "bfloat16")
_STREAMED_QUERIES = 16
_MERGED_TOGETHER = 1024


@dataclass(frozen=True, slots=True, kw_only=True)
class Shape:
    """How a scan cuts its work; the constants of one compiled kernel.

    Attributes:
        streams: whether the queries stay on the chip, and whole rows of the corpus are prefetched.
        queries: queries per program.
        rows: corpus rows per tile.
        chunk: columns per dot product.
        stages: depth of the software pipeline.
        warps: warps per program.
    """

    streams: bool
    queries: int
    rows: int
    chunk: int
    stages: int
    warps: int

    def shared_bytes(self, dimension: int, itemsize: int) -> int:
        """Shared memory of a program, in bytes, from the buffers that it keeps."""
        parts = parts_of(itemsize)
        buffers = max(1, self.stages - 1)
        if self.streams:
            columns = -(-dimension // self.chunk) * self.chunk
            return (buffers * self.rows + parts * self.queries) * columns * itemsize
        return self.stages * (self.rows + parts * self.queries) * self.chunk * itemsize


@dataclass(frozen=True, slots=True, kw_only=True)
class Device:
    """The properties of a GPU that the choice of a shape depends on.

    Attributes:
        processors: streaming multiprocessors.
        shared_bytes: shared memory that one program may have.
    """

    processors: int
    shared_bytes: int


def parts_of(itemsize: int) -> int:
    """Arrays of the corpus' dtype whose sum is a float32 query: two of 16 bits, one of 32."""
    return 1 if itemsize == 4 else 2


def shape_for(*, queries: int, dimension: int, itemsize: int, k: int, shared_bytes: int) -> Shape:
    """Chooses the shape of a scan.

    Few queries are streamed: tiles of about 32 KiB of whole rows, two in flight, so that two
    programs fit on a processor and one reads while the other sorts. Not tuned on a GPU.

    Args:
        itemsize: bytes of one corpus element.
        k: entries asked for.
        shared_bytes: shared memory that one program may have.
    """
    chunk = 64 if -(-dimension // 64) % 2 else 128
    chunk = min(chunk, max(16, _power_of_two_from(dimension)))
    short = k <= 16
    if queries > _STREAMED_QUERIES or itemsize == 4:
        block = min(32 if itemsize == 4 or not short else 64, max(16, _power_of_two_from(queries)))
        return Shape(
            streams=False,
            queries=block,
            rows=128 if block == 64 else 64,
            chunk=min(chunk, 128 // itemsize),
            stages=3,
            warps=8 if block == 64 else 4,
        )
    columns = -(-dimension // chunk) * chunk
    rows = min(128, max(16, _power_of_two_from(32768 // (columns * itemsize) + 1) // 2))
    shape = Shape(
        streams=True,
        queries=_STREAMED_QUERIES,
        rows=rows,
        chunk=chunk,
        stages=3,
        warps=4 if short else 8,
    )
    if shape.shared_bytes(dimension, itemsize) + 8192 > shared_bytes:
        return replace(shape, stages=2)
    return shape


def slab_rows(
    shape: Shape, *, rows: int, queries: int, dimension: int, itemsize: int, device: Device
) -> int:
    """Rows per program, a multiple of the tile's: enough programs to fill the device once."""
    fitting = device.shared_bytes // (shape.shared_bytes(dimension, itemsize) + 8192)
    programs = device.processors * min(4, max(1, fitting))
    blocks = -(-queries // shape.queries)
    tiles = -(-rows // shape.rows)
    slabs = min(tiles, -(-programs // blocks))
    return -(-tiles // slabs) * shape.rows


def unavailable() -> str | None:
    """Why this backend cannot run here, or None if it can."""
    try:
        import torch
        import triton
    except ImportError as error:
        return f"{error.name} is not installed: pip install torch triton"
    if interpreted() or torch.cuda.is_available():
        return None
    return f"Triton {triton.__version__} is here, but no GPU that torch can use"


def interpreted() -> bool:
    """Whether kernels run in Triton's interpreter, on CPU tensors (TRITON_INTERPRET=1)."""
    from triton import knobs

    return bool(knobs.runtime.interpret)


def misfit(*, rows: int, dimension: int, k: int, contiguous: bool) -> str | None:
    """Why the kernels do not take a corpus of this size and layout, or None if they do."""
    if not 1 <= dimension <= MAX_DIMENSION:
        return (
            f"dimension is {dimension}; the triton backend has 1 to {MAX_DIMENSION}: "
            "use backend 'torch'"
        )
    if not 1 <= k <= MAX_K:
        return f"k is {k}; the triton backend has 1 to {MAX_K}: use backend 'torch'"
    if rows > MAX_ROWS:
        return (
            f"the corpus has {rows} rows; the triton backend has up to {MAX_ROWS}: "
            "use backend 'torch'"
        )
    if not contiguous:
        return "the corpus is not contiguous: call .contiguous() on it, or use backend 'torch'"
    return None


def search(queries: Tensor, corpus: Tensor, inverse_norms: Tensor, k: int) -> tuple[Tensor, Tensor]:
    """The k rows of greatest cosine for each query, without writing a matrix of scores.

    Dot products of 16-bit rows are accumulated in float32 on tensor cores; a query enters as the
    sum of two 16-bit vectors, so that rounding it costs nothing. float32 rows are multiplied as
    three TF32 products, which keeps float32's accuracy.

    Args:
        queries: unit rows, float32 [Q, D], Q >= 1.
        corpus: [N, D], float32, float16 or bfloat16, contiguous.
        inverse_norms: float32 [N]; 1 / ||row||, or 0 for a row that is left out.
        k: at most the number of rows with a positive inverse norm, and at most 64.

    Returns:
        Scores, float32 [Q, k], and row numbers, int64 [Q, k]: best first, of equal scores the lower
        row first.

    Raises:
        BackendError: there is no GPU here.
        VectorError: the kernels do not take this dimension, k, number of rows, dtype or layout.
    """
    reason = unavailable()
    if reason is not None:
        raise BackendError(f"the triton backend cannot run: {reason}; use 'torch' or 'numpy'")
    _check(queries, corpus, k)
    import torch

    rows, dimension = corpus.shape
    device = _device(corpus)
    shape = shape_for(
        queries=len(queries),
        dimension=dimension,
        itemsize=corpus.itemsize,
        k=k,
        shared_bytes=device.shared_bytes,
    )
    per_program = slab_rows(
        shape,
        rows=rows,
        queries=len(queries),
        dimension=dimension,
        itemsize=corpus.itemsize,
        device=device,
    )
    scores = torch.empty((len(queries), k), dtype=torch.float32, device=corpus.device)
    found = torch.empty((len(queries), k), dtype=torch.int64, device=corpus.device)
    launch(
        shape,
        per_program=per_program,
        parts=split(queries, corpus),
        corpus=corpus,
        inverse_norms=inverse_norms,
        scores=scores,
        found=found,
    )
    return scores, found


def launch(
    shape: Shape,
    *,
    per_program: int,
    parts: Tensor,
    corpus: Tensor,
    inverse_norms: Tensor,
    scores: Tensor,
    found: Tensor,
) -> None:
    """Scans and merges with a given shape; `search` chooses it, a benchmark may try others.

    Args:
        per_program: rows per program, a multiple of `shape.rows`.
        parts: the queries, [parts, Q, D] in the corpus' dtype.
        corpus: [N, D].
        inverse_norms: float32 [N].
        scores: float32 [Q, k], written.
        found: int64 [Q, k], written.
    """
    import torch

    from llm_kernels import triton_kernels

    (queries, k), (rows, dimension) = scores.shape, corpus.shape
    slabs = -(-rows // per_program)
    slots = _power_of_two_from(k)
    list_scores = torch.empty((queries, slabs, k), dtype=torch.float32, device=corpus.device)
    list_rows = torch.empty((queries, slabs, k), dtype=torch.int32, device=corpus.device)
    # Triton launches on the current device, which is the first one in every thread.
    with torch.cuda.device(corpus.device) if corpus.is_cuda else nullcontext():
        triton_kernels.scan[(-(-queries // shape.queries), slabs)](
            parts,
            corpus,
            inverse_norms,
            list_scores,
            list_rows,
            queries,
            rows,
            per_program,
            D=dimension,
            K=k,
            SLOTS=slots,
            PARTS=len(parts),
            STREAMS=shape.streams,
            QUERIES=shape.queries,
            ROWS=shape.rows,
            CHUNK=shape.chunk,
            STAGES=shape.stages,
            num_warps=shape.warps,
        )
        triton_kernels.merge[(queries,)](
            list_scores,
            list_rows,
            scores,
            found,
            slabs * k,
            K=k,
            SLOTS=slots,
            CANDIDATES=min(_MERGED_TOGETHER, max(16, _power_of_two_from(slabs * k))),
            num_warps=4,
        )


def split(queries: Tensor, corpus: Tensor) -> Tensor:
    """The queries, float32 [Q, D], as a sum of arrays of the corpus' dtype, [parts, Q, D]."""
    import torch

    rounded = queries.to(corpus.dtype)
    if parts_of(corpus.itemsize) == 1:
        return rounded.contiguous()[None]
    return torch.stack((rounded, (queries - rounded.float()).to(corpus.dtype)))


def _check(queries: Tensor, corpus: Tensor, k: int) -> None:
    rows, dimension = corpus.shape
    dtype = str(corpus.dtype).removeprefix("torch.")
    if dtype not in _DTYPES:
        raise VectorError(f"corpus dtype is {dtype}; the triton backend has {', '.join(_DTYPES)}")
    reason = misfit(rows=rows, dimension=dimension, k=k, contiguous=corpus.is_contiguous())
    if reason is not None:
        raise VectorError(reason)
    if corpus.device != queries.device:
        raise VectorError(
            f"queries are on {queries.device} and the corpus on {corpus.device}: move one of them"
        )
    if corpus.device.type != "cuda" and not interpreted():
        raise VectorError(
            f"the corpus is on {corpus.device}; the triton backend needs it on a GPU: call .cuda()"
        )


def _device(corpus: Tensor) -> Device:
    if corpus.device.type == "cuda":
        return gpu(corpus.device.index or 0)
    # The interpreter: a few programs, so that there is something to merge.
    return Device(processors=3, shared_bytes=101376)


@lru_cache
def gpu(index: int) -> Device:
    """What a shape may use of the GPU with this number."""
    import torch

    properties = torch.cuda.get_device_properties(index)
    return Device(
        processors=properties.multi_processor_count,
        shared_bytes=properties.shared_memory_per_block_optin,
    )


def _power_of_two_from(number: int) -> int:
    """The least power of two that is not below a positive number."""
    return 1 << (number - 1).bit_length()
