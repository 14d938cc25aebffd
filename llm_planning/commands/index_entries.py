"""The files that `llm-planning index build` reads: a line per entry, or a JSON object per line."""

from __future__ import annotations

import json
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any, BinaryIO

from llm_kernels.files import open_regular
from llm_serving.errors import shown

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

_LONGEST_LINE = 1 << 24
"""Bytes: a file without line breaks, an image of a disk for one, is not read to its end."""

JSONL_SUFFIXES = frozenset({".jsonl", ".ndjson"})


class EntryFileError(ValueError):
    """A file of entries that cannot be read, or a line of it; nothing is made of the others."""


@dataclass(frozen=True, slots=True)
class FileEntry:
    """One entry of a file.

    Attributes:
        key: unlike every other's.
        text: what is embedded.
        payload: the whole JSON object; None in a text file.
    """

    key: str
    text: str
    payload: dict[str, Any] | None


@dataclass(frozen=True, slots=True)
class EntryFile:
    """What a file holds.

    Attributes:
        entries: in the order of their lines.
        blank_lines: how many were skipped.
    """

    entries: tuple[FileEntry, ...]
    blank_lines: int


def read_text_entries(path: Path) -> EntryFile:
    """Reads a text file: each line is an entry's text and its key, without blanks at its ends.

    Raises:
        EntryFileError: unreadable, not UTF-8, no entry at all, or a line that comes twice.
    """
    return _read(path, lambda line: FileEntry(line, line, None))


def read_jsonl_entries(path: Path, *, field: str, key: str | None) -> EntryFile:
    """Reads a file of JSON objects, one per line; each becomes the payload of its entry.

    Args:
        path: of the file.
        field: of an object, its text.
        key: of an object, its key, a string or a whole number; None takes the text.

    Raises:
        EntryFileError: unreadable, not UTF-8, no entry at all, a line that is no JSON object, a
            missing or unusable field, or a key that comes twice.
    """

    def entry(line: str) -> FileEntry:
        value = json.loads(line, object_pairs_hook=_object)
        # Python reads NaN, and numbers that are too large, as what JSON cannot write.
        json.dumps(value, allow_nan=False)
        if not isinstance(value, dict):
            raise ValueError(f"a JSON object is needed, and this is {shown(value)}")
        text = _field(value, field)
        if not isinstance(text, str) or not text.strip():
            raise ValueError(
                f"the field {field!r} must be a text that is not empty, and is {shown(text)}"
            )
        named = text if key is None else _field(value, key)
        if type(named) not in {str, int}:
            raise ValueError(
                f"the field {key!r} must be a string or a whole number, and is {shown(named)}"
            )
        return FileEntry(str(named), text, value)

    return _read(path, entry)


def _read(path: Path, parse: Callable[[str], FileEntry]) -> EntryFile:
    entries: dict[str, FileEntry] = {}
    lines: dict[str, int] = {}
    blank = 0
    try:
        with _opened(path) as file:
            for number, raw in enumerate(iter(partial(file.readline, _LONGEST_LINE + 1), b""), 1):
                try:
                    if len(raw) > _LONGEST_LINE:
                        raise ValueError(f"it is longer than {_LONGEST_LINE} bytes")
                    line = raw.decode("utf-8-sig" if number == 1 else "utf-8").strip()
                    if not line:
                        blank += 1
                        continue
                    entry = parse(line)
                    # A lone surrogate can be escaped in JSON, but nothing can be made of it.
                    f"{entry.key}{entry.text}".encode()
                except (ValueError, RecursionError) as error:
                    raise EntryFileError(f"{path}, line {number}: {error}") from error
                if entry.key in lines:
                    raise EntryFileError(
                        f"{path}, line {number}: the key {shown(entry.key)} is that of line "
                        f"{lines[entry.key]}: keep one of them, or name another field with --key "
                        "(JSONL)"
                    )
                lines[entry.key] = number
                entries[entry.key] = entry
    except OSError as error:
        raise EntryFileError(f"{path} cannot be read: {error.strerror}") from error
    if not entries:
        raise EntryFileError(f"{path} has no entry: it needs a line that is not blank")
    return EntryFile(tuple(entries.values()), blank)


def _opened(path: Path) -> BinaryIO:
    try:
        return open_regular(path)
    except ValueError as error:
        raise EntryFileError(f"{str(path)!r} is the name of no file: {error}") from error


def _field(value: dict[str, Any], name: str) -> object:
    if name not in value:
        raise ValueError(f"there is no field {name!r}, only {shown(sorted(value))}")
    return value[name]


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    value = dict(pairs)
    if len(value) < len(pairs):
        raise ValueError(f"an object has a field twice: {shown([name for name, _ in pairs])}")
    return value
