"""Sweeps that give the same answers have the same digest, whatever was remembered before."""

import pytest
from ledger_samples import PROVENANCE, result_of, sweep_of_seeds, trial_number

from llm_planning.experiments.executors import Answers, LocalExecutor, run_groups
from llm_planning.experiments.grid import load_sweep
from llm_planning.experiments.ledger import Ledger
from llm_planning.sharing import sharing

SWEEP = """
name: games
model: none
domain: textgame
tasks: trap-door
planners: [mc-dml-puct, mc-dml-uct, uct]
settings: {moves: 2, remember: disk}
"""
WORK = {"seconds_engine", "seconds_valid_actions", "seconds_simulation", "interpreter_steps"}


@pytest.fixture
def played(tmp_path, monkeypatch):
    """Plays a sweep of a game; nothing of it is on disk at first."""
    monkeypatch.setenv("LLM_PLANNING_CACHE", str(tmp_path / "cache"))

    def play(name):
        (tmp_path / "games.yaml").write_text(SWEEP)
        sweep = load_sweep(tmp_path / "games.yaml")
        with Ledger.create(tmp_path / name, sweep.to_json(), PROVENANCE) as ledger:
            run_groups(
                sweep.trials,
                executor=LocalExecutor(answers=Answers.FRESH),
                ledger=ledger,
                retries=0,
                watch=lambda _: None,
            )
            return ledger.content_digest(), list(ledger.rows())

    return play


def test_what_is_remembered_changes_no_digest(played):
    with sharing():
        cold, rows = played("cold")
        warm, again = played("warm")
    read, _ = played("read")
    assert cold == warm == read
    assert {row.result.status for row in rows} == {"done"}
    assert [row.result.unrepeatable for row in rows] == [WORK, WORK, frozenset()]
    steps = [
        [row.result.metrics.get("interpreter_steps", 0) for row in some] for some in (rows, again)
    ]
    assert sum(steps[0]) > sum(steps[1]) == 0


def test_the_digest_leaves_out_the_metrics_that_say_so(tmp_path):
    digests = set()
    for number, metrics in enumerate(({"nodes": 7, "seconds": 1.0}, {"nodes": 7})):
        result = result_of(
            trial_number(0), metrics=metrics, unrepeatable=frozenset({"seconds"}), trace={}
        )
        with Ledger.create(tmp_path / str(number), sweep_of_seeds(1), PROVENANCE) as ledger:
            ledger.record(result, attempt=1, final=True)
            (row,) = ledger.rows()
            assert (row.result.metrics, row.result.unrepeatable) == (metrics, {"seconds"})
            digests.add(ledger.content_digest())
    assert len(digests) == 1
