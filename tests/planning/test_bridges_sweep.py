"""Sweeps over worlds of other people: all tasks of a source, and what cannot be opened."""

import json
import time

import pytest
from command_line import invoke
from test_bridges_own_words import LAMP

from llm_planning.environments.bridges import gymnasium_worlds
from llm_planning.experiments.ledger import Ledger

WORLDS = ("FrozenLake-v1", "Pendulum-v1", "CliffWalking-v1")
PROBLEM = "(define (problem {name}) (:domain lamp) (:init (broken)) (:goal ({goal})))"


@pytest.fixture
def sweep(tmp_path, monkeypatch):
    """Runs a sweep of `uct` without a model; returns its report and the rows of its ledger."""
    monkeypatch.chdir(tmp_path)

    def sweep(**keys):
        said = {"name": "mine", "model": "none", "planners": "uct", "retries": 0, "seeds": 1}
        said["settings"] = {"simulations": 5, "moves": 3}
        (tmp_path / "sweep.yaml").write_text(json.dumps(said | keys))
        ended = invoke("sweep", "run", "sweep.yaml", "--json", "--concurrency=1", "--trust=.")
        with Ledger.open(tmp_path / "sweeps" / "mine") as ledger:
            return ended, [row.result for row in ledger.rows()]

    return sweep


def test_all_problems_of_a_folder(sweep, tmp_path):
    folder = tmp_path / "lamps"
    folder.mkdir()
    (folder / "domain.pddl").write_text(LAMP)
    for name in ("first", "second"):
        (folder / f"{name}.pddl").write_text(PROBLEM.format(name=name, goal="lit"))
    (folder / "wrong.pddl").write_text(PROBLEM.format(name="wrong", goal="dark"))
    ended, rows = sweep(domain="pddl:lamps", tasks="all")
    assert ended.exit_code == 0, ended.stderr
    assert [(row.trial.task, row.success) for row in rows] == [
        *(("first", True), ("second", True), ("wrong", None))
    ]
    assert rows[2].error.startswith("DomainError: problem=lamps/wrong.pddl is not read as PDDL: ")
    assert "\n" not in rows[2].error


def test_what_a_file_of_words_reads_stays_the_same_in_a_ledger(sweep, tmp_path):
    (tmp_path / "dear.py").write_text(
        "from pathlib import Path\n"
        "DEAR = Path(__file__).with_name('dear.txt').read_text()\n"
        "def state(text, state):\n    return f'{DEAR}: {text}'\n"
    )
    (tmp_path / "dear.txt").write_text("dear model")
    time.sleep(0.02)  # a file system may keep time in steps of some milliseconds
    settings = {"simulations": 5, "moves": 3, "words": "dear.py"}
    ended, rows = sweep(domain="gymnasium:CliffWalking-v1", tasks="all", settings=settings)
    assert ended.exit_code == 0, ended.stderr
    assert [row.files.keys() for row in rows] == [{"dear.txt"}]
    (tmp_path / "dear.txt").write_text("beloved model")
    ended = invoke("sweep", "resume", "sweeps/mine", "--trust", ".")
    assert ended.exit_code == 1
    assert ended.stderr.startswith("error: dear.txt is not what it was when the sweep began: ")


def test_all_worlds_of_a_source(sweep, monkeypatch):
    monkeypatch.setattr(gymnasium_worlds, "_registered", lambda: WORLDS)
    ended, rows = sweep(domain="gymnasium", tasks="all")
    counts = json.loads(ended.stdout)
    assert (counts["done"], counts["failed"]) == (2, 1)
    assert [row.trial.task for row in rows if row.error is None] == [WORLDS[0], WORLDS[2]]
    assert rows[1].error.startswith("DomainError: Pendulum-v1 has the actions Box")
    assert "\n" not in rows[1].error
