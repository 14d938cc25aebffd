"""A cache's SQLite file: opened safely, shared by threads and processes, refused when foreign.

A file is foreign unless its schema is that of its layout, to the letter.
"""

from __future__ import annotations

import logging
import os
import sqlite3
import threading
import time
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from llm_base.database import (
    BUSY_SECONDS,
    Schema,
    SchemaError,
    check_schema,
    code_of,
    connect,
    connect_to_memory,
    create_schema,
    distrust,
    tells_of_damage,
)
from llm_base.files import check_target
from llm_base.quoting import printable
from llm_serving.errors import ServingError
from llm_serving.models.folders import CACHE_VARIABLE

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from pathlib import Path

logger = logging.getLogger(__name__)

_LONGEST_FIELD = 1 << 26
_LONGEST_REASON = 300
_FAILURES = (sqlite3.Error, UnicodeDecodeError)
"""What reading a file raises: SQLite quotes what it finds there, which may be no text at all."""
_warned: set[Path] = set()
"""Folders about which a warning was given."""
_SIDE_FILES = ("-wal", "-shm", "-journal")


class CacheError(ServingError):
    """A cache file cannot be opened, read or written."""


class UnreadableCacheError(CacheError):
    """The file is damaged or is not a cache of this kind and version: removing it helps."""

    path: Path


@dataclass(frozen=True, slots=True, kw_only=True)
class CacheLayout(Schema):
    """What one kind of cache file looks like.

    Attributes:
        name: of the kind, as errors say it: "response cache".
    """

    name: str


class CacheFile:
    """One SQLite file that outlives the death of any process that uses it.

    Any number of threads may share one object, and any number of processes one file: it is in
    write-ahead mode, and a process killed at any moment leaves every transaction that it had
    ended. An object does not survive `fork`: a child opens its own.

    Where the file or its folder may not be written to, what it holds is read and nothing is added;
    the first such file of a folder gives a warning.

    Attributes:
        writable: whether anything can be added.

    Raises:
        UnreadableCacheError: the file is damaged, foreign or of another version.
        CacheError: it cannot be opened (not a file, permissions, a full disk).
    """

    def __init__(self, path: Path, layout: CacheLayout) -> None:
        self.path = path
        self._layout = layout
        self._pid = os.getpid()
        self._lock = threading.Lock()
        try:
            self.writable = _is_writable(path)
            self._connection = _open(path, "mode=rwc") if self.writable else _open_to_read(path)
        except (OSError, ValueError, sqlite3.Error) as error:
            raise self._explained(error) from error
        try:
            self._prepare()
        except _FAILURES as error:
            self._connection.close()
            raise self._explained(error) from error
        except CacheError:
            self._connection.close()
            raise

    @property
    def disk_bytes(self) -> int:
        """Size on disk, keys, free pages and the write-ahead log included."""
        files = (self.path, self.path.with_name(self.path.name + "-wal"))
        return sum(file.stat().st_size for file in files if file.exists())

    def run(self, statement: str, values: Sequence[object] = ()) -> list[Any]:
        """Executes one statement and returns its rows; changes are on disk when this returns."""
        with self._connected() as connection:
            return connection.execute(statement, values).fetchall()

    def run_many(self, statement: str, rows: Sequence[Sequence[object]]) -> int:
        """Executes one statement for many rows of values: for all of them or for none.

        Returns:
            The number of rows that were written.
        """
        with self._connected() as connection:
            connection.execute("BEGIN IMMEDIATE")
            try:
                written = connection.executemany(statement, rows).rowcount
                connection.execute("COMMIT")
            except BaseException:
                # A full disk has rolled it back already.
                if connection.in_transaction:
                    connection.execute("ROLLBACK")
                raise
            return written

    def shrink(self) -> None:
        """Gives the disk space of removed rows back."""
        self.run("VACUUM")
        self.run("PRAGMA wal_checkpoint(TRUNCATE)")

    def unreadable(self, reason: str) -> UnreadableCacheError:
        """The error that says why this file cannot be read and how to remove it."""
        error = UnreadableCacheError(f"the {self._layout.name} {self.path} {reason}: remove it")
        # No argument of the error, which another process must be able to make again.
        error.path = self.path
        return error

    def close(self) -> None:
        """Closes the file; the object cannot be used any more."""
        with self._lock:
            self._connection.close()

    @contextmanager
    def _connected(self) -> Iterator[sqlite3.Connection]:
        if os.getpid() != self._pid:
            raise CacheError(
                f"the {self._layout.name} {self.path} was opened before this process was forked: "
                "open it in the child process"
            )
        try:
            with self._lock:
                yield self._connection
        except _FAILURES as error:
            raise self._explained(error) from error

    def _prepare(self) -> None:
        """Creates the tables in an empty file, and refuses a file that is not a cache."""
        if self._is_empty():
            # Several processes may come here at once; changing the journal's mode fails at once,
            # without the busy timeout, while another connection does the same.
            deadline = time.monotonic() + BUSY_SECONDS
            while not self._enter_wal():
                if time.monotonic() > deadline:
                    raise CacheError(
                        f"the {self._layout.name} {self.path} is held by another process: end it"
                    )
                time.sleep(0.005)
            self._connection.execute("BEGIN IMMEDIATE")
            if self._is_empty():
                create_schema(self._connection, self._layout)
            self._connection.execute("COMMIT")
        try:
            check_schema(self._connection, self._layout)
        except SchemaError as error:
            raise self.unreadable(str(error)) from error
        # With the write-ahead log, a commit that is not flushed survives the death of the process
        # and only the last ones are lost with the machine's power: no entry is worth an fsync.
        self._connection.execute("PRAGMA synchronous = NORMAL")

    def _is_empty(self) -> bool:
        """Whether nothing was ever created; only the header is read, as a schema may not end."""
        marks = ("schema_version", "application_id", "user_version")
        return not any(self._connection.execute(f"PRAGMA {mark}").fetchone()[0] for mark in marks)

    def _enter_wal(self) -> bool:
        try:
            self._connection.execute("PRAGMA journal_mode = WAL")
        except sqlite3.OperationalError as error:
            if code_of(error) == sqlite3.SQLITE_BUSY:
                return False
            raise
        return True

    def _explained(self, error: BaseException) -> CacheError:
        reason = printable(" ".join(str(error).split()))[:_LONGEST_REASON]
        if tells_of_damage(error):
            return self.unreadable(f"is damaged or not an SQLite database ({reason})")
        return CacheError(
            f"the {self._layout.name} {self.path} cannot be used ({reason}): make its folder "
            f"writable and free disk space there, or set {CACHE_VARIABLE} to another folder"
        )


def remove_cache_file(path: Path) -> None:
    """Deletes a cache's files, readable or not; a missing file is skipped."""
    for suffix in ("", "-wal", "-shm"):
        path.with_name(path.name + suffix).unlink(missing_ok=True)


def _is_writable(path: Path) -> bool:
    """Whether a cache's file can be written or made; a warning says why not.

    Raises:
        OSError: the path, or that of a file beside it, is not a regular file's.
    """
    for beside in _SIDE_FILES:
        # SQLite would wait for a pipe, and empty what a link leads to.
        side = f"{path}{beside}"
        if os.path.lexists(side) and (os.path.islink(side) or not os.path.isfile(side)):
            raise OSError(f"{side} is not a regular file")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        check_target(path)
    except OSError as error:
        if os.path.lexists(path) and not os.path.isfile(path):
            raise
        folder = next(parent for parent in path.absolute().parents if os.path.lexists(parent))
        if folder not in _warned:
            _warned.add(folder)
            logger.warning(
                "nothing is added to the caches in %s: %s",
                folder,
                error,
            )
        return False
    return True


def _open(path: Path, how: str) -> sqlite3.Connection:
    connection = connect(path, how)
    distrust(connection, longest=_LONGEST_FIELD)
    return connection


def _open_to_read(path: Path) -> sqlite3.Connection:
    """Opens a file that cannot be written, or an empty database where there is no file."""
    if not os.path.lexists(path) or os.path.getsize(path) == 0:
        return connect_to_memory()
    connection = _open(path, "mode=ro")
    try:
        connection.execute("SELECT count(*) FROM sqlite_master").fetchone()
    except sqlite3.OperationalError as error:
        connection.close()
        if code_of(error) not in {sqlite3.SQLITE_CANTOPEN, sqlite3.SQLITE_READONLY}:
            raise
        # The write-ahead log's index cannot be made here. Without it the file itself can be read,
        # as long as no process writes to it.
        connection = _open(path, "mode=ro&immutable=1")
    return connection
