"""A measured table as a picture: bars, points, lines, curves or a heat map."""

from __future__ import annotations

import io
import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeAlias

from llm_planning.experiments.heat_map import heat_map
from llm_planning.experiments.plot_style import COLOURS, Label, MarkStyle, write_labels
from llm_planning.experiments.statistics import Estimate, write_number

if TYPE_CHECKING:
    from collections.abc import Sequence

    from matplotlib.axes import Axes
    from matplotlib.axis import Axis
    from matplotlib.figure import Figure

    from llm_planning.experiments.paper_report import Line, PaperReport
    from llm_planning.experiments.published import Panel, Plot
    from llm_planning.experiments.statistics import Form

_Colour: TypeAlias = str | tuple[float, float, float]

PICTURES = (".png", ".svg", ".pdf")

_PUBLISHED_COLOUR = "#9a9a9a"
_LOG_RATIO = 100.0
"""Ratio of the largest to the smallest value above which an axis is logarithmic."""
_LONG_NUMBER = 1e7
"""A number above which those of a logarithmic axis are powers of ten."""
_PANELS_ABREAST = 4
_UNMEASURED = "{} {}: nothing was measured to draw"


class PlotError(ValueError):
    """There is nothing to draw, or pictures cannot have the file's ending."""


@dataclass(frozen=True, slots=True)
class _Mark:
    line: Line
    x: float
    y: float


@dataclass(frozen=True, slots=True)
class _Curve:
    """A row in a panel.

    Attributes:
        measured: by x, ascending.
        published: figures that the paper prints, by x.
    """

    line: Line
    measured: tuple[tuple[float, Estimate], ...]
    published: tuple[tuple[float, float], ...]


def picture(report: PaperReport, ending: str) -> bytes:
    """Draws a table.

    Args:
        ending: of the picture's file, one of `PICTURES`.

    Returns:
        The bytes of the file, which are the same for the same report.

    Raises:
        PlotError: the ending is unknown, or nothing was measured.
    """
    kind = ending.lower().removeprefix(".")
    if f".{kind}" not in PICTURES:
        raise PlotError(f"no picture ends in {ending!r}; known: {', '.join(PICTURES)}")
    return encoded(draw(report), kind)


def encoded(figure: Figure, kind: str) -> bytes:
    """The bytes of a picture's file, which are the same for the same figure.

    Args:
        kind: one of `PICTURES`, without the dot.
    """
    import matplotlib as mpl

    # No date, and no random names inside an SVG.
    metadata = {"svg": {"Date": None}, "pdf": {"CreationDate": None}}.get(kind, {})
    buffer = io.BytesIO()
    with mpl.rc_context({"svg.hashsalt": "llm-planning"}):
        figure.savefig(buffer, format=kind, dpi=150, metadata=metadata)
    return buffer.getvalue()


def draw(report: PaperReport) -> Figure:
    """The picture, on a canvas without a display.

    Raises:
        PlotError: nothing was measured.
    """
    match report.table.plot.kind:
        case "bars":
            return _bars(report)
        case "curves":
            return _curves(report)
        case "heat":
            if (figure := heat_map(report)) is None:
                raise PlotError(_UNMEASURED.format(report.paper.name, report.name))
            return figure
        case _:
            return _marks(report)


def _bars(report: PaperReport) -> Figure:
    """A panel for each measured column: published and measured bars for every row."""
    columns = [
        column
        for column in report.columns
        if any(_estimate(line, column.key) is not None for line in report.lines)
    ]
    if not columns:
        raise PlotError(_UNMEASURED.format(report.paper.name, report.name))
    figure, panels = _canvas(len(columns), height=1.2 + 0.55 * len(report.lines))
    positions = range(len(report.lines))
    for axes, column in zip(panels, columns, strict=True):
        published = [line.cell(column.key).published_value for line in report.lines]
        measured = [_estimate(line, column.key) for line in report.lines]
        values = [None if estimate is None else estimate.value for estimate in measured]
        _scale(axes, [value for value in (*published, *values) if value is not None])
        axes.barh(
            [place - 0.2 for place in positions],
            [value or 0.0 for value in published],
            height=0.38,
            color=_PUBLISHED_COLOUR,
            label="paper",
        )
        axes.barh(
            [place + 0.2 for place in positions],
            [value or 0.0 for value in values],
            height=0.38,
            color=COLOURS[0],
            label="here",
        )
        _intervals(
            axes,
            [
                (estimate, place + 0.2)
                for place, estimate in enumerate(measured)
                if estimate is not None and estimate.value is not None
            ],
        )
        _name_axis(report, axes.xaxis, column.key)
    panels[0].set_yticks(list(positions), [line.label for line in report.lines])
    panels[0].invert_yaxis()
    panels[0].legend(loc="best", frameon=False)
    _title(figure, report)
    return figure


def _marks(report: PaperReport) -> Figure:
    """One panel: a mark for every row at its measured x and y."""
    spec = report.table.plot
    marks = _placed(report, spec)
    if not marks:
        raise PlotError(_UNMEASURED.format(report.paper.name, report.name))
    figure, (axes,) = _canvas(1, height=4.4)
    style = MarkStyle(report.table, [mark.line for mark in marks])
    for mark in marks:
        axes.scatter(mark.x, mark.y, zorder=3, **style.of(mark.line))
    _intervals(
        axes,
        [
            (
                _estimate(mark.line, str(spec.x)) or mark.x,
                _estimate(mark.line, str(spec.y)) or mark.y,
            )
            for mark in marks
        ],
    )
    if spec.kind == "lines":
        for series in style.series([mark.line for mark in marks]):
            joined = sorted(
                (mark for mark in marks if mark.line in series), key=lambda mark: mark.x
            )
            axes.plot(
                [mark.x for mark in joined],
                [mark.y for mark in joined],
                color=style.colour(series[0]),
                linewidth=1.0,
            )
    for label, look in style.legend():
        axes.scatter([], [], label=label, **look)
    if style.fields:
        beside = (spec.beside or "").removeprefix("settings.")
        axes.legend(
            loc="center left",
            bbox_to_anchor=(1.0, 0.5),
            frameon=False,
            fontsize="small",
            title=f"beside a mark: {beside}" if beside else None,
            title_fontsize="small",
        )
    _scale(axes, [mark.x for mark in marks])
    write_labels(
        axes,
        (
            Label(mark.x, mark.y, report.table.name(value), style.colour(mark.line))
            for mark in marks
            if (value := mark.line.fields.get(spec.beside or "")) is not None
        ),
    )
    _name_axis(report, axes.xaxis, str(spec.x))
    _name_axis(report, axes.yaxis, str(spec.y))
    _title(figure, report)
    return figure


def _curves(report: PaperReport) -> Figure:
    """Panels in which every row is a line through the columns that have an x; no empty ones."""
    from matplotlib.ticker import MaxNLocator

    spec = report.table.plot
    every = [(panel, _curves_of(report, panel)) for panel in spec.panels]
    panels = [(panel, curves) for panel, curves in every if curves]
    drawn = [curve.line for _, curves in panels for curve in curves if curve.measured]
    if not drawn:
        raise PlotError(_UNMEASURED.format(report.paper.name, report.name))
    figure, canvases = _canvas(len(panels), height=3.8)
    style = MarkStyle(report.table, drawn)
    field = spec.colour or ""
    for axes, (panel, curves) in zip(canvases, panels, strict=True):
        for rank, curve in enumerate(curves):
            if field in curve.line.fields:
                label = report.table.name(curve.line.fields[field])
                _draw_curve(axes, curve, style.colour(curve.line), label)
            else:
                _draw_curve(axes, curve, COLOURS[rank % len(COLOURS)], curve.line.label)
        if any(curve.published for curve in curves):
            axes.scatter([], [], label="paper", **_published_look("black"))
        axes.legend(loc="best", frameon=False, fontsize="x-small")
        axes.set_title(panel.title, fontsize="small")
        axes.set_xlabel(str(spec.x))
        axes.xaxis.set_major_locator(MaxNLocator(integer=True))
        place = axes.get_subplotspec()
        if place is not None and place.is_first_col():
            axes.set_ylabel(str(spec.y))
    _title(figure, report)
    return figure


def _curves_of(report: PaperReport, panel: Panel) -> list[_Curve]:
    """The rows of a panel that have a value to draw."""
    columns = sorted(
        (float(column.x), column.key)
        for column in report.columns
        if column.x is not None and column.key in (panel.columns or (column.key,))
    )
    curves = []
    for line in report.lines:
        if any(line.fields.get(field) not in values for field, values in panel.where.items()):
            continue
        measured = [(x, _estimate(line, key)) for x, key in columns]
        published = [(x, line.cell(key).published_value) for x, key in columns]
        curve = _Curve(
            line,
            tuple(
                (x, estimate)
                for x, estimate in measured
                if estimate is not None and estimate.value is not None
            ),
            tuple((x, value) for x, value in published if value is not None),
        )
        if curve.measured or curve.published:
            curves.append(curve)
    return curves


def _draw_curve(axes: Axes, curve: _Curve, colour: _Colour, label: str) -> None:
    """A line through the measured values, their intervals as a band, published figures as marks."""
    steps = [x for x, _ in curve.measured]
    around = [(_centre(estimate), *_reach(estimate)) for _, estimate in curve.measured]
    axes.plot(
        steps,
        [value for value, _, _ in around],
        color=colour,
        linewidth=1.2,
        marker="o",
        markersize=2.5,
        label=label,
    )
    axes.fill_between(
        steps,
        [value - below for value, below, _ in around],
        [value + above for value, _, above in around],
        color=colour,
        alpha=0.15,
        linewidth=0.0,
    )
    axes.scatter(
        [x for x, _ in curve.published],
        [value for _, value in curve.published],
        zorder=3,
        **_published_look(colour),
    )


def _published_look(colour: _Colour) -> dict[str, Any]:
    return {"marker": "D", "s": 26.0, "facecolors": "none", "edgecolors": colour}


def _placed(report: PaperReport, spec: Plot) -> list[_Mark]:
    """The rows that have both coordinates."""
    marks = []
    for line in report.lines:
        x, y = _coordinate(line, str(spec.x)), _coordinate(line, str(spec.y))
        if x is not None and y is not None:
            marks.append(_Mark(line, x, y))
    return marks


def _coordinate(line: Line, axis: str) -> float | None:
    estimate = _estimate(line, axis)
    if estimate is not None:
        return estimate.value
    value = line.fields.get(axis)
    return float(value) if isinstance(value, int | float) else None


def _estimate(line: Line, key: str) -> Estimate | None:
    """The measured number of a column; None if nothing was measured or no column has the key."""
    for cell in line.cells:
        if cell.column.key == key and cell.measured is not None:
            return cell.measured.estimate if cell.measured.runs else None
    return None


def _intervals(axes: Axes, points: Sequence[tuple[Estimate | float, Estimate | float]]) -> None:
    """Draws error bars for estimates with an interval."""
    axes.errorbar(
        [_centre(x) for x, _ in points],
        [_centre(y) for _, y in points],
        xerr=list(zip(*(_reach(x) for x, _ in points), strict=True)),
        yerr=list(zip(*(_reach(y) for _, y in points), strict=True)),
        fmt="none",
        ecolor="black",
        alpha=0.4,
        elinewidth=0.8,
        capsize=2.0,
    )


def _centre(coordinate: Estimate | float) -> float:
    if isinstance(coordinate, Estimate):
        return coordinate.value or 0.0
    return coordinate


def _reach(coordinate: Estimate | float) -> tuple[float, float]:
    """The lengths of an interval below and above its estimate; NaN without an interval."""
    if not isinstance(coordinate, Estimate):
        return math.nan, math.nan
    value, low, high = coordinate.value, coordinate.low, coordinate.high
    if value is None or low is None or high is None:
        return math.nan, math.nan
    return max(0.0, value - low), max(0.0, high - value)


def _scale(axes: Axes, values: list[float]) -> None:
    """Makes the x axis logarithmic if its values lie far apart."""
    from matplotlib.ticker import NullFormatter

    positive = [value for value in values if value > 0]
    if len(positive) == len(values) > 0 and max(positive) > _LOG_RATIO * min(positive):
        axes.set_xscale("log")
        axes.xaxis.set_minor_formatter(NullFormatter())


def _name_axis(report: PaperReport, axis: Axis, name: str) -> None:
    """Labels an axis, and writes its numbers like those of the table."""
    from matplotlib.ticker import FuncFormatter

    column = next((column for column in report.columns if column.key == name), None)
    form: Form = "number" if column is None else column.form
    axis.set_label_text(name.removeprefix("settings.") if column is None else column.label)
    if axis.get_scale() == "log" and axis.get_data_interval()[1] > _LONG_NUMBER:
        return  # powers of ten, as matplotlib writes them
    axis.set_major_formatter(FuncFormatter(lambda value, _: write_number(value, form)))


def _canvas(panels: int, *, height: float) -> tuple[Figure, list[Axes]]:
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    down = math.ceil(panels / _PANELS_ABREAST)
    across = math.ceil(panels / down)
    size = (max(6.4, 4.2 * across), height * down)
    figure = Figure(figsize=size, layout="constrained")
    FigureCanvasAgg(figure)
    # Rows are named once, at the first panel of each row of panels.
    grid = list(figure.subplots(down, across, sharey=True, squeeze=False).flat)
    for unused in grid[panels:]:
        unused.remove()
    return figure, grid[:panels]


def _title(figure: Figure, report: PaperReport) -> None:
    figure.suptitle(f"{report.paper.title}: {report.table.title}", fontsize="medium")
