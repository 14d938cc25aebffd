"""Where things are: biomes, herds and ores.

Herds and veins in view follow from the generator's numbers (Minecraft Java Edition 1.16: spawn
weights of creatures, number, size and height of veins); their numbers are Poisson-distributed. How
common biomes, trees, plants, fish and lava are is our choice, rough on purpose. Only what the
environment's vocabulary knows is ever shown.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from math import log
from typing import TYPE_CHECKING, Final, TypeAlias

if TYPE_CHECKING:
    from collections.abc import Mapping

Chances: TypeAlias = "Mapping[tuple[str, ...], float]"
"""Kinds of block that are seen together -> the chance of it."""

LEG: Final = 50.0
"""Blocks walked or dug in one leg of exploring."""

CHUNKS_A_LEG: Final = LEG * 2 * 32 / 256
"""Chunks that a leg shows: everything within 32 blocks, as in the record of a state (ToO, A.1)."""

GROUPS_A_CHUNK: Final = 0.1
"""Groups of animals that the generator puts in a chunk, on average."""

REACH_A_LEG: Final = LEG * (1 + 3) * (2 + 3)
"""Blocks that a leg of tunnel searches: a vein is met if its middle is within 1.5 blocks of the
tunnel, which is one block wide and two high."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Biome:
    """What a leg on the surface shows.

    Attributes:
        share: weight with which it is the next biome.
        blocks: always in view.
        maybe: what may be in view besides.
        herds: animal -> weight among the groups that the generator chooses from. Some are here only
            for their weight: nobody sees a donkey.
        swimmers: animal -> chance of one group or more.
    """

    share: float
    blocks: tuple[str, ...]
    maybe: Chances
    herds: Mapping[str, int] = field(default_factory=dict)
    swimmers: Mapping[str, float] = field(default_factory=dict)

    def rate(self, animal: str) -> float:
        """Groups of an animal that a leg shows, on average: 12.5 · 0.1 · weight / all weights.

        Of a swimmer, as many as give the chance that is written down: -log(1 - chance).
        """
        if animal in self.swimmers:
            return -log(1 - self.swimmers[animal])
        everybody = sum(self.herds.values())
        return CHUNKS_A_LEG * GROUPS_A_CHUNK * self.herds[animal] / everybody


@dataclass(frozen=True, slots=True, kw_only=True)
class Ore:
    """Where the generator puts an ore.

    Attributes:
        below: it lies below this y coordinate, evenly.
        veins: tried in a chunk of 16 x 16 blocks.
        level: y coordinate at which a tunnel looks for it (our choice).
    """

    below: int
    veins: int
    level: float

    @property
    def rate(self) -> float:
        """Veins that a leg of tunnel meets, on average: veins · 1,000 / (256 · below)."""
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
"""Chance that the next leg is in the same biome (our choice)."""

ORES: Final[Mapping[str, Ore]] = {
    "coal_ore": Ore(below=128, veins=20, level=48.0),
    "iron_ore": Ore(below=64, veins=20, level=40.0),
    "gold_ore": Ore(below=32, veins=2, level=28.0),
    "redstone_ore": Ore(below=16, veins=8, level=12.0),
    "diamond_ore": Ore(below=16, veins=1, level=11.0),
    "lapis_ore": Ore(below=32, veins=1, level=16.0),
}
"""What a tunnel looks for. (The game gathers lapis around y = 16 rather than evenly.)"""

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
