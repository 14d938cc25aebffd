"""How good predicted requirement sets are: the rows of Table 12, for any prediction (App. K.1).

The paper does not define its rows; what they are taken over here is said beside each. Errors of
quantity are taken over the quantities that are wrong. Over all of them the published figures are
impossible: a mean absolute error of 2.05 and a mean of -0.55 make (2.05 + 0.55) / 2 = 1.30 missing
on average, but as nothing is needed less than once, a prediction of 1 for everything that the 67
goals need misses no more than 1.2.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, fields
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from llm_planning.environments.minecraft.rulebook import RuleBook
    from llm_planning.planners.xenon.roles import Requirements


@dataclass(frozen=True, slots=True, kw_only=True)
class PriorQuality:
    """The rows of Table 12; a share of nothing is None.

    Attributes:
        items: names in the predicted graph, asked for or only mentioned (the table's "over 75").
        right_items: share of real items asked for with the right requirements, whatever the
            quantities.
        exact: share of real items asked for with the right requirements and quantities.
        nonexistent: share of names that are no item of the world.
        after_nonexistent: share of names that seem to need, directly or not, one that is no item.
        unnecessary: share of real items asked for with a requirement too many.
        omitted: share of real items asked for with a requirement too few.
        quantity_std: standard deviation of predicted - true, over wrong quantities of right
            requirements.
        quantity_absolute: mean of |predicted - true| over the same.
        quantity_signed: mean of predicted - true over the same.
    """

    items: int
    right_items: float | None
    exact: float | None
    nonexistent: float | None
    after_nonexistent: float | None
    unnecessary: float | None
    omitted: float | None
    quantity_std: float | None
    quantity_absolute: float | None
    quantity_signed: float | None

    def rows(self) -> dict[str, float]:
        """Name -> value of every row that has one."""
        values = {field.name: getattr(self, field.name) for field in fields(self)}
        return {name: value for name, value in values.items() if value is not None}


PUBLISHED = PriorQuality(
    items=75,
    right_items=0.23,
    exact=0.08,
    nonexistent=0.08,
    after_nonexistent=0.23,
    unnecessary=0.57,
    omitted=0.57,
    quantity_std=2.74,
    quantity_absolute=2.05,
    quantity_signed=-0.55,
)
"""Table 12: Qwen2.5-VL-7B."""


def quality(predicted: Mapping[str, Requirements], book: RuleBook) -> PriorQuality:
    """Compares predictions with the truth.

    Args:
        predicted: v -> R(v) for every item asked for.
        book: the true rules; an item without a rule does not exist.
    """
    names = dict.fromkeys((*predicted, *(u for r in predicted.values() for u in r)))
    nonexistent = {name for name in names if name not in book.rules}
    pairs = [
        (requirements, book.requirements(v))
        for v, requirements in predicted.items()
        if v not in nonexistent
    ]
    errors = [
        given[u] - quantity
        for given, true in pairs
        for u, quantity in true.items()
        if u in given and given[u] != quantity
    ]
    signed = _mean(errors)
    return PriorQuality(
        items=len(names),
        right_items=_mean(given.keys() == true.keys() for given, true in pairs),
        exact=_mean(dict(given) == dict(true) for given, true in pairs),
        nonexistent=_mean(name in nonexistent for name in names),
        after_nonexistent=_mean(_needs_any(name, nonexistent, predicted) for name in names),
        unnecessary=_mean(bool(given.keys() - true.keys()) for given, true in pairs),
        omitted=_mean(bool(true.keys() - given.keys()) for given, true in pairs),
        quantity_std=(
            None
            if signed is None
            else math.sqrt(math.fsum((e - signed) ** 2 for e in errors) / len(errors))
        ),
        quantity_absolute=_mean(map(abs, errors)),
        quantity_signed=signed,
    )


def _needs_any(item: str, wanted: set[str], predicted: Mapping[str, Requirements]) -> bool:
    """Whether one of the ancestors of an item is wanted; predictions may go in circles."""
    found: set[str] = set()
    waiting = list(predicted.get(item, ()))
    while waiting:
        u = waiting.pop()
        if u not in found:
            found.add(u)
            waiting.extend(predicted.get(u, ()))
    return not wanted.isdisjoint(found)


def _mean(values: Iterable[float]) -> float | None:
    numbers = list(values)
    return sum(numbers) / len(numbers) if numbers else None
