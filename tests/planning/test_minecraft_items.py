"""Item-level Minecraft as domains; planners of any world there and in the kitchen."""

from collections import Counter
from random import Random

import pytest
from cooking_kitchens import PAPER_KITCHENS

from llm_planning.domain import Step
from llm_planning.environments.minecraft.items.domain import (
    Holdings,
    ItemAction,
    ItemSettings,
    MinecraftGoals,
    MinecraftItems,
)
from llm_planning.environments.minecraft.items.goals import GOAL_SETS, GOALS_67
from llm_planning.environments.minecraft.items.text_world import ACTIONS
from llm_planning.roles import Engines
from llm_planning.running import prepare
from llm_planning.specs import UnknownTaskError
from llm_serving.scripted import ScriptedEngine

RNG = Random(0)


def holding(seed=0, **inventory):
    return Holdings(tuple(sorted(inventory.items())), seed)


def unusual(pool):
    return ItemSettings.read({"requirements": 3, "actions": 3, "pool": pool})


def test_a_wooden_pickaxe_by_hand():
    """3 + 2 (a craft of sticks) + 4 planks are 9, of 3 logs."""
    world = MinecraftItems("wooden_pickaxe")
    way = world.advise(world.start(7))
    assert Counter(map(str, way)) == {
        "mine logs": 3,
        "craft planks": 3,
        "craft stick": 1,
        "craft crafting_table": 1,
        "craft wooden_pickaxe": 1,
    }
    state = world.start(7)
    for number, attempt in enumerate(way, start=1):
        assert attempt in world.actions(state)
        step = world.step(state, attempt, RNG)
        assert step.reward == float(step.done) == float(number == len(way))
        assert world.score(step.state) == pytest.approx(number / len(way))
        state = step.state
    # 3 crafts of 4 planks are three more than needed, 4 sticks two; a station is kept.
    assert state == holding(wooden_pickaxe=1, crafting_table=1, planks=3, stick=2)
    assert not world.actions(state)


def test_a_wrong_attempt_says_why_and_changes_nothing():
    world = MinecraftItems("furnace")
    state = holding(cobblestone=7, stone_pickaxe=1)
    for verb, item, why in (
        ("smelt", "furnace", "to smelt does not give furnace"),
        ("craft", "furnace", "craft furnace requires 8 cobblestone, 1 crafting_table"),
        ("craft", "elytra", "nothing here is called elytra"),
        ("milk", "furnace", "milk is not one of mine, craft, smelt"),
    ):
        step = world.step(state, ItemAction(verb, item), RNG)
        assert step == Step(state, text=why, obstacle=why)
    # A better tool serves as well as the one that is required.
    assert world.step(state, ItemAction("mine", "cobblestone"), RNG).state == holding(
        cobblestone=8, stone_pickaxe=1
    )


def test_more_verbs_make_no_more_possible():
    few, many = (MinecraftItems("stick", ItemSettings.read({"verbs": n})) for n in (3, 45))
    assert few.actions(few.start(0)) == many.actions(many.start(0)) == [ItemAction("mine", "logs")]
    assert many.feasible(many.start(0), ItemAction(ACTIONS[-1], "logs"))


@pytest.mark.parametrize(("pool", "seed"), [("resources", 0), ("required", 1)])
def test_the_advice_works_from_wherever_a_walk_led_under_unusual_rules(pool, seed):
    draws = Random(seed)
    for task in draws.sample(GOALS_67, 4):
        world = MinecraftItems(task, unusual(pool))
        state = world.start(seed)
        for _ in range(30):
            if not (actions := world.actions(state)):
                break
            state = world.step(state, draws.choice(actions), draws).state
        while not world.success(state):
            step = world.step(state, world.advise(state)[0], draws)
            assert step.obstacle is None, (task, step)
            state = step.state


def test_a_seed_draws_the_rules_only_where_some_are_unusual():
    usual = MinecraftItems("stick")
    assert usual.start(3) == usual.start(4)
    world = MinecraftItems("stick", unusual("resources"))
    assert world.start(3) != world.start(4)
    assert world.rules(3).book != world.rules(4).book
    changed = world.rules(3)
    assert len(changed.items) == 7
    for item in changed.actions:
        verb = changed.book.rule(item).action
        assert "does not give" in world.feasible(world.start(3), ItemAction("craft", item))
        assert verb in {"mine", "smelt"}


def test_a_set_is_held_at_once():
    world = MinecraftGoals("wood")
    state = world.start(0)
    for attempt in world.advise(state):
        state = world.step(state, attempt, RNG).state
    assert world.success(state)
    assert {item for item, _ in state.inventory} >= set(GOAL_SETS["wood"])
    assert all(item in world.goal for item in GOAL_SETS["wood"])


def test_an_unknown_task_proposes_the_nearest():
    with pytest.raises(UnknownTaskError, match="unknown task 'stik' of minecraft-items; did you"):
        MinecraftItems("stik")
    with pytest.raises(UnknownTaskError, match="did you mean 67-goals"):
        MinecraftGoals("67-goal")


# Planners of any world ----------------------------------------------------------------------------

LITTLE = {"simulations": 12}
ITEMS = {"domain": "minecraft-items", "task": "crafting_table"}
UNUSUAL_ITEMS = {"domain": "minecraft-items", "task": "stick"}
UNUSUAL = {"requirements": 3, "actions": 3}
KITCHEN = {"domain": PAPER_KITCHENS}


@pytest.mark.parametrize(
    ("planner", "place", "settings", "length"),
    [
        ("react", ITEMS, {}, 3),
        ("puct", UNUSUAL_ITEMS, UNUSUAL | LITTLE, None),
        ("llm-agent", ITEMS, {}, 3),
        ("llm-policy", KITCHEN, {}, 8),
    ],
)
async def test_rules_reach_the_goal(planner, place, settings, length):
    prepared = prepare(planner, settings={"roles": "rules", **settings}, **place)
    engine = ScriptedEngine({})
    outcome = await prepared.run(Engines(engine), 3)
    assert outcome.success
    assert not engine.requests
    assert not engine.scored
    # No attempt was in vain.
    assert length is None or len(outcome.plan) == length


@pytest.mark.parametrize(
    ("planner", "place", "read"),
    [("react", ITEMS, "Inventory: "), ("llm-policy", KITCHEN, "Next: ")],
)
async def test_a_model_is_asked_there(planner, place, read):
    """It likes short actions."""
    engine = ScriptedEngine(
        {"think": "I see what is here now."},
        score=lambda _, choices: [-float(len(choice)) for choice in choices],
    )
    prepared = prepare(planner, settings={"moves": 3}, **place)
    outcome = await prepared.run(Engines(engine), 0)
    assert outcome.metrics["moves"] <= 3
    assert read in engine.scored[0][0]
