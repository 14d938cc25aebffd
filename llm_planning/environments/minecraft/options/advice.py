"""The advice of the rules: the options that it still takes to hold some items.

The advice is a relaxed plan: it ignores chance, and takes what is near to stay near. It is made
anew in every state, so it need not foresee everything.
"""

from __future__ import annotations

from collections import Counter
from functools import cache
from math import ceil
from typing import TYPE_CHECKING

from llm_planning.environments.minecraft.book.rulebook import STATIONS
from llm_planning.environments.minecraft.options.option import MOST, Option
from llm_planning.environments.minecraft.options.rules import GROUPS
from llm_planning.environments.minecraft.options.tables import FUEL
from llm_planning.environments.minecraft.options.verbs import (
    COLLECT,
    CRAFT,
    FIND,
    MILKING,
    SHEAR,
    VERBS,
    giver,
)

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from llm_planning.environments.minecraft.options.rules import OptionRules
    from llm_planning.environments.minecraft.options.state import State
    from llm_planning.environments.minecraft.options.verb import Verb


def needed(rules: OptionRules, state: State, wanted: Iterable[Sequence[str]]) -> list[Option]:
    """The options that it still takes to hold some items.

    Args:
        wanted: groups of items; one item of each group is to be held.

    Returns:
        The options in an order that works, each verb and item once; empty if everything is held.
    """
    draft = _Draft(rules, state)
    for kinds in wanted:
        draft.obtain(draft.nearest(kinds), 1)
    return draft.plan()


def needed_for(rules: OptionRules, state: State, item: str, count: int) -> list[Option]:
    """The options that it still takes to hold so many of one item; see `needed`."""
    draft = _Draft(rules, state)
    draft.obtain(item, count)
    return draft.plan()


def nearest(rules: OptionRules, state: State, kinds: Sequence[str]) -> str:
    """The item that is nearest in a state; the first of several that are equally near.

    Held items come first, then items whose sources are near, then the others.
    """
    return _Draft(rules, state).nearest(kinds)


class _Draft:
    """A relaxed plan under construction.

    Attributes:
        options: (verb, item) -> quantity, in an order that works.
    """

    def __init__(self, rules: OptionRules, state: State) -> None:
        self.options: Counter[tuple[str, str]] = Counter()
        self._rules = rules
        self._held = Counter(state.inventory) | Counter(filter(None, state.equipment))
        self._near = {*state.nearby_blocks, *state.nearby_entities}
        self._under_way: set[str] = set()
        self._crafting = False

    def plan(self) -> list[Option]:
        """The options, in an order that works; of each at most a stack."""
        return [Option(verb, min(n, MOST), item) for (verb, item), n in self.options.items()]

    def nearest(self, kinds: Sequence[str]) -> str:
        """The item that is nearest; the first of several that are equally near."""
        return min(kinds, key=self._distance)

    def obtain(self, item: str, count: int) -> None:
        """Adds the options that it takes until `count` of an item are held."""
        missing = count - self._held[item]
        if missing <= 0 or item in self._under_way:
            return
        self._under_way.add(item)
        if (way := giver(self._rules, item)) is not None:
            self._get(*way, item, missing)
        self._under_way.discard(item)
        self._held[item] = max(self._held[item], count)

    def _get(self, verb: Verb, names: Sequence[str], item: str, missing: int) -> None:
        name = min(names, key=lambda candidate: candidate not in self._near)
        recipe = verb.takes(self._rules, self._near, name)
        assert recipe is not None
        # A folded craft makes its own materials, down to the ones that cannot be crafted.
        on_the_way = self._crafting and item in self._rules.on_the_way
        before = self._crafting
        # Inside a folded craft, the tools of these count as made on the way, which they are not:
        # advice for a bed lacks the shears.
        self._crafting = verb is CRAFT or (before and verb in (SHEAR, MILKING, COLLECT))
        times = ceil(missing / recipe.makes)
        for kinds, count in recipe.consumed:
            kind = self.nearest(kinds)
            self.obtain(kind, count * times)
            self._held[kind] -= count * times
        for kinds in recipe.kept:
            self._bring(kinds)
        if recipe.burns:
            self._bring_fuel(times)
        self._crafting = before
        for source in recipe.near[:1]:
            self._go_to(source)
        if not on_the_way:
            self.options[verb.word, name] += 1 if verb.singly else recipe.makes * times
        self._held[item] += recipe.makes * times

    def _bring(self, kinds: Sequence[str]) -> None:
        """Adds the options for the first of these stations or tools, unless one is there."""
        there = any(
            self._held[kind] > 0 or (kind in STATIONS and kind in self._near) for kind in kinds
        )
        if not there:
            self.obtain(kinds[0], 1)

    def _bring_fuel(self, pieces: int) -> None:
        """Sets fuel aside for a furnace: the fuel that is held, and logs for the rest."""
        left = float(pieces)
        for fuel, heat in FUEL.items():
            used = min(ceil(max(left, 0.0) / heat), self._held[fuel])
            self._held[fuel] -= used
            left -= used * heat
        if left > 0:
            log = self.nearest(GROUPS["logs"])
            logs = ceil(left / FUEL[log])
            self.obtain(log, self._held[log] + logs)
            self._held[log] -= logs

    def _go_to(self, kind: str) -> None:
        if kind not in self._near:
            self.options[FIND.word, kind] = 1
            self._near.add(kind)

    def _distance(self, item: str) -> int:
        """0 if an item is held, 1 if its sources are near, 2 otherwise."""
        if self._held[item] > 0:
            return 0
        rules = self._rules
        recipe = rules.crafts.get(item) or rules.smelts.get(item)
        if recipe is not None:
            materials = [kinds for kinds, _ in recipe.consumed]
            return max((min(map(self._source_distance, kinds)) for kinds in materials), default=1)
        return self._source_distance(item)

    def _source_distance(self, item: str) -> int:
        if self._held[item] > 0:
            return 0
        sources = _sources(self._rules, item)
        recipe = self._rules.crafts.get(item)
        if recipe is not None and not sources:
            kinds = [kind for kinds, _ in recipe.consumed for kind in kinds]
            sources = [source for kind in kinds for source in _sources(self._rules, kind)]
        return 1 if self._near.intersection(sources) else 2


@cache
def _sources(rules: OptionRules, item: str) -> Sequence[str]:
    """The blocks, animals and fluids that give an item."""
    return [
        kind
        for verb in VERBS.values()
        for name in verb.sources(rules, item)
        if (recipe := verb.takes(rules, (), name)) is not None
        for kind in recipe.near
    ]
