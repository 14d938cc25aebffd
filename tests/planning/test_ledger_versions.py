"""Ledgers of version 1: told as they are, in the words of today, and resumed no more."""

import csv
import gzip
import hashlib
import json
import re
import sqlite3
from contextlib import closing
from pathlib import Path

import pytest
from command_line import invoke as command
from ledger_samples import PROVENANCE, USAGE, result_of, sweep_of_seeds, trial_number

from llm_planning.experiments.ledger import LEDGER_FILE, Ledger, LedgerError
from llm_planning.trace_file import summary_of

GOLDEN = Path(__file__).parents[1] / "golden" / "ledger-version-1.sql"
KEYS = re.findall(r"'([0-9a-f]{64})','{", GOLDEN.read_text("utf-8"))
LINE = b'{"key":"goal","value":"a pickaxe"}\n'


@pytest.fixture
def old(tmp_path):
    """Four trials: one done, with a trace, one failed for good, one tried once, one not begun."""
    folder = tmp_path / "old"
    (folder / "traces").mkdir(parents=True)
    (folder / "traces" / f"{KEYS[0]}.jsonl.gz").write_bytes(gzip.compress(LINE))
    with closing(sqlite3.connect(folder / LEDGER_FILE)) as connection:
        connection.executescript(GOLDEN.read_text("utf-8"))
    return folder


def test_its_trials_are_those_of_today(old):
    with Ledger.open(old) as ledger:
        pickaxe, plain, puct, uct = ledger.trials
        row, lost = ledger.rows()
        assert ledger.finished() == {KEYS[0], KEYS[2]}
        assert ledger.attempts() == {KEYS[3]: 1}
        assert summary_of(ledger.read_events(row)) == {"goal": "a pickaxe"}
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
    assert (row.key, row.result.trial) == (KEYS[0], pickaxe)
    assert (row.result.success, row.result.plan) == (None, ("dig",))
    assert row.result.metrics["predicted_success"] is True
    assert (lost.result.trial, lost.result.error, lost.attempts) == (puct, "E: no", 2)
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
        assert [row.result.usage["propose"] for row in ledger.rows()] == [USAGE] * 3
    assert "prompts" not in second
    told = {role: list(texts.values()) for role, texts in first["prompts"]["too"].items()}
    assert told == {
        "propose": ["You propose.", "You go on."],
        "reward": ["You judge. \\ud800"],
    }
    propose = first["prompts"]["too"]["propose"]
    assert propose[hashlib.sha256(b"You propose.").hexdigest()] == "You propose."
