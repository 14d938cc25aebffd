"""What a step of Minecraft's option-level world costs.

A player walks through the world with options drawn from a list; infeasible ones are not carried
out. The same states and options are then stepped again, exploring apart from the rest: a leg of
exploring draws everything that comes into view. Checking feasibility alone is the oracle of ToO's
feasibility check.
"""

from __future__ import annotations

import random
from functools import partial
from time import thread_time as clock
from typing import TYPE_CHECKING

from harness import AnswersDifferError, Finding, medians, parser, report

from llm_planning.environments.minecraft.option_world import OptionWorld
from llm_planning.environments.minecraft.rulebook import RuleBook
from llm_planning.environments.minecraft.tasks import PLAINS
from llm_planning.planners.tree_of_options.trajectory import Option

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from llm_planning.environments.minecraft.state import State

    Moment = tuple[State, Option]

MOMENTS = 2_000
REPEATS = 7

OPTIONS = (
    Option("mine", 4, "oak_log"),
    Option("craft", 4, "oak_planks"),
    Option("craft", 4, "stick"),
    Option("craft", 1, "crafting_table"),
    Option("craft", 1, "wooden_pickaxe"),
    Option("mine", 8, "cobblestone"),
    Option("craft", 1, "furnace"),
    Option("mine", 2, "coal"),
    Option("mine", 3, "iron_ore"),
    Option("smelt", 3, "iron_ingot"),
    Option("craft", 1, "stone_pickaxe"),
    Option("equip", 1, "stone_pickaxe"),
    Option("place", 1, "cobblestone"),
    Option("kill", 1, "pig"),
    Option("cook", 1, "porkchop"),
    Option("find", 1, "oak_log"),
    Option("find", 1, "pig"),
    Option("find", 1, "iron_ore"),
)


def walked(world: OptionWorld) -> list[Moment]:
    """Feasible options, each with the state in which it comes up."""
    draw = random.Random(0)
    state = PLAINS
    moments: list[Moment] = []
    while len(moments) < MOMENTS:
        option = draw.choice(OPTIONS)
        if world.feasible(state, option) is None:
            moments.append((state, option))
            state = world.step(state, option).state
    return moments


def timed(function: Callable[[State, Option], object], moments: Sequence[Moment]) -> float:
    """Seconds for all moments."""
    begun = clock()
    for state, option in moments:
        function(state, option)
    return clock() - begun


def main() -> None:
    """Measures and reports."""
    arguments = parser(__doc__).parse_args()
    world = OptionWorld(RuleBook.load(), seed=0)
    moments = walked(world)
    if moments != walked(world.reseeded(0)):
        raise AnswersDifferError("two walks with the same seed differ")
    exploring = [moment for moment in moments if moment[1].verb == "find"]
    others = [moment for moment in moments if moment[1].verb != "find"]
    seconds = medians(
        {
            "all": partial(timed, world.step, moments),
            "exploring": partial(timed, world.step, exploring),
            "others": partial(timed, world.step, others),
            "feasible": partial(timed, world.feasible, moments),
        },
        repeats=REPEATS,
    )
    finding = Finding(
        label="option steps per second",
        measured=len(moments) / seconds["all"],
        unit="/s",
        bound="at least",
        target=20_000,
        details={
            "us_exploring": seconds["exploring"] / len(exploring) * 1e6,
            "us_others": seconds["others"] / len(others) * 1e6,
            "us_feasible": seconds["feasible"] / len(moments) * 1e6,
            "share_exploring": len(exploring) / len(moments),
        },
    )
    report("minecraft_options", [finding], as_json=arguments.json)


if __name__ == "__main__":
    main()
