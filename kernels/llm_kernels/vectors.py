"""What a vector must be to be searched: checks, norms and unit rows, for arrays and tensors."""

from __future__ import annotations

import operator
import sys
from typing import TYPE_CHECKING, Any, TypeAlias, TypeGuard, overload

import numpy as np
from numpy.typing import NDArray

from llm_kernels.errors import VectorError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from torch import Tensor

Floats: TypeAlias = NDArray[np.float32]
Rows: TypeAlias = NDArray[np.float32] | NDArray[np.float16]
Indices: TypeAlias = NDArray[np.int64]
# An array or a tensor; all arguments of one call are of one kind.
Array: TypeAlias = "NDArray[Any] | Tensor"

_NAMES = {np.dtype(name): name for name in ("float32", "float16", "bool")}
# A row's norm stays within these, so that no float32 product of the search over- or underflows.
SMALLEST_NORM = 2.0**-60
GREATEST_NORM = 2.0**60
GREATEST_DIMENSION = 1 << 24
"""More than any encoder has; a matrix without rows may claim one that NumPy cannot count."""
# Rows are converted to float64 this many numbers at a time.
_CHUNK = 1 << 17


def is_tensor(value: object) -> TypeGuard[Tensor]:
    """Whether a value is a torch tensor; torch itself is not imported for the question."""
    torch = sys.modules.get("torch")
    return torch is not None and isinstance(value, torch.Tensor)


def on_host(array: Array) -> NDArray[Any]:
    """The numbers of an array or a tensor in NumPy, without loss; bfloat16 becomes float32."""
    return array.detach().float().cpu().numpy() if is_tensor(array) else array


def positive(value: int, name: str) -> int:
    """A whole number of at least 1, of any type that can be an index.

    Raises:
        VectorError: the value is not such a number.
    """
    try:
        number = operator.index(value)
    except TypeError:
        raise VectorError(f"{name} is {value!r}: it must be a whole number") from None
    if number < 1:
        raise VectorError(f"{name} is {number}: it must be at least 1")
    return number


def check_rows(rows: object, *, name: str) -> None:
    """Checks that a value is a matrix of floating-point rows that the search can read.

    Args:
        rows: [N, D] float32 or float16, as a NumPy array or, then also bfloat16, a torch tensor.
        name: names the rows in messages.

    Raises:
        VectorError: another kind, dtype or shape.
    """
    if is_tensor(rows):
        allowed: tuple[str, ...] = ("float32", "float16", "bfloat16")
        remedy = "convert it with .float()"
    elif isinstance(rows, np.ndarray):
        allowed = ("float32", "float16")
        remedy = "convert it with .astype(numpy.float32)"
    else:
        raise VectorError(
            f"{name} is a {type(rows).__name__}, not a NumPy array or a torch tensor: "
            "convert it with numpy.asarray(..., dtype=numpy.float32)"
        )
    if rows.ndim != 2:
        shape = list(rows.shape)
        raise VectorError(
            f"{name} has shape {shape}, not [rows, dimension]: "
            + ("one vector is a matrix of one row, v[None, :]" if rows.ndim == 1 else "reshape it")
        )
    if rows.shape[1] == 0:
        raise VectorError(f"{name} has shape {list(rows.shape)}: a vector needs a dimension > 0")
    if dtype_name(rows) not in allowed:
        raise VectorError(
            f"{name} is of dtype {rows.dtype}, not one of {', '.join(allowed)}: {remedy}"
        )


def dtype_name(array: Array) -> str:
    """The dtype's name, alike for arrays and tensors: "float32", "bfloat16", "bool"."""
    if is_tensor(array):
        return str(array.dtype).removeprefix("torch.")
    # NumPy spells out a name in ten microseconds, which a small search would notice.
    return _NAMES.get(array.dtype) or str(array.dtype)


@overload
def inverse_norms(rows: NDArray[Any], *, name: str = "rows") -> Floats: ...
@overload
def inverse_norms(rows: Tensor, *, name: str = "rows") -> Tensor: ...
def inverse_norms(rows: Array, *, name: str = "rows") -> Array:
    """1 / ‖row‖ of every row, computed in float64 and rounded once.

    Args:
        rows: [N, D] float32 or float16 (torch: also bfloat16), array or tensor.
        name: names the rows in messages.

    Returns:
        float32 [N], of the kind and on the device of `rows`. Equal rows have equal norms, and
        rows that differ by a power of two have norms that do, next to any other rows.

    Raises:
        VectorError: the first row that holds NaN or Inf, is zero, or is so short or long that
            float32 products with it could under- or overflow.

    Example:
        >>> import numpy as np
        >>> from llm_kernels import inverse_norms
        >>> rows = np.array([[3, 4], [0, 2]], np.float32)
        >>> print(inverse_norms(rows))
        [0.2 0.5]
    """
    check_rows(rows, name=name)
    squares = _squares(rows)
    _refuse_bad(squares, rows, label=lambda row: f"{name}[{row}]")
    result = (1.0 / np.sqrt(squares)).astype(np.float32)
    if is_tensor(rows):
        return sys.modules["torch"].from_numpy(result).to(rows.device)
    return result


@overload
def unit_queries(queries: NDArray[Any]) -> Floats: ...
@overload
def unit_queries(queries: Tensor) -> Tensor: ...
def unit_queries(queries: Array) -> Array:
    """Queries scaled to unit length, computed in float64 and rounded once.

    Args:
        queries: [Q, D] float32 or float16 (torch: also bfloat16), array or tensor.

    Returns:
        float32 [Q, D], of the kind and on the device of `queries`.

    Raises:
        VectorError: as for `inverse_norms`.

    Example:
        >>> import numpy as np
        >>> from llm_kernels import unit_queries
        >>> print(unit_queries(np.array([[3, 4]], np.float32)))
        [[0.6 0.8]]
    """
    check_rows(queries, name="queries")
    units = unit_rows(on_host(queries), label=lambda row: f"queries[{row}]")
    if is_tensor(queries):
        return sys.modules["torch"].from_numpy(units).to(queries.device)
    return units


def unit_rows(rows: NDArray[Any], *, label: Callable[[int], str]) -> Floats:
    """Rows of any real dtype scaled to unit length, computed in float64 and rounded once.

    Args:
        rows: [N, D].
        label: names a row in messages.

    Returns:
        float32 [N, D].

    Raises:
        VectorError: as for `inverse_norms`.
    """
    result = np.empty(rows.shape, np.float32)
    for part in blocks(len(rows), max(1, _CHUNK // rows.shape[1])):
        wide = rows[part].astype(np.float64, order="C")
        with np.errstate(over="ignore", invalid="ignore"):
            squares = np.einsum("nd,nd->n", wide, wide)
        _refuse_bad(squares, wide, label=label, first=part.start)
        result[part] = wide / np.sqrt(squares)[:, None]
    return result


def real_array(values: object) -> NDArray[Any]:
    """Numbers as a NumPy array; an array is returned as it is.

    Args:
        values: a NumPy array, a torch tensor on any device, or nested lists.

    Raises:
        VectorError: something that is not real numbers, or nested lists of unequal lengths.
    """
    if is_tensor(values):
        tensor = values.detach().cpu()
        # NumPy has no bfloat16; float32 holds all of its values.
        values = (tensor.float() if tensor.itemsize == 2 else tensor).numpy()
    try:
        array = np.asarray(values)
    except (TypeError, ValueError) as error:
        raise VectorError(f"vectors are not an array of numbers ({error})") from None
    if array.dtype.kind not in "fiu":
        raise VectorError(
            f"vectors are of dtype {array.dtype}, not real numbers: convert them with "
            ".astype(numpy.float32)"
        )
    return array


def blocks(rows: int, size: int) -> Iterator[slice]:
    """Slices that cover `rows` rows in order, `size` at a time."""
    for start in range(0, rows, size):
        yield slice(start, min(start + size, rows))


def _squares(rows: Array) -> NDArray[np.float64]:
    """‖row‖² of every row, float64 [N]."""
    count, dimension = rows.shape
    result = np.empty(count, np.float64)
    on_device = is_tensor(rows) and rows.device.type != "cpu"
    for part in blocks(count, max(1, (_CHUNK << 8 if on_device else _CHUNK) // dimension)):
        block = rows[part]
        if is_tensor(block) and on_device:
            result[part] = block.detach().double().square().sum(1).cpu().numpy()
            continue
        wide = on_host(block).astype(np.float64, order="C")
        # einsum adds up every row in the same order; a matrix product need not.
        np.einsum("nd,nd->n", wide, wide, out=result[part])
    return result


def _refuse_bad(
    squares: NDArray[np.float64], rows: Array, *, label: Callable[[int], str], first: int = 0
) -> None:
    """Names the first row that has no direction, or whose norm is not within the bounds.

    Args:
        squares: float64 [N], ‖row‖².
        rows: [N, D], of which row 0 has the number `first`.
        label: names a row.
    """
    lowest, greatest = SMALLEST_NORM**2, GREATEST_NORM**2
    # Where a square is NaN both extremes are NaN, and both comparisons are false.
    if not len(squares) or (squares.min() >= lowest and squares.max() <= greatest):
        return
    bad = int(np.argmin((squares >= lowest) & (squares <= greatest)))
    row = on_host(rows[bad])
    finite = np.isfinite(row)
    if not finite.all():
        where = int(np.argmin(finite))
        fault = (
            f"holds {'NaN' if np.isnan(row[where]) else 'Inf'} at position {where}: leave it out "
            "or repair what computed it"
        )
    elif not row.any():
        fault = "is zero: a zero vector has no direction, leave it out"
    else:
        fault = (
            f"has norm {np.sqrt(squares[bad]):g}, outside [2^-60, 2^60], where float32 products "
            "stay exact to rounding: scale it, as cosine similarity ignores its length"
        )
    raise VectorError(f"{label(first + bad)} {fault}")
