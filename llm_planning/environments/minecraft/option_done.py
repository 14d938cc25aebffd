"""Whether the effect of an option holds already: one function a verb.

This is the first of the three answers of DRIP's check (*DRIP*, Table 11): done, executable, or not.
As there, the item that results is what counts, not the verb: planks that were found are planks. It
says nothing of who needs the items later, so an option may be done and needed once more.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, TypeAlias

from llm_planning.environments.minecraft.option_crafting import smelted
from llm_planning.environments.minecraft.option_gathering import (
    FLUID_IN,
    MILK,
    MILK_WORDS,
    SHEAR_WORDS,
    SHEARS,
)
from llm_planning.environments.minecraft.option_loot import FLUIDS, KILLED, SHEARED
from llm_planning.environments.minecraft.option_rules import holds
from llm_planning.environments.minecraft.surroundings import sighting, view

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from llm_planning.environments.minecraft.option_effects import Option
    from llm_planning.environments.minecraft.option_rules import OptionRules
    from llm_planning.environments.minecraft.state import State

Test: TypeAlias = "Callable[[OptionRules, State, Option], bool]"


def mined(rules: OptionRules, state: State, option: Option) -> bool:
    """So many of the item are held; or, of a block, what so many give at least."""
    drops = rules.drops.get(option.item)
    if drops is None:
        return False
    item, wanted = drops[0].item, option.quantity
    if option.item != item:
        wanted = max(int(wanted * drops[0].least * drops[0].chance), 1)
    return _has(state, item, wanted)


def crafted(rules: OptionRules, state: State, option: Option) -> bool:
    """So many of what can be crafted are held."""
    return option.item in rules.crafts and _has(state, option.item, option.quantity)


def cooked(rules: OptionRules, state: State, option: Option) -> bool:
    """So many of the product are held, even where the option names what it is made of."""
    recipe = smelted(rules, option.item)
    return recipe is not None and _has(state, recipe.item, option.quantity)


def equipped(rules: OptionRules, state: State, option: Option) -> bool:  # noqa: ARG001
    """It is worn or in hand."""
    return option.item in state.equipment


def placed(rules: OptionRules, state: State, option: Option) -> bool:  # noqa: ARG001
    """So many blocks of the kind are in view, whoever put them there."""
    there = option.item in state.nearby_blocks
    return there and sighting(state, option.item).number >= option.quantity


def killed(rules: OptionRules, state: State, option: Option) -> bool:  # noqa: ARG001
    """All that the kind leaves is held: one of each at least, and what so many leave at least.

    Who wants leather is not content with beef, though most cows leave both.
    """
    loot = KILLED.get(option.item, ())
    return bool(loot) and all(
        _has(state, item, max(least * option.quantity, 1)) for item, least, _ in loot
    )


def shorn(rules: OptionRules, state: State, option: Option) -> bool:  # noqa: ARG001
    """So much wool is held, and shears: wool alone may be that of a sheep that was killed."""
    return (
        option.item in SHEAR_WORDS
        and holds(state, SHEARS)
        and _has(state, SHEARED[0], option.quantity)
    )


def milked(rules: OptionRules, state: State, option: Option) -> bool:  # noqa: ARG001
    """So many buckets of milk are held."""
    return option.item in MILK_WORDS and _has(state, MILK, option.quantity)


def collected(rules: OptionRules, state: State, option: Option) -> bool:  # noqa: ARG001
    """So many buckets of the fluid are held."""
    full = FLUIDS.get(option.item, option.item)
    return full in FLUID_IN and _has(state, full, option.quantity)


def found(rules: OptionRules, state: State, option: Option) -> bool:  # noqa: ARG001
    """The block, the entity or the biome is in view. Looking around is never done."""
    return view(state).shows(option.item)


DONE: Final[Mapping[str, Test]] = {
    "mine": mined,
    "craft": crafted,
    "smelt": cooked,
    "cook": cooked,
    "equip": equipped,
    "place": placed,
    "kill": killed,
    "shear": shorn,
    "milk": milked,
    "collect": collected,
    "explore": found,
    "find": found,
}
"""Verb -> whether an option with it is done."""


def _has(state: State, item: str, count: int) -> bool:
    return max(state.inventory.get(item, 0), item in state.equipment) >= count
