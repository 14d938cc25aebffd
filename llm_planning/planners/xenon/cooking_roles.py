"""XENON's roles in the kitchen: which tool a direction takes, and which action carries it out.

A model answers with the choice of the highest log-probability, the first of equals (XENON,
Appendix A). By rules, what is right is the cookbook's, and a wrong answer is any other. A question
that tells of more failures is another question, so that errors in it are drawn anew.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from llm_planning.environments.cooking.recipes import RULES, TOOLS
from llm_planning.planners.xenon.roles import LATEST, chosen, compose
from llm_planning.roles import Rule, ScoredRole, ScoringRole
from llm_planning.roles.llm import fields_of

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from random import Random

    from llm_planning.planners.xenon.roles import ActionQuestion
    from llm_planning.roles import Role
    from llm_planning.roles.llm import QuestionT
    from llm_serving.engine import Engine


@dataclass(frozen=True, slots=True)
class ToolQuestion:
    """Which tool does a cookbook action require? (Appendix A).

    Attributes:
        item: v, the cookbook action.
        examples: the K most similar cookbook actions that succeeded, and their tools, most similar
            first.
        failures: failed attempts, oldest first; empty without self-correction.
    """

    item: str
    examples: Sequence[tuple[str, str]] = ()
    failures: Sequence[str] = ()


def _likeliest(
    name: str,
    user: tuple[str, ...],
    *,
    choices: Callable[[QuestionT], Sequence[str]],
    values_of: Callable[[QuestionT], Mapping[str, object]],
    rule: Rule[QuestionT, str],
    **lists: tuple[str, ...],
) -> ScoredRole[QuestionT, str]:
    def score(engine: Engine) -> Role[QuestionT, str]:
        system, shared = ("who", "rules", "format"), "cooking_shared"
        prompt = compose(f"cooking_{name}", system, user, shared=shared, **lists)
        role = ScoringRole(name, prompt=prompt, choices=choices, engine=engine, values_of=values_of)

        async def ask(question: QuestionT, /) -> str:
            scores = await role(question)
            return max(scores, key=scores.__getitem__)

        return ask

    return ScoredRole(name=name, score=score, rule=rule)


def _another_tool(question: ToolQuestion, rng: Random) -> str | None:
    others = [tool for tool in TOOLS if tool not in RULES[question.item].tools]
    return rng.choice(others) if others else None


TOOL: ScoredRole[ToolQuestion, str] = _likeliest(
    "tool",
    ("examples", "failures", "question"),
    choices=lambda _: TOOLS,
    values_of=lambda question: {**fields_of(question), "failures": question.failures[-LATEST:]},
    rule=Rule(
        right=lambda question: RULES[question.item].tools[0],
        wrong=_another_tool,
        situation=lambda question: (question.item, len(question.failures)),
    ),
    tools=TOOLS,
)
"""Which tool a cookbook action requires."""

ACTION: ScoredRole[ActionQuestion, str] = _likeliest(
    "action",
    ("examples", "options", "failures", "question"),
    choices=lambda question: question.options,
    values_of=lambda question: {**fields_of(question), "failures": question.analyses[-LATEST:]},
    rule=chosen({v: rule.action for v, rule in RULES.items()}),
)
"""Which executable action carries a cookbook action out."""
