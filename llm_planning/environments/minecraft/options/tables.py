"""The numbers of the option-level world: what things give, and where things are.

Source of every number unless it says otherwise: Minecraft Java Edition 1.16 (loot tables of blocks
and entities, furnace recipes, fuel times, food values; generator settings of the overworld: spawn
weights of creatures, number, size and height of veins). The numbers of herds and veins in view are
Poisson-distributed. The frequencies of biomes, trees, plants, fish and lava are our choice, rough
on purpose. A state only shows words of the environment's vocabulary.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from math import log
from typing import TYPE_CHECKING, Final, TypeAlias

if TYPE_CHECKING:
    from collections.abc import Mapping

WOODS: Final = ("oak", "birch", "spruce", "jungle", "acacia", "dark_oak")


@dataclass(frozen=True, slots=True)
class Drop:
    """One item that one block gives.

    Attributes:
        least: smallest number of the item.
        most: largest number; all numbers from `least` to `most` are equally likely.
        chance: probability that the block gives the item at all.
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
"""Every way to mine an item. The first drop of a block is the one it is usually mined for."""

HARVESTED_WITH: Final[Mapping[str, str]] = {
    "cobblestone": "wooden_pickaxe",
    "furnace": "wooden_pickaxe",
    "seagrass": "shears",
}
"""Block -> the least tool that mines it, for blocks without a rule in the rule book."""

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
"""Kind -> smallest and largest number in one place. Kinds that are missing here come singly: placed
blocks, and entities that spawn alone."""

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
"""Entity -> (item, smallest number, largest number) that one leaves when it is killed."""

SHEARED: Final = ("white_wool", 1, 3)
"""(item, smallest number, largest number) from shearing a sheep. All sheep here are white; in the
game 82 of 100 are."""

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
"""The products of cooking."""

SMELT_TICKS: Final = 200
"""Time in a furnace for one item, in ticks; a second has 20."""

FUEL: Final[Mapping[str, float]] = {
    "coal": 8.0,
    "charcoal": 8.0,
    **{f"{wood}_planks": 1.5 for wood in WOODS},
    **{f"{wood}_log": 1.5 for wood in WOODS},
    "stick": 0.5,
}
"""Fuel -> how many items one piece smelts; fuels are burnt in this order."""

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
"""Food -> half drumsticks that it restores, best first. Raw chicken does no harm here."""


Chances: TypeAlias = "Mapping[tuple[str, ...], float]"
"""Kinds of block that are seen together -> the probability that they are."""

LEG: Final = 50.0
"""Number of blocks walked or dug in one leg of exploring."""

CHUNKS_A_LEG: Final = LEG * 2 * 32 / 256
"""Chunks that a leg shows: everything within 32 blocks, as in the record of a state (ToO, A.1)."""

GROUPS_A_CHUNK: Final = 0.1
"""Groups of animals that the generator puts in a chunk, on average."""

REACH_A_LEG: Final = LEG * (1 + 3) * (2 + 3)
"""Volume that a leg of tunnel searches, in blocks: a vein is found if its middle is within 1.5
blocks of the tunnel, which is one block wide and two high."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Biome:
    """What a leg on the surface shows in one biome.

    Attributes:
        share: weight of this biome among the biomes that may come next.
        blocks: blocks that are always in view.
        maybe: blocks that may be in view besides.
        herds: animal -> weight in the generator's choice of a group. Animals outside of the
            vocabulary, such as donkeys, count for their weight and are never shown.
        swimmers: animal -> probability of one group or more.
    """

    share: float
    blocks: tuple[str, ...]
    maybe: Chances
    herds: Mapping[str, int] = field(default_factory=dict)
    swimmers: Mapping[str, float] = field(default_factory=dict)

    def rate(self, animal: str) -> float:
        """The mean number of groups of an animal on a leg: 12.5 · 0.1 · weight / sum of weights.

        For a swimmer it is -log(1 - probability), which gives the probability in `swimmers`.
        """
        if animal in self.swimmers:
            return -log(1 - self.swimmers[animal])
        everybody = sum(self.herds.values())
        return CHUNKS_A_LEG * GROUPS_A_CHUNK * self.herds[animal] / everybody


@dataclass(frozen=True, slots=True, kw_only=True)
class Ore:
    """Where the generator puts an ore.

    Attributes:
        below: the ore lies evenly below this y coordinate.
        veins: number of veins in a chunk of 16 x 16 blocks.
        level: y coordinate of a tunnel that searches for the ore (our choice).
    """

    below: int
    veins: int
    level: float

    @property
    def rate(self) -> float:
        """The mean number of veins that a leg of tunnel finds: veins · 1,000 / (256 · below)."""
        return self.veins * REACH_A_LEG / (256 * self.below)


_OAKS = ("oak_log", "oak_leaves")
_BIRCHES = ("birch_log", "birch_leaves")

_SOIL = ("grass_block", "dirt", "stone")

_ANYWHERE: Chances = {("coal_ore",): 0.3, ("gravel",): 0.2, ("water",): 0.5, ("lava",): 0.02}

_MEADOW: Chances = {
    ("grass",): 0.9,
    ("dandelion",): 0.4,
    ("poppy",): 0.4,
    ("sugar_cane",): 0.1,
}

_FARM = {"sheep": 12, "pig": 10, "chicken": 10, "cow": 8}

BIOMES: Final[Mapping[str, Biome]] = {
    "plains": Biome(
        share=4,
        blocks=_SOIL,
        maybe={_OAKS: 0.6, **_MEADOW, ("wheat",): 0.05, **_ANYWHERE},
        herds={**_FARM, "horse": 5, "donkey": 1},
    ),
    "forest": Biome(
        share=4,
        blocks=(*_SOIL, *_OAKS),
        maybe={_BIRCHES: 0.7, **_MEADOW, **_ANYWHERE},
        herds={**_FARM, "wolf": 5},
    ),
    "birch_forest": Biome(
        share=1, blocks=(*_SOIL, *_BIRCHES), maybe={**_MEADOW, **_ANYWHERE}, herds=_FARM
    ),
    "dark_forest": Biome(
        share=1, blocks=(*_SOIL, "dark_oak_log"), maybe={_OAKS: 0.3, **_ANYWHERE}, herds=_FARM
    ),
    "taiga": Biome(
        share=2,
        blocks=(*_SOIL, "spruce_log"),
        maybe=_ANYWHERE,
        herds={**_FARM, "wolf": 8, "rabbit": 4, "fox": 8},
    ),
    "savanna": Biome(
        share=2,
        blocks=_SOIL,
        maybe={("acacia_log",): 0.9, ("grass",): 0.9, **_ANYWHERE},
        herds={**_FARM, "horse": 1, "donkey": 1},
    ),
    "jungle": Biome(
        share=1,
        blocks=(*_SOIL, "jungle_log"),
        maybe={("grass",): 0.9, **_ANYWHERE},
        herds={**_FARM, "chicken": 20, "parrot": 40, "panda": 1},
    ),
    "swamp": Biome(
        share=1,
        blocks=(*_SOIL, "water", "clay"),
        maybe={_OAKS: 0.9, ("seagrass",): 0.8, ("sugar_cane",): 0.3, **_ANYWHERE},
        herds=_FARM,
    ),
    "desert": Biome(
        share=2,
        blocks=("sand", "stone"),
        maybe={**_ANYWHERE, ("sugar_cane",): 0.1, ("lava",): 0.05},
        herds={"rabbit": 4},
    ),
    "mountains": Biome(
        share=2,
        blocks=_SOIL,
        maybe={
            ("spruce_log",): 0.3,
            ("oak_log",): 0.3,
            **_ANYWHERE,
            ("coal_ore",): 0.9,
            ("iron_ore",): 0.2,
        },
        herds={**_FARM, "llama": 5},
    ),
    "beach": Biome(share=1, blocks=("sand", "dirt", "stone", "water"), maybe={("gravel",): 0.3}),
    "river": Biome(
        share=1,
        blocks=("water", "sand", "dirt", "stone", "grass_block"),
        maybe={("clay",): 0.5, ("sugar_cane",): 0.3, ("seagrass",): 0.8, ("gravel",): 0.3},
        swimmers={"salmon": 0.5, "squid": 0.2},
    ),
    "ocean": Biome(
        share=2,
        blocks=("water", "sand", "gravel"),
        maybe={("kelp",): 0.6, ("seagrass",): 0.6},
        swimmers={"cod": 0.7, "salmon": 0.2, "squid": 0.3},
    ),
}
"""Every biome of the environment's vocabulary."""

STAY: Final = 0.75
"""Probability that the next leg is in the same biome (our choice)."""

ORES: Final[Mapping[str, Ore]] = {
    "coal_ore": Ore(below=128, veins=20, level=48.0),
    "iron_ore": Ore(below=64, veins=20, level=40.0),
    "gold_ore": Ore(below=32, veins=2, level=28.0),
    "redstone_ore": Ore(below=16, veins=8, level=12.0),
    "diamond_ore": Ore(below=16, veins=1, level=11.0),
    "lapis_ore": Ore(below=32, veins=1, level=16.0),
}
"""The ores of a tunnel. (In the game, lapis lies mostly around y = 16 and not evenly.)"""

STONES: Final[Chances] = {
    ("granite",): 0.5,
    ("diorite",): 0.5,
    ("andesite",): 0.5,
    ("gravel",): 0.3,
    ("dirt",): 0.3,
    ("water",): 0.1,
}
"""What a leg of tunnel may show besides stone and ore."""

LAVA_LEVEL: Final = 11.0
"""Caves are filled with lava below this y coordinate, so it is seen from here and from deeper."""

DEEP: Final[Chances] = {("lava",): 0.5, ("obsidian",): 0.1}
"""What a leg of tunnel may show besides, on the lava level or deeper."""
