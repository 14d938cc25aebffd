"""Crafting, with its materials made on the way; smelting; cooking.

All materials are counted before an attempt, so that its effect does not depend on chance.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field, replace
from math import ceil
from typing import TYPE_CHECKING, Final, Self

from llm_planning.environments.minecraft.options.rules import article, at_hand, unknown
from llm_planning.environments.minecraft.options.state import Change, Effect
from llm_planning.environments.minecraft.options.tables import COOKED, FUEL, SMELT_TICKS

if TYPE_CHECKING:
    from collections.abc import Mapping

    from llm_planning.environments.minecraft.options.option import Option
    from llm_planning.environments.minecraft.options.rules import OptionRules, Recipe
    from llm_planning.environments.minecraft.options.state import Attempt, State

CRAFT_TICKS: Final = 20
"""Time to craft any number of one item."""


def craft(rules: OptionRules, state: State, option: Option) -> Attempt | str:
    """Makes the item in this quantity, rounded up to whole yields of the recipe.

    If the rules fold crafts, the materials and a crafting table are made on the way; what is left
    over of them stays in the inventory. An obstacle names what must be gathered.
    """
    recipe = rules.crafts.get(option.item)
    if recipe is None:
        return unknown(option.item, "{} cannot be crafted")
    bench = _Bench(state=state, recipes=rules.on_the_way, held=dict(state.inventory))
    bench.make(recipe, ceil(option.quantity / recipe.makes))
    obstacle = bench.obstacle()
    if obstacle is not None:
        return obstacle
    effect = Effect(change=bench.change(), ticks=CRAFT_TICKS * len(bench.made))
    return lambda _: effect


def smelt(rules: OptionRules, state: State, option: Option) -> Attempt | str:
    """Smelts this quantity in a furnace; the item is the product or its material.

    Whole pieces of fuel are burnt, and the heat left over is lost.
    """
    recipe = rules.smelted.get(option.item)
    if recipe is None:
        return unknown(option.item, "{} cannot be smelted")
    times = ceil(option.quantity / recipe.makes)
    bench = _Bench(state=state, recipes={}, held=dict(state.inventory))
    bench.pay(recipe, times)
    obstacle = bench.obstacle()
    if obstacle is not None:
        return obstacle
    fuel = burnt(bench.held, times)
    if isinstance(fuel, str):
        return fuel
    lost = Counter(bench.change().lost) + Counter(fuel)
    change = Change(gained={recipe.item: recipe.makes * times}, lost=dict(lost))
    return lambda _: Effect(change=change, ticks=SMELT_TICKS * times)


def cook(rules: OptionRules, state: State, option: Option) -> Attempt | str:
    """Smelts food; the item is the raw or the cooked food."""
    recipe = rules.smelted.get(option.item)
    if recipe is None or recipe.item not in COOKED:
        return unknown(option.item, "{} cannot be cooked")
    return smelt(rules, state, option)


@dataclass(slots=True, kw_only=True)
class _Bench:
    """An inventory during crafting or smelting.

    Attributes:
        state: before the option.
        recipes: id -> recipe of an item that may be made on the way.
        held: item -> count at this point of the work.
        short: alternative materials -> how many are missing.
        absent: the first station that is neither there nor can be made.
        made: the items that were crafted.
    """

    state: State
    recipes: Mapping[str, Recipe]
    held: dict[str, int]
    short: dict[tuple[str, ...], int] = field(default_factory=dict)
    absent: str | None = None
    made: frozenset[str] = frozenset()

    def make(self, recipe: Recipe, times: int) -> None:
        """Carries out a recipe and notes what is missing for it."""
        self.pay(recipe, times)
        self.held[recipe.item] = self.held.get(recipe.item, 0) + recipe.makes * times
        self.made |= {recipe.item}

    def pay(self, recipe: Recipe, times: int) -> None:
        """Uses up a recipe's materials, those with the fewest alternatives first; then stations."""
        for kinds, count in sorted(recipe.consumed, key=lambda material: len(material[0])):
            self._use(kinds, count * times)
        self._set_up(recipe)

    def obstacle(self) -> str | None:
        """The missing station or the first missing material, in words; None if all is there."""
        if self.absent is not None:
            return f"needs {article(self.absent)}"
        for kinds, missing in self.short.items():
            name = " or ".join(kinds) if len(kinds) < 3 else f"{kinds[0]} or another kind"
            # A missing material means that all of its kinds were used up.
            has = sum(self.state.inventory.get(kind, 0) for kind in kinds)
            return f"needs {has + missing} {name}, has {has}"
        return None

    def change(self) -> Change:
        """The difference to the inventory before."""
        before = self.state.inventory
        more = {item: count - before.get(item, 0) for item, count in self.held.items()}
        return Change(
            gained={item: count for item, count in more.items() if count > 0},
            lost={item: -count for item, count in more.items() if count < 0},
        )

    def _set_up(self, recipe: Recipe) -> None:
        """Makes the stations that are missing, or notes the first that cannot be made."""
        for kinds in recipe.kept:
            if at_hand(self.state, kinds) or any(self.held.get(kind) for kind in kinds):
                continue
            station = self.recipes.get(kinds[0])
            if station is not None:
                self.make(station, 1)
            elif self.absent is None:
                self.absent = kinds[0]

    def _use(self, kinds: tuple[str, ...], count: int) -> None:
        """Uses up held items, in the order of the inventory, and makes the missing ones."""
        count -= self._take(kinds, count)
        ways = [self.recipes[kind] for kind in kinds if kind in self.recipes]
        while count and ways:
            done = next(filter(None, map(self._tried, ways)), None)
            if done is None:
                break
            self.held, self.made = done.held, done.made
            count -= self._take(kinds, count)
        if count and ways:
            self._miss(ways, count)
        elif count:
            self.short[kinds] = self.short.get(kinds, 0) + count

    def _take(self, kinds: tuple[str, ...], count: int) -> int:
        taken = 0
        for item in self.held:
            if item in kinds:
                part = min(count - taken, self.held[item])
                self.held[item] -= part
                taken += part
        return taken

    def _tried(self, recipe: Recipe) -> Self | None:
        trial = replace(self, held=dict(self.held), short={}, absent=None)
        trial.make(recipe, 1)
        return trial if trial.obstacle() is None else None

    def _miss(self, ways: list[Recipe], count: int) -> None:
        """Notes what must be gathered for an item that cannot be made of what is held.

        Recipes of one item in several woods differ only in the wood, so any of their materials will
        do.
        """
        first = ways[0]
        times = ceil(count / first.makes)
        for materials in zip(*(way.consumed for way in ways), strict=False):
            kinds = tuple(dict.fromkeys(kind for alike, _ in materials for kind in alike))
            self._use(kinds, materials[0][1] * times)
        self._set_up(first)
        left = first.makes * times - count
        self.held[first.item] = self.held.get(first.item, 0) + left


def burnt(held: Mapping[str, int], pieces: int) -> dict[str, int] | str:
    """The fuel that smelts this number of pieces, or the obstacle in words."""
    used_up: dict[str, int] = {}
    left = float(pieces)
    for fuel, power in FUEL.items():
        used = min(ceil(left / power), held.get(fuel, 0))
        if used:
            used_up[fuel] = used
            left -= used * power
        if left <= 0:
            return used_up
    return f"needs fuel for {pieces}, has fuel for {pieces - left:g}"
