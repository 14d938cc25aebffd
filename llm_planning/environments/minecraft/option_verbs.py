"""What each verb needs and does: one function a verb.

A verb looks at a state and an option and answers with the obstacle in words, or with an attempt:
the option is feasible then, and carrying it out takes only the draws. Items stay in the inventory
while they are worn or in hand, and whatever is held can be used without equipping it first; tools
do not wear out.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Final, TypeAlias

from llm_planning.environments.minecraft.option_crafting import cook, craft, smelt
from llm_planning.environments.minecraft.option_effects import Attempt, Effect, Option
from llm_planning.environments.minecraft.option_gathering import (
    MINE_TICKS,
    collect,
    kill,
    milk,
    mine,
    shear,
)
from llm_planning.environments.minecraft.option_loot import FLUIDS
from llm_planning.environments.minecraft.option_rules import (
    GROUPS,
    OptionRules,
    has_tool,
    holds,
    unknown,
)
from llm_planning.environments.minecraft.rulebook import STATIONS
from llm_planning.environments.minecraft.state import Change, Sighting, State
from llm_planning.environments.minecraft.surroundings import (
    DIG_TICKS,
    arrival,
    below_ground,
    explore,
    on_surface,
    sighting,
    view,
)
from llm_planning.environments.minecraft.vocabulary import BLOCKS

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from random import Random

Verb: TypeAlias = "Callable[[OptionRules, State, Option], Attempt | str]"

HAND_TICKS: Final = 20
"""Time to equip something, or to place one block, in ticks."""

ANYTHING: Final = ("", "surroundings")
"""What is explored when nothing in particular is looked for."""


def equip(rules: OptionRules, state: State, option: Option) -> Attempt | str:  # noqa: ARG001
    """Puts on armour, takes anything else in hand. The quantity plays no part."""
    if not holds(state, option.item):
        return f"needs {option.item} in the inventory"
    return lambda _: Effect(change=Change(equipped=option.item), ticks=HAND_TICKS)


def place(rules: OptionRules, state: State, option: Option) -> Attempt | str:  # noqa: ARG001
    """Puts blocks from the inventory where they can be used and mined again."""
    item, count = option.item, option.quantity
    if item not in _PLACEABLE:
        return f"{item} cannot be placed"
    held = state.inventory.get(item, 0)
    if held < count:
        return f"needs {count} {item}, has {held}"
    known = item in state.nearby_blocks
    there = sighting(state, item).number if known else 0
    change = Change(
        lost={item: count},
        blocks=() if known else (item,),
        near={item: Sighting(there + count, 1)},
    )
    return lambda _: Effect(change=change, ticks=HAND_TICKS * count)


def find(rules: OptionRules, state: State, option: Option) -> Attempt | str:
    """Goes where a block, an entity or a biome is in view; see `surroundings.explore`.

    `explore` is the same. Nothing happens where it is in view already. The quantity plays no part:
    a kind is in view or it is not. What was in view before is left behind, except that whoever
    walks away takes up the stations that they can: a crafting table, and with a pickaxe a furnace.
    """
    target = "" if option.item in ANYTHING else option.item
    pickaxe = next((tool for tool in DIG_TICKS if holds(state, tool)), None)
    if target and not (on_surface(target) or below_ground(target)):
        return unknown(target, "{} is not found by exploring")
    if target and view(state).shows(target):
        return lambda _: Effect(ticks=0)
    if target and not on_surface(target) and pickaxe is None:
        return f"{target} lies below ground: needs a pickaxe"

    def attempt(draw: Random) -> Effect:
        walk = explore(state, target, pickaxe=pickaxe, draw=draw)
        found = not target or walk.end.shows(target)
        luggage: dict[str, int] = {
            station: sighting(state, station).number
            for station in STATIONS
            if station in state.nearby_blocks and has_tool(rules, state, station)
        }
        return Effect(
            change=replace(arrival(state, walk.end), gained=luggage),
            ticks=walk.ticks + MINE_TICKS * sum(luggage.values()),
            exhaustion=walk.exhaustion,
            position=walk.end.position,
            shortfall=None if found else f"no {target} seen on the way",
        )

    return attempt


VERBS: Final[Mapping[str, Verb]] = {
    "mine": mine,
    "craft": craft,
    "smelt": smelt,
    "cook": cook,
    "equip": equip,
    "place": place,
    "kill": kill,
    "shear": shear,
    "milk": milk,
    "collect": collect,
    "explore": find,
    "find": find,
}
"""Every verb by its name."""

_PLACEABLE: Final = frozenset((*BLOCKS, *GROUPS["planks"])) - FLUIDS.keys()
