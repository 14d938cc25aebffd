"""Pictures of states: a canvas that domains draw on, for `Domain.draw`.

The same calls give the same bytes, whatever fonts a machine has: text is set in Pillow's own font.
A domain lays its picture out in pixels of the size that was asked for. So a larger picture has room
for more, not only for larger letters.
"""

from __future__ import annotations

from functools import cache
from io import BytesIO
from typing import TYPE_CHECKING, Final, TypeAlias
from zlib import crc32

from PIL import Image as Pillow
from PIL import ImageDraw, ImageFont

from llm_base.quoting import quote
from llm_planning.domain import SMALLEST, DomainError
from llm_serving.request import Image

if TYPE_CHECKING:
    from collections.abc import Sequence

LARGEST: Final = 4096
"""The largest side of a picture, in pixels."""

LEAST_TEXT: Final = 8
"""The least height of letters, in pixels, that can still be read."""

Colour: TypeAlias = tuple[int, int, int]
Point: TypeAlias = tuple[float, float]

BLACK: Final[Colour] = (24, 24, 28)
WHITE: Final[Colour] = (250, 250, 246)


class Canvas:
    """A square picture that is being drawn; (0, 0) is its upper left corner.

    Args:
        size: the length of its sides, in pixels.

    Raises:
        DomainError: no picture has this size.
    """

    def __init__(self, size: int, colour: Colour) -> None:
        if isinstance(size, bool) or not isinstance(size, int) or not SMALLEST <= size <= LARGEST:
            raise DomainError(
                f"size={quote(size)} of a picture is not possible: give whole pixels, "
                f"{SMALLEST} to {LARGEST}"
            )
        self.size = size
        self._image = Pillow.new("RGB", (size, size), colour)
        self._draw = ImageDraw.Draw(self._image)

    def box(
        self,
        x: float,
        y: float,
        width: float,
        height: float,
        *,
        fill: Colour | None = None,
        edge: Colour | None = None,
        round_: float = 0,
    ) -> None:
        """Draws a rectangle; one without extent is left out."""
        left, top, right, bottom = round(x), round(y), round(x + width) - 1, round(y + height) - 1
        if right >= left and bottom >= top:
            corners = (left, top, right, bottom)
            self._draw.rounded_rectangle(corners, round(round_), fill=fill, outline=edge)

    def disc(self, x: float, y: float, radius: float, fill: Colour) -> None:
        """Draws a disc around a point."""
        self.oval(x - radius, y - radius, 2 * radius, 2 * radius, fill)

    def oval(self, x: float, y: float, width: float, height: float, fill: Colour) -> None:
        """Draws an ellipse that fills a rectangle."""
        left, top = round(x), round(y)
        corners = (left, top, left + max(1, round(width)) - 1, top + max(1, round(height)) - 1)
        self._draw.ellipse(corners, fill=fill)

    def shape(self, points: Sequence[Point], fill: Colour) -> None:
        """Draws a polygon."""
        self._draw.polygon([(round(x), round(y)) for x, y in points], fill=fill)

    def line(self, begin: Point, end: Point, *, width: float, fill: Colour) -> None:
        """Draws a straight line."""
        points = [(round(x), round(y)) for x, y in (begin, end)]
        self._draw.line(points, fill=fill, width=max(1, round(width)))

    def text(
        self, x: float, y: float, text: str, *, height: int, fill: Colour, middle: bool = False
    ) -> None:
        """Writes a line of text.

        Args:
            x: its left end, or its middle.
            y: the middle of its letters, vertically.
            text: is written whole; `fitted` shortens.
            height: of the font, in pixels.
            middle: whether `x` is the middle.
        """
        anchor = "mm" if middle else "lm"
        self._draw.text((round(x), round(y)), text, font=_font(height), fill=fill, anchor=anchor)

    def image(self) -> Image:
        """The picture as a PNG."""
        file = BytesIO()
        self._image.save(file, "PNG")
        return Image(file.getvalue())


@cache
def _font(height: int) -> ImageFont.FreeTypeFont | ImageFont.ImageFont:
    return ImageFont.load_default(height)


def text_width(text: str, height: int) -> float:
    """The width of a line of text, in pixels."""
    return float(_font(height).getlength(text))


def fitted(text: str, width: float, height: int) -> str:
    """A text that is at most so wide: its end is replaced by dots if it has to be."""
    if text_width(text, height) <= width:
        return text
    beginning = next(
        (
            text[:end]
            for end in range(len(text), 0, -1)
            if text_width(f"{text[:end]}..", height) <= width
        ),
        "",
    )
    return f"{beginning}.."


def shade(colour: Colour, factor: float) -> Colour:
    """A darker colour, or with a factor above 1 a lighter one."""
    red, green, blue = (min(255, round(channel * factor)) for channel in colour)
    return red, green, blue


def own_colour(name: str) -> Colour:
    """A colour of a name: always the same, and light enough to be seen on dark ground."""
    mixed = crc32(name.encode())
    red, green, blue = (90 + (mixed >> shift & 0xFF) * 150 // 255 for shift in (0, 8, 16))
    return red, green, blue
