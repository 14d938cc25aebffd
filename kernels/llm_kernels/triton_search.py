"""Top-k search on a GPU: chooses the shapes of the Triton kernels and launches them."""

from __future__ import annotations

from contextlib import nullcontext
from dataclasses import dataclass
from functools import lru_cache
from math import comb, isqrt
from typing import TYPE_CHECKING, Any

import numpy as np

from llm_kernels.errors import BackendError, VectorError
from llm_kernels.vectors import blocks

if TYPE_CHECKING:
    from torch import Tensor

    from llm_kernels.vectors import Floats, Indices

MAX_DIMENSION = 1024
MAX_K = 128
# A slab may end behind the last row, and row numbers are 32-bit.
MAX_ROWS = 2**30
_DTYPES = ("float32", "float16", "bfloat16")
# A bin counts tiles in ten bits.
_SLAB_TILES = 1023
# Queries that are searched for at once, which bounds what their slabs' lists take.
_QUERIES_TOGETHER = 512
# More shared memory than this have Hopper's and Blackwell's servers.
_MUCH_SHARED = 200_000
# So many slabs have most searches: `merge` is compiled once.
_LEAST_SLABS = 512
# The shape of `rescue`, beside the columns per product.
RESCUED = {"QUERIES": 16, "ROWS": 64, "STAGES": 3, "SLOTS": MAX_K}


@dataclass(frozen=True, slots=True, kw_only=True)
class Shape:
    """How a scan cuts its work; the constants of one compiled kernel.

    Attributes:
        queries: queries per program.
        rows: corpus rows per tile.
        chunk: columns per dot product.
        stages: chunks in flight.
        warps: warps per program.
        programs: of a processor at once.
    """

    queries: int
    rows: int
    chunk: int
    stages: int
    warps: int
    programs: int


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


def shape_for(*, queries: int, dimension: int, itemsize: int, shared_bytes: int) -> Shape:
    """Chooses the shape of a scan: what builds fit into a processor, without spilling a register.

    Not tuned on a GPU.

    Args:
        itemsize: bytes of one corpus element.
        shared_bytes: shared memory that one program may have.
    """
    much, few = shared_bytes > _MUCH_SHARED, queries <= 16
    block = min(64 if much else 32, max(8, _power_of_two_from(queries)))
    return Shape(
        queries=block,
        rows=128,
        chunk=min(128 // itemsize, max(16, _power_of_two_from(dimension))),
        stages=(5 if few else 4) if much else 3,
        warps=4 if few else 8,
        programs=2 if few else 1,
    )


def slab_rows(shape: Shape, *, rows: int, queries: int, k: int, processors: int) -> int:
    """Rows per program, a multiple of the tile's: enough programs to fill the device once.

    Many queries or long lists take more programs, and so more bins: that three of the k best rows
    of a query meet in one bin, for which it may be scanned again, has a chance of C(k, 3) / bins^2
    where rows come in random order. Over all queries that is about a tenth at most.
    """
    tiles = -(-rows // shape.rows)
    slabs = max(
        -(-processors * shape.programs // -(-queries // shape.queries)),
        -(-isqrt(10 * queries * comb(k, 3)) // shape.rows),
        -(-tiles // _SLAB_TILES),
    )
    return -(-tiles // min(tiles, slabs)) * shape.rows


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


def search(
    queries: Floats, corpus: Tensor, inverse_norms: Tensor, k: int
) -> tuple[Floats, Indices]:
    """The k rows of greatest cosine for each query, without writing a matrix of scores.

    Dot products of 16-bit rows are accumulated in float32 on tensor cores; a query enters as the
    sum of two 16-bit vectors, so that rounding it costs nothing. float32 rows are multiplied as
    three TF32 products, which keeps float32's accuracy.

    Args:
        queries: unit rows, float32 [Q, D], Q >= 1, on the host.
        corpus: [N, D], float32, float16 or bfloat16, contiguous.
        inverse_norms: float32 [N]; 1 / ||row||, or 0 for a row that is left out.
        k: at most the number of rows with a positive inverse norm, and at most 128.

    Returns:
        Scores, float32 [Q, k], and row numbers, int64 [Q, k], on the host: best first, of equal
        scores the lower row first.

    Raises:
        BackendError: there is no GPU here.
        VectorError: the kernels do not take this dimension, k, number of rows, dtype or layout.
    """
    reason = unavailable()
    if reason is not None:
        raise BackendError(f"the triton backend cannot run: {reason}; use 'torch' or 'numpy'")
    _check(corpus, k)
    import torch

    found = [
        launch(torch.from_numpy(queries[some]).to(corpus.device), corpus, inverse_norms, k)
        for some in blocks(len(queries), _QUERIES_TOGETHER)
    ]
    return scores_and_rows(np.concatenate([keys.cpu().numpy() for keys in found]))


def scores_and_rows(keys: Indices) -> tuple[Floats, Indices]:
    """What the kernels' 64-bit keys stand for: scores, float32, and rows, int64."""
    ascending = (keys >> 32).astype(np.int32)
    bits = ascending ^ ((ascending >> 31) & 0x7FFFFFFF)
    return bits.view(np.float32), 0x7FFFFFFF - (keys & 0xFFFFFFFF)


def launch(
    queries: Tensor, corpus: Tensor, inverse_norms: Tensor, k: int, *, shape: Shape | None = None
) -> Tensor:
    """The answer as keys, on the device, of which nothing waits.

    Args:
        queries: float32 [Q, D], unit rows.
        corpus: [N, D].
        inverse_norms: float32 [N].
        k: as for `search`.
        shape: other than the one that is chosen; a benchmark tries some.

    Returns:
        int64 [Q, k], for `scores_and_rows`.
    """
    import torch

    from llm_kernels import triton_kernels as kernels

    (count, dimension), rows, place = queries.shape, len(corpus), corpus.device
    shape, per_program = _cut(
        queries=count,
        rows=rows,
        dimension=dimension,
        itemsize=corpus.itemsize,
        k=k,
        device=_device(corpus),
        shape=shape,
    )
    slabs = -(-rows // per_program)
    common = {"D": dimension, "PARTS": parts_of(corpus.itemsize)}
    chunked = common | {"CHUNK": shape.chunk}
    parts = torch.empty((count * common["PARTS"], dimension), dtype=corpus.dtype, device=place)
    flags = torch.empty((count,), dtype=torch.int32, device=place)
    lists = torch.empty((count, slabs, k + 1), dtype=torch.int64, device=place)
    keys = torch.empty((count, k), dtype=torch.int64, device=place)
    sizes = (count, rows, per_program, k)
    merged = {"SLABS": max(_LEAST_SLABS, _power_of_two_from(slabs))}
    # Triton launches on the current device, which is the first one in every thread.
    with torch.cuda.device(place) if corpus.is_cuda else nullcontext():
        _run(
            kernels.split,
            (count, 1, 1),
            (queries, parts, flags),
            (),
            common | {"BLOCK": _power_of_two_from(dimension)},
        )
        _run(
            kernels.scan,
            (-(-count // shape.queries), slabs, 1),
            (parts, corpus, inverse_norms, lists),
            sizes,
            chunked | {"QUERIES": shape.queries, "ROWS": shape.rows, "STAGES": shape.stages},
            warps=shape.warps,
        )
        _run(kernels.merge, (count, 1, 1), (lists, flags, keys), (slabs, k), merged)
        _run(
            kernels.rescue,
            (-(-count // RESCUED["QUERIES"]), slabs, 1),
            (parts, corpus, inverse_norms, flags, lists),
            sizes,
            chunked | RESCUED,
        )
        _run(kernels.merge, (count, 1, 1), (lists, flags, keys), (slabs, k), merged)
    return keys


# What Triton compiled, by all that it would look up at every launch.
_KEPT: dict[tuple[object, ...], Any] = {}


def _run(
    kernel: Any,  # noqa: ANN401 - Triton's, or a function of its interpreter
    grid: tuple[int, int, int],
    tensors: tuple[Tensor, ...],
    sizes: tuple[int, ...],
    constants: dict[str, int],
    *,
    warps: int = 4,
) -> None:
    """Launches a kernel; after the first time without Triton's own look-up, 10 microseconds."""
    key = (
        kernel.__name__,
        warps,
        *constants.values(),
        *((tensor.device.index, tensor.dtype, tensor.data_ptr() % 16 == 0) for tensor in tensors),
    )
    kept = _KEPT.get(key)
    if kept is None:
        # The interpreter compiles nothing, and returns None.
        _KEPT[key] = kernel[grid](*tensors, *sizes, **constants, num_warps=warps)
    else:
        kept[grid](*tensors, *sizes, *constants.values())


def _check(corpus: Tensor, k: int) -> None:
    rows, dimension = corpus.shape
    dtype = str(corpus.dtype).removeprefix("torch.")
    if dtype not in _DTYPES:
        raise VectorError(f"corpus dtype is {dtype}; the triton backend has {', '.join(_DTYPES)}")
    reason = misfit(rows=rows, dimension=dimension, k=k, contiguous=corpus.is_contiguous())
    if reason is not None:
        raise VectorError(reason)
    if corpus.device.type != "cuda" and not interpreted():
        raise VectorError(
            f"the corpus is on {corpus.device}; the triton backend needs it on a GPU: call .cuda()"
        )


@lru_cache(maxsize=1024)
def _cut(
    *,
    queries: int,
    rows: int,
    dimension: int,
    itemsize: int,
    k: int,
    device: Device,
    shape: Shape | None,
) -> tuple[Shape, int]:
    """The shape of a search, and the rows of its programs."""
    if shape is None:
        shape = shape_for(
            queries=queries,
            dimension=dimension,
            itemsize=itemsize,
            shared_bytes=device.shared_bytes,
        )
    per_program = slab_rows(shape, rows=rows, queries=queries, k=k, processors=device.processors)
    return shape, per_program


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
