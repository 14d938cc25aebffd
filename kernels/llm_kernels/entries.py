"""What an index accepts: string keys, payloads that are JSON values, vectors with a direction."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from llm_kernels.errors import EntryError, VectorError
from llm_kernels.vectors import (
    GREATEST_NORM,
    SMALLEST_NORM,
    Floats,
    blocks,
    fault_of,
    is_tensor,
)

JsonValue: TypeAlias = "bool | int | float | str | list[JsonValue] | dict[str, JsonValue] | None"
Numbers: TypeAlias = NDArray[np.floating[Any] | np.integer[Any]]

# Less than any JSON reader's limit, so that what is saved can be read back.
_DEEPEST = 100
# Numbers that are converted to float64 at once.
_CHUNK = 1 << 17

_encode = json.JSONEncoder(ensure_ascii=False, allow_nan=False, separators=(",", ":")).encode
_decode = json.JSONDecoder().raw_decode


def checked_keys(keys: Iterable[str]) -> list[str]:
    """The keys of one call as plain strings.

    Raises:
        EntryError: a key that is not a string, cannot be written as UTF-8 or comes twice.
    """
    if isinstance(keys, str):
        raise EntryError(f"keys is the string {keys!r}, not a list of keys: pass [{keys!r}]")
    checked: dict[str, None] = {}
    for key in keys:
        if not isinstance(key, str):
            raise EntryError(f"key {key!r} is a {type(key).__name__}: keys are strings, use str()")
        # A subclass (numpy.str_, an enumeration) is kept as the plain string that it stands for.
        plain = str.__str__(key)
        _check_text(plain, f"key {plain!r}")
        if plain in checked:
            raise EntryError(f"key {plain!r} comes twice in one call: drop one of the two")
        checked[plain] = None
    return list(checked)


def payload_texts(payloads: Iterable[JsonValue], keys: Sequence[str]) -> list[str | None]:
    """Payloads as they are kept: JSON text, or None for None.

    A payload kept as text does not change with the object that a caller passed or received.

    Raises:
        EntryError: a payload that is not a JSON value, or not one payload per key.
    """
    if isinstance(payloads, str | Mapping):
        raise EntryError(
            f"payloads is a {type(payloads).__name__}, not a list: pass one payload per key, in "
            "the order of the keys"
        )
    listed = list(payloads)
    if len(listed) != len(keys):
        raise EntryError(
            f"{len(listed)} payloads for {len(keys)} keys: pass one per key, None where there is "
            "nothing to keep"
        )
    return [
        None if payload is None else json_text(payload, f"the payload of key {key!r}")
        for key, payload in zip(keys, listed, strict=True)
    ]


def json_text(value: object, what: str) -> str:
    """A JSON value as compact text that reads back as an equal value.

    Args:
        value: null, boolean, finite number, string, list or dictionary with string keys.
        what: names the value in messages.

    Raises:
        EntryError: anything else, or lists in lists more than 100 deep.
    """
    try:
        text = _encode(value)
        # The encoder lets tuples and integer keys pass, as lists and strings.
        same = json_value(text) == value
        brackets = text.count("[") + text.count("{")
        deep = brackets > _DEEPEST and _depth(value) > _DEEPEST
    except (TypeError, ValueError, RecursionError) as error:
        raise EntryError(f"{what} is not a JSON value ({error}): convert it first") from None
    if not same:
        raise EntryError(
            f"{what} is {value!r}, which JSON cannot give back (a tuple becomes a list, a key that "
            "is not a string becomes one): convert it first"
        )
    if deep:
        raise EntryError(f"{what} is nested more than {_DEEPEST} levels deep: flatten it")
    _check_text(text, what)
    return text


def json_value(text: str | None) -> JsonValue:
    """The value of a payload that `payload_texts` wrote: a new object at every call."""
    if text is None:
        return None
    value: JsonValue = _decode(text)[0]
    return value


def real_array(values: object) -> Numbers:
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


def unit_rows(rows: Numbers, *, dimension: int, label: Callable[[int], str]) -> Floats:
    """Vectors scaled to unit length, computed in float64 and rounded once.

    Args:
        rows: [N, dimension].
        dimension: D, which every row must have.
        label: names a row in messages.

    Returns:
        float32 [N, dimension].

    Raises:
        VectorError: another shape, or a row that has no direction (NaN, Inf, zero) or a norm
            outside [2^-60, 2^60].
    """
    if rows.ndim != 2 or rows.shape[1] != dimension:
        raise VectorError(
            f"vectors have shape {list(rows.shape)} instead of [rows, {dimension}], the dimension "
            "that the index was made for"
            + (": one vector is a matrix of one row, v[None, :]" if rows.ndim == 1 else "")
        )
    result = np.empty(rows.shape, np.float32)
    for part in blocks(len(rows), max(1, _CHUNK // dimension)):
        wide = rows[part].astype(np.float64)
        with np.errstate(over="ignore", invalid="ignore"):
            norms = np.sqrt(np.einsum("nd,nd->n", wide, wide))
        good = (norms >= SMALLEST_NORM) & (norms <= GREATEST_NORM)  # False for NaN
        if not good.all():
            first = int(np.argmin(good))
            raise VectorError(f"{label(part.start + first)} {fault_of(wide[first], norms[first])}")
        result[part] = wide / norms[:, None]
    return result


def _check_text(text: str, what: str) -> None:
    try:
        text.encode()
    except UnicodeEncodeError as error:
        raise EntryError(
            f"{what} cannot be written as UTF-8 ({error.reason} at position {error.start}): "
            "replace that character"
        ) from None


def _depth(value: object) -> int:
    inner = value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()
    return 1 + max(map(_depth, inner), default=0)
