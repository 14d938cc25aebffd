"""SQLite databases from any source: how one is opened, and which errors speak of its content."""

from __future__ import annotations

import os
import sqlite3
from contextlib import closing
from functools import cache
from typing import TYPE_CHECKING
from urllib.parse import quote

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

BUSY_SECONDS = 30.0
"""How long a statement waits for another connection."""

_SCHEMA = "SELECT type, name, tbl_name, sql FROM sqlite_master"

_DAMAGE = frozenset(
    {
        *(sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB, sqlite3.SQLITE_FORMAT),
        sqlite3.SQLITE_ERROR,  # of a database with the expected tables: an unknown format
        *(sqlite3.SQLITE_SCHEMA, sqlite3.SQLITE_TOOBIG),
        *(sqlite3.SQLITE_CONSTRAINT, sqlite3.SQLITE_MISMATCH),
    }
)


def connect(path: Path, how: str) -> sqlite3.Connection:
    """Opens a database; threads may share it, and each statement is its own transaction.

    Nothing of the content is read. Any path will do: one that begins with `//` or `file:` names a
    file like every other.

    Args:
        how: SQLite's parameters: "mode=rw", "mode=ro", "mode=rwc", "immutable=1".

    Raises:
        OSError: SQLite cannot open the file.
    """
    # After "file://" comes an authority, here an empty one: a path that begins with "//" would be
    # read as one.
    place = f"file://{quote(os.fsencode(path.absolute()))}?{how}"
    try:
        return _connect(place)
    except sqlite3.Error as error:
        raise OSError(str(error)) from error


def connect_to_memory() -> sqlite3.Connection:
    """An empty database that is on no disk."""
    return _connect(":memory:")


def distrust(connection: sqlite3.Connection, *, longest: int) -> None:
    """Prepares a connection to a file from any source, before anything is read.

    Args:
        connection: to the file.
        longest: bytes that a value of it may have.
    """
    connection.setlimit(sqlite3.SQLITE_LIMIT_LENGTH, longest)
    # The file's own functions are not executed, and the sizes that its pages claim are checked.
    connection.execute("PRAGMA trusted_schema = OFF")
    connection.execute("PRAGMA cell_size_check = ON")


def has_schema(connection: sqlite3.Connection, statements: tuple[str, ...]) -> bool:
    """Whether a database has the schema that some statements create, to the letter.

    A view in a table's place may never end, and a trigger may write rows of its own. Line breaks
    and indents of a statement do not count.

    Args:
        connection: to the database.
        statements: `CREATE TABLE` and the like.

    Raises:
        sqlite3.Error: the database cannot be read.
        UnicodeDecodeError: its schema is not text.
    """
    wanted = _schema_made_by(statements)
    found = connection.execute(_SCHEMA).fetchmany(len(wanted) + 1)
    return len(found) == len(wanted) and set(map(_plain, found)) == wanted


def tells_of_damage(error: BaseException) -> bool:
    """Whether an error of a read or a write is due to what the file holds.

    A full disk, a lock or missing rights are not.
    """
    # SQLite has no code for text that is not UTF-8.
    undecoded = isinstance(error, UnicodeDecodeError) or "Could not decode" in str(error)
    return undecoded or code_of(error) in _DAMAGE


def code_of(error: BaseException) -> int:
    """SQLite's primary result code; 0 if the error does not come from SQLite itself."""
    return getattr(error, "sqlite_errorcode", 0) & 0xFF


def _connect(place: str) -> sqlite3.Connection:
    return sqlite3.connect(
        place, uri=True, timeout=BUSY_SECONDS, isolation_level=None, check_same_thread=False
    )


@cache
def _schema_made_by(statements: tuple[str, ...]) -> frozenset[tuple[str, ...]]:
    with closing(connect_to_memory()) as model:
        for statement in statements:
            model.execute(statement)
        return frozenset(map(_plain, model.execute(_SCHEMA)))


def _plain(row: Sequence[object]) -> tuple[str, ...]:
    """A row of the schema, with each run of blanks and line breaks made one blank."""
    return tuple(" ".join(str(field).split()) for field in row)
