"""From the bytes of a YAML file to plain values: the part of YAML that a configuration needs.

Scalars follow YAML's core schema: `1e-3` is a number; `no`, `12:30` and `2026-01-31` are texts.
Anchors and aliases are read. Tags, repeated keys, keys that are not texts and numbers that are not
finite are refused.
"""

from __future__ import annotations

import hashlib
import math
import re
from typing import TYPE_CHECKING, Any, TypeAlias

import yaml

from llm_base.files import read_regular
from llm_base.lines import lines_of
from llm_base.quoting import LONGEST_VALUE, printable, quote

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

Json: TypeAlias = Any
"""None, a bool, an int, a finite float, a str, or a list or a str-keyed dict of these."""

MOST_BYTES = 1 << 20
"""Bytes of the largest file that is read."""
_MOST_VALUES = 100_000
_DEEPEST = 16
_MOST_DIGITS = 18
_WORDS = {
    **dict.fromkeys(("", "~", "null", "Null", "NULL"), None),
    **dict.fromkeys(("true", "True", "TRUE"), True),
    **dict.fromkeys(("false", "False", "FALSE"), False),
}
_OLD_LINE_ENDS = re.compile("[\x85\u2028\u2029]")
_INTEGER = re.compile(r"[-+]?[0-9]+")
_NUMBER = re.compile(r"[-+]?(\.[0-9]+|[0-9]+(\.[0-9]*)?)([eE][-+]?[0-9]+)?")
_NOT_FINITE = re.compile(r"[-+]?\.(inf|Inf|INF)|\.(nan|NaN|NAN)")


class YamlError(ValueError):
    """A YAML file cannot be read; the message is one printable line."""

    def __init__(self, message: str) -> None:
        super().__init__(printable(message))


def key_path(path: str, key: str) -> str:
    """The path of a key in the mapping at a path."""
    name = key if key.replace("-", "_").isidentifier() and len(key) < LONGEST_VALUE else quote(key)
    return f"{path}.{name}" if path else name


def read_mapping(path: Path) -> dict[str, Json]:
    """The mapping that a YAML file holds.

    Raises:
        YamlError: the file cannot be read, is not YAML, or holds something else.
    """
    values = _Reader(_text(path), path).read()
    if not isinstance(values, dict):
        raise YamlError(f"{path}: holds {quote(values)}; write a mapping, lines of `key: value`")
    return values


def _text(path: Path) -> str:
    try:
        content = read_regular(path, most=MOST_BYTES)
    except (FileNotFoundError, NotADirectoryError, ValueError) as error:
        raise YamlError(f"{path}: there is no such file") from error
    except IsADirectoryError as error:
        raise YamlError(f"{path}: is a folder; name the YAML file in it") from error
    except OSError as error:
        raise YamlError(f"{path}: cannot be read: {error.strerror}") from error
    try:
        text = content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise YamlError(
            f"{path}: byte {error.start} is not UTF-8; save the file in that encoding"
        ) from error
    # A key behind one of them in a comment would count for libyaml, and for no later YAML.
    for number, line in enumerate(lines_of(text), start=1):
        if found := _OLD_LINE_ENDS.search(line):
            raise YamlError(
                f"{path}: line {number} has U+{ord(found[0]):04X}, which ends a line in YAML 1.1 "
                f'alone; end the line there, or write "\\u{ord(found[0]):04x}" in double quotes'
            )
    return text


class _Reader:
    """Builds the values of one file from its events, and watches their depth and number."""

    def __init__(self, text: str, path: Path) -> None:
        self._file = path
        self._events = self._read_events(text)
        self._anchors: dict[str, tuple[Json, int]] = {}  # value, number of values in it
        self._open: set[str] = set()
        self._path = ""
        self._count = 0

    def read(self) -> Json:
        """The file's only document; None for a file without one."""
        value: Json = None
        documents = 0
        for event in self._events:
            if isinstance(event, yaml.DocumentStartEvent):
                documents += 1
                if documents > 1:
                    raise self._error("holds several YAML documents; write one")
                value = self._value(next(self._events), depth=0)
        return value

    def _read_events(self, text: str) -> Iterator[yaml.Event]:
        try:
            yield from yaml.parse(text, Loader=yaml.CSafeLoader)
        except yaml.reader.ReaderError as error:
            raise self._error(f"{error.reason} (position {error.position})") from error
        except yaml.MarkedYAMLError as error:
            mark = error.problem_mark
            where = f" (line {mark.line + 1}, column {mark.column + 1})" if mark else ""
            # libyaml's scanner runs ahead of the events, and has a limit of its own.
            if "nesting depth" in str(error.problem):
                raise self._error(f"is nested more than {_DEEPEST} deep{where}") from error
            raise self._error(f"is not YAML: {error.problem}{where}") from error

    def _value(self, event: yaml.Event, *, depth: int) -> Json:
        if isinstance(event, yaml.AliasEvent):
            return self._anchored(event, depth)
        assert isinstance(event, yaml.ScalarEvent | yaml.CollectionStartEvent)
        if event.tag is not None:
            raise self._error(f"{event.tag}: tags are not supported", event)
        self._go_down(depth, event)
        before = self._count
        self._add(1, event)
        anchor = event.anchor
        if anchor is not None:
            self._open.add(anchor)
        value: Json
        if isinstance(event, yaml.ScalarEvent):
            value = self._scalar(event)
        elif isinstance(event, yaml.SequenceStartEvent):
            value = self._list(depth)
        else:
            value = self._mapping(depth)
        if anchor is not None:
            self._open.discard(anchor)
            self._anchors[anchor] = (value, self._count - before)
        return value

    def _list(self, depth: int) -> list[Json]:
        values: list[Json] = []
        path = self._path
        while not isinstance(event := next(self._events), yaml.SequenceEndEvent):
            self._path = f"{path}[{len(values)}]"
            values.append(self._value(event, depth=depth + 1))
        self._path = path
        return values

    def _mapping(self, depth: int) -> dict[str, Json]:
        values: dict[str, Json] = {}
        path = self._path
        while not isinstance(event := next(self._events), yaml.MappingEndEvent):
            key = self._value(event, depth=depth + 1)
            if not isinstance(key, str):
                raise self._error(
                    f"the key {quote(key)} is not a text; quote it if it is a name", event
                )
            if key in values:
                raise self._error(f"the key {quote(key)} is given twice; keep one", event)
            self._path = key_path(path, key)
            values[key] = self._value(next(self._events), depth=depth + 1)
            self._path = path
        return values

    def _anchored(self, event: yaml.AliasEvent, depth: int) -> Json:
        if event.anchor in self._open:
            raise self._error(f"*{event.anchor} stands inside the value that it repeats", event)
        if event.anchor not in self._anchors:
            raise self._error(
                f"*{event.anchor} repeats nothing: there is no &{event.anchor}", event
            )
        value, size = self._anchors[event.anchor]
        self._add(size, event)
        self._go_down(depth + _height(value), event)
        return value

    def _scalar(self, event: yaml.ScalarEvent) -> Json:
        text = event.value
        plain = event.implicit[0]
        if not plain:
            return text
        if text in _WORDS:
            return _WORDS[text]
        if _INTEGER.fullmatch(text):
            if len(text) > _MOST_DIGITS:
                raise self._error(f"the number {quote(text)} is too long", event)
            return int(text)
        number = float(text) if _NUMBER.fullmatch(text) else 0.0
        if _NOT_FINITE.fullmatch(text) or not math.isfinite(number):
            raise self._error(f"the number {quote(text)} is not finite", event)
        return number if _NUMBER.fullmatch(text) else text

    def _go_down(self, depth: int, event: yaml.Event) -> None:
        if depth > _DEEPEST:
            raise self._error(f"is nested more than {_DEEPEST} deep", event)

    def _add(self, values: int, event: yaml.Event) -> None:
        self._count += values
        if self._count > _MOST_VALUES:
            raise self._error(f"holds more than {_MOST_VALUES} values, aliases resolved", event)

    def _error(self, problem: str, event: yaml.Event | None = None) -> YamlError:
        mark = event.start_mark if event is not None else None
        where = f" (line {mark.line + 1}, column {mark.column + 1})" if mark is not None else ""
        key = f"{self._path}: " if self._path and event is not None else ""
        return YamlError(f"{self._file}: {key}{problem}{where}")


def _height(value: Json) -> int:
    """How many lists and mappings there are inside one another."""
    inner = value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()
    return 1 + max(map(_height, inner), default=0) if isinstance(value, list | dict) else 0


def file_hash(path: Path) -> str:
    """SHA-256 of a file that `read_mapping` reads, in hexadecimal; empty if it cannot be read."""
    try:
        return hashlib.sha256(read_regular(path, most=MOST_BYTES)).hexdigest()
    except (OSError, ValueError):
        return ""
