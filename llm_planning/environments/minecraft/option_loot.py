"""What things give in the option-level world: blocks, animals, furnaces and fuel.

Source of every number unless it says otherwise: Minecraft Java Edition 1.16 (loot tables of blocks
and entities, furnace recipes, fuel times, food values, generator settings of the overworld).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Mapping

WOODS: Final = ("oak", "birch", "spruce", "jungle", "acacia", "dark_oak")


@dataclass(frozen=True, slots=True)
class Drop:
    """One thing that one block gives.

    Attributes:
        block: what is broken.
        item: what it gives.
        least: at least so many.
        most: at most so many, each number from least to most being as likely.
        chance: that it gives any.
    """

    block: str
    item: str
    least: int = 1
    most: int = 1
    chance: float = 1.0


_GIVE_THEMSELVES = (
    *(f"{wood}_log" for wood in WOODS),
    *(f"{wood}_planks" for wood in WOODS),
    "dirt",
    "cobblestone",
    "granite",
    "diorite",
    "andesite",
    "gravel",
    "sand",
    "obsidian",
    "iron_ore",
    "gold_ore",
    "dandelion",
    "poppy",
    "sugar_cane",
    "kelp",
    "seagrass",
    "crafting_table",
    "furnace",
    "chest",
    "torch",
    "white_bed",
)

DROPS: Final = (
    *(Drop(block, block) for block in _GIVE_THEMSELVES),
    Drop("stone", "cobblestone"),
    Drop("grass_block", "dirt"),
    Drop("coal_ore", "coal"),
    Drop("diamond_ore", "diamond"),
    Drop("redstone_ore", "redstone", 4, 5),
    Drop("lapis_ore", "lapis_lazuli", 4, 9),
    Drop("clay", "clay_ball", 4, 4),
    Drop("campfire", "charcoal", 2, 2),
    Drop("gravel", "flint", chance=0.1),
    Drop("wheat", "wheat"),
    Drop("grass", "wheat_seeds", chance=0.125),
    Drop("oak_leaves", "oak_sapling", chance=0.05),
    Drop("oak_leaves", "apple", chance=0.005),
    Drop("birch_leaves", "birch_sapling", chance=0.05),
)
"""Every way to mine a thing. A block is listed first with what it is usually mined for."""

HARVESTED_WITH: Final[Mapping[str, str]] = {
    "cobblestone": "wooden_pickaxe",
    "furnace": "wooden_pickaxe",
    "seagrass": "shears",
}
"""Block -> the least tool that makes it give anything, where the rule book has no rule for it."""

STOCK: Final[Mapping[str, tuple[int, int]]] = {
    # Size of a vein in the generator's settings.
    "coal_ore": (17, 17),
    "iron_ore": (9, 9),
    "gold_ore": (9, 9),
    "redstone_ore": (8, 8),
    "diamond_ore": (8, 8),
    "lapis_ore": (7, 7),
    "gravel": (33, 33),
    "granite": (33, 33),
    "diorite": (33, 33),
    "andesite": (33, 33),
    # Our choice: ground that lies open or nearly so, some trees, a few plants, ponds.
    **dict.fromkeys(("grass_block", "dirt", "stone", "sand"), (1_000, 3_000)),
    **{f"{wood}_log": (16, 48) for wood in WOODS},
    "oak_leaves": (100, 300),
    "birch_leaves": (100, 300),
    "grass": (16, 48),
    "sugar_cane": (3, 9),
    "wheat": (8, 24),
    "kelp": (16, 48),
    "seagrass": (16, 48),
    "dandelion": (2, 6),
    "poppy": (2, 6),
    "clay": (10, 40),
    "obsidian": (4, 12),
    "water": (50, 150),
    "lava": (5, 30),
    # Size of a group that spawns.
    **dict.fromkeys(("cow", "sheep", "pig", "chicken"), (4, 4)),
    "horse": (2, 6),
    "rabbit": (2, 3),
    "cod": (3, 6),
    "salmon": (1, 5),
    "squid": (1, 4),
}
"""Kind -> least and most of it in one place; (1, 1) for what is missing here: what somebody
placed, and who comes alone."""

KILLED: Final[Mapping[str, tuple[tuple[str, int, int], ...]]] = {
    "cow": (("beef", 1, 3), ("leather", 0, 2)),
    "sheep": (("mutton", 1, 2), ("white_wool", 1, 1)),
    "pig": (("porkchop", 1, 3),),
    "chicken": (("chicken", 1, 1), ("feather", 0, 2)),
    "horse": (("leather", 0, 2),),
    "rabbit": (("rabbit", 0, 1), ("rabbit_hide", 0, 1)),
    "cod": (("cod", 1, 1),),
    "salmon": (("salmon", 1, 1),),
    "squid": (("ink_sac", 1, 3),),
    "villager": (),
    "zombie": (("rotten_flesh", 0, 2),),
    "skeleton": (("bone", 0, 2), ("arrow", 0, 2)),
    "creeper": (("gunpowder", 0, 2),),
    "spider": (("string", 0, 2),),
}
"""Entity -> (item, at least, at most) of what one leaves behind."""

SHEARED: Final = ("white_wool", 1, 3)
"""What shearing a sheep gives. All sheep here are white; in the game 82 of 100 are."""

FLUIDS: Final[Mapping[str, str]] = {"water": "water_bucket", "lava": "lava_bucket"}
"""Fluid -> the bucket full of it."""

MEAT: Final = (
    "cooked_beef",
    "cooked_porkchop",
    "cooked_mutton",
    "cooked_chicken",
    "cooked_rabbit",
)
COOKED: Final = (*MEAT, "cooked_cod", "cooked_salmon")
"""What cooking makes."""

SMELT_TICKS: Final = 200
"""Time in a furnace for one item, in ticks; a second has 20."""

FUEL: Final[Mapping[str, float]] = {
    "coal": 8.0,
    "charcoal": 8.0,
    **{f"{wood}_planks": 1.5 for wood in WOODS},
    **{f"{wood}_log": 1.5 for wood in WOODS},
    "stick": 0.5,
}
"""Fuel -> how many items one piece smelts; in the order in which it is put in the furnace."""

FOOD: Final[Mapping[str, int]] = {
    "cooked_beef": 8,
    "cooked_porkchop": 8,
    "cooked_mutton": 6,
    "cooked_chicken": 6,
    "cooked_salmon": 6,
    "bread": 5,
    "cooked_cod": 5,
    "cooked_rabbit": 5,
    "apple": 4,
    "beef": 3,
    "porkchop": 3,
    "rabbit": 3,
    "chicken": 2,
    "cod": 2,
    "mutton": 2,
    "salmon": 2,
}
"""Food -> half drumsticks it restores, best first. Raw chicken does no harm here."""
