"""Planners in Blocksworld without a model; runs over several problems."""

import json

import pytest
from command_line import invoke

from llm_planning.environments.blocksworld import solver
from llm_planning.environments.blocksworld.domain import BLOCKSWORLD
from llm_planning.environments.blocksworld.generator import problems
from llm_planning.environments.blocksworld.pddl import write_problem
from llm_planning.outcome import Outcome, summed_up
from llm_planning.settings import SettingsError


def run(planner, *arguments):
    ended = invoke("run", planner, "--domain", "blocksworld", "--model", "none", *arguments)
    assert ended.exit_code == 0, ended.stderr
    return json.loads(ended.stdout)


@pytest.mark.parametrize("rules", ["variant", "standard"])
@pytest.mark.parametrize("texts", ["english", "predicates"])
def test_rules_answer_in_the_models_place(rules, texts):
    settings = ("--set", "roles=rules", "--set", f"rules={rules}", "--set", f"texts={texts}")
    report = run("react", "--task", "four-blocks", "--json", *settings)
    assert report["success"]
    assert len(report["plan"]) == report["metrics"]["optimum"]
    assert report["metrics"]["blocks"] == 4


def test_a_search_needs_no_model():
    report = run("uct", "--task", "four-blocks", "--set", "simulations=60", "--json")
    assert report["success"]
    assert report["metrics"]["problem"] == "4-1"
    assert "problems" not in report


def test_a_planner_of_options_finds_grammar_and_state_model():
    small = ("--set", "k=2", "--set", "d=4", "--set", "iter=8", "--set", "roles=rules")
    assert run("too", "--task", "four-blocks", "--json", *small)["success"]


@pytest.fixture
def folder(tmp_path):
    for puzzle in problems({4: 2, 9: 1}, seed=3):
        (tmp_path / f"{puzzle.name}.pddl").write_text(write_problem(puzzle))
    return tmp_path


def test_every_problem_of_a_folder_is_planned(folder):
    settings = ("--set", f"pddl={folder}", "--set", "roles=rules", "--set", "moves=4")
    report = run("react", *settings, "--json")
    said = report["problems"]
    assert list(said) == ["4-1.pddl", "4-2.pddl", "9-1.pddl"]
    assert [one["success"] for one in said.values()] == [True, True, False]
    assert len(said["9-1.pddl"]["plan"]) == 4 < said["9-1.pddl"]["optimum"]
    assert not report["success"]
    means = sum(said[name]["optimum"] for name in ("4-1.pddl", "4-2.pddl")) / 2
    assert report["metrics"] == {
        "problems": 3,
        "solved": 2,
        "failures": {"goal not reached": 1},
        "actions": means,
        "optimum": means,
        "excess": 0.0,
    }
    text = invoke("run", "react", "--domain", "blocksworld", "--model", "none", *settings).stdout
    assert "9-1.pddl: goal not reached, the optimum is " in text
    assert "solved: 2" in text


def test_a_bad_problem_is_one_error_that_names_file_and_fact(folder):
    (folder / "9-2.pddl").write_text((folder / "4-1.pddl").read_text().replace("(on ", "(upon "))
    settings = ("--set", f"pddl={folder}", "--set", "roles=rules")
    ended = invoke("run", "react", "--domain", "blocksworld", "--model", "none", *settings)
    assert (ended.exit_code, ended.stdout) == (1, "")
    (line,) = ended.stderr.splitlines()
    assert line.startswith(f"error: {folder}/9-2.pddl: the ")
    assert "(upon " in line


def test_a_changed_problem_is_another_trial(folder):
    settings = {"pddl": str(folder)}
    before = BLOCKSWORLD.settings.read(settings).to_json()
    assert BLOCKSWORLD.settings.read(before).to_json() == before
    (folder / "4-1.pddl").rename(folder / "4-3.pddl")
    assert BLOCKSWORLD.settings.read(settings).to_json() != before
    with pytest.raises(SettingsError, match="has changed: restore it"):
        BLOCKSWORLD.settings.read(before)
    # Trials without files keep their keys, and nobody sets a hash.
    assert "pddl_sha256" not in BLOCKSWORLD.settings.read({}).to_json()
    listed = invoke("run", "drip", "--domain", "blocksworld", "--list").stdout
    assert "problem_seed" in listed
    assert "sha256" not in listed


def test_what_takes_too_long_is_named(folder, monkeypatch):
    monkeypatch.setattr(solver, "MOST_EXPANDED", 3)
    settings = ("--set", f"pddl={folder}", "--set", "roles=rules")
    ended = invoke("run", "react", "--domain", "blocksworld", "--model", "none", *settings)
    assert ended.exit_code == 1
    assert ended.stderr.startswith("error: 9-1.pddl: no shortest plan for 9 blocks was found")


def outcome(success, plan=(), **metrics):
    return Outcome(success=success, plan=plan, metrics=metrics, trace={"oracles": []}, text="")


def test_outcomes_are_summed_up():
    summed = summed_up(
        {
            "one": outcome(True, ("a", "b", "c"), optimum=2),
            "two": outcome(True, ("a",), optimum=1),
            "three": outcome(False, ("a",), optimum=1, failure="a cut", failure_cause="a fell"),
            "four": outcome(False, failure="a cut"),
            "five": outcome(None),
        }
    )
    assert summed.metrics == {
        "problems": 5,
        "solved": 2,
        "failures": {"a cut": 2, "goal not reached": 1},
        "actions": 2.0,
        "optimum": 1.5,
        "excess": 0.5,
    }
    assert summed.success is False
    assert [one["cause"] for one in summed.trace["problems"].values()][1:4] == [
        None,
        "a fell",
        None,
    ]
    assert summed.text.splitlines() == [
        "one: solved in 3 actions, the optimum is 2",
        "two: solved in 1 actions, the optimum is 1",
        "three: a cut (a fell), the optimum is 1",
        "four: a cut",
        "five: goal not reached",
    ]


def test_lengths_without_an_optimum_are_not_compared():
    summed = summed_up({"one": outcome(True, ("a",)), "two": outcome(True, ("a",), optimum=1)})
    assert summed.metrics == {"problems": 2, "solved": 2, "failures": {}, "actions": 1.0}
    assert "actions" not in summed_up({"one": outcome(False)}).metrics
