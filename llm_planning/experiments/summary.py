"""Runs in groups, a line each: the report of a sweep with any planners.

Runs of the planner `measure` count right answers; a group of them has the share of these as well.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from llm_planning.experiments.measures import Difference, Measured, MeasureError, compare, measure
from llm_planning.experiments.published import Comparison, Measure
from llm_planning.experiments.role_measures import read_measures
from llm_planning.experiments.runs import (
    EQUAL,
    METRICS,
    Runs,
    UnknownFieldError,
    distinct,
    is_trial_field,
    one_of_equal_seeds,
    varying,
)
from llm_planning.experiments.statistics import NOTHING, Form, proportion, write_estimate
from llm_planning.names import remedy
from llm_planning.notebook import table_html

if TYPE_CHECKING:
    from collections.abc import Hashable, Mapping, Sequence

    from llm_planning.experiments.runs import RunRecord

_QUANTITIES: Mapping[str, tuple[Measure, Form]] = {
    "success": (Measure(rate="success"), "percent"),
    "options": (Measure(cost="options"), "number"),
    "calls": (Measure(cost="calls"), "number"),
    "tokens": (Measure(cost="tokens"), "number"),
    "seconds": (Measure(cost="seconds"), "number"),
}

_RIGHT = "right"
_COSTS = ("tokens", "calls", "seconds")


@dataclass(frozen=True, slots=True, kw_only=True)
class Group:
    """Runs with equal values in the grouping fields.

    Attributes:
        values: of the grouping fields; None if the planner has no such setting.
        done: runs that ended.
        pending: runs without a result.
        equal: whether all seeds of each trial did the same, so that each trial counts once.
        measured: quantity -> its estimate, for every quantity that its runs have.
    """

    values: tuple[Any, ...]
    done: int
    failed: int
    pending: int
    equal: bool = False
    measured: Mapping[str, Measured]


@dataclass(frozen=True, slots=True, kw_only=True)
class Summary:
    """A table of groups.

    Attributes:
        by: the grouping fields.
        groups: in the order of the sweep.
        means: further fields of results that were measured.
    """

    by: tuple[str, ...]
    groups: tuple[Group, ...]
    means: tuple[str, ...] = ()

    @property
    def header(self) -> tuple[str, ...]:
        """Headings of the cells."""
        by = (field.removeprefix("settings.") for field in self.by)
        measured = (name.removeprefix(METRICS) for name in self._quantities)
        return (*by, "done", "failed", "not run", *measured)

    @property
    def cells(self) -> tuple[tuple[str, ...], ...]:
        """A line for each group, as texts."""
        return tuple(
            (
                *(NOTHING if value is None else str(value) for value in group.values),
                f"{group.done} (equal)" if group.equal else str(group.done),
                str(group.failed),
                str(group.pending),
                *(_text(group.measured.get(name), form) for name, form in self._quantities.items()),
            )
            for group in self.groups
        )

    def _repr_html_(self) -> str:
        """The table, under a cell of Jupyter."""
        return table_html("", self.header, self.cells)

    @property
    def _quantities(self) -> Mapping[str, Form]:
        """The quantities that a group has, and how each is written."""
        forms: dict[str, Form] = {name: form for name, (_, form) in _QUANTITIES.items()}
        if any(_RIGHT in group.measured for group in self.groups):
            forms[_RIGHT] = "percent"
        return forms | dict.fromkeys(self.means, "number")


def summary(runs: Runs, *, by: Sequence[str] | None = None, means: Sequence[str] = ()) -> Summary:
    """Groups runs and measures each group: success, options, calls, tokens and seconds.

    Args:
        by: fields of trials, such as `planner` and `settings.k`, or `k` for short; by default the
            planner and all fields that vary, except tasks and seeds.
        means: fields of results whose means are measured, too, such as `metrics.score`, or `score`
            for short.

    Raises:
        UnknownFieldError: no trial or no result has the field; names the nearest.
        MeasureError: a value of `means` is not a number.
    """
    fields = varying(runs.all) if by is None else tuple(_full_name(field, runs) for field in by)
    further = tuple(
        name for field in means if (name := _result_field(field, runs)) not in _QUANTITIES
    )
    # One pass, as there may be as many groups as trials.
    groups: dict[Hashable, tuple[list[RunRecord], list[RunRecord], list[RunRecord]]] = {}
    for place, records in enumerate((runs.done, runs.failed, runs.pending)):
        for record in records:
            key = tuple(distinct(record.get(field)) for field in fields)
            groups.setdefault(key, ([], [], []))[place].append(record)
    chosen = (
        Runs(done=tuple(done), failed=tuple(failed), pending=tuple(pending))
        for done, failed, pending in groups.values()
    )
    quantities = {name: quantity for name, (quantity, _) in _QUANTITIES.items()}
    quantities |= {field: Measure(mean=field) for field in further}
    return Summary(
        by=fields,
        groups=tuple(_group(fields, mine, quantities) for mine in chosen),
        means=further,
    )


def _group(fields: tuple[str, ...], mine: Runs, quantities: Mapping[str, Measure]) -> Group:
    first = mine.all[0]
    equal = bool(mine.done) and all(record.get(EQUAL) for record in mine.done)

    def measured(quantity: Measure) -> Measured:
        return measure(one_of_equal_seeds(mine, quantity.fields), quantity)

    return Group(
        values=tuple(first.get(field) for field in fields),
        done=len(mine.done),
        equal=equal,
        failed=len(mine.failed),
        pending=len(mine.pending),
        measured={name: measured(quantity) for name, quantity in quantities.items()}
        | _share_right(mine),
    )


def _share_right(mine: Runs) -> dict[str, Measured]:
    """The share of right answers among all questions of a group; empty if no run counts them."""
    having = read_measures(mine.done)
    if not having:
        return {}
    questions = sum(measured.share.n for measured in having)
    return {
        _RIGHT: Measured(
            estimate=proportion(sum(measured.right for measured in having), questions),
            runs=len(having),
            without=len(mine.done) - len(having),
            failed=len(mine.failed),
            pending=len(mine.pending),
        )
    }


def _full_name(field: str, runs: Runs) -> str:
    for name in (field, f"settings.{field}"):
        if is_trial_field(name) and any(name in record for record in runs.all):
            return name
    known = {name for record in runs.all for name in record if is_trial_field(name)}
    raise UnknownFieldError(f"trials have no {field!r} to group by; {remedy(field, known)}")


def _result_field(field: str, runs: Runs) -> str:
    known = {name for record in runs.done for name in record if not is_trial_field(name)}
    for name in (field, f"{METRICS}{field}"):
        if name in known:
            return name
    if not runs.done:
        return f"{METRICS}{field.removeprefix(METRICS)}"  # a later run may have it
    short = (name.removeprefix(METRICS) for name in known)
    raise UnknownFieldError(f"no run has {field!r} to measure; {remedy(field, short)}")


def _text(measured: Measured | None, form: Form) -> str:
    if measured is None:
        return NOTHING
    text = write_estimate(measured.estimate, form)
    if measured.without and not measured.runs:
        text = "not judged" if form == "percent" else NOTHING
    elif measured.without:
        text = f"{text} ({measured.without} without)"
    if measured.replayed:
        return f"{text} ({measured.replayed} of {measured.done} replayed)"
    return text


@dataclass(frozen=True, slots=True, kw_only=True)
class Lead:
    """The two groups with the highest rates of success in a domain.

    Attributes:
        first: the values of the leading group; of groups that are alike, the cheapest leads.
        second: the values of the next one; None if there is no other.
        difference: the first's rate minus the second's, over trials of both that are otherwise
            alike; None if they cannot be paired.
        reason: why they cannot; None if they can.
        few: the values of the groups with too few trials to lead, whatever their rate: less than
            half of those of the group that has most, as while a sweep runs.
    """

    domain: str
    first: tuple[Any, ...]
    second: tuple[Any, ...] | None = None
    difference: Difference | None = None
    reason: str | None = None
    few: tuple[tuple[Any, ...], ...] = ()


def leads(runs: Runs, *, by: Sequence[str]) -> tuple[Lead, ...]:
    """The leading groups of every domain in which something was judged, in the sweep's order.

    Args:
        by: the fields that make the groups, without the domain.
    """
    domains: dict[str, list[Group]] = {}
    for group in summary(runs, by=("domain", *by)).groups:
        if group.measured["success"].estimate.value is not None:
            domains.setdefault(group.values[0], []).append(group)
    return tuple(
        _lead(runs.select({"domain": (domain,)}), domain, groups, by)
        for domain, groups in domains.items()
    )


def _judged(group: Group) -> int:
    return group.measured["success"].runs


def _rank(group: Group) -> tuple[float, ...]:
    costs = (group.measured[name].estimate.value or 0.0 for name in _COSTS)
    return (-(group.measured["success"].estimate.value or 0.0), *costs)


def _lead(runs: Runs, domain: str, groups: list[Group], by: Sequence[str]) -> Lead:
    most = max(map(_judged, groups))
    few = tuple(group.values[1:] for group in groups if 2 * _judged(group) < most)
    fit = sorted((group for group in groups if 2 * _judged(group) >= most), key=_rank)
    first = fit[0].values[1:]
    if len(fit) == 1:
        return Lead(domain=domain, first=first, few=few)
    second = fit[1].values[1:]
    difference = reason = None
    if not all(value is None or isinstance(value, str | int | float) for value in first + second):
        reason = "they differ in a setting that is a list"
    else:
        sides = (dict(zip(by, values, strict=True)) for values in (first, second))
        comparison = Comparison(column="success", first=next(sides), second=next(sides))
        try:
            difference = compare(runs, Measure(rate="success"), comparison)
        except MeasureError as error:
            reason = str(error)
    return Lead(
        domain=domain,
        first=first,
        second=second,
        difference=difference,
        reason=reason,
        few=few,
    )
