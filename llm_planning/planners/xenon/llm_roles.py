"""A language model answers an agent's questions (XENON, Sections 4.1 and 4.2, Appendices B, E, F).

Requirements are written in a finite language and decoded greedily, except for corrections: a model
that is told of the same failures again would repeat itself for ever, so those are drawn. Actions
and candidates are not written but scored: the answer is read off exact log-probabilities.

All actions, and all of a vocabulary, are scored at once, and the options are compared afterwards.
Neither the options left nor the quantity wanted is said to the model, unlike in Figure 16: neither
has a bearing on which action obtains an item, and without them a question about an item is the
same one however often and by however many agents it is asked, so that all but the first are
answered from the response cache.
"""

from __future__ import annotations

import logging
from itertools import islice
from typing import TYPE_CHECKING

from llm_planning.planners.xenon.answers import Analysis, requirement_list, written
from llm_planning.planners.xenon.prompts import compose
from llm_planning.planners.xenon.roles import Roles
from llm_planning.roles import LlmRole
from llm_serving.request import Sampling

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from llm_planning.planners.xenon.answers import RequirementList
    from llm_planning.planners.xenon.roles import Attempt, Requirements
    from llm_serving.engine import Engine

logger = logging.getLogger(__name__)

CORRECTION_TEMPERATURE = 0.7
"""Of corrections; the paper does not state one."""

LATEST = 3
"""Different failures or analyses that a prompt tells: long prompts confuse (Section 4.2)."""

SHOWN = 12
"""Kinds of item that a prompt tells of an inventory."""

_GREEDY = Sampling(temperature=0.0)


def llm_roles(
    engine: Engine, *, names: Sequence[str] | None, actions: Sequence[str], seed: int
) -> Roles:
    """Everybody an agent can ask, answered by a model.

    Args:
        engine: who answers.
        names: the item names that answers are held to (XENON+); None lets the model write any, as
            in the paper.
        actions: 𝒜.
        seed: of drawn corrections; everything else is the same for every seed.
    """
    vocabulary = None if names is None else tuple(dict.fromkeys(names))
    return Roles(
        predict=LlmPrediction(engine, names=vocabulary),
        correct=LlmCorrection(engine, names=vocabulary, seed=seed),
        choose=LlmChoice(engine, actions=actions),
        analyse=LlmAnalysis(engine),
        rank=LlmRanking(engine, names=vocabulary or ()),
    )


class LlmPrediction:
    """Predicts what an item needs (Figure 15).

    Args:
        engine: who answers.
        names: the names that may be written; None allows any.
    """

    def __init__(self, engine: Engine, *, names: tuple[str, ...] | None) -> None:
        self._ask = LlmRole(
            "predict",
            prompt=compose("predict"),
            answer=requirement_list(names),
            engine=engine,
            sampling=_GREEDY,
        )

    async def __call__(
        self, item: str, *, examples: Sequence[tuple[str, Requirements]]
    ) -> Requirements:
        """Asks the model."""
        return _without(item, await self._ask(item=item, examples=_recipes(examples)))


class LlmCorrection:
    """Predicts anew what an item needs, told what failed (Figure 9).

    Each correction of an item is a draw of its own, so that the same failures need not lead to the
    same answer.

    Args:
        engine: who answers.
        names: the names that may be written; None allows any.
        seed: of the draws.
    """

    def __init__(self, engine: Engine, *, names: tuple[str, ...] | None, seed: int) -> None:
        self._engine = engine
        self._answer = requirement_list(names)
        self._seed = seed

    async def __call__(
        self,
        item: str,
        *,
        asking: int,
        failures: Sequence[Attempt],
        examples: Sequence[tuple[str, Requirements]],
    ) -> Requirements:
        """Draws an answer of the model."""
        ask = LlmRole(
            "correct",
            prompt=compose("correct"),
            answer=self._answer,
            engine=self._engine,
            sampling=Sampling(
                temperature=CORRECTION_TEMPERATURE,
                seed=self._seed * 10_007 + asking,
            ),
        )
        told = _latest(
            f"{_told(failed)}, believed {written(failed.believed)}" for failed in failures
        )
        answer = await ask(item=item, examples=_recipes(examples), failures=told or "none")
        return _without(item, answer)


class LlmChoice:
    """Chooses the action that the model gives the highest probability (Figures 12 and 16).

    Args:
        engine: who answers.
        actions: 𝒜.
    """

    def __init__(self, engine: Engine, *, actions: Sequence[str]) -> None:
        self._engine = engine
        self._actions = tuple(dict.fromkeys(actions))
        self._prompt = compose("choose", actions=self._actions)
        # An agent asks the same of an item until its examples change, with fewer options left.
        self._answered: dict[object, Mapping[str, float]] = {}

    async def __call__(
        self,
        item: str,
        *,
        quantity: int,  # noqa: ARG002 - not said: see the module's docstring
        examples: Sequence[tuple[str, str]],
        options: Sequence[str],
        analyses: Sequence[str],
    ) -> str:
        """Scores all actions and returns the likeliest option, the first of equals.

        Raises:
            ValueError: there is no option, or one that is no action.
        """
        strange = [option for option in options if option not in self._actions]
        if strange or not options:
            raise ValueError(
                f"options {list(options)} for {item}: give at least one, each of the actions "
                f"{', '.join(self._actions)}"
            )
        question = (item, tuple(examples), tuple(analyses[-LATEST:]))
        if question not in self._answered:
            self._answered[question] = await self._score(*question)
        return max(options, key=self._answered[question].__getitem__)

    async def _score(
        self, item: str, examples: tuple[tuple[str, str], ...], analyses: tuple[str, ...]
    ) -> Mapping[str, float]:
        messages = self._prompt.messages(
            {
                "item": item,
                "examples": "\n".join(f"{u}: {action}" for u, action in examples),
                "analyses": "\n".join(analyses),
            }
        )
        scores = await self._engine.score(messages, self._actions, role="choose")
        return dict(zip(self._actions, scores.logprobs, strict=True))


class LlmAnalysis:
    """Explains a failure in a sentence (Figure 12, first prompt)."""

    def __init__(self, engine: Engine) -> None:
        self._ask = LlmRole(
            "analyse",
            prompt=compose("analyse"),
            answer=Analysis,
            engine=engine,
            sampling=_GREEDY,
        )

    async def __call__(self, failure: Attempt) -> str:
        """Asks the model; its sentence is headed by what was attempted."""
        answer = await self._ask(attempt=_told(failure))
        return f"{failure.action} {failure.item}: {answer.analysis}"


class LlmRanking:
    """Scores names as requirements of an item (XENON+).

    Args:
        engine: who answers.
        names: the vocabulary, all of which is scored whichever candidates are asked for; empty
            scores just these.
    """

    def __init__(self, engine: Engine, *, names: tuple[str, ...]) -> None:
        self._engine = engine
        self._names = names
        self._prompt = compose("rank")
        self._answered: dict[object, Mapping[str, float]] = {}

    async def __call__(self, item: str, *, candidates: Sequence[str]) -> Sequence[float]:
        """Log p(candidate | item), as a whole answer, in nats."""
        choices = tuple(dict.fromkeys((*self._names, *candidates)))
        question = (item, choices)
        if question not in self._answered:
            messages = self._prompt.messages({"item": item})
            scores = await self._engine.score(messages, choices, role="rank")
            self._answered[question] = dict(zip(choices, scores.logprobs, strict=True))
        logprob = self._answered[question]
        return [logprob[candidate] for candidate in candidates]


def _without(item: str, answer: RequirementList) -> dict[str, int]:
    """What an answer requires, the item itself left out.

    An edge from an item to itself is a cycle. The cycle check of Appendix E.2 would discard the
    whole answer for it, although the rest of it can be right.
    """
    requirements = answer.requirements()
    if requirements.pop(item, None) is not None:
        logger.info("%s was said to require itself, which nothing can: left out", item)
    return requirements


def _recipes(examples: Iterable[tuple[str, Requirements]]) -> str:
    """A line for each example, written as answers are."""
    return "\n".join(f"{u}: {written(requirements)}" for u, requirements in examples)


def _latest(texts: Iterable[str]) -> str:
    """The last few different texts, a line for each, in the order of their last mention."""
    distinct = dict.fromkeys(reversed(list(texts)))
    return "\n".join(reversed(list(islice(distinct, LATEST))))


def _told(attempt: Attempt) -> str:
    """What was done, and what was at hand.

    Items believed to be required come first, with how many there were; of the others, only the
    names of some. Their counts change with every step and tell nothing about the failure.
    """
    held = attempt.inventory
    needed = [f"{held[u]} {u}" for u in attempt.believed if held.get(u)]
    others = sorted(u for u in held if u not in attempt.believed)
    shown = [*needed, *islice(others, max(0, SHOWN - len(needed)))]
    return f"{attempt.action} {attempt.item}, holding {', '.join(shown) or 'nothing'}"
