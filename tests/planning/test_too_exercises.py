"""Exercises of ToO's roles: right answers are graded right, and wrong ones wrong."""

from __future__ import annotations

import json
import re
from collections import Counter, defaultdict
from random import Random

import pytest
from runs import compact

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
        for exercise in MAKER.about_one_state(
            Random(number), roles=ROLES, held_out=bool(number % 2)
        ):
            drawn[exercise.role].append(exercise)
    return drawn


@pytest.mark.parametrize("role", ROLES)
def test_the_right_answer_of_every_exercise_is_right(by_role, role):
    assert len(by_role[role]) >= STATES / 2
    for exercise in by_role[role]:
        grade = exercise.grade(exercise.answer)
        assert grade.right, (exercise.prompt, exercise.answer)
        assert grade.brief == exercise.brief or role == "dynamics"


@pytest.mark.parametrize("role", ROLES)
async def test_every_answer_is_in_the_language_that_the_engine_enforces(by_role, role):
    seen = []
    for exercise in by_role[role][:10]:
        engine = ScriptedEngine(
            lambda request, exercise=exercise: seen.append(request) or exercise.answer
        )
        assert await exercise.ask(engine) == exercise.answer
    assert all(re.fullmatch(seen[i].constraint.regex, by_role[role][i].answer) for i in range(10))
    assert all(request.role == role for request in seen)


@pytest.mark.parametrize("role", ["feasibility", "termination"])
def test_the_opposite_verdict_is_wrong(by_role, role):
    for exercise in by_role[role]:
        answer = json.loads(exercise.answer)
        key = "action_valid" if role == "feasibility" else "done"
        wrong = compact({**answer, key: not answer[key]})
        assert not exercise.grade(wrong).right
    verdicts = Counter(exercise.kinds["verdict"] for exercise in by_role[role])
    assert min(verdicts.values()) >= len(by_role[role]) / 8
    assert len(verdicts) == 2


@pytest.mark.parametrize("role", ["propose", "repair"])
def test_a_useless_option_is_wrong(by_role, role):
    for exercise in by_role[role]:
        answer = json.loads(exercise.answer)
        first = answer["options"][0] if role == "propose" else answer
        first.update(verb="equip", quantity=1, item="bread")
        grade = exercise.grade(compact(answer))
        assert not grade.right
        assert grade.brief == "equip 1 bread"


def test_only_the_first_option_of_a_proposal_counts(by_role):
    for exercise in by_role["propose"]:
        answer = json.loads(exercise.answer)
        answer["options"][1:] = [answer["options"][0]] * 2
        assert exercise.grade(compact(answer)).right


def test_reversed_scores_are_wrong(by_role):
    for exercise in by_role["reward"]:
        scores = {
            question: round(1 - score, 1) for question, score in json.loads(exercise.answer).items()
        }
        assert not exercise.grade(compact(scores)).right


def test_no_lesson_asks_for_or_names_what_makes_a_held_out_item():
    for number in range(60):
        for exercise in MAKER.about_one_state(Random(number), roles=ROLES, held_out=False):
            line = exercise.prompt[1].content.partition("Has: ")[2].partition("\n")[2]
            asked = line + exercise.answer
            items = re.findall(r'(?:"item":"|Obtain 1 |option: \w+ \d+ )(\w+)', asked)
            assert not HELD.intersection(items), (exercise.prompt, exercise.answer)


def test_each_score_counts_on_its_own(by_role):
    exercise = by_role["reward"][0]
    assert exercise.grade(exercise.answer).items == (8, 8)
    scores = json.loads(exercise.answer)
    spoiled = {**scores, "redundancy": 0.0 if scores["redundancy"] > 0.5 else 1.0}
    grade = exercise.grade(compact(spoiled))
    assert (grade.right, grade.items) == (False, (7, 8))


def test_only_measuring_asks_what_an_infeasible_option_changes():
    def verdicts(held_out):
        return {
            exercise.kinds["verdict"]
            for number in range(10)
            for exercise in MAKER.about_one_state(
                Random(number), roles=["dynamics"], held_out=held_out
            )
        }

    assert verdicts(False) == {"feasible"}
    assert verdicts(True) == {"feasible", "infeasible"}


def test_exercises_of_one_role_have_the_same_aspects(by_role):
    for role in ROLES:
        assert len({tuple(exercise.kinds) for exercise in by_role[role]}) == 1


def test_questions_about_one_state_begin_alike():
    drawn = MAKER.about_one_state(Random(1), roles=ROLES, held_out=False)
    states = {
        exercise.prompt[1].content.partition("\ngoal: ")[0]
        for exercise in drawn
        if exercise.kinds[STATE] == STATE_SHOWN
    }
    assert len(states) == 1
    assert len({exercise.prompt[0] for exercise in drawn}) == 1


def test_some_questions_are_about_the_start_and_the_options_since(by_role):
    for role in set(ROLES) - {"dynamics"}:
        ways = Counter(exercise.kinds[STATE] for exercise in by_role[role])
        assert min(ways[STATE_SHOWN], ways[STATE_UNPREDICTED]) >= 3, role
        for exercise in by_role[role]:
            unpredicted = exercise.kinds[STATE] == STATE_UNPREDICTED
            assert ("\nsince: " in exercise.prompt[1].content) is unpredicted
    assert {exercise.kinds[STATE] for exercise in by_role["dynamics"]} == {STATE_SHOWN}


def test_the_general_words_tell_the_start_and_the_history_as_well():
    general = OptionExercises(MinecraftTeacher(), words="general")
    drawn = [
        exercise.prompt[1].content
        for seed in range(12)
        for exercise in general.about_one_state(Random(seed), roles=["propose"], held_out=False)
        if exercise.kinds[STATE] == STATE_UNPREDICTED
    ]
    assert drawn
    assert all("at the start, before any option" in text for text in drawn)
    assert all("\n1. " in text for text in drawn)


def test_planners_bring_the_exercises_of_their_roles():
    makers = exercise_makers(MINECRAFT, words="taught")
    assert {"prior", *ROLES} <= makers.keys()
    assert makers["propose"] is makers["dynamics"]
