"""Exercises of ToO's roles: right answers are graded right, and wrong ones wrong."""

from __future__ import annotations

import json
import re
from collections import Counter, defaultdict
from random import Random

import pytest

from llm_planning.environments.minecraft.options.domain import MINECRAFT
from llm_planning.environments.minecraft.options.teacher import HELD_OUT_ITEMS, MinecraftTeacher
from llm_planning.planners.tree_of_options.exercises import ROLES, OptionExercises
from llm_planning.registry import exercise_makers
from llm_planning.roles.exercises import STATE, STATE_SHOWN, STATE_UNPREDICTED
from llm_serving import ScriptedEngine

MAKER = OptionExercises(MinecraftTeacher(), words="taught")
STATES = 40
HELD = {*HELD_OUT_ITEMS}


@pytest.fixture(scope="module")
def by_role():
    drawn = defaultdict(list)
    for number in range(STATES):
        for one in MAKER.about_one_state(Random(number), roles=ROLES, held_out=bool(number % 2)):
            drawn[one.role].append(one)
    return drawn


@pytest.mark.parametrize("role", ROLES)
def test_the_right_answer_of_every_exercise_is_right(by_role, role):
    assert len(by_role[role]) >= STATES / 2
    for one in by_role[role]:
        grade = one.grade(one.answer)
        assert grade.right, (one.prompt, one.answer)
        assert grade.brief == one.brief or role == "dynamics"


@pytest.mark.parametrize("role", ROLES)
async def test_every_answer_is_in_the_language_that_the_engine_enforces(by_role, role):
    seen = []
    for one in by_role[role][:10]:
        engine = ScriptedEngine(lambda request, one=one: seen.append(request) or one.answer)
        assert await one.ask(engine) == one.answer
    assert all(re.fullmatch(seen[i].constraint.regex, by_role[role][i].answer) for i in range(10))
    assert all(request.role == role for request in seen)


@pytest.mark.parametrize("role", ["feasibility", "termination"])
def test_the_opposite_verdict_is_wrong(by_role, role):
    for one in by_role[role]:
        said = json.loads(one.answer)
        key = "action_valid" if role == "feasibility" else "done"
        wrong = json.dumps({**said, key: not said[key]}, separators=(",", ":"))
        assert not one.grade(wrong).right
    verdicts = Counter(one.kinds["verdict"] for one in by_role[role])
    assert min(verdicts.values()) >= len(by_role[role]) / 8
    assert len(verdicts) == 2


@pytest.mark.parametrize("role", ["propose", "repair"])
def test_a_useless_option_is_wrong(by_role, role):
    for one in by_role[role]:
        said = json.loads(one.answer)
        first = said["options"][0] if role == "propose" else said
        first.update(verb="equip", quantity=1, item="bread")
        grade = one.grade(json.dumps(said, separators=(",", ":")))
        assert not grade.right
        assert grade.brief == "equip 1 bread"


def test_only_the_first_option_of_a_proposal_counts(by_role):
    for one in by_role["propose"]:
        said = json.loads(one.answer)
        said["options"][1:] = [said["options"][0]] * 2
        assert one.grade(json.dumps(said, separators=(",", ":"))).right


def test_reversed_scores_are_wrong(by_role):
    for one in by_role["reward"]:
        said = {question: round(1 - score, 1) for question, score in json.loads(one.answer).items()}
        assert not one.grade(json.dumps(said, separators=(",", ":"))).right


def test_no_lesson_asks_for_or_names_what_makes_a_held_out_item():
    for number in range(60):
        for one in MAKER.about_one_state(Random(number), roles=ROLES, held_out=False):
            told = one.prompt[1].content.partition("Has: ")[2].partition("\n")[2]
            asked = told + one.answer
            made = re.findall(r'(?:"item":"|Obtain 1 |option: \w+ \d+ )(\w+)', asked)
            assert not HELD.intersection(made), (one.prompt, one.answer)


def test_each_score_counts_on_its_own(by_role):
    one = by_role["reward"][0]
    assert one.grade(one.answer).items == (8, 8)
    scores = json.loads(one.answer)
    spoiled = {**scores, "redundancy": 0.0 if scores["redundancy"] > 0.5 else 1.0}
    grade = one.grade(json.dumps(spoiled, separators=(",", ":")))
    assert (grade.right, grade.items) == (False, (7, 8))


def test_only_measuring_asks_what_an_infeasible_option_changes():
    def verdicts(held_out):
        return {
            one.kinds["verdict"]
            for number in range(10)
            for one in MAKER.about_one_state(Random(number), roles=["dynamics"], held_out=held_out)
        }

    assert verdicts(False) == {"feasible"}
    assert verdicts(True) == {"feasible", "infeasible"}


def test_exercises_of_one_role_have_the_same_aspects(by_role):
    for role in ROLES:
        assert len({tuple(one.kinds) for one in by_role[role]}) == 1


def test_questions_about_one_state_begin_alike():
    drawn = MAKER.about_one_state(Random(1), roles=ROLES, held_out=False)
    states = {
        one.prompt[1].content.partition("\ngoal: ")[0]
        for one in drawn
        if one.kinds[STATE] == STATE_SHOWN
    }
    assert len(states) == 1
    assert len({one.prompt[0] for one in drawn}) == 1


def test_the_general_words_are_those_of_the_planner():
    general = OptionExercises(MinecraftTeacher(), words="general")
    one = general.about_one_state(Random(1), roles=["feasibility"], held_out=False)[0]
    assert (
        "You check whether a player of Minecraft can carry out an option" in one.prompt[0].content
    )


def test_some_questions_are_about_the_start_and_the_options_since(by_role):
    for role in set(ROLES) - {"dynamics"}:
        ways = Counter(one.kinds[STATE] for one in by_role[role])
        assert min(ways[STATE_SHOWN], ways[STATE_UNPREDICTED]) >= 3, role
        for one in by_role[role]:
            unpredicted = one.kinds[STATE] == STATE_UNPREDICTED
            assert ("\nsince: " in one.prompt[1].content) is unpredicted
    assert {one.kinds[STATE] for one in by_role["dynamics"]} == {STATE_SHOWN}


def test_the_general_words_tell_the_start_and_the_history_as_well():
    general = OptionExercises(MinecraftTeacher(), words="general")
    drawn = [
        one.prompt[1].content
        for seed in range(12)
        for one in general.about_one_state(Random(seed), roles=["propose"], held_out=False)
        if one.kinds[STATE] == STATE_UNPREDICTED
    ]
    assert drawn
    assert all("at the start, before any option" in one for one in drawn)
    assert all("\n1. " in one for one in drawn)


def test_planners_bring_the_exercises_of_their_roles():
    makers = exercise_makers(MINECRAFT, words="taught")
    assert {"prior", *ROLES} <= makers.keys()
    assert makers["propose"] is makers["dynamics"]
