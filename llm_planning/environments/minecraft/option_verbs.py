"""What each verb needs and does, and when its effect holds already.

A verb looks at a state and an option and answers with the obstacle in words, or with an attempt:
the option is feasible then, and carrying it out takes only the draws. Items stay in the inventory
while they are worn or in hand, and whatever is held can be used without equipping it first; tools
do not wear out.

That an effect holds is the first of the three answers of DRIP's check (*DRIP*, Table 11): done,
executable, or not. As there, the item that results is what counts, not the verb: planks that were
found are planks. It says nothing of who needs the items later, so an option may be done and needed
once more.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Final, TypeAlias

from llm_planning.environments.minecraft.option_crafting import cook, craft, smelt, smelted
from llm_planning.environments.minecraft.option_effects import Attempt, Effect
from llm_planning.environments.minecraft.option_gathering import (
    FLUID_IN,
    MILK,
    MILK_WORDS,
    MINE_TICKS,
    SHEAR_WORDS,
    SHEARS,
    collect,
    kill,
    milk,
    mine,
    shear,
)
from llm_planning.environments.minecraft.option_loot import FLUIDS, KILLED, SHEARED
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
    LEVELS,
    ON_SURFACE,
    arrival,
    explore,
    sighting,
    view,
)
from llm_planning.environments.minecraft.vocabulary import BLOCKS

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from random import Random

    from llm_planning.environments.minecraft.option_language import Option

Verb: TypeAlias = "Callable[[OptionRules, State, Option], Attempt | str]"
Test: TypeAlias = "Callable[[OptionRules, State, Option], bool]"

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
    if target and target not in ON_SURFACE and target not in LEVELS:
        return unknown(target, "{} is not found by exploring")
    if target and view(state).shows(target):
        return lambda _: Effect(ticks=0)
    if target and target not in ON_SURFACE and pickaxe is None:
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


def _has(state: State, item: str, count: int) -> bool:
    return max(state.inventory.get(item, 0), item in state.equipment) >= count


def _mined(rules: OptionRules, state: State, option: Option) -> bool:
    """So many of the item are held; or, of a block, what so many give at least."""
    drops = rules.drops.get(option.item)
    if drops is None:
        return False
    item, wanted = drops[0].item, option.quantity
    if option.item != item:
        wanted = max(int(wanted * drops[0].least * drops[0].chance), 1)
    return _has(state, item, wanted)


def _cooked(rules: OptionRules, state: State, option: Option) -> bool:
    """So many of the product are held, even where the option names what it is made of."""
    recipe = smelted(rules, option.item)
    return recipe is not None and _has(state, recipe.item, option.quantity)


def _killed(_: OptionRules, state: State, option: Option) -> bool:
    """All that the kind leaves is held: one of each at least, and what so many leave at least.

    Who wants leather is not content with beef, though most cows leave both.
    """
    loot = KILLED.get(option.item, ())
    return bool(loot) and all(
        _has(state, item, max(least * option.quantity, 1)) for item, least, _ in loot
    )


def _collected(_: OptionRules, state: State, option: Option) -> bool:
    """So many buckets of the fluid are held."""
    full = FLUIDS.get(option.item, option.item)
    return full in FLUID_IN and _has(state, full, option.quantity)


def _found(_: OptionRules, state: State, option: Option) -> bool:
    """The block, the entity or the biome is in view. Looking around is never done."""
    return view(state).shows(option.item)


DONE: Final[Mapping[str, Test]] = {
    "mine": _mined,
    "craft": lambda rules, state, option: (
        option.item in rules.crafts and _has(state, option.item, option.quantity)
    ),
    "smelt": _cooked,
    "cook": _cooked,
    "equip": lambda _, state, option: option.item in state.equipment,
    # Whoever put the blocks there.
    "place": lambda _, state, option: (
        option.item in state.nearby_blocks
        and sighting(state, option.item).number >= option.quantity
    ),
    "kill": _killed,
    # Wool alone may be that of a sheep that was killed, so shears are held as well.
    "shear": lambda _, state, option: (
        option.item in SHEAR_WORDS
        and holds(state, SHEARS)
        and _has(state, SHEARED[0], option.quantity)
    ),
    "milk": lambda _, state, option: (
        option.item in MILK_WORDS and _has(state, MILK, option.quantity)
    ),
    "collect": _collected,
    "explore": _found,
    "find": _found,
}
"""Verb -> whether an option with it is done: so many of what it results in are held, or in view."""

_PLACEABLE: Final = frozenset((*BLOCKS, *GROUPS["planks"])) - FLUIDS.keys()
