"""What a model believes that items require, with the errors of Table 12 (Appendix K.1).

An answer has at most one mistake of each kind.

- An item's requirements are right with probability 0.23. Otherwise one is left out (0.20), one is
  added (0.20), or both (0.37). Only so can 0.57 of all answers leave something out and 0.57 add
  something. If an item requires nothing, nothing is left out.
- What is added is one item of the world that does not itself require the item. Or it is a name that
  does not exist, made of the parts of two that do. If h / (1 - h) of all answers add such a name,
  h = 0.08 of the names in the whole graph do not exist: each is new, and requires nothing.
- The quantities of an answer are right with probability 0.08 / 0.23. A quantity of one is always
  right: it is a tool, a station or a single piece. The other answers are wrong the more often, so
  that 0.08 of all are exact. If an answer's quantities are wrong, all above one are. Some of them
  are too low, evenly from 1 to the true one less one. The others are too high, by a geometrically
  distributed excess. The mean absolute error of 2.05, the mean of -0.55 and the true quantities say
  how often and by how much. The true quantities are those of items made of other items: the table
  is about these, and what is mined requires a tool at most. The standard deviation follows and is
  not set (published: 2.74).

Not all rows can hold at once. The quantity rows hold for the quantities that are wrong: for all of
them they are impossible (see `learning_report`). The share of names after a non-existent one, 0.23,
follows from which items require the invented names. And the rates hold for the answers: an agent's
cycle check can still discard some.
"""

from __future__ import annotations

import math
from dataclasses import asdict, dataclass, replace
from typing import TYPE_CHECKING, Self

from llm_planning.roles.domain_rules import spread
from llm_planning.roles.oracles import describe, draw

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence
    from random import Random

    from llm_planning.environments.minecraft.book.rulebook import RuleBook
    from llm_planning.planners.xenon.roles import (
        CorrectionQuestion,
        NeedsQuestion,
        RankingQuestion,
        Requirements,
    )

MOST = 64
"""Largest quantity that an answer may name: a full stack."""

MOST_UNDER = 0.9
"""Largest share of wrong quantities that are too low, for books with few quantities above 1."""

_PROBABILITIES = ("right_items", "exact", "unnecessary", "omitted", "nonexistent")


@dataclass(frozen=True, slots=True, kw_only=True)
class Rates:
    """How often and how much an oracle errs (Table 12).

    Attributes:
        right_items: probability that an answer names the right requirements.
        exact: probability that the quantities are right, too.
        unnecessary: probability that an answer adds something.
        omitted: probability that an answer leaves something out.
        nonexistent: share of the names in the predicted graph that do not exist.
        quantity_absolute: mean of |predicted - true| over wrong quantities.
        quantity_signed: mean of predicted - true over wrong quantities.

    Raises:
        ValueError: no answers can have these rates.
    """

    right_items: float
    exact: float
    unnecessary: float
    omitted: float
    nonexistent: float
    quantity_absolute: float
    quantity_signed: float

    def __post_init__(self) -> None:
        for name in _PROBABILITIES:
            if not 0 <= getattr(self, name) <= 1:
                raise ValueError(f"{name}={getattr(self, name)} is not within 0 and 1")
        wrong = 1 - self.right_items
        most = max(self.unnecessary, self.omitted)
        if not most - 1e-9 <= wrong <= self.unnecessary + self.omitted + 1e-9:
            raise ValueError(
                f"right_items={self.right_items}, unnecessary={self.unnecessary} and omitted="
                f"{self.omitted} cannot all hold: 1 - right_items must lie between the larger of "
                "unnecessary and omitted and their sum"
            )
        if self.nonexistent > self.unnecessary * (1 - self.nonexistent):
            raise ValueError(
                f"nonexistent={self.nonexistent} is too large for unnecessary={self.unnecessary}: "
                "every name that does not exist is also unnecessary"
            )
        if self.exact > self.right_items:
            raise ValueError(f"exact={self.exact} is more than right_items={self.right_items}")
        if abs(self.quantity_signed) > self.quantity_absolute:
            raise ValueError(
                f"quantity_signed={self.quantity_signed} is larger than "
                f"quantity_absolute={self.quantity_absolute}"
            )

    @property
    def invented(self) -> float:
        """Probability that an answer names something that does not exist."""
        return self.nonexistent / (1 - self.nonexistent)

    @property
    def right_quantities(self) -> float:
        """Probability that the quantities of an answer with the right requirements are right."""
        return self.exact / self.right_items if self.right_items else 0.0


TABLE_12 = Rates(
    right_items=0.23,
    exact=0.08,
    unnecessary=0.57,
    omitted=0.57,
    nonexistent=0.08,
    quantity_absolute=2.05,
    quantity_signed=-0.55,
)
"""Qwen2.5-VL-7B on 75 items."""

_WRONG = 1 - TABLE_12.right_items

MISTAKES = replace(
    TABLE_12,
    right_items=0.0,
    exact=0.0,
    unnecessary=TABLE_12.unnecessary / _WRONG,
    omitted=TABLE_12.omitted / _WRONG,
    nonexistent=TABLE_12.nonexistent / _WRONG,
)
"""The errors of Table 12 among the answers whose required items are wrong."""


class Beliefs:
    """What an oracle believes that items require.

    A belief combines mistakes, each at its own rate. All of them are drawn with the key (seed,
    "requirements", item, asking); asking is 0 for the first belief and n for the n-th correction.
    """

    def __init__(self, book: RuleBook, *, items: Sequence[str], seed: int, rates: Rates) -> None:
        self._book = book
        self._items = tuple(dict.fromkeys(items))
        self._seed = seed
        self._rates = rates
        made = [rule.requirements for v in self._items if (rule := book.rule(v)).consumed]
        self._quantities = Quantities.fitted(rates, made)
        self._ancestors = {v: frozenset(book.closure((v,))) - {v} for v in self._items}
        self._inventions = inventions(self._items, known=book.rules)

    async def predict(self, question: NeedsQuestion, /) -> Requirements:
        """Returns the first belief about an item, the same each time."""
        return self.belief(question.item, asking=0)

    async def correct(self, question: CorrectionQuestion, /) -> Requirements:
        """Returns another belief at the same rates; what failed makes it no better."""
        return self.belief(question.item, asking=question.asking)

    async def rank(self, question: RankingQuestion, /) -> Sequence[float]:
        """Log-probabilities of the candidates by `spread`; right are those believed required."""
        believed = self.belief(question.item, asking=0)
        return spread(question.candidates, believed)

    def describe(self) -> dict[str, object]:
        """Returns a description of this oracle as JSON values, for the record of a run."""
        return describe("requirements", asdict(self._rates), kind="sticky", seed=self._seed)

    def belief(self, item: str, *, asking: int) -> dict[str, int]:
        """Returns what the oracle believes that an item requires.

        Args:
            item: v; a name that does not exist requires nothing.
            asking: 0 for the first belief, n for the n-th correction.
        """
        if item not in self._book.rules:
            return {}
        return self._drawn(item, draw(self._seed, "requirements", item, asking))

    def mistaken(self, item: str, rng: Random) -> dict[str, int]:
        """Returns requirements with at least one mistake, drawn by a generator.

        Args:
            item: v; something is added to a name that does not exist.
        """
        known = item in self._book.rules
        truth = self._book.requirements(item) if known else {}
        believed = self._drawn(item, rng) if known else {}
        return believed if believed != truth else {**truth, **self._unnecessary(item, truth, rng)}

    def _drawn(self, item: str, rng: Random) -> dict[str, int]:
        rates, truth = self._rates, self._book.requirements(item)
        adds, omits = _mistakes(rates, rng.random())
        believed = self._quantities.predicted(truth, rng)
        if omits and believed:
            del believed[rng.choice(list(believed))]
        if adds:
            believed.update(self._unnecessary(item, truth, rng))
        return believed

    def _unnecessary(self, item: str, truth: Mapping[str, int], rng: Random) -> dict[str, int]:
        """Returns one item that is not required; none if the world has no other item."""
        if self._inventions and rng.random() * self._rates.unnecessary < self._rates.invented:
            return {rng.choice(self._inventions): 1}
        others = [u for u in self._items if u != item and u not in truth]
        # Nearly every item requires the items that the game begins with.
        harmless = [u for u in others if item not in self._ancestors[u]]
        pool = harmless or others or self._inventions
        return {rng.choice(pool): 1} if pool else {}


@dataclass(frozen=True, slots=True, kw_only=True)
class Quantities:
    """How quantities are predicted.

    Attributes:
        right: probability that an answer's quantities are right, if one of them is above 1.
        under: share of wrong quantities that are too low.
        excess: mean by which the other wrong quantities are too high, at least 1.
    """

    right: float
    under: float
    excess: float

    @classmethod
    def fitted(cls, rates: Rates, truths: Sequence[Mapping[str, int]]) -> Self:
        """Fits the numbers so that these requirement sets have these rates on average.

        A quantity q above 1 that is predicted too low is too low by q / 2 on average.
        """
        above = [q for truth in truths for q in truth.values() if q > 1]
        single = sum(max(truth.values(), default=1) == 1 for truth in truths) / max(1, len(truths))
        right = (rates.right_quantities - single) / (1 - single) if single < 1 else 1.0
        missing = (rates.quantity_absolute - rates.quantity_signed) / 2
        spare = (rates.quantity_absolute + rates.quantity_signed) / 2
        half = sum(above) / len(above) / 2 if above else 1.0
        under = min(MOST_UNDER, missing / half)
        return cls(right=max(0.0, right), under=under, excess=max(1.0, spare / (1 - under)))

    def predicted(self, truth: Mapping[str, int], rng: Random) -> dict[str, int]:
        """Returns the right items in predicted quantities."""
        if rng.random() < self.right:
            return dict(truth)
        return {u: self._wrong(q, rng) if q > 1 else q for u, q in truth.items()}

    def _wrong(self, q: int, rng: Random) -> int:
        if rng.random() < self.under:
            return rng.randint(1, q - 1)
        return min(q + _geometric(self.excess, rng), MOST)


def inventions(items: Iterable[str], *, known: Iterable[str]) -> tuple[str, ...]:
    """Returns names that do not exist, made of the head of one item and the tail of another.

    Args:
        items: names to combine: iron_pickaxe and glass_bottle give iron_bottle and glass_pickaxe.
        known: names that exist.
    """
    parts = [name.split("_") for name in items]
    heads, tails = {part[0] for part in parts}, {part[-1] for part in parts}
    combined = {f"{head}_{tail}" for head in heads for tail in tails if head != tail}
    return tuple(sorted(combined.difference(known, items)))


def _mistakes(rates: Rates, draw: float) -> tuple[bool, bool]:
    """Returns whether an answer adds something, and whether it leaves something out."""
    wrong = 1 - rates.right_items
    only_adds, only_omits = wrong - rates.omitted, wrong - rates.unnecessary
    if draw >= wrong:
        return False, False
    if draw < only_adds:
        return True, False
    return draw >= only_adds + only_omits, True


def _geometric(mean: float, rng: Random) -> int:
    """Draws 1, 2, ... with P(k) = (1 - p)^(k - 1) p, p = 1 / mean."""
    if mean <= 1:
        return 1
    return 1 + int(math.log(1 - rng.random()) / math.log(1 - 1 / mean))
