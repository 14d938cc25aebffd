"""Files that decide what a trial does, and whose content is no part of its key.

So a ledger keeps the hash of each, and takes results of no other content.

Nobody declares what a user's own code reads from its folder, such as levels, tables or weights:
Python says which files are opened while the code runs. What this process writes, or another one
meanwhile, is not one of them. What a library opens without Python stays unseen.
"""

from __future__ import annotations

import hashlib
import importlib.util
import os
import stat
import sys
import sysconfig
import time
from contextlib import contextmanager
from contextvars import ContextVar
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from llm_base.files import open_regular

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

_HASHED: Final = 1 << 30
"""Bytes of a file that are hashed, with its size: more would take too long."""

_NOT_THEIRS: Final = frozenset({"site-packages", "dist-packages", "node_modules", "__pycache__"})

OURS: Final = frozenset({"llm_planning", "llm_serving", "llm_kernels", "llm_base"})
"""This project's packages."""

_HEARD: Final = frozenset({"open", "os.rename"})

_folders: set[str] = set()
_code: set[str] = set()
_written: set[str] = set()
_seen: set[str] = set()


class FilesRead:
    """The files that were read while `files_read` was entered.

    Args:
        before: seconds since the epoch. A file that is first seen when it has changed later is made
            by what runs.

    Attributes:
        changed: files that were read with two contents.
    """

    def __init__(self, before: float) -> None:
        self._before = before
        self._hashes: dict[str, str] = {}
        self._written: set[str] = set()
        self.changed: set[str] = set()

    def hashes(self) -> dict[str, str]:
        """The path of each file that nobody has written here -> the hash of its content."""
        read = {path: sha256 for path, sha256 in self._hashes.items() if path not in _written}
        return {os.path.relpath(path): sha256 for path, sha256 in read.items()}

    def written(self) -> set[str]:
        """The paths of the files that were written while this was entered."""
        return set(map(os.path.relpath, self._written))

    def note_written(self, path: str) -> None:
        """Takes a file that is about to be written, by its absolute path."""
        _written.add(path)
        self._written.add(path)

    def note(self, path: str) -> None:
        """Takes a file that is about to be read, by its absolute path."""
        status = os.stat(path)
        if not stat.S_ISREG(status.st_mode):
            return
        if status.st_mtime < self._before or path in _seen:
            _seen.add(path)
            sha256 = _hash(path, status.st_ino, status.st_size, status.st_mtime_ns)
            if self._hashes.setdefault(path, sha256) != sha256:
                self.changed.add(path)


_reading: ContextVar[FilesRead | None] = ContextVar("reading", default=None)


@contextmanager
def files_read(*, before: float | None = None) -> Iterator[FilesRead]:
    """Notes which files are read inside, of those in folders that are watched.

    Args:
        before: see `FilesRead`; by default the moment of entering.
    """
    token = _reading.set(read := FilesRead(time.time() if before is None else before))
    try:
        yield read
    finally:
        _reading.reset(token)


def note_read(file: Path) -> None:
    """Notes a file that a setting names, wherever it lies; see `files_read`.

    Raises:
        OSError: it cannot be read.
    """
    if (read := _reading.get()) is not None:
        read.note(os.path.abspath(file))


def watch(folder: Path, code: Iterable[Path]) -> None:
    """From now on the files of a folder count, except for code, which is hashed in another way."""
    _listen()
    _folders.add(os.path.join(folder, ""))
    _code.update(map(str, code))


def changed_files(read: Mapping[str, str | None]) -> list[str]:
    """The files that are missing or no longer what they were.

    Args:
        read: path -> hash; None for a file that may change, as whoever read it wrote it.
    """
    return [path for path, sha256 in read.items() if sha256 and _hash_now(path) != sha256]


def _hash_now(path: str) -> str | None:
    try:
        status = os.stat(path)
        return _hash(path, status.st_ino, status.st_size, status.st_mtime_ns)
    except (OSError, ValueError):
        return None


@cache
def _hash(path: str, _inode: int, size: int, _changed: int) -> str:
    digest = hashlib.sha256(b"%d\0" % size)
    with open_regular(Path(path)) as file:
        left = _HASHED
        while left > 0 and (part := file.read(min(left, 1 << 20))):
            digest.update(part)
            left -= len(part)
    return digest.hexdigest()


@cache
def _listen() -> None:
    # It cannot be undone, so it begins with the first folder.
    sys.addaudithook(_hear)


def _hear(event: str, values: tuple[Any, ...]) -> None:
    if event not in _HEARD or not _reading or (read := _reading.get()) is None:
        return
    token = _reading.set(None)  # hashing opens files, too
    try:
        if event == "os.rename":  # of `os.replace`, too: what has a safe write at its end
            if path := _watched(values[1]):
                read.note_written(path)
        elif values[2] & os.O_ACCMODE != os.O_RDONLY:
            if path := _watched(values[0]):
                read.note_written(path)
        elif (path := _watched(_source(values[0]))) and path not in _written:
            read.note(path)
    except Exception:
        pass  # an error here would be one of whoever opens the file, who gets their own
    finally:
        _reading.reset(token)


def _source(opened: Any) -> Any:  # noqa: ANN401 - whatever `open` takes
    """The module of a file that is one, compiled; else the file."""
    if isinstance(opened, str) and os.path.basename(os.path.dirname(opened)) == "__pycache__":
        return importlib.util.source_from_cache(opened)
    return opened


def _watched(opened: object) -> str | None:
    """The absolute path of an opened file if it counts."""
    if not isinstance(opened, str | bytes | os.PathLike):
        return None  # a descriptor
    path = os.path.abspath(os.fsdecode(opened))
    for folder in _folders:
        if path.startswith(folder) and path not in _code:
            parts = path[len(folder) :].split(os.sep)
            hidden = any(part.startswith(".") for part in parts[:-1])
            others = not _NOT_THEIRS.isdisjoint(parts) or path.startswith(_libraries())
            if not (hidden or others):
                path.encode()  # a ledger holds names in UTF-8
                return path
    return None


@cache
def _libraries() -> tuple[str, ...]:
    """Folders of Python's modules and of this project's."""
    folders = [sysconfig.get_path(name) for name in ("stdlib", "platstdlib")]
    for spec in map(importlib.util.find_spec, OURS):
        folders += (spec.submodule_search_locations or ()) if spec else ()
    return tuple(os.path.join(folder, "") for folder in folders)
