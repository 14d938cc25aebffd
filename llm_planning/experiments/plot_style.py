"""How the marks of a plot look, and the texts beside them.

Fields of the rows are colours, shades, shapes and sizes.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final, NamedTuple, TypeAlias

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from matplotlib.axes import Axes

    from llm_planning.experiments.paper_report import Line
    from llm_planning.experiments.published import PublishedTable

COLOURS = ("#1f77b4", "#ff7f0e", "#2ca02c", "#d62728", "#9467bd", "#8c564b", "#e377c2", "#17becf")

_MARKERS = ("o", "^", "s", "D", "v", "P", "X", "*")
_SIZES = (30.0, 160.0)
_SHADES = (0.35, 1.0)
_MIDDLE_SIZE = 60.0
_NEUTRAL = (0.45, 0.45, 0.45)

_Colour: TypeAlias = tuple[float, float, float]

_NEAR: Final = 12.0
"""Pixels below which marks of one colour share a text."""
_RIGHT: Final = 5.0
_ABOVE: Final = 4.0
_BELOW: Final = -10.0
"""Points from a mark to its text."""


class MarkStyle:
    """The look of each row's mark.

    Args:
        table: whose plot names the fields.
        lines: the rows that are drawn; the values of their fields are ranked among each other.
    """

    def __init__(self, table: PublishedTable, lines: Sequence[Line]) -> None:
        self._plot = table.plot
        self._name = table.name
        fields = (table.plot.colour, table.plot.shade, table.plot.marker, table.plot.size)
        self.fields = tuple(dict.fromkeys(field for field in fields if field is not None))
        self._values = {
            field: _ranked(line.fields[field] for line in lines if field in line.fields)
            for field in self.fields
        }

    def of(self, line: Line) -> dict[str, Any]:
        """The look of a row's mark, as `Axes.scatter` takes it."""
        return self._look(
            color=self.colour(line),
            marker=_MARKERS[self._rank(self._plot.marker, line) % len(_MARKERS)],
            s=self._between(_SIZES, _MIDDLE_SIZE, self._plot.size, line),
        )

    def colour(self, line: Line) -> tuple[float, float, float]:
        """The colour of a row's mark, shaded."""
        rank = self._rank(self._plot.colour, line)
        return _shaded(rank, self._between(_SHADES, 1.0, self._plot.shade, line))

    def series(self, lines: Sequence[Line]) -> list[list[Line]]:
        """The rows that a line joins: those that look alike."""
        alike: dict[tuple[Any, ...], list[Line]] = {}
        for line in lines:
            alike.setdefault(tuple(line.fields.get(field) for field in self.fields), []).append(
                line
            )
        return list(alike.values())

    def legend(self) -> Iterator[tuple[str, dict[str, Any]]]:
        """Label and look of every entry: each value of each field by itself."""
        plot = self._plot
        for rank, value in enumerate(self._values.get(plot.colour or "", ())):
            yield (
                self._name(value),
                self._look(color=_shaded(rank, 1.0), marker="s", s=_MIDDLE_SIZE),
            )
        for place, value in self._places(plot.shade):
            grey = tuple(1.0 - _part(_SHADES, place) * (1.0 - part) for part in _NEUTRAL)
            yield (
                self._label(plot.shade, value),
                self._look(color=grey, marker="s", s=_MIDDLE_SIZE),
            )
        for rank, value in enumerate(self._values.get(plot.marker or "", ())):
            marker = _MARKERS[rank % len(_MARKERS)]
            yield (
                self._label(plot.marker, value),
                self._look(color="white", marker=marker, s=_MIDDLE_SIZE),
            )
        for place, value in self._places(plot.size):
            yield (
                self._label(plot.size, value),
                self._look(color="white", marker="o", s=_part(_SIZES, place)),
            )

    def _look(self, **look: Any) -> dict[str, Any]:  # noqa: ANN401 - as matplotlib takes them
        return {"edgecolors": "black", "linewidths": 0.5, **look}

    def _label(self, field: str | None, value: object) -> str:
        return f"{str(field).removeprefix('settings.')}={self._name(value)}"

    def _rank(self, field: str | None, line: Line) -> int:
        values = self._values.get(field or "", ())
        value = line.fields.get(field or "")
        return values.index(value) if value in values else 0

    def _places(self, field: str | None) -> Iterator[tuple[float, Any]]:
        """The values of a field, from 0 for the smallest to 1 for the largest."""
        values = self._values.get(field or "", ())
        for rank, value in enumerate(values):
            yield (rank / (len(values) - 1) if len(values) > 1 else 1.0), value

    def _between(
        self, ends: tuple[float, float], alone: float, field: str | None, line: Line
    ) -> float:
        """Where a row's value lies between two looks; `alone` where no field decides."""
        value = line.fields.get(field or "")
        for place, known in self._places(field):
            if known == value:
                return _part(ends, place)
        return alone


def _shaded(rank: int, strength: float) -> tuple[float, float, float]:
    from matplotlib.colors import to_rgb

    red, green, blue = to_rgb(COLOURS[rank % len(COLOURS)])
    return (
        1.0 - strength * (1.0 - red),
        1.0 - strength * (1.0 - green),
        1.0 - strength * (1.0 - blue),
    )


def _part(ends: tuple[float, float], place: float) -> float:
    return ends[0] + place * (ends[1] - ends[0])


def _ranked(values: Iterable[Any]) -> tuple[Any, ...]:
    """Numbers by their size; texts in the order of the rows."""
    different = list(dict.fromkeys(values))
    if all(isinstance(value, int | float) for value in different):
        different.sort()
    return tuple(different)


class Label(NamedTuple):
    """A text and the mark that it is beside.

    Attributes:
        colour: of both.
    """

    x: float
    y: float
    text: str
    colour: _Colour


@dataclass(frozen=True, slots=True)
class _Group:
    first: Label
    pixel: tuple[float, float]
    texts: list[str] = field(default_factory=list)


def write_labels(axes: Axes, labels: Iterable[Label]) -> None:
    """Writes texts beside marks; marks of one colour that cover each other share one.

    Texts of the first colour are above their marks, of the second below, and so on in turn.

    Args:
        axes: has its marks and scales already.
        labels: in the order in which shared texts are listed.
    """
    axes.autoscale_view()
    groups: list[_Group] = []
    for label in labels:
        x, y = axes.transData.transform((label.x, label.y))
        near = (
            group
            for group in groups
            if group.first.colour == label.colour
            and math.hypot(group.pixel[0] - x, group.pixel[1] - y) < _NEAR
        )
        group = next(near, None)
        if group is None:
            groups.append(group := _Group(label, (x, y)))
        group.texts.append(label.text)
    colours = list(dict.fromkeys(group.first.colour for group in groups))
    for group in groups:
        first = group.first
        axes.annotate(
            ", ".join(dict.fromkeys(group.texts)),
            (first.x, first.y),
            xytext=(_RIGHT, _BELOW if colours.index(first.colour) % 2 else _ABOVE),
            textcoords="offset points",
            fontsize="x-small",
            color=first.colour,
        )
