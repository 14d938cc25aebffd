"""The steps immediately before an option, as DRIP asks for them (*DRIP*, Table 10).

These are what a verb takes (`Verb.takes`): materials, stations and tools, fuel, and then a source
in view; or the item itself (`Verb.uses`). To find what lies below ground takes a pickaxe.

What is held or in view already is named as well: the judge calls it done. Only fuel is left out if
what is held burns long enough. The state decides among kinds, such as the kinds of wood.

What may take the player elsewhere comes first: gathering, then crafting and placing, as in the
paper's order of an answer. Within each, what is harder to make comes first, because it may use up
what an easier step would have made: sticks and the table before the planks of a pickaxe.
"""

from __future__ import annotations

from dataclasses import replace
from functools import cache
from math import ceil
from typing import TYPE_CHECKING, Final, Literal, TypeAlias

from llm_planning.environments.minecraft.book.rulebook import STATIONS
from llm_planning.environments.minecraft.options.advice import nearest, needed_for
from llm_planning.environments.minecraft.options.crafting import burnt
from llm_planning.environments.minecraft.options.option import MOST, Option
from llm_planning.environments.minecraft.options.rules import GROUPS, holds
from llm_planning.environments.minecraft.options.surroundings import LEVELS
from llm_planning.environments.minecraft.options.tables import FUEL
from llm_planning.environments.minecraft.options.verbs import (
    CRAFT,
    EQUIP,
    FIND,
    MINE,
    PLACE,
    VERBS,
    giver,
    held_pickaxe,
)

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from llm_planning.environments.minecraft.options.rules import OptionRules, Recipe
    from llm_planning.environments.minecraft.options.state import State

Stations: TypeAlias = Literal["placed", "held"]
"""How a step before a craft or a furnace names its station: as placed nearby, which is the paper's
example (Table 10), or as held, which the world of options accepts as well."""

SPARE: Final = 2
"""How many more of a material are mined than an option needs: Table 10 asks for a slightly larger
number. (Our choice.)"""


class StepsBefore:
    """Decomposes options by the rules."""

    def __init__(self, rules: OptionRules, *, stations: Stations) -> None:
        self._rules = rules
        self._stations = stations
        self._effort = cache(self._effort_of)

    def goal(self, state: State, wanted: Iterable[Sequence[str]]) -> list[Option]:
        """The options that give the items of a goal.

        Args:
            wanted: groups of items; one item of each group is to be held.
        """
        return _distinct(self._hold(state, kinds, 1) for kinds in wanted)

    def before(self, state: State, option: Option) -> list[Option]:
        """The options immediately before an option: each once, none for an unknown one."""
        verb = VERBS.get(option.verb)
        if verb is None:
            return []
        if _lies_below(option):
            return [Option(CRAFT.word, 1, held_pickaxe(state) or "wooden_pickaxe")]
        if count := verb.uses(option):
            return _distinct([self._hold(state, (option.item,), count)])
        near = (*state.nearby_blocks, *state.nearby_entities)
        recipe = verb.takes(self._rules, near, option.item)
        if recipe is None:
            return []
        times = ceil(option.quantity / recipe.makes)
        steps = [
            *(self._gather(state, kinds, count * times) for kinds, count in recipe.consumed),
            *(self._station(state, kinds) for kinds in recipe.kept),
            self._fuel(state, times) if recipe.burns else None,
        ]
        return [
            *sorted(_distinct(steps), key=self._rank),
            *(Option(FIND.word, 1, kind) for kind in recipe.near[:1]),
        ]

    def approach(self, before: State, state: State, option: Option) -> list[Option]:
        """How to go on with an option that is not done: what it lacks, then the rest of it.

        Nothing leads to what makes no sense, such as shearing iron: its sense would be the rules'.

        Args:
            before: the state in which the option was begun.
        """
        verb = VERBS[option.verb]
        if option.item not in verb.names(self._rules) and verb is not EQUIP:  # takes what is held
            return [option]
        gives = verb.gives(self._rules, option)
        held = state.inventory
        gained = max(
            (held.get(item, 0) - before.inventory.get(item, 0) for item in gives), default=0
        )
        left = option.quantity - gained
        rest = replace(option, quantity=left) if left > 0 else option
        if verb.lacking is not None:
            lacking = verb.lacking(option)
        elif verb.uses(option):
            lacking = needed_for(self._rules, state, option.item, 1)
        else:
            lacking = [
                step
                for item in gives
                for step in needed_for(self._rules, state, item, held.get(item, 0) + rest.quantity)
            ]
        same = (option.verb, option.item)
        return [*(step for step in lacking if (step.verb, step.item) != same), rest]

    def _hold(self, state: State, kinds: Sequence[str], count: int) -> Option | None:
        """The option that gives so many of the nearest of these items; None if nothing gives it."""
        item = nearest(self._rules, state, kinds)
        way = giver(self._rules, item)
        if way is None:
            return None
        verb, names = way
        name = min(names, key=lambda candidate: candidate not in state.nearby_entities)
        return Option(verb.word, min(count, MOST), name)

    def _gather(self, state: State, kinds: Sequence[str], count: int) -> Option | None:
        """The option that gives so many of a material, and some to spare if it is mined."""
        step = self._hold(state, kinds, count)
        if step is None or step.verb != MINE.word:
            return step
        return replace(step, quantity=min(count + SPARE, MOST))

    def _fuel(self, state: State, pieces: int) -> Option | None:
        if not isinstance(burnt(state.inventory, pieces), str):
            return None
        fuel = nearest(self._rules, state, ("coal", *GROUPS["logs"]))
        return self._hold(state, (fuel,), ceil(pieces / FUEL[fuel]))

    def _station(self, state: State, kinds: Sequence[str]) -> Option | None:
        item = next((kind for kind in kinds if holds(state, kind)), kinds[0])
        if self._stations == "placed" and item in STATIONS:
            return Option(PLACE.word, 1, item)
        return self._hold(state, (item,), 1)

    def _rank(self, step: Option) -> tuple[bool, int]:
        return (VERBS[step.verb].stays, -self._effort(step.item))

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
    if not _lies_below(option) or held_pickaxe(state) is not None:
        return None
    return f"{option.item} lies below ground: needs a pickaxe"


def _lies_below(option: Option) -> bool:
    return option.verb == FIND.word and option.item in LEVELS


def _distinct(steps: Iterable[Option | None]) -> list[Option]:
    return list(dict.fromkeys(step for step in steps if step is not None))
