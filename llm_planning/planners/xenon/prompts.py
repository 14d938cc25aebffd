"""A language model answers an agent's questions (XENON, Sections 4.1, 4.2, Appendices A, B, E, F).

Each question is put in words by blocks of `templates/`. The system message is what never changes.
The user message begins with what changes rarely and ends with the item or the attempt, so that
questions share long beginnings in the prefix cache. Figures 9, 12 and 15 to 17 say what each
question tells; the words are ours.

Requirements are written in a finite language and decoded greedily. Corrections are drawn: a model
that is told of the same failures again would repeat itself for ever. Actions, tools and candidates
are scored: the answer follows from exact log-probabilities.

In Minecraft all actions, or the whole vocabulary, are scored at once, and the options are compared
afterwards. Unlike Figure 16, the prompt names neither the options left nor the quantity wanted.
Neither matters to which action obtains an item. So all agents ask the same question about an item,
and the response cache answers it from the second time on.
"""

from __future__ import annotations

import logging
from dataclasses import replace
from functools import cache
from importlib.resources import files
from itertools import islice
from typing import TYPE_CHECKING, Annotated, Any, Literal, TypeAlias, TypeVar

from pydantic import BaseModel, Field, create_model

from llm_planning.environments.cooking.recipes import TOOLS
from llm_planning.planners.xenon.roles import (
    MOST,
    ActionQuestion,
    CookingRoles,
    CorrectionQuestion,
    Failure,
    NeedsQuestion,
    RankingQuestion,
    Roles,
    ToolQuestion,
)
from llm_planning.roles import LlmRole, Prompt, ScoringRole
from llm_serving.answers import compact
from llm_serving.request import Sampling

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from llm_planning.planners.xenon.roles import Choose, Rank, Requirements
    from llm_planning.roles import Engines, Role

logger = logging.getLogger(__name__)

QuestionT = TypeVar("QuestionT")
AnswerT = TypeVar("AnswerT")

CORRECTION_TEMPERATURE = 0.7
"""The paper states no temperature for corrections."""

LATEST = 3
"""Failures or analyses that a prompt tells: long prompts confuse a model (Section 4.2)."""

SHOWN = 12
"""Kinds of item that a prompt tells of an inventory."""

MOST_REQUIREMENTS = 5
"""Most items that an answer may name; no rule of the game's goals takes more kinds."""

LONGEST_NAME = 32
"""Characters of a freely written item name; the game's longest goal has 29."""

GREEDY = Sampling(temperature=0.0)

_Quantity: TypeAlias = Annotated[int, Field(ge=1, le=MOST)]
_Name: TypeAlias = Annotated[str, Field(pattern=rf"^[a-z][a-z_]{{0,{LONGEST_NAME - 1}}}$")]


class RequirementList(BaseModel):
    """An item's requirements as pairs: a pair costs half the tokens of an object with two keys."""

    needs: list[tuple[str, int]]

    def requirements(self) -> dict[str, int]:
        """Returns item -> quantity; the quantities of an item named twice are added."""
        totals: dict[str, int] = {}
        for item, quantity in self.needs:
            totals[item] = totals.get(item, 0) + quantity
        return totals


class Analysis(BaseModel):
    """Why an attempt failed."""

    analysis: Annotated[str, Field(min_length=1, max_length=100)]


class Description(BaseModel):
    """What a picture shows."""

    description: Annotated[str, Field(min_length=1, max_length=200)]


class Intervention(BaseModel):
    """Whether a controller needs another task for a while; the fields are in Figure 17's order."""

    need_intervention: bool
    thoughts: Annotated[str, Field(max_length=100)]
    task: Annotated[str, Field(max_length=60)]


@cache
def requirement_list(names: tuple[str, ...] | None) -> type[RequirementList]:
    """Returns the answer model of at most five requirements.

    Args:
        names: the names that may be written; None allows any of lower-case letters and underscores.
    """
    name: Any = _Name if names is None else Literal[names]
    needs: Any = Annotated[list[tuple[name, _Quantity]], Field(max_length=MOST_REQUIREMENTS)]
    return create_model(
        RequirementList.__name__,
        __base__=RequirementList,
        __doc__=RequirementList.__doc__,
        needs=(needs, ...),
    )


def written(requirements: Mapping[str, int]) -> str:
    """Returns requirements as an answer spells them, for a prompt's examples."""
    return compact(RequirementList(needs=list(requirements.items())))


BLOCKS: Mapping[str, tuple[tuple[str, ...], tuple[str, ...]]] = {
    "predict": (("role", "format"), ("examples", "item")),
    "correct": (("role", "format"), ("examples", "failures", "item")),
    "choose": (("role", "actions"), ("question",)),
    "rank": (("role",), ("question",)),
    "analyse": (("role", "format"), ("attempt",)),
    "caption": (("role", "format"), ("question",)),
    "intervene": (("role", "format"), ("question",)),
    "cooking_tool": (("who", "rules", "format"), ("examples", "failures", "question")),
    "cooking_action": (
        ("who", "rules", "format"),
        ("examples", "options", "failures", "question"),
    ),
}
"""Question -> the blocks of its system message, and those of its user message."""


@cache
def compose(name: str, **lists: tuple[str, ...]) -> Prompt:
    """Compiles the prompt of one question.

    Args:
        name: a key of `BLOCKS`.
        **lists: the lists that are the same in every question: `actions`, 𝒜, or `tools`.
    """
    templates = files(__package__) / "templates"
    system, user = BLOCKS[name]
    shared = "cooking_shared.j2" if name.startswith("cooking") else "shared.j2"
    return Prompt(
        [(templates / source).read_text("utf-8") for source in (shared, f"{name}.j2")],
        system=system,
        user=user,
        constants={"count": MOST_REQUIREMENTS} | {k: ", ".join(one) for k, one in lists.items()},
    )


# Minecraft: requirements and actions --------------------------------------------------------------


def llm_roles(
    engines: Engines, *, names: Sequence[str] | None, actions: Sequence[str], seed: int
) -> Roles:
    """Returns the roles of an agent in Minecraft, answered by a model.

    Args:
        engines: the models.
        names: the item names that an answer may use (XENON+); None allows any, as in the paper.
        actions: 𝒜.
        seed: of drawn corrections; all other answers are the same for every seed.
    """
    vocabulary = None if names is None else tuple(dict.fromkeys(names))
    return Roles(
        predict=LlmRole(
            "predict",
            prompt=compose("predict"),
            answer=requirement_list(vocabulary),
            engine=engines.of("predict"),
            sampling=GREEDY,
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
            sampling=GREEDY,
            tell=_tell_attempt,
        ).read(_headed),
        rank=ranking(engines, vocabulary or ()),
    )


def likeliest_action(engines: Engines, actions: tuple[str, ...]) -> Choose:
    """Chooses the option that the model gives the highest probability, the first of equals.

    Args:
        engines: the models.
        actions: 𝒜, each once; all of them are scored.
    """
    # An agent asks the same about an item until its examples change, with fewer options left.
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
    """Gives log p(candidate | item), as a whole answer, in nats (XENON+).

    Args:
        engines: the models.
        names: the vocabulary; all of it is scored in every question. If it is empty, only the
            candidates are scored.
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
    """Returns the same role, which asks each question only once."""
    answers: dict[QuestionT, AnswerT] = {}

    async def ask(question: QuestionT, /) -> AnswerT:
        if question not in answers:
            answers[question] = await role(question)
        return answers[question]

    return ask


def _tell_needs(question: NeedsQuestion) -> dict[str, object]:
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
    """Returns the analysis after the action and the item that it is about."""
    return f"{failure.action} {failure.item}: {answer.analysis}"


def _without_itself(question: NeedsQuestion, answer: RequirementList) -> Requirements:
    """Returns the requirements of an answer without the item itself.

    An edge from an item to itself is a cycle. The cycle check of Appendix E.2 would discard the
    whole answer for it, although the rest can be right.
    """
    requirements = answer.requirements()
    if requirements.pop(question.item, None) is not None:
        logger.info("the answer for %s names the item itself; it is left out", question.item)
    return requirements


def _latest(texts: Iterable[str]) -> str:
    """Returns the latest different texts, one a line, in the order of their last mention."""
    distinct = dict.fromkeys(reversed(list(texts)))
    return "\n".join(reversed(list(islice(distinct, LATEST))))


def _told(failure: Failure) -> str:
    """Returns the failed action and the inventory in words.

    Items believed to be required come first, with their counts. Of the other items some names
    follow: their counts change with every step and do not explain the failure.
    """
    inventory, believed = failure.inventory, failure.believed
    needed = [f"{inventory[u]} {u}" for u in believed if inventory.get(u)]
    others = sorted(u for u in inventory if u not in believed)
    shown = [*needed, *islice(others, max(0, SHOWN - len(needed)))]
    return f"{failure.action} {failure.item}, holding {', '.join(shown) or 'nothing'}"


# The kitchen --------------------------------------------------------------------------------------


def cooking_llm_roles(engines: Engines) -> CookingRoles:
    """Returns the roles of an agent in the kitchen, answered by a model.

    Each answer is the choice with the highest log-probability, the first of equals.
    """
    return CookingRoles(
        predict=_likeliest(
            ScoringRole(
                "tool",
                prompt=compose("cooking_tool", tools=TOOLS),
                choices=lambda _: TOOLS,
                engine=engines.of("tool"),
                tell=_tell_tool,
            )
        ),
        choose=_likeliest(
            ScoringRole(
                "action",
                prompt=compose("cooking_action"),
                choices=lambda question: question.options,
                engine=engines.of("action"),
                tell=_tell_cooking_action,
            )
        ),
    )


def _likeliest(role: Role[QuestionT, Mapping[str, float]]) -> Role[QuestionT, str]:
    async def ask(question: QuestionT, /) -> str:
        scores = await role(question)
        return max(scores, key=scores.__getitem__)

    return ask


def _tell_tool(question: ToolQuestion) -> dict[str, object]:
    failures = question.failures[-LATEST:]
    return {"item": question.item, "examples": question.examples, "failures": failures}


def _tell_cooking_action(question: ActionQuestion) -> dict[str, object]:
    return {
        "item": question.item,
        "examples": question.examples,
        "options": question.options,
        "failures": question.analyses[-LATEST:],
    }
