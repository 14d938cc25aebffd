"""Every task is carried out by a list of options that a player would write down."""

from itertools import count

import pytest

from llm_planning.environments.minecraft.option_world import OptionWorld
from llm_planning.environments.minecraft.rulebook import RuleBook
from llm_planning.environments.minecraft.tasks import MINE_A_DIAMOND, TASKS
from llm_planning.planners.tree_of_options.trajectory import Option

BOOK = RuleBook.load()

STONE_TOOLS = (
    "mine 10 oak_log",
    "craft 28 oak_planks",
    "craft 1 crafting_table",
    "craft 8 stick",
    "craft 1 wooden_pickaxe",
    "mine 11 cobblestone",
    "craft 1 stone_pickaxe",
    "craft 1 furnace",
    "mine 4 coal",
)
IRON = (*STONE_TOOLS, "find 1 iron_ore", "mine 9 iron_ore", "smelt 9 iron_ingot")
IRON_PICKAXE = (*IRON, "craft 1 iron_pickaxe")
DIAMOND = (*IRON_PICKAXE, "find 1 diamond_ore")

PLANS = {
    "obtain-leather": ("find 1 cow", "kill 4 cow"),
    "cook-meat": (*STONE_TOOLS, "kill 1 pig", "cook 1 porkchop"),
    "shear-a-sheep": (*IRON, "craft 1 shears", "find 1 sheep", "shear 1 sheep"),
    "milk-a-cow": (*IRON, "craft 1 bucket", "find 1 cow", "milk 1 cow"),
    "collect-a-lava-bucket": (*IRON, "craft 1 bucket", "find 1 lava", "collect 1 lava"),
    "craft-a-golden-sword": (
        *IRON_PICKAXE,
        "find 1 gold_ore",
        "mine 2 gold_ore",
        "smelt 2 gold_ingot",
        "craft 1 golden_sword",
    ),
    "craft-a-compass": (
        *IRON_PICKAXE,
        "find 1 redstone_ore",
        "mine 1 redstone",
        "craft 1 compass",
    ),
    "craft-a-diamond-pickaxe": (*DIAMOND, "mine 3 diamond", "craft 1 diamond_pickaxe"),
    "mine-a-diamond": (*DIAMOND, "mine 1 diamond"),
}
WORLD = OptionWorld(BOOK, seed=0)
EVERY_TASK = {**TASKS, MINE_A_DIAMOND.name: MINE_A_DIAMOND}


def carry_out(world, task):
    """Carries a plan out, looking again where nothing was seen, and from the start after a death.

    Returns:
        The options that it took, or None if 300 were not enough.
    """
    state = world.start(task)
    steps = count(1)
    while True:
        for line in PLANS[task.name]:
            verb, quantity, item = line.split(" ")
            while True:
                if next(steps) > 300:
                    return None
                outcome = world.step(state, Option(verb, int(quantity), item))
                state = outcome.state
                if outcome.success:
                    break
                if verb != "find" or "killed" in outcome.obstacle:
                    break
            if not outcome.success:
                break
        if world.achieved(state, task):
            return next(steps) - 1
        if outcome.obstacle and "killed" not in outcome.obstacle:
            raise AssertionError(f"{line}: {outcome.obstacle}")


@pytest.mark.parametrize("name", PLANS)
def test_every_task_can_be_done(name):
    for seed in range(5):
        steps = carry_out(WORLD.reseeded(seed), EVERY_TASK[name])
        assert steps is not None
        assert len(PLANS[name]) <= steps


def test_there_is_a_plan_for_every_task():
    assert set(PLANS) == set(EVERY_TASK)


@pytest.mark.parametrize("name", PLANS)
def test_no_task_is_done_at_once(name):
    task = EVERY_TASK[name]
    verb, quantity, item = PLANS[name][-1].split(" ")
    assert WORLD.feasible(WORLD.start(task), Option(verb, int(quantity), item))


def test_a_death_is_not_met_again_and_again():
    """In this world the plan for the sword is deadly the first time, from the very start."""
    name = "craft-a-golden-sword"
    steps = carry_out(WORLD.reseeded(169), EVERY_TASK[name])
    assert steps is not None
    assert steps > 2 * len(PLANS[name]) - 4
