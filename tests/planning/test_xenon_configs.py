"""The sweeps and published figures of XENON: what they run, print and measure."""

import functools
import re

import pytest

from llm_planning.environments.minecraft.book.rulebook import game_rules
from llm_planning.environments.minecraft.items import controller
from llm_planning.environments.minecraft.items.goals import GOAL_GROUPS_67, GOALS_67
from llm_planning.environments.minecraft.items.text_world import TextWorld
from llm_planning.experiments.grid import load_sweep
from llm_planning.experiments.papers import find_paper
from llm_planning.experiments.sweep_files import Trust
from llm_planning.planners.xenon.given_goal import true_knowledge
from llm_planning.planners.xenon.learning_report import MARKS
from llm_planning.planners.xenon.specs import SPECS
from llm_planning.roles import Engines
from llm_planning.running import prepare
from llm_serving.scripted import ScriptedEngine

PAPER = find_paper("xenon")
PUBLISHED = sorted(
    path.name.removesuffix(".published.yaml") for path in PAPER.folder.glob("*.published.yaml")
)
STUDENTS = tuple(f"students/half-{seed}/adapter" for seed in range(3))
SWEEPS = sorted(
    path.stem
    for path in PAPER.folder.glob("*.yaml")
    if path.suffixes == [".yaml"] and path.stem != "paper"
)


@functools.cache
def trials(sweep):
    return load_sweep(PAPER.folder / f"{sweep}.yaml", trust=Trust.of(STUDENTS)).trials


def keys(sweep):
    return {trial.key for trial in trials(sweep)}


LEARNED, TRUE = ("table18", "table19"), ("table20", "table21")
LEARNING = [table for table in PUBLISHED if trials(table)[0].domain == "minecraft-goals"]
"""Tables of learning runs."""


def figures(table):
    return [(row.label, row.published) for row in PAPER.table(table).rows]


HERE = [one for one in SWEEPS if "student" not in one and one != "figure26-asked"]
"""Sweeps of models that are here: no students, and not the two planners of the paper."""


@pytest.mark.parametrize("sweep", HERE)
def test_a_sweep_is_answered_by_the_oracle_or_the_bundled_model(sweep):
    oracle = ("none", "sticky-40" if sweep == "table6" else "table12")
    for trial in trials(sweep):
        # OracleActionPlanner and the two that draw actions ask no model.
        answered = (trial.model, trial.settings.get("roles", oracle[1]))
        assert answered in {oracle, ("smollm2-135m-instruct", "llm")}


HORIZONS = {
    "student-table5": {(3000, 1, 0)},
    "student-table16": {(3000, 1, 1500)},
    "student-table2": {(36000, 400, 0)},
    "student-figure25": {(300, None, None)},
}
"""Sweep of students -> steps, episodes and the step of the change: those of the paper."""


@pytest.mark.parametrize(("sweep", "horizon"), HORIZONS.items())
def test_students_have_the_papers_horizons_and_stand_beside_untaught_and_rules(sweep, horizon):
    answered = {}
    for trial in trials(sweep):
        if trial.planner not in {"select-random-fam", "select-ucb"}:
            by = (trial.model, trial.settings["roles"])
            answered.setdefault(by, []).append((trial.planner, trial.task, trial.seed))
        settings = trial.settings
        assert tuple(map(settings.get, ("steps", "episodes", "change_at"))) in horizon
    assert answered.keys() == {
        ("none", "rules"),
        *((model, "llm") for model in ("smollm2-135m-instruct", *STUDENTS)),
    }
    first, *others = answered.values()
    assert all(other == first for other in others)
    assert len({seed for _, _, seed in first}) == 5


def test_the_tables_of_students_print_what_the_paper_prints():
    for table in HORIZONS:
        printed = [row.published for row in PAPER.table(table.removeprefix("student-")).rows]
        for row in PAPER.table(table).rows:
            if row.published:
                assert any(row.published.items() <= figures.items() for figures in printed)


def test_self_correction_is_held_against_none_for_every_model():
    shown = [
        (one.first["model"], one.first["planner"], one.second["planner"], one.column)
        for one in PAPER.table("student-table5").compare
    ]
    pair = ("xenon-self-actions", "xenon-no-actions", "p00")
    assert shown == [(model, *pair) for model in ("smollm2-135m-instruct", *STUDENTS)]


@pytest.mark.parametrize(
    ("table", "sweep"),
    [("table16", "figure22"), ("table4", "figure6"), ("table2", "figure5"), ("table13", "figure5")],
)
def test_tables_that_another_sweep_serves(table, sweep):
    assert keys(table) <= keys(sweep)


def test_nothing_is_read_off_a_drawing():
    for table in LEARNING:
        if not table.startswith("figure") or table in {"figure24a", "figure24b"}:
            continue
        for label, published in figures(table):
            for figure in published.values():
                assert "about" in str(figure) or figure == 0.97, (table, label)


def metrics_of(table):
    """Measured column of a table -> the metric whose mean it is."""
    for column in PAPER.table(table).columns:
        for field in column.measure.fields if column.measure else ():
            if field.startswith("metrics."):
                yield column, field.removeprefix("metrics.")


@pytest.mark.parametrize("table", LEARNING)
def test_a_curve_stands_where_its_metric_was_taken(table):
    sweep = trials(table)
    for column, metric in metrics_of(table):
        match = re.fullmatch(r"\w+_(at|after)_(\d+)", metric)
        if match is None:
            continue
        unit = "steps" if match[1] == "at" else "episodes"
        (horizon,) = {trial.settings[unit] for trial in sweep}
        assert column.x == int(match[2])
        assert column.x in {round(horizon * mark / MARKS) for mark in range(1, MARKS + 1)}
        assert (unit == "steps") == all(trial.settings["episodes"] == 1 for trial in sweep)


async def test_every_metric_that_is_measured_is_reported():
    settings = {"roles": "table12", "steps": 20, "requirements": 3}
    prepared = prepare("xenon", task="67-goals", settings=settings)
    outcome = await prepared.run(Engines(ScriptedEngine({})), 0)
    for table in LEARNING:
        for column, metric in metrics_of(table):
            name = re.sub(r"_(at|after)_\d+$", "_at_20", metric)
            assert name in outcome.metrics, (table, column.key)


# Given goals --------------------------------------------------------------------------------------


def printed(tables):
    """Goal -> its row's figures."""
    rows = (row for table in tables for row in PAPER.table(table).rows)
    return {row.where["task"][0]: row.published for row in rows}


def test_the_tables_of_goals_have_a_row_for_each():
    for tables in (LEARNED, TRUE):
        assert set(printed(tables)) == set(GOALS_67)
    assert not printed(TRUE)["golden_sword"], "its row is missing in print"


async def test_plans_have_as_many_subgoals_as_the_paper_prints():
    """Tables 18 to 21; the rules and the aggregation are checked at once."""
    truth = true_knowledge(game_rules(), TextWorld(game_rules()).items, "bowl")
    for tables in (LEARNED, TRUE):
        for goal, row in printed(tables).items():
            assert len(truth.aggregated(goal, {})) == row.get("subgoals", 14), goal


@pytest.mark.parametrize(
    ("tables", "label"),
    [(LEARNED, "XENON (learned graph)"), (TRUE, "XENON* (true graph)")],
)
def test_printed_goals_have_the_printed_means_of_their_groups(tables, label):
    """Table 3 against Tables 18 to 21, whose rates are percentages of unequally many episodes."""
    (row,) = (
        row for row in PAPER.table("table3").rows if row.label == f"{label}, prior of Table 12"
    )
    goal_rows = printed(tables)
    for group, goals in GOAL_GROUPS_67.items():
        rates = [float(goal_rows[goal]["sr"]) / 100 for goal in goals if "sr" in goal_rows[goal]]
        assert sum(rates) / len(rates) == pytest.approx(
            float(row.published[group.lower()]), abs=0.016
        ), group
    overall = [float(row.published[group.lower()]) for group in GOAL_GROUPS_67]
    assert sum(overall) / 7 == pytest.approx(float(row.published["overall"]), abs=0.006)


def test_tables_on_the_simulated_controller_say_so():
    for name in ("table3", "table14", "table15", "table17", *LEARNED, *TRUE):
        table = PAPER.table(name)
        assert controller.LABEL in table.title
        assert "Simulated controller" in " ".join(table.notes)


def test_the_rows_of_figure_25_are_its_planners():
    planners = {spec.name for spec in SPECS if spec.name.startswith("select-")}
    assert {row.where["planner"][0] for row in PAPER.table("figure25").rows} == planners
