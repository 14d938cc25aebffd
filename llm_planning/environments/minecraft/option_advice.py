"""What the rules advise: the options that are still needed for some items, in an order that works.

The advice is a relaxed plan: chance is left out, and what is near counts as near until the end. It
is made anew in every state, so it need not foresee everything.
"""

from __future__ import annotations

from collections import Counter
from math import ceil
from typing import TYPE_CHECKING, Final

from llm_planning.environments.minecraft.option_language import Option
from llm_planning.environments.minecraft.option_loot import COOKED, FLUIDS, FUEL, KILLED, SHEARED
from llm_planning.environments.minecraft.option_rules import GROUPS
from llm_planning.environments.minecraft.rulebook import STATIONS

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from llm_planning.environments.minecraft.option_rules import OptionRules, Recipe
    from llm_planning.environments.minecraft.state import State

_MOST: Final = 64
_FLUID_IN: Final = {full: fluid for fluid, full in FLUIDS.items()}
_LEFT_BY: Final = {
    item: tuple(kind for kind, loot in KILLED.items() if any(one[0] == item for one in loot))
    for item in dict.fromkeys(one[0] for loot in KILLED.values() for one in loot)
}


def needed(rules: OptionRules, state: State, wanted: Iterable[Sequence[str]]) -> list[Option]:
    """The options that are still needed for some items.

    Args:
        rules: recipes, drops and tools.
        state: where they begin.
        wanted: groups of items; one item of each is to be held.

    Returns:
        In an order that works, each verb and item once; empty if everything is held.
    """
    draft = _Draft(rules, state)
    for kinds in wanted:
        draft.obtain(draft.nearest(kinds), 1)
    return [Option(verb, min(n, _MOST), item) for (verb, item), n in draft.options.items()]


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

    def nearest(self, kinds: Sequence[str]) -> str:
        """Of items any of which will do, the one that is nearest; of equals, the first."""
        return min(kinds, key=self._distance)

    def obtain(self, item: str, count: int) -> None:
        """Adds what is missing until so many of an item are held."""
        missing = count - self._held[item]
        if missing <= 0 or item in self._under_way:
            return
        self._under_way.add(item)
        rules = self._rules
        if item in rules.crafts:
            self._make("craft", rules.crafts[item], missing)
        elif item in rules.smelts:
            self._make("cook" if item in COOKED else "smelt", rules.smelts[item], missing)
        elif item in rules.drops:
            self._mine(item, missing)
        else:
            self._ask_animals(item, missing)
        self._under_way.discard(item)
        self._held[item] = max(self._held[item], count)

    def _make(self, verb: str, recipe: Recipe, missing: int) -> None:
        # A folded craft makes by itself what it is made of, down to what cannot be crafted.
        on_the_way = self._crafting and recipe.item in self._rules.on_the_way
        before, self._crafting = self._crafting, verb == "craft"
        times = ceil(missing / recipe.makes)
        for kinds, count in recipe.consumed:
            kind = self.nearest(kinds)
            self.obtain(kind, count * times)
            self._held[kind] -= count * times
        for kinds in recipe.kept:
            self._bring(kinds)
        if verb != "craft":
            self._bring_fuel(times)
        self._crafting = before
        if not on_the_way:
            self.options[verb, recipe.item] += missing
        self._held[recipe.item] += recipe.makes * times

    def _bring(self, kinds: Sequence[str]) -> None:
        """Makes sure that one of these stations or tools is there."""
        there = any(
            self._held[kind] > 0 or (kind in STATIONS and kind in self._near) for kind in kinds
        )
        if not there:
            self.obtain(kinds[0], 1)

    def _bring_fuel(self, pieces: int) -> None:
        """Sets aside what a furnace burns: what is held, and logs for the rest."""
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

    def _mine(self, item: str, missing: int) -> None:
        drops = self._rules.drops[item]
        block = min(drops, key=lambda drop: drop.block not in self._near).block
        before, self._crafting = self._crafting, False
        if tools := self._rules.tools.get(block):
            self._bring(tools)
        self._crafting = before
        self._go_to(block)
        self.options["mine", item] += missing
        self._held[item] += missing

    def _ask_animals(self, item: str, missing: int) -> None:
        """Obtains what animals and fluids give."""
        if item == SHEARED[0]:
            self._bring(("shears",))
            self._go_to("sheep")
            self.options["shear", "sheep"] += 1
        elif item == "milk_bucket" or item in _FLUID_IN:
            self.obtain("bucket", missing)
            self._held["bucket"] -= missing
            source = _FLUID_IN.get(item, "cow")
            self._go_to(source)
            self.options["collect" if item in _FLUID_IN else "milk", source] += missing
        elif item in _LEFT_BY:
            kind = min(_LEFT_BY[item], key=lambda one: one not in self._near)
            self._go_to(kind)
            self.options["kill", kind] += missing
        self._held[item] += missing

    def _go_to(self, kind: str) -> None:
        if kind not in self._near:
            self.options["find", kind] = 1
            self._near.add(kind)

    def _distance(self, item: str) -> int:
        """0 if an item is held, 1 if what it comes from is near, 2 otherwise."""
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
        sources = [drop.block for drop in self._rules.drops.get(item, ())]
        sources += _LEFT_BY.get(item, ())
        recipe = self._rules.crafts.get(item)
        if recipe is not None and not sources:
            kinds = [kind for kinds, _ in recipe.consumed for kind in kinds]
            sources = [drop.block for kind in kinds for drop in self._rules.drops.get(kind, ())]
        return 1 if self._near.intersection(sources) else 2
