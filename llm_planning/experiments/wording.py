"""How numbers are written in a report, and which number a published figure says."""

from __future__ import annotations

import math
import re
from typing import TYPE_CHECKING, Literal, TypeAlias

if TYPE_CHECKING:
    from llm_planning.experiments.measures import Difference, Measured
    from llm_planning.experiments.published import Text
    from llm_planning.experiments.runs import Runs
    from llm_planning.experiments.statistics import Estimate

Form: TypeAlias = Literal["number", "thousands", "percent"]

NOTHING = "–"
"""In a cell that has no figure."""

_DIGITS = 3
_SUFFIXES = {"k": 1e3, "M": 1e6, "%": 1e-2}
_PRINTED = re.compile(r"\s*([-−+]?\d+(?:[.,]\d+)*)\s*(?:([kM%])|/\s*(\d+))?(?![\w.])")


def printed_value(text: Text) -> float | None:
    """The number that a published figure says; None if it says none.

    A text may end in k, M or %, be a fraction such as `2 / 3`, and go on with a spread: `85 ± 2`.
    """
    if isinstance(text, int | float):
        return float(text)
    found = _PRINTED.match(text)
    if found is None:
        return None
    number = float(found[1].replace("−", "-").replace(",", ""))
    if found[3]:
        return number / int(found[3]) if int(found[3]) else None
    return number * _SUFFIXES.get(found[2] or "", 1.0)


def write_number(value: float, form: Form) -> str:
    """A number with three significant digits, or all before the point if those are more."""
    if form == "thousands":
        return f"{_significant(value / 1e3)}k"
    if form == "percent":
        return f"{_significant(100 * value)}%"
    return _significant(value)


def write_estimate(estimate: Estimate, form: Form) -> str:
    """A number and its interval, such as `0.912k [0.85k, 0.974k]`."""
    if estimate.value is None:
        return NOTHING
    value = write_number(estimate.value, form)
    if estimate.low is None or estimate.high is None:
        return value
    return f"{value} [{write_number(estimate.low, form)}, {write_number(estimate.high, form)}]"


def write_measured(measured: Measured, form: Form, *, runs: Runs) -> str:
    """A measured cell: the number, its interval, and what sets it apart from its line.

    Args:
        measured: the cell.
        form: of its numbers.
        runs: of the line, counted once for all its cells.
    """
    estimate = measured.estimate
    remarks = []
    if estimate.reason is not None and estimate.value is not None:
        remarks.append(f"no interval: {estimate.reason}")
    if measured.without:
        remarks.append(f"{measured.without} without a value")
    here = (measured.runs + measured.without, measured.failed, measured.pending)
    if here != (len(runs.done), len(runs.failed), len(runs.pending)):
        remarks.append(write_counts(*here))
    text = write_estimate(estimate, form)
    return f"{text} ({'; '.join(remarks)})" if remarks else text


def write_counts(done: int, failed: int, pending: int) -> str:
    """How many runs there are, and what became of the others."""
    lost = [f"{failed} failed"] if failed else []
    lost += [f"{pending} not run yet"] if pending else []
    return f"{_count(done, 'run')}, {', '.join(lost)}" if lost else _count(done, "run")


def write_difference(difference: Difference, form: Form) -> str:
    """A difference: the number, its interval, and how many pairs there are."""
    estimate = difference.estimate
    counts = [_count(estimate.n, "pair")]
    if estimate.n == 1:
        counts.append("no interval: one pair")
    if difference.alone:
        counts.append(f"{_count(difference.alone, 'run')} without a partner")
    return f"{write_estimate(estimate, form)} ({', '.join(counts)})"


def _count(n: int, what: str) -> str:
    return f"{n} {what}" if n == 1 else f"{n} {what}s"


def _significant(value: float) -> str:
    if value == 0 or not math.isfinite(value):
        return f"{value:g}"
    places = _DIGITS - 1 - math.floor(math.log10(abs(value)))
    rounded = round(value, places)
    if places <= 0:
        return f"{round(value):,}"
    text = f"{rounded:.{places}f}"
    return text.rstrip("0").rstrip(".")
