"""SQLite databases from any source: how one is opened, and which errors speak of its content."""

from __future__ import annotations

import os
import sqlite3
from contextlib import closing
from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING
from urllib.parse import quote

if TYPE_CHECKING:
    from pathlib import Path

BUSY_SECONDS = 30.0
"""How long a statement waits for another connection."""

_LONGEST_STATEMENT = 10_000
"""Characters of a statement, also of those that a file's schema consists of."""

# Reading the schema takes a few hundred steps of SQLite's virtual machine. With pages that refer to
# each other in a circle it would never end.
_STEPS_AT_ONCE = 1_000
_MOST_TURNS = 100

_DAMAGE = frozenset(
    {
        *(sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB, sqlite3.SQLITE_FORMAT),
        sqlite3.SQLITE_ERROR,  # of a database with the expected tables: an unknown format
        *(sqlite3.SQLITE_SCHEMA, sqlite3.SQLITE_TOOBIG),
        *(sqlite3.SQLITE_CONSTRAINT, sqlite3.SQLITE_MISMATCH),
    }
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Schema:
    """What the databases of one kind look like.

    Attributes:
        application_id: tells them from other SQLite databases.
        version: of the tables; another one is refused.
        tables: statements that create them.
    """

    application_id: int
    version: int
    tables: tuple[str, ...]


class SchemaError(ValueError):
    """A database is of another kind; the message is a predicate, such as "has version 7"."""


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
        longest: bytes that a value of it may have.
    """
    connection.setlimit(sqlite3.SQLITE_LIMIT_LENGTH, longest)
    connection.setlimit(sqlite3.SQLITE_LIMIT_SQL_LENGTH, _LONGEST_STATEMENT)
    # The file's own functions are not executed, and the sizes that its pages claim are checked.
    connection.execute("PRAGMA trusted_schema = OFF")
    connection.execute("PRAGMA cell_size_check = ON")


def create_schema(connection: sqlite3.Connection, schema: Schema) -> None:
    """Creates the tables in an empty database, in the transaction that the caller began."""
    for statement in schema.tables:
        connection.execute(statement)
    connection.execute(f"PRAGMA application_id = {schema.application_id}")
    connection.execute(f"PRAGMA user_version = {schema.version}")


def check_schema(connection: sqlite3.Connection, schema: Schema) -> None:
    """Refuses a database that has another schema than `create_schema` makes, blanks aside.

    SQLite executes what a file's schema says: a view with the name of a table may compute for ever,
    and a trigger writes.

    Args:
        connection: to the database, to which nothing was said but `distrust`.

    Raises:
        SchemaError: it is of another kind or version, or its schema never ends.
        sqlite3.Error: it cannot be read.
    """
    (application,) = connection.execute("PRAGMA application_id").fetchone()
    if application != schema.application_id:
        raise SchemaError("is another program's database")
    (version,) = connection.execute("PRAGMA user_version").fetchone()
    if version != schema.version:
        raise SchemaError(f"has version {version}, and this program reads {schema.version}")
    turns = iter(range(_MOST_TURNS))
    connection.set_progress_handler(lambda: next(turns, None) is None, _STEPS_AT_ONCE)
    try:
        found = _statements(connection)
    except sqlite3.Error as error:
        if code_of(error) != sqlite3.SQLITE_INTERRUPT:
            raise
        raise SchemaError("has a schema without an end") from error
    except UnicodeDecodeError as error:
        # SQLite quotes what it cannot parse.
        raise SchemaError("has a schema that is not text") from error
    finally:
        connection.set_progress_handler(None, 0)
    if found != _expected(schema):
        raise SchemaError(f"has other tables than version {schema.version}")


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


@cache
def _expected(schema: Schema) -> frozenset[tuple[str, ...]]:
    with closing(connect_to_memory()) as model:
        create_schema(model, schema)
        return _statements(model)


def _statements(connection: sqlite3.Connection) -> frozenset[tuple[str, ...]]:
    rows = connection.execute("SELECT type, name, tbl_name, sql FROM sqlite_master").fetchall()
    return frozenset(tuple(" ".join(str(field).split()) for field in row) for row in rows)


def _connect(place: str) -> sqlite3.Connection:
    return sqlite3.connect(
        place, uri=True, timeout=BUSY_SECONDS, isolation_level=None, check_same_thread=False
    )
