"""The SQLite file of a ledger: how it is made, locked and opened, and the errors that it gives."""

from __future__ import annotations

import os
import sqlite3
import stat
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING

from filelock import FileLock, Timeout

from llm_base.database import (
    SchemaError,
    check_schema,
    code_of,
    connect,
    create_schema,
    distrust,
    tells_of_damage,
)
from llm_base.files import make_folder, sync_folder
from llm_base.quoting import printable
from llm_planning.experiments.ledger_schema import LONGEST_ROW, SCHEMA

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

LEDGER_FILE = "ledger.sqlite"
"""The ledger's name in the sweep's folder."""

_LOCK_FILE = "ledger.lock"
_LONGEST_FINDING = 200


class LedgerError(Exception):
    """A ledger cannot be made, opened, read or written; the message says what to do."""


@contextmanager
def locked(folder: Path) -> Iterator[FileLock]:
    """Acquires the right to record in a folder, which is made if it is missing.

    An exception inside releases it. Otherwise the caller releases it, or the end of this process
    does.

    Raises:
        LedgerError: another process has the right, or the disk does not take the lock's file.
    """
    lock = FileLock(folder / _LOCK_FILE, timeout=0, thread_local=False)
    with explaining(folder / LEDGER_FILE):
        make_folder(folder)
        try:
            lock.acquire()
        except Timeout as error:
            raise LedgerError(
                f"another process is running the sweep in {folder}: wait for its end or interrupt "
                "it; its status, report and export can be had meanwhile"
            ) from error
    try:
        yield lock
    except BaseException:
        lock.release()
        raise


def build(path: Path, fill: Callable[[sqlite3.Connection], None]) -> None:
    """Makes a ledger's file, which appears under its name as a whole or not at all.

    Args:
        path: of the ledger; no file is there yet.
        fill: writes the first rows.

    Raises:
        LedgerError: the file could not be written; nothing is left of it.
    """
    temporary = _temporary(path)
    try:
        with explaining(path):
            discard_unfinished(path)
            _write(temporary, fill)
            temporary.rename(path)
            sync_folder(path.parent)
    except BaseException:
        with suppress(OSError):
            discard_unfinished(path)
        raise


def discard_unfinished(path: Path) -> None:
    """Removes the files that a killed `build` left beside a ledger."""
    temporary = _temporary(path)
    for suffix in ("", "-journal", "-wal", "-shm"):
        temporary.with_name(temporary.name + suffix).unlink(missing_ok=True)


def refuse_missing(path: Path) -> None:
    """Makes sure that there is a ledger that SQLite can open.

    Raises:
        LedgerError: there is none; it, or a file that SQLite would open with it, is a pipe, a
            device or a link; or a journal lies beside it, which a ledger never has.
    """
    # The file is not opened here: closing a file that SQLite has open releases SQLite's locks.
    with explaining(path):
        try:
            regular = stat.S_ISREG(os.stat(path).st_mode)
        except (FileNotFoundError, NotADirectoryError) as error:
            raise LedgerError(
                f"there is no ledger in {path.parent}: name the folder of a sweep that was begun, "
                "or begin one"
            ) from error
    if not regular:
        raise LedgerError(f"{path} is no regular file: name the folder of a sweep")
    real = Path(os.path.realpath(path))
    for file in (log_of(real), real.with_name(real.name + "-shm")):
        if os.path.lexists(file) and not stat.S_ISREG(os.lstat(file).st_mode):
            raise LedgerError(f"{file} is no regular file: remove it")
    # SQLite would restore pages from the journal, and remove a file that the journal names.
    journal = real.with_name(real.name + "-journal")
    if os.path.lexists(journal):
        raise LedgerError(f"{journal} is another program's: restore the ledger from a copy")


def refuse_used(path: Path, *, traces_left: bool) -> None:
    """Makes sure that a folder holds neither a sweep nor the remains of one.

    Args:
        path: of the ledger to be made.
        traces_left: whether the folder holds traces.

    Raises:
        LedgerError: the folder holds a sweep or its remains.
    """
    if os.path.lexists(path):
        raise LedgerError(f"{path.parent} holds a sweep already: resume it, or name another folder")
    if traces_left or os.path.lexists(log_of(path)):
        raise LedgerError(
            f"{path.parent} holds what is left of a sweep whose {LEDGER_FILE} is gone: put that "
            "back, or name another folder"
        )


def log_of(path: Path) -> Path:
    """The write-ahead log of a ledger."""
    return path.with_name(path.name + "-wal")


def connect_to_read(path: Path) -> sqlite3.Connection:
    """Opens a ledger that another process may be writing to.

    Raises:
        LedgerError: it is missing, damaged, another program's or of another version.
    """
    # Without write permission SQLite cannot read beside a writer; without a log there is no writer.
    alone = not os.access(path.parent, os.W_OK) and not os.path.lexists(log_of(path))
    connection = _connect(path, "immutable=1" if alone else "mode=rw")
    connection.execute("PRAGMA query_only = ON")
    return connection


def connect_to_write(path: Path) -> sqlite3.Connection:
    """Opens a ledger whose commits are on the disk when they return.

    Raises:
        LedgerError: it is missing, damaged, another program's, of another version, or a link to
            another folder's ledger.
    """
    if os.path.islink(path):
        raise LedgerError(f"{path} is a link: name the folder of the ledger that it leads to")
    connection = _connect(path, "mode=rw")
    with explaining(path), _closing_on_error(connection):
        connection.execute("PRAGMA synchronous = FULL")
        # A copy may be in another mode, in which a killed commit leaves a journal.
        connection.execute("PRAGMA journal_mode = WAL")
    return connection


@contextmanager
def explaining(path: Path) -> Iterator[None]:
    """Turns errors of SQLite and of the system inside into a `LedgerError` about a ledger."""
    try:
        yield
    except (sqlite3.Error, OSError) as error:
        raise _explained(path, error) from error


@contextmanager
def decoding(path: Path) -> Iterator[None]:
    """Turns the errors of the functions `decode_*` inside into a `LedgerError` about a ledger."""
    try:
        yield
    except RecursionError as error:
        raise _damaged(path, "it is nested too deeply") from error
    except ValueError as error:
        raise _damaged(path, str(error)) from error


def _explained(path: Path, error: sqlite3.Error | OSError) -> LedgerError:
    if code_of(error) == sqlite3.SQLITE_BUSY:
        return LedgerError(f"the ledger {path} is held by another program: end it")
    if tells_of_damage(error):
        return _damaged(path, str(error))
    return LedgerError(
        f"the ledger {path} cannot be used ({error}): free disk space there, make it readable and "
        "its folder writable, then resume the sweep; nothing that was recorded is lost"
    )


def _damaged(path: Path, found: str) -> LedgerError:
    # What was found may quote the file.
    found = printable(" ".join(found.split()))
    if len(found) > _LONGEST_FINDING:
        found = f"{found[:_LONGEST_FINDING]}..."
    return _unusable(path, f"is damaged ({found})")


def _unusable(path: Path, reason: str) -> LedgerError:
    return LedgerError(
        f"the ledger {path} {reason}: restore it from a copy, or begin the sweep anew in another "
        "folder"
    )


def _connect(path: Path, how: str) -> sqlite3.Connection:
    refuse_missing(path)
    with explaining(path):
        connection = connect(path, how)
        with _closing_on_error(connection):
            distrust(connection, longest=LONGEST_ROW)
            _refuse_foreign(path, connection)
    return connection


@contextmanager
def _closing_on_error(connection: sqlite3.Connection) -> Iterator[None]:
    try:
        yield
    except BaseException:
        connection.close()
        raise


def _refuse_foreign(path: Path, connection: sqlite3.Connection) -> None:
    try:
        check_schema(connection, SCHEMA)
    except SchemaError as error:
        raise _unusable(path, str(error)) from error
    # Without a flaw every page belongs to one table, so that every later read ends.
    (found,) = connection.execute("PRAGMA integrity_check(1)").fetchone()
    if found != "ok":
        raise _damaged(path, found)


def _temporary(path: Path) -> Path:
    return path.with_name(path.name + ".new")


def _write(path: Path, fill: Callable[[sqlite3.Connection], None]) -> None:
    """Writes a ledger's tables and first rows to a new file, which is on the disk at the end."""
    connection = connect(path, "mode=rwc")
    try:
        connection.execute("BEGIN")
        create_schema(connection, SCHEMA)
        fill(connection)
        connection.execute("COMMIT")
        connection.execute("PRAGMA journal_mode = WAL")
    finally:
        # Closing a database's last connection removes its write-ahead log.
        connection.close()
    with path.open("rb") as file:
        os.fsync(file.fileno())
