"""What a stranger may alter in the tables of a ledger: cells, JSON, trials, rows, schemas."""

import hashlib
import json
import sqlite3
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

from .kinds import Make, run_sql

Alteration = Make

FILE = "ledger.sqlite"


# --- cells ---------------------------------------------------------------------------------------

DEEP = "[" * 100_000
_UTF8 = "CAST(x'66ff' AS TEXT)"
"""SQL of a text that is no UTF-8."""

_HOSTILE = {
    "nothing": "NULL",
    "a blob": "x'00ff'",
    "a text": "'{'",
    "no UTF-8": _UTF8,
    "a number": "-1.5",
    "infinity": "9e999",
    "a huge integer": str(2**63 - 1),
}
_CELLS = {
    "sweep": ("content",),
    "trials": ("number", "key", "content"),
    "provenances": ("id", "content"),
    "prompts": ("provenance", "planner", "role", "sha256", "content"),
    "results": ("trial", "attempts", "provenance", "trace_sha256", "content"),
    "failed_attempts": ("trial", "attempt", "provenance", "content"),
}


def _of_cells() -> Iterator[tuple[str, Alteration]]:
    for table, columns in _CELLS.items():
        for column in columns:
            for name, value in _HOSTILE.items():
                yield f"{table}.{column} is {name}", _cell(table, column, value)


def _cell(table: str, column: str, value: str) -> Alteration:
    """Puts an SQL value into the first row of a table, whatever its constraints say."""

    def alter(folder: Path) -> None:
        with closing(sqlite3.connect(folder / FILE, isolation_level=None)) as connection:
            connection.execute("PRAGMA writable_schema = ON")
            (kept,) = connection.execute(
                "SELECT sql FROM sqlite_master WHERE name = ?", (table,)
            ).fetchone()
            loose = kept.replace(" NOT NULL", "")
            for sql in (loose, kept):
                _redefine(connection, table, sql)
                if sql is loose:
                    with closing(sqlite3.connect(folder / FILE)) as other, other:
                        _put(other, table, column, value)

    return alter


def _put(connection: sqlite3.Connection, table: str, column: str, value: str) -> None:
    try:
        connection.execute(
            f"UPDATE {table} SET {column} = {value} WHERE rowid = (SELECT min(rowid) FROM {table})"
        )
    except sqlite3.Error as error:
        # An integer that numbers rows takes no other value: then this case is none.
        if "mismatch" not in str(error):
            raise


def _redefine(connection: sqlite3.Connection, table: str, sql: str) -> None:
    connection.execute("UPDATE sqlite_master SET sql = ? WHERE name = ?", (sql, table))
    (version,) = connection.execute("PRAGMA schema_version").fetchone()
    connection.execute(f"PRAGMA schema_version = {version + 1}")


# --- JSON ----------------------------------------------------------------------------------------

_USED = {
    "calls": 1,
    "prompt_tokens": 2,
    "cached_tokens": 0,
    "completion_tokens": 3,
    "replayed": 0,
    "seconds": 0.5,
}
_JSON = {
    ("sweep", "content"): {
        "no name": {"retries": 1},
        "no retries": {"name": "x"},
        "a number for a name": {"name": 7, "retries": 1},
        "a hostile name": {"name": "../\x1b[2J\n", "retries": 1},
        "a long name": {"name": "x" * 300, "retries": 1},
        "negative retries": {"name": "x", "retries": -1},
        "endless retries": {"name": "x", "retries": 10**9},
        "words for retries": {"name": "x", "retries": "2"},
        "a large grid": {"name": "x", "retries": 1, "blocks": list(range(200_000))},
    },
    ("provenances", "content"): {
        "prompts of its own": {"prompts": 7},
        "planners of its own": {"prompts": {"uct": 7}},
        "odd keys": {"\x1b[2J": {"": 1}, "commit": ["x", {}]},
        "huge numbers": {"commit": 10**400, "dirty": 1e308},
        "a deep tree": json.loads('{"a":' * 190 + "1" + "}" * 190),
    },
    ("results", "content"): {},
}
_FIELDS_OF_A_RESULT: dict[str, dict[str, Any]] = {
    "status": {"a number": 1, "an unknown one": "won"},
    "success": {"a number": 1, "a text": "yes"},
    "started": {"1e300": 1e300, "a negative": -1.0, "NaN": float("nan"), "a text": "now"},
    "seconds": {"infinity": float("inf"), "a negative": -1.0, "nothing": None},
    "error": {"an escape": "\x1b[2J", "a list": []},
    "unrepeatable": {"a number": 7, "numbers": [7]},
    "metrics": {
        "a list": [1],
        "huge numbers": {"score": 10**400, "moves": -(10**4000), "ending": 1e308},
        "no finite numbers": {"score": float("nan"), "moves": float("inf")},
        "lists": {"score": [1, [2, {"a": None}]], "moves": {}, "ending": [[]]},
        "odd keys": {"\x1b[2J": 2, "": 3, "a.b.c": 4, "=1+1": "=1+1"},
        "half a character": {"\ud800": 1},
        "many keys": {f"m{n}": n for n in range(5000)},
        "many values": {"score": [{}] * 100_000},
        "as many commas in a text": {"score": "[{," * 100_000},
        "a deep tree": {"score": json.loads("[" * 190 + "]" * 190)},
        "too deep a tree": {"score": json.loads("[" * 300 + "]" * 300)},
        "too long a text": {"score": "x" * 2**22},
    },
    "usage": {
        "a list": [],
        "many roles without one": dict.fromkeys(map(str, range(100_000)), 1),
        "an unknown count": {"value": {**_USED, "cals": 1}},
        "negative calls": {"value": {**_USED, "calls": -1}},
        "huge calls": {"value": {**_USED, "calls": 10**400}},
        "endless seconds": {"value": {**_USED, "seconds": float("inf")}},
        "negative seconds": {"value": {**_USED, "seconds": -1.0}},
        "odd roles": {"\x1b[2J": _USED, "": _USED},
    },
    "plan": {
        "an object": {"a": 1},
        "numbers": [1] * 500_000,
        "nothing": [None],
        "odd texts": ["\x1b[2J", "", "=1+1", "x" * 100_000],
    },
}
_TEXTS_OF_JSON = {
    "deep lists": DEEP,
    "deep objects": '{"a":' * 100_000,
    "long digits": "9" * 5000,
    "half of it": '{"a": 1',
    "a lone surrogate": '"\\ud800"',
    "NaN": "NaN",
    "an object": "{}",
    "a NUL": '{"a": "\\u0000"}',
}


def _of_json() -> Iterator[tuple[str, Alteration]]:
    columns = [*_JSON, ("trials", "content")]
    for table, column in columns:
        for name, text in _TEXTS_OF_JSON.items():
            yield f"{table}.{column} is {name}", _text_cell(table, column, text)
        for name, value in _JSON.get((table, column), {}).items():
            text = json.dumps(value)
            yield f"{table}.{column} has {name}", _text_cell(table, column, text)
    for field, values in _FIELDS_OF_A_RESULT.items():
        for name, value in values.items():
            yield f"results.{field} has {name}", _result_field(field, value)
        yield (
            f"results has no {field}",
            sql(f"UPDATE results SET content = json_remove(content, '$.{field}') WHERE trial = 0"),
        )


def _result_field(field: str, value: object) -> Alteration:
    """Puts a value into the first result."""

    def alter(folder: Path) -> None:
        with closing(sqlite3.connect(folder / FILE)) as connection, connection:
            ((content,),) = connection.execute("SELECT content FROM results WHERE trial = 0")
            changed = json.dumps(json.loads(content) | {field: value})
            connection.execute("UPDATE results SET content = ? WHERE trial = 0", (changed,))

    return alter


def _text_cell(table: str, column: str, text: str) -> Alteration:
    return _cell(table, column, "CAST(x'" + text.encode().hex() + "' AS TEXT)")


# --- trials --------------------------------------------------------------------------------------

_SAID: dict[str, dict[str, Any]] = {
    "a hostile planner": {"planner": "\x1b[2J\x1b]0;x\x07\n"},
    "a long planner": {"planner": "p" * 100_000},
    "an unknown planner": {"planner": "nobody"},
    "own code for a planner": {"planner": "elsewhere.py:f", "source": "0" * 64},
    "a number for a planner": {"planner": 7},
    "a hostile task": {"task": "../\x1b[2J" * 9},
    "a path for a model": {"model": "/dev/zero"},
    "a model without a configuration": {"model": "smollm2-135m-instruct"},
    "a model with another's configuration": {"model": "m", "engines": {"m": {"dtype": 7}}},
    "a role without a model": {"role_models": {"prior": None}},
    "a hostile role": {"role_models": {"\x1b[2J": "\x1b[2J"}},
    "a true seed": {"seed": True},
    "a huge seed": {"seed": 10**4000},
    "settings that are a list": {"settings": []},
    "hostile settings": {"settings": {"\x1b[2J": [1, [2]], "moves": float("nan"), "": {}}},
    "half a character in a setting": {"settings": {"\ud800": 1}},
    "many settings": {"settings": {f"s{n}": n for n in range(5000)}},
    "many values in a setting": {"settings": {"s": [{}] * 10_000}},
    "a long setting": {"settings": {"s": "x" * 2**22}},
    "deep settings": {"settings": json.loads('{"a":' * 190 + "1" + "}" * 190)},
    "a number for an engine": {"model": "m", "engines": {"m": 5}},
    "an engine that is called like a planner": {"model": "uct", "engines": {"uct": {"model": "a"}}},
    "an unknown field": {"more": 1},
}
_FIELDS = (
    *("planner", "domain", "task", "model", "role_models"),
    *("seed", "settings", "engines", "source"),
)


def _of_trials() -> Iterator[tuple[str, Alteration]]:
    for name, change in _SAID.items():
        yield f"a trial with {name}", _retold(lambda trial, change=change: trial | change)
    for field in _FIELDS:
        yield (
            f"a trial without its {field}",
            _retold(
                lambda trial, field=field: {k: v for k, v in trial.items() if k != field},
            ),
        )
    yield "two trials with engines of one name", _two_engines
    yield (
        "a trial under another's key",
        sql(
            "UPDATE trials SET key = hex(randomblob(32)) WHERE number = 0",
            "UPDATE trials SET key = lower(key) WHERE number = 0",
        ),
    )


def _two_engines(folder: Path) -> None:
    for number in range(2):
        engines = {"m": {"model": f"m{number}", "n_ctx": number}}
        change = {"model": "m", "engines": engines}
        _retold(lambda trial, change=change: trial | change, number=number)(folder)


def _retold(change: Callable[[dict[str, Any]], dict[str, Any]], *, number: int = 0) -> Alteration:
    """Changes a trial, by default the first, its key along with it."""

    def alter(folder: Path) -> None:
        with closing(sqlite3.connect(folder / FILE)) as connection, connection:
            ((content, key),) = connection.execute(
                "SELECT content, key FROM trials WHERE number = ?", (number,)
            )
            trial = change(json.loads(content))
            hashed = json.dumps([2, trial], sort_keys=True, separators=(",", ":"))
            new = hashlib.sha256(hashed.encode()).hexdigest()
            connection.execute(
                "UPDATE trials SET content = ?, key = ? WHERE number = ?",
                (json.dumps(trial), new, number),
            )
        trace = folder / "traces" / f"{key}.jsonl.gz"
        if trace.exists():
            trace.rename(trace.with_name(f"{new}.jsonl.gz"))

    return alter


# --- rows and tables -----------------------------------------------------------------------------


def sql(*statements: str) -> Alteration:
    return lambda folder: run_sql(folder / FILE, *statements)


_ROWS = {
    "no sweep": ("DELETE FROM sweep",),
    "two sweeps": ("INSERT INTO sweep SELECT * FROM sweep",),
    "no trials": ("DELETE FROM trials",),
    "one trial less": ("DELETE FROM trials WHERE number = 0",),
    "trials that begin elsewhere": ("UPDATE trials SET number = number - 9000000000000000000",),
    "no provenances": ("DELETE FROM provenances",),
    "another provenance": ("UPDATE provenances SET id = 'x'",),
    "prompts of another provenance": ("UPDATE prompts SET provenance = 'x'",),
    "a result of no trial": ("UPDATE results SET trial = 77 WHERE trial = 0",),
    "an attempt of no trial": ("UPDATE failed_attempts SET trial = 77 WHERE trial = 2",),
    "no results": ("DELETE FROM results",),
    "many attempts": (
        "INSERT INTO failed_attempts "
        "WITH RECURSIVE n(i) AS (SELECT 10 UNION ALL SELECT i + 1 FROM n WHERE i < 3000) "
        "SELECT trial, i, provenance, content FROM n, "
        "(SELECT * FROM failed_attempts WHERE trial = 2)",
    ),
    "a key that is a path": (
        "UPDATE trials SET key = '../../../../../../../../elsewhere' WHERE number = 0",
    ),
    "a hash that is a path": ("UPDATE results SET trace_sha256 = '../x' WHERE trial = 0",),
}
_SCHEMAS = {
    "an endless view for sweep": (
        "DROP TABLE sweep",
        "CREATE VIEW sweep AS WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n) "
        "SELECT '{}' AS content FROM n",
    ),
    "a trigger that removes": (
        "CREATE TRIGGER t AFTER INSERT ON provenances BEGIN DELETE FROM results; END",
    ),
    "another table": ("CREATE TABLE more (x)",),
    "a virtual table": ("CREATE VIRTUAL TABLE more USING fts5(x)",),
    "no tables": tuple(f"DROP TABLE {table}" for table in _CELLS),
    "a schema that is none": (
        "PRAGMA writable_schema = ON",
        "UPDATE sqlite_master SET sql = 'CREATE TABLE trials (\x1b[2J' WHERE name = 'trials'",
    ),
    "a schema without UTF-8": (
        "PRAGMA writable_schema = ON",
        f"UPDATE sqlite_master SET sql = 'CREATE ' || {_UTF8} WHERE name = 'trials'",
    ),
    "a schema whose names are without UTF-8": (
        "PRAGMA writable_schema = ON",
        f"UPDATE sqlite_master SET name = {_UTF8}, sql = NULL WHERE name = 'trials'",
    ),
    "two tables on a page": (
        "PRAGMA writable_schema = ON",
        "UPDATE sqlite_master SET rootpage = 2 WHERE name = 'prompts'",
    ),
    "a table on a page that is not there": (
        "PRAGMA writable_schema = ON",
        "UPDATE sqlite_master SET rootpage = 9000 WHERE name = 'prompts'",
    ),
}


_HEADERS = {
    "version 7": ("PRAGMA user_version = 7",),
    "another program's": ("PRAGMA application_id = 0",),
    "another journal": ("PRAGMA journal_mode = DELETE",),
}


def of_tables() -> Iterator[tuple[str, Alteration]]:
    """All of the above, by name."""
    yield from _of_cells()
    yield from _of_json()
    yield from _of_trials()
    for name, statements in {**_ROWS, **_SCHEMAS, **_HEADERS}.items():
        yield name, sql(*statements)
