"""Ledgers of version 1: told as they are, in the words of today, and resumed no more."""

import csv
import gzip
import hashlib
import json
import sqlite3

import pytest
from command_line import invoke as command
from ledger_samples import PROVENANCE, USAGE, result_of, sweep_of_seeds, trial_number

from llm_planning.experiments.ledger import LEDGER_FILE, Ledger, LedgerError

# As the first ledgers were made: what is read must not change with the code.
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
TRIALS = [
    {
        "planner": planner,
        "environment": environment,
        "task": task,
        "model": "tiny",
        "world_model": world,
        "seed": seed,
        "settings": {"k": 1, "d": 8, "iter": 5} if planner == "too" else {"C": 50},
    }
    for planner, environment, task, world, seed in (
        ("too", "minecraft", "craft-a-diamond-pickaxe", "other/model", 0),
        ("too", "minecraft", "craft-a-diamond-pickaxe", None, 1),
        ("puct", "textgame", "zork1", None, 0),
        ("uct", "textgame", "zork1", None, 0),
    )
]
KEYS = [hashlib.sha256(json.dumps([1, trial]).encode()).hexdigest() for trial in TRIALS]
USED = {"calls": 3, "prompt_tokens": 90, "completion_tokens": 10}
LINE = b'{"key":"goal","value":"a pickaxe"}\n'


@pytest.fixture
def old(tmp_path):
    """Four trials: one done, with a trace, one failed for good, one tried once, one not begun."""
    folder = tmp_path / "old"
    (folder / "traces").mkdir(parents=True)
    (folder / "traces" / f"{KEYS[0]}.jsonl.gz").write_bytes(gzip.compress(LINE))
    usage = json.dumps({"propose": USED})
    sha256 = hashlib.sha256(LINE).hexdigest()
    connection = sqlite3.connect(folder / LEDGER_FILE)
    for statement in TABLES:
        connection.execute(statement)
    connection.execute("PRAGMA application_id = 0x4C4C504C")
    connection.execute("PRAGMA user_version = 1")
    connection.execute("INSERT INTO sweep VALUES (?)", (json.dumps({"name": "o", "retries": 1}),))
    connection.executemany(
        "INSERT INTO trials VALUES (?, ?, ?)",
        [(n, key, json.dumps(one)) for n, (key, one) in enumerate(zip(KEYS, TRIALS, strict=True))],
    )
    known = json.dumps({"commit": "c0ffee", "templates": {"a.j2": "00"}})
    connection.execute("INSERT INTO provenances VALUES ('p', ?)", (known,))
    measured = json.dumps({"nodes": 7, "success_basis": "predicted"})
    done = (0, "done", 1, '["dig"]', measured, usage, None, 1, 1.0, 2.0, "p", sha256, 9)
    failed = (2, "failed", None, "[]", "{}", "{}", "E: no", 2, 1.0, 2.0, "p", None, None)
    for row in (done, failed):
        connection.execute(f"INSERT INTO results VALUES ({', '.join('?' * 13)})", row)
    for number in (2, 3):
        tried = (number, 1, "{}", "E: no", 1.0, 2.0, "p")
        connection.execute("INSERT INTO failed_attempts VALUES (?, ?, ?, ?, ?, ?, ?)", tried)
    connection.commit()
    connection.close()
    return folder


def test_its_trials_are_those_of_today(old):
    with Ledger.open(old) as ledger:
        pickaxe, plain, puct, uct = ledger.trials
        row, lost = ledger.rows()
        assert ledger.finished() == {KEYS[0], KEYS[2]}
        assert ledger.attempts() == {KEYS[3]: 1}
        assert ledger.read_trace(row) == {"goal": "a pickaxe"}
        assert ledger.provenances["p"]["templates"] == {"a.j2": "00"}
        assert ledger.sweep["trials"][0] == pickaxe.to_json()
        digest = ledger.content_digest()
    assert (pickaxe.planner, pickaxe.domain, pickaxe.settings["d"]) == ("too", "minecraft", 8)
    assert pickaxe.role_models == dict.fromkeys(
        ("dynamics", "reward", "termination"), "other/model"
    )
    assert plain.role_models == plain.engines == {}
    assert (puct.planner, uct.planner, uct.domain) == ("mc-dml-puct", "mc-dml-uct", "textgame")
    # The model had judged its own plan; nobody had asked a world.
    assert (row.key, row.trial, row.success, row.plan) == (KEYS[0], pickaxe, None, ("dig",))
    assert row.metrics["predicted_success"] is True
    assert (lost.trial, lost.error, lost.attempts) == (puct, "E: no", 2)
    with Ledger.open(old) as ledger:
        assert ledger.content_digest() == digest


def invoke(*arguments):
    ended = command(*arguments)
    return ended.exit_code, ended.stdout, ended.stderr


def test_it_is_reported_by_every_command(old, tmp_path):
    code, told, _ = invoke("sweep", "status", old, "--json")
    assert code == 0
    status = json.loads(told)
    assert (status["total"], status["done"], status["failed"], status["left"]) == (4, 1, 1, 2)
    code, told, _ = invoke("sweep", "report", old, "--by", "planner", "--json")
    assert code == 0
    planners = [group["by"]["planner"] for group in json.loads(told)["groups"]]
    assert set(planners) == {"too", "mc-dml-puct", "mc-dml-uct"}
    code, _, _ = invoke("sweep", "export", old, "--out", tmp_path / "old.csv")
    assert code == 0
    with (tmp_path / "old.csv").open() as lines:
        first, second = csv.DictReader(lines)
    assert (first["key"], first["role_models.reward"]) == (KEYS[0], "other/model")
    assert (second["planner"], second["domain"]) == ("mc-dml-puct", "textgame")
    assert not any("template" in column for column in first)
    code, told, _ = invoke("report", "paper", "too", "figure3", "--from", old)
    assert code == 0
    assert "other/model" in told
    assert "0.1k" in told  # 90 tokens read and 10 written


def test_it_is_not_resumed(old):
    content = (old / LEDGER_FILE).read_bytes()
    with pytest.raises(LedgerError, match="has version 1, which is reported but not resumed"):
        Ledger.resume(old, PROVENANCE)
    code, _, said = invoke("sweep", "resume", old)
    assert code == 1
    assert len(said.splitlines()) == 1
    assert "begin the sweep anew in another folder" in said
    assert (old / LEDGER_FILE).read_bytes() == content


def test_what_prompts_say_is_kept_once_for_each_provenance(tmp_path):
    said = {"propose": ("You propose.", "You go on."), "reward": ("You judge. \ud800",)}
    with Ledger.create(tmp_path / "new", sweep_of_seeds(3), PROVENANCE) as ledger:
        for seed in range(2):
            ledger.record(result_of(trial_number(seed), prompts=said), attempt=1, final=True)
    with Ledger.resume(tmp_path / "new", {"commit": "beef"}) as ledger:
        ledger.record(result_of(trial_number(2)), attempt=1, final=True)
        first, second = ledger.provenances.values()
        assert [row.usage["propose"] for row in ledger.rows()] == [USAGE] * 3
    assert "prompts" not in second
    told = {role: list(texts.values()) for role, texts in first["prompts"]["too"].items()}
    assert told == {
        "propose": ["You propose.", "You go on."],
        "reward": ["You judge. \\ud800"],
    }
    propose = first["prompts"]["too"]["propose"]
    assert propose[hashlib.sha256(b"You propose.").hexdigest()] == "You propose."
