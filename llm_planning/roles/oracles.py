"""Oracles: rules answer a role in a model's place, and err as often and in the way that one states.

Each answer is drawn by a generator of its own, seeded with a hash of the draw's key. So an answer
is the same in every process and whatever was asked before. The kind of the errors says what the key
holds; a situation is all that an answer depends on, and its first part is what it is about:

    independent   (seed, role, *situation, asking)   every asking is drawn anew
    sticky        (seed, role, *situation)           the same situation gets the same answer again;
                                                     others err on their own, even about one subject
    systematic    (seed, role, situation[0])         a wrong belief about a subject stays wrong for
                                                     the whole run, whatever is asked around it

`asking` counts how often the oracle was asked about the situation, from 1. Where errors go by item,
the item's name ends the key. The seed is the run's.
"""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence  # noqa: TC003 (type aliases are evaluated)
from dataclasses import dataclass
from random import Random
from typing import Any, Generic, Literal, TypeAlias, TypeVar

from pydantic import Field

from llm_planning.settings import Settings

QuestionT = TypeVar("QuestionT")
AnswerT = TypeVar("AnswerT")

Key: TypeAlias = "str | int | float | tuple[Key, ...] | None"
"""A part of a key: a plain value, whose text is the same in every process."""

_KEYS = {
    "independent": "(seed, role, *situation, asking)",
    "sticky": "(seed, role, *situation)",
    "systematic": "(seed, role, situation[0])",
}


class Errors(Settings):
    """How often and in which way an oracle errs. By default it never does.

    Attributes:
        rate: probability that an answer is right, or each item of it.
        unit: what is right or wrong: a whole answer, or each item of it on its own.
        kind: what an error goes with; see the module's docstring.
    """

    rate: float = Field(default=1.0, ge=0.0, le=1.0)
    unit: Literal["answer", "item"] = "answer"
    kind: Literal["independent", "sticky", "systematic"] = "independent"


@dataclass(frozen=True, slots=True, kw_only=True)
class Items(Generic[QuestionT, AnswerT]):
    """How an answer errs item by item.

    Attributes:
        names: the items of the answer to a question, each with a name of its own.
        spoil: an answer with one more of its items wrong.
    """

    names: Callable[[QuestionT], Sequence[Key]]
    spoil: Callable[[QuestionT, AnswerT, Key, Random], AnswerT]


@dataclass(frozen=True, slots=True, kw_only=True)
class Rule(Generic[QuestionT, AnswerT]):
    """A domain's right and wrong answers to the questions of one role.

    Attributes:
        right: the right answer; None where the question allows none.
        wrong: draws a wrong one; None where every answer is right.
        situation: all that the answer depends on, what it is about first.
        items: how an answer errs item by item, where it has items.
    """

    right: Callable[[QuestionT], AnswerT | None]
    wrong: Callable[[QuestionT, Random], AnswerT | None]
    situation: Callable[[QuestionT], tuple[Key, ...]]
    items: Items[QuestionT, AnswerT] | None = None


class Oracle(Generic[QuestionT, AnswerT]):
    """A role that a domain's rules answer.

    Args:
        name: of the role.
        rule: how it is answered.
        errors: how often and in which way it errs.
        seed: of the errors.

    Raises:
        ValueError: errors by item are asked of a rule without items.
    """

    def __init__(
        self, name: str, rule: Rule[QuestionT, AnswerT], *, errors: Errors, seed: int
    ) -> None:
        if errors.unit == "item" and rule.items is None:
            raise ValueError(
                f"an answer of role {name} has no items that could err; write unit: answer"
            )
        self.name = name
        self._rule = rule
        self._errors = errors
        self._seed = seed
        self._askings: Counter[tuple[Key, ...]] = Counter()

    async def __call__(self, question: QuestionT, /) -> AnswerT:
        """Answers.

        Raises:
            ValueError: the rule knows neither a right answer nor a wrong one.
        """
        rule, rate = self._rule, self._errors.rate
        key = self._key(rule.situation(question))
        right = rule.right(question)
        if right is not None and rule.items and self._errors.unit == "item":
            for item in rule.items.names(question):
                rng = draw(*key, item)
                if rng.random() >= rate:
                    right = rule.items.spoil(question, right, item, rng)
            return right
        rng = draw(*key)
        if right is not None and rng.random() < rate:
            return right
        wrong = rule.wrong(question, rng)
        answer = right if wrong is None else wrong
        if answer is None:
            raise ValueError(f"role {self.name}: its rule has no answer to {question!r}")
        return answer

    def describe(self) -> dict[str, object]:
        """Returns who answers, as JSON values, for the record of a run."""
        return describe(self.name, self._errors.to_json(), kind=self._errors.kind, seed=self._seed)

    def _key(self, situation: tuple[Key, ...]) -> tuple[Key, ...]:
        if self._errors.kind == "systematic":
            return (self._seed, self.name, situation[0])
        if self._errors.kind == "sticky":
            return (self._seed, self.name, *situation)
        self._askings[situation] += 1
        return (self._seed, self.name, *situation, self._askings[situation])


def describe(
    role: str,
    errors: dict[str, object],
    *,
    kind: Literal["independent", "sticky", "systematic"],
    seed: int,
) -> dict[str, object]:
    """Returns who answers a role and what a draw's key holds, for the record of a run."""
    key = _KEYS[kind]
    if errors.get("unit") == "item":
        key = key.replace(")", ", item)")
    return {"role": role, "oracle": errors, "key": key, "seed": seed}


def draw(*key: Key) -> Random:
    """Makes the random generator of a key. It is the same in every process.

    Raises:
        TypeError: a part of the key is no plain value, so that its text could be another elsewhere.
    """
    _refuse_other_than_plain(key)
    return Random(hashlib.sha256(repr(key).encode()).digest())


def _refuse_other_than_plain(key: tuple[Key, ...]) -> None:
    for part in key:
        if isinstance(part, tuple):
            _refuse_other_than_plain(part)
        elif not isinstance(part, str | int | float | None):
            raise TypeError(
                f"{part!r} in the key of a draw is a {type(part).__name__}; make a situation of "
                "texts, numbers, None and tuples of them"
            )


def tell(oracles: Iterable[Mapping[str, Any]]) -> list[str]:
    """Says in words who answered in a model's place, a line for all roles that err alike.

    Args:
        oracles: what `describe` says of each.
    """
    roles: dict[str, list[str]] = {}
    for one in oracles:
        errs = ", ".join(f"{name} {value}" for name, value in one["oracle"].items())
        how = f"{errs}; drawn by {one['key']}, seed {one['seed']}"
        roles.setdefault(how, []).append(one["role"])
    return [f"{', '.join(names)}: {how}" for how, names in roles.items()]
