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
seeds: [{seed}]
planners: [mc-dml-puct, mc-dml-uct, uct]
settings: {{moves: 2, remember: disk}}
"""
WORK = {"seconds_engine", "seconds_valid_actions", "seconds_simulation", "interpreter_steps"}


@pytest.fixture
def played(tmp_path, monkeypatch):
    """Plays a sweep of a game; nothing of it is on disk at first."""
    monkeypatch.setenv("LLM_PLANNING_CACHE", str(tmp_path / "cache"))

    def play(name, seed=0):
        (tmp_path / "games.yaml").write_text(SWEEP.format(seed=seed))
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
    assert played("other", seed=1)[0] != cold


@pytest.mark.parametrize(
    ("metrics", "same"),
    [
        ({"nodes": 7, "seconds": 2.0}, True),
        ({"nodes": 7}, True),
        ({"nodes": 8, "seconds": 1.0}, False),
        ({"nodes": 7, "seconds": 1.0, "more": 1}, False),
    ],
)
def test_the_digest_leaves_out_the_metrics_that_say_so(tmp_path, metrics, same):
    digests = []
    for name, measured in (("one", {"nodes": 7, "seconds": 1.0}), ("other", metrics)):
        result = result_of(
            trial_number(0), metrics=measured, unrepeatable=frozenset({"seconds"}), trace={}
        )
        with Ledger.create(tmp_path / name, sweep_of_seeds(1), PROVENANCE) as ledger:
            ledger.record(result, attempt=1, final=True)
            (row,) = ledger.rows()
            assert (row.result.metrics, row.result.unrepeatable) == (measured, {"seconds"})
            digests.append(ledger.content_digest())
    assert (digests[0] == digests[1]) is same
