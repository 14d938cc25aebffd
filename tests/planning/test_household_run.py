"""Planners at home: by names and settings, in full sight, and refused in one line."""

import json
import re

import pytest
from command_line import invoke
from household_homes import FLAT

from llm_planning.registry import find_domain, find_planner
from llm_planning.running import fitting_domains

SMALL = ("--set", "moves=2", "--set", "simulations=3")


def ran(planner, *settings):
    pairs = [word for setting in settings for word in ("--set", setting)]
    return invoke("run", planner, "--model", "none", "--json", *pairs)


def test_home_and_class_are_settings():
    ended = ran("uct", "home=unseen", "class=novel-comp-3", *SMALL[1::2])
    assert ended.exit_code == 0, ended.stderr
    metrics = json.loads(ended.stdout)["metrics"]
    assert metrics["problem"] == "unseen novel-comp-3 1"
    assert 6 < metrics["optimum"] <= 30
    assert len(json.loads(ended.stdout)["plan"]) == 2


def test_a_goal_in_words(tmp_path):
    trace = tmp_path / "trace.jsonl"
    goal = "put two apples in the fridge and the book on the sofa"
    ended = invoke(
        *("run", "uct", "--model", "none", "--domain", "household", "--set", f"goal={goal}"),
        *(*SMALL, "--json", "--trace", trace),
    )
    assert ended.exit_code == 0, ended.stderr
    assert json.loads(ended.stdout)["metrics"]["problem"] == "seen own 1"
    assert "Put two apples inside the fridge and one book on the sofa." in trace.read_text()


def test_rules_play_in_full_sight():
    ended = ran("react", "roles=rules", "sight=full", "class=novel-comp-3", "problem=3")
    assert ended.exit_code == 0, ended.stderr
    report = json.loads(ended.stdout)
    assert report["success"]
    assert len(report["plan"]) == report["metrics"]["optimum"]


def test_a_search_finds_its_way_in_a_small_home(tmp_path):
    path = tmp_path / "flat.yaml"
    path.write_text(FLAT)
    ended = ran("uct", f"home={path}", "goal=the pear on the table", "simulations=300", "problem=2")
    assert ended.exit_code == 0, ended.stderr
    assert json.loads(ended.stdout)["success"]


def test_a_home_without_containers(tmp_path):
    path = tmp_path / "flat.yaml"
    path.write_text(
        "rooms: {hall: {surfaces: [bench, table]}, attic: {}}\n"
        "things: {all: {names: [pear, hat], lie: {bench: 1, table: 1}, goals: [table]}}\n"
    )
    ended = ran("uct", f"home={path}", "goal=the pear on the table", *SMALL[1::2])
    assert ended.exit_code == 0, ended.stderr


def test_a_changed_home_is_another_trial(tmp_path):
    path = tmp_path / "flat.yaml"
    path.write_text("rooms: {hall: {surfaces: [bench]}}\n")
    read = find_domain("household").settings.read
    before = read({"home": str(path)}).to_json()
    assert read(before).to_json() == before
    path.write_text("rooms: {hall: {surfaces: [table]}}\n")
    assert read({"home": str(path)}).to_json() != before
    assert read({"home": "unseen"}).to_json()["home_sha256"] == ""


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        (["roles=rules"], "it hides its state (it has a belief)"),
        (["goal=an elephant in the fridge"], "unknown thing 'elephant'; did you mean"),
        (["goal=an apple in the fridge", "class=comp"], "a goal of your own has no class"),
        (["limit=3", "class=comp"], "setting limit=3 is not possible: who knows where everything"),
        (["class=hard"], "setting class='hard' is not possible: Input should be 'simple'"),
    ],
)
def test_what_is_not_possible_is_one_line(settings, message):
    pairs = [word for setting in settings for word in ("--set", setting)]
    planner = "react" if "roles=rules" in settings else "uct"
    ended = invoke("run", planner, "--domain", "household", "--model", "none", *pairs)
    assert ended.exit_code in {1, 2}
    assert message in ended.stderr
    assert ended.stderr.startswith("error: ")
    assert ended.stderr.count("\n") == 1


def test_who_plans_at_home():
    household = find_domain("household")
    for name in ("uct", "puct", "llm-policy", "react"):
        assert household in fitting_domains(find_planner(name))
    for name in ("too", "cot", "drip"):
        assert household not in fitting_domains(find_planner(name))
        ended = invoke("run", name, "--domain", "household", "--model", "none")
        assert ended.exit_code == 2
        assert re.search(r"needs a domain that .*; household does not", ended.stderr)
