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

STOCK: Final[Mapping[str, int]] = {
    # Size of a vein in the generator's settings.
    "coal_ore": 17,
    "iron_ore": 9,
    "gold_ore": 9,
    "redstone_ore": 8,
    "diamond_ore": 8,
    "lapis_ore": 7,
    "gravel": 33,
    "granite": 33,
    "diorite": 33,
    "andesite": 33,
    # Our choice: some trees, a few plants.
    **{f"{wood}_log": 32 for wood in WOODS},
    "oak_leaves": 200,
    "birch_leaves": 200,
    "grass": 32,
    "sugar_cane": 6,
    "wheat": 16,
    "kelp": 32,
    "seagrass": 32,
    "dandelion": 4,
    "poppy": 4,
    "obsidian": 8,
    # What somebody placed.
    **{f"{wood}_planks": 1 for wood in WOODS},
    "cobblestone": 1,
    "crafting_table": 1,
    "furnace": 1,
    "chest": 1,
    "torch": 1,
    "campfire": 1,
    "white_bed": 1,
}
"""Block -> how many are near when it is in view; one that is missing here does not run out."""

HERD: Final = 4
"""Animals of a kind that are near when the kind is in view: the size of a group that spawns."""

LONERS: Final = ("villager", "zombie", "skeleton", "creeper", "spider")
"""Entities of which only one is near."""

KILLED: Final[Mapping[str, tuple[tuple[str, int, int], ...]]] = {
    "cow": (("beef", 1, 3), ("leather", 0, 2)),
    "pig": (("porkchop", 1, 3),),
    "sheep": (("mutton", 1, 2), ("white_wool", 1, 1)),
    "chicken": (("chicken", 1, 1), ("feather", 0, 2)),
    "rabbit": (("rabbit", 0, 1), ("rabbit_hide", 0, 1)),
    "horse": (("leather", 0, 2),),
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
