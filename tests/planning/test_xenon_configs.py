"""The sweeps and published figures of XENON's learning runs: what they run, print and measure."""

import functools
import re

import pytest

from llm_planning.experiments.grid import load_sweep
from llm_planning.experiments.papers import find_paper
from llm_planning.experiments.wording import printed_value
from llm_planning.planners.xenon.learning_report import MARKS
from llm_planning.registry import find_planner
from llm_planning.roles import Engines
from llm_planning.specs import Problem
from llm_serving.scripted import ScriptedEngine

PAPER = find_paper("xenon")
SIZES = {
    "ablation_plus": 10 * 4 * 15,
    "ablation_plus-small": 10 * 4 * 3,
    "figure5": 6 * 2 * (5 + 2),
    "figure5-small": 6 * 2 * (2 + 1),
    "figure6": 6 * 10 * (15 + 15),
    "figure6-small": 6 * 10 * (15 + 3),
    "figure7": 13 * (15 + 15),
    "figure7-small": 13 * (15 + 3),
    "figure8": 13 * (3 + 1),
    "figure22": 6 * 3 * (15 + 15),
    "figure22-small": 6 * 3 * (15 + 3),
    "figure23": 6 * (15 + 15),
    "figure23-small": 6 * (15 + 3),
    "figure24a": 2 * 3 * (15 + 15),
    "figure24a-small": 2 * 3 * (15 + 3),
    "figure24b": 2 * 4 * (15 + 15),
    "figure24b-small": 2 * 4 * (15 + 3),
    "figure26": 6 * 2 * (15 + 15),
    "figure26-small": 6 * 2 * (15 + 3),
    "table2": 6 * (5 + 2),
    "table4": 10 * (15 + 15),
    "table5": 6 * 4 * (15 + 15),
    "table12": 15 + 2 * 15,
    "table13": 6 * (5 + 2),
    "table16": 6 * 3 * (15 + 15),
    "wider_pool": (6 + 5 + 3) * 2 * 15,
}
"""Trials of each sweep: agents x settings x seeds, of Table 12's prior and of the model."""
TABLES = sorted({sweep.removesuffix("-small") for sweep in SIZES})


@functools.cache
def trials(sweep):
    return load_sweep(PAPER.folder / f"{sweep}.yaml").trials


def keys(sweep):
    return {trial.key for trial in trials(sweep)}


def test_every_learning_sweep_is_counted():
    known = {path.stem for table in TABLES for path in PAPER.sweeps(table)}
    assert known == set(SIZES)


@pytest.mark.parametrize("sweep", SIZES)
def test_the_grids_have_the_trials_that_their_tables_need(sweep):
    assert len(trials(sweep)) == SIZES[sweep]
    assert {(trial.model, trial.settings["prior"]) for trial in trials(sweep)} <= {
        ("none", "table12"),
        ("smollm2-135m-instruct", "model"),
    }


def test_only_what_a_table_is_about_differs():
    levels = {(t.settings["requirements"], t.settings["actions"]) for t in trials("figure6")}
    assert levels == {
        pair for level in range(4) for pair in ((level, 0), (0, level), (level, level))
    }
    default = {"x0": 2, "c0": 3, "alpha_s": 2, "alpha_i": 8}
    for trial in trials("figure7"):
        assert sum(trial.settings[key] != value for key, value in default.items()) <= 1
    changing = {
        (t.settings["requirements"], t.settings["actions"], t.settings["change_at"])
        for t in trials("figure22")
    }
    assert changing == {(3, 0, 1500), (0, 3, 1500), (3, 3, 1500)}
    assert {t.settings["episodes"] for t in trials("figure5") + trials("figure8")} == {400}


@pytest.mark.parametrize(
    ("table", "sweep"),
    [("table16", "figure22"), ("table4", "figure6"), ("table2", "figure5"), ("table13", "figure5")],
)
def test_tables_that_another_sweep_serves(table, sweep):
    assert keys(table) <= keys(sweep)


def test_agents_with_all_names_are_told_the_same_names():
    names = {trial.planner: trial.settings["names"] for trial in trials("ablation_plus")}
    assert names.pop("xenon") == "goals"
    assert set(names.values()) == {"all"}
    assert {"sc", "adam", "deckard", "rand", "xenon-plus"} < set(names)


def printed(table):
    return {
        row.label: list(row.published.values()) for row in PAPER.table(table).rows if row.published
    }


def test_the_ablation_as_it_was_printed():
    numbers = [list(map(printed_value, figures)) for figures in printed("table5").values()]
    assert numbers == [
        [0.97, 0.97, 0.97, 0.97],
        [0.93, 0.93, 0.12, 0.12],
        [0.84, 0.84, 0.12, 0.12],
        [0.57, 0.30, 0.57, 0.29],
        [0.53, 0.13, 0.53, 0.13],
        [0.46, 0.13, 0.19, 0.11],
    ]


def test_other_tables_as_they_were_printed():
    assert printed("table16") == {
        "XENON": ["1.0", "1.0", "1.0"],
        "SC": ["0.80", "0.0", "0.0"],
        "ADAM": [0.83, "0.0", "0.0"],
        "DECKARD": [0.49, "0.0", "0.0"],
        "RAND": [0.29, "0.0", "0.0"],
    }
    assert [printed_value(value) for (value,) in printed("table4").values()] == [
        *(16, 14, 14, 14, 11, 11, 11, 9, 9, 9)
    ]
    assert {label: float(value) for label, (value,) in printed("table13").items()} == {
        "XENON": 0.51,
        "SC": 0.25,
        "DECKARD": 0.25,
        "ADAM": 0.0,
        "RAND": 0.02,
    }
    (prior,) = printed("table12").values()
    assert list(map(printed_value, prior)) == pytest.approx(
        [75, 0.23, 0.08, 0.08, 0.23, 0.57, 0.57, 2.74, 2.05, -0.55]
    )


def test_nothing_is_read_off_a_drawing():
    for table in TABLES:
        if not table.startswith("figure") or table in {"figure24a", "figure24b"}:
            continue
        for row in PAPER.table(table).rows:
            for figure in row.published.values():
                assert "about" in str(figure) or figure == 0.97, (table, row.label)


def metrics_of(table):
    """The measured columns of a table, each with the metric that it is the mean of."""
    for column in PAPER.table(table).columns:
        if column.measure is not None and column.measure.field.startswith("metrics."):
            yield column, column.measure.field.removeprefix("metrics.")


@pytest.mark.parametrize("table", TABLES)
def test_a_curve_stands_where_its_metric_was_taken(table):
    sweep = trials(table)
    for column, metric in metrics_of(table):
        found = re.fullmatch(r"\w+_(at|after)_(\d+)", metric)
        if found is None:
            continue
        unit = "steps" if found[1] == "at" else "episodes"
        (horizon,) = {trial.settings[unit] for trial in sweep}
        assert column.x == int(found[2])
        assert column.x in {round(horizon * mark / MARKS) for mark in range(1, MARKS + 1)}
        assert (unit == "steps") == all(trial.settings["episodes"] == 1 for trial in sweep)


async def test_every_metric_that_is_measured_is_reported():
    spec = find_planner("xenon")
    outcome = await spec.run(
        Problem(domain="minecraft", task="67-goals", world=None),
        engines=Engines(ScriptedEngine({})),
        settings=spec.settings.read({"prior": "table12", "steps": 20, "requirements": 3}),
        seed=0,
    )
    for table in TABLES:
        for column, metric in metrics_of(table):
            name = re.sub(r"_(at|after)_\d+$", "_at_20", metric)
            assert name in outcome.metrics, (table, column.key)
