"""Published files: what they may say, how a wrong one is told, and those that come with us."""

import re

import pytest

from llm_planning.experiments.grid import load_sweep
from llm_planning.experiments.papers import PublishedError, find_paper, load_table, papers
from llm_planning.experiments.runs import Runs, trial_record
from llm_planning.experiments.wording import printed_value, write_counts, write_number

COLUMNS = "columns: [{key: a, label: A, measure: {mean: calls}}]"
ROWS = "rows: [{label: r, where: {planner: too}}]"


@pytest.mark.parametrize(
    ("text", "value"),
    [
        (0.75, 0.75),
        (3, 3.0),
        ("0.9k", 900.0),
        ("347k", 347_000.0),
        ("1.5M", 1_500_000.0),
        ("66.7%", 0.667),
        ("2 / 3", 2 / 3),
        ("0/0", None),
        ("1,234", 1234.0),
        ("85.3 ± 2.1", 85.3),
        ("−0.5", -0.5),
        ("not published", None),
        ("-", None),
        ("N/A", None),
        ("3rd", None),
    ],
)
def test_numbers_that_papers_print(text, value):
    assert printed_value(text) == (None if value is None else pytest.approx(value))


@pytest.mark.parametrize(
    ("value", "form", "text"),
    [
        (0, "number", "0"),
        (0.0123456, "number", "0.0123"),
        (1.0, "number", "1"),
        (99.96, "number", "100"),
        (1234.5, "number", "1,234"),
        (-7.126, "number", "-7.13"),
        (1, "thousands", "0.001k"),
        (912.4, "thousands", "0.912k"),
        (346_912, "thousands", "347k"),
        (2 / 3, "percent", "66.7%"),
        (1.0, "percent", "100%"),
    ],
)
def test_numbers_that_are_written(value, form, text):
    assert write_number(value, form) == text


def test_counts_that_are_written():
    assert write_counts(1, 0, 0) == "1 run"
    assert write_counts(3, 2, 1) == "3 runs, 2 failed, 1 not run yet"


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("[", "is not YAML"),
        ("just a text", "write a mapping"),
        (f"{COLUMNS}\n{ROWS}", "title: Field required"),
        (f"title: t\n{COLUMNS}\nrows: []", "rows: Tuple should have at least 1 item"),
        (f"title: t\n{COLUMNS}\n{ROWS}\nnote: [x]", "note: unknown key; did you mean notes"),
        (
            f"title: t\ncolumns: [{{key: a, label: A, mesure: {{mean: calls}}}}]\n{ROWS}",
            "columns.0.mesure: unknown key; did you mean measure",
        ),
        (
            f"title: t\ncolumns: [{{key: a, label: A, measure: {{man: calls}}}}]\n{ROWS}",
            "columns.0.measure.man: unknown key; did you mean mean",
        ),
        (
            f"title: t\ncolumns: [{{key: a, label: A, measure: {{mean: cals}}}}]\n{ROWS}",
            "columns.0.measure: unknown field 'cals'; did you mean calls",
        ),
        (
            f"title: t\ncolumns: [{{key: a, label: A, measure: {{}}}}]\n{ROWS}",
            "name one of mean, median and rate",
        ),
        (
            f"title: t\ncolumns: [{{key: a, label: A}}]\n{ROWS}",
            "columns.0: give it either measure or cited",
        ),
        (
            "title: t\ncolumns: [{key: a, label: A, measure: {rate: success, per: task}}]\n" + ROWS,
            "a rate per group needs within",
        ),
        (
            "title: t\ncolumns: [{key: a, label: A, measure: {median: calls, per: task}}]\n" + ROWS,
            "a median knows no groups",
        ),
        (
            "title: t\ncolumns: [{key: a, label: A, measure: {mean: calls, within: max}}]\n" + ROWS,
            "within=max needs per",
        ),
        (f"title: t\n{COLUMNS}\nrows: [{{label: r}}]", "rows.0: give it one of where, each"),
        (f"title: t\n{COLUMNS}\nrows: [{{where: {{}}}}]", "rows.0: give it a label"),
        (
            f"title: t\n{COLUMNS}\nrows: [{{label: r, where: {{planer: too}}}}]",
            "rows.0.where: unknown field 'planer'; did you mean planner",
        ),
        (
            f"title: t\n{COLUMNS}\nrows: [{{label: r, where: {{}}, published: {{b: 1}}}}]",
            "row 'r' has a figure for 'b'",
        ),
        (
            f"title: t\n{COLUMNS}\nrows: [{{each: {{success: [true]}}}}]",
            "each takes fields of a trial, not 'success'",
        ),
        (
            f"title: t\n{COLUMNS}\nrows: [{{each: {{planner: all}}, published: {{a: 1}}}}]",
            "rows made by each have no published figures",
        ),
        (
            f"title: t\n{COLUMNS}\n{ROWS}\ncompare: [{{column: b, first: {{seed: 1}}, "
            "second: {seed: 2}}]",
            "unknown column 'b'; known: a",
        ),
        (
            f"title: t\n{COLUMNS}\n{ROWS}\ncompare: [{{column: a, first: {{seed: 1}}, "
            "second: {task: x}}]",
            "first and second must name the same fields",
        ),
        (f"title: t\n{COLUMNS}\n{ROWS}\nplot: {{kind: points, x: a}}", "plot: points need x and y"),
        (
            f"title: t\n{COLUMNS}\n{ROWS}\nplot: {{kind: lines, x: b, y: a}}",
            "plot: x='b' is neither a column nor a trial's field",
        ),
        (
            f"title: t\n{COLUMNS}\n{ROWS}\nsetup: [{{label: l, field: calls, paper: 1}}]",
            "setup.0.field: 'calls' is no field of a trial",
        ),
        (
            "title: t\ncolumns: [{key: a, label: A, cited: c}, {key: a, label: A, cited: c}]\n"
            + ROWS,
            "two columns have the same key",
        ),
    ],
)
def test_a_wrong_file_is_told_by_key_and_remedy(tmp_path, text, said):
    path = tmp_path / "t.published.yaml"
    path.write_text(text)
    with pytest.raises(PublishedError, match=re.escape(said)) as caught:
        load_table(path)
    assert str(path) in str(caught.value)


def test_a_missing_file(tmp_path):
    with pytest.raises(PublishedError, match="there is no such file"):
        load_table(tmp_path / "none.yaml")


def test_a_wrong_paper(tmp_path):
    (tmp_path / "p").mkdir()
    (tmp_path / "p" / "paper.yaml").write_text("title: P\ncitation: c\nsetups: []")
    with pytest.raises(PublishedError, match="setups: unknown key; did you mean setup"):
        find_paper("p", tmp_path)


def shipped():
    for name in papers():
        paper = find_paper(name)
        for table in paper.tables():
            for sweep in paper.sweeps(table):
                yield pytest.param(paper, table, sweep, id=f"{name}-{sweep.stem}")


@pytest.mark.parametrize(("paper", "table", "sweep"), list(shipped()))
def test_the_sweeps_that_come_with_us_have_runs_for_every_row(paper, table, sweep):
    told = paper.table(table)
    trials = load_sweep(sweep).trials
    runs = Runs(pending=tuple(trial_record(trial) for trial in trials)).select(told.where)
    assert len(runs.pending) == len(trials)
    for row in told.rows:
        if row.where is not None:
            assert runs.select(row.where).pending, row.label
        for field in row.each or {}:
            assert any(field in record for record in runs.pending), field
    for setup in (*paper.setup, *told.setup):
        if not setup.field.startswith("role_models."):  # of sweeps that give a role its own model
            assert any(setup.field in record for record in runs.pending), setup.field


def test_tree_of_options_prints_what_its_paper_prints():
    table = find_paper("too").table("table2")
    printed = {
        row.label: {key: printed_value(figure) for key, figure in row.published.items()}
        for row in table.rows
    }
    planning = {
        name: (figures["planning-calls"], figures["planning-tokens"])
        for name, figures in printed.items()
    }
    assert planning == {
        "CoT": (1.0, 500.0),
        "ReAct-Option": (30.0, 9200.0),
        "ToT-MCTS": (600.0, 215_000.0),
        "ToO": (900.0, 347_000.0),
    }


def test_the_grid_of_figure_3():
    trials = load_sweep(find_paper("too").sweeps("figure3")[0]).trials
    points = {
        (trial.planner, *(trial.settings[key] for key in ("k", "d", "iter"))) for trial in trials
    }
    assert len(points) == 2 * 2 * 3 * 3
    assert ("tot-mcts", 3, 16, 15) in points
    assert {trial.task for trial in trials} == {"craft-a-diamond-pickaxe"}
    assert {(trial.settings["return"], trial.settings["first_play"]) for trial in trials} == {
        ("mean", "reward")
    }
