"""The rule book in the words of the option-level world.

The rule book has one name for all kinds of some items, as XENON does (`logs`, `planks`, `coals`).
Options and states use the ids of the game (`oak_log`, `coal`). Only this module knows both.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, Literal, TypeAlias

from llm_planning.environments.minecraft.book.rulebook import STATIONS, substitutes
from llm_planning.environments.minecraft.options.tables import DROPS, FLUIDS, HARVESTED_WITH, WOODS

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from llm_planning.environments.minecraft.book.rulebook import ItemRule, RuleBook
    from llm_planning.environments.minecraft.options.state import State
    from llm_planning.environments.minecraft.options.tables import Drop

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


@dataclass(frozen=True, slots=True, kw_only=True)
class Recipe:
    """What it takes to get one item.

    Attributes:
        item: the game's id; of a kill, what is killed.
        consumed: (ids, count) for each material; any of the ids will do.
        kept: for each station or tool, the items that serve as it.
        burns: whether it takes fuel as well.
        near: kinds of which one must be in view; the first is chosen.
        makes: number of items that one execution yields.
    """

    item: str
    consumed: tuple[tuple[tuple[str, ...], int], ...] = ()
    kept: tuple[tuple[str, ...], ...] = ()
    burns: bool = False
    near: tuple[str, ...] = ()
    makes: int = 1


class OptionRules:
    """A rule book laid out for options.

    Args:
        book: the rules. Rules with the actions craft and smelt are the recipes; rules that break a
            block give the tool for it. `tables.DROPS` gives what a block yields.

    Attributes:
        crafts: id -> its recipe without a furnace.
        on_the_way: the recipes of `crafts` that a craft carries out for its materials; empty if
            crafts are single.
        smelts: id -> its recipe in a furnace.
        smelts_from: material -> its recipe in a furnace, for materials of exactly one recipe.
        smelted: the two of them in one.
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
        self.smelted: Mapping[str, Recipe] = {**self.smelts_from, **self.smelts}
        self.drops: Mapping[str, tuple[Drop, ...]] = _drops_by_name()
        self.tools: Mapping[str, tuple[str, ...]] = {
            **{block: substitutes(tool) for block, tool in HARVESTED_WITH.items()},
            **_tools(rules),
        }

    def made_of(self, kinds: Iterable[str]) -> frozenset[str]:
        """These items, and all that they can be made of on the way."""
        items, open_ = set[str](), list(kinds)
        while open_:
            item = open_.pop()
            if item not in items:
                items.add(item)
                recipe = self.on_the_way.get(item)
                open_ += [kind for some, _ in recipe.consumed for kind in some] if recipe else []
        return frozenset(items)


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
        burns=rule.action == "smelt",
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
