"""Traces of finished trials: one compressed JSONL file each, on the disk whole or not at all."""

from __future__ import annotations

import gzip
import hashlib
import json
import os
import re
import zlib
from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Mapping
    from pathlib import Path

# Deflate's fastest level: a trace repeats itself so much that the others save little and take
# several times as long.
_LEVEL = 1
_TEMPORARY = ".tmp"
_OURS = re.compile(r"([0-9a-f]{64})\.jsonl\.gz(\.tmp)?")


class TraceError(ValueError):
    """A trace that cannot be written as JSON, or a file that does not hold the trace it should."""


@dataclass(frozen=True, slots=True)
class Trace:
    """A trace as it is kept.

    Attributes:
        lines: JSONL in UTF-8.
        sha256: of the lines, in hexadecimal: the same whatever library compresses them.
    """

    lines: bytes
    sha256: str


def encode_trace(trace: Mapping[str, Any]) -> Trace:
    r"""A trace as lines, each a JSON object with a `key` of the trace and its `value`.

    A list of objects takes one line per object, with its place as `index`, so that a reader of
    lines meets a long run step by step; anything else takes one line. Equal traces have equal
    bytes: the keys of objects are sorted, only the trace's own stay in their order.

    Raises:
        TraceError: JSON has no form for a value, or it contains itself.
    """
    try:
        lines = [json.dumps(line, separators=(",", ":"), sort_keys=True) for line in _split(trace)]
    except (TypeError, ValueError, RecursionError) as error:
        raise TraceError(f"a trace must consist of JSON values: {error}") from error
    content = "".join(f"{line}\n" for line in lines).encode()
    return Trace(content, hashlib.sha256(content).hexdigest())


def decode_trace(lines: bytes) -> dict[str, Any]:
    """The trace that lines were made of; its tuples have become lists.

    Raises:
        TraceError: the lines are no trace.
    """
    trace: dict[str, Any] = {}
    try:
        for line in map(json.loads, lines.splitlines()):
            if "index" in line:
                trace.setdefault(line["key"], []).append(line["value"])
            else:
                trace[line["key"]] = line["value"]
    except (ValueError, TypeError, KeyError, AttributeError) as error:
        raise TraceError(f"its lines are no trace: {error}") from error
    return trace


class TraceFolder:
    """The traces of a sweep, by the key of their trial.

    Args:
        path: of the folder; made when the first trace is written.
    """

    def __init__(self, path: Path) -> None:
        self._path = path

    def path(self, key: str) -> Path:
        """The file of a trial's trace."""
        return self._path / f"{key}.jsonl.gz"

    def write(self, key: str, trace: Trace) -> int:
        """Puts a trace on the disk; it is there, under its name, when this returns.

        Killed at any moment, or on a full disk, this leaves no file that is not whole under the
        name of a trace.

        Returns:
            The size of the file in bytes.

        Raises:
            OSError: it could not be written; what was begun is removed.
        """
        content = gzip.compress(trace.lines, _LEVEL, mtime=0)
        path = self.path(key)
        write_durably(path, content, temporary=path.with_name(path.name + _TEMPORARY))
        return len(content)

    def read(self, key: str, sha256: str) -> dict[str, Any]:
        """A trial's trace.

        Raises:
            TraceError: the file is missing, damaged, or holds something else.
        """
        path = self.path(key)
        try:
            lines = gzip.decompress(path.read_bytes())
        except (OSError, EOFError, zlib.error) as error:
            raise TraceError(f"the trace {path} cannot be read ({error})") from error
        if hashlib.sha256(lines).hexdigest() != sha256:
            raise TraceError(f"the trace {path} is not the one that its trial left: restore it")
        return decode_trace(lines)

    def clean(self, kept: Collection[str]) -> None:
        """Removes what a killed run left: temporary files, and traces that have no row.

        Files with other names are not touched.

        Args:
            kept: keys of the trials whose trace the ledger knows.
        """
        with suppress(FileNotFoundError), os.scandir(self._path) as files:
            for file in files:
                ours = _OURS.fullmatch(file.name)
                if ours and (ours[2] or ours[1] not in kept):
                    os.unlink(file.path)

    def holds_any(self) -> bool:
        """Whether there are traces, of whichever ledger."""
        with suppress(FileNotFoundError, NotADirectoryError), os.scandir(self._path) as files:
            return any(_OURS.fullmatch(file.name) for file in files)
        return False


def write_durably(path: Path, content: bytes, *, temporary: Path) -> None:
    """Writes a file that is there whole or not at all, and survives the loss of power.

    Args:
        path: of the file; one that exists is replaced.
        content: of the file.
        temporary: where it is written first, in the same folder.

    Raises:
        OSError: it could not be written; the temporary file is removed.
    """
    make_folder(path.parent)
    try:
        with temporary.open("wb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        temporary.replace(path)
    except BaseException:
        with suppress(OSError):
            temporary.unlink(missing_ok=True)
        raise
    sync_folder(path.parent)


def make_folder(path: Path) -> None:
    """Makes a folder and those above it, on the disk when this returns."""
    if path.is_dir():
        return
    make_folder(path.parent)
    path.mkdir(exist_ok=True)
    sync_folder(path.parent)


def sync_folder(path: Path) -> None:
    """Puts the names in a folder on the disk."""
    descriptor = os.open(path, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _split(trace: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    for key, value in trace.items():
        if isinstance(value, list | tuple) and value and all(isinstance(v, dict) for v in value):
            for index, item in enumerate(value):
                yield {"key": key, "index": index, "value": item}
        else:
            yield {"key": key, "value": value}
