"""The tables of a ledger, and the check that a file has exactly these tables.

A ledger may come from a stranger, and SQLite executes what a file's schema says: a view with the
name of a table may compute for ever, and a trigger writes. So a file is used only if its schema is
word for word the one that is created here.
"""

from __future__ import annotations

import sqlite3
from contextlib import closing
from functools import cache

from llm_base.database import distrust

# "LLPL" in ASCII: distinguishes ledgers from other SQLite databases.
APPLICATION_ID = 0x4C4C504C
VERSION = 2

LONGEST_ROW = 2**24
"""Bytes of a row, at most."""

_LONGEST_STATEMENT = 10_000

# Reading the schema takes a few hundred steps of SQLite's virtual machine. With pages that refer to
# each other in a circle it would never end.
_STEPS_AT_ONCE = 1_000
_MOST_TURNS = 100

# A trial's number is its place in the sweep.
TABLES = (
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


def restrain(connection: sqlite3.Connection) -> None:
    """Stops a file from running anything or filling the memory; called before it is read."""
    connection.setlimit(sqlite3.SQLITE_LIMIT_SQL_LENGTH, _LONGEST_STATEMENT)
    distrust(connection, longest=LONGEST_ROW)


def find_flaw(connection: sqlite3.Connection) -> str | None:
    """Finds what is wrong with a file as a ledger of `VERSION`; None if nothing is.

    Without a flaw every page belongs to one table, so that every later read ends.

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
        return "reading its schema never ends"
    except UnicodeDecodeError:
        # SQLite quotes the part of a schema that it cannot parse.
        return "its schema is not text"
    finally:
        connection.set_progress_handler(None, 0)
    if found != _expected():
        return f"its tables are not those of version {VERSION}"
    (found,) = connection.execute("PRAGMA integrity_check(1)").fetchone()
    return None if found == "ok" else str(found)


@cache
def _expected() -> frozenset[tuple[object, ...]]:
    with closing(sqlite3.connect(":memory:")) as connection:
        for statement in TABLES:
            connection.execute(statement)
        return _schema(connection)


def _schema(connection: sqlite3.Connection) -> frozenset[tuple[object, ...]]:
    rows = connection.execute("SELECT type, name, tbl_name, sql FROM sqlite_master").fetchall()
    # Indentation does not matter.
    return frozenset((*named, sql and " ".join(sql.split())) for *named, sql in rows)
