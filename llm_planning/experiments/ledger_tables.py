"""The tables of a ledger, and whether a file has these and nothing else.

A ledger may come from a stranger. SQLite carries out what a file's schema says: a view under the
name of a table may compute for ever, a trigger writes. So a file is used only if its schema is,
word for word, the one that is created here.
"""

from __future__ import annotations

import sqlite3
from contextlib import closing
from functools import cache

# "LLPL": tells ledgers from other SQLite databases.
APPLICATION_ID = 0x4C4C504C
VERSION = 2
READABLE = (1, VERSION)

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


def tables(version: int) -> tuple[str, ...]:
    """The statements that make the tables of a version; 1 has no prompts."""
    return tuple(said for name, said in _TABLES.items() if version > 1 or name != "prompts")


def restrain(connection: sqlite3.Connection) -> None:
    """Lets nothing in a file run, and no value of it take the memory; before anything is read."""
    connection.setlimit(sqlite3.SQLITE_LIMIT_LENGTH, LONGEST_ROW)
    connection.setlimit(sqlite3.SQLITE_LIMIT_SQL_LENGTH, _LONGEST_STATEMENT)
    connection.execute("PRAGMA trusted_schema = OFF")
    connection.execute("PRAGMA cell_size_check = ON")


def find_flaw(connection: sqlite3.Connection, version: int) -> str | None:
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
    (said,) = connection.execute("PRAGMA integrity_check(1)").fetchone()
    return None if said == "ok" else str(said)


@cache
def _expected(version: int) -> frozenset[tuple[object, ...]]:
    with closing(sqlite3.connect(":memory:")) as connection:
        for statement in tables(version):
            connection.execute(statement)
        return _schema(connection)


def _schema(connection: sqlite3.Connection) -> frozenset[tuple[object, ...]]:
    rows = connection.execute("SELECT type, name, tbl_name, sql FROM sqlite_master").fetchall()
    # How a statement was indented is no part of it.
    return frozenset((*named, sql and " ".join(sql.split())) for *named, sql in rows)
