"""What an index accepts beside vectors: keys that are strings, payloads that are JSON values."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from typing import TypeAlias

from llm_kernels.errors import EntryError

JsonValue: TypeAlias = "bool | int | float | str | list[JsonValue] | dict[str, JsonValue] | None"

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
        json_text(plain, f"key {plain!r}")
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


def json_text(value: object, name: str) -> str:
    """A JSON value as compact text that reads back as an equal value.

    Args:
        value: null, boolean, finite number, string, list or dictionary with string keys.
        name: names the value in messages.

    Raises:
        EntryError: anything else, or what JSON or UTF-8 cannot hold.
    """
    try:
        text = _encode(value)
        text.encode()  # a lone surrogate has no bytes
        # The encoder lets tuples and integer keys pass, as lists and strings.
        same = json_value(text) == value
    except (TypeError, ValueError, RecursionError) as error:
        raise EntryError(f"{name} is not a JSON value ({error}): convert it first") from None
    if not same:
        raise EntryError(
            f"{name} is {value!r}, which JSON cannot give back (a tuple becomes a list, a key that "
            "is not a string becomes one): convert it first"
        )
    return text


def json_value(text: str | None) -> JsonValue:
    """The value of a payload that `payload_texts` wrote: a new object at every call."""
    if text is None:
        return None
    value: JsonValue = _decode(text)[0]
    return value
