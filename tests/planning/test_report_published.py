"""Published files: what they may say, how a wrong one is told, and those that come with us."""

import hashlib
import json
import re
from pathlib import Path

import pytest

from llm_base.yaml_file import read_mapping
from llm_planning.experiments.grid import load_sweep
from llm_planning.experiments.paper_report import write_counts
from llm_planning.experiments.papers import PublishedError, find_paper, load_table, papers
from llm_planning.experiments.report_verdict import printed_value
from llm_planning.experiments.runs import Runs, trial_record
from llm_planning.experiments.statistics import write_number
from llm_planning.experiments.sweep_files import Trust
from llm_planning.model_configs import config_folder
from llm_serving.models.catalogue import TAUGHT


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
        (2 / 3, "percent", "67%"),
        (-0.004, "percent", "0%"),
        (1.0, "percent", "100%"),
    ],
)
def test_numbers_that_are_written(value, form, text):
    assert write_number(value, form) == text


def test_counts_that_are_written():
    assert write_counts(1, 0, 0) == "1 run"
    assert write_counts(3, 2, 1) == "3 runs, 2 failed, 1 not run yet"


WRONG = [
    ({"title": None}, "title: Field required"),
    ({"rows": "[]"}, "rows: Tuple should have at least 1 item"),
    ({"note": "[x]"}, "note: unknown key; did you mean notes"),
    (
        {"columns": "[{key: a, label: A, mesure: {mean: calls}}]"},
        "columns.0.mesure: unknown key; did you mean measure",
    ),
    ({"measure": "{mean: cals}"}, "columns.0.measure: unknown field 'cals'; did you mean calls"),
    (
        {"measure": "{}"},
        "name one of mean, cost, median, portion, rate, share, odds, fisher and passed",
    ),
    ({"measure": "{rate: success, per: task}"}, "a rate per group needs within"),
    ({"measure": "{median: calls, per: task}"}, "a median has no groups"),
    ({"measure": "{mean: calls, within: max}"}, "within=max needs per"),
    ({"measure": "{median: calls, unit: seed}"}, "unit is for a mean or a rate"),
    ({"measure": "{share: {}}"}, "share: name a field"),
    ({"measure": "{share: {metrisc.failure: x}}"}, "share: unknown field 'metrisc.failure'"),
    ({"measure": "{share: {success: true}, per: task}"}, "a share has no groups"),
    ({"measure": "{odds: success}"}, "odds, fisher and passed need against"),
    (
        {"measure": "{rate: success, against: {planner: too}}"},
        "odds, fisher and passed need against",
    ),
    ({"measure": "{mean: calls, interval: wald}"}, "interval=wald is for a rate or a share"),
    (
        {"measure": "{rate: success, interval: wald, unit: seed}"},
        "interval=wald is for a rate or a share without unit; leave it out",
    ),
    (
        {"measure": "{passed: success, budget: [tokens], per: task}"},
        "odds, fisher and passed need against",
    ),
    (
        {"measure": "{passed: success, per: task, against: {planner: too}}"},
        "passed needs budget, the fields that cost, and per",
    ),
    (
        {"measure": "{passed: success, budget: [tokens], against: {planner: too}}"},
        "passed needs budget, the fields that cost, and per",
    ),
    ({"measure": "{mean: calls, budget: [tokens]}"}, "others no budget"),
    (
        {"measure": "{passed: success, budget: [tokns], per: task, against: {planner: too}}"},
        "unknown field 'tokns'; did you mean tokens",
    ),
    (
        {"measure": "{passed: success, budget: [tokens], per: task, within: max, against: {}}"},
        "within=max is for a mean or a rate",
    ),
    ({"columns": "[{key: a, label: A}]"}, "columns.0: give either measure or cited"),
    (
        {"columns": "[{key: a, label: A, cited: c}, {key: a, label: A, cited: c}]"},
        "two columns have the same key",
    ),
    ({"rows": "[{label: r}]"}, "rows.0: give one of where, each"),
    ({"rows": "[{where: {}}]"}, "rows.0: give a label"),
    (
        {"rows": "[{label: r, where: {planer: too}}]"},
        "rows.0.where: unknown field 'planer'; did you mean planner",
    ),
    ({"rows": "[{label: r, where: {}, published: {b: 1}}]"}, "row 'r' has a figure for 'b'"),
    ({"rows": "[{each: {success: [true]}}]"}, "each.success: 'success' is not a field of a trial"),
    (
        {"rows": "[{each: {planner: all}, published: {a: 1}}]"},
        "rows made by each have no published figures",
    ),
    (
        {"compare": "[{column: b, first: {seed: 1}, second: {seed: 2}}]"},
        "unknown column 'b'; known: a",
    ),
    (
        {"compare": "[{column: a, first: {seed: 1}, second: {task: x}}]"},
        "first and second must name the same fields",
    ),
    (
        {"compare": "[{column: a, first: {seed: 1}, second: {seed: 2}, unit: seed}]"},
        "unit=seed is compared; name a field that pairs share",
    ),
    (
        {
            "measure": "{odds: success, against: {planner: cot}}",
            "compare": "[{column: a, first: {seed: 1}, second: {seed: 2}}]",
        },
        "the column 'a' compares already",
    ),
    (
        {
            "measure": "{mean: calls, per: task, within: max}",
            "compare": "[{column: a, first: {seed: 1}, second: {seed: 2}}]",
        },
        "the column 'a' has within: max, and differences are of means over pairs; compare a mean",
    ),
    (
        {
            "measure": "{median: calls}",
            "compare": "[{column: a, first: {seed: 1}, second: {seed: 2}}]",
        },
        "the column 'a' has a median, and differences are of means over pairs; compare a mean",
    ),
    ({"plot": "{kind: points, x: a}"}, "plot: points need x and y"),
    (
        {"plot": "{kind: lines, x: b, y: a}"},
        "plot: x='b' is neither a column nor a trial's field",
    ),
    (
        {"setup": "[{label: l, field: calls, paper: 1}]"},
        "setup.0.field: 'calls' is not a field of a trial",
    ),
]


def refused(path, text, message):
    path.write_text(text)
    with pytest.raises(PublishedError, match=re.escape(message)) as caught:
        load_table(path)
    assert str(path) in str(caught.value)


@pytest.mark.parametrize(("changes", "message"), WRONG)
def test_a_wrong_file_is_told_by_key_and_remedy(tmp_path, changes, message):
    measure = changes.get("measure", "{mean: calls}")
    right = {
        "title": "t",
        "columns": f"[{{key: a, label: A, measure: {measure}}}]",
        "rows": "[{label: r, where: {planner: too}}]",
    }
    keys = {key: text for key, text in (right | changes).items() if text and key != "measure"}
    text = "\n".join(f"{key}: {text}" for key, text in keys.items())
    refused(tmp_path / "t.published.yaml", text, message)


def test_a_file_that_is_no_mapping(tmp_path):
    refused(tmp_path / "t.published.yaml", "just a text", "write a mapping")


def test_a_wrong_paper(tmp_path):
    (tmp_path / "p").mkdir()
    (tmp_path / "p" / "paper.yaml").write_text("title: P\ncitation: c\nsetups: []")
    with pytest.raises(PublishedError, match="setups: unknown key; did you mean setup"):
        find_paper("p", tmp_path)


ADAPTER = TAUGHT["smollm2-135m-minecraft"].adapter
STUDENTS = (
    *("household", "textgame", "textgame-long", "half-0", "half-1", "half-2"),
    *("route", "flights", "flights-24", "half", "product", "fact"),
)


@pytest.fixture
def beside_students(tmp_path, monkeypatch):
    """A project's folder in which every student was made that a sweep of ours names."""
    (tmp_path / "configs").symlink_to(config_folder().parent)
    for name in STUDENTS:
        student = tmp_path / "students" / name
        student.mkdir(parents=True)
        (student / "adapter").symlink_to(ADAPTER)
    monkeypatch.chdir(tmp_path)


def shipped():
    for name in papers():
        paper = find_paper(name)
        for table in paper.tables():
            for sweep in paper.sweeps(table):
                yield pytest.param(paper, table, sweep, id=f"{name}-{sweep.stem}")


@pytest.mark.usefixtures("beside_students")
@pytest.mark.parametrize(("paper", "table", "sweep"), list(shipped()))
def test_the_sweeps_that_come_with_us_have_runs_for_every_row(paper, table, sweep):
    published = paper.table(table)
    trials = {
        # What differs in its seed alone stands here once.
        (
            id(trial.settings),
            trial.planner,
            trial.domain,
            trial.task,
            trial.model,
            *trial.role_models.items(),
        ): trial
        for trial in load_sweep(sweep, trust=Trust.of([ADAPTER])).trials
    }.values()
    runs = Runs(pending=tuple(trial_record(trial) for trial in trials)).select(published.where)
    assert len(runs.pending) == len(trials)
    for row in published.rows:
        if row.where is not None:
            assert runs.select(row.where).pending, row.label
        for field in row.each or {}:
            assert any(field in record for record in runs.pending), field
    for setup in (*paper.setup, *published.setup):
        if not setup.field.startswith("role_models."):  # of sweeps that give a role its own model
            assert any(setup.field in record for record in runs.pending), setup.field


def test_configurations_are_those_that_were_held_against_the_papers():
    """Whoever changes one on purpose holds it against its paper and writes down its new digest."""
    root = config_folder().parent
    digests = {
        path.relative_to(root).as_posix(): hashlib.sha256(
            json.dumps(read_mapping(path)).encode()
        ).hexdigest()
        for path in sorted(root.rglob("*.yaml"))
    }
    kept = Path(__file__).parents[1] / "golden" / "configs.json"
    assert digests == json.loads(kept.read_text("utf-8"))
