"""Figures 2 and 5 to 9 of Tree of Options, drawn from a ledger made by hand."""

import io
import re
from dataclasses import replace

import pytest
import too_figures
from PIL import Image
from report_ledgers import result_of, trial_of, write_ledger

from llm_planning.experiments.ledger import Ledger

LEATHER = "obtain-leather"


def attempt(option, *, planned=0, done=True, actions=()):
    return {
        "option": option,
        "planned": planned,
        "m": 1,
        "done": done,
        "shown": done,
        "actions": list(actions),
        "seconds": 2.0,
    }


def executed(planner, attempts, *, plan=(), won=True, task=LEATHER, seed=0, **settings):
    """A result with the trace of one execution."""
    result = result_of(trial_of(planner, task=task, seed=seed, **settings), success=won, plan=plan)
    trace = {"won": won, "attempts": attempts, "last": "night"}
    # A second execution, which no figure shows.
    return replace(result, trace={"executions": [trace, {**trace, "attempts": []}]})


TOO = executed(
    "too",
    [
        attempt("find 1 cow", planned=0, done=False),
        attempt("find 1 cow", planned=0),
        attempt("craft 1 wooden_sword", planned=2),
        attempt("kill 1 cow", planned=1, actions=("equip 1 wooden_sword", "kill 1 cow")),
    ],
    plan=("find 1 cow", "kill 1 cow"),
)
LEVELS = ["find 1 cow", "kill 1 cow", "craft 1 wooden_sword", "equip 1 wooden_sword"]
"""The plan of ToO first, then what else was executed."""
REACT = executed(
    "react-option",
    [attempt("kill 1 cow", done=False), attempt("find 1 cow")],
    plan=("kill 1 cow", "find 1 cow"),
    won=False,
)
COMPASS = executed(
    "too", [attempt("mine 1 dirt", planned=0)], plan=("mine 1 dirt",), task="craft-a-compass"
)


def read(folder, results, *, where=None, seed=None):
    write_ledger(folder, results)
    with Ledger.open(folder) as ledger:
        return too_figures.read_executions(ledger, where=where or {}, seed=seed)


def test_the_first_execution_of_the_smallest_seed_is_drawn(tmp_path):
    later = executed("too", [attempt("wait")], seed=5)
    failed = result_of(trial_of("cot", task=LEATHER), failed=True)
    results = [later, TOO, REACT, failed]
    executions = read(tmp_path / "a", results)
    assert set(executions) == {("too", LEATHER), ("react-option", LEATHER)}
    too, react = executions["too", LEATHER], executions["react-option", LEATHER]
    assert (too.won, len(too.attempts), too.plan) == (True, 4, ("find 1 cow", "kill 1 cow"))
    assert list(too.levels) == LEVELS
    assert react.plan == ()  # it plans while it executes
    (attempt_of_later,) = read(tmp_path / "b", results, seed=5)["too", LEATHER].attempts
    assert attempt_of_later.actions == ("wait",)


def test_trials_that_differ_in_settings_alone_must_be_chosen_from(tmp_path):
    results = [replace_k(3), replace_k(1)]
    with pytest.raises(too_figures.FigureError, match=r"--where settings\.k=VALUE"):
        read(tmp_path / "a", results)
    executions = read(tmp_path / "b", results, where={"settings.k": 1})
    assert len(executions["too", LEATHER].attempts) == 1


def replace_k(k):
    return executed("too", [attempt("wait")] * k, k=k)


def test_the_plan_is_dashed_and_what_was_executed_is_solid(tmp_path):
    executions = read(tmp_path / "a", [TOO, REACT])
    figure = too_figures.dynamics(executions, too_figures.METHODS, (LEATHER,))
    react, too = figure.axes  # the methods in the paper's order
    assert react.get_title().startswith("ReAct-Option, obtain leather\nnot reached, 2 attempts")
    assert too.get_title() == "ToO, obtain leather\nreached, 4 attempts"
    planned, solid = too.lines[:2]
    assert planned.get_linestyle() == "--"
    assert list(zip(*planned.get_data(), strict=True)) == [(1, 0), (2, 1)]
    assert list(zip(*solid.get_data(), strict=True)) == [
        (1, 0),
        (2, 0),
        (3, 2),
        (3.5, 3),  # the last attempt executes two options
        (4, 1),
    ]
    done, undone = too.collections
    assert done.get_offsets().tolist() == [[2, 0], [3, 2], [4, 1]]
    assert undone.get_offsets().tolist() == [[1, 0]]
    assert [label.get_text() for label in too.get_yticklabels()] == LEVELS


def test_attempts_are_counted_by_the_place_in_the_plan(tmp_path):
    again = executed(
        "cot",
        [attempt("find 1 cow", planned=2), attempt("kill 1 cow", planned=7)],
        plan=("find 1 cow", "kill 1 cow", "find 1 cow"),
    )
    executions = read(tmp_path / "a", [TOO, again, REACT])
    assert too_figures.shares(executions["too", LEATHER]) == [
        ("1. find 1 cow", 2),
        ("2. kill 1 cow", 1),
        ("not in the plan", 1),
    ]
    assert [count for _, count in too_figures.shares(executions["cot", LEATHER])] == [0, 0, 1, 1]
    figure = too_figures.distribution(executions, LEATHER)
    cot, too = figure.axes  # ReAct-Option plans while it executes
    assert [bar.get_width() for bar in too.patches] == [0.5, 0.25, 0.25]
    assert cot.get_title().startswith("CoT")


def test_a_case_shows_the_plan_beside_what_was_executed(tmp_path):
    again = [attempt("kill 1 cow", done=False)] * 2 + [attempt("find 1 cow")]
    react = executed("react-option", again, plan=("kill 1 cow",), won=False)
    executions = read(tmp_path / "a", [TOO, react])
    assert too_figures.steps(executions["too", LEATHER]) == [
        ("find 1 cow", False),
        ("find 1 cow", True),
        ("craft 1 wooden_sword", True),
        ("equip 1 wooden_sword\nkill 1 cow", True),
    ]
    assert too_figures.steps(executions["react-option", LEATHER]) == [
        ("kill 1 cow (2 attempts)", False),
        ("find 1 cow", True),
    ]
    figure = too_figures.case(executions, *too_figures.CASE[1:])
    react, too = figure.axes
    assert too.get_title() == "ToO\nhere: reached, 4 attempts\npaper: 10 attempts"
    assert react.get_title().endswith("not reached, 3 attempts\npaper: 11.67 attempts")
    assert [text.get_text() for text in too.texts][:3] == ["planned", "find 1 cow", "kill 1 cow"]
    assert [text.get_text() for text in react.texts][:2] == ["planned one by one", "executed"]


def test_pictures_are_written_and_the_same_every_time(tmp_path, capsys):
    ledger = write_ledger(tmp_path / "ledger", [TOO, REACT, COMPASS])
    for out in ("a", "b"):
        assert too_figures.main([str(ledger), "--out", str(tmp_path / out)]) == 0
    names = [f"too-figure{n}.{kind}" for n in (2, 6, 7, 8) for kind in ("png", "svg")]
    assert sorted(path.name for path in (tmp_path / "a").iterdir()) == names
    for name in names:
        assert (tmp_path / "a" / name).read_bytes() == (tmp_path / "b" / name).read_bytes()
    svg = (tmp_path / "a" / "too-figure2.svg").read_text()
    assert "craft 1 wooden_sword" in svg
    assert not re.search("<dc:date>", svg)
    with Image.open(io.BytesIO((tmp_path / "a" / "too-figure6.png").read_bytes())) as png:
        assert len(png.convert("RGB").getcolors(1 << 20)) > 10


def test_a_ledger_of_ablations_has_figure_9_alone(tmp_path):
    ablations = [
        executed("too-no-fc", [attempt("find 1 cow")], plan=("find 1 cow",)),
        executed("too-no-wm", [attempt("wait")], rules_see="imagined"),
        executed("too-no-wm", [attempt("wait")] * 2, rules_see="initial"),
    ]
    executions = read(tmp_path / "a", [TOO, *ablations], where={"settings.rules_see": "initial"})
    ((name, figure),) = too_figures.figures(executions)
    assert name == "too-figure9"
    titles = [axes.get_title().partition(",")[0] for axes in figure.axes]
    assert titles == ["ToO", "ToO w/o WM", "ToO w/o FC"]
    assert len(executions["too-no-wm", LEATHER].attempts) == 2  # the others have no such setting


def test_a_ledger_without_executions(tmp_path, capsys):
    ledger = write_ledger(tmp_path / "ledger", [result_of(trial_of("too"))])
    assert too_figures.main([str(ledger), "--out", str(tmp_path / "out")]) == 1
    assert "has executed a plan" in capsys.readouterr().err
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize(
    ("where", "message"),
    [("planer=too", "did you mean planner"), ("planner", "is not FIELD=VALUE")],
)
def test_a_wrong_condition(tmp_path, capsys, where, message):
    with pytest.raises(SystemExit):
        too_figures.main([str(tmp_path), "--out", str(tmp_path), "--where", where])
    assert message in capsys.readouterr().err
