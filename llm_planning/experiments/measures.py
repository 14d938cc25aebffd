"""Computes the numbers of tables from runs, each with its interval."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass
from statistics import fmean
from typing import TYPE_CHECKING, Final, TypeAlias

from llm_base.quoting import quote
from llm_planning.experiments.runs import SETTINGS, Runs, at_defaults, distinct, is_trial_field
from llm_planning.experiments.statistics import (
    Counts,
    Estimate,
    fisher,
    mean,
    mean_of_groups,
    mean_of_units,
    median,
    odds_ratio,
    paired_by_unit,
    paired_difference,
    paired_proportions,
    portion,
    proportion,
    share_of_units,
    within,
)
from llm_planning.registry import never_read

if TYPE_CHECKING:
    from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence

    from llm_planning.experiments.published import Comparison, Kind, Measure
    from llm_planning.experiments.runs import RunRecord

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
        unspent: groups that did not pass although their runs left a part of the budget; more seeds
            might have passed them. None without a budget.
        without: runs that ended without this value, such as plans that were not judged.
        replayed: runs left out of a time, as the response cache had every answer of theirs.
        failed: runs that failed for good.
        pending: runs of the sweep that have no result yet.
    """

    estimate: Estimate
    runs: int
    groups: int | None = None
    unspent: int | None = None
    without: int = 0
    replayed: int = 0
    failed: int = 0
    pending: int = 0

    @property
    def done(self) -> int:
        """The runs that ended."""
        return self.runs + self.without + self.replayed

    @property
    def expected(self) -> int:
        """All runs of the sweep for this number."""
        return self.done + self.failed + self.pending


@dataclass(frozen=True, slots=True, kw_only=True)
class Difference:
    """First minus second, over pairs of runs that are otherwise alike.

    Attributes:
        counted: what `n` of the estimate counts: `pair`, or the field whose values are the units.
        alone: finished runs without a partner.
    """

    estimate: Estimate
    counted: str
    alone: int


def measure(runs: Runs, quantity: Measure, *, beside: Runs | None = None) -> Measured:
    """The estimate of a quantity over runs, and how many runs it lacks.

    Args:
        beside: the runs that the cell is compared with, where `quantity` compares.

    Raises:
        MeasureError: a value is not a number, for a cost one below zero, for a portion not one
            from 0 to 1, or for a rate not a boolean.
    """
    if quantity.kind == "passed":
        return _passed(runs, quantity, beside=Runs() if beside is None else beside)
    valued = _valued(runs, quantity)
    groups = _grouped(valued, quantity)
    having = len(valued)
    if beside is None:
        estimate = _by_unit(valued, quantity) or _estimate(list(groups.values()), quantity)
        if quantity.kind == "cost":
            estimate = within(estimate, 0.0)
    else:
        ours, theirs = (_counts(side, quantity) for side in (runs, beside))
        estimate = fisher(theirs, ours) if quantity.kind == "fisher" else odds_ratio(theirs, ours)
    replayed = sum(_is_replayed(record, field) for record in runs.done for field in quantity.fields)
    return Measured(
        estimate=estimate,
        runs=having,
        groups=len(groups) if quantity.per else None,
        without=len(runs.done) - having - replayed,
        replayed=replayed,
        failed=len(runs.failed),
        pending=len(runs.pending),
    )


def compare(runs: Runs, quantity: Measure, comparison: Comparison) -> Difference:
    """Measures a difference, paired by task, seed and all other fields that both sides have.

    The interval counts pairs, or the units of the comparison, which are the column's if it names
    none and does not compare them.

    Settings that only one side's planner has or reads are ignored in pairing, and so are those that
    all runs leave at their own planner's default. So is what goes with a compared file: its hash
    and, if it says who answers the roles, their models. There are no pairs while one side has no
    finished run with a value.

    Args:
        runs: of the table and the column.
        quantity: the column's measure, which gives a value for each run.

    Raises:
        MeasureError: two runs of one side differ only in fields that are ignored in pairing, or
            the sides do not share the unit.
    """
    unit = comparison.unit or (None if quantity.unit in comparison.first else quantity.unit)
    sides = [
        _valued(runs.select({field: (value,) for field, value in side.items()}), quantity)
        for side in (comparison.first, comparison.second)
    ]
    if not all(sides):
        # The fields that an empty side will share with the other are not known yet.
        return _difference({}, [], quantity, unit, alone=sum(map(len, sides)))
    first, second = (
        {field for record, _ in side for field in record if is_trial_field(field)} - _unread(side)
        for side in sides
    )
    unshared = {field for field in first ^ second if field.startswith(SETTINGS)}
    records = [record for side in sides for record, _ in side]
    usual = {field for field in first & second if at_defaults(field, records)}
    compared = {*comparison.first, *(f"{field}_sha256" for field in comparison.first)}
    if "settings.roles" in compared:
        compared |= {field for field in first | second if field.startswith("role_models.")}
    fields = sorted((first | second) - unshared - usual - compared)
    if unit is not None and unit not in fields:
        raise MeasureError(f"unit={unit} is no field of both sides; name one, as seed")
    minuends, subtrahends = (_by_pair(side, fields) for side in sides)
    pairs = {key: (minuends[key], subtrahends[key]) for key in minuends if key in subtrahends}
    alone = len(minuends) + len(subtrahends) - 2 * len(pairs)
    return _difference(pairs, fields, quantity, unit, alone=alone)


def _unread(side: Sequence[tuple[RunRecord, float]]) -> set[str]:
    """The fields of settings that no planner of a side reads."""
    planners = {record["planner"] for record, _ in side}
    return {f"{SETTINGS}{key}" for key in frozenset.intersection(*map(never_read, planners))}


def _difference(
    pairs: Mapping[tuple[Hashable, ...], tuple[float, float]],
    fields: list[str],
    quantity: Measure,
    unit: str | None,
    *,
    alone: int,
) -> Difference:
    """The difference over pairs, whose keys are their values of `fields`."""
    if unit is not None:
        units: defaultdict[Hashable, list[tuple[float, float]]] = defaultdict(list)
        for key, pair in pairs.items():
            units[dict(zip(fields, key, strict=True)).get(unit)].append(pair)
        estimate = paired_by_unit(list(units.values()))
    elif quantity.is_share:
        truths = [(bool(first), bool(second)) for first, second in pairs.values()]
        estimate = paired_proportions(truths)
    else:
        estimate = paired_difference(list(pairs.values()))
    if quantity.is_share or quantity.kind == "portion":
        estimate = within(estimate, -1.0, 1.0)
    return Difference(estimate=estimate, counted=unit or "pair", alone=alone)


def _passed(runs: Runs, quantity: Measure, *, beside: Runs) -> Measured:
    """pass@B: the share of groups in which one of the runs that the budget B pays for succeeded.

    B of a group is the mean cost of the runs in `beside`. Runs are made one after another, in the
    order of their seeds, each paid from what is left; the first that costs more than that would not
    be complete, so it does not count and is the last. A run of `beside` itself costs B by
    definition: each group of these has one run.

    Source: Tree of Options, Section 4.2 and Table 2.
    """
    prices: defaultdict[Hashable, list[float]] = defaultdict(list)
    for record in _paid(beside, quantity):
        prices[_group(record, quantity)].append(_cost(record, quantity))
    groups: defaultdict[Hashable, list[RunRecord]] = defaultdict(list)
    for record in _paid(runs, quantity):
        groups[_group(record, quantity)].append(record)
    priced = {group: fmean(prices[group]) for group in groups if group in prices}
    sets_the_budget = runs == beside
    passed = unspent = 0
    for group, budget in priced.items():
        left, won = budget, False
        for record in _by_seed(groups[group]):
            cost = budget if sets_the_budget else _cost(record, quantity)
            if cost > left:
                break
            left -= cost
            won = won or bool(_value(record, quantity.fields[0], _TRUTH))
        else:
            unspent += not won and left > 0
        passed += won
    having = sum(len(groups[group]) for group in priced)
    return Measured(
        estimate=proportion(passed, len(priced), interval=quantity.interval),
        runs=having,
        groups=len(priced),
        unspent=unspent,
        without=len(runs.done) - having,
        failed=len(runs.failed),
        pending=len(runs.pending),
    )


def _group(record: RunRecord, quantity: Measure) -> Hashable:
    return distinct(record.get(quantity.per)) if quantity.per else None


def _paid(runs: Runs, quantity: Measure) -> list[RunRecord]:
    """The finished runs that have a value and a cost."""
    needed = (*quantity.fields, *quantity.budget)
    return [
        record for record in runs.done if all(record.get(field) is not None for field in needed)
    ]


def _cost(record: RunRecord, quantity: Measure) -> float:
    return sum(_value(record, field, _NUMBER) for field in quantity.budget)


def _by_seed(records: list[RunRecord]) -> list[RunRecord]:
    """The runs of a task in the order of their seeds, of which each must have one run."""
    by_seed = {record["seed"]: record for record in records}
    if len(by_seed) < len(records):
        first = records[0]
        raise MeasureError(
            f"a budget pays for one run of {first['planner']} on {first['task']} per seed, and "
            "several differ in settings alone: select one of these by `where`"
        )
    return [by_seed[seed] for seed in sorted(by_seed)]


def _grouped(
    valued: Iterable[tuple[RunRecord, float]], quantity: Measure
) -> Mapping[Hashable, list[float]]:
    groups: defaultdict[Hashable, list[float]] = defaultdict(list)
    for record, value in valued:
        groups[_group(record, quantity)].append(value)
    return groups


def _by_unit(valued: Sequence[tuple[RunRecord, float]], quantity: Measure) -> Estimate | None:
    """The number over units, each measured by itself; None if there are not several."""
    if quantity.unit is None:
        return None
    units: defaultdict[Hashable, list[tuple[RunRecord, float]]] = defaultdict(list)
    for record, value in valued:
        units[distinct(record.get(quantity.unit))].append((record, value))
    if len(units) < 2:
        return None
    each = [fmean(map(fmean, _grouped(unit, quantity).values())) for unit in units.values()]
    return share_of_units(each) if quantity.is_share else mean_of_units(each)


def _estimate(groups: list[list[float]], quantity: Measure) -> Estimate:
    if quantity.within == "mean" and quantity.per is not None:
        return mean_of_groups(groups)
    best = max if quantity.within == "max" else min
    if quantity.per is not None:
        values: list[float] = [best(group) for group in groups]
    else:
        values = [value for group in groups for value in group]
    if quantity.is_share:
        return proportion(int(sum(values)), len(values), interval=quantity.interval)
    return _AVERAGES[quantity.kind](values)


_AVERAGES: Final[Mapping[Kind, Callable[[Sequence[float]], Estimate]]] = {
    "mean": mean,
    "cost": mean,
    "median": median,
    "portion": portion,
}


def _counts(runs: Runs, quantity: Measure) -> Counts:
    values = [value for _, value in _valued(runs, quantity)]
    return Counts(int(sum(values)), len(values))


def _valued(runs: Runs, quantity: Measure) -> list[tuple[RunRecord, float]]:
    """The finished runs that have a value, with it. Every run has one in a share."""
    if quantity.share is not None:
        fitting = {id(record) for record in runs.select(quantity.share).done}
        return [(record, float(id(record) in fitting)) for record in runs.done]
    (field,) = quantity.fields
    checks = _CHECKS.get(quantity.kind, (_TRUTH,))
    valued = (
        record
        for record in runs.done
        if record.get(field) is not None and not _is_replayed(record, field)
    )
    return [(record, _value(record, field, *checks)) for record in valued]


def _is_replayed(record: RunRecord, field: str) -> bool:
    """Whether a field is a time, and no answer in it took the model any.

    Where a run asks the same again, the cache answers as well: such a time is the run's own.
    """
    if not field.rpartition(".")[2].startswith("seconds") or record.get(field) is None:
        return False
    calls = record.get("calls") or 0
    return 0 < calls <= (record.get("replayed") or 0)


def _by_pair(
    values: Iterable[tuple[RunRecord, float]], fields: list[str]
) -> Mapping[tuple[Hashable, ...], float]:
    pairs: dict[tuple[Hashable, ...], float] = {}
    for record, value in values:
        key = tuple(distinct(record.get(name)) for name in fields)
        if key in pairs:
            raise MeasureError(
                f"cannot pair {record['planner']} on {record['task']}, seed {record['seed']}: "
                "several of its runs differ only in settings that the other side lacks"
            )
        pairs[key] = value
    return pairs


_Check: TypeAlias = "tuple[Callable[[float], bool], str]"
"""What a value must fulfil, and what it is otherwise."""

_NUMBER: Final[_Check] = (lambda value: abs(value) <= _LARGEST, f"not a number up to {_LARGEST:g}")
_AMOUNT: Final[_Check] = (lambda value: value >= 0, "and no cost is below 0: measure its mean")
_PORTION: Final[_Check] = (lambda value: 0 <= value <= 1, "not a number from 0 to 1")
_TRUTH: Final[_Check] = (lambda value: value in {0, 1}, "neither true nor false")

_CHECKS: Final[Mapping[Kind, Sequence[_Check]]] = {
    "mean": (_NUMBER,),
    "cost": (_NUMBER, _AMOUNT),
    "median": (_NUMBER,),
    "portion": (_PORTION,),
}
"""Kind of measure -> checks of a run's value; all others measure what is true or false."""


def _value(record: RunRecord, field: str, *checks: _Check) -> float:
    value = record[field]
    for fits, fault in checks:
        if not isinstance(value, int | float) or not fits(value):
            raise MeasureError(
                f"{field} is {quote(value)} in a run of {record['planner']}, {fault}"
            )
    return float(value)
