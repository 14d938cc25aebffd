"""Oracles: rules answer a role in a model's place, with errors of a set rate and kind.

Each answer is drawn by a generator of its own, seeded with a hash of the draw's key. So an answer
is the same in every process, and earlier questions do not change it. A situation is all that an
answer depends on. Its first part is the subject. The kind of the errors determines the key:

    independent   (seed, role, *situation, asking)   every asking is drawn anew
    sticky        (seed, role, *situation)           the same situation gets the same answer again;
                                                     other situations err independently
    systematic    (seed, role, situation[0])         a wrong belief about a subject stays wrong for
                                                     the whole run, in every situation

`asking` counts the questions about the situation, from 1. Where several may ask about it at once,
`Rule.asker` says who does; `asking` is then that and the number among its own, so that the order in
which they come does not matter. If errors go by item, the item's name ends the key. The seed is the
run's. How often an answer is wrong may depend on what is right: a model may know what is possible
better than what is not.
"""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence  # noqa: TC003 (type aliases are evaluated)
from dataclasses import dataclass
from random import Random
from typing import Annotated, Any, Generic, Literal, TypeAlias, TypeVar

from pydantic import Field

from llm_base.quoting import quote
from llm_planning.names import remedy
from llm_planning.settings import Settings, SettingsError

QuestionT = TypeVar("QuestionT")
AnswerT = TypeVar("AnswerT")

Key: TypeAlias = "str | int | float | tuple[Key, ...] | None"
"""A part of a key: a plain value, whose text is the same in every process."""

_KEYS = {
    "independent": "(seed, role, *situation, asking)",
    "sticky": "(seed, role, *situation)",
    "systematic": "(seed, role, situation[0])",
}

Rate: TypeAlias = Annotated[float, Field(ge=0.0, le=1.0)]


class Errors(Settings):
    """How often and in which way an oracle errs. By default it never errs.

    Attributes:
        rate: probability that an answer, or each item of it, is right.
        rates: kind of question -> this probability, for kinds where it is not `rate`. A role's
            rule says which kinds there are, such as feasible and infeasible.
        unit: whether the whole answer is right or wrong, or each item on its own.
        kind: the key of the draw; see the module's docstring.
        mistakes: the kinds of mistakes that a wrong item has, where the role's rule knows several,
            such as dropped and verb; all of them by default.
    """

    rate: Rate = 1.0
    rates: Mapping[str, Rate] = Field(default_factory=dict)
    unit: Literal["answer", "item"] = "answer"
    kind: Literal["independent", "sticky", "systematic"] = "independent"
    mistakes: tuple[str, ...] = ()

    @property
    def never(self) -> bool:
        """Whether no answer is wrong."""
        return {self.rate, *self.rates.values()} == {1.0}


@dataclass(frozen=True, slots=True, kw_only=True)
class Items(Generic[QuestionT, AnswerT]):
    """How an answer errs item by item.

    Attributes:
        names: maps a question to the different names of its answer's items.
        spoil: makes one more item of an answer wrong.
    """

    names: Callable[[QuestionT], Sequence[Key]]
    spoil: Callable[[QuestionT, AnswerT, Key, Random], AnswerT]


@dataclass(frozen=True, slots=True, kw_only=True)
class Kinds(Generic[QuestionT]):
    """The kinds of a role's questions, by what is right.

    Attributes:
        names: of all kinds. Exercises of the role call them the same, in their aspect `verdict`.
        of: maps a question to the name of its kind.
    """

    names: tuple[str, ...]
    of: Callable[[QuestionT], str]


@dataclass(frozen=True, slots=True, kw_only=True)
class Rule(Generic[QuestionT, AnswerT]):
    """A domain's right and wrong answers to the questions of one role.

    Attributes:
        right: the right answer; None if the question has none.
        wrong: draws a wrong answer; None if every answer is right.
        situation: all that the answer depends on, its subject first.
        asker: who asks, where several may ask about a situation at once; empty for the planner.
        items: how an answer errs item by item; None for an answer without items.
        kinds: the kinds of questions that may have error rates of their own; None for one kind.
        only: maps kinds of mistakes to the rule whose wrong answers have no others; None if the
            rule's mistakes have no kinds.
    """

    right: Callable[[QuestionT], AnswerT | None]
    wrong: Callable[[QuestionT, Random], AnswerT | None]
    situation: Callable[[QuestionT], tuple[Key, ...]]
    asker: Callable[[QuestionT], tuple[Key, ...]] = lambda _: ()
    items: Items[QuestionT, AnswerT] | None = None
    kinds: Kinds[QuestionT] | None = None
    only: Callable[[Sequence[str]], Rule[QuestionT, AnswerT]] | None = None


class Oracle(Generic[QuestionT, AnswerT]):
    """A role that a domain's rules answer.

    Args:
        seed: of the errors.

    Raises:
        ValueError: the errors are by item, and the rule has no items.
        SettingsError: the errors have a rate for a kind of question, or kinds of mistakes, that the
            rule does not know.
    """

    def __init__(
        self, name: str, rule: Rule[QuestionT, AnswerT], *, errors: Errors, seed: int
    ) -> None:
        if errors.unit == "item" and rule.items is None:
            raise ValueError(
                f"an answer of role {name} has no items, so no item can err; write unit: answer"
            )
        known = rule.kinds.names if rule.kinds else ()
        for kind in errors.rates:
            if kind not in known:
                raise SettingsError(
                    f"role {name} has no questions of the kind {quote(kind)}, so `rates` cannot "
                    + (f"name it; {remedy(kind, known)}" if known else "name any: leave it out")
                )
        if errors.mistakes:
            if rule.only is None:
                raise SettingsError(f"role {name} has no kinds of mistakes; leave `mistakes` out")
            rule = rule.only(errors.mistakes)
        self.name = name
        self._rule = rule
        self._errors = errors
        self._seed = seed
        self._askings: Counter[tuple[Key, ...]] = Counter()

    async def __call__(self, question: QuestionT, /) -> AnswerT:
        """Answers.

        Raises:
            ValueError: the rule has neither a right nor a wrong answer.
        """
        rule, rate = self._rule, self._rate(question)
        key = self._key(rule.situation(question), rule.asker(question))
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
        """Returns the role, its errors and the key of its draws, as JSON values."""
        errors = {k: v for k, v in self._errors.to_json().items() if v not in ({}, ())}
        return describe(self.name, errors, kind=self._errors.kind, seed=self._seed)

    def _rate(self, question: QuestionT) -> float:
        rule, errors = self._rule, self._errors
        if not (rule.kinds and errors.rates):
            return errors.rate
        return errors.rates.get(rule.kinds.of(question), errors.rate)

    def _key(self, situation: tuple[Key, ...], asker: tuple[Key, ...]) -> tuple[Key, ...]:
        if self._errors.kind == "systematic":
            return (self._seed, self.name, situation[0])
        if self._errors.kind == "sticky":
            return (self._seed, self.name, *situation)
        self._askings[situation, asker] += 1
        number = self._askings[situation, asker]
        return (self._seed, self.name, *situation, (*asker, number) if asker else number)


def describe(
    role: str,
    errors: dict[str, object],
    *,
    kind: Literal["independent", "sticky", "systematic"],
    seed: int,
) -> dict[str, object]:
    """Returns the role, its errors and the key of its draws, for the record of a run."""
    key = _KEYS[kind]
    if errors.get("unit") == "item":
        key = key.replace(")", ", item)")
    return {"role": role, "oracle": errors, "key": key, "seed": seed}


def draw(*key: Key) -> Random:
    """Makes the random generator of a key, the same in every process.

    Raises:
        TypeError: a part of the key is not a plain value, so its text may differ between processes.
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


def oracle_lines(oracles: Iterable[Mapping[str, Any]]) -> list[str]:
    """Writes which roles oracles answered, a line for all roles that err in the same way.

    Args:
        oracles: the records that `describe` returns.
    """
    roles: dict[str, list[str]] = {}
    for record in oracles:
        errs = ", ".join(f"{name} {value}" for name, value in record["oracle"].items())
        description = f"{errs}; drawn by {record['key']}, seed {record['seed']}"
        roles.setdefault(description, []).append(record["role"])
    return [f"{', '.join(names)}: {description}" for description, names in roles.items()]
