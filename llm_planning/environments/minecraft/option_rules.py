"""The rule book in the words of the option-level world.

The rule book has one name for all kinds of some items, as XENON does (`logs`, `planks`, `coals`).
Options and states use the ids of the game (`oak_log`, `coal`). Only this module knows both.

`needed` gives the advice of the rules: the options that it still takes to hold some items. The
advice is a relaxed plan: it ignores chance, and takes what is near to stay near. It is made anew in
every state, so it need not foresee everything.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from math import ceil
from typing import TYPE_CHECKING, Final, Literal, TypeAlias

from llm_planning.environments.minecraft.option_language import MOST, Option
from llm_planning.environments.minecraft.option_tables import (
    COOKED,
    DROPS,
    FLUIDS,
    FUEL,
    HARVESTED_WITH,
    KILLED,
    SHEARED,
    WOODS,
)
from llm_planning.environments.minecraft.rulebook import STATIONS, substitutes

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from llm_planning.environments.minecraft.option_tables import Drop
    from llm_planning.environments.minecraft.rulebook import ItemRule, RuleBook
    from llm_planning.environments.minecraft.state import State

CraftMode: TypeAlias = Literal["folded", "single"]
"""How much one craft makes.

A `single` craft carries out one recipe. A `folded` craft also makes the materials and the crafting
table that it needs, if all of them can be crafted from what is held.

The skill library of the paper folds in the same way (Tree of Options, Appendix A.2, rule 7). With
single crafts, six of its eight tasks need 14 to 16 options, more than the paper's 12. With folded
crafts, one task needs 13, or 12 if iron lies beside the gold. If crafts were folded without the
crafting table, three tasks would need more than 12. (`tests/planning/test_option_world_tasks.py`
counts them.)
"""

_KINDS_OF_WOOD: Final = {
    "logs": "log",
    "planks": "planks",
    "boat": "boat",
    "wooden_slab": "slab",
    "wooden_stairs": "stairs",
    "wooden_door": "door",
    "wooden_trapdoor": "trapdoor",
    "wooden_sign": "sign",
    "wooden_fence": "fence",
    "woodenfence_gate": "fence_gate",
    "wooden_button": "button",
    "wooden_pressure_plate": "pressure_plate",
}

GROUPS: Final[Mapping[str, tuple[str, ...]]] = {
    **{group: tuple(f"{wood}_{kind}" for wood in WOODS) for group, kind in _KINDS_OF_WOOD.items()},
    "coals": ("coal", "charcoal"),
}
"""Name in the rule book -> the game's ids of its kinds; any other name is an id."""

FLUID_IN: Final[Mapping[str, str]] = {full: fluid for fluid, full in FLUIDS.items()}
"""Full bucket -> the fluid in it."""

_WOOD_OF = {f"{wood}_{kind}": wood for kind in _KINDS_OF_WOOD.values() for wood in WOODS}


Needs: TypeAlias = tuple[frozenset[str], ...]
"""Groups of items, blocks and entities; at least one of each."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Recipe:
    """How one item is crafted or smelted.

    Attributes:
        item: the game's id.
        consumed: (ids, count) for each material; any of the ids will do.
        kept: for each station or tool, the items that serve as it.
        makes: number of items that one execution yields.
    """

    item: str
    consumed: tuple[tuple[tuple[str, ...], int], ...]
    kept: tuple[tuple[str, ...], ...]
    makes: int


class OptionRules:
    """A rule book laid out for options.

    Args:
        book: the rules. Rules with the actions craft and smelt are the recipes; rules that break a
            block give the tool for it. `option_tables.DROPS` gives what a block yields.
        options: how much one craft makes.

    Attributes:
        crafts: id -> its recipe without a furnace.
        on_the_way: the recipes of `crafts` that a craft carries out for its materials; empty if
            crafts are single.
        smelts: id -> its recipe in a furnace.
        smelts_from: material -> its recipe in a furnace, for materials of exactly one recipe.
        drops: name of an item or a block -> the drops that `mine` may mean by it.
        tools: block -> the items of which one must be held to mine it; blocks that can be mined by
            hand are missing.
    """

    def __init__(self, book: RuleBook, *, options: CraftMode) -> None:
        rules = book.rules.values()
        self.crafts: Mapping[str, Recipe] = {
            recipe.item: recipe for recipe in _recipes(rules, action="craft")
        }
        self.on_the_way: Mapping[str, Recipe] = {"folded": self.crafts, "single": {}}[options]
        self.smelts: Mapping[str, Recipe] = {
            recipe.item: recipe for recipe in _recipes(rules, action="smelt")
        }
        self.smelts_from: Mapping[str, Recipe] = _by_material(self.smelts.values())
        self.drops: Mapping[str, tuple[Drop, ...]] = _drops_by_name()
        self.tools: Mapping[str, tuple[str, ...]] = {
            **{block: substitutes(tool) for block, tool in HARVESTED_WITH.items()},
            **_tools(rules),
        }

    def needs(self, verb: str, item: str) -> Needs:
        """Groups of items of which one each must be held before an option can be carried out.

        More may be needed. What is made on the way counts by what it is made of. What is worn is
        held, and need not be put on.
        """
        if verb in {"place", "equip"}:
            return (frozenset({item}),)
        recipe = self._recipe(verb, item)
        if recipe is None:
            return ()
        sources = tuple(self._sources(kinds) for kinds, _ in recipe.consumed)
        return sources if verb == "craft" else (*sources, frozenset(FUEL))

    def near(self, verb: str, item: str) -> Needs:
        """Groups of which one each must be held or in view before an option can be carried out.

        More may be needed.
        """
        if verb == "kill":
            return (frozenset({item}),)
        if verb == "mine":
            return (frozenset(drop.block for drop in self.drops.get(item, ())),)
        recipe = None if verb == "craft" else self._recipe(verb, item)
        return tuple(map(frozenset, recipe.kept)) if recipe else ()

    def _recipe(self, verb: str, item: str) -> Recipe | None:
        """The recipe by which an option makes its item, if it does."""
        smelts = (self.smelts, self.smelts_from)
        recipes = {"craft": (self.crafts,), "smelt": smelts, "cook": smelts}
        return next((one[item] for one in recipes.get(verb, ()) if item in one), None)

    def _sources(self, kinds: Iterable[str]) -> frozenset[str]:
        """These items, and all that they can be made of on the way."""
        found, open_ = set[str](), list(kinds)
        while open_:
            item = open_.pop()
            if item not in found:
                found.add(item)
                recipe = self.on_the_way.get(item)
                open_ += [kind for some, _ in recipe.consumed for kind in some] if recipe else []
        return frozenset(found)


def holds(state: State, item: str) -> bool:
    """Whether an item is in the inventory, worn or in hand."""
    return item in state.inventory or item in state.equipment


def at_hand(state: State, kinds: Iterable[str]) -> bool:
    """Whether one of these tools and stations is held, or is a station that is near."""
    return any(
        holds(state, item) or (item in STATIONS and item in state.nearby_blocks) for item in kinds
    )


def has_tool(rules: OptionRules, state: State, block: str) -> bool:
    """Whether a block can be mined with what is held."""
    tools = rules.tools.get(block)
    return tools is None or any(holds(state, tool) for tool in tools)


def unknown(item: str, sentence: str) -> str:
    """The obstacle for a name that a verb cannot use, with a hint for names of the rule book."""
    hint = f"; name one kind, such as {GROUPS[item][0]}" if item in GROUPS else ""
    return sentence.format(item or "nothing") + hint


def article(thing: str) -> str:
    """A thing with its indefinite article; plurals have none."""
    a = "an" if thing.startswith("i") else "a"
    return thing if thing.endswith("s") else f"{a} {thing}"


def _recipes(rules: Iterable[ItemRule], *, action: str) -> Iterable[Recipe]:
    for rule in rules:
        if rule.action == action:
            for item in GROUPS.get(rule.item, (rule.item,)):
                yield _recipe(rule, item)


def _recipe(rule: ItemRule, item: str) -> Recipe:
    return Recipe(
        item=item,
        consumed=tuple((_kinds(name, item), count) for name, count in rule.consumed.items()),
        kept=tuple(substitutes(name) for name in rule.kept),
        makes=rule.makes,
    )


def _kinds(name: str, product: str) -> tuple[str, ...]:
    """The ids of a material; a product that exists in every wood takes its own wood only."""
    kinds = GROUPS.get(name, (name,))
    wood = _WOOD_OF.get(product)
    own = tuple(kind for kind in kinds if wood is not None and _WOOD_OF.get(kind) == wood)
    return own or kinds


def _by_material(recipes: Iterable[Recipe]) -> dict[str, Recipe]:
    takers: dict[str, list[Recipe]] = {}
    for recipe in recipes:
        for kinds, _ in recipe.consumed:
            for kind in kinds:
                takers.setdefault(kind, []).append(recipe)
    return {kind: users[0] for kind, users in takers.items() if len(users) == 1}


def _drops_by_name() -> dict[str, tuple[Drop, ...]]:
    """Name -> the drops of this item or, if no block gives such an item, of this block."""
    by_item: dict[str, tuple[Drop, ...]] = {}
    by_block: dict[str, tuple[Drop, ...]] = {}
    for drop in DROPS:
        by_item[drop.item] = (*by_item.get(drop.item, ()), drop)
        by_block.setdefault(drop.block, (drop,))
    return {**by_block, **by_item}


def _tools(rules: Iterable[ItemRule]) -> dict[str, tuple[str, ...]]:
    needed: dict[str, tuple[str, ...]] = {}
    for rule in rules:
        kind, _, block = rule.source.partition(":")
        for tool in rule.kept if kind == "block" else ():
            needed[block] = substitutes(tool)
    return needed


LEFT_BY: Final = {
    item: tuple(kind for kind, loot in KILLED.items() if any(one[0] == item for one in loot))
    for item in dict.fromkeys(one[0] for loot in KILLED.values() for one in loot)
}
"""Item -> the animals and monsters that leave it when they are killed."""


def needed(rules: OptionRules, state: State, wanted: Iterable[Sequence[str]]) -> list[Option]:
    """The options that it still takes to hold some items.

    Args:
        rules: recipes, drops and tools.
        state: the state in which the options begin.
        wanted: groups of items; one item of each group is to be held.

    Returns:
        The options in an order that works, each verb and item once; empty if everything is held.
    """
    draft = _Draft(rules, state)
    for kinds in wanted:
        draft.obtain(draft.nearest(kinds), 1)
    return draft.said()


def needed_for(rules: OptionRules, state: State, item: str, count: int) -> list[Option]:
    """The options that it still takes to hold so many of one item; see `needed`."""
    draft = _Draft(rules, state)
    draft.obtain(item, count)
    return draft.said()


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

    def said(self) -> list[Option]:
        """The plan."""
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
        # A folded craft makes its own materials, down to the ones that cannot be crafted.
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
            self.options[verb, recipe.item] += recipe.makes * times
        self._held[recipe.item] += recipe.makes * times

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
        """Adds the options for an item that animals or fluids give."""
        if item == SHEARED[0]:
            self._bring(("shears",))
            self._go_to("sheep")
            self.options["shear", "sheep"] += 1
        elif item == "milk_bucket" or item in FLUID_IN:
            self.obtain("bucket", missing)
            self._held["bucket"] -= missing
            source = FLUID_IN.get(item, "cow")
            self._go_to(source)
            self.options["collect" if item in FLUID_IN else "milk", source] += missing
        elif item in LEFT_BY:
            kind = min(LEFT_BY[item], key=lambda one: one not in self._near)
            self._go_to(kind)
            self.options["kill", kind] += missing
        self._held[item] += missing

    def _go_to(self, kind: str) -> None:
        if kind not in self._near:
            self.options["find", kind] = 1
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
        sources = [drop.block for drop in self._rules.drops.get(item, ())]
        sources += LEFT_BY.get(item, ())
        recipe = self._rules.crafts.get(item)
        if recipe is not None and not sources:
            kinds = [kind for kinds, _ in recipe.consumed for kind in kinds]
            sources = [drop.block for kind in kinds for drop in self._rules.drops.get(kind, ())]
        return 1 if self._near.intersection(sources) else 2
