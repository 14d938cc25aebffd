"""How blocks, animals and items look in a picture: a few plain shapes, coloured by their material.

They are this project's own drawings. Nothing is taken from the game. What has no shape of its own
is a block of a colour that its name decides, so that two names look different.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from llm_planning.environments.minecraft.options.vocabulary import ENTITIES
from llm_planning.pictures import BLACK, WHITE, own_colour, shade

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from llm_planning.pictures import Canvas, Colour, Point

COLOURS: Final[Mapping[str, Colour]] = {
    "oak": (150, 114, 66),
    "spruce": (104, 78, 46),
    "birch": (216, 206, 172),
    "jungle": (166, 116, 78),
    "acacia": (176, 94, 52),
    "dark_oak": (74, 50, 28),
    "wooden": (160, 122, 72),
    "crafting_table": (176, 122, 66),
    "chest": (170, 118, 44),
    "stick": (140, 104, 60),
    "grass_block": (100, 156, 62),
    "grass": (96, 176, 72),
    "dirt": (134, 96, 66),
    "stone": (132, 132, 132),
    "cobblestone": (112, 112, 114),
    "furnace": (96, 96, 98),
    "granite": (156, 108, 90),
    "diorite": (196, 196, 198),
    "andesite": (138, 140, 138),
    "gravel": (142, 132, 126),
    "sand": (222, 210, 158),
    "clay": (162, 168, 180),
    "obsidian": (34, 22, 52),
    "water": (58, 104, 206),
    "lava": (232, 104, 24),
    "milk": (244, 244, 240),
    "bucket": (190, 192, 196),
    "iron": (212, 208, 202),
    "gold": (244, 204, 60),
    "golden": (244, 204, 60),
    "diamond": (92, 222, 214),
    "redstone": (206, 28, 22),
    "lapis": (38, 76, 176),
    "coal": (44, 44, 46),
    "charcoal": (60, 52, 46),
    "flint": (64, 64, 68),
    "leather": (164, 92, 50),
    "wool": (236, 236, 232),
    "bed": (190, 44, 40),
    "torch": (250, 190, 70),
    "beef": (196, 62, 54),
    "porkchop": (240, 154, 150),
    "mutton": (206, 90, 80),
    "apple": (214, 40, 36),
    "bread": (198, 146, 62),
    "egg": (234, 222, 190),
    "wheat": (216, 188, 82),
    "dandelion": (250, 222, 50),
    "poppy": (220, 40, 36),
    "sugar_cane": (150, 200, 110),
    "cow": (92, 66, 48),
    "sheep": (236, 234, 228),
    "pig": (240, 166, 164),
    "chicken": (246, 244, 238),
    "horse": (156, 106, 62),
    "rabbit": (178, 146, 108),
    "cod": (176, 146, 108),
    "salmon": (192, 72, 62),
    "squid": (56, 84, 112),
    "villager": (178, 130, 104),
    "zombie": (88, 138, 70),
    "skeleton": (206, 206, 200),
    "creeper": (74, 174, 70),
    "spider": (58, 48, 44),
}
"""Colours by name, or by a part of a name."""

_HEADS: Final[Mapping[str, Sequence[Point]]] = {
    "pickaxe": [(0.3, 0.06), (0.7, 0.1), (0.94, 0.3), (0.96, 0.7), (0.8, 0.42), (0.6, 0.22)],
    "axe": [(0.45, 0.1), (0.75, 0.1), (0.9, 0.3), (0.7, 0.5), (0.45, 0.4)],
    "shovel": [(0.6, 0.2), (0.85, 0.05), (0.97, 0.15), (0.8, 0.42)],
    "hoe": [(0.4, 0.08), (0.85, 0.12), (0.85, 0.3), (0.4, 0.22)],
}
"""Tool -> the corners of its head."""

_FISH: Final = frozenset({"cod", "salmon", "squid"})
_UPRIGHT: Final = frozenset({"villager", "zombie", "skeleton", "creeper"})
_PLANTS: Final = frozenset(
    {"grass", "dandelion", "poppy", "sugar_cane", "wheat", "kelp", "seagrass", "oak_sapling"}
)
_ROUND: Final = frozenset(
    {
        "apple",
        "bread",
        "egg",
        "beef",
        "porkchop",
        "mutton",
        "coal",
        "charcoal",
        "flint",
        "diamond",
        "redstone",
        "lapis_lazuli",
        "iron_nugget",
        "gold_nugget",
    }
)
_HANDLE: Final = COLOURS["stick"]
_LEAF: Final[Colour] = (60, 130, 50)


def colour_of(name: str) -> Colour:
    """The colour of a block, an entity or an item."""
    if name in COLOURS:
        return COLOURS[name]
    words = name.split("_")
    for length in range(len(words) - 1, 0, -1):
        for part in ("_".join(words[:length]), "_".join(words[-length:])):
            if part in COLOURS:
                return COLOURS[part]
    return own_colour(name)


@dataclass(frozen=True, slots=True)
class Square:
    """A square of a picture; its corners are (0, 0) and (1, 1).

    Attributes:
        x: the left of the square there, in pixels.
        y: its top.
        side: its length.
    """

    canvas: Canvas
    x: float
    y: float
    side: float

    def _at(self, point: Point) -> Point:
        return self.x + point[0] * self.side, self.y + point[1] * self.side

    def box(
        self, corner: Point, width: float, height: float, fill: Colour, edge: Colour | None = None
    ) -> None:
        """Draws a rectangle from its upper left corner on."""
        x, y = self._at(corner)
        self.canvas.box(x, y, width * self.side, height * self.side, fill=fill, edge=edge)

    def oval(self, corner: Point, width: float, height: float, fill: Colour) -> None:
        """Draws an ellipse that fills a rectangle."""
        x, y = self._at(corner)
        self.canvas.oval(x, y, width * self.side, height * self.side, fill)

    def line(self, begin: Point, end: Point, width: float, fill: Colour) -> None:
        """Draws a straight line."""
        self.canvas.line(self._at(begin), self._at(end), width=width * self.side, fill=fill)

    def shape(self, points: Sequence[Point], fill: Colour) -> None:
        """Draws a polygon."""
        self.canvas.shape([self._at(point) for point in points], fill)


def draw_item(name: str, on: Square) -> None:
    """Draws an item of the inventory."""
    kind = name.rpartition("_")[2]
    raw = name.removeprefix("cooked_")
    if kind in _HEADS or kind == "sword":
        _draw_tool(kind, colour_of(name), on)
    elif name in _PLANTS:
        _draw_plant(colour_of(name), on)
    elif name == "stick":
        on.line((0.2, 0.85), (0.8, 0.15), 0.16, _HANDLE)
    elif kind == "ingot":
        on.shape([(0.05, 0.75), (0.3, 0.3), (0.95, 0.3), (0.7, 0.75)], colour_of(name))
    elif "bucket" in name:
        _draw_bucket(name.partition("_")[0], on)
    elif raw in _ROUND or raw in ENTITIES:
        colour = colour_of(raw)
        on.oval((0.12, 0.2), 0.76, 0.64, colour if raw == name else shade(colour, 0.6))
    else:
        _draw_block(name, on)


def draw_near(name: str, on: Square) -> None:
    """Draws a block or an entity that is near."""
    if name in ENTITIES:
        draw = _draw_fish if name in _FISH else _draw_upright if name in _UPRIGHT else _draw_animal
        draw(colour_of(name), on)
    elif name in _PLANTS:
        _draw_plant(colour_of(name), on)
    else:
        _draw_block(name, on)


def _draw_block(name: str, on: Square) -> None:
    kind = name.rpartition("_")[2]
    colour = _LEAF if kind == "leaves" else COLOURS["stone"] if kind == "ore" else colour_of(name)
    dark = shade(colour, 0.65)
    on.box((0, 0), 1, 1, colour, dark)
    if kind == "log":
        for x in (0.25, 0.5, 0.75):
            on.line((x, 0.1), (x, 0.85), 0.06, dark)
    elif kind in {"planks", "table"}:
        for y in (0.33, 0.66):
            on.line((0.08, y), (0.9, y), 0.06, dark)
    elif name in {"water", "lava"}:
        for corner in ((0.2, 0.3), (0.4, 0.6)):
            on.box(corner, 0.4, 0.14, shade(colour, 1.5))
    elif name == "furnace":
        on.box((0.25, 0.5), 0.5, 0.35, (240, 140, 40))
    elif name == "chest":
        on.box((0.4, 0.35), 0.2, 0.25, WHITE)
    elif name == "grass_block":
        on.box((0, 0.4), 1, 0.6, COLOURS["dirt"])
    else:
        specks = colour_of(name.removesuffix("_ore")) if kind == "ore" else shade(colour, 0.82)
        for corner in ((0.2, 0.2), (0.6, 0.35), (0.3, 0.6), (0.68, 0.7)):
            on.box(corner, 0.16, 0.14, specks)


def _draw_tool(kind: str, colour: Colour, on: Square) -> None:
    if kind == "sword":
        on.line((0.3, 0.7), (0.88, 0.12), 0.2, colour)
        on.line((0.22, 0.5), (0.5, 0.78), 0.12, _HANDLE)
        on.line((0.1, 0.9), (0.3, 0.7), 0.14, _HANDLE)
    else:
        on.line((0.12, 0.9), (0.72, 0.3), 0.14, _HANDLE)
        on.shape(_HEADS[kind], colour)


def _draw_bucket(liquid: str, on: Square) -> None:
    iron = COLOURS["bucket"]
    on.shape([(0.1, 0.2), (0.9, 0.2), (0.75, 0.9), (0.25, 0.9)], iron)
    on.oval((0.1, 0.1), 0.8, 0.24, shade(iron, 0.5) if liquid == "bucket" else colour_of(liquid))


def _draw_plant(colour: Colour, on: Square) -> None:
    for x in (0.25, 0.5, 0.75):
        on.line((0.5, 1.0), (x, 0.35), 0.08, _LEAF)
        on.oval((x - 0.14, 0.18), 0.28, 0.28, colour)


def _draw_animal(colour: Colour, on: Square) -> None:
    dark = shade(colour, 0.7)
    for x in (0.14, 0.3, 0.52, 0.66):
        on.box((x, 0.65), 0.1, 0.33, dark)
    on.box((0.08, 0.32), 0.7, 0.4, colour, dark)
    on.box((0.68, 0.12), 0.3, 0.34, colour, dark)
    on.box((0.84, 0.2), 0.08, 0.08, BLACK)


def _draw_upright(colour: Colour, on: Square) -> None:
    dark = shade(colour, 0.7)
    on.box((0.34, 0.3), 0.32, 0.4, dark)
    for x in (0.34, 0.53):
        on.box((x, 0.7), 0.13, 0.3, shade(colour, 0.5))
    on.box((0.3, 0), 0.4, 0.32, colour, dark)
    for x in (0.38, 0.54):
        on.box((x, 0.12), 0.09, 0.09, BLACK)


def _draw_fish(colour: Colour, on: Square) -> None:
    on.shape([(0, 0.3), (0.35, 0.55), (0, 0.8)], shade(colour, 0.8))
    on.oval((0.2, 0.35), 0.78, 0.4, colour)
    on.oval((0.77, 0.45), 0.1, 0.1, BLACK)
