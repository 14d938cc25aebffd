"""Who leads in each domain of a sweep, and how sure that is."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from llm_planning.experiments.measures import Difference, MeasureError, compare
from llm_planning.experiments.published import Comparison, Measure
from llm_planning.experiments.summary import summary

if TYPE_CHECKING:
    from collections.abc import Sequence

    from llm_planning.experiments.runs import Runs
    from llm_planning.experiments.summary import Group

_SUCCESS = Measure(rate="success")
_COSTS = ("tokens", "calls", "seconds")


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
            difference = compare(runs, _SUCCESS, comparison)
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
