"""Folders and files that somebody damaged, or wrote to do harm, as tables.

Each row is a name and a function. It takes the path of a good copy, which it damages, or the path
at which it writes a bad file. Nothing that reads the result may run code of it, wait for it, fall
over it or believe it.
"""

from __future__ import annotations

import json
import os
import pickle
import shutil
import sqlite3
import struct
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

Alteration = tuple[str, Callable[[Path], None]]

DEEP = "[" * 100_000 + "]" * 100_000
TRACE = "LLM_PLANNING_HOSTILE_TRACE"
"""Code that is hidden in a file leaves its trace in the file that this variable names."""


class _Runs:
    """Unpickled, it runs code."""

    def __reduce__(self) -> tuple[Callable[..., object], tuple[object, ...]]:
        return exec, (_leaving_a_trace(),)


def _leaving_a_trace() -> str:
    return f"import os; open(os.environ[{TRACE!r}], 'w').close()"


def _replace_with_pipe(path: Path) -> None:
    path.unlink(missing_ok=True)
    os.mkfifo(path)


def _replace_with_folder(path: Path) -> None:
    path.unlink(missing_ok=True)
    path.mkdir()


def _replace_with_link(target: str) -> Callable[[Path], None]:
    def alter(path: Path) -> None:
        path.unlink(missing_ok=True)
        path.symlink_to(target)

    return alter


def _write(content: str | bytes) -> Callable[[Path], None]:
    def alter(path: Path) -> None:
        path.unlink(missing_ok=True)
        path.write_bytes(
            content.encode("utf-8", "surrogatepass") if isinstance(content, str) else content
        )

    return alter


def _halve(path: Path) -> None:
    content = path.read_bytes()
    path.unlink()
    path.write_bytes(content[: len(content) // 2])


def _stretch(path: Path) -> None:
    """A size of a terabyte, which takes no room on the disk."""
    content = path.read_bytes() if path.exists() else b""
    path.unlink(missing_ok=True)
    path.write_bytes(content)
    os.truncate(path, 1 << 40)


ANY_FILE: tuple[Alteration, ...] = (
    ("a pipe", _replace_with_pipe),
    ("a device without an end", _replace_with_link("/dev/zero")),
    ("a folder", _replace_with_folder),
    ("a link to nowhere", _replace_with_link("/nowhere/at/all")),
    ("a link to itself", lambda path: _replace_with_link(path.name)(path)),
    ("empty", _write(b"")),
    ("cut in half", _halve),
    ("a terabyte of nothing", _stretch),
    ("noise", _write(bytes(range(256)) * 64)),
)
"""What any file can be instead of itself."""

ANY_JSON: tuple[Alteration, ...] = (
    *ANY_FILE,
    ("deep JSON", _write(DEEP)),
    ("JSON that is a list", _write("[1, 2]")),
    ("JSON that is a number", _write("1e999")),
    ("JSON that is not finite", _write('{"a": NaN, "b": Infinity}')),
    ("JSON with a lone surrogate", _write('{"\\ud800": "\\ud800\\u0000"}')),
    ("JSON with a huge number", _write('{"a": 1' + "0" * 5000 + "}")),
    ("JSON in UTF-16", _write("{}".encode("utf-16"))),
)


def _at(name: str, rows: tuple[Alteration, ...]) -> list[Alteration]:
    """The same for a file of a folder."""
    return [
        (f"{name}: {told}", lambda folder, alter=alter: alter(folder / name))
        for told, alter in rows
    ]


# --- indexes -------------------------------------------------------------------------------------


def _seal(folder: Path, change: dict[str, object]) -> None:
    """Changes fields of an `index.json`, whose digest is then right again."""
    import hashlib

    fields = json.loads((folder / "index.json").read_bytes()) | change
    del fields["sha256"]
    body = ",\n".join(f'"{name}": {json.dumps(value)}' for name, value in fields.items())
    text = body.encode() + b"\n}\n"
    digest = hashlib.sha256(text).hexdigest().encode()
    (folder / "index.json").write_bytes(b'{\n"sha256": "%s",\n%s' % (digest, text))


def _sealed(**change: object) -> Callable[[Path], None]:
    return lambda folder: _seal(folder, change)


def _vectors(alter: Callable[[Path], None]) -> Callable[[Path], None]:
    return lambda folder: alter(next(folder.glob("vectors-*.safetensors")))


def index_alterations() -> list[Alteration]:
    """Of a folder that `llm-planning index build` saved."""
    other = {"encoder": {"name": "../" * 40 + "etc", "revision": "\u001b[2J"}, "field": None}
    return [
        *_at("index.json", ANY_JSON),
        *((f"vectors: {told}", _vectors(alter)) for told, alter in ANY_FILE),
        ("vectors: gone", _vectors(Path.unlink)),
        ("vectors: a header that claims the file", _vectors(_write(struct.pack("<Q", 1 << 62)))),
        ("index.lock: a folder", lambda folder: _replace_with_folder(folder / "index.lock")),
        ("a dimension of a terabyte", _sealed(dimension=10**12)),
        ("a dimension beyond any array", _sealed(dimension=10**30)),
        ("no rows of a huge dimension", _sealed(dimension=10**18, keys=[], payloads=[])),
        ("a dimension of zero", _sealed(dimension=0)),
        ("a dimension that is true", _sealed(dimension=True)),
        ("another version", _sealed(version=10**4000)),
        ("an unknown dtype", _sealed(dtype="object")),
        (
            "vectors elsewhere",
            _sealed(vectors={"file": "vectors-../x.safetensors", "sha256": "../x"}),
        ),
        ("vectors that are a list", _sealed(vectors=[])),
        ("keys that are numbers", _sealed(keys=[1, 2])),
        ("keys that are an object", _sealed(keys={"a": 1})),
        ("a key that is a lone surrogate", _sealed(keys=["\ud800"])),
        ("a key with a zero byte", _sealed(keys=["a\0b"])),
        ("one key twice", _sealed(keys=["a", "a"])),
        ("fewer payloads than keys", _sealed(payloads=[])),
        ("metadata that is a list", _sealed(metadata=[])),
        ("another encoder", _sealed(metadata=other)),
        ("an encoder that is a number", _sealed(metadata={"encoder": {"name": 1, "revision": 2}})),
    ]


# --- models --------------------------------------------------------------------------------------


def _edit_config(change: dict[str, object], name: str = "config.json") -> Callable[[Path], None]:
    def alter(folder: Path) -> None:
        path = folder / name
        fields = json.loads(path.read_bytes()) if path.exists() else {}
        path.unlink(missing_ok=True)
        path.write_text(json.dumps(fields | change))

    return alter


def _bring_code(folder: Path) -> None:
    """A configuration that names code of the folder's own, in every way that libraries know."""
    classes = {"AutoConfig": "custom.Config", "AutoModel": "custom.Model"}
    classes |= {"AutoModelForCausalLM": "custom.Model", "AutoTokenizer": ["custom.T", "custom.T"]}
    for name in ("config.json", "tokenizer_config.json"):
        change = {"auto_map": classes, "model_type": "mine", "tokenizer_class": "T"}
        _edit_config(change, name)(folder)
    (folder / "custom.py").write_text(
        f"{_leaving_a_trace()}\n\nclass Config: ...\n\nclass Model: ...\n\nclass T: ...\n"
    )


def _bring_module(kind: str) -> Callable[[Path], None]:
    def alter(folder: Path) -> None:
        (folder / "custom.py").write_text(f"{_leaving_a_trace()}\n\nclass Module: ...\n")
        modules = [{"idx": 0, "name": "0", "path": "", "type": kind}]
        _write(json.dumps(modules))(folder / "modules.json")

    return alter


def _bring_pickle(folder: Path) -> None:
    """Weights as a pickle that runs code, and no others."""
    for path in folder.glob("*.safetensors"):
        path.unlink()
    (folder / "pytorch_model.bin").write_bytes(pickle.dumps(_Runs()))


def _shards(weight_map: object) -> Callable[[Path], None]:
    text = json.dumps({"weight_map": weight_map})
    return lambda folder: _write(text)(folder / "model.safetensors.index.json")


def _template(text: str) -> Callable[[Path], None]:
    return lambda folder: _write(text)(folder / "chat_template.jinja")


def _circle(folder: Path) -> None:
    for number in range(20):
        (folder / f"again{number}").symlink_to(folder)


def model_folder_alterations() -> list[Alteration]:
    """Of a folder that holds a model: config.json, tokenizer.json, model.safetensors."""
    return [
        *_at("config.json", ANY_JSON),
        *_at("tokenizer.json", ANY_JSON),
        *_at("tokenizer_config.json", ANY_JSON),
        *_at("model.safetensors", ANY_FILE),
        *_at("extra.txt", ANY_FILE[:1]),
        ("config.json: gone", lambda folder: (folder / "config.json").unlink()),
        ("model.safetensors: gone", lambda folder: (folder / "model.safetensors").unlink()),
        (
            "model.safetensors: a header that claims the file",
            lambda folder: _write(struct.pack("<Q", 1 << 62) + b"{}" * 64)(
                folder / "model.safetensors"
            ),
        ),
        ("code of its own", _bring_code),
        ("a pickle", _bring_pickle),
        ("a circle of links", _circle),
        ("shards that are a list", _shards(["model.safetensors"])),
        ("shards outside of the folder", _shards({"a": "../../../etc/passwd"})),
        ("shards with a zero byte", _shards({"a": "a\0b"})),
        ("shards that are missing", _shards({"a": "model-00001-of-00002.safetensors"})),
        ("shards that are numbers", _shards({"a": 1})),
        ("no layers at all", _edit_config({"num_hidden_layers": -1})),
        ("a billion layers", _edit_config({"num_hidden_layers": 10**9})),
        ("sizes of a terabyte", _edit_config({"hidden_size": 10**12})),
        ("sizes that are texts", _edit_config({"hidden_size": "a", "vocab_size": None})),
        ("an unknown architecture", _edit_config({"architectures": ["Nothing"]})),
        ("architectures that are a number", _edit_config({"architectures": 7})),
        ("an unknown kind of model", _edit_config({"model_type": "\u001b[2J" + "x" * 5000})),
        ("a quantisation that there is not", _edit_config({"quantization_config": {"a": 1}})),
    ]


def encoder_folder_alterations() -> list[Alteration]:
    """Of a folder that holds a sentence encoder, beside those of any model."""
    return [
        *_at("modules.json", ANY_JSON),
        ("a module of its own", _bring_module("custom.Module")),
        ("a module of another package", _bring_module("os.system")),
        (
            "a module that is a function",
            _bring_module("sentence_transformers.util.misc.torch.load"),
        ),
        ("a module that there is not", _bring_module("sentence_transformers.models.Nothing")),
        (
            "a module that is a number",
            lambda folder: _write('[{"type": 1, "path": ""}]')(folder / "modules.json"),
        ),
        (
            "a module outside of the folder",
            lambda folder: _write(
                json.dumps(
                    [
                        {
                            "idx": 0,
                            "name": "0",
                            "path": "../..",
                            "type": "sentence_transformers.models.Pooling",
                        }
                    ]
                )
            )(folder / "modules.json"),
        ),
    ]


def template_alterations() -> list[Alteration]:
    """Of a folder that holds a model: chat templates, which are programs."""
    return [
        (
            "a template that reaches for Python",
            _template("{{ ''.__class__.__mro__[1].__subclasses__() }}"),
        ),
        ("a template that is none", _template("{% for %}")),
        ("a template that raises", _template("{{ raise_exception('\u001b[2J' * 5000) }}")),
        ("a template that divides by zero", _template("{{ 1 // 0 }}")),
    ]


# --- caches --------------------------------------------------------------------------------------


def _sql(*statements: str) -> Callable[[Path], None]:
    def alter(path: Path) -> None:
        with closing(sqlite3.connect(path, isolation_level=None)) as connection:
            for statement in statements:
                connection.execute(statement)

    return alter


def _flip(start: int, stride: int) -> Callable[[Path], None]:
    def alter(path: Path) -> None:
        content = bytearray(path.read_bytes())
        for place in range(start, len(content), stride):
            content[place] ^= 0xFF
        path.write_bytes(content)

    return alter


def _endless_view(path: Path) -> None:
    """A view that never ends, under the name of the file's largest table."""
    with closing(sqlite3.connect(path, isolation_level=None)) as connection:
        tables = [
            name
            for (name,) in connection.execute("SELECT name FROM sqlite_master WHERE type = 'table'")
        ]
        for table in tables:
            columns = [row[1] for row in connection.execute(f"PRAGMA table_xinfo({table})")]
            connection.execute(f"DROP TABLE {table}")
            named = ", ".join(f"n AS {column}" for column in columns)
            connection.execute(
                f"CREATE VIEW {table} AS WITH RECURSIVE c(n) AS "
                f"(SELECT 1 UNION ALL SELECT n + 1 FROM c) SELECT {named} FROM c"
            )


def _trigger(path: Path) -> None:
    with closing(sqlite3.connect(path, isolation_level=None)) as connection:
        (table,) = connection.execute(
            "SELECT name FROM sqlite_master WHERE type = 'table' ORDER BY name DESC LIMIT 1"
        ).fetchone()
        connection.execute(
            f"CREATE TRIGGER more AFTER INSERT ON {table} BEGIN DELETE FROM {table}; END"
        )


def _beside(suffix: str, alter: Callable[[Path], None]) -> Callable[[Path], None]:
    return lambda path: alter(path.with_name(path.name + suffix))


def _every_value(value: str) -> Callable[[Path], None]:
    """Sets every column of every table to a value."""

    def alter(path: Path) -> None:
        with closing(sqlite3.connect(path, isolation_level=None)) as connection:
            tables = [
                name
                for (name,) in connection.execute(
                    "SELECT name FROM sqlite_master WHERE type = 'table'"
                )
            ]
            for table in tables:
                for row in connection.execute(f"PRAGMA table_xinfo({table})").fetchall():
                    name, is_key, is_hidden = row[1], row[5], row[6]
                    if not is_key and not is_hidden:
                        connection.execute(f"UPDATE OR IGNORE {table} SET {name} = {value}")

    return alter


def _huge_value(path: Path) -> None:
    """One value of 70 MB, in the widest column of the largest kind of row."""
    with closing(sqlite3.connect(path, isolation_level=None)) as connection:
        schema = connection.execute("SELECT group_concat(name) FROM sqlite_master").fetchone()[0]
        table, column = next(
            (table, column)
            for table, column in (
                ("responses", "value"),
                ("vectors", "vector"),
                ("transitions", "text"),
            )
            if table in schema
        )
        connection.execute(
            f"UPDATE {table} SET {column} = zeroblob(70000000) "
            f"WHERE rowid = (SELECT min(rowid) FROM {table})"
        )


def cache_alterations() -> list[Alteration]:
    """Of an SQLite file of any of the caches."""
    return [
        *ANY_FILE,
        ("an endless view in a table's place", _endless_view),
        ("a trigger", _trigger),
        ("another table", _sql("CREATE TABLE more (a)")),
        ("another index", _sql("CREATE TABLE t (a)", "CREATE INDEX i ON t (a)")),
        ("another version", _sql("PRAGMA user_version = 99")),
        ("another program's", _sql("PRAGMA application_id = 1")),
        ("a pipe as its log", _beside("-wal", _replace_with_pipe)),
        ("a link as its log", _beside("-wal", _replace_with_link("/dev/zero"))),
        ("a folder as its journal", _beside("-journal", _replace_with_folder)),
        ("noise as its log", _beside("-wal", _write(bytes(range(256)) * 64))),
        ("values that are numbers", _every_value("7")),
        ("values that are texts", _every_value("'\u001b[2J'")),
        ("values that are no Unicode", _every_value("CAST(x'ff' AS TEXT)")),
        ("values that are noise", _every_value("x'5b31ff00'")),
        ("a value that is huge", _huge_value),
        ("deep values", _every_value(f"CAST('{DEEP}' AS BLOB)")),
        *((f"bytes flipped from {start}", _flip(start, 701)) for start in (16, 50, 99, 101, 4097)),
    ]


# --- games ---------------------------------------------------------------------------------------


def game_files() -> list[Alteration]:
    """Files that are given as `game=FILE`."""
    header = bytearray(64)
    header[0] = 5

    def story(*places: tuple[int, int]) -> bytes:
        content = bytearray(header)
        for place, value in places:
            content[place : place + 2] = value.to_bytes(2, "big")
        return bytes(content) + bytes(range(256)) * 256

    return [
        *((told, alter) for told, alter in ANY_FILE if told != "cut in half"),
        ("an archive", _write(b"FORM" + bytes(200))),
        ("a story of version 5 that is nothing else", _write(story())),
        ("a story that begins nowhere", _write(story((6, 0xFFFF), (14, 0xFFFF)))),
        ("a story of version 9", _write(b"\x09" + bytes(100))),
        ("a pickle", _write(pickle.dumps(_Runs()))),
        ("JSON", _write("{}")),
    ]


# --- what was learnt -----------------------------------------------------------------------------


def _learnt(**change: object) -> Callable[[Path], None]:
    def alter(path: Path) -> None:
        fields = json.loads(path.read_bytes())
        path.write_text(json.dumps(fields | change))

    return alter


def saved_files() -> list[Alteration]:
    """Of a file that `save=FILE` wrote."""
    state = [3, [1] * 625, None]
    return [
        *ANY_JSON,
        ("a format that there is not", _learnt(format=10**18)),
        ("a format that is a text", _learnt(format="three")),
        ("a field more", _learnt(more=1)),
        (
            "a graph with a cycle",
            _learnt(
                items={
                    "stick": {"requirements": {"planks": 1}, "makes": 1},
                    "planks": {"requirements": {"stick": 1}, "makes": 1},
                }
            ),
        ),
        ("a requirement of zero", _learnt(items={"a": {"requirements": {"b": 0}, "makes": 1}})),
        (
            "a requirement beyond any number",
            _learnt(items={"a": {"requirements": {"b": 10**400}, "makes": 10**400}}),
        ),
        (
            "a million items",
            _learnt(items={f"i{n}": {"requirements": {}, "makes": 1} for n in range(1_000_000)}),
        ),
        ("a generator of another kind", _learnt(goals=[2, [1] * 625, None])),
        ("a generator that is too short", _learnt(goals=[3, [1], None])),
        ("a generator of huge numbers", _learnt(goals=[3, [10**400] * 625, None])),
        ("a generator beyond its end", _learnt(goals=[3, [1] * 624 + [10**6], None])),
        ("a generator with a gauss that is none", _learnt(goals=[*state[:2], "a"])),
        ("episodes below zero", _learnt(episodes=-1)),
        ("episodes beyond any number", _learnt(episodes=10**400)),
        (
            "a memory of other actions",
            _learnt(memory={"successes": {"stick": {"fly": 1}}, "failures": {}}),
        ),
        (
            "a memory of huge counts",
            _learnt(memory={"successes": {"stick": {"craft": 10**400}}, "failures": {}}),
        ),
        ("a run that is a list", _learnt(run=[])),
    ]


def copy_of(folder: Path, place: Path) -> Path:
    """A copy of a folder whose large files are links to the same bytes."""
    return Path(shutil.copytree(folder, place, copy_function=os.link))
