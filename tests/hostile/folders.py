"""Folders and files that somebody damaged, or wrote to do harm, as tables.

Each row is a name and a function. It takes the path of a good copy, which it damages, or the path
at which it writes a bad file. Nothing that reads the result may run code of it, wait for it, fall
over it or believe it.
"""

import json
import os
import pickle
import shutil
import sqlite3
import struct
from collections.abc import Iterable
from contextlib import closing
from pathlib import Path

import numpy as np
from safetensors.numpy import load_file, save_file

from .kinds import KINDS, Make, changed, link, run_sql, write

Alteration = tuple[str, Make]

DEEP = "[" * 100_000 + "]" * 100_000
TRACE = "LLM_PLANNING_HOSTILE_TRACE"
"""Code that is hidden in a file leaves its trace in the file that this variable names."""

_LEAVE_A_TRACE = f"import os; open(os.environ[{TRACE!r}], 'w').close()"


class _Runs:
    """Unpickled, it runs code."""

    def __reduce__(self) -> tuple[object, tuple[object, ...]]:
        return exec, (_LEAVE_A_TRACE,)


def _stretch(path: Path) -> None:
    """A size of a terabyte, which takes no room on the disk."""
    write(path.read_bytes() if path.exists() else b"")(path)
    os.truncate(path, 1 << 40)


ANY_FILE: tuple[Alteration, ...] = (
    *((name, make) for name, make in KINDS.items() if name not in {"missing", "zeros"}),
    ("cut in half", changed(lambda content: content[: len(content) // 2])),
    ("a terabyte of nothing", _stretch),
    ("noise", write(bytes(range(256)) * 64)),
)
"""What any file can be instead of itself."""

ANY_JSON: tuple[Alteration, ...] = (
    *ANY_FILE,
    ("deep JSON", write(DEEP)),
    ("JSON that is a list", write("[1, 2]")),
    ("JSON that is a number", write("1e999")),
    ("JSON that is not finite", write('{"a": NaN, "b": Infinity}')),
    ("JSON with a lone surrogate", write('{"\\ud800": "\\ud800\\u0000"}')),
    ("JSON with a huge number", write('{"a": 1' + "0" * 5000 + "}")),
    ("JSON in UTF-16", write("{}".encode("utf-16"))),
)
_ENDLESS = frozenset({"a pipe", "a device", "a terabyte of nothing"})
MODEL_FILE: tuple[Alteration, ...] = tuple(row for row in ANY_FILE if row[0] not in _ENDLESS)
MODEL_JSON: tuple[Alteration, ...] = tuple(row for row in ANY_JSON if row[0] not in _ENDLESS)
"""What a file of a model can be: who names a folder is trusted with pipes and devices in it."""


def _in(name: str, alter: Make) -> Make:
    """Does something to a file of a folder; the first that a pattern fits."""
    return lambda folder: alter(next(iter(folder.glob(name)), folder / name))


def _at(name: str, rows: Iterable[Alteration], pattern: str = "") -> list[Alteration]:
    """The same for a file of a folder."""
    return [(f"{name}: {damage}", _in(pattern or name, alter)) for damage, alter in rows]


def _fields(**change: object) -> Make:
    """Changes fields of a JSON object, or begins one."""

    def alter(path: Path) -> None:
        fields = json.loads(path.read_bytes()) if path.exists() else {}
        write(json.dumps(fields | change))(path)

    return alter


# --- indexes -------------------------------------------------------------------------------------


def _tensors(**change: np.ndarray) -> Make:
    """Changes tensors of a saved index."""

    def alter(path: Path) -> None:
        save_file(
            load_file(path) | change, path, metadata={"format": "llm-kernels embedding index"}
        )

    return alter


def _entries(**change: object) -> Make:
    """Changes fields of the JSON text in a saved index."""

    def alter(path: Path) -> None:
        content = json.loads(load_file(path)["entries"].tobytes()) | change
        _tensors(entries=_bytes(json.dumps(content)))(path)

    return alter


def _bytes(text: str) -> np.ndarray:
    return np.frombuffer(text.encode(), np.uint8)


def name_of(part: object) -> str:
    """Names the case of an alteration, the same in every process."""
    return part[:60] if isinstance(part, str) else ""


def index_alterations() -> list[Alteration]:
    """Of a file that `llm-planning index build` saved."""
    other = {"encoder": {"name": "../" * 40 + "etc", "revision": "\u001b[2J"}}
    return [
        *ANY_FILE,
        ("a header that claims the file", write(struct.pack("<Q", 1 << 62))),
        ("a pickle that runs code", write(pickle.dumps(_Runs()))),
        ("a file of another program", lambda path: save_file(load_file(path), path)),
        ("no rows of a huge dimension", _tensors(vectors=np.empty((0, 10**15), np.float32))),
        ("a dimension of zero", _tensors(vectors=np.empty((1, 0), np.float32))),
        ("numbers of another dtype", _tensors(vectors=np.ones((1, 4), np.float64))),
        ("vectors that are a list", _tensors(vectors=np.ones(4, np.float32))),
        ("vectors without a direction", _tensors(vectors=np.zeros((1, 4), np.float32))),
        ("vectors that are not finite", _tensors(vectors=np.full((1, 4), np.nan, np.float32))),
        ("more vectors than keys", _tensors(vectors=np.ones((2, 4), np.float32))),
        ("entries of another dtype", _tensors(entries=np.ones(9, np.float32))),
        ("deep entries", _tensors(entries=_bytes(DEEP))),
        ("entries that are a list", _tensors(entries=_bytes("[1, 2]"))),
        ("entries with a huge number", _tensors(entries=_bytes('{"a": 1' + "0" * 5000 + "}"))),
        ("entries that are no UTF-8", _tensors(entries=np.full(9, 255, np.uint8))),
        ("entries without keys", _tensors(entries=_bytes('{"metadata": {}, "payloads": [1]}'))),
        ("keys that are numbers", _entries(keys=[1])),
        ("keys that are an object", _entries(keys={"a": 1, "b": 2})),
        ("a key that is a lone surrogate", _entries(keys=["\ud800"])),
        ("a key with a zero byte", _entries(keys=["a\0b"])),
        ("one key twice", _entries(keys=["a", "a"])),
        ("fewer payloads than keys", _entries(payloads=[])),
        ("payloads that are not finite", _entries(payloads=[float("nan")])),
        ("metadata that is a list", _entries(metadata=[])),
        ("another encoder", _entries(metadata=other)),
        ("an encoder that is a number", _entries(metadata={"encoder": {"name": 1, "revision": 2}})),
    ]


# --- models --------------------------------------------------------------------------------------


def _config(**change: object) -> Make:
    return _in("config.json", _fields(**change))


def _bring_code(folder: Path) -> None:
    """A configuration that names code of the folder's own, in every way that libraries know."""
    classes = {"AutoConfig": "custom.Config", "AutoModel": "custom.Model"}
    classes |= {"AutoModelForCausalLM": "custom.Model", "AutoTokenizer": ["custom.T", "custom.T"]}
    for name in ("config.json", "tokenizer_config.json"):
        _fields(auto_map=classes, model_type="mine", tokenizer_class="T")(folder / name)
    (folder / "custom.py").write_text(
        f"{_LEAVE_A_TRACE}\n\nclass Config: ...\n\nclass Model: ...\n\nclass T: ...\n"
    )


def _module(**change: object) -> Make:
    """A model of one module, whose code the folder has."""
    modules = [{"idx": 0, "name": "0", "path": "", "type": "custom.Module"} | change]

    def alter(folder: Path) -> None:
        (folder / "custom.py").write_text(f"{_LEAVE_A_TRACE}\n\nclass Module: ...\n")
        write(json.dumps(modules))(folder / "modules.json")

    return alter


def _bring_pickle(folder: Path) -> None:
    """Weights as a pickle that runs code, and no others."""
    for path in folder.glob("*.safetensors"):
        path.unlink()
    (folder / "pytorch_model.bin").write_bytes(pickle.dumps(_Runs()))


def _shards(weight_map: object) -> Make:
    return _in("model.safetensors.index.json", write(json.dumps({"weight_map": weight_map})))


def _template(text: str) -> Make:
    return _in("chat_template.jinja", write(text))


def model_folder_alterations() -> list[Alteration]:
    """Of a folder that holds a model: config.json, tokenizer.json, model.safetensors."""
    return [
        *_at("config.json", MODEL_JSON),
        *_at("tokenizer.json", MODEL_JSON),
        *_at("tokenizer_config.json", MODEL_JSON),
        *_at("model.safetensors", MODEL_FILE),
        ("config.json: gone", _in("config.json", Path.unlink)),
        ("model.safetensors: gone", _in("model.safetensors", Path.unlink)),
        ("code of its own", _bring_code),
        ("a pickle", _bring_pickle),
        ("shards that are a list", _shards(["model.safetensors"])),
        ("shards outside of the folder", _shards({"a": "../../../etc/passwd"})),
        ("shards with a zero byte", _shards({"a": "a\0b"})),
        ("shards that are missing", _shards({"a": "model-00001-of-00002.safetensors"})),
        ("shards that are numbers", _shards({"a": 1})),
        ("no layers at all", _config(num_hidden_layers=-1)),
        ("sizes of a terabyte", _config(hidden_size=10**12)),
        ("sizes that are texts", _config(hidden_size="a", vocab_size=None)),
        ("an unknown architecture", _config(architectures=["Nothing"])),
        ("architectures that are a number", _config(architectures=7)),
        ("an unknown kind of model", _config(model_type="\u001b[2J" + "x" * 5000)),
        ("a quantisation that there is not", _config(quantization_config={"a": 1})),
    ]


def adapter_folder_alterations() -> list[Alteration]:
    """Of a folder that holds an adapter: PEFT's two files, and a card."""
    config, weights, card = "adapter_config.json", "adapter_model.safetensors", "taught.json"
    own = '{"../../x": {"dtype": "F32", "shape": [4, 8], "data_offsets": [0, 128]}}'
    lost = own.replace("128", "99999999").replace("../../x", LORA % "A")
    return [
        *_at(config, ANY_JSON),
        *_at(card, ANY_JSON),
        *_at(weights, ANY_FILE),
        (f"{config}: gone", _in(config, Path.unlink)),
        (f"{weights}: gone", _in(weights, Path.unlink)),
        ("a header that claims the file", _in(weights, write(struct.pack("<Q", 1 << 62) + b"{}"))),
        ("a header of a list", _in(weights, write(_headed("[]")))),
        ("tensors that are numbers", _in(weights, write(_headed('{"a": 1}')))),
        ("a tensor of another name", _in(weights, write(_headed(own)))),
        ("a tensor beyond the file", _in(weights, write(_headed(lost)))),
        ("a rank of a billion", _in(config, _fields(r=10**9))),
        ("an alpha beyond any number", _in(config, _fields(lora_alpha=10**400))),
        ("a hostile key", _in(config, _fields(**{"\x1b[2J\n" * 999: 1}))),
        ("a hostile kind", _in(config, _fields(peft_type="\x1b[2J\n" * 999))),
        ("a base that is the folder", _in(card, _fields(base="."))),
        ("a base that is nothing", _in(card, _fields(base="\0"))),
        ("a base with a hostile name", _in(card, _fields(base="\x1b[2J\n" * 999))),
    ]


LORA = "base_model.model.q_proj.lora_%s.weight"


def make_skills(folder: Path) -> None:
    """Writes a library of one skill, which is of Minecraft and takes the place of its own."""
    from llm_planning.environments.minecraft.options import primitives

    own = Path(primitives.__file__).parent / "skills" / "killMobs"
    shutil.copytree(own, folder / own.name)
    (folder / ".lock").touch()


def make_adapter(folder: Path, *, base: Path, called: str) -> None:
    """Writes an adapter with a card, and a base of one weight: as small as they can be.

    Args:
        folder: the adapter's, which is made.
        base: the base's, which is made, too.
        called: the base's name on the card.
    """
    import numpy as np
    from safetensors.numpy import save_file

    from llm_serving.models import Card, resolve

    base.mkdir(parents=True)
    (base / "config.json").write_text('{"model_type": "llama"}')
    weight = np.zeros((8, 8), np.float32)
    save_file({"q_proj.weight": weight}, base / "model.safetensors")
    folder.mkdir()
    halves = {LORA % "A": np.ones((4, 8), np.float32), LORA % "B": np.ones((8, 4), np.float32)}
    save_file(halves, folder / "adapter_model.safetensors")
    config = {"peft_type": "LORA", "r": 4, "lora_alpha": 4, "target_modules": ["q_proj"]}
    (folder / "adapter_config.json").write_text(json.dumps(config))
    card = Card(
        base=called,
        base_revision=resolve(str(base)).revision,
        domain="d",
        roles=("r",),
        words_sha256=("0" * 64,),
    )
    (folder / "taught.json").write_text(json.dumps(card.to_json()))


def _headed(header: str) -> bytes:
    return struct.pack("<Q", len(header)) + header.encode()


def encoder_folder_alterations() -> list[Alteration]:
    """Of a folder that holds a sentence encoder, beside those of any model."""
    return [
        *_at("modules.json", MODEL_JSON),
        ("a module of its own", _module()),
        ("a module of another package", _module(type="os.system")),
        ("a module that is a function", _module(type="sentence_transformers.util.misc.torch.load")),
        ("a module that there is not", _module(type="sentence_transformers.models.Nothing")),
        ("a module that is a number", _in("modules.json", write('[{"type": 1, "path": ""}]'))),
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


def make_answers(path: Path) -> None:
    """Writes a cache of one answer."""
    from llm_serving.request import Completion, ModelIdentity, Usage
    from llm_serving.stores import ResponseCache

    answers = ResponseCache(path)
    answer = Completion(text="yes", token_ids=(1,), finish="stop", usage=Usage(calls=1))
    answers.put(bytes(32), answer, ModelIdentity(name="m", revision="1", dtype="float32"))
    answers.close()


def _sql(*statements: str) -> Make:
    return lambda path: run_sql(path, *statements)


_NAMES = "SELECT name FROM sqlite_master WHERE type = 'table' ORDER BY name DESC"


def _endless_view(path: Path) -> None:
    """A view that never ends, under the name of the file's largest table."""
    with closing(sqlite3.connect(path, isolation_level=None)) as connection:
        for (table,) in connection.execute(_NAMES).fetchall():
            columns = [row[1] for row in connection.execute(f"PRAGMA table_xinfo({table})")]
            connection.execute(f"DROP TABLE {table}")
            named = ", ".join(f"n AS {column}" for column in columns)
            connection.execute(
                f"CREATE VIEW {table} AS WITH RECURSIVE c(n) AS "
                f"(SELECT 1 UNION ALL SELECT n + 1 FROM c) SELECT {named} FROM c"
            )


def _trigger(path: Path) -> None:
    with closing(sqlite3.connect(path, isolation_level=None)) as connection:
        (table,) = connection.execute(_NAMES).fetchone()
        connection.execute(
            f"CREATE TRIGGER more AFTER INSERT ON {table} BEGIN DELETE FROM {table}; END"
        )


def _beside(suffix: str, alter: Make) -> Make:
    return lambda path: alter(path.with_name(path.name + suffix))


def _every_value(value: str) -> Make:
    """Sets every column of every table to a value."""

    def alter(path: Path) -> None:
        with closing(sqlite3.connect(path, isolation_level=None)) as connection:
            for (table,) in connection.execute(_NAMES).fetchall():
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
                ("entries", "value"),
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
        ("a pipe as its log", _beside("-wal", KINDS["a pipe"])),
        ("a link as its log", _beside("-wal", link("/dev/zero"))),
        ("a folder as its journal", _beside("-journal", KINDS["a folder"])),
        ("noise as its log", _beside("-wal", write(bytes(range(256)) * 64))),
        ("values that are numbers", _every_value("7")),
        ("values that are texts", _every_value("'\u001b[2J'")),
        ("values that are no Unicode", _every_value("CAST(x'ff' AS TEXT)")),
        ("values that are noise", _every_value("x'5b31ff00'")),
        ("a value that is huge", _huge_value),
        ("deep values", _every_value(f"CAST('{DEEP}' AS BLOB)")),
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
        *((damage, alter) for damage, alter in ANY_FILE if damage != "cut in half"),
        ("an archive", write(b"FORM" + bytes(200))),
        ("a story of version 5 that is nothing else", write(story())),
        ("a story that begins nowhere", write(story((6, 0xFFFF), (14, 0xFFFF)))),
        ("a story of version 9", write(b"\x09" + bytes(100))),
        ("a pickle", write(pickle.dumps(_Runs()))),
        ("JSON", write("{}")),
    ]


# --- what was learnt -----------------------------------------------------------------------------


def _a_million_items(path: Path) -> None:
    items = ", ".join(f'"i{n}": {{"requirements": {{}}, "makes": 1}}' for n in range(1_000_000))
    fields = json.dumps(json.loads(path.read_bytes()) | {"items": 0})
    write(fields.replace('"items": 0', f'"items": {{{items}}}'))(path)


def saved_files() -> list[Alteration]:
    """Of a file that `save=FILE` wrote."""
    return [
        *ANY_JSON,
        ("a format that there is not", _fields(format=10**18)),
        ("a format that is a text", _fields(format="three")),
        ("a field more", _fields(more=1)),
        (
            "a graph with a cycle",
            _fields(
                items={
                    "stick": {"requirements": {"planks": 1}, "makes": 1},
                    "planks": {"requirements": {"stick": 1}, "makes": 1},
                }
            ),
        ),
        ("a requirement of zero", _fields(items={"a": {"requirements": {"b": 0}, "makes": 1}})),
        (
            "a requirement beyond any number",
            _fields(items={"a": {"requirements": {"b": 10**400}, "makes": 10**400}}),
        ),
        ("a million items", _a_million_items),
        ("episodes below zero", _fields(episodes=-1)),
        ("episodes beyond any number", _fields(episodes=10**400)),
        (
            "a memory of other actions",
            _fields(memory={"successes": {"stick": {"fly": 1}}, "failures": {}}),
        ),
        (
            "a memory of huge counts",
            _fields(memory={"successes": {"stick": {"craft": 10**400}}, "failures": {}}),
        ),
        ("a run that is a list", _fields(run=[])),
    ]


def copy_of(folder: Path, place: Path) -> Path:
    """A copy of a folder whose large files are links to the same bytes."""
    return Path(shutil.copytree(folder, place, copy_function=os.link))
