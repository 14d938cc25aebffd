"""Texts beside the marks of a plot, such as the number of digits that a mark is of."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final, NamedTuple, TypeAlias

if TYPE_CHECKING:
    from collections.abc import Iterable

    from matplotlib.axes import Axes

_Colour: TypeAlias = tuple[float, float, float]

_NEAR: Final = 12.0
"""Pixels below which marks of one colour share a text."""
_RIGHT: Final = 5.0
_ABOVE: Final = 4.0
_BELOW: Final = -10.0
"""Points from a mark to its text."""


class Label(NamedTuple):
    """A text and the mark that it is beside.

    Attributes:
        text: beside it.
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
    for one in labels:
        x, y = axes.transData.transform((one.x, one.y))
        near = (
            group
            for group in groups
            if group.first.colour == one.colour
            and math.hypot(group.pixel[0] - x, group.pixel[1] - y) < _NEAR
        )
        group = next(near, None)
        if group is None:
            groups.append(group := _Group(one, (x, y)))
        group.texts.append(one.text)
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
