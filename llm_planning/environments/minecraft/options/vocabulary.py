"""The words of Minecraft 1.16 that the eight tasks can need: identifiers.

Identifiers are the game's own ids, so each word names the same thing in prompts, answers and
states. The lists are short on purpose: with `vocabulary: closed`, a model chooses among things that
exist and could plausibly matter. Some names are both an animal and its meat.
"""

from __future__ import annotations

from llm_planning.environments.minecraft.options import tables
from llm_planning.environments.minecraft.options.tables import FLUIDS, KILLED, WOODS

BIOMES = tuple(tables.BIOMES)

TIMES = ("sunrise", "day", "noon", "sunset", "night", "midnight")

_LOGS = tuple(f"{wood}_log" for wood in WOODS)
_PLANKS = tuple(f"{wood}_planks" for wood in WOODS)

_GROUND = (
    "grass_block",
    "dirt",
    "stone",
    "cobblestone",
    "granite",
    "diorite",
    "andesite",
    "gravel",
    "sand",
    "clay",
    "obsidian",
)

_ORES = (
    "coal_ore",
    "iron_ore",
    "gold_ore",
    "redstone_ore",
    "lapis_ore",
    "diamond_ore",
)

_PLANTS = (
    "oak_leaves",
    "birch_leaves",
    "oak_sapling",
    "grass",
    "dandelion",
    "poppy",
    "sugar_cane",
    "wheat",
    "kelp",
    "seagrass",
)

_STATIONS = ("crafting_table", "furnace", "chest", "torch", "campfire", "white_bed")

_MATERIALS = (
    "stick",
    "flint",
    "coal",
    "charcoal",
    "iron_ingot",
    "iron_nugget",
    "gold_ingot",
    "gold_nugget",
    "redstone",
    "lapis_lazuli",
    "diamond",
    "leather",
    "rabbit_hide",
    "feather",
    "string",
    "bone",
    "white_wool",
    "paper",
    "wheat_seeds",
)

_TIERS = ("wooden", "stone", "iron", "golden", "diamond")
_TOOLS = tuple(
    f"{tier}_{tool}" for tier in _TIERS for tool in ("pickaxe", "axe", "shovel", "sword", "hoe")
)

_DEVICES = ("bucket", "shears", "flint_and_steel", "compass", "clock", "fishing_rod", "shield")

_FILLED_BUCKETS = ("water_bucket", "lava_bucket", "milk_bucket")

_ARMOUR = tuple(
    f"{material}_{piece}"
    for material in ("leather", "iron")
    for piece in ("helmet", "chestplate", "leggings", "boots")
)

_FOOD = (
    "beef",
    "cooked_beef",
    "porkchop",
    "cooked_porkchop",
    "mutton",
    "cooked_mutton",
    "chicken",
    "cooked_chicken",
    "rabbit",
    "cooked_rabbit",
    "cod",
    "cooked_cod",
    "salmon",
    "cooked_salmon",
    "apple",
    "bread",
    "egg",
)

ENTITIES = tuple(KILLED)
"""The animals and monsters that may be near."""

BLOCKS = (*_LOGS, *_PLANTS, *_GROUND, *_ORES, *FLUIDS, *_STATIONS)
"""The blocks that may be seen."""

ITEMS = (
    *_LOGS,
    *_PLANKS,
    *_GROUND,
    *_ORES,
    *_PLANTS,
    *_STATIONS,
    *_MATERIALS,
    *_TOOLS,
    *_DEVICES,
    *_FILLED_BUCKETS,
    *_ARMOUR,
    *_FOOD,
)
"""The items that an inventory may hold."""

OBJECTS = tuple(dict.fromkeys((*ITEMS, *FLUIDS, *ENTITIES)))
"""The words that may end an option."""
