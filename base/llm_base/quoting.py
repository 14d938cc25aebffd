"""How a message quotes a value, and how a text loses its control characters."""

from __future__ import annotations

import reprlib
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pydantic import ValidationError

LONGEST_VALUE = 80
"""Characters of a value that a message quotes."""

_SHORT = reprlib.Repr()
_SHORT.maxstring = _SHORT.maxother = LONGEST_VALUE
_SHORT.maxlist = _SHORT.maxtuple = _SHORT.maxdict = _SHORT.maxset = LONGEST_VALUE // 2


def printable(text: str) -> str:
    """The text with every control character, line breaks included, written as an escape.

    A text from a foreign file may hold sequences that change what a terminal shows or does.
    """
    if text.isprintable():
        return text
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in text)


def quote(value: object) -> str:
    """A value as a message quotes it: on one line, and shortened where it is long or deep."""
    text = repr(value[:LONGEST_VALUE]) if isinstance(value, str) else printable(_SHORT.repr(value))
    return text if len(text) <= LONGEST_VALUE else f"{text[: LONGEST_VALUE - 3]}..."


def wrong_return(owner: object, method: str, value: object, wanted: str) -> str:
    """What an error says of a method of somebody's own that returned something else than it has to.

    Example:
        >>> from llm_base.quoting import wrong_return
        >>> wrong_return("a world", "feasible", True, "a text or None")
        'str.feasible returned True, not a text or None: docs/extending.md says what it returns'
    """
    return (
        f"{type(owner).__name__}.{method} returned {quote(value)}, not {wanted}: "
        "docs/extending.md says what it returns"
    )


def shortened(text: str, most: int) -> str:
    """A text on one line; dots show that it was longer than `most` characters."""
    line = " ".join(text.split())
    return line if len(line) <= most else f"{line[:most]}..."


def first_fault(error: ValidationError, columns: Sequence[str] = ()) -> str:
    """What is wrong first with a value that pydantic refuses: where, what is there, and why.

    Args:
        columns: names of the values, if they are a row of a table.
    """
    first = error.errors(include_url=False, include_context=False)[0]
    place = list(first["loc"])
    if columns:
        place[0] = columns[int(place[0])]
    where = printable(shortened(".".join(map(str, place)), LONGEST_VALUE)) or "it"
    why = first["msg"].removeprefix("Value error, ")
    if first["type"] == "missing":
        return f"{where} is missing"
    if first["type"] == "json_invalid":
        return f"{where} is not JSON: {why.removeprefix('Invalid JSON: ')}"
    return f"{where} is {quote(first['input'])}: {why}"
