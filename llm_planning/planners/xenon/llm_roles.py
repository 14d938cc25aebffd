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
from dataclasses import replace
from itertools import islice
from typing import TYPE_CHECKING, TypeVar

from llm_planning.planners.xenon.questions import (
    ActionQuestion,
    Analysis,
    CorrectionQuestion,
    Failure,
    NeedsQuestion,
    RankingQuestion,
    Roles,
    compose,
    requirement_list,
    written,
)
from llm_planning.roles import LlmRole, ScoringRole
from llm_serving.request import Sampling

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from llm_planning.planners.xenon.questions import Choose, Rank, RequirementList, Requirements
    from llm_planning.roles import Engines, Role

logger = logging.getLogger(__name__)

QuestionT = TypeVar("QuestionT")
AnswerT = TypeVar("AnswerT")

CORRECTION_TEMPERATURE = 0.7
"""Of corrections; the paper does not state one."""

LATEST = 3
"""Different failures or analyses that a prompt tells: long prompts confuse (Section 4.2)."""

SHOWN = 12
"""Kinds of item that a prompt tells of an inventory."""

_GREEDY = Sampling(temperature=0.0)


def llm_roles(
    engines: Engines, *, names: Sequence[str] | None, actions: Sequence[str], seed: int
) -> Roles:
    """Everybody an agent can ask, answered by a model.

    Args:
        engines: who answers.
        names: the item names that answers are held to (XENON+); None lets the model write any, as
            in the paper.
        actions: 𝒜.
        seed: of drawn corrections; everything else is the same for every seed.
    """
    vocabulary = None if names is None else tuple(dict.fromkeys(names))
    return Roles(
        predict=LlmRole(
            "predict",
            prompt=compose("predict"),
            answer=requirement_list(vocabulary),
            engine=engines.of("predict"),
            sampling=_GREEDY,
            tell=_tell_needs,
        ).read(_without_itself),
        # Each correction of an item is a draw of its own: the same failures may lead elsewhere.
        correct=LlmRole(
            "correct",
            prompt=compose("correct"),
            answer=requirement_list(vocabulary),
            engine=engines.of("correct"),
            sampling=lambda question: Sampling(
                temperature=CORRECTION_TEMPERATURE, seed=seed * 10_007 + question.asking
            ),
            tell=_tell_correction,
        ).read(_without_itself),
        choose=likeliest_action(engines, tuple(dict.fromkeys(actions))),
        analyse=LlmRole(
            "analyse",
            prompt=compose("analyse"),
            answer=Analysis,
            engine=engines.of("analyse"),
            sampling=_GREEDY,
            tell=_tell_attempt,
        ).read(_headed),
        rank=ranking(engines, vocabulary or ()),
    )


def likeliest_action(engines: Engines, actions: tuple[str, ...]) -> Choose:
    """Chooses the option that the model gives the highest probability, the first of equals.

    Args:
        engines: who answers.
        actions: 𝒜, each once; all of them are scored.
    """
    # An agent asks the same of an item until its examples change, with fewer options left.
    score = _remembered(
        ScoringRole(
            "choose",
            prompt=compose("choose", actions=actions),
            choices=lambda question: question.options,
            engine=engines.of("choose"),
            tell=_tell_action,
        )
    )

    async def choose(question: ActionQuestion, /) -> str:
        if not question.options or not {*actions}.issuperset(question.options):
            raise ValueError(
                f"options {list(question.options)} for {question.item}: give at least one, each "
                f"of the actions {', '.join(actions)}"
            )
        whole = replace(question, options=actions, analyses=question.analyses[-LATEST:])
        return max(question.options, key=(await score(whole)).__getitem__)

    return choose


def ranking(engines: Engines, names: tuple[str, ...]) -> Rank:
    """Log p(candidate | item), as a whole answer, in nats (XENON+).

    Args:
        engines: who answers.
        names: the vocabulary, all of which is scored whichever candidates are asked for; empty
            scores just these.
    """
    score: Role[RankingQuestion, Mapping[str, float]] = _remembered(
        ScoringRole(
            "rank",
            prompt=compose("rank"),
            choices=lambda question: question.candidates,
            engine=engines.of("rank"),
        )
    )

    async def rank(question: RankingQuestion, /) -> Sequence[float]:
        whole = tuple(dict.fromkeys((*names, *question.candidates)))
        logprobs = await score(replace(question, candidates=whole))
        return [logprobs[candidate] for candidate in question.candidates]

    return rank


def _remembered(role: Role[QuestionT, AnswerT]) -> Role[QuestionT, AnswerT]:
    """The same role, which is asked the same question once."""
    answers: dict[QuestionT, AnswerT] = {}

    async def ask(question: QuestionT, /) -> AnswerT:
        if question not in answers:
            answers[question] = await role(question)
        return answers[question]

    return ask


def _tell_needs(question: NeedsQuestion) -> dict[str, object]:
    """The examples a line each, written as answers are."""
    lines = (f"{u}: {written(requirements)}" for u, requirements in question.examples)
    return {"item": question.item, "examples": "\n".join(lines)}


def _tell_correction(question: CorrectionQuestion) -> dict[str, object]:
    failures = _latest(
        f"{_told(failed)}, believed {written(failed.believed)}" for failed in question.failures
    )
    return {**_tell_needs(question), "failures": failures or "none"}


def _tell_action(question: ActionQuestion) -> dict[str, object]:
    examples = "\n".join(f"{u}: {action}" for u, action in question.examples)
    analyses = "\n".join(question.analyses)
    return {"item": question.item, "examples": examples, "analyses": analyses}


def _tell_attempt(failure: Failure) -> dict[str, object]:
    return {"attempt": _told(failure)}


def _headed(failure: Failure, answer: Analysis) -> str:
    """The sentence, headed by what was attempted."""
    return f"{failure.action} {failure.item}: {answer.analysis}"


def _without_itself(question: NeedsQuestion, answer: RequirementList) -> Requirements:
    """What an answer requires, the item itself left out.

    An edge from an item to itself is a cycle. The cycle check of Appendix E.2 would discard the
    whole answer for it, although the rest of it can be right.
    """
    requirements = answer.requirements()
    if requirements.pop(question.item, None) is not None:
        logger.info("%s was said to require itself, which nothing can: left out", question.item)
    return requirements


def _latest(texts: Iterable[str]) -> str:
    """The last few different texts, a line for each, in the order of their last mention."""
    distinct = dict.fromkeys(reversed(list(texts)))
    return "\n".join(reversed(list(islice(distinct, LATEST))))


def _told(failure: Failure) -> str:
    """What was done, and what was at hand.

    Items believed to be required come first, with how many there were; of the others, only the
    names of some. Their counts change with every step and tell nothing about the failure.
    """
    inventory, believed = failure.inventory, failure.believed
    needed = [f"{inventory[u]} {u}" for u in believed if inventory.get(u)]
    others = sorted(u for u in inventory if u not in believed)
    shown = [*needed, *islice(others, max(0, SHOWN - len(needed)))]
    return f"{failure.action} {failure.item}, holding {', '.join(shown) or 'nothing'}"
