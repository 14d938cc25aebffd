"""How a message quotes a value, and how a text loses its control characters."""

from __future__ import annotations

import reprlib

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
    text = repr(value[:LONGEST_VALUE]) if isinstance(value, str) else _SHORT.repr(value)
    return text if len(text) <= LONGEST_VALUE else f"{text[: LONGEST_VALUE - 3]}..."
