"""Ledgers that a stranger altered: a table of what may be done to one, and a good one to do it to.

Some of it no reader can see (a metric is any JSON value, a name any text): then a command may just
as well succeed.
"""

import gzip
import hashlib
import json
import os
import sqlite3
import struct
import zlib
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

Alteration = Callable[[Path], None]

FILE = "ledger.sqlite"
SWEEP = """\
name: little
model: none
domain: textgame
tasks: trap-door
seeds: 2
planners: uct
settings: {moves: 1, simulations: [2, 3], remember: "off"}
retries: 1
"""


def make_ledger(folder: Path) -> None:
    """Four trials: one done, with a trace, one failed for good, one tried once, one not begun."""
    from llm_planning.experiments.grid import load_sweep
    from llm_planning.experiments.ledger import Ledger
    from llm_planning.experiments.trial import TrialResult
    from llm_serving.request import Usage

    with TemporaryDirectory() as place:
        (file := Path(place) / "little.yaml").write_text(SWEEP)
        sweep = load_sweep(file)
    usage = {"value": Usage(calls=3, prompt_tokens=90, completion_tokens=12, seconds=0.5)}
    spent = {"usage": usage, "started": 1_700_000_000.25, "seconds": 2.5}
    done = TrialResult(
        trial=sweep.trials[0],
        status="done",
        success=True,
        plan=("go north", "take coin"),
        metrics={"score": 1.0, "moves": 2, "ending": "victory"},
        trace={"moves": [{"action": "go north"}, {"action": "take coin"}]},
        events=[{"type": "execution", "at": 0.5, "action": "go north", "reward": 0.0}],
        prompts={"value": ("You play a game.",)},
        **spent,
    )
    lost, tried = (
        TrialResult(trial=trial, status="failed", error="ValueError: no plan", **spent)
        for trial in sweep.trials[1:3]
    )
    with Ledger.create(folder, sweep.to_json(), {"commit": "c0ffee"}) as ledger:
        ledger.record(done, attempt=1, final=True)
        ledger.record(lost, attempt=1, final=False)
        ledger.record(lost, attempt=2, final=True)
        ledger.record(tried, attempt=1, final=False)


def alterations() -> list[tuple[str, Alteration]]:
    """What is done to a copy of a ledger's folder, by name."""
    return [
        *_of_cells(),
        *_of_json(),
        *_of_trials(),
        *_of_rows(),
        *_of_schemas(),
        *_of_headers(),
        *_of_files(),
        *_of_traces(),
        *_of_pages(),
    ]


# --- cells ---------------------------------------------------------------------------------------

_DEEP = "[" * 100_000
_UTF8 = "CAST(x'66ff' AS TEXT)"
"""SQL of a text that is no UTF-8."""

_HOSTILE = {
    "nothing": "NULL",
    "a blob": "x'00ff'",
    "a text": "'{'",
    "no UTF-8": _UTF8,
    "an empty text": "''",
    "zero": "0",
    "a number": "-1.5",
    "infinity": "9e999",
    "1e300": "1e300",
    "a huge integer": str(2**63 - 1),
}
_CELLS = {
    "sweep": ("content",),
    "trials": ("number", "key", "content"),
    "provenances": ("id", "content"),
    "prompts": ("provenance", "planner", "role", "sha256", "content"),
    "results": (
        *("trial", "status", "success", "plan", "metrics", "usage", "error", "attempts"),
        *("started", "seconds", "provenance", "trace_sha256", "trace_bytes"),
    ),
    "failed_attempts": ("trial", "attempt", "usage", "error", "started", "provenance"),
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
            loose = kept.replace(" NOT NULL", "").replace(
                " CHECK (status IN ('done', 'failed'))", ""
            )
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

_USED = {"calls": 1, "prompt_tokens": 2, "completion_tokens": 3, "seconds": 0.5}
_JSON = {
    ("sweep", "content"): {
        "no name": {"retries": 1},
        "no retries": {"name": "x"},
        "a number for a name": {"name": 7, "retries": 1},
        "a list for a name": {"name": [], "retries": 1},
        "a hostile name": {"name": "../\x1b[2J\ud800\n" * 50, "retries": 1},
        "negative retries": {"name": "x", "retries": -1},
        "endless retries": {"name": "x", "retries": 10**9},
        "words for retries": {"name": "x", "retries": "2"},
        "true for retries": {"name": "x", "retries": True},
        "a large grid": {"name": "x", "retries": 1, "blocks": list(range(200_000))},
        "trials of its own": {"name": "x", "retries": 1, "trials": 7},
    },
    ("provenances", "content"): {
        "prompts of its own": {"prompts": 7},
        "planners of its own": {"prompts": {"uct": 7}},
        "odd keys": {"\ud800\x1b[2J": {"": 1}, "commit": ["x", {}]},
        "huge numbers": {"commit": 10**400, "dirty": 1e308},
        "a deep tree": json.loads('{"a":' * 90 + "1" + "}" * 90),
    },
    ("results", "metrics"): {
        "a list": [1],
        "huge numbers": {"score": 10**400, "moves": -(10**4000), "ending": 1e308},
        "no finite numbers": {"score": float("nan"), "moves": float("inf")},
        "lists": {"score": [1, [2, {"a": None}]], "moves": {}, "ending": [[]]},
        "odd keys": {"\ud800": 1, "\x1b[2J": 2, "": 3, "a.b.c": 4, "=1+1": "=1+1"},
        "many keys": {f"m{n}": n for n in range(5000)},
        "too many values": {"score": [{}] * 100_000},
        "as many commas in a text": {"score": "[{," * 100_000},
        "a deep tree": {"score": json.loads("[" * 90 + "]" * 90)},
        "too deep a tree": {"score": json.loads("[" * 200 + "]" * 200)},
        "no names of unrepeatable ones": {"$unrepeatable": 7},
        "numbers of unrepeatable ones": {"$unrepeatable": [7]},
    },
    ("results", "usage"): {
        "a list": [],
        "a role without an object": {"value": 3},
        "an unknown count": {"value": {"cals": 1}},
        "negative calls": {"value": {**_USED, "calls": -1}},
        "half a call": {"value": {**_USED, "calls": 0.5}},
        "true calls": {"value": {**_USED, "calls": True}},
        "no calls": {"value": {**_USED, "calls": None}},
        "huge calls": {"value": {**_USED, "calls": 10**400}},
        "calls by the list": {"value": {**_USED, "calls": [1]}},
        "no finite seconds": {"value": {**_USED, "seconds": float("nan")}},
        "endless seconds": {"value": {**_USED, "seconds": float("inf")}},
        "negative seconds": {"value": {**_USED, "seconds": -1.0}},
        "odd roles": {"\ud800": _USED, "\x1b[2J": _USED, "": _USED},
    },
    ("results", "plan"): {
        "an object": {"a": 1},
        "numbers": [1, 2],
        "nothing": [None],
        "odd texts": ["\ud800", "\x1b[2J", "", "=1+1", "x" * 100_000],
    },
}
_TEXTS_OF_JSON = {
    "deep lists": _DEEP,
    "deep lists that end": "[" * 900 + "]" * 900,
    "deep objects": '{"a":' * 100_000,
    "long digits": "9" * 5000,
    "half of it": '{"a": 1',
    "two of them": "{}{}",
    "a lone surrogate": '"\\ud800"',
    "null": "null",
    "NaN": "NaN",
    "a list": "[]",
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


def _text_cell(table: str, column: str, text: str) -> Alteration:
    return _cell(table, column, "CAST(x'" + text.encode().hex() + "' AS TEXT)")


# --- trials --------------------------------------------------------------------------------------

_SAID: dict[str, dict[str, Any]] = {
    "a hostile planner": {"planner": "\x1b[2J\x1b]0;x\x07\n\ud800"},
    "a long planner": {"planner": "p" * 100_000},
    "an unknown planner": {"planner": "nobody"},
    "own code for a planner": {"planner": "elsewhere.py:f", "source": "0" * 64},
    "a number for a planner": {"planner": 7},
    "nothing for a task": {"task": None},
    "a hostile task": {"task": "../\x1b[2J" * 9},
    "a list for a domain": {"domain": []},
    "an object for a model": {"model": {}},
    "a path for a model": {"model": "/dev/zero"},
    "a model without a configuration": {"model": "smollm2-135m-instruct"},
    "a model with another's configuration": {"model": "m", "engines": {"m": {"dtype": 7}}},
    "roles that are a list": {"role_models": []},
    "a role without a model": {"role_models": {"prior": None}},
    "a hostile role": {"role_models": {"\x1b[2J": "\x1b[2J"}},
    "half a seed": {"seed": 0.5},
    "a true seed": {"seed": True},
    "a seed in words": {"seed": "0"},
    "a huge seed": {"seed": 10**4000},
    "a negative seed": {"seed": -(2**70)},
    "settings that are a list": {"settings": []},
    "hostile settings": {"settings": {"\x1b[2J": [1, [2]], "moves": float("nan"), "\ud800": {}}},
    "many settings": {"settings": {f"s{n}": n for n in range(5000)}},
    "too many settings": {"settings": {"s": [{}] * 10_000}},
    "a long setting": {"settings": {"s": "x" * 2**20}},
    "deep settings": {"settings": json.loads('{"a":' * 95 + "1" + "}" * 95)},
    "engines that are a text": {"engines": "none"},
    "a number for an engine": {"model": "m", "engines": {"m": 5}},
    "nothing for an engine": {"model": "m", "engines": {"m": None}},
    "a list for an engine": {"model": "m", "engines": {"m": []}},
    "a text for an engine": {"model": "m", "engines": {"m": "x"}},
    "an engine that is called like a planner": {"model": "uct", "engines": {"uct": {"model": "a"}}},
    "a number for a source": {"source": 7},
    "an unknown field": {"more": 1},
    "the fields of version 1": {"environment": "textgame", "world_model": None},
}
_FIELDS = (
    *("planner", "domain", "task", "model", "role_models"),
    *("seed", "settings", "engines", "source"),
)


def _of_trials() -> Iterator[tuple[str, Alteration]]:
    for name, said in _SAID.items():
        yield f"a trial with {name}", _retold(lambda trial, said=said: trial | said)
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
        _sql(
            "UPDATE trials SET key = hex(randomblob(32)) WHERE number = 0",
            "UPDATE trials SET key = lower(key) WHERE number = 0",
        ),
    )


def _two_engines(folder: Path) -> None:
    for number in range(2):
        engines = {"m": {"model": f"m{number}", "n_ctx": number}}
        told = {"model": "m", "engines": engines}
        _retold(lambda trial, told=told: trial | told, number=number)(folder)


def _retold(change: Callable[[dict[str, Any]], dict[str, Any]], *, number: int = 0) -> Alteration:
    """Changes a trial, by default the first, its key along with it."""

    def alter(folder: Path) -> None:
        with closing(sqlite3.connect(folder / FILE)) as connection, connection:
            ((content, key),) = connection.execute(
                "SELECT content, key FROM trials WHERE number = ?", (number,)
            )
            said = change(json.loads(content))
            hashed = json.dumps([2, said], sort_keys=True, separators=(",", ":"))
            new = hashlib.sha256(hashed.encode()).hexdigest()
            connection.execute(
                "UPDATE trials SET content = ?, key = ? WHERE number = ?",
                (json.dumps(said), new, number),
            )
        trace = folder / "traces" / f"{key}.jsonl.gz"
        if trace.exists():
            trace.rename(trace.with_name(f"{new}.jsonl.gz"))

    return alter


# --- rows and tables -----------------------------------------------------------------------------


def _sql(*statements: str) -> Alteration:
    def alter(folder: Path) -> None:
        with closing(sqlite3.connect(folder / FILE, isolation_level=None)) as connection:
            for statement in statements:
                connection.execute(statement)

    return alter


_ENDLESS = "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n)"
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
        "SELECT trial, i, usage, error, started, seconds, provenance FROM n, "
        "(SELECT * FROM failed_attempts WHERE trial = 2)",
    ),
    "a key that is a path": (
        "UPDATE trials SET key = '../../../../../../../../elsewhere' WHERE number = 0",
    ),
    "a hash that is a path": ("UPDATE results SET trace_sha256 = '../x' WHERE trial = 0",),
}
_SCHEMAS = {
    **{
        f"an endless view for {table}": (
            f"DROP TABLE {table}",
            f"CREATE VIEW {table} AS {_ENDLESS} SELECT {columns} FROM n",
        )
        for table, columns in {
            "sweep": "'{}' AS content",
            "trials": "i AS number, 'k' || i AS key, '{}' AS content",
            "provenances": "i AS id, '{}' AS content",
            "failed_attempts": "i AS trial, i AS attempt",
        }.items()
    },
    "a view beside the tables": (f"CREATE VIEW more AS {_ENDLESS} SELECT i FROM n",),
    "a trigger that removes": (
        "CREATE TRIGGER t AFTER INSERT ON provenances BEGIN DELETE FROM results; END",
    ),
    "a trigger that adds": (
        "CREATE TRIGGER t AFTER INSERT ON provenances BEGIN INSERT INTO sweep "
        "SELECT hex(zeroblob(1000000)) FROM trials a, trials b, trials c; END",
    ),
    "an index": ("CREATE INDEX i ON trials (content)",),
    "an index of an expression": ("CREATE INDEX i ON trials (hex(zeroblob(9)))",),
    "another table": ("CREATE TABLE more (x)",),
    "a virtual table": ("CREATE VIRTUAL TABLE more USING fts5(x)",),
    "a virtual table for prompts": (
        "DROP TABLE prompts",
        "CREATE VIRTUAL TABLE prompts USING fts5(provenance, planner, role, sha256, content)",
    ),
    "statistics": ("ANALYZE",),
    "another column": ("ALTER TABLE results ADD COLUMN more TEXT",),
    "a generated column": (
        "ALTER TABLE sweep ADD COLUMN more TEXT GENERATED ALWAYS AS (hex(zeroblob(9))) VIRTUAL",
    ),
    "a column less": ("ALTER TABLE results DROP COLUMN trace_bytes",),
    "another name of a column": ("ALTER TABLE results RENAME COLUMN plan TO plans",),
    "no rowids": (
        "DROP TABLE provenances",
        "CREATE TABLE provenances (id TEXT PRIMARY KEY, content TEXT NOT NULL) WITHOUT ROWID",
    ),
    "no table of results": ("DROP TABLE results",),
    "no table of prompts": ("DROP TABLE prompts",),
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


def _of_rows() -> Iterator[tuple[str, Alteration]]:
    for name, statements in _ROWS.items():
        yield name, _sql(*statements)


def _of_schemas() -> Iterator[tuple[str, Alteration]]:
    for name, statements in _SCHEMAS.items():
        yield name, _sql(*statements)


def _of_headers() -> Iterator[tuple[str, Alteration]]:
    for name, statement in {
        "version 0": "PRAGMA user_version = 0",
        "version 1": "PRAGMA user_version = 1",
        "version 7": "PRAGMA user_version = 7",
        "another program's": "PRAGMA application_id = 0",
        "another journal": "PRAGMA journal_mode = DELETE",
    }.items():
        yield name, _sql(statement)


# --- files ---------------------------------------------------------------------------------------


def _file(name: str, do: Alteration) -> Alteration:
    """Does something to the path of a file of the ledger, which is removed before."""

    def alter(folder: Path) -> None:
        path = folder / name
        path.unlink(missing_ok=True)
        do(path)

    return alter


def _bytes(content: bytes) -> Alteration:
    def write(path: Path) -> None:
        path.write_bytes(content)

    return write


def _link(target: str) -> Alteration:
    return lambda path: path.symlink_to(target)


_KINDS: dict[str, Alteration] = {
    "missing": lambda path: None,
    "a pipe": os.mkfifo,
    "a folder": Path.mkdir,
    "a device": _link("/dev/zero"),
    "a link to nowhere": _link("nowhere"),
    "a link to itself": lambda path: path.symlink_to(path.name),
    "a link to a file": _link("../sentinel.txt"),
    "empty": _bytes(b""),
    "a text": _bytes(b"not a database, " * 300),
    "zeros": _bytes(bytes(8192)),
}


def _hot_journal(folder: Path) -> None:
    """A journal that makes SQLite bring pages back, and remove the file that it names."""
    victim = str((folder.parent / "sentinel.txt").absolute()).encode()
    head = bytes.fromhex("d9d505f920a163d7") + struct.pack(">5I", 0, 1, 12, 512, 4096)
    tail = victim + struct.pack(">2I", len(victim), sum(victim)) + head[:8]
    content = head.ljust(512, b"\0") + struct.pack(">I", 1_073_741_825 // 4096) + tail
    (folder / f"{FILE}-journal").write_bytes(content)


def _cut(folder: Path) -> None:
    content = (folder / FILE).read_bytes()
    (folder / FILE).write_bytes(content[: len(content) // 2])


def _locked_up(*names: str) -> Alteration:
    def alter(folder: Path) -> None:
        for name in names:
            (folder / name).chmod(0)

    return alter


def _of_files() -> Iterator[tuple[str, Alteration]]:
    for suffix in ("", "-wal", "-shm", "-journal", ".new", ".new-journal"):
        for name, do in _KINDS.items():
            yield f"{FILE}{suffix} is {name}", _file(f"{FILE}{suffix}", do)
    for name, do in _KINDS.items():
        yield f"ledger.lock is {name}", _file("ledger.lock", do)
    yield "a hot journal", _hot_journal
    yield "half a file", _cut
    yield "a file that may not be read", _locked_up(FILE)
    yield "a folder that may not be read", _locked_up("")
    yield "traces that may not be read", _locked_up("traces")


# --- traces --------------------------------------------------------------------------------------


def _trace(lines: bytes) -> Alteration:
    """Puts other lines into the trace, and their hash into the row."""

    def alter(folder: Path) -> None:
        (path,) = (folder / "traces").iterdir()
        path.write_bytes(gzip.compress(lines))
        sha256 = hashlib.sha256(lines).hexdigest()
        _sql(f"UPDATE results SET trace_sha256 = '{sha256}' WHERE trial = 0")(folder)

    return alter


def _of_a_trace(do: Alteration) -> Alteration:
    def alter(folder: Path) -> None:
        (path,) = (folder / "traces").iterdir()
        path.unlink()
        do(path)

    return alter


def _of_the_traces(do: Alteration) -> Alteration:
    def alter(folder: Path) -> None:
        (folder / "traces").rename(folder / "elsewhere")
        do(folder / "traces")

    return alter


def _lines(*more: dict[str, Any]) -> bytes:
    header = {"type": "header", "format": "llm-planning trace", "version": 1}
    lines = [header, *more, {"type": "end", "lines": len(more) + 2}]
    return "".join(f"{json.dumps(line)}\n" for line in lines).encode()


_LINES = {
    "nothing": b"",
    "no objects": b"7\n[]\n",
    "a text that has a type": b'"type"\n',
    "no UTF-8": b"\xff\xfe\n" * 1000,
    "deep JSON": _DEEP.encode(),
    "deep objects": b'{"type":"header","a":' * 20_000,
    "only a header": _lines().splitlines()[0],
    "another version": _lines().replace(b'"version": 1', b'"version": [2]'),
    "a type that is a list": _lines({"type": ["x"]}),
    "a type that is an object": _lines({"type": {}}),
    "a tree that is a list": _lines({"type": "search", "tree": [1], "root": {}}),
    "a summary without a value": _lines({"type": "summary", "key": "x"}),
    "a summary with a list for a key": _lines({"type": "summary", "key": [], "value": 1}),
    "a summary twice": _lines(
        {"type": "summary", "key": "x", "value": 1},
        {"type": "summary", "key": "x", "index": 0, "value": 1},
    ),
    "a deep line": _lines({"type": "belief", "belief": json.loads("[" * 800 + "]" * 800)}),
    "the lines of version 1, broken": b'{"key": "x", "value": 1}\n7\n',
    "an unknown type": _lines({"type": "\x1b[2J", "\ud800": 1}),
}


def _bomb(path: Path) -> None:
    """A gibibyte of blanks in a mebibyte."""
    mebibyte = b" " * (1 << 20)
    packer = zlib.compressobj(9, zlib.DEFLATED, zlib.MAX_WBITS + 16)
    head = packer.compress(mebibyte) + packer.flush(zlib.Z_FULL_FLUSH)
    # After a full flush the same bytes mean the same again.
    more = packer.compress(mebibyte) + packer.flush(zlib.Z_FULL_FLUSH)
    path.write_bytes(head + more * 1023 + packer.flush())


def _many_members(path: Path) -> None:
    path.write_bytes(gzip.compress(b"") * 200_000)


def _of_traces() -> Iterator[tuple[str, Alteration]]:
    for name, lines in _LINES.items():
        yield f"a trace with {name}", _trace(lines)
    for name, do in _KINDS.items():
        yield f"a trace is {name}", _of_a_trace(do)
        yield f"the traces are {name}", _of_the_traces(do)
    yield "a trace is a bomb", _of_a_trace(_bomb)
    yield "a trace is many members", _of_a_trace(_many_members)
    yield "the traces are a link", _of_the_traces(_link("elsewhere"))
    orphan = "f" * 64 + ".jsonl.gz"
    for name in (orphan, f"{orphan}.tmp"):
        for kind, do in _KINDS.items():
            yield f"traces/{name[62:]} is {kind}", _file(f"traces/{name}", do)


# --- pages ---------------------------------------------------------------------------------------


def _endless_table(folder: Path) -> None:
    """Inner pages that lead to each other: a walk through the trials would never end."""
    path = folder / FILE
    with closing(sqlite3.connect(path)) as connection:
        (size,) = connection.execute("PRAGMA page_size").fetchone()
        (root,) = connection.execute(
            "SELECT rootpage FROM sqlite_master WHERE name = 'trials'"
        ).fetchone()
    content = bytearray(path.read_bytes())
    leaf = bytes(content[(root - 1) * size : root * size])
    first = len(content) // size + 1
    levels = 12
    content[(root - 1) * size : root * size] = _inner(size, child=first)
    for level in range(levels):
        content += _inner(size, child=first + level + 1)
    content += leaf
    path.write_bytes(_sized(content, size))


def _endless_schema(folder: Path) -> None:
    """The same in the schema itself, of a row that SQLite takes any number of times."""
    path = folder / FILE
    with closing(sqlite3.connect(path, isolation_level=None)) as connection:
        (size,) = connection.execute("PRAGMA page_size").fetchone()
        connection.execute("PRAGMA writable_schema = ON")
        names = "SELECT rowid FROM sqlite_master WHERE tbl_name = 'trials'"
        connection.execute(f"DELETE FROM sqlite_master WHERE rowid NOT IN ({names})")
    content = bytearray(path.read_bytes())
    first = len(content) // size + 1
    levels = 12
    cells = _cells_of(bytes(content[:size]))
    autoindex = next(cell for cell in cells if b"autoindex" in cell)
    whole, repeated = _leaf(size, cells), _leaf(size, [autoindex])
    # Page 1: the whole schema once, then page after page of its last row.
    content[100:size] = _inner(size, child=first + 1, offset=100, leftmost=first)[100:]
    content += whole
    for level in range(levels):
        content += _inner(size, child=first + level + 2)
    content += repeated
    path.write_bytes(_sized(content, size))


def _inner(size: int, *, child: int, offset: int = 0, leftmost: int = 0) -> bytes:
    """An inner page of a table, all of whose children are one page, but perhaps the leftmost."""
    cells = [struct.pack(">IB", child, n % 100 + 1) for n in range(200)]
    if leftmost:
        cells[0] = struct.pack(">IB", leftmost, 1)
    return _page(size, 5, cells, offset=offset, right=struct.pack(">I", child))


def _leaf(size: int, cells: list[bytes]) -> bytes:
    return _page(size, 13, cells)


def _page(
    size: int, kind: int, cells: list[bytes], *, offset: int = 0, right: bytes = b""
) -> bytes:
    page = bytearray(size)
    end = size
    places = []
    for cell in cells:
        end -= len(cell)
        page[end : end + len(cell)] = cell
        places.append(end)
    head = struct.pack(">BHHHB", kind, 0, len(cells), end, 0) + right
    head += struct.pack(f">{len(places)}H", *places)
    page[offset : offset + len(head)] = head
    return bytes(page)


def _cells_of(page: bytes) -> list[bytes]:
    """The cells of page 1, a leaf whose rows all have less than 16 KiB."""
    (count,) = struct.unpack_from(">H", page, 103)
    cells = []
    for place in struct.unpack_from(f">{count}H", page, 108):
        length, used = page[place], 1
        if length & 0x80:
            length, used = (length & 0x7F) << 7 | page[place + 1], 2
        cells.append(page[place : place + used + 1 + length])
    return cells


def _sized(content: bytearray, size: int) -> bytes:
    """The same with its number of pages in the header."""
    struct.pack_into(">I", content, 28, len(content) // size)
    return bytes(content)


def _flipped(place: float, mask: int) -> Alteration:
    def alter(folder: Path) -> None:
        content = bytearray((folder / FILE).read_bytes())
        content[int(place * (len(content) - 1))] ^= mask
        (folder / FILE).write_bytes(content)

    return alter


def _of_pages() -> Iterator[tuple[str, Alteration]]:
    yield "an endless table", _endless_table
    yield "an endless schema", _endless_schema
    for n in range(24):
        yield f"byte {n} of 24 flipped", _flipped(n / 24, 0xFF >> n % 8)
