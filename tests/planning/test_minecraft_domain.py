"""Minecraft as a domain, and what its rules advise."""

from random import Random

import pytest

from llm_planning.environments.minecraft.options.domain import EVERY_TASK, Minecraft
from llm_planning.environments.minecraft.options.option import Option
from llm_planning.environments.minecraft.options.tasks import PLAINS

WOOD, COW = Option("mine", 3, "oak_log"), Option("kill", 1, "cow")


def test_a_step_draws_all_chance_from_its_generator():
    world = Minecraft(task="obtain-leather")
    steps = [world.step(PLAINS, Option("find", 1, "cow"), Random(seed)) for seed in (1, 1, 2)]
    assert steps[0] == steps[1] != steps[2]


def test_the_goal_ends_the_episode():
    world = Minecraft(task="obtain-leather")
    state = world.step(PLAINS, Option("find", 1, "cow"), Random(3)).state
    for seed in range(20):
        step = world.step(state, Option("kill", 4, "cow"), Random(seed))
        assert step.done == world.success(step.state) == ("leather" in step.state.inventory)
        assert step.reward == float(step.done)


def test_advice_by_hand():
    # The table takes 4 planks, the pickaxe 3 and 2 for its sticks: 9 planks, 3 logs. Of the 3
    # planks that are left, one cooks the meat. 8 cobblestone make the furnace.
    advised = [str(option) for option in Minecraft(task="cook-meat").advise(PLAINS)]
    assert advised[-3:] == ["mine 8 cobblestone", "craft 1 furnace", "cook 1 cooked_porkchop"]
    assert set(advised[:-3]) == {"kill 1 pig", "mine 3 oak_log", "craft 1 wooden_pickaxe"}


@pytest.mark.parametrize(
    ("task", "reading"),
    [*((task, "folded") for task in EVERY_TASK), ("craft-a-golden-sword", "single")],
)
def test_the_advice_leads_to_the_goal(task, reading):
    world = Minecraft(task=task, options=reading)
    for seed in range(5):
        draws = Random(f"advised {seed}")
        state = world.start(seed)
        scores = [world.score(state)]
        for _ in range(150):
            possible = [
                action for action in world.advise(state) if world.feasible(state, action) is None
            ]
            step = world.step(state, possible[0], draws)
            state = step.state
            scores.append(world.score(state))
            if step.done:
                break
        assert world.success(state)
        assert scores[0] == 0.0
        assert scores[-1] == 1.0
