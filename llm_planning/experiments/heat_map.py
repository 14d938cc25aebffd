"""A measured table as a heat map: a cell for each row and column, darker where the share is larger.

The number stands in the cell. A cell that no run can fill is grey and has a cross. One that was not
run is white and says so.
"""

from __future__ import annotations

from textwrap import fill
from typing import TYPE_CHECKING, Final

from llm_planning.experiments.paper_report import SENSELESS
from llm_planning.experiments.statistics import write_number

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from llm_planning.experiments.paper_report import Line, PaperReport

COLOUR_MAP: Final = "YlGnBu"
"""Light to dark, also in grey and for whoever sees no red."""

_LETTERS: Final = 9
"""Letters of the title that fit into an inch of the figure's width."""

_DARK: Final = 0.55
"""The share from which on the number is white."""

NOT_RUN: Final = "not run"

_GREY: Final = "0.88"


def heat_map(report: PaperReport, *, height: float = 0.27) -> Figure | None:
    """Draws the measured columns of a table whose figures are shares, from 0 to 1.

    Args:
        height: of a row, in inches.

    Returns:
        The picture; None if nothing was measured.
    """
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure
    from matplotlib.patches import Rectangle

    columns = [column for column in report.columns if column.measure is not None]
    shares = [[_share(line, column.key) for column in columns] for line in report.lines]
    if all(share is None for row in shares for share in row):
        return None
    size = (2.6 + 1.0 * len(columns), 1.4 + height * len(report.lines))
    figure = Figure(figsize=size, layout="constrained")
    FigureCanvasAgg(figure)
    axes = figure.subplots()
    axes.imshow(
        [[float("nan") if share is None else share for share in row] for row in shares],
        vmin=0.0,
        vmax=1.0,
        cmap=COLOUR_MAP,
        aspect="auto",
    )
    for down, (line, row) in enumerate(zip(report.lines, shares, strict=True)):
        for across, (column, share) in enumerate(zip(columns, row, strict=True)):
            senseless = line.cell(column.key).senseless is not None
            if senseless:
                corner = (across - 0.5, down - 0.5)
                axes.add_patch(Rectangle(corner, 1, 1, facecolor=_GREY, edgecolor="white"))
            axes.text(
                across,
                down,
                _share_text(share, senseless=senseless),
                ha="center",
                va="center",
                fontsize="x-small" if share is not None else "xx-small",
                color=_colour(share),
            )
    axes.set_xticks(
        range(len(columns)), [fill(column.label, 14) for column in columns], fontsize="small"
    )
    axes.set_yticks(range(len(report.lines)), [line.label for line in report.lines])
    axes.tick_params(top=True, labeltop=True, bottom=False, labelbottom=False, length=0)
    axes.tick_params(axis="y", labelsize="x-small")
    axes.spines[:].set_visible(False)
    title = fill(f"{report.paper.title}: {report.table.title}", width=round(_LETTERS * size[0]))
    figure.suptitle(title, fontsize="medium")
    return figure


def _share(line: Line, key: str) -> float | None:
    measured = line.cell(key).measured
    return measured.estimate.value if measured is not None and measured.runs else None


def _share_text(share: float | None, *, senseless: bool) -> str:
    if share is not None:
        return write_number(share, "percent")
    return SENSELESS if senseless else NOT_RUN


def _colour(share: float | None) -> str:
    if share is None:
        return "0.45"
    return "white" if share > _DARK else "black"
