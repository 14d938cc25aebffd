"""Files of entries for an index: lines of text, JSON objects one per line, or a JSON array."""

from __future__ import annotations

import json
from codecs import BOM_UTF8
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, BinaryIO, Final, TypeVar

from llm_base.files import open_regular, read_regular
from llm_base.lines import lines_in
from llm_base.quoting import quote

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator
    from pathlib import Path

T = TypeVar("T")

JSON_SUFFIXES: Final = frozenset({".json", ".jsonl", ".ndjson"})
"""Of files that hold JSON; every other file is text."""

_LONGEST_LINE: Final = 1 << 24
"""Bytes of a line, at most: a file without line breaks, such as a disk image, is not read on."""

_LARGEST_ARRAY: Final = 1 << 28
"""Bytes of a JSON array, which is read as a whole."""


class EntryFileError(ValueError):
    """A file of entries, or an entry of it, cannot be read; no index is made."""


@dataclass(frozen=True, slots=True)
class FileEntry:
    """One entry of a file.

    Attributes:
        key: unique in the file.
        text: the text that is embedded.
        payload: the whole JSON object; None for a text alone.
    """

    key: str
    text: str
    payload: dict[str, Any] | None


@dataclass(frozen=True, slots=True)
class EntryFile:
    """The content of a file.

    Attributes:
        entries: in the order of the file.
        blank_lines: number of blank lines, which are skipped.
    """

    entries: tuple[FileEntry, ...]
    blank_lines: int


def read_text_entries(path: Path) -> EntryFile:
    """Reads a text file: each line is an entry's text and its key, without blanks at its ends.

    Raises:
        EntryFileError: unreadable, not UTF-8, no entry at all, or a line that comes twice.
    """
    return _of_lines(path, lambda line: FileEntry(line, line, None))


def read_json_entries(path: Path, *, field: str, key: str | None) -> EntryFile:
    """Reads JSON objects, one per line or in an array; each becomes the payload of its entry.

    An array may hold texts as well, which are entries without a payload.

    Args:
        path: of the file.
        field: of an object, its text.
        key: of an object, its key, a string or a whole number; None takes the text.

    Raises:
        EntryFileError: unreadable, not UTF-8, not JSON, no entry at all, a line that is no JSON
            object, a missing or unusable field, or a key that comes twice.
    """

    def entry(value: object) -> FileEntry:
        # Python reads NaN and numbers that are too large as values that JSON cannot hold.
        json.dumps(value, allow_nan=False)
        if not isinstance(value, dict):
            raise ValueError(f"a JSON object is needed, and this is {quote(value)}")
        text = _text(_field(value, field), f"the field {field!r}")
        named = text if key is None else _field(value, key)
        if type(named) not in {str, int}:
            raise ValueError(
                f"the field {key!r} must be a string or a whole number, and is {quote(named)}"
            )
        return FileEntry(str(named), text, value)

    def element(value: object) -> FileEntry:
        if not isinstance(value, str) or key is not None:
            return entry(value)
        text = _text(value, "it")
        return FileEntry(text, text, None)

    if _begins_array(path):
        return _collected(path, "entry", enumerate(_array(path), 1), element)
    return _of_lines(path, lambda line: entry(json.loads(line, object_pairs_hook=_object)))


def _of_lines(path: Path, parse: Callable[[str], FileEntry]) -> EntryFile:
    def entry(numbered: tuple[int, bytes]) -> FileEntry | None:
        number, raw = numbered
        if len(raw) > _LONGEST_LINE:
            raise ValueError(f"it is longer than {_LONGEST_LINE} bytes")
        line = raw.decode("utf-8-sig" if number == 1 else "utf-8").strip()
        return parse(line) if line else None

    lines = ((number, (number, raw)) for number, raw in enumerate(_lines(path), 1))
    return _collected(path, "line", lines, entry)


def _collected(
    path: Path, unit: str, parts: Iterable[tuple[int, T]], parse: Callable[[T], FileEntry | None]
) -> EntryFile:
    """The entries of a file.

    Args:
        path: of the file.
        unit: what its parts are called.
        parts: each with its number.
        parse: reads one; None for a blank one.
    """
    entries: dict[str, FileEntry] = {}
    places: dict[str, int] = {}
    blank = 0
    for number, part in parts:
        try:
            entry = parse(part)
            if entry is None:
                blank += 1
                continue
            # JSON can escape a lone surrogate, but UTF-8 cannot encode it.
            f"{entry.key}{entry.text}".encode()
        except (ValueError, RecursionError) as error:
            raise EntryFileError(f"{path}, {unit} {number}: {error}") from error
        if entry.key in places:
            raise EntryFileError(
                f"{path}, {unit} {number}: the key {quote(entry.key)} is that of {unit} "
                f"{places[entry.key]}: keep one of them, or name another field with --key (JSON)"
            )
        places[entry.key] = number
        entries[entry.key] = entry
    if not entries:
        needed = "a line that is not blank" if unit == "line" else "an element"
        raise EntryFileError(f"{path} has no entry: it needs {needed}")
    return EntryFile(tuple(entries.values()), blank)


def _lines(path: Path) -> Iterator[bytes]:
    """The lines of a file; what comes after the longest that is read is another line."""
    try:
        with _opened(path) as file:
            yield from lines_in(file, longest=_LONGEST_LINE + 1)
    except OSError as error:
        raise EntryFileError(f"{path} cannot be read: {error.strerror}") from error


def _begins_array(path: Path) -> bool:
    for line in _lines(path):
        if said := line.removeprefix(BOM_UTF8).strip():
            return said.startswith(b"[")
    return False


def _array(path: Path) -> list[object]:
    try:
        content = read_regular(path, most=_LARGEST_ARRAY)
        found: list[object] = json.loads(content.decode("utf-8-sig"), object_pairs_hook=_object)
    except OSError as error:
        raise EntryFileError(f"{path} cannot be read: {error.strerror}") from error
    except (ValueError, RecursionError) as error:
        raise EntryFileError(f"{path} is no JSON array: {error}") from error
    return found


def _opened(path: Path) -> BinaryIO:
    try:
        return open_regular(path)
    except ValueError as error:
        raise EntryFileError(f"{str(path)!r} cannot be the name of a file: {error}") from error


def _text(value: object, what: str) -> str:
    if not isinstance(value, str) or not value.strip():
        raise ValueError(f"{what} must be a text that is not empty, and is {quote(value)}")
    return value


def _field(value: dict[str, Any], name: str) -> object:
    if name not in value:
        raise ValueError(f"there is no field {name!r}, only {quote(sorted(value))}")
    return value[name]


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    value = dict(pairs)
    if len(value) < len(pairs):
        raise ValueError(f"an object has a field twice: {quote([name for name, _ in pairs])}")
    return value
