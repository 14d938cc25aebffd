"""The SQLite file of a ledger: its tables, how it is made, opened and found to be unusable."""

from __future__ import annotations

import os
import sqlite3
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING
from urllib.parse import quote

from filelock import FileLock, Timeout

from llm_kernels.files import make_folder, sync_folder

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

LEDGER_FILE = "ledger.sqlite"
"""In the sweep's folder."""

_LOCK_FILE = "ledger.lock"
_BUSY_SECONDS = 30.0

# "LLPL": tells ledgers from other SQLite databases.
_APPLICATION_ID = 0x4C4C504C
_VERSION = 2

# A trial's number is its place in the sweep.
_TABLES = (
    "CREATE TABLE sweep (content TEXT NOT NULL)",
    """CREATE TABLE trials (
        number INTEGER PRIMARY KEY,
        key TEXT NOT NULL UNIQUE,
        content TEXT NOT NULL
    )""",
    """CREATE TABLE provenances (
        id TEXT PRIMARY KEY,
        content TEXT NOT NULL
    )""",
    """CREATE TABLE prompts (
        provenance TEXT NOT NULL REFERENCES provenances (id),
        planner TEXT NOT NULL,
        role TEXT NOT NULL,
        sha256 TEXT NOT NULL,
        content TEXT NOT NULL,
        PRIMARY KEY (provenance, planner, role, sha256)
    )""",
    """CREATE TABLE results (
        trial INTEGER PRIMARY KEY REFERENCES trials (number),
        status TEXT NOT NULL CHECK (status IN ('done', 'failed')),
        success INTEGER,
        plan TEXT NOT NULL,
        metrics TEXT NOT NULL,
        usage TEXT NOT NULL,
        error TEXT,
        attempts INTEGER NOT NULL,
        started REAL NOT NULL,
        seconds REAL NOT NULL,
        provenance TEXT NOT NULL REFERENCES provenances (id),
        trace_sha256 TEXT,
        trace_bytes INTEGER
    )""",
    """CREATE TABLE failed_attempts (
        trial INTEGER NOT NULL REFERENCES trials (number),
        attempt INTEGER NOT NULL,
        usage TEXT NOT NULL,
        error TEXT,
        started REAL NOT NULL,
        seconds REAL NOT NULL,
        provenance TEXT NOT NULL REFERENCES provenances (id),
        PRIMARY KEY (trial, attempt)
    )""",
)


class LedgerError(Exception):
    """A ledger cannot be made, opened, read or written; the message says what to do."""


@contextmanager
def locked(folder: Path) -> Iterator[FileLock]:
    """The right to record in a folder, which is made if it is missing.

    It ends where something is raised inside; if nothing is, with its release, or with this process,
    however that ends.

    Raises:
        LedgerError: another process has it, or the disk does not take it.
    """
    lock = FileLock(folder / _LOCK_FILE, timeout=0, thread_local=False)
    try:
        make_folder(folder)
        lock.acquire()
    except Timeout as error:
        raise LedgerError(
            f"another process is running the sweep in {folder}: wait for its end or interrupt it; "
            "its status, report and export can be had meanwhile"
        ) from error
    except OSError as error:
        raise explained(folder / LEDGER_FILE, error) from error
    try:
        yield lock
    except BaseException:
        lock.release()
        raise


def build(path: Path, fill: Callable[[sqlite3.Connection], None]) -> None:
    """Makes a ledger's file, which appears whole, under its name, or not at all.

    Args:
        path: where no file is yet.
        fill: writes the first rows.

    Raises:
        LedgerError: it could not be written; nothing is left of it.
    """
    temporary = _temporary(path)
    try:
        discard_unfinished(path)
        connection = sqlite3.connect(temporary, isolation_level=None)
        try:
            connection.execute("BEGIN")
            for statement in _TABLES:
                connection.execute(statement)
            connection.execute(f"PRAGMA application_id = {_APPLICATION_ID}")
            connection.execute(f"PRAGMA user_version = {_VERSION}")
            fill(connection)
            connection.execute("COMMIT")
            connection.execute("PRAGMA journal_mode = WAL")
        finally:
            # The last one to close a database takes its write-ahead log along.
            connection.close()
        _sync(temporary)
        temporary.rename(path)
        sync_folder(path.parent)
    except (sqlite3.Error, OSError) as error:
        with suppress(OSError):
            discard_unfinished(path)
        raise explained(path, error) from error


def discard_unfinished(path: Path) -> None:
    """Removes what a `build` that was killed left beside a ledger."""
    temporary = _temporary(path)
    for suffix in ("", "-journal", "-wal", "-shm"):
        temporary.with_name(temporary.name + suffix).unlink(missing_ok=True)


def refuse_missing(path: Path) -> None:
    """Makes sure that there is a ledger.

    Raises:
        LedgerError: there is none.
    """
    if not path.is_file():
        raise LedgerError(
            f"there is no ledger in {path.parent}: name the folder of a sweep that was begun, "
            "or begin one"
        )


def log_of(path: Path) -> Path:
    """The write-ahead log of a ledger."""
    return path.with_name(path.name + "-wal")


def connect_to_read(path: Path) -> sqlite3.Connection:
    """Opens a ledger that another process may be writing to.

    Raises:
        LedgerError: it is missing, damaged, another program's or of another version.
    """
    # Without the right to write, SQLite cannot read along with a writer, and nobody is one.
    alone = not os.access(path.parent, os.W_OK) and not log_of(path).exists()
    connection = _connect(path, "immutable=1" if alone else "mode=rw")
    connection.execute("PRAGMA query_only = ON")
    return connection


def connect_to_write(path: Path) -> sqlite3.Connection:
    """Opens a ledger whose commits are on the disk when they return, and looks for damage.

    Raises:
        LedgerError: it is missing, damaged, another program's or of another version.
    """
    connection = _connect(path, "mode=rw")
    try:
        connection.execute("PRAGMA synchronous = FULL")
        (found,) = connection.execute("PRAGMA quick_check(1)").fetchone()
    except sqlite3.Error as error:
        connection.close()
        raise explained(path, error) from error
    if found != "ok":
        connection.close()
        raise damaged(path, found)
    return connection


def version_of(connection: sqlite3.Connection) -> int:
    """The version of a ledger: 1 has trials in other words, and no prompts."""
    ((version,),) = connection.execute("PRAGMA user_version")
    return int(version)


def explained(path: Path, error: sqlite3.Error | OSError) -> LedgerError:
    """The error to show for what SQLite or the system said."""
    # SQLite's primary code; 0 if the error does not come from SQLite itself.
    code = getattr(error, "sqlite_errorcode", 0) & 0xFF
    if code in {sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB}:
        return damaged(path, str(error))
    if code == sqlite3.SQLITE_BUSY:
        return LedgerError(f"the ledger {path} is held by another program: end it")
    return LedgerError(
        f"the ledger {path} cannot be used ({error}): free disk space there and make its folder "
        "writable, then resume the sweep; nothing that was recorded is lost"
    )


def damaged(path: Path, found: str) -> LedgerError:
    """The error to show for a ledger that does not hold what was written to it."""
    return LedgerError(
        f"the ledger {path} is damaged ({found}): restore it from a copy, or begin the sweep anew "
        "in another folder"
    )


def _connect(path: Path, how: str) -> sqlite3.Connection:
    refuse_missing(path)
    try:
        connection = sqlite3.connect(
            f"file:{quote(str(path.absolute()))}?{how}",
            uri=True,
            timeout=_BUSY_SECONDS,
            isolation_level=None,
            check_same_thread=False,
        )
    except sqlite3.Error as error:
        raise explained(path, error) from error
    try:
        _refuse_foreign(path, connection)
    except sqlite3.Error as error:
        connection.close()
        raise explained(path, error) from error
    except LedgerError:
        connection.close()
        raise
    return connection


def _refuse_foreign(path: Path, connection: sqlite3.Connection) -> None:
    (application,) = connection.execute("PRAGMA application_id").fetchone()
    version = version_of(connection)
    if application != _APPLICATION_ID:
        raise LedgerError(f"{path} is no ledger but another database: name another folder")
    if version not in {1, _VERSION}:
        raise LedgerError(
            f"the ledger {path} has version {version}, and this program reads {_VERSION}: "
            "use the version of llm-planning that began the sweep, or begin it anew elsewhere"
        )


def _temporary(path: Path) -> Path:
    return path.with_name(path.name + ".new")


def _sync(path: Path) -> None:
    with path.open("rb") as file:
        os.fsync(file.fileno())
