"""The rule book in the words of the option-level world.

The rule book names some things once for all their kinds, as XENON does (`logs`, `planks`, `coals`);
options and states use the ids of the game (`oak_log`, `coal`). This module is the only place that
knows both.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, Literal, TypeAlias

from llm_planning.environments.minecraft.option_loot import DROPS, HARVESTED_WITH, WOODS
from llm_planning.environments.minecraft.rulebook import STATIONS, servants

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from llm_planning.environments.minecraft.option_loot import Drop
    from llm_planning.environments.minecraft.rulebook import Rule, RuleBook
    from llm_planning.environments.minecraft.state import State

Reading: TypeAlias = Literal["folded", "single"]
"""What one craft may do. Folded, it makes on the way whatever it is made of, and the crafting table
that it needs, as far as all of it can be crafted from what is held; single, it is one recipe.

The skill library of the paper does what is folded here (Tree of Options, Appendix A.2, rule 7).
Counted singly, six of its eight tasks need more than its 12 options: 14 to 16. Folded, one does,
with 13, and 12 do where iron lies beside the gold; without the table three would
(`tests/planning/test_option_world_tasks.py` counts).
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
"""Name in the rule book -> the game's ids that it stands for; any other name is an id itself."""

_WOOD_OF = {f"{wood}_{kind}": wood for kind in _KINDS_OF_WOOD.values() for wood in WOODS}


@dataclass(frozen=True, slots=True, kw_only=True)
class Recipe:
    """How one item is crafted or smelted.

    Attributes:
        item: the game's id.
        consumed: (ids of which any will do, count) for each material.
        kept: stations and tools; for each, the items that do its work.
        makes: how many one execution yields.
    """

    item: str
    consumed: tuple[tuple[tuple[str, ...], int], ...]
    kept: tuple[tuple[str, ...], ...]
    makes: int


class OptionRules:
    """A rule book laid out for options.

    Args:
        book: the rules. Those with the actions craft and smelt are the recipes; those that break a
            block say which tool it takes. What a block gives is `option_loot.DROPS`.
        options: how much one craft does.

    Attributes:
        crafts: id -> its recipe without a furnace.
        on_the_way: those of them that a craft carries out by itself; none if options are single.
        smelts: id -> its recipe in a furnace.
        smelts_from: material -> the only recipe in which a furnace takes it.
        drops: name of an item or a block -> the drops that `mine` may mean by it.
        tools: block -> the items of which one must be held to mine it; absent where hands do.
    """

    def __init__(self, book: RuleBook, *, options: Reading) -> None:
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
            **{block: servants(tool) for block, tool in HARVESTED_WITH.items()},
            **_tools(rules),
        }


def holds(state: State, item: str) -> bool:
    """Whether an item is in the inventory, worn or in hand."""
    return item in state.inventory or item in state.equipment


def at_hand(state: State, kinds: Iterable[str]) -> bool:
    """Whether one of these tools and stations is held or, if it is a station, near."""
    return any(
        holds(state, item) or (item in STATIONS and item in state.nearby_blocks) for item in kinds
    )


def has_tool(rules: OptionRules, state: State, block: str) -> bool:
    """Whether a block can be mined with what is held."""
    tools = rules.tools.get(block)
    return tools is None or any(holds(state, tool) for tool in tools)


def unknown(item: str, sentence: str) -> str:
    """The obstacle of a name that a verb cannot use; names of the rule book get a hint."""
    hint = f"; name one kind, such as {GROUPS[item][0]}" if item in GROUPS else ""
    return sentence.format(item or "nothing") + hint


def article(thing: str) -> str:
    """A thing in the middle of a sentence."""
    a = "an" if thing.startswith("i") else "a"
    return thing if thing.endswith("s") else f"{a} {thing}"


def _recipes(rules: Iterable[Rule], *, action: str) -> Iterable[Recipe]:
    for rule in rules:
        if rule.action == action:
            for item in GROUPS.get(rule.item, (rule.item,)):
                yield _recipe(rule, item)


def _recipe(rule: Rule, item: str) -> Recipe:
    return Recipe(
        item=item,
        consumed=tuple((_kinds(name, item), count) for name, count in rule.consumed.items()),
        kept=tuple(servants(name) for name in rule.kept),
        makes=rule.makes,
    )


def _kinds(name: str, product: str) -> tuple[str, ...]:
    """The ids that a material may be; what exists in every wood is made of its own wood."""
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
    """A name means the blocks that give such an item; else the block of that name."""
    by_item: dict[str, tuple[Drop, ...]] = {}
    by_block: dict[str, tuple[Drop, ...]] = {}
    for drop in DROPS:
        by_item[drop.item] = (*by_item.get(drop.item, ()), drop)
        by_block.setdefault(drop.block, (drop,))
    return {**by_block, **by_item}


def _tools(rules: Iterable[Rule]) -> dict[str, tuple[str, ...]]:
    needed: dict[str, tuple[str, ...]] = {}
    for rule in rules:
        kind, _, block = rule.source.partition(":")
        for tool in rule.kept if kind == "block" else ():
            needed[block] = servants(tool)
    return needed
