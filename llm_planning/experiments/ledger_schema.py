"""The tables of a ledger."""

from __future__ import annotations

from llm_base.database import Schema

LONGEST_ROW = 2**24
"""Bytes of a row, at most."""

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

SCHEMA = Schema(
    # "LLPL" in ASCII.
    application_id=0x4C4C504C,
    version=2,
    tables=_TABLES,
)
