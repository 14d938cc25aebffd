"""The goals of the dependency-learning studies: 67, 100 and 120 items (XENON, Tables 10 and 11).

Both tables list as many items as they count. Names are the game's ids except for families that the
paper names once for all kinds of wood or stone: `logs`, `planks`, `coals`, `cobblestone`, `boat`,
`wooden_slab`, `wooden_stairs`, `wooden_door`, `wooden_sign`, `wooden_fence` and `woodenfence_gate`
(printed so in Table 11). `map` is the game's empty map.
"""

from __future__ import annotations

from itertools import chain
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Mapping


def _pieces(material: str, *pieces: str) -> tuple[str, ...]:
    return tuple(f"{material}_{piece}" for piece in pieces)


_TOOLS = ("axe", "hoe", "pickaxe", "shovel", "sword")
_ARMOUR = ("boots", "chestplate", "helmet", "leggings")

GOAL_GROUPS_67: Final[Mapping[str, tuple[str, ...]]] = {
    "Wood": (
        "bowl",
        "crafting_table",
        "chest",
        "ladder",
        "stick",
        *_pieces("wooden", *_TOOLS),
    ),
    "Stone": (
        "charcoal",
        "furnace",
        "smoker",
        *_pieces("stone", *_TOOLS),
        "torch",
    ),
    "Iron": (
        "blast_furnace",
        "bucket",
        "chain",
        "hopper",
        "iron_axe",
        "iron_bars",
        "iron_hoe",
        "iron_nugget",
        "iron_pickaxe",
        "iron_shovel",
        "iron_sword",
        "rail",
        "shears",
        "smithing_table",
        "stonecutter",
        "tripwire_hook",
    ),
    "Gold": ("gold_ingot", *_pieces("golden", *_TOOLS)),
    "Redstone": (
        "activator_rail",
        "compass",
        "dropper",
        "note_block",
        "piston",
        "redstone_torch",
    ),
    "Diamond": ("diamond", *_pieces("diamond", *_TOOLS), "jukebox"),
    "Armor": (
        *_pieces("diamond", *_ARMOUR),
        *_pieces("golden", *_ARMOUR),
        *_pieces("iron", *_ARMOUR),
        "shield",
    ),
}
"""Table 10: group -> its goals."""

_ADDED_FOR_100: Mapping[str, tuple[str, ...]] = {
    "Leather": (
        "leather",
        *_pieces("leather", *_ARMOUR),
        "leather_horse_armor",
        "item_frame",
    ),
    "Paper": ("map", "book", "cartography_table", "bookshelf", "lectern"),
    "Flint": ("flint", "flint_and_steel", "fletching_table", "arrow"),
    "Wood": (
        "bow",
        "boat",
        "wooden_slab",
        "wooden_stairs",
        "wooden_door",
        "wooden_sign",
        "wooden_fence",
        "woodenfence_gate",
    ),
    "Stone": (
        "cobblestone_slab",
        "cobblestone_stairs",
        "cobblestone_wall",
        "lever",
        "stone_slab",
        "stone_button",
        "stone_pressure_plate",
        "stone_bricks",
        "grindstone",
    ),
}

_ADDED_FOR_120: Mapping[str, tuple[str, ...]] = {
    "Iron": (
        "iron_trapdoor",
        "heavy_weighted_pressure_plate",
        "iron_door",
        "crossbow",
        "minecart",
        "cauldron",
        "lantern",
    ),
    "Gold": ("gold_nugget", "light_weighted_pressure_plate", "golden_apple", "golden_carrot"),
    "Redstone": (
        "redstone",
        "powered_rail",
        "target",
        "dispenser",
        "clock",
        "repeater",
        "detector_rail",
    ),
    "Diamond": ("obsidian", "enchanting_table"),
}


def _extended(
    groups: Mapping[str, tuple[str, ...]], added: Mapping[str, tuple[str, ...]]
) -> dict[str, tuple[str, ...]]:
    names = dict.fromkeys((*groups, *added))
    return {name: (*groups.get(name, ()), *added.get(name, ())) for name in names}


GOAL_GROUPS_100: Final[Mapping[str, tuple[str, ...]]] = _extended(GOAL_GROUPS_67, _ADDED_FOR_100)
"""Table 10 with the upper part of Table 11."""

GOAL_GROUPS_120: Final[Mapping[str, tuple[str, ...]]] = _extended(GOAL_GROUPS_100, _ADDED_FOR_120)
"""Table 10 with both parts of Table 11."""

GOALS_67: Final = tuple(chain.from_iterable(GOAL_GROUPS_67.values()))
GOALS_100: Final = tuple(chain.from_iterable(GOAL_GROUPS_100.values()))
GOALS_120: Final = tuple(chain.from_iterable(GOAL_GROUPS_120.values()))

PRIOR_GOALS: Final = (
    "stick",
    "crafting_table",
    "wooden_pickaxe",
    "furnace",
    "stone_pickaxe",
    "iron_pickaxe",
    "iron_sword",
    "gold_ingot",
    "golden_sword",
    "diamond",
    "wooden_axe",
    "wooden_shovel",
    "wooden_sword",
    "stone_axe",
    "stone_shovel",
    "stone_sword",
)
"""The goals obtainable by prior knowledge, before any perturbation (Table 4 counts 16).

The paper does not name them. Here they are the ten goals that occur in the three human-written
plans (Appendix I.2) and six goals, our choice, that are one craft away from the items of those
plans: axe, shovel and sword of wood and of stone.
"""

GOAL_SETS: Final[Mapping[str, tuple[str, ...]]] = {
    "67-goals": GOALS_67,
    "100-goals": GOALS_100,
    "120-goals": GOALS_120,
    **{group.lower(): goals for group, goals in GOAL_GROUPS_67.items()},
}
"""Every set by its name; a group of Table 10 is a set, too ("redstone")."""
