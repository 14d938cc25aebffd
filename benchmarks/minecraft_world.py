"""What a step and a clone of Minecraft's text world cost, and a step of its option world.

Steps are drawn beforehand, and of three kinds: any action on any item, uniformly, in a world that
already holds something; one mining step that always succeeds; and every item in turn by its own
action, but with nothing in hand, which always fails. A clone is compared with `copy.deepcopy` of
the inventory alone, the least that a copy has to do. The option world carries out a plan for an
iron pickaxe in one world after another, as a search that tries options would.
"""

from __future__ import annotations

import copy
import random
from functools import partial
from itertools import cycle, islice
from time import thread_time as clock
from typing import TYPE_CHECKING

from harness import AnswersDifferError, Finding, medians, parser, report

from llm_planning.environments.minecraft.book.rulebook import RuleBook
from llm_planning.environments.minecraft.items.goals import GOALS_67
from llm_planning.environments.minecraft.items.text_world import TextWorld
from llm_planning.environments.minecraft.options.option import Option
from llm_planning.environments.minecraft.options.tasks import PLAINS
from llm_planning.environments.minecraft.options.world import OptionWorld

if TYPE_CHECKING:
    from collections.abc import Iterable

STEPS = 200_000
CLONES = 20_000
WORLDS = 200
REPEATS = 5

PLAN = (
    Option("mine", 8, "oak_log"),
    Option("craft", 1, "wooden_pickaxe"),
    Option("mine", 11, "cobblestone"),
    Option("craft", 1, "stone_pickaxe"),
    Option("craft", 1, "furnace"),
    Option("find", 1, "iron_ore"),
    Option("mine", 3, "iron_ore"),
    Option("smelt", 3, "iron_ore"),
    Option("craft", 1, "iron_pickaxe"),
)


def walked(world: TextWorld) -> TextWorld:
    """The world after 100 rounds in which every item of which few are held is tried once."""
    for _ in range(100):
        for item in world.items:
            if world.inventory.get(item, 0) < 8:
                world.step(world.book.rule(item).action, item)
    return world


def stepping(world: TextWorld, pairs: Iterable[tuple[str, str]]) -> float:
    """Seconds for carrying out the pairs in a copy of the world."""
    step = world.clone().step
    begun = clock()
    for action, item in pairs:
        step(action, item)
    return clock() - begun


def steps_per_second(world: TextWorld) -> Finding:
    """Steps of three kinds; the slowest counts."""
    empty = TextWorld(world.book)
    refused = [(world.book.rule(item).action, item) for item in world.items if item != "logs"]
    draw = random.Random(0)
    drawn = [(draw.choice(world.verbs), draw.choice(world.items)) for _ in range(STEPS)]
    loops = {
        "drawn": (world, drawn),
        "all_succeed": (world, [("mine", "cobblestone")] * STEPS),
        "all_fail": (empty, list(islice(cycle(refused), STEPS))),
    }
    seconds = medians(
        {name: partial(stepping, *loop) for name, loop in loops.items()}, repeats=REPEATS
    )
    copied = world.clone()
    succeeded = sum(copied.step(*pair) is not None for pair in drawn)
    rates = {name: STEPS / taken for name, taken in seconds.items()}
    return Finding(
        label="steps per second, the slowest of three kinds",
        measured=min(rates.values()),
        unit="/s",
        bound="at least",
        target=200_000,
        details={
            **{f"steps_per_second_{name}": rate for name, rate in rates.items()},
            "share_of_drawn_steps_that_succeed": succeeded / STEPS,
            "items": len(world.items),
        },
    )


def options_per_second(book: RuleBook) -> Finding:
    """Steps of the option world; a state need not be copied, so there is nothing else to pay."""
    worlds = [OptionWorld(book, seed=0).reseeded(seed) for seed in range(WORLDS)]
    reached = 0

    def carried_out() -> float:
        nonlocal reached
        begun = clock()
        for world in worlds:
            state = PLAINS
            for option in PLAN:
                state = world.step(state, option).state
            reached += "iron_pickaxe" in state.inventory
        return clock() - begun

    (seconds,) = medians({"options": carried_out}, repeats=REPEATS).values()
    return Finding(
        label="options per second of the option world",
        measured=WORLDS * len(PLAN) / seconds,
        unit="/s",
        bound="at least",
        target=5_000,
        details={"share_of_plans_that_succeed": reached / (WORLDS * REPEATS)},
    )


def cloning(world: TextWorld) -> tuple[Finding, Finding]:
    """Clones beside deep copies, from the same state."""
    if world.clone().inventory != copy.deepcopy(world.inventory):
        raise AnswersDifferError("a clone's inventory is not the deep copy")

    def cloned() -> float:
        begun = clock()
        for _ in range(CLONES):
            world.clone()
        return clock() - begun

    def deep_copied() -> float:
        begun = clock()
        for _ in range(CLONES):
            copy.deepcopy(world.inventory)
        return clock() - begun

    seconds = medians({"clone": cloned, "deepcopy": deep_copied}, repeats=REPEATS)
    micros = {name: taken / CLONES * 1e6 for name, taken in seconds.items()}
    return (
        Finding(
            label="copy.deepcopy of the inventory over a clone of the world",
            measured=micros["deepcopy"] / micros["clone"],
            unit="x",
            bound="at least",
            target=2,
            details={"kinds_of_item_held": len(world.inventory)},
        ),
        Finding(
            label="one clone",
            measured=micros["clone"],
            unit="µs",
            bound="at most",
            target=10,
            details={"us_deepcopy": micros["deepcopy"]},
        ),
    )


def main() -> None:
    """Measures and reports."""
    arguments = parser(__doc__).parse_args()
    world = walked(TextWorld(RuleBook.load(), goals=GOALS_67))
    ratio, micros = cloning(world)
    report(
        "minecraft_world",
        [ratio, micros, steps_per_second(world), options_per_second(world.book)],
        as_json=arguments.json,
    )


if __name__ == "__main__":
    main()
