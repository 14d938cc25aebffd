"""Computes the numbers of tables from runs, each with its interval."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass
from typing import TYPE_CHECKING

from llm_kernels.quoting import shown
from llm_planning.experiments.runs import distinct, is_trial_field
from llm_planning.experiments.statistics import (
    Estimate,
    mean,
    mean_of_groups,
    median,
    paired_difference,
    paired_proportions,
    proportion,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Hashable, Iterable, Mapping

    from llm_planning.experiments.published import Comparison, Measure
    from llm_planning.experiments.runs import RunRecord, Runs

_LARGEST = 1e100
"""Largest number that is averaged: the squares of larger ones would leave the range of floats."""


class MeasureError(ValueError):
    """The values of a field cannot be measured."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Measured:
    """A measured number, and the runs without a value.

    Attributes:
        estimate: over the runs that have a value.
        runs: number of runs with a value.
        groups: number of their groups; None if they are not grouped.
        without: runs that ended without this value, such as plans that were not judged.
        failed: runs that failed for good.
        pending: runs of the sweep that have no result yet.
    """

    estimate: Estimate
    runs: int
    groups: int | None = None
    without: int = 0
    failed: int = 0
    pending: int = 0

    @property
    def expected(self) -> int:
        """All runs of the sweep for this number."""
        return self.runs + self.without + self.failed + self.pending


@dataclass(frozen=True, slots=True, kw_only=True)
class Difference:
    """First minus second, over pairs of runs that are otherwise alike.

    Attributes:
        estimate: of the difference; `n` counts pairs.
        alone: finished runs without a partner.
    """

    estimate: Estimate
    alone: int


def measure(runs: Runs, what: Measure) -> Measured:
    """Measures one number.

    Args:
        runs: of the cell.
        what: the number to measure.

    Raises:
        UnknownFieldError: no run has the field.
        MeasureError: a value is not a number, or for a rate not a boolean.
    """
    for field in filter(None, (what.field, what.per)):
        runs.check_field(field)
    read = _truth if what.kind == "rate" else _number
    having = [record for record in runs.done if record.get(what.field) is not None]
    groups: defaultdict[object, list[float]] = defaultdict(list)
    for record in having:
        group = distinct(record.get(what.per)) if what.per else None
        groups[group].append(read(record, what.field))
    return Measured(
        estimate=_estimate(list(groups.values()), what),
        runs=len(having),
        groups=len(groups) if what.per else None,
        without=len(runs.done) - len(having),
        failed=len(runs.failed),
        pending=len(runs.pending),
    )


def compare(runs: Runs, what: Measure, comparison: Comparison) -> Difference:
    """Measures a difference, paired by task, seed and all other fields that both sides have.

    Settings of only one side's planner are ignored in pairing. There are no pairs while one side
    has no finished run with a value.

    Args:
        runs: of the table and the column.
        what: the column's measure, which gives a value for each run.
        comparison: the two sides.

    Raises:
        UnknownFieldError: no run has the field.
        MeasureError: two runs of one side differ only in fields that are ignored in pairing.
    """
    sides = [
        [record for record in selected.done if record.get(what.field) is not None]
        for selected in (
            runs.select({field: (value,) for field, value in side.items()})
            for side in (comparison.first, comparison.second)
        )
    ]
    if not all(sides):
        # The fields that an empty side will share with the other are not known yet.
        none = paired_proportions([]) if what.kind == "rate" else paired_difference([])
        return Difference(estimate=none, alone=sum(map(len, sides)))
    first, second = (
        {field for record in side for field in record if is_trial_field(field)} for side in sides
    )
    of_one = {field for field in first ^ second if field.startswith("settings.")}
    fields = sorted((first | second) - of_one - set(comparison.first))
    read = _truth if what.kind == "rate" else _number
    minuends, subtrahends = (_by_pair(side, fields, what.field, read) for side in sides)
    pairs = [(minuends[key], subtrahends[key]) for key in minuends if key in subtrahends]
    if what.kind == "rate":
        estimate = paired_proportions([(bool(one), bool(other)) for one, other in pairs])
    else:
        estimate = paired_difference(pairs)
    return Difference(estimate=estimate, alone=len(minuends) + len(subtrahends) - 2 * len(pairs))


def _estimate(groups: list[list[float]], what: Measure) -> Estimate:
    if what.within == "mean" and what.per is not None:
        return mean_of_groups(groups)
    best = max if what.within == "max" else min
    if what.per is not None:
        values: list[float] = [best(group) for group in groups]
    else:
        values = [value for group in groups for value in group]
    if what.kind == "rate":
        return proportion(int(sum(values)), len(values))
    return median(values) if what.kind == "median" else mean(values)


def _by_pair(
    records: Iterable[RunRecord],
    fields: list[str],
    field: str,
    read: Callable[[RunRecord, str], float],
) -> Mapping[tuple[Hashable, ...], float]:
    values: dict[tuple[Hashable, ...], float] = {}
    for record in records:
        key = tuple(distinct(record.get(name)) for name in fields)
        if key in values:
            raise MeasureError(
                f"cannot pair {record['planner']} on {record['task']}, seed {record['seed']}: "
                "several of its runs differ only in settings that the other side lacks"
            )
        values[key] = read(record, field)
    return values


def _number(record: RunRecord, field: str) -> float:
    value = record[field]
    if not isinstance(value, int | float) or not abs(value) <= _LARGEST:
        raise MeasureError(
            f"{field} is {shown(value)} in a run of {record['planner']}, not a number up to "
            f"{_LARGEST:g}"
        )
    return float(value)


def _truth(record: RunRecord, field: str) -> float:
    value = record[field]
    if not isinstance(value, int | float) or value not in {0, 1}:
        raise MeasureError(
            f"{field} is {shown(value)} in a run of {record['planner']}, neither true nor false"
        )
    return float(value)
