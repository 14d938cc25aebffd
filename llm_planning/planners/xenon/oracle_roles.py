"""The rules of the unperturbed game answer an agent's questions, with the errors of a 7B model.

`prior_roles` gives these or the model, as the setting `prior` says.

The errors follow Table 12 (Appendix K.1), by a model with at most one mistake of each kind:

- An item's requirements are right with probability 0.23. Otherwise one is left out, or one too many
  is named, or both: with 0.20, 0.20 and 0.37, the only way in which 0.57 of all answers can leave
  something out and 0.57 name too much. An item that needs nothing can have nothing left out.
- What is named too much is an item of the world, one of it, that does not itself need the item in
  question; or it is a name that does not exist, made of the parts of two that do. With the latter
  in a share h / (1 - h) of all answers, h = 0.08 of the names in the whole graph do not exist: each
  is new, and nothing is said to be needed for it.
- Quantities are right as a whole with probability 0.08 / 0.23. A quantity of one always is: it is a
  tool, a station or a single piece; the other answers are the more often wrong, so that 0.08 of all
  are exact. Where an answer's quantities are wrong, all above one are. Some of them are predicted
  too low, evenly from 1 to the true one less one; the others too high, by a geometrically
  distributed excess. How often and how much follows from the mean absolute error of 2.05 and the
  mean of -0.55, and from the true quantities of what is made of other items (the table is about
  such ones; what is mined needs a tool at most). The standard deviation follows from that and is
  not set (published: 2.74).

Not all rows can be had at once. The quantity rows hold for the quantities that are wrong, since for
all of them they are impossible (see `prior_quality`). The names after a non-existent one, 0.23,
follow from where the invented names happen to be needed. And the rates hold for the answers: the
agent's cycle check can still discard some.
"""

from __future__ import annotations

import math
from dataclasses import asdict, dataclass, replace
from typing import TYPE_CHECKING, Self

from llm_planning.planners.xenon.llm_roles import llm_roles
from llm_planning.planners.xenon.questions import MOST, Roles
from llm_planning.roles.oracles import Errors, Oracle, Rule, describe, draw

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence
    from random import Random

    from llm_planning.environments.minecraft.rulebook import RuleBook
    from llm_planning.environments.minecraft.text_world import TextWorld
    from llm_planning.planners.xenon.questions import (
        ActionQuestion,
        CorrectionQuestion,
        Failure,
        NeedsQuestion,
        Predict,
        RankingQuestion,
        Requirements,
    )
    from llm_planning.planners.xenon.settings import Prior
    from llm_planning.roles import Engines

RANKED_SHARE = 0.9
"""Probability that a ranking gives to what the oracle believes to be required; our choice."""

MOST_UNDER = 0.9
"""Largest share of wrong quantities that may be too low, in books with hardly any room for them."""


_PROBABILITIES = ("right_items", "exact", "unnecessary", "omitted", "nonexistent", "right_action")


@dataclass(frozen=True, slots=True, kw_only=True)
class Rates:
    """How often and how much an oracle errs (Table 12).

    Attributes:
        right_items: probability that an answer names the right requirements.
        exact: probability that their quantities are right, too.
        unnecessary: probability that an answer names too much.
        omitted: probability that an answer leaves something out.
        nonexistent: share of the names in the predicted graph that do not exist.
        quantity_absolute: mean of |predicted - true| over wrong quantities.
        quantity_signed: mean of predicted - true over wrong quantities.
        right_action: probability of the right action; not of the table, but set for this oracle.

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
    right_action: float

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
                "the others and their sum"
            )
        if self.nonexistent > self.unnecessary * (1 - self.nonexistent):
            raise ValueError(
                f"nonexistent={self.nonexistent} is out of reach with unnecessary="
                f"{self.unnecessary}: what does not exist is unnecessary"
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
    right_action=0.6,
)
"""Qwen2.5-VL-7B on 75 items."""


def oracle_roles(
    book: RuleBook, *, items: Sequence[str], seed: int, rates: Rates = TABLE_12
) -> Roles:
    """Everybody an agent can ask, answered by rules with errors.

    Every answer is a function of the seed and the question, whatever was asked before.

    Args:
        book: the unperturbed rules: what a model could have read of the game.
        items: names of the world, from which mistakes are drawn.
        seed: of the errors.
        rates: of the errors.

    Raises:
        UnknownItemError: the book lacks one of the items.
    """
    beliefs = Beliefs(book, items=items, seed=seed, rates=rates)
    choose = chooser(
        {v: rule.action for v, rule in book.rules.items()}, rate=rates.right_action, seed=seed
    )
    return Roles(
        predict=beliefs.predict,
        correct=beliefs.correct,
        choose=choose,
        analyse=analyse,
        rank=beliefs.rank,
        oracles=(beliefs.describe(), choose.describe()),
    )


def chooser(actions: Mapping[str, str], *, rate: float, seed: int) -> Oracle[ActionQuestion, str]:
    """Chooses the right action, or any other; told of another failure, it guesses again.

    Args:
        actions: item -> its right action; any is wrong for an item that is not listed.
        rate: probability of the right one, where it is an option.
        seed: of the errors.
    """

    def right(question: ActionQuestion) -> str | None:
        action = actions.get(question.item)
        return action if action in question.options else None

    def wrong(question: ActionQuestion, rng: Random) -> str | None:
        others = sorted({*question.options} - {actions.get(question.item)})
        return rng.choice(others) if others else None

    def situation(question: ActionQuestion) -> tuple[str | int, ...]:
        return (question.item, *sorted({*question.options}), len(question.analyses))

    rule = Rule(right=right, wrong=wrong, situation=situation)
    return Oracle("action", rule, errors=Errors(rate=rate, kind="sticky"), seed=seed)


async def analyse(failure: Failure, /) -> str:
    """Names what failed, and knows no more."""
    return f"{failure.action} {failure.item} failed: the action is wrong or something is missing"


class Beliefs:
    """What an oracle believes that items require; see `oracle_roles`.

    An item's requirements are no right or wrong answer but a composition of mistakes, each at its
    own rate. All are drawn with the key (seed, "requirements", item, asking), where the first
    belief has asking 0 and the n-th correction n.
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
        """The belief about an item, the same whenever it is asked for."""
        return self.belief(question.item, asking=0)

    async def correct(self, question: CorrectionQuestion, /) -> Requirements:
        """Another belief at the same rates: whatever failed, it is a guess again."""
        return self.belief(question.item, asking=question.asking)

    async def rank(self, question: RankingQuestion, /) -> Sequence[float]:
        """Log-probabilities with 0.9 on what is believed to be required, the rest evenly."""
        believed = self.belief(question.item, asking=0)
        first = sum(u in believed for u in question.candidates)
        others = len(question.candidates) - first
        share = RANKED_SHARE if first and others else float(first > 0)
        likely = math.log(share / first) if first else 0.0
        unlikely = math.log((1 - share) / others) if others else 0.0
        return [likely if u in believed else unlikely for u in question.candidates]

    def describe(self) -> dict[str, object]:
        """Who answers, as JSON values, for the record of a run."""
        return describe("requirements", asdict(self._rates), kind="sticky", seed=self._seed)

    def belief(self, item: str, *, asking: int) -> dict[str, int]:
        """What the oracle believes that an item requires.

        Args:
            item: v; about a name that does not exist nothing is believed.
            asking: 0 for the first belief, n for the n-th correction.
        """
        if item not in self._book.rules:
            return {}
        rates, truth = self._rates, self._book.requirements(item)
        rng = draw(self._seed, "requirements", item, asking)
        adds, omits = _mistakes(rates, rng.random())
        believed = self._quantities.predicted(truth, rng)
        if omits and believed:
            del believed[rng.choice(list(believed))]
        if adds:
            believed.update(self._unnecessary(item, truth, rng))
        return believed

    def _unnecessary(self, item: str, truth: Mapping[str, int], rng: Random) -> dict[str, int]:
        """One item that is not needed; none in a world that has no other."""
        if self._inventions and rng.random() * self._rates.unnecessary < self._rates.invented:
            return {rng.choice(self._inventions): 1}
        others = [u for u in self._items if u != item and u not in truth]
        # Hardly anything does without the items that the game begins with.
        harmless = [u for u in others if item not in self._ancestors[u]]
        pool = harmless or others or self._inventions
        return {rng.choice(pool): 1} if pool else {}


@dataclass(frozen=True, slots=True, kw_only=True)
class Quantities:
    """How quantities are predicted.

    Attributes:
        right: probability that the quantities of an answer with any above 1 are right.
        under: share of wrong quantities that are too low.
        excess: mean by which the others are too high, at least 1.
    """

    right: float
    under: float
    excess: float

    @classmethod
    def fitted(cls, rates: Rates, truths: Sequence[Mapping[str, int]]) -> Self:
        """What gives these rates on average over these requirement sets.

        A quantity q above 1 that is predicted too low is so by q / 2 on average.
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
        """The right items in predicted quantities."""
        if rng.random() < self.right:
            return dict(truth)
        return {u: self._wrong(q, rng) if q > 1 else q for u, q in truth.items()}

    def _wrong(self, q: int, rng: Random) -> int:
        if rng.random() < self.under:
            return rng.randint(1, q - 1)
        return min(q + _geometric(self.excess, rng), MOST)


def inventions(items: Iterable[str], *, known: Iterable[str]) -> tuple[str, ...]:
    """Names that sound like items and are none: the head of one, the tail of another.

    Args:
        items: names to combine, such as iron_pickaxe and glass_bottle: iron_bottle, glass_pickaxe.
        known: names that exist.
    """
    parts = [name.split("_") for name in items]
    heads, tails = {one[0] for one in parts}, {one[-1] for one in parts}
    combined = {f"{head}_{tail}" for head in heads for tail in tails if head != tail}
    return tuple(sorted(combined.difference(known, items)))


def _mistakes(rates: Rates, draw: float) -> tuple[bool, bool]:
    """Whether an answer names too much, and whether it leaves something out."""
    wrong = 1 - rates.right_items
    only_adds, only_omits = wrong - rates.omitted, wrong - rates.unnecessary
    if draw >= wrong:
        return False, False
    if draw < only_adds:
        return True, False
    return draw >= only_adds + only_omits, True


def _geometric(mean: float, rng: Random) -> int:
    """1, 2, ... with P(k) = (1 - p)^(k - 1) p, p = 1 / mean."""
    if mean <= 1:
        return 1
    return 1 + int(math.log(1 - rng.random()) / math.log(1 - 1 / mean))


def prior_roles(
    prior: Prior,
    world: TextWorld,
    engines: Engines,
    *,
    seed: int,
    names: Sequence[str] | None = None,
) -> Roles:
    """Everybody an agent can ask.

    Args:
        prior: who answers.
        world: of the unperturbed rules.
        engines: the models.
        seed: of draws and errors.
        names: what answers are held to; None allows any name.
    """
    if prior == "model":
        return llm_roles(engines, names=names, actions=world.verbs, seed=seed)
    roles = oracle_roles(world.book, items=world.items, seed=seed)
    return roles if names is None else replace(roles, predict=_closed(names, roles.predict))


def _closed(names: Sequence[str], predict: Predict) -> Predict:
    """Leaves out of a prediction what is none of these names, as a model's constraint does."""

    async def known(question: NeedsQuestion, /) -> Requirements:
        answer = await predict(question)
        return {u: n for u, n in answer.items() if u in names}

    return known
