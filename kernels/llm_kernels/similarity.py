"""Top-k cosine similarity: its definition, the search, and the choice of a backend."""

from __future__ import annotations

import re
import sys
import warnings
from importlib import import_module
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any, TypeAlias, overload

import numpy as np

from llm_kernels import faiss_search, triton_search, vectors
from llm_kernels.cards import card_of
from llm_kernels.errors import BackendError, VectorError
from llm_kernels.vectors import Array, is_tensor

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray
    from torch import Tensor

    from llm_kernels.vectors import Floats, Indices, Rows

    _Search: TypeAlias = Callable[[Any, Any, Any, int], tuple[Floats, Indices]]

BACKENDS = ("triton", "faiss", "torch", "numpy")
# These search NumPy arrays on a CPU; the others search tensors.
_ARRAY_BACKENDS = frozenset({"faiss", "numpy"})
# Float16 numbers from which on torch, which converts them 15 times faster than NumPy, is worth it.
_CONVERTED_BY_TORCH = 1 << 20


@overload
def topk_cosine(
    queries: NDArray[Any],
    corpus: NDArray[Any],
    k: int,
    *,
    inverse_norms: Floats | None = None,
    backend: str = "auto",
) -> tuple[Floats, Indices]: ...
@overload
def topk_cosine(
    queries: Tensor,
    corpus: Tensor,
    k: int,
    *,
    inverse_norms: Tensor | None = None,
    backend: str = "auto",
) -> tuple[Tensor, Tensor]: ...
def topk_cosine(
    queries: Array,
    corpus: Array,
    k: int,
    *,
    inverse_norms: Array | None = None,
    backend: str = "auto",
) -> tuple[Array, Array]:
    """The k rows of the corpus with the greatest cosine similarity to each query.

    Args:
        queries: [Q, D] float32 or float16 (torch: also bfloat16), of any length but zero.
        corpus: [N, D] of these dtypes; of the queries' kind (array or tensor) and on their device.
        k: at least 1.
        inverse_norms: float32 [N], 1 / ‖row‖ as `vectors.inverse_norms` computes it, and 0 for a
            row that is left out, which may hold anything; not checked against the rows. Computed
            if None.
        backend: "auto", or one of `available_backends`.

    Returns:
        scores: float32 [Q, K], descending; K = min(k, rows that take part).
        indices: int64 [Q, K]; of equal scores the lower index first. Both of the kind and on the
            device of the queries. The CPU backends return the same bits.

    Raises:
        VectorError: a wrong kind, dtype, shape or device, a zero vector, NaN or Inf.
        BackendError: the backend does not exist or cannot search these vectors here.

    Example:
        >>> import numpy as np
        >>> from llm_kernels import topk_cosine
        >>> corpus = np.array([[1, 0], [0, 2], [3, 3]], np.float32)
        >>> scores, rows = topk_cosine(np.array([[1, 0]], np.float32), corpus, k=2)
        >>> print(rows, scores.round(3))
        [[0 2]] [[1.    0.707]]
    """
    _check_pair(queries, corpus)
    if inverse_norms is None:
        norms = vectors.inverse_norms(corpus, name="corpus")
    else:
        _check_norms(inverse_norms, corpus)
        norms = inverse_norms
    if backend != "auto":
        check_backend(backend, corpus.device.type if is_tensor(corpus) else "cpu")
    units = vectors.unit_queries(vectors.on_host(queries))
    kept = _taking_part(norms, vectors.positive(k, "k"))
    answer = topk_of_units(units, corpus, norms, kept, backend=backend)
    if not is_tensor(queries):
        return answer
    return tuple(sys.modules["torch"].from_numpy(side).to(queries.device) for side in answer)


def topk_of_units(
    units: Floats, corpus: Array, norms: Array, k: int, *, backend: str
) -> tuple[Floats, Indices]:
    """As `topk_cosine`, of unit rows and norms that need no checks, with the answer on the host.

    Args:
        units: float32 [Q, D], unit rows.
        corpus: [N, D], an array, or a tensor on any device; its rows may be longer, by zeros.
        norms: float32 [N], of the corpus' kind and on its device, 1 / ‖row‖; 0 leaves the row out.
        k: at most the number of rows that take part.
        backend: "auto", or one that can search there.
    """
    if k == 0 or len(units) == 0:
        return np.empty((len(units), k), np.float32), np.empty((len(units), k), np.int64)
    device = corpus.device.type if is_tensor(corpus) else "cpu"
    if backend == "auto":
        backend = choose_backend(
            device=str(corpus.device) if is_tensor(corpus) else "cpu",
            rows=corpus.shape[0],
            queries=len(units),
            k=k,
            dimension=corpus.shape[1],
            dtype=vectors.dtype_name(corpus),
            contiguous=not is_tensor(corpus) or corpus.is_contiguous(),
        )
    if backend != "triton":
        # With more numbers, if only zeros, exact scores would be summed in another order.
        corpus = corpus[:, : units.shape[1]]
    elif longer := corpus.shape[1] - units.shape[1]:
        units = np.pad(units, ((0, 0), (0, longer)))
    module = import_module(f"llm_kernels.{backend}_search")
    if backend == "faiss" and device != "cpu":
        return _search_tensors(module.search_on_gpu, units, corpus, norms, k)
    run = _search_arrays if backend in _ARRAY_BACKENDS else _search_tensors
    return run(module.search, units, corpus, norms, k)


def topk_oracle(
    queries: Rows, corpus: Rows, k: int, *, inverse_norms: Floats | None = None
) -> tuple[Floats, Indices]:
    """The definition of the search, in float64 and with a full sort.

    Every backend must return what it returns, up to the rounding of the scores.

    Args:
        queries: [Q, D], any length but zero.
        corpus: [N, D].
        inverse_norms: float32 [N], 1 / ‖row‖, or 0 for a row that is left out; computed if None.

    Returns:
        scores: float32 [Q, K], descending; K = min(k, rows that take part).
        indices: int64 [Q, K]; of equal scores the lower index first.

    Raises:
        VectorError: as for `unit_queries` and `inverse_norms`.

    Example:
        >>> import numpy as np
        >>> from llm_kernels import topk_oracle
        >>> corpus = np.array([[1, 0], [0, 2], [3, 3]], np.float32)
        >>> scores, rows = topk_oracle(np.array([[1, 0]], np.float32), corpus, 2)
        >>> print(rows, scores.round(3))
        [[0 2]] [[1.    0.707]]
    """
    if inverse_norms is None:
        inverse_norms = vectors.inverse_norms(corpus)
    part = np.flatnonzero(inverse_norms)
    unit = vectors.unit_queries(queries).astype(np.float64)
    dots = np.einsum("qd,nd->qn", unit, corpus[part].astype(np.float64))
    scores = (dots * inverse_norms[part].astype(np.float64)).astype(np.float32)
    order = np.argsort(-scores, axis=1, kind="stable")[:, :k]
    return np.take_along_axis(scores, order, axis=1), part[order]


def available_backends(*, device: str = "cpu") -> tuple[str, ...]:
    """Names of the backends that can search vectors on a device, here and now.

    Args:
        device: "cpu", "cuda" or "cuda:1" and the like.

    Example:
        >>> from llm_kernels import available_backends
        >>> "numpy" in available_backends(), "numpy" in available_backends(device="cuda")
        (True, False)
    """
    return tuple(name for name in BACKENDS if _unavailable(name, device.partition(":")[0]) is None)


def choose_backend(
    *,
    device: str,
    rows: int,
    queries: int = 1,
    k: int = 1,
    dimension: int = 1,
    dtype: str = "float32",
    contiguous: bool = True,
) -> str:
    """The backend that `auto` stands for.

    On the CPU: `numpy` for float32, which was the fastest at every size measured, and `torch` for
    16 bits, which NumPy converts slowly, unless the corpus is small; `benchmarks/similarity_cpu.py`
    times all of them. On a GPU of which `llm_kernels.cards` has a record, the one that was the
    fastest there at the nearest size that was measured. On any other: `triton` where its kernels
    fit, otherwise `torch`. There is no record yet: of today's backends nothing was measured on a
    card (benchmarks/README.md).

    Args:
        device: "cpu", "cuda" or "cuda:1" and the like.
        queries: searched for at once.
        k: results per query.
        dtype: of the corpus: "float32", "float16" or "bfloat16".
        contiguous: whether the rows of the corpus lie one behind the other, without gaps.

    Example:
        >>> from llm_kernels import choose_backend
        >>> choose_backend(device="cpu", rows=100_000, dimension=384)
        'numpy'
    """
    if device.partition(":")[0] != "cpu":
        card = card_of(device)
        order = card and card.by_speed(
            rows=rows, dimension=dimension, queries=queries, k=k, dtype=dtype
        )
        misfits = {
            "triton": triton_search.misfit(
                rows=rows, dimension=dimension, k=k, contiguous=contiguous
            ),
            "faiss": faiss_search.misfit_on_gpu(k),
        }
        for name in order or ("triton",):
            if misfits.get(name) is None and _unavailable(name, "cuda") is None:
                return name
        return "torch"
    if dtype == "bfloat16":
        return "torch"
    slow = dtype == "float16" and rows * dimension >= _CONVERTED_BY_TORCH
    return "torch" if slow and _unavailable("torch", "cpu") is None else "numpy"


def check_device(device: str) -> None:
    """Checks that vectors can be kept on a device.

    Raises:
        BackendError: no device has this name, or it is not here.
    """
    if device == "cpu":
        return
    if re.fullmatch(r"cuda(:\d+)?", device) is None:
        raise BackendError(f"no device is called {device!r}: choose 'cpu', 'cuda' or 'cuda:<n>'")
    if find_spec("torch") is None:
        raise BackendError(f"device {device!r} needs torch, which is not installed: use 'cpu'")
    import torch

    number = int(device.partition(":")[2] or 0)
    if number >= torch.cuda.device_count():
        raise BackendError(
            f"device {device!r} is not here: torch finds {torch.cuda.device_count()} GPUs; "
            "use device 'cpu'"
        )


def check_backend(backend: str, device: str) -> None:
    """Checks that a backend can be asked for by name.

    Args:
        backend: one of `BACKENDS`.
        device: "cpu", "cuda" or "cuda:1" and the like, where the vectors are.

    Raises:
        BackendError: no backend has this name, or it cannot search there.
    """
    if backend not in BACKENDS:
        names = ", ".join(("auto", *BACKENDS))
        raise BackendError(f"no backend is called {backend!r}: choose one of {names}")
    reason = _unavailable(backend, device.partition(":")[0])
    if reason is not None:
        usable = ", ".join(("auto", *available_backends(device=device)))
        raise BackendError(
            f"backend {backend!r} cannot search here: {reason}; or choose one of {usable}"
        )


def _check_pair(queries: Array, corpus: Array) -> None:
    vectors.check_rows(queries, name="queries")
    vectors.check_rows(corpus, name="corpus")
    if is_tensor(queries) != is_tensor(corpus):
        kinds = [
            "a torch tensor" if is_tensor(side) else "a NumPy array" for side in (queries, corpus)
        ]
        raise VectorError(
            f"queries is {kinds[0]} and corpus {kinds[1]}: "
            "convert one of them with torch.from_numpy or .numpy()"
        )
    if is_tensor(queries) and queries.device != corpus.device:
        raise VectorError(
            f"queries is on {queries.device} and corpus on {corpus.device}: "
            f"move the queries with .to('{corpus.device}')"
        )
    if queries.shape[1] != corpus.shape[1]:
        raise VectorError(
            f"queries has dimension {queries.shape[1]} and corpus {corpus.shape[1]}: "
            "both must come from one encoder"
        )


def _taking_part(norms: Array, k: int) -> int:
    """How many rows take part, k at most; the first few nearly always settle it."""
    for part in (norms[: 16 * k], norms):
        counted = int((part != 0.0).sum())
        if counted >= k:
            return k
    return counted


def _check_norms(norms: Array, corpus: Array) -> None:
    name = "inverse_norms"
    alike = is_tensor(norms) if is_tensor(corpus) else isinstance(norms, np.ndarray)
    if not alike:
        kind = "torch tensor" if is_tensor(corpus) else "NumPy array"
        raise VectorError(
            f"{name} is a {type(norms).__name__}, the corpus a {kind}: convert {name} to one"
        )
    if vectors.dtype_name(norms) != "float32":
        raise VectorError(f"{name} is of dtype {norms.dtype}: convert it to float32")
    if tuple(norms.shape) != (corpus.shape[0],):
        raise VectorError(
            f"{name} has shape {list(norms.shape)}, the corpus {list(corpus.shape)}: "
            f"{name} needs one value per row, [{corpus.shape[0]}]"
        )
    if is_tensor(norms) and norms.device != corpus.device:
        raise VectorError(
            f"{name} is on {norms.device} and corpus on {corpus.device}: "
            f"move it with .to('{corpus.device}')"
        )


def _unavailable(backend: str, device: str) -> str | None:
    """Why a backend cannot search vectors on a device, with the remedy; None if it can."""
    if backend == "numpy" and device != "cpu":
        return f"it searches on the CPU and the vectors are on {device}: move them with .cpu()"
    if backend == "faiss":
        return _no_faiss(device)
    if backend == "torch" and find_spec("torch") is None:
        return "torch is not installed: pip install torch"
    if backend == "triton":
        reason = triton_search.unavailable()
        if reason is None and device == "cpu" and not triton_search.interpreted():
            return "it searches on a GPU and the vectors are on the CPU: move them with .cuda()"
        return reason
    return None


def _no_faiss(device: str) -> str | None:
    if find_spec("faiss") is None:
        return f"faiss is not installed: pip install faiss-{'cpu' if device == 'cpu' else 'gpu'}"
    if device == "cpu":
        return None
    return faiss_search.why_not_on_gpu()


def _search_arrays(
    search: _Search, units: Floats, corpus: Array, norms: Array, k: int
) -> tuple[Floats, Indices]:
    if not (is_tensor(corpus) and is_tensor(norms)):
        return search(units, corpus, norms, k)
    if corpus.dtype == sys.modules["torch"].bfloat16:
        raise BackendError(
            "NumPy has no bfloat16, which the corpus is: choose backend 'torch' or 'auto', "
            "or convert the corpus with .float()"
        )
    return search(units, corpus.detach().numpy(), norms.detach().numpy(), k)


def _search_tensors(
    search: _Search, units: Floats, corpus: Array, norms: Array, k: int
) -> tuple[Floats, Indices]:
    if is_tensor(corpus) and is_tensor(norms):
        return search(units, corpus.detach(), norms.detach().contiguous(), k)
    import torch

    with warnings.catch_warnings():
        # An array may be read-only, a memory map for one; it is only read.
        warnings.filterwarnings("ignore", message="The given NumPy array is not writable")
        corpus, norms = torch.from_numpy(corpus), torch.from_numpy(norms)
    return search(units, corpus, norms, k)
