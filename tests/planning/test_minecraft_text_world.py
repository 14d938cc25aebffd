from dataclasses import replace

import pytest

from llm_planning.environments.minecraft.book.rulebook import (
    RuleBook,
)
from llm_planning.environments.minecraft.items.goals import GOALS_67, GOALS_120
from llm_planning.environments.minecraft.items.text_world import (
    TextWorld,
    UnknownActionError,
    action_set,
)
from llm_planning.planners.xenon.graph import PLANS

BOOK = RuleBook.load()


def world_with(**held):
    """A world of all goals in which these items are held."""
    world = TextWorld(BOOK, goals=GOALS_120)
    world._held.update(held)
    return world


def repeat(world, action, item, quantity):
    """The subgoal (a, q, v): repeats until q are held or an attempt fails."""
    while world.inventory.get(item, 0) < quantity:
        if world.step(action, item) is None:
            return False
    return True


def obtain(world, item, quantity=1):
    """Carries out an exhaustive plan, in any order that the rules allow."""
    rule = world.book.rule(item)
    while world.inventory.get(item, 0) < quantity:
        while any(world.inventory.get(n, 0) < q for n, q in rule.requirements.items()):
            for needed, count in rule.requirements.items():
                obtain(world, needed, count)
        assert world.step(rule.action, item) is not None, (item, world.inventory)


def test_items_outside_the_goals_closure_do_not_exist():
    assert TextWorld(BOOK).items == BOOK.closure(GOALS_67)
    assert "leather" in BOOK
    assert TextWorld(BOOK).step("mine", "leather") is None
    assert TextWorld(BOOK, goals=["leather"]).step("mine", "leather") == {}


def test_every_item_of_the_book_from_an_empty_inventory():
    world = TextWorld(BOOK, goals=BOOK.rules)
    for item in world.items:
        obtain(world, item)
        world.reset()


@pytest.mark.parametrize("plan", PLANS, ids=lambda plan: plan.goal)
def test_human_written_plans_succeed_step_by_step(plan):
    world = TextWorld(BOOK)
    for action, item, quantity in plan.steps:
        assert repeat(world, action, item, quantity), (item, world.inventory)
    assert world.inventory[plan.goal] == 1


def test_golden_trace_of_the_iron_sword():
    plan = next(plan for plan in PLANS if plan.goal == "iron_sword")
    world = TextWorld(BOOK)
    for action, item, quantity in plan.steps:
        repeat(world, action, item, quantity)
    # Logs 7 -> 6 crafts make 24 planks; 2 crafts of sticks for 5 make 8.
    assert world.steps == 7 + 6 + 2 + 1 + 1 + 11 + 1 + 1 + 2 + 2 + 1
    assert world.inventory == {
        "logs": 1,
        "planks": 13,
        "stick": 3,
        "crafting_table": 1,
        "wooden_pickaxe": 1,
        "furnace": 1,
        "stone_pickaxe": 1,
        "iron_sword": 1,
    }


def test_clones_go_their_own_way():
    world = world_with(planks=4)
    world.steps = 7
    other = world.clone()
    assert (other.steps, other.inventory, other.items) == (7, {"planks": 4}, world.items)
    other.step("craft", "crafting_table")
    assert world.inventory == {"planks": 4}
    assert other.inventory == {"crafting_table": 1}
    assert (world.steps, other.steps) == (7, 8)
    other.reset()
    assert world.inventory == {"planks": 4}
    world.change(BOOK.replaced([replace(BOOK.rule("stick"), action="mine")]))
    assert other.book is BOOK
    other.step("mine", "logs")
    other.step("craft", "planks")
    assert other.step("craft", "stick") == {"planks": 2}


def test_rules_that_change_keep_inventory_and_clock():
    world = world_with(logs=5, planks=8)
    changed = BOOK.replaced([replace(BOOK.rule("stick"), consumed={"logs": 2}, action="smelt")])
    world.change(changed)
    assert world.book is changed
    assert (world.steps, world.inventory) == (0, {"logs": 5, "planks": 8})
    assert world.step("craft", "stick") is None
    assert world.step("smelt", "stick") == {"logs": 2}
    assert world.inventory == {"logs": 3, "planks": 8, "stick": 4}
    world.change(BOOK)
    assert world.step("craft", "stick") == {"planks": 2}


def test_rules_that_change_never_take_an_item_away():
    narrow = BOOK.replaced([replace(BOOK.rule("torch"), consumed={"logs": 1})])
    world = TextWorld(BOOK, goals=["torch"])
    before = world.items
    world.change(narrow)
    assert world.items == before
    world = TextWorld(narrow, goals=["torch"])
    assert world.items == ("logs", "torch")
    world.change(BOOK)
    assert world.items[:2] == ("logs", "torch")
    assert set(world.items) == set(before)


def test_a_rule_whose_action_is_not_in_the_set_cannot_be_carried_out():
    changed = BOOK.replaced([replace(BOOK.rule("logs"), action="chop")])
    assert TextWorld(changed, verbs=action_set(15)).step("chop", "logs") == {}
    world = TextWorld(changed)
    assert world.step("mine", "logs") is None
    with pytest.raises(UnknownActionError, match=r"unknown action 'chop'; .*known: craft, mine"):
        world.step("chop", "logs")
    assert world.steps == 1


def test_larger_action_sets_obtain_nothing_more():
    world = TextWorld(BOOK, verbs=action_set(45))
    assert [verb for verb in world.verbs if world.step(verb, "logs") is not None] == ["mine"]
    assert world.steps == 45
