"""The SQLite file of a ledger: its tables, how it is made, opened and found to be unusable.

A ledger may come from a stranger. SQLite carries out what a file's schema says: a view under the
name of a table may compute for ever, a trigger writes. So a file is used only if its schema is,
word for word, the one that is created here.
"""

from __future__ import annotations

import os
import sqlite3
import stat
from contextlib import closing, contextmanager, suppress
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import quote

from filelock import FileLock, Timeout

from llm_kernels.files import make_folder, sync_folder
from llm_kernels.quoting import printable

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

LEDGER_FILE = "ledger.sqlite"
"""In the sweep's folder."""

_LOCK_FILE = "ledger.lock"
_BUSY_SECONDS = 30.0

# SQLite's primary codes for what the disk or the right to use it is to blame for; any other says
# that the file does not hold what it should.
_NOT_THE_FILE = frozenset(
    {
        *(sqlite3.SQLITE_FULL, sqlite3.SQLITE_IOERR, sqlite3.SQLITE_NOMEM, sqlite3.SQLITE_NOLFS),
        *(sqlite3.SQLITE_CANTOPEN, sqlite3.SQLITE_READONLY, sqlite3.SQLITE_PERM),
        *(sqlite3.SQLITE_AUTH, sqlite3.SQLITE_PROTOCOL),
    }
)
_LONGEST_FINDING = 200

# "LLPL": tells ledgers from other SQLite databases.
_APPLICATION_ID = 0x4C4C504C
_VERSION = 2
_READABLE = (1, _VERSION)

LONGEST_ROW = 2**24
"""Bytes of a row, at most."""

_LONGEST_STATEMENT = 10_000

# Reading the schema takes a few hundred steps of SQLite's machine; pages that lead to each other
# would take it through them for ever.
_STEPS_AT_ONCE = 1_000
_MOST_TURNS = 100

# A trial's number is its place in the sweep.
_TABLES = {
    "sweep": "CREATE TABLE sweep (content TEXT NOT NULL)",
    "trials": """CREATE TABLE trials (
        number INTEGER PRIMARY KEY,
        key TEXT NOT NULL UNIQUE,
        content TEXT NOT NULL
    )""",
    "provenances": """CREATE TABLE provenances (
        id TEXT PRIMARY KEY,
        content TEXT NOT NULL
    )""",
    "prompts": """CREATE TABLE prompts (
        provenance TEXT NOT NULL REFERENCES provenances (id),
        planner TEXT NOT NULL,
        role TEXT NOT NULL,
        sha256 TEXT NOT NULL,
        content TEXT NOT NULL,
        PRIMARY KEY (provenance, planner, role, sha256)
    )""",
    "results": """CREATE TABLE results (
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
    "failed_attempts": """CREATE TABLE failed_attempts (
        trial INTEGER NOT NULL REFERENCES trials (number),
        attempt INTEGER NOT NULL,
        usage TEXT NOT NULL,
        error TEXT,
        started REAL NOT NULL,
        seconds REAL NOT NULL,
        provenance TEXT NOT NULL REFERENCES provenances (id),
        PRIMARY KEY (trial, attempt)
    )""",
}


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
            for statement in _tables(_VERSION):
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
    except BaseException as error:
        with suppress(OSError):
            discard_unfinished(path)
        if isinstance(error, sqlite3.Error | OSError):
            raise explained(path, error) from error
        raise


def discard_unfinished(path: Path) -> None:
    """Removes what a `build` that was killed left beside a ledger."""
    temporary = _temporary(path)
    for suffix in ("", "-journal", "-wal", "-shm"):
        temporary.with_name(temporary.name + suffix).unlink(missing_ok=True)


def refuse_missing(path: Path) -> None:
    """Makes sure that there is a ledger, and that SQLite can open what is there.

    Raises:
        LedgerError: there is none; it, or a file that SQLite would open with it, is a pipe, a
            device or a link; or a journal lies beside it, which no ledger has.
    """
    # Looked at, not opened: to close a file that SQLite has open gives its locks away.
    try:
        regular = stat.S_ISREG(os.stat(path).st_mode)
    except (FileNotFoundError, NotADirectoryError) as error:
        raise LedgerError(
            f"there is no ledger in {path.parent}: name the folder of a sweep that was begun, "
            "or begin one"
        ) from error
    except OSError as error:
        raise explained(path, error) from error
    if not regular:
        raise LedgerError(f"{path} is no regular file: name the folder of a sweep")
    real = Path(os.path.realpath(path))
    for file in (log_of(real), real.with_name(real.name + "-shm")):
        if os.path.lexists(file) and not stat.S_ISREG(os.lstat(file).st_mode):
            raise LedgerError(f"{file} is no regular file: remove it")
    # SQLite would bring back from it whatever pages it says, and remove a file that it names.
    journal = real.with_name(real.name + "-journal")
    if os.path.lexists(journal):
        raise LedgerError(
            f"{journal} is another program's, a ledger leaves none: restore the ledger from a copy"
        )


def refuse_used(path: Path, *, traces_left: bool) -> None:
    """Makes sure that a folder holds no sweep yet, nor what is left of one.

    Args:
        path: where a ledger would be made.
        traces_left: whether there are traces beside it.

    Raises:
        LedgerError: it does.
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
    # Without the right to write, SQLite cannot read along with a writer, and nobody is one.
    alone = not os.access(path.parent, os.W_OK) and not os.path.lexists(log_of(path))
    connection = _connect(path, "immutable=1" if alone else "mode=rw")
    connection.execute("PRAGMA query_only = ON")
    return connection


def connect_to_write(path: Path) -> sqlite3.Connection:
    """Opens a ledger whose commits are on the disk when they return.

    Raises:
        LedgerError: it is missing, damaged, another program's or of another version; or a link,
            through which another folder's ledger would be written.
    """
    if os.path.islink(path):
        raise LedgerError(f"{path} is a link: name the folder of the ledger that it leads to")
    connection = _connect(path, "mode=rw")
    try:
        connection.execute("PRAGMA synchronous = FULL")
        if version_of(connection) == _VERSION:
            # A copy may be in another mode, whose commits leave a journal when they are killed.
            connection.execute("PRAGMA journal_mode = WAL")
    except sqlite3.Error as error:
        connection.close()
        raise explained(path, error) from error
    return connection


def version_of(connection: sqlite3.Connection) -> int:
    """The version of a ledger: 1 has trials in other words, and no prompts."""
    ((version,),) = connection.execute("PRAGMA user_version")
    return int(version)


def explained(path: Path, error: sqlite3.Error | OSError) -> LedgerError:
    """The error to show for what SQLite or the system said."""
    if isinstance(error, sqlite3.DatabaseError) and not isinstance(error, sqlite3.ProgrammingError):
        # SQLite's primary code; 0 where Python could not read a text.
        code = getattr(error, "sqlite_errorcode", 0) & 0xFF
        if code == sqlite3.SQLITE_BUSY:
            return LedgerError(f"the ledger {path} is held by another program: end it")
        if code not in _NOT_THE_FILE:
            return damaged(path, str(error))
    return LedgerError(
        f"the ledger {path} cannot be used ({error}): free disk space there, make it readable and "
        "its folder writable, then resume the sweep; nothing that was recorded is lost"
    )


def damaged(path: Path, found: str) -> LedgerError:
    """The error to show for a ledger that does not hold what was written to it.

    Args:
        path: of the ledger.
        found: why; may quote the file.
    """
    found = printable(" ".join(found.split()))
    if len(found) > _LONGEST_FINDING:
        found = f"{found[:_LONGEST_FINDING]}..."
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
        _restrain(connection)
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
        raise LedgerError(f"{path} is another program's database: name another folder")
    if version not in _READABLE:
        known = " and ".join(map(str, _READABLE))
        raise LedgerError(
            f"the ledger {path} has version {version}, and this program reads {known}: "
            "use the version of llm-planning that began the sweep, or begin it anew elsewhere"
        )
    flaw = _find_flaw(connection, version)
    if flaw is not None:
        raise damaged(path, flaw)


def _tables(version: int) -> tuple[str, ...]:
    """The statements that make the tables of a version; 1 has no prompts."""
    return tuple(
        statement for name, statement in _TABLES.items() if version > 1 or name != "prompts"
    )


def _restrain(connection: sqlite3.Connection) -> None:
    """Lets nothing in a file run, and no value of it take the memory; before anything is read."""
    connection.setlimit(sqlite3.SQLITE_LIMIT_LENGTH, LONGEST_ROW)
    connection.setlimit(sqlite3.SQLITE_LIMIT_SQL_LENGTH, _LONGEST_STATEMENT)
    connection.execute("PRAGMA trusted_schema = OFF")
    connection.execute("PRAGMA cell_size_check = ON")


def _find_flaw(connection: sqlite3.Connection, version: int) -> str | None:
    """What tells a file from a ledger of a version, or is broken in it; None if nothing is.

    Afterwards every page belongs to one table, so that whatever is read comes to an end.

    Raises:
        sqlite3.Error: the file cannot be read.
    """
    turns = iter(range(_MOST_TURNS))
    connection.set_progress_handler(lambda: next(turns, None) is None, _STEPS_AT_ONCE)
    try:
        found = _schema(connection)
    except sqlite3.Error as error:
        if getattr(error, "sqlite_errorcode", 0) != sqlite3.SQLITE_INTERRUPT:
            raise
        return "its schema has no end"
    except UnicodeDecodeError:
        # SQLite quotes what it cannot make sense of.
        return "its schema is no text"
    finally:
        connection.set_progress_handler(None, 0)
    if found != _expected(version):
        return f"its tables are not those of version {version}"
    (found,) = connection.execute("PRAGMA integrity_check(1)").fetchone()
    return None if found == "ok" else str(found)


@cache
def _expected(version: int) -> frozenset[tuple[object, ...]]:
    with closing(sqlite3.connect(":memory:")) as connection:
        for statement in _tables(version):
            connection.execute(statement)
        return _schema(connection)


def _schema(connection: sqlite3.Connection) -> frozenset[tuple[object, ...]]:
    rows = connection.execute("SELECT type, name, tbl_name, sql FROM sqlite_master").fetchall()
    # How a statement was indented is no part of it.
    return frozenset((*named, sql and " ".join(sql.split())) for *named, sql in rows)


def _temporary(path: Path) -> Path:
    return path.with_name(path.name + ".new")


def _sync(path: Path) -> None:
    with path.open("rb") as file:
        os.fsync(file.fileno())
