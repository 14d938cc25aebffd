"""Checks of what a ledger's file holds: a stranger may have written it.

The functions raise a `ValueError` whose message says in one line what is wrong.
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from itertools import islice
from typing import Any, TypeAlias

from llm_base.quoting import quote

_MOST_DEPTH = 100
"""Levels of nested lists and objects in a setting, a metric or a provenance, at most."""

_MOST_COUNT = 2**53
"""Calls, tokens or attempts, at most: the largest count that is exact as a float."""

_LONGEST = 1e10
"""Seconds of a duration, at most: three centuries."""


_YEAR_10000 = 253_402_300_800.0
_SHA256 = re.compile(r"[0-9a-f]{64}")

# A string without its closing quote takes the rest of the text, so that nothing is read twice.
_TOKEN = re.compile(r'"(?:[^"\\]++|\\.)*+(?:"|\\?\Z)|([,\[{])', re.DOTALL)

JsonObject: TypeAlias = "dict[str, Any]"
"""A JSON object."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Bounds:
    """How much a JSON text may hold. Once parsed it can take 30 times its length in memory.

    Attributes:
        characters: of the text, at most.
        values: numbers, texts, lists, objects and so on, nested ones included, at most.
    """

    characters: int
    values: int


_OTHERS = Bounds(characters=2**23, values=100_000)
"""Bounds of a plan, the metrics, the usage or a provenance."""


class TooLargeError(ValueError):
    """A value is JSON, but larger than a ledger takes."""


def within(text: str, what: str, bounds: Bounds) -> str:
    """Returns a JSON text that is small enough to be parsed.

    Raises:
        TooLargeError: the text is too large.
    """
    if len(text) > bounds.characters:
        raise TooLargeError(f"{what} has more than {bounds.characters} characters")
    # Every value but the outermost follows one of these.
    if sum(map(text.count, ",[{")) >= bounds.values:
        # Slower but exact: these characters inside strings begin no value.
        begun = (1 for token in _TOKEN.finditer(text) if token[1])
        if sum(islice(begun, bounds.values)) == bounds.values:
            raise TooLargeError(f"{what} has more than {bounds.values} values")
    return text


def read_json(value: object, what: str, bounds: Bounds = _OTHERS) -> Any:  # noqa: ANN401 - any JSON value
    """The value of a JSON text that is neither too large nor nested too deeply."""
    text = within(check_text(value, what), what, bounds)
    try:
        read = json.loads(text)
    except RecursionError as error:
        raise ValueError(f"{what} is nested too deeply") from error
    except json.JSONDecodeError as error:
        raise ValueError(f"{what} is not JSON: {error}") from error
    level = [read]
    for _ in range(_MOST_DEPTH):
        level = [
            inner
            for one in level
            if isinstance(one, dict | list)
            for inner in (one.values() if isinstance(one, dict) else one)
        ]
        if not level:
            return read
    raise ValueError(f"{what} is nested more than {_MOST_DEPTH} deep")


def read_object(value: object, what: str, bounds: Bounds = _OTHERS) -> JsonObject:
    """The value of the JSON text of an object."""
    return check_mapping(read_json(value, what, bounds), what)


def check_text(value: object, what: str) -> str:
    """A text."""
    if not isinstance(value, str):
        raise wrong_value(what, value, "not a text")
    return value


def check_text_or_none(value: object, what: str) -> str | None:
    """A text or None."""
    return None if value is None else check_text(value, what)


def check_texts(value: object, what: str) -> tuple[str, ...]:
    """A list of texts."""
    if not isinstance(value, list):
        raise wrong_value(what, value, "not a list")
    return tuple(check_text(one, f"an item of {what}") for one in value)


def check_mapping(value: object, what: str) -> JsonObject:
    """A JSON object."""
    if not isinstance(value, dict):
        raise wrong_value(what, value, "not an object")
    return value


def check_sha256(value: object, what: str) -> str:
    """A SHA-256 in hexadecimal, which names files."""
    if not isinstance(value, str) or not _SHA256.fullmatch(value):
        raise wrong_value(what, value, "not a SHA-256")
    return value


def check_integer(value: object, what: str) -> int:
    """An integer of any size."""
    if not isinstance(value, int) or isinstance(value, bool):
        raise wrong_value(what, value, "not an integer")
    return value


def check_count(value: object, what: str, *, least: int = 0, most: int = _MOST_COUNT) -> int:
    """A number of things."""
    number = check_integer(value, what)
    if not least <= number <= most:
        raise wrong_value(what, value, f"not between {least} and {most}")
    return number


def check_seconds(value: object, what: str, *, most: float = _LONGEST) -> float:
    """A duration in seconds."""
    if not isinstance(value, int | float) or isinstance(value, bool):
        raise wrong_value(what, value, "not a number")
    if not 0 <= value < most:
        raise wrong_value(what, value, f"not between 0 and {most:g}")
    return float(value)


def check_moment(value: object, what: str) -> float:
    """A time in seconds since the epoch, before the year 10000."""
    return check_seconds(value, what, most=_YEAR_10000)


def check_truth_or_none(value: object, what: str) -> bool | None:
    """A boolean as SQLite stores it, or None."""
    return None if value is None else bool(check_count(value, what, most=1))


def wrong_value(what: str, value: object, why: str) -> ValueError:
    """The error for a value that is not what it must be."""
    return ValueError(f"{what} is {quote(value)}, {why}")
