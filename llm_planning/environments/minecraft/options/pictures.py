"""A state of Minecraft as a picture: what is near, the player's condition, and what is held.

The picture shows what the words say, under the same names and with the same numbers, and nothing
else: not where things lie, which the record does not know. What finds no room is counted at the end
of its part, such as "+3 more".
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, TypeVar

from llm_planning.environments.minecraft.options.sprites import (
    COLOURS,
    Square,
    draw_item,
    draw_near,
)
from llm_planning.environments.minecraft.options.state import EQUIPMENT_SLOTS, INVENTORY_SLOTS
from llm_planning.pictures import LEAST_TEXT, WHITE, Canvas, fitted, shade, text_width

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from llm_planning.environments.minecraft.options.state import State
    from llm_planning.pictures import Colour, Point
    from llm_serving.request import Image

KindT = TypeVar("KindT")

_PANEL: Final[Colour] = (46, 46, 52)
_SLOT: Final[Colour] = (68, 68, 76)
_PALE: Final[Colour] = (206, 206, 200)
_SKIES: Final[Mapping[str, Colour]] = {
    "sunrise": (240, 180, 140),
    "day": (140, 190, 240),
    "noon": (150, 206, 255),
    "sunset": (230, 140, 100),
    "night": (26, 32, 64),
    "midnight": (12, 14, 34),
}
_LANDS: Final[Mapping[str, Colour]] = {
    "desert": COLOURS["sand"],
    "beach": COLOURS["sand"],
    "mountains": (120, 128, 120),
    "river": (70, 120, 170),
    "ocean": (44, 84, 170),
    "swamp": (84, 104, 64),
    "savanna": (168, 158, 82),
    "underground": (74, 72, 74),
}
_MEADOW: Final[Colour] = (98, 146, 74)
_CAVE: Final = 50.0
"""The height below which the player is drawn under ground, in blocks."""
_FEW_LINES: Final = 2
_MOST_LINES: Final = 3
"""Lines for what is worn and for chests: with letters of any height, and with the least."""


def draw_state(state: State, size: int) -> Image:
    """Draws the whole record of a state.

    Args:
        size: the length of the picture's sides, in pixels.

    Raises:
        DomainError: no picture has this size.
    """
    canvas = Canvas(size, _PANEL)
    text = _text_height(size)
    scene = 0.45 * size
    below = state.position[1] < _CAVE
    draw_scenery(canvas, state.time, "underground" if below else state.biome, scene)
    near = [
        (kind, _sighted(state, kind)) for kind in (*state.nearby_blocks, *state.nearby_entities)
    ]
    _draw_near(canvas, near, top=0.015 * size, height=scene - 0.03 * size, text=text)
    bottom = _draw_condition(canvas, state, scene + 0.015 * size, text)
    draw_inventory(canvas, state.inventory, bottom, text)
    return canvas.image()


def draw_scenery(canvas: Canvas, time: str, biome: str, height: float) -> None:
    """Draws sky and land into the upper part of a picture.

    Args:
        height: of the part, in pixels.
    """
    size = canvas.size
    sky = _SKIES.get(time, _SKIES["day"])
    land = _LANDS.get(biome, _MEADOW)
    canvas.box(0, 0, size, height, fill=shade(land, 0.6) if biome == "underground" else sky)
    horizon = 0.4 * height
    if biome != "underground":
        light = WHITE if time in {"night", "midnight"} else (255, 226, 120)
        x = {"sunrise": 0.12, "sunset": 0.88, "noon": 0.5}.get(time, 0.68)
        canvas.disc(x * size, 0.14 * height, 0.045 * size, light)
    canvas.box(0, horizon, size, height - horizon, fill=land)
    canvas.box(0, horizon, size, 0.02 * height, fill=shade(land, 0.85))


def draw_inventory(canvas: Canvas, held: Mapping[str, int], top: float, text: int) -> None:
    """Draws the items with their counts into the lower part of a picture.

    Args:
        held: item -> count.
        top: of the part, in pixels.
        text: height of the letters.
    """
    size = canvas.size
    edge = 0.018 * size
    title = f"Inventory ({len(held)}/{INVENTORY_SLOTS})"
    canvas.text(edge, top + 0.6 * text, title, height=text, fill=WHITE)
    top += 1.5 * text
    room = size - top - 0.4 * edge
    columns = 2 if len(held) <= 2 * (room // (text + 7)) else 3
    width = (size - 2 * edge) / columns
    needed = room / max(1, -(-len(held) // columns))
    if needed < text + 2:
        text = max(LEAST_TEXT, int(needed) - 2)
    pitch = min(max(needed, text + 1), text + 7)
    rows = int(room / pitch + 0.001)  # room / (room / 12) may be a little less than 12
    drawn, more = _that_fit(sorted(held.items()), columns * rows)
    side = pitch - 3
    for number, (item, count) in enumerate(drawn):
        column, row = divmod(number, rows)
        x, y = edge + column * width, top + row * pitch
        canvas.box(x, y, width - 2, pitch - 1, fill=_SLOT, round_=2)
        draw_item(item, Square(canvas, x + 1, y + 1, side))
        middle = y + pitch / 2
        amount = f"x{count}"
        amount_at = x + width - 5 - text_width(amount, text)
        canvas.text(amount_at, middle, amount, height=text, fill=WHITE)
        name = fitted(item, amount_at - x - side - 8, text)
        canvas.text(x + side + 5, middle, name, height=text, fill=_PALE)
    if more:
        rest = f"+{more} more"
        canvas.text(
            size - edge - text_width(rest, text), top - 0.9 * text, rest, height=text, fill=WHITE
        )


def _text_height(size: int) -> int:
    return max(LEAST_TEXT, size // 34)


def _sighted(state: State, kind: str) -> str:
    """How many there are, and how far away; empty where a prediction does not say it."""
    if kind not in state.near:
        return ""
    number, distance = state.near[kind]
    return f"{number}, {distance} away"


def _draw_near(
    canvas: Canvas, near: Sequence[tuple[str, str]], *, top: float, height: float, text: int
) -> None:
    """Draws blocks and entities in rows, each with its name, number and distance."""
    size = canvas.size
    edge = 0.018 * size
    least = 2.4 * text + 10
    columns = max(5, -(-len(near) // max(1, int(height // least))))
    columns = min(columns, int((size - 2 * edge) // (6 * text)))
    drawn, more = _that_fit(near, columns * int(height // least))
    rows = max(1, -(-len(drawn) // columns))
    pitch, width = min(height / rows, 0.55 * height), (size - 2 * edge) / columns
    top += height - rows * pitch
    side = min(pitch - 2.4 * text - 2, 0.62 * width)
    for number, (kind, sighted) in enumerate(drawn):
        row, column = divmod(number, columns)
        x, y = edge + column * width, top + row * pitch
        draw_near(kind, Square(canvas, x + (width - side) / 2, y + 1, side))
        label = y + side + 2
        canvas.box(x + 1, label, width - 2, 2.3 * text, fill=_PANEL, round_=2)
        middle = x + width / 2
        _centred(canvas, kind, (middle, label + 0.65 * text), width - 4, WHITE)
        _centred(canvas, sighted, (middle, label + 1.7 * text), width - 4, _PALE)
    if more:
        rest = f"+{more} more"
        x = size - edge - text_width(rest, text)
        canvas.text(x, top + rows * pitch + 0.1 * text, rest, height=text, fill=WHITE)


def _centred(canvas: Canvas, text: str, at: Point, width: float, fill: Colour) -> None:
    """Writes a text around its middle, in smaller letters if it is too wide."""
    height = _text_height(canvas.size)
    while height > LEAST_TEXT and text_width(text, height) > width:
        height -= 1
    canvas.text(*at, fitted(text, width, height), height=height, fill=fill, middle=True)


def _draw_condition(canvas: Canvas, state: State, top: float, text: int) -> float:
    """Draws health, hunger, place and time, and what is worn; returns where that ends."""
    size, edge, line = canvas.size, 0.018 * canvas.size, 1.45 * text
    x, y, z = state.position
    row = top + 0.6 * text
    half = size / 2
    _bar(canvas, "Health", state.health, (edge, row), (214, 44, 40))
    _bar(canvas, "Hunger", state.hunger, (half, row), (190, 130, 62))
    place = f"x={x:.1f}  y={y:.1f}  z={z:.1f}"
    canvas.text(edge, row + line, place, height=text, fill=WHITE)
    canvas.text(half, row + line, f"{state.biome}, {state.time}", height=text, fill=WHITE)
    lines, height = _worn_and_chests(state, size - 2 * edge, text)
    row += 2 * line
    for number, words in enumerate(lines):
        canvas.text(edge, row + number * 1.3 * height, words, height=height, fill=_PALE)
    return row + (len(lines) - 1) * 1.3 * height + 0.7 * line


def _worn_and_chests(state: State, width: float, text: int) -> tuple[list[str], int]:
    """The lines that say what is worn and which chests are seen, and the height of their letters.

    Two lines are filled with smaller letters before there is a third; chests that find no room in
    three are counted.
    """
    worn = [
        f"{slot}: {item}"
        for slot, item in zip(EQUIPMENT_SLOTS, state.equipment, strict=True)
        if item
    ]
    begin = _listed("Worn", worn or ["nothing"])
    begin[-1] += "."
    whole = [*begin, *_listed("Chests", state.chests or ["none"])]
    for height in range(text, LEAST_TEXT - 1, -1):
        lines = _flowed(whole, width, height)
        if len(lines) <= (_FEW_LINES if height > LEAST_TEXT else _MOST_LINES):
            return lines, height
    lines = _flowed(begin, width, LEAST_TEXT)
    for kept in range(len(state.chests)):
        chests = [*state.chests[:kept], f"+{len(state.chests) - kept} more"]
        longer = _flowed([*begin, *_listed("Chests", chests)], width, LEAST_TEXT)
        if kept and len(longer) > _MOST_LINES:
            break
        lines = longer
    return lines, LEAST_TEXT


def _listed(name: str, entries: Sequence[str]) -> list[str]:
    """A heading and its parts, which a line may end between."""
    parts = [f"{part}," for part in entries[:-1]] + [entries[-1]]
    return [f"{name}: {parts[0]}", *parts[1:]]


def _flowed(parts: Sequence[str], width: float, height: int) -> list[str]:
    """Parts of a text in lines that are at most so wide."""
    lines: list[str] = []
    for part in parts:
        longer = f"{lines[-1]} {part}" if lines else part
        if lines and text_width(longer, height) <= width:
            lines[-1] = longer
        else:
            lines.append(fitted(part, width, height))
    return lines


def _bar(canvas: Canvas, name: str, value: float, at: Point, colour: Colour) -> None:
    """Draws ten pips for 20 points, and the number beside them."""
    x, y = at
    text = _text_height(canvas.size)
    radius = 0.3 * text
    for pip in range(10):
        full = min(1.0, max(0.0, (value - 2 * pip) / 2))
        fill = colour if full > 0.75 else shade(colour, 0.7) if full > 0.25 else _SLOT
        canvas.disc(x + radius + pip * 2.4 * radius, y, radius, fill)
    x += 10 * 2.4 * radius + 0.4 * text
    canvas.text(x, y, f"{name} {value:.1f}/20", height=text, fill=WHITE)


def _that_fit(kinds: Sequence[KindT], room: int) -> tuple[Sequence[KindT], int]:
    """The first ones that find room, and how many do not."""
    return kinds[:room], max(0, len(kinds) - room)
