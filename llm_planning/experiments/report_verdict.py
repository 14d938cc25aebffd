"""How much of a paper's table holds here, and the number in a figure as it is printed."""

from __future__ import annotations

import re
from collections import Counter
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from llm_planning.experiments.paper_report import Cell, PaperReport
    from llm_planning.experiments.published import Text
    from llm_planning.experiments.statistics import Estimate, Form

_UNCOUNTED = {
    "at_an_end": "at 0 or all, where little can miss",
    "fitted": "fitted",
    "given": "given to who answers",
    "other_budget": "of another budget",
}
"""Why a figure does not count, and how that is said."""

_SUFFIXES = {"k": 1e3, "M": 1e6, "%": 1e-2}
_PRINTED = re.compile(r"\s*([-−+]?\d+(?:[.,]\d+)*)\s*(?:([kM%])|/\s*(\d+))?(?![\w.])")


def printed_value(text: Text, form: Form = "number") -> float | None:
    """The number in a published figure; None if there is none.

    A text may end in k, M or %, be a fraction such as `2 / 3`, or have a spread: `85 ± 2`.

    Args:
        text: the figure as printed.
        form: of its column; among percentages a number without a unit is one, too.

    Examples:
        >>> from llm_planning.experiments.report_verdict import printed_value
        >>> printed_value("85 ± 2"), printed_value("85 ± 2", "percent"), printed_value("17 / 20")
        (85.0, 0.85, 0.85)
    """
    match = _PRINTED.match(str(text))
    if match is None:
        return None
    number = float(match[1].replace("−", "-").replace(",", ""))
    if match[3]:
        return number / int(match[3]) if int(match[3]) else None
    return number * _SUFFIXES.get(match[2] or ("%" if form == "percent" else ""), 1.0)


def verdict_counts(report: PaperReport) -> dict[str, int]:
    """How many figures and differences of a paper hold here.

    Figures that could not miss are counted apart: those of cells that are no evidence, and those
    that hold at an end of their scale, 0 or all, where a method that does nothing may be as well.

    Returns:
        printed: figures that the paper prints and that runs can measure.
        measured: those of them that have an interval here, and count.
        hold: those of these that lie in it.
        at_an_end: figures with an interval that hold at an end of their scale.
        fitted, given, other_budget: figures with an interval in cells that are no evidence.
        differences: below the table.
        differences_measured: those of them that have an interval here.
        beyond_chance: those of these whose interval excludes zero.
        differences_printed: those measured ones that the paper prints.
        differences_hold: those of these that lie beyond chance on the side that the paper prints.
    """
    printed = [
        cell
        for line in report.lines
        for cell in line.cells
        if line.cited is None and cell.column.measure and cell.published_value is not None
    ]
    verdicts = Counter(
        _verdict(cell, cell.measured.estimate)
        for cell in printed
        if cell.measured and _has_interval(cell.measured.estimate)
    )
    differences = [
        (compared.published, _side(compared.difference.estimate, 0.0))
        for compared in report.differences
        if _has_interval(compared.difference.estimate)
    ]
    return {
        "printed": len(printed),
        "measured": verdicts["hold"] + verdicts["miss"],
        **{kind: verdicts[kind] for kind in ("hold", *_UNCOUNTED)},
        "differences": len(report.differences),
        "differences_measured": len(differences),
        "beyond_chance": sum(side != 0 for _, side in differences),
        "differences_printed": sum(text is not None for text, _ in differences),
        "differences_hold": sum(
            text is not None and side * (printed_value(text) or 0.0) > 0
            for text, side in differences
        ),
    }


def _verdict(cell: Cell, estimate: Estimate) -> str:
    """`hold`, `miss`, or why the figure does not count: one of `_UNCOUNTED`."""
    if cell.mark is not None:
        return cell.mark.replace(" ", "_")
    value = cell.published_value or 0.0
    if _side(estimate, value) != 0:
        return "miss"
    whole = cell.column.measure is not None and cell.column.measure.is_share and value == 1.0
    return "at_an_end" if value == 0.0 or whole else "hold"


def _has_interval(estimate: Estimate) -> bool:
    return estimate.low is not None and estimate.high is not None


def _side(estimate: Estimate, value: float) -> int:
    """1 if an interval lies above a value, -1 if below; 0 if it holds it, or there is none."""
    if estimate.low is None or estimate.high is None:
        return 0
    return (estimate.low > value) - (estimate.high < value)


def _unmeasured(number: int) -> str:
    return f"; {number} more {'was' if number == 1 else 'were'} not measured" if number else ""


def verdict_text(report: PaperReport) -> str:
    """How many figures and differences of the paper hold here, in one or two sentences."""
    counts = verdict_counts(report)
    aside = [f"{counts[kind]} {said}" for kind, said in _UNCOUNTED.items() if counts[kind]]
    unmeasured = counts["printed"] - counts["measured"] - sum(counts[kind] for kind in _UNCOUNTED)
    if counts["measured"]:
        text = (
            "{hold} of {measured} printed figures hold: they lie in the interval that was measured "
            "here"
        )
    elif aside:
        text = "No printed figure says whether the paper holds here"
    if counts["measured"] or aside:
        text += f"; not counted: {', '.join(aside)}" if aside else ""
        text += _unmeasured(unmeasured)
    elif counts["printed"]:
        text = "None of {printed} printed figures was measured with an interval"
    else:
        text = "The paper prints no figure that is measured here"
    if counts["differences_measured"]:
        text += ". {beyond_chance} of {differences_measured} differences are beyond chance"
        if counts["differences_printed"]:
            text += (
                ", {differences_hold} of {differences_printed} on the side that the paper prints"
            )
        text += _unmeasured(counts["differences"] - counts["differences_measured"])
    elif counts["differences"]:
        text += ". None of {differences} differences was measured with an interval"
    return f"{text.format_map(counts)}."
