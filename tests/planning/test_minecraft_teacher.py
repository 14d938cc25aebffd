"""The teacher of Minecraft: what it holds out, and whether what it says is right."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from functools import cache
from random import Random

import pytest

from llm_planning.environments.minecraft.options.domain import EVERY_TASK, Minecraft
from llm_planning.environments.minecraft.options.language import ChangeModel
from llm_planning.environments.minecraft.options.option import Option
from llm_planning.environments.minecraft.options.tasks import PLAINS
from llm_planning.environments.minecraft.options.teacher import HELD_OUT_ITEMS, MinecraftTeacher

TEACHER = MinecraftTeacher()
ANSWER = ChangeModel("closed").answer
NOTHING = {
    "gained": [],
    "lost": [],
    "blocks": [],
    "entities": [],
    "equipped": [],
    "conditions": [],
}


@cache
def situation(number, held_out):
    return TEACHER.situation(Random(f"test {number}"), held_out=held_out)


def situations(count, *, held_out):
    return [situation(number, held_out) for number in range(count)]


def predicted(**fields):
    return ANSWER.model_validate({**NOTHING, **fields})


def test_equal_seeds_draw_equal_situations():
    first, second = (TEACHER.situation(Random(5), held_out=False) for _ in range(2))
    assert (first.state, first.feasible, first.infeasible) == (
        second.state,
        second.feasible,
        second.infeasible,
    )
    assert [domain.goal for domain in first.domains] == [domain.goal for domain in second.domains]


def test_lessons_are_about_nothing_that_is_held_out():
    for here in situations(60, held_out=False):
        assert not here.new
        assert all(domain.task.name not in HELD_OUT_ITEMS for domain in here.domains)
        assert all(
            option.item not in HELD_OUT_ITEMS for option in (*here.feasible, *here.infeasible)
        )
        assert not any(TEACHER.is_held_out(domain, here.state) for domain in here.domains)


def test_a_new_state_is_held_out_for_every_goal():
    for here in situations(20, held_out=True):
        assert all(TEACHER.is_held_out(domain, here.state) for domain in here.domains)


@pytest.mark.parametrize(
    "option",
    [
        Option("craft", 1, "shield"),
        Option("cook", 1, "mutton"),
        Option("collect", 1, "water"),
        Option("smelt", 2, "mutton"),
    ],
)
def test_an_option_is_held_out_if_it_makes_what_is(option):
    assert TEACHER.option_kind(option) == "held out"
    assert TEACHER.option_kind(Option("cook", 1, "beef")) == "seen"


def test_exams_are_about_new_states_and_also_about_what_is_held_out():
    drawn = situations(20, held_out=True)
    taught = {str(here.state) for here in situations(100, held_out=False)}
    assert all(here.new and str(here.state) not in taught for here in drawn)
    kinds = Counter(TEACHER.goal_kind(domain) for here in drawn for domain in here.domains)
    assert set(kinds) == {"task", "other", "held out"}
    options = [option for here in drawn for option in (*here.feasible, *here.infeasible)]
    assert {TEACHER.option_kind(option) for option in options} == {"seen", "held out"}


def test_the_start_of_the_tasks_is_taught():
    assert any(here.state == PLAINS for here in situations(60, held_out=False))


def test_options_are_judged_as_the_rules_judge_them():
    for here in situations(20, held_out=False):
        domain = here.domains[0]
        assert all(domain.feasible(here.state, option) is None for option in here.feasible)
        assert all(domain.feasible(here.state, option) is not None for option in here.infeasible)


def test_options_of_many_verbs_come_before_the_second_of_one():
    here = situations(1, held_out=False)[0]
    verbs = [option.verb for option in here.infeasible]
    assert len(set(verbs[: len(set(verbs))])) == len(set(verbs))


def test_what_is_predicted_can_follow():
    for here in situations(20, held_out=True):
        for option in here.feasible[:6]:
            prediction = TEACHER.prediction(here.state, option)
            assert TEACHER.can_follow(here.state, option, prediction), option


ORE = Option("find", 1, "iron_ore")
CRAFTER = replace(PLAINS, inventory={"oak_log": 3, "cobblestone": 11, "wooden_pickaxe": 1})


@pytest.mark.parametrize(
    ("option", "fields", "follows"),
    [
        (Option("mine", 3, "oak_log"), {"gained": [{"item": "oak_log", "count": 3}]}, True),
        (Option("mine", 3, "oak_log"), {"gained": [{"item": "oak_log", "count": 2}]}, False),
        (Option("mine", 3, "oak_log"), {}, False),
        (Option("kill", 1, "pig"), {"gained": [{"item": "porkchop", "count": 1}]}, True),
        (Option("kill", 1, "pig"), {"gained": [{"item": "porkchop", "count": 4}]}, False),
        (Option("find", 1, "cow"), {"entities": ["cow"]}, True),
        # A cow may also not be found.
        (Option("find", 1, "cow"), {}, True),
        # What is in view already, or the present height, changes nothing.
        (Option("find", 1, "pig"), {"entities": ["pig"], "conditions": ["height 64"]}, True),
        # Sheep come into view at times, and monsters never by day.
        (Option("find", 1, "cow"), {"entities": ["cow", "sheep"]}, True),
        (Option("find", 1, "cow"), {"entities": ["zombie"]}, False),
        (ORE, {"blocks": ["iron_ore"], "conditions": ["height 40"]}, True),
        (ORE, {"blocks": ["iron_ore"]}, False),
        (Option("equip", 1, "wooden_pickaxe"), {"equipped": ["wooden_pickaxe"]}, True),
    ],
)
def test_a_prediction_follows_if_the_world_may_do_it(option, fields, follows):
    assert TEACHER.can_follow(CRAFTER, option, predicted(**fields)) is follows


@pytest.mark.parametrize(
    ("option", "evidence"),
    [
        (Option("mine", 3, "oak_log"), "oak_log near"),
        (Option("mine", 3, "cobblestone"), "stone near, wooden_pickaxe held"),
        # 8 of the 11 for the furnace; the crafting_table costs a log.
        (Option("craft", 1, "furnace"), "takes 1 of 3 oak_log, 8 of 11 cobblestone"),
        (Option("kill", 1, "pig"), "pig near"),
        (Option("find", 1, "cow"), "nothing is missing"),
    ],
)
def test_evidence_names_what_an_option_takes(option, evidence):
    assert TEACHER.evidence(CRAFTER, option) == evidence


def test_aims_name_what_is_missing():
    assert TEACHER.aim(CRAFTER, Option("mine", 2, "oak_log")) == "needs 5 oak_log, has 3"
    assert TEACHER.aim(CRAFTER, Option("find", 1, "cow")) == "no cow near"


@pytest.mark.parametrize("task", EVERY_TASK)
def test_the_planner_on_the_rules_reaches_every_task(task):
    """In its own model: the advised option first, with what the teacher predicts."""
    domain = Minecraft(task=task)
    state = domain.start(0)
    for _ in range(20):
        if domain.success(state):
            break
        option = next(
            action for action in domain.advise(state) if domain.feasible(state, action) is None
        )
        state, _ = domain.state_model.read(state, TEACHER.prediction(state, option))
    assert domain.success(state)


@pytest.mark.parametrize("name", ["no_such_item", "compass"])
def test_what_cannot_be_held_out_is_refused(name):
    with pytest.raises(ValueError, match=f"cannot hold out '{name}'"):
        MinecraftTeacher(held_out=[name])
