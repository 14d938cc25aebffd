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
    settings += ("--set", "rules=variant")
    report = run("react", *settings, "--json")
    problems = report["problems"]
    assert list(problems) == ["4-1.pddl", "4-2.pddl", "9-1.pddl"]
    assert [problem["success"] for problem in problems.values()] == [True, True, False]
    assert len(problems["9-1.pddl"]["plan"]) == 4 < problems["9-1.pddl"]["optimum"]
    assert not report["success"]
    means = sum(problems[name]["optimum"] for name in ("4-1.pddl", "4-2.pddl")) / 2
    assert report["metrics"] == {
        "problems": 3,
        "solved": 2,
        "failures": {"goal not reached": 1},
        "rules": {"variant": 3},
        "actions": means,
        "optimum": means,
        "excess": 0.0,
    }
    text = invoke("run", "react", "--domain", "blocksworld", "--model", "none", *settings).stdout
    assert "9-1.pddl: goal not reached, the optimum is " in text
    assert "2 of 3 problems are solved." in text


def test_a_bad_problem_is_one_verdict_that_names_file_and_fact(folder):
    (folder / "4-3.pddl").write_text((folder / "4-1.pddl").read_text().replace("(on ", "(upon "))
    report = run("react", "--set", f"pddl={folder}", "--set", "roles=rules", "--json")
    bad = report["problems"].pop("4-3.pddl")
    assert (bad["success"], bad["plan"], bad["failure"]) == (False, [], "not planned")
    assert bad["cause"].startswith(f"{folder}/4-3.pddl: the ")
    assert "(upon " in bad["cause"]
    assert [problem["success"] for problem in report["problems"].values()] == [True] * 3
    assert report["metrics"]["failures"] == {"not planned": 1}
    assert report["metrics"]["rules"] == {"standard": 3}


def test_a_folder_without_a_problem_that_can_be_planned_is_one_error(folder):
    for file in folder.iterdir():
        file.write_text(file.read_text().replace("(on ", "(upon "))
    settings = ("--set", f"pddl={folder}", "--set", "roles=rules")
    ended = invoke("run", "react", "--domain", "blocksworld", "--model", "none", *settings)
    assert (ended.exit_code, ended.stdout) == (1, "")
    (line,) = ended.stderr.splitlines()
    assert line.startswith(f"error: 4-1.pddl: {folder}/4-1.pddl: the ")
    assert line.endswith("(none of 3 problems can be planned)")


def test_a_changed_problem_is_another_trial(folder):
    settings = {"pddl": str(folder)}
    before = BLOCKSWORLD.settings.read(settings).to_json()
    assert BLOCKSWORLD.settings.read(before).to_json() == before
    (folder / "4-1.pddl").rename(folder / "4-3.pddl")
    assert BLOCKSWORLD.settings.read(settings).to_json() != before
    with pytest.raises(SettingsError, match="has changed: restore it"):
        BLOCKSWORLD.settings.read(before)
    # Nobody sets a hash.
    assert BLOCKSWORLD.settings.read({}).to_json()["pddl_sha256"] == ""
    listed = invoke("run", "drip", "--domain", "blocksworld", "--list").stdout
    assert "problem_seed" in listed
    assert "sha256" not in listed


def test_what_takes_too_long_is_one_verdict(folder, monkeypatch):
    (folder / "9-1.pddl").rename(folder / "1-1.pddl")
    monkeypatch.setattr(solver, "MOST_EXPANDED", 3)
    settings = ("--set", f"pddl={folder}", "--set", "roles=rules", "--set", "rules=variant")
    hard, *others = run("react", *settings, "--json")["problems"].values()
    assert (hard["success"], hard["failure"], hard["optimum"]) == (False, "not planned", None)
    assert hard["cause"].startswith("no shortest plan for 9 blocks was found")
    assert [other["success"] for other in others] == [True, True]


def test_no_plan_is_a_result(folder):
    begun = (folder / "4-1.pddl").read_text().partition("(:goal")[0]
    (folder / "4-3.pddl").write_text(f"{begun}(:goal (and (on a b) (on b a))))")
    settings = ("--set", f"pddl={folder}", "--set", "roles=rules")
    report = run("react", *settings, "--json")
    problem = report["problems"]["4-3.pddl"]
    assert (problem["success"], problem["plan"], problem["failure"]) == (None, [], "no plan")
    assert problem["cause"] == "the goal is not possible: (on a b) (on b a) go in a circle"
    # It is no failure: the others were solved.
    assert report["success"]
    assert (report["metrics"]["solved"], report["metrics"]["without_plan"]) == (3, 1)
    assert report["metrics"]["failures"] == {}
    alone = run("react", "--set", f"pddl={folder}/4-3.pddl", "--set", "roles=rules", "--json")
    assert (alone["success"], alone["metrics"]["failure"]) == (None, "no plan")
    assert alone["metrics"]["rules"] == "standard"


def test_the_rules_of_files_plan_and_those_that_are_set(folder):
    path = folder / "9-1.pddl"
    verbs = {}
    for rules in ("file", "standard", "handless", "variant"):
        settings = ("--set", f"pddl={path}", "--set", "roles=rules", "--set", f"rules={rules}")
        report = run("react", *settings, "--json")
        assert report["success"]
        assert report["metrics"]["rules"] == rules.replace("file", "standard")
        verbs[rules] = {action.split()[0] for action in report["plan"]}
    assert verbs["file"] == verbs["standard"] == {"pick-up", "unstack", "stack", "put-down"}
    assert verbs["handless"] == {"stack", "put-down"}
    ended = invoke(
        "run", "drip", "--set", f"pddl={path}", "--set", "roles=rules", "--model", "none"
    )
    assert (ended.exit_code, ended.stdout) == (1, "")
    assert "subtasks of Blocksworld follow the variant's rules: set rules=variant" in ended.stderr


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
    assert [problem["cause"] for problem in summed.trace["problems"].values()][1:4] == [
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
