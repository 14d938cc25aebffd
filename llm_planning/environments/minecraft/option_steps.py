"""The steps immediately before an option, as DRIP asks for them (*DRIP*, Table 10).

    craft       its materials and its crafting table
    smelt, cook its material, fuel and a furnace
    mine        the tool that the block needs, and the block in view
    kill        the animal in view
    shear, milk, collect    shears or buckets, and the animal or the fluid in view
    place, equip            the item
    find        a pickaxe, for what lies below ground

What is held or in view already is named as well: the judge calls it done. Only fuel is left out if
what is held burns long enough. The state decides among kinds, such as the kinds of wood.

What may take the player elsewhere comes first: gathering, then crafting and placing, as in the
paper's order of an answer. Within each, what is harder to make comes first, because it may use up
what an easier step would have made: sticks and the table before the planks of a pickaxe.

DRIP's eight verbs are verbs of options, and its `explore` is `find`.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from functools import cache
from math import ceil
from typing import TYPE_CHECKING, Final, Literal, TypeAlias

from llm_planning.environments.minecraft.option_crafting import burnt, smelted
from llm_planning.environments.minecraft.option_language import MOST, Option
from llm_planning.environments.minecraft.option_rules import (
    FLUID_IN,
    GROUPS,
    LEFT_BY,
    holds,
    nearest,
    needed_for,
)
from llm_planning.environments.minecraft.option_tables import (
    COOKED,
    FLUIDS,
    FUEL,
    KILLED,
    SHEARED,
)
from llm_planning.environments.minecraft.option_verbs import ANYTHING
from llm_planning.environments.minecraft.rulebook import STATIONS
from llm_planning.environments.minecraft.surroundings import DIG_TICKS, LEVELS, in_view

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from llm_planning.environments.minecraft.option_rules import OptionRules, Recipe
    from llm_planning.environments.minecraft.state import State

Stations: TypeAlias = Literal["placed", "held"]
"""How a step before a craft or a furnace names its station: as placed nearby, which is the paper's
example (Table 10), or as held, which the world of options accepts as well."""

SPARE: Final = 2
"""How many more of a material are mined than an option needs: Table 10 asks for a slightly larger
number. (Our choice.)"""

_FROM: Final = {
    SHEARED[0]: ("shear", "sheep"),
    "milk_bucket": ("milk", "cow"),
    **{full: ("collect", fluid) for full, fluid in FLUID_IN.items()},
}
"""Item -> the verb that gives it, and of what."""

_ELSEWHERE: Final = ("mine", "kill", "shear", "milk", "collect", "smelt", "cook")
"""The verbs whose steps may lead away from where the player is."""


class StepsBefore:
    """Decomposes options by the rules.

    Args:
        rules: recipes, drops and tools.
        stations: whether stations are to be placed.
    """

    def __init__(self, rules: OptionRules, *, stations: Stations) -> None:
        self._rules = rules
        self._stations = stations
        self._effort = cache(self._effort_of)

    def goal(self, state: State, wanted: Iterable[Sequence[str]]) -> list[Option]:
        """The options that give the items of a goal.

        Args:
            state: the present state.
            wanted: groups of items; one item of each group is to be held.
        """
        return _said(self._hold(state, kinds, 1) for kinds in wanted)

    def before(self, state: State, option: Option) -> list[Option]:
        """The options immediately before an option: each once, none for an unknown one."""
        rules, verb, item, count = self._rules, option.verb, option.item, option.quantity
        steps: list[Option | None] = []
        if verb == "craft" and item in rules.crafts:
            recipe = rules.crafts[item]
            steps = self._in_order(self._for(state, recipe, ceil(count / recipe.makes)))
        elif verb in {"smelt", "cook"} and (furnace := smelted(rules, item)) is not None:
            times = ceil(count / furnace.makes)
            steps = self._in_order([*self._for(state, furnace, times), self._fuel(state, times)])
        elif verb == "mine":
            steps = self._before_mining(state, item)
        elif verb in {"place", "equip"}:
            steps = [self._hold(state, (item,), count if verb == "place" else 1)]
        elif verb == "kill" and item in KILLED:
            steps = [_find(item)]
        elif verb == "shear":
            steps = [self._hold(state, ("shears",), 1), _find("sheep")]
        elif verb == "milk":
            steps = [self._hold(state, ("bucket",), count), _find("cow")]
        elif verb == "collect":
            fluid = FLUID_IN.get(item, item)
            steps = [self._hold(state, ("bucket",), count), _find(fluid)] if fluid in FLUIDS else []
        elif _lies_below(option):
            steps = [Option("craft", 1, _pickaxe(state) or "wooden_pickaxe")]
        return _said(steps)

    def approach(self, before: State, state: State, option: Option) -> list[Option]:
        """How to go on with an option that is not done: what it lacks, then the rest of it.

        Args:
            before: the state in which the option was begun.
            state: the present state.
            option: that was begun.
        """
        left = option.quantity - self._gained(before, state, option)
        rest = replace(option, quantity=left) if left > 0 else option
        if option.verb == "kill":
            lacking = [_find(option.item)]
        elif option.verb in {"equip", "place"}:
            lacking = needed_for(self._rules, state, option.item, 1)
        else:
            lacking = [
                step
                for item in self._products(option)
                for step in needed_for(
                    self._rules, state, item, state.inventory.get(item, 0) + rest.quantity
                )
            ]
        same = (option.verb, option.item)
        return [*(step for step in lacking if (step.verb, step.item) != same), rest]

    def shows(self, before: State, state: State, option: Option) -> bool:
        """Whether the result of an option came about since `before`, in its quantity.

        A kill shows only by all of its loot: a player who kills cows for leather is not done with
        the beef. Blocks show by the least that they give.
        """
        rules, verb, item = self._rules, option.verb, option.item
        if verb in {"find", "explore"}:
            seen = in_view(state, item)
            return seen or (item in ANYTHING and state.position != before.position)
        if verb == "equip":
            return item in state.equipment
        if verb == "place":
            return item in state.nearby_blocks
        gained = Counter(state.inventory)
        gained.subtract(before.inventory)
        if verb == "kill":
            loot = KILLED.get(item, ())
            wanted = {one: max(least * option.quantity, 1) for one, least, _ in loot}
        elif verb == "mine" and item in rules.drops and rules.drops[item][0].item != item:
            drop = rules.drops[item][0]
            wanted = {drop.item: max(int(option.quantity * drop.least * drop.chance), 1)}
        else:
            wanted = dict.fromkeys(self._products(option), option.quantity)
        return bool(wanted) and all(gained[one] >= count for one, count in wanted.items())

    def _gained(self, before: State, state: State, option: Option) -> int:
        """The most of one of its products that is held more than before; at least 0."""
        return max(
            (
                state.inventory.get(item, 0) - before.inventory.get(item, 0)
                for item in self._products(option)
            ),
            default=0,
        )

    def _products(self, option: Option) -> Sequence[str]:
        """The items that an option gives."""
        rules, verb, item = self._rules, option.verb, option.item
        if verb in {"smelt", "cook"}:
            recipe = smelted(rules, item)
            return [recipe.item] if recipe else []
        if verb == "mine":
            return [drop.item for drop in rules.drops.get(item, ())[:1]]
        if verb == "kill":
            return [one for one, _, _ in KILLED.get(item, ())]
        given = {"craft": item, "shear": SHEARED[0], "milk": "milk_bucket"}
        given["collect"] = FLUIDS.get(item, item)
        return [given[verb]] if verb in given else []

    def _for(self, state: State, recipe: Recipe, times: int) -> list[Option | None]:
        """The steps that bring the materials and the stations of a recipe."""
        materials = [self._gather(state, kinds, n * times) for kinds, n in recipe.consumed]
        return [*materials, *(self._station(state, kinds) for kinds in recipe.kept)]

    def _before_mining(self, state: State, item: str) -> list[Option | None]:
        drops = self._rules.drops.get(item, ())
        if not drops:
            return []
        block = min(drops, key=lambda drop: drop.block not in state.nearby_blocks).block
        tools = self._rules.tools.get(block, ())
        tool = next((one for one in tools if holds(state, one)), tools[0] if tools else None)
        return [*([self._hold(state, (tool,), 1)] if tool else []), _find(block)]

    def _hold(self, state: State, kinds: Sequence[str], count: int) -> Option | None:
        """The option that gives so many of the nearest of these items; None if nothing gives it."""
        rules, item = self._rules, nearest(self._rules, state, kinds)
        sources = LEFT_BY.get(item, ())
        if item in rules.crafts:
            verb = "craft"
        elif item in rules.smelts:
            verb = "cook" if item in COOKED else "smelt"
        elif item in rules.drops:
            verb = "mine"
        elif item in _FROM:
            verb, item = _FROM[item]
        elif sources:
            verb, item = "kill", min(sources, key=lambda one: one not in state.nearby_entities)
        else:
            return None
        return Option(verb, min(count, MOST), item)

    def _gather(self, state: State, kinds: Sequence[str], count: int) -> Option | None:
        """The option that gives so many of a material, and some to spare if it is mined."""
        step = self._hold(state, kinds, count)
        if step is None or step.verb != "mine":
            return step
        return replace(step, quantity=min(count + SPARE, MOST))

    def _fuel(self, state: State, pieces: int) -> Option | None:
        if not isinstance(burnt(state.inventory, pieces), str):
            return None
        fuel = nearest(self._rules, state, ("coal", *GROUPS["logs"]))
        return self._hold(state, (fuel,), ceil(pieces / FUEL[fuel]))

    def _station(self, state: State, kinds: Sequence[str]) -> Option | None:
        if self._stations == "placed" and kinds[0] in STATIONS:
            return Option("place", 1, kinds[0])
        return self._hold(state, kinds, 1)

    def _in_order(self, steps: Iterable[Option | None]) -> list[Option | None]:
        return [*sorted(_said(steps), key=self._rank)]

    def _rank(self, step: Option) -> tuple[bool, int]:
        return (step.verb not in _ELSEWHERE, -self._effort(step.item))

    def _effort_of(self, item: str) -> int:
        """The number of steps on the longest way to an item from bare hands."""
        rules = self._rules
        recipe: Recipe | None = rules.crafts.get(item) or rules.smelts.get(item)
        if recipe is not None:
            needs = [kinds[0] for kinds, _ in recipe.consumed] + [kinds[0] for kinds in recipe.kept]
        else:
            drops = rules.drops.get(item, ())
            needs = [tools[0] for drop in drops[:1] if (tools := rules.tools.get(drop.block))]
        return 1 + max(map(self._effort, needs), default=0)


def unequipped(state: State, option: Option) -> str | None:
    """Why finding is not sensible yet: the basic equipment for it is missing (*DRIP*, Table 11).

    Some of what lies below ground lies open in a few places as well, so the world lets players
    without a pickaxe look for it, for a long time.

    Returns:
        The obstacle in words; None if nothing is missing, or the option does not find anything.
    """
    if not _lies_below(option) or _pickaxe(state) is not None:
        return None
    return f"{option.item} lies below ground: needs a pickaxe"


def _lies_below(option: Option) -> bool:
    return option.verb in {"find", "explore"} and option.item in LEVELS


def _pickaxe(state: State) -> str | None:
    """The fastest pickaxe that is held."""
    return next((tool for tool in DIG_TICKS if holds(state, tool)), None)


def _said(steps: Iterable[Option | None]) -> list[Option]:
    return list(dict.fromkeys(step for step in steps if step is not None))


def _find(kind: str) -> Option:
    return Option("find", 1, kind)
