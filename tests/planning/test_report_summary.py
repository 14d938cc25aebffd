"""Runs in groups, whatever their planners."""

import shutil
from dataclasses import replace

import pytest
from report_ledgers import result_of, trial_of, write_ledger

from llm_planning.experiments.ledger import Ledger
from llm_planning.experiments.measures import MeasureError
from llm_planning.experiments.runs import (
    UnknownFieldError,
    mark_equal_seeds,
    read_trials,
    result_record,
    runs_of,
    trial_record,
)
from llm_planning.experiments.statistics import ONE_RUN
from llm_planning.experiments.summary import summary
from llm_serving.request import Usage

RESULTS = (
    result_of(trial_of("cot", d=2)),
    result_of(trial_of("too", k=1, d=2), calls=10, success=True),
    result_of(trial_of("too", k=1, d=2, seed=1), calls=30, success=False),
    result_of(trial_of("too", k=3, d=2), calls=50, success=True),
    result_of(trial_of("too", k=3, d=2, seed=1), failed=True),
)
DONE = [result_record(result, attempts=1) for result in RESULTS]
RUNS = runs_of(DONE)
UNFINISHED = runs_of([*DONE, trial_record(trial_of("too", k=3, d=2, seed=2))])


def test_groups_by_whatever_differs_but_tasks_and_seeds():
    table = summary(UNFINISHED)
    assert table.by == ("planner", "settings.k")
    assert table.header == (
        *("planner", "k", "done", "failed", "not run"),
        *("success", "options", "calls", "tokens", "seconds"),
    )
    assert [group.values for group in table.groups] == [("cot", None), ("too", 1), ("too", 3)]
    assert [(group.done, group.failed, group.pending) for group in table.groups] == [
        (1, 0, 0),
        (2, 0, 0),
        (1, 1, 1),
    ]
    calls = table.groups[1].measured["calls"].estimate
    assert (calls.value, calls.n) == (20.0, 2)
    assert calls.low == 0.0
    assert calls.high == pytest.approx(20 + 12.706205 * 10, rel=1e-6)  # t_{0.975, 1} s/√2


def test_cells_are_texts():
    table = summary(UNFINISHED)
    assert table.cells[0] == ("cot", "–", "1", "0", "0", "not judged", "2", "1", "110", "2")
    assert table.cells[2] == ("too", "3", "1", "1", "1", "100%", "2", "50", "5,500", "2")
    assert all(len(cells) == len(table.header) for cells in table.cells)


def test_groups_by_what_is_asked_in_short_names_too():
    table = summary(RUNS, by=["k", "task"])
    assert table.by == ("settings.k", "task")
    assert [group.values for group in table.groups] == [(None, "mine"), (1, "mine"), (3, "mine")]


def test_some_runs_that_nobody_judged():
    (group,) = summary(RUNS, by=["domain"]).cells
    assert group[4].startswith("67% [")
    assert group[4].endswith("] (1 without)")


def test_an_unknown_field():
    with pytest.raises(UnknownFieldError, match="no 'planer' to group by; did you mean planner"):
        summary(RUNS, by=["planer"])


def test_means_of_what_planners_and_worlds_measure_themselves():
    """A sweep of XENON is about `ega`, one of text games about scores."""
    other = result_of(trial_of("react", d=2))
    shares = [
        replace(result, metrics={**result.metrics, "ega": share, "why": "tired"})
        for result, share in zip(RESULTS[:3], (0.5, 0.25, 0.75), strict=True)
    ]
    records = [result_record(result, attempts=1) for result in (*shares, *RESULTS[3:], other)]
    table = summary(runs_of(records), by=["planner", "k"], means=["ega", "metrics.ega", "calls"])
    assert table.header[-2:] == ("seconds", "ega")
    assert [cells[-1] for cells in table.cells] == ["0.5", "0.5 [-2.68, 3.68]", "–", "–"]
    begun = runs_of([trial_record(trial_of("too", k=1))])
    assert summary(begun, means=["ega"]).cells[0][-1] == "–"
    with pytest.raises(UnknownFieldError, match="no run has 'eag' to measure; did you mean ega"):
        summary(runs_of(records), means=["eag"])
    with pytest.raises(MeasureError, match=r"metrics\.why is 'tired'"):
        summary(runs_of(records), means=["why"])


def test_a_time_leaves_out_runs_that_the_cache_answered_and_says_of_how_many():
    """Who asks nobody, and who asks the same again in a run, took their time themselves."""
    told = (("too", 4, 4, 0.01), ("too", 4, 1, 3.0), ("too", 4, 0, 5.0), ("cot", 1, 1, 0.01))
    results = [
        replace(
            result_of(trial_of(planner, seed=seed)),
            usage={"propose": Usage(calls=calls, replayed=replayed)},
            seconds=seconds,
            metrics={"seconds_decision": seconds},
        )
        for seed, (planner, calls, replayed, seconds) in enumerate((*told, ("uct", 0, 0, 7.0)))
    ]
    records = [result_record(result, attempts=1) for result in results]
    table = summary(runs_of(records), by=["planner"], means=["seconds_decision"])
    times = [cells[-2:] for cells in table.cells]
    assert times == [
        ("4 [0, 16.7] (1 of 3 replayed)", "4 [-8.71, 16.7] (1 of 3 replayed)"),
        ("– (1 of 1 replayed)",) * 2,
        ("7", "7"),
    ]


def doing(planner, seed, *, done, task="mine", seconds=1.0):
    """A result whose trace says what was done, and which seed it had."""
    return replace(
        result_of(trial_of(planner, seed=seed, task=task), success=True),
        seconds=seconds,
        plan=tuple(done),
        trace={"seed": seed},
        events=[{"type": "execution", "at": seconds, "option": option} for option in done],
    )


def test_seeds_that_change_nothing_count_as_one_run(tmp_path):
    results = [doing("cot", seed, done="ab", seconds=1.0 + seed) for seed in range(4)]
    results += [doing("too", seed, done="ab" if seed else "ba") for seed in range(4)]
    results += [doing("uct", seed, done=2 * task, task=task) for task in "xyz" for seed in range(4)]
    with Ledger.open(write_ledger(tmp_path, results)) as ledger:
        table = summary(mark_equal_seeds(read_trials(ledger), ledger))
    assert [cells[1:] for cells in table.cells] == [
        ("4 (equal)", "0", "0", "100%", "2", "1", "110", "2.5 [0.446, 4.55]"),
        ("4", "0", "0", "100% [51, 100]", "2", "1", "110", "1"),
        ("12 (equal)", "0", "0", "100% [44, 100]", "2", "1", "110", "1"),
    ]
    assert table.groups[0].measured["success"].estimate.reason == ONE_RUN


def test_runs_without_a_trace_are_not_compared(tmp_path):
    results = [result_of(trial_of("cot", seed=seed), success=True) for seed in range(4)]
    with Ledger.open(write_ledger(tmp_path, results)) as ledger:
        (cells,) = summary(mark_equal_seeds(read_trials(ledger), ledger)).cells
    assert cells[1:5] == ("4", "0", "0", "100% [51, 100]")


def test_a_report_needs_no_traces(tmp_path):
    results = [doing("cot", seed, done="ab") for seed in range(4)]
    folder = write_ledger(tmp_path, results)
    shutil.rmtree(folder / "traces")
    with Ledger.open(folder) as ledger:
        (cells,) = summary(mark_equal_seeds(read_trials(ledger), ledger)).cells
    assert cells[1] == "4"


def test_no_rows():
    assert summary(runs_of([])).groups == ()
