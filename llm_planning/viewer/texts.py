"""The long texts of a page: in chunks, so that a browser unpacks only those that it shows."""

from __future__ import annotations

import json
from typing import Any

from llm_planning.trace_file import finite

_CHUNK = 1 << 18
"""Characters of a chunk, about."""


class Texts:
    """Texts by number; equal ones are kept once. Number 0 is the empty text.

    Attributes:
        starts: the number of each chunk's first text.
    """

    def __init__(self) -> None:
        self.starts: list[int] = [0]
        self._numbers: dict[str, int] = {"": 0}
        self._chunks: list[list[str]] = [[""]]
        self._room = _CHUNK

    def add(self, text: str) -> int:
        """The number of a text."""
        known = self._numbers.get(text)
        if known is not None:
            return known
        number = self._numbers[text] = len(self._numbers)
        if self._room < 0:
            self._chunks.append([])
            self.starts.append(number)
            self._room = _CHUNK
        self._chunks[-1].append(text)
        self._room -= len(text) + 16
        return number

    def add_json(self, value: object) -> int:
        """The number of a JSON value's text."""
        return self.add(json_text(value))

    def chunks(self) -> list[bytes]:
        """Each chunk as a JSON list of its texts."""
        return [json_text(chunk).encode() for chunk in self._chunks]


class Strings:
    """Short texts by number, in one list that the page has at once."""

    def __init__(self) -> None:
        self._numbers: dict[str, int] = {}

    def add(self, text: str) -> int:
        """The number of a text."""
        return self._numbers.setdefault(text, len(self._numbers))

    def listed(self) -> list[str]:
        """The texts in order of their numbers."""
        return list(self._numbers)


def json_text(value: Any) -> str:  # noqa: ANN401 - any value that was read from JSON
    """A value as JSON that a browser reads: numbers without a form in JSON are texts."""
    try:
        return _STRICT.encode(value)
    except ValueError:
        return _STRICT.encode(finite(value))


_STRICT = json.JSONEncoder(separators=(",", ":"), allow_nan=False)
