"""A home as a picture: the room that the agent is in, its places, and what is in sight there.

It shows what the words of an observation say, and no more. Other rooms are dark and have nothing
but their names, because neither the truth nor a belief about them may be read from a picture. If a
place has more things than find room, their number stands at its end, such as "+3 more".
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import product
from typing import TYPE_CHECKING, Final

from llm_planning.domain import DomainError
from llm_planning.pictures import LEAST_TEXT, WHITE, Canvas, own_colour, shade, text_width

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from llm_planning.environments.household.observations import Observation
    from llm_planning.environments.household.rules import Rules
    from llm_planning.pictures import Colour
    from llm_serving.request import Image

_WALL: Final[Colour] = (38, 38, 44)
_DARK: Final[Colour] = (58, 58, 66)
_LIT: Final[Colour] = (232, 222, 200)
_SURFACE: Final[Colour] = (206, 176, 132)
_CONTAINER: Final[Colour] = (176, 196, 208)
_CLOSED: Final[Colour] = (120, 134, 146)
_INK: Final[Colour] = (34, 30, 28)
_GREY: Final[Colour] = (150, 150, 156)
_YOU: Final[Colour] = (214, 60, 48)


@dataclass(frozen=True, slots=True)
class _Place:
    """A place as it is drawn.

    Attributes:
        note: "open" or "closed" of a container; empty for a surface.
        things: what lies there; None if that is hidden.
        near: whether the agent is close to it.
    """

    name: str
    note: str
    things: list[str] | None
    near: bool

    @property
    def title(self) -> str:
        """The name with the note."""
        return f"{self.name} ({self.note})" if self.note else self.name


def draw_observation(seen: Observation, rules: Rules, size: int) -> Image:
    """Draws what an agent sees.

    Args:
        size: the length of the picture's sides, in pixels.

    Raises:
        DomainError: no picture has this size, or the room does not fit into it.
    """
    shown = dict(seen.shown)
    places = [_place(place, shown.get(place), seen, rules) for place in rules.rooms[seen.room]]
    rooms = list(rules.home.rooms)
    here = rooms.pop(seen.room)
    canvas = Canvas(size, _WALL)
    heights = range(size // 28, LEAST_TEXT - 1, -1)
    layouts = [
        *((text, sum(rules.number)) for text in heights),
        *((LEAST_TEXT, most) for most in range(12, -1, -1)),
    ]
    for (text, most), columns in product(layouts, (3, 2, 4)):
        layout = _Layout(canvas, columns, text, most)
        if layout.fits(places, dark=len(rooms)):
            layout.draw(here, places, rooms, _counted(seen.held, rules))
            return canvas.image()
    raise DomainError(
        f"the {here} has {len(places)} places and does not fit into a picture of size={size}: "
        "draw a larger one"
    )


def _place(place: int, things: tuple[int, ...] | None, seen: Observation, rules: Rules) -> _Place:
    there = rules.home.places[place]
    note = ("closed" if things is None else "open") if there.container else ""
    names = None if things is None else _counted(things, rules)
    return _Place(there.name, note, names, place == seen.at)


def _counted(things: Iterable[int], rules: Rules) -> list[str]:
    """The names of things, each once, with their number where it is not 1."""
    every = tuple(things)
    counts = {rules.things[thing]: every.count(thing) for thing in dict.fromkeys(every)}
    return [name if count == 1 else f"{name} x{count}" for name, count in counts.items()]


class _Layout:
    """Where things are drawn with letters of one height.

    Args:
        columns: of places, side by side.
        text: height of the letters, in pixels.
        most: the most things of a place that are named.
    """

    def __init__(self, canvas: Canvas, columns: int, text: int, most: int) -> None:
        self._canvas = canvas
        self._text = text
        self._most = most
        self._line = 1.2 * text
        self._edge = 0.4 * text
        self._columns = columns
        self._width = (canvas.size - 3 * self._edge) / columns

    def fits(self, places: Sequence[_Place], *, dark: int) -> bool:
        """Whether everything finds room, with so many dark rooms."""
        titles = (text_width(place.title, self._text) for place in places)
        room = self._canvas.size - self._beside(dark)
        columns = self._stacked(places)
        return (
            max(titles, default=0.0) + 1.6 * self._text <= self._width
            and max((sum(map(self._height, column)) for column in columns), default=0.0) <= room
        )

    def draw(
        self, here: str, places: Sequence[_Place], dark: Sequence[str], held: Sequence[str]
    ) -> None:
        """Draws the room, below it the dark rooms, and last what is held."""
        canvas, edge, text = self._canvas, self._edge, self._text
        height = canvas.size - self._beside(len(dark)) + 1.4 * self._line
        canvas.box(edge, edge, canvas.size - 2 * edge, height, fill=_LIT, round_=edge)
        y = edge + 0.7 * self._line
        canvas.disc(2 * edge + 0.4 * text, y, 0.4 * text, _YOU)
        canvas.text(2 * edge + 1.2 * text, y, f"{here}: you are here", height=text, fill=_INK)
        top, bottom = y + 0.7 * self._line, edge + height
        for column, stack in enumerate(self._stacked(places)):
            y, x = top, 1.5 * edge + column * self._width
            spare = (bottom - top - sum(map(self._height, stack))) / max(1, len(stack))
            for place in stack:
                tall = self._height(place) + spare
                self._draw_place(place, x, y, tall - edge)
                y += tall
        y = bottom + edge
        for room in dark:
            canvas.box(edge, y, canvas.size - 2 * edge, self._line, fill=_DARK, round_=edge)
            label = f"{room}: not in sight"
            canvas.text(2 * edge, y + 0.5 * self._line, label, height=text, fill=_GREY)
            y += self._line + 0.5 * edge
        begin = "You hold: "
        x, y = 2 * edge, y + 0.5 * self._line
        canvas.text(x, y, begin, height=text, fill=WHITE)
        x += text_width(begin, text)
        self._things(held, x, y, canvas.size - x, WHITE)

    def _draw_place(self, place: _Place, x: float, y: float, height: float) -> None:
        canvas, edge, text = self._canvas, self._edge, self._text
        colour = _SURFACE if not place.note else _CLOSED if place.things is None else _CONTAINER
        border = _YOU if place.near else shade(colour, 0.7)
        width = self._width - edge
        canvas.box(x, y, width, height, fill=colour, edge=border, round_=edge)
        middle = y + 0.7 * self._line
        if place.near:
            canvas.disc(x + width - 0.7 * text, middle, 0.4 * text, _YOU)
        canvas.text(x + edge, middle, place.title, height=text, fill=_INK)
        if place.things is not None:
            self._things(place.things, x + edge, middle + self._line, width - 2 * edge, _INK)

    def _things(self, things: Sequence[str], x: float, y: float, width: float, ink: Colour) -> None:
        """Writes things, each after a dot of its own colour."""
        text = self._text
        if not things:
            self._canvas.text(x, y, "nothing", height=text, fill=ink)
        for row, column, name in self._flowing(things, width):
            at = y + row * self._line
            self._canvas.disc(
                x + column + 0.35 * text, at, 0.3 * text, own_colour(name.partition(" x")[0])
            )
            self._canvas.text(x + column + 0.9 * text, at, name, height=text, fill=ink)

    def _flowing(self, things: Sequence[str], width: float) -> list[tuple[int, float, str]]:
        """Row, left and text of each thing, in lines of a width."""
        placed = []
        row, column = 0, 0.0
        left = len(things) - self._most
        named = things if left <= 0 else (*things[: self._most], f"+{left} more")
        for name in named:
            needed = text_width(name, self._text) + 0.9 * self._text
            if column and column + needed > width:
                row, column = row + 1, 0.0
            placed.append((row, column, name))
            column += needed + 0.6 * self._text
        return placed

    def _stacked(self, places: Sequence[_Place]) -> list[list[_Place]]:
        """The places in columns: each goes to the column that is the shortest so far."""
        columns: list[list[_Place]] = [[] for _ in range(self._columns)]
        filled = [0.0] * self._columns
        for place in places:
            shortest = filled.index(min(filled))
            columns[shortest].append(place)
            filled[shortest] += self._height(place)
        return columns

    def _height(self, place: _Place) -> float:
        """The height of a place with the gap below it."""
        flowing = self._flowing(place.things or (), self._width - 3 * self._edge)
        lines = 1 + flowing[-1][0] if flowing else place.things is not None
        return (1.4 + lines) * self._line + self._edge

    def _beside(self, dark: int) -> float:
        """The height of all that is not a place."""
        return (dark + 1) * (self._line + 0.5 * self._edge) + 1.4 * self._line + 3 * self._edge
