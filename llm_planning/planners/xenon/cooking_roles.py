"""The two questions of the cooking domain, answered by a model or by an oracle (App. A.1).

Which tool does a cookbook action require? It is asked before an episode. Which executable action
carries it out? It is asked at each timestep, by the question of the Minecraft agents. Both answers
come from a closed set, so the model is not made to write: the answer is the choice to which it
gives the highest exact log-probability, the earlier of equals.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Generic, TypeVar

from llm_planning.environments.cooking.recipes import RULES, TOOLS
from llm_planning.planners.xenon.oracle_roles import chooser
from llm_planning.planners.xenon.prompts import compose
from llm_planning.roles import Errors, Oracle, Role, Rule, ScoringRole

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from random import Random

    from llm_planning.planners.xenon.roles import ActionQuestion, Choose
    from llm_planning.roles import Engines

QuestionT = TypeVar("QuestionT")
AnswerT = TypeVar("AnswerT")

RECENT = 3
"""Failures that a prompt tells: long histories do not help a language model (Section 4.2)."""


@dataclass(frozen=True, slots=True)
class ToolQuestion:
    """Which tool does a cookbook action require?

    Attributes:
        item: v, the cookbook action; the answer is one of `TOOLS`.
        examples: the top-K similar cookbook actions that succeeded, most similar first, and their
            tools.
        failures: what failed before, oldest first; empty without self-correction.
    """

    item: str
    examples: Sequence[tuple[str, str]] = ()
    failures: Sequence[str] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class CookingRoles:
    """Everybody a cooking agent can ask.

    Attributes:
        predict: which tool a cookbook action requires.
        choose: which executable action carries it out.
        oracles: who answers in a model's place, for the record of a run.
    """

    predict: Role[ToolQuestion, str]
    choose: Choose
    oracles: Sequence[Mapping[str, object]] = ()


class Counted(Generic[QuestionT, AnswerT]):
    """The same role, counted.

    Args:
        role: who answers.

    Attributes:
        calls: how often it was asked.
    """

    def __init__(self, role: Role[QuestionT, AnswerT]) -> None:
        self._role = role
        self.calls = 0

    async def __call__(self, question: QuestionT, /) -> AnswerT:
        """Asks."""
        self.calls += 1
        return await self._role(question)


def model_roles(engines: Engines) -> CookingRoles:
    """A model answers."""
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
                tell=_tell_action,
            )
        ),
    )


def oracle_roles(*, accuracy: float, seed: int) -> CookingRoles:
    """The rules answer, and err.

    An answer is drawn once per seed and question, the same for every agent that asks it. Failures
    that the question tells make it another question: self-correction gets a fresh draw each time.

    Args:
        accuracy: probability of a right answer; a wrong one is uniform among the others.
        seed: of every draw.
    """

    def wrong(question: ToolQuestion, rng: Random) -> str | None:
        others = [tool for tool in TOOLS if tool not in RULES[question.item].tools]
        return rng.choice(others) if others else None

    tools = Rule(
        right=lambda question: RULES[question.item].tools[0],
        wrong=wrong,
        situation=lambda question: (question.item, len(question.failures)),
    )
    errors = Errors(rate=accuracy, kind="sticky")
    predict = Oracle("tool", tools, errors=errors, seed=seed)
    choose = chooser({v: rule.action for v, rule in RULES.items()}, rate=accuracy, seed=seed)
    return CookingRoles(
        predict=predict, choose=choose, oracles=(predict.describe(), choose.describe())
    )


def _likeliest(role: Role[QuestionT, Mapping[str, float]]) -> Role[QuestionT, str]:
    async def ask(question: QuestionT, /) -> str:
        scores = await role(question)
        return max(scores, key=scores.__getitem__)

    return ask


def _tell_tool(question: ToolQuestion) -> dict[str, object]:
    failures = question.failures[-RECENT:]
    return {"item": question.item, "examples": question.examples, "failures": failures}


def _tell_action(question: ActionQuestion) -> dict[str, object]:
    return {
        "item": question.item,
        "examples": question.examples,
        "options": question.options,
        "failures": question.analyses[-RECENT:],
    }
