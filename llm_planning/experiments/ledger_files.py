"""The files of a ledger, how they are made, locked and opened, and the errors that they give.

One SQLite file has the rows. The trace of a finished trial is a compressed file of its own, on the
disk whole or not at all.
"""

from __future__ import annotations

import errno
import fcntl
import gzip
import hashlib
import os
import re
import sqlite3
import stat
import zlib
from contextlib import closing, contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING

from filelock import FileLock, Timeout

from llm_base.database import (
    Schema,
    SchemaError,
    check_schema,
    code_of,
    connect,
    create_schema,
    distrust,
    tells_of_damage,
)
from llm_base.files import make_folder, read_regular, sync_folder, write_durably
from llm_base.quoting import printable, shortened
from llm_planning.experiments.trial import LONGEST_CONTENT, LONGEST_TRACE
from llm_planning.trace_file import TraceError, decode_trace

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterator

    from llm_planning.events import Event

LEDGER_FILE = "ledger.sqlite"
"""The ledger's name in the sweep's folder."""

_LOCK_FILE = "ledger.lock"

_PATIENCE = 0.5
"""Seconds in which `is_locked` of another process gives the lock back."""

_LONGEST_FINDING = 200

_SCHEMA = Schema(
    application_id=0x4C4C504C,  # "LLPL" in ASCII
    version=3,
    tables=(
        "CREATE TABLE sweep (content TEXT NOT NULL)",
        # A trial's number is its place in the sweep.
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
            attempts INTEGER NOT NULL,
            provenance TEXT NOT NULL REFERENCES provenances (id),
            trace_sha256 TEXT,
            content TEXT NOT NULL
        )""",
        """CREATE TABLE failed_attempts (
            trial INTEGER NOT NULL REFERENCES trials (number),
            attempt INTEGER NOT NULL,
            provenance TEXT NOT NULL REFERENCES provenances (id),
            content TEXT NOT NULL,
            PRIMARY KEY (trial, attempt)
        )""",
    ),
)

# The fastest level: traces are so repetitive that the others save little and take several times as
# long.
_LEVEL = 1
_GZIP = 16
"""Added to the size of the window, it makes zlib expect the frame of gzip."""

_TEMPORARY = ".tmp"
_OURS = re.compile(r"([0-9a-f]{64})\.jsonl\.gz(\.tmp)?")


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
    lock = FileLock(folder / _LOCK_FILE, timeout=_PATIENCE, thread_local=False)
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


def is_locked(folder: Path) -> bool:
    """Whether a process has the right to record in a folder, as far as its disk tells."""
    try:
        # A stranger's file may be a pipe, which nobody writes to.
        file = os.open(folder / _LOCK_FILE, os.O_RDONLY | os.O_NONBLOCK | os.O_NOFOLLOW)
    except OSError:
        return False
    try:
        fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    except OSError:
        return False
    finally:
        os.close(file)
    return False


def build(path: Path, fill: Callable[[sqlite3.Connection], None]) -> None:
    """Makes a ledger's file, which appears under its name as a whole or not at all.

    Args:
        path: of the ledger; no file is there yet.

    Raises:
        LedgerError: the file could not be written; nothing is left of it.
    """
    temporary = _beside(path, ".new")
    try:
        with explaining(path):
            discard_unfinished(path)
            with closing(connect(temporary, "mode=rwc")) as connection:
                connection.execute("BEGIN")
                create_schema(connection, _SCHEMA)
                fill(connection)
                connection.execute("COMMIT")
                # Closing the last connection removes the write-ahead log.
                connection.execute("PRAGMA journal_mode = WAL")
            with temporary.open("rb") as file:
                os.fsync(file.fileno())
            temporary.rename(path)
            sync_folder(path.parent)
    except BaseException:
        with suppress(OSError):
            discard_unfinished(path)
        raise


def discard_unfinished(path: Path) -> None:
    """Removes the files that a killed `build` left beside a ledger."""
    for suffix in ("", "-journal", "-wal", "-shm"):
        _beside(path, f".new{suffix}").unlink(missing_ok=True)


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
    for file in (_beside(real, "-wal"), _beside(real, "-shm")):
        if os.path.lexists(file) and not stat.S_ISREG(os.lstat(file).st_mode):
            raise LedgerError(f"{file} is no regular file: remove it")
    # SQLite would restore pages from the journal, and remove a file that the journal names.
    journal = _beside(real, "-journal")
    if os.path.lexists(journal):
        raise LedgerError(f"{journal} is another program's: restore the ledger from a copy")


def refuse_used(path: Path, *, traces_left: bool) -> None:
    """Makes sure that a folder holds neither a sweep nor the remains of one.

    Args:
        path: of the ledger to be made.

    Raises:
        LedgerError: the folder holds a sweep or its remains.
    """
    if os.path.lexists(path):
        raise LedgerError(f"{path.parent} holds a sweep already: resume it, or name another folder")
    if traces_left or os.path.lexists(_beside(path, "-wal")):
        raise LedgerError(
            f"{path.parent} holds what is left of a sweep whose {LEDGER_FILE} is gone: put that "
            "back, or name another folder"
        )


def connect_to_read(path: Path) -> sqlite3.Connection:
    """Opens a ledger that another process may be writing to.

    Raises:
        LedgerError: it is missing, damaged, another program's or of another version.
    """
    # Without write permission SQLite cannot read beside a writer; without a log there is no writer.
    alone = not os.access(path.parent, os.W_OK) and not os.path.lexists(_beside(path, "-wal"))
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
        if code_of(error) == sqlite3.SQLITE_BUSY:
            raise LedgerError(f"the ledger {path} is held by another program: end it") from error
        if tells_of_damage(error):
            raise damaged(path, str(error)) from error
        raise LedgerError(
            f"the ledger {path} cannot be used ({error}): free disk space there, make it readable "
            "and its folder writable, then resume the sweep; nothing that was recorded is lost"
        ) from error


def damaged(path: Path, finding: str) -> LedgerError:
    """The error for a ledger that holds what none may hold; `finding` may quote the file."""
    line = shortened(printable(" ".join(finding.split())), _LONGEST_FINDING)
    return _unusable(path, f"is damaged ({line})")


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
            distrust(connection, longest=2 * LONGEST_CONTENT)
            try:
                check_schema(connection, _SCHEMA)
            except SchemaError as error:
                raise _unusable(path, str(error)) from error
            # Without a flaw every page belongs to one table, so that every later read ends.
            (finding,) = connection.execute("PRAGMA integrity_check(1)").fetchone()
            if finding != "ok":
                raise damaged(path, finding)
    return connection


@contextmanager
def _closing_on_error(connection: sqlite3.Connection) -> Iterator[None]:
    try:
        yield
    except BaseException:
        connection.close()
        raise


def _beside(path: Path, suffix: str) -> Path:
    return path.with_name(path.name + suffix)


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

    def write(self, key: str, lines: bytes) -> str:
        """Puts a trace on the disk; it is there, under its name, when this returns.

        Killed at any moment, or on a full disk, this leaves no partial file under the name of a
        trace.

        Returns:
            SHA-256 of the uncompressed lines, in hexadecimal.

        Raises:
            OSError: the file could not be written; its temporary file is removed.
        """
        content = gzip.compress(lines, _LEVEL, mtime=0)
        path = self.path(key)
        make_folder(self._path)
        if os.path.islink(path):
            # The target of a link is not replaced.
            path.unlink()
        write_durably(path, content, temporary=path.with_name(path.name + _TEMPORARY))
        return hashlib.sha256(lines).hexdigest()

    def read(self, key: str, sha256: str) -> list[Event]:
        """The lines of a trial's trace.

        Raises:
            TraceError: the file is missing, damaged or not a regular file, holds something else, or
                holds more than `LONGEST_TRACE`.
        """
        path = self.path(key)
        unpacking = zlib.decompressobj(zlib.MAX_WBITS + _GZIP)
        try:
            # Compressed lines are never longer than `LONGEST_TRACE` if the lines are not.
            lines = unpacking.decompress(
                read_regular(path, most=LONGEST_TRACE), max_length=LONGEST_TRACE + 1
            )
        except OSError as error:
            raise TraceError(
                f"the trace {path} cannot be read ({error.strerror}): restore it"
            ) from error
        except zlib.error as error:
            raise TraceError(f"the trace {path} is damaged ({error}): restore it") from error
        if len(lines) > LONGEST_TRACE:
            raise TraceError(
                f"the trace {path} has more than {LONGEST_TRACE} bytes, more than a trace may "
                "have: restore it"
            )
        if not unpacking.eof or hashlib.sha256(lines).hexdigest() != sha256:
            raise TraceError(f"the trace {path} is not the one that its trial left: restore it")
        try:
            return decode_trace(lines)
        except TraceError as error:
            raise TraceError(f"the trace {path} cannot be used: {error}") from error

    def clean(self, kept: Collection[str]) -> None:
        """Removes what a killed run left: temporary files, and traces that have no row.

        Files with other names are not touched, nor are folders.

        Args:
            kept: keys of the trials whose trace the ledger knows.

        Raises:
            OSError: a file could not be removed, or the folder is a link, whose target may be
                another sweep's.
        """
        if os.path.islink(self._path):
            raise OSError(errno.ELOOP, "it is a link: put the folder itself there", str(self._path))
        with suppress(FileNotFoundError), os.scandir(self._path) as files:
            for file in files:
                ours = _OURS.fullmatch(file.name)
                left = ours and (ours[2] or ours[1] not in kept)
                if left and not file.is_dir(follow_symlinks=False):
                    os.unlink(file.path)

    def holds_any(self) -> bool:
        """Whether the folder holds traces of any ledger; False if it cannot be read."""
        with suppress(OSError), os.scandir(self._path) as files:
            return any(_OURS.fullmatch(file.name) for file in files)
        return False
