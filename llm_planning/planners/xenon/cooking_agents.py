"""XENON, SC and DECKARD in the kitchen: a store of tools and a choice of actions (Appendix A).

    agent     required tool           executable action
    XENON     AnalogyTools    (○)     FailureAware      (○)   FAM, as in Minecraft
    SC        CorrectedTools  (△)     SelfCorrecting    (△)
    DECKARD   PredictedTools  (×)     SuccessOnly       (×)   as in Minecraft

Cookbook actions are the items v. Each has one precondition, its tool, so Ĝ has one edge into every
node. What an agent experiences with one ingredient holds for all, as the paper's pairs suggest.

Two questions are asked. Which tool does a cookbook action require? It is asked before an episode.
Which executable action carries it out? It is asked at each timestep, by the question of the
Minecraft agents. Both answers come from a closed set, so the model is not made to write: the answer
is the choice to which it gives the highest exact log-probability, the earlier of equals.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from random import Random
from typing import TYPE_CHECKING, Generic, NamedTuple, TypeVar

from pydantic import ConfigDict

from llm_planning.environments.cooking.recipes import RULES, TOOLS
from llm_planning.planners.xenon.agent import learn_from
from llm_planning.planners.xenon.choosing import Asking, SuccessOnly
from llm_planning.planners.xenon.oracle_roles import chooser
from llm_planning.planners.xenon.questions import Failure, compose
from llm_planning.roles import Errors, Oracle, Role, Rule, ScoringRole, gather

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from llm_planning.environments.cooking.kitchen import CookingWorld
    from llm_planning.planners.xenon.choosing import ActionPolicy
    from llm_planning.planners.xenon.questions import ActionQuestion, Choose
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


class CookingStep(NamedTuple):
    """One timestep: what the cookbook says, the subgoal made of it, and its outcome."""

    cookbook_action: str
    ingredient: str
    action: str
    tool: str
    success: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class CookingEpisode:
    """One episode.

    Attributes:
        game: its name.
        success: whether the plan was completed and the meal eaten.
        steps: every timestep, in order.
    """

    __pydantic_config__ = ConfigDict(extra="forbid", strict=True)

    game: str
    success: bool
    steps: tuple[CookingStep, ...]


@dataclass(slots=True, kw_only=True)
class CookingKnowledge:
    """Ĝ and what came of it; items v are cookbook actions. It outlasts an episode.

    Attributes:
        tools: Ĝ: v -> the one tool that it is believed to require.
        rejected: v -> tools that a revision took away from it, oldest first.
        failures: v -> what failed, in words, oldest first; kept by `CorrectedTools` alone.
        revisions: tools that were reconsidered.
        episodes: episodes so far.
    """

    __pydantic_config__ = ConfigDict(extra="forbid", strict=True)

    tools: dict[str, str] = field(default_factory=dict)
    rejected: dict[str, list[str]] = field(default_factory=dict)
    failures: dict[str, list[str]] = field(default_factory=dict)
    revisions: int = 0
    episodes: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Cook(Asking[CookingRoles]):
    """What the parts of one agent share.

    Attributes:
        knowledge: what it has learnt of tools.
        seed: of its draws.
    """

    knowledge: CookingKnowledge
    seed: int

    async def alike(self, cookbook_action: str) -> list[str]:
        """The K most similar cookbook actions that succeeded, most similar first."""
        return await self.similar.top(cookbook_action, self.memory.known(), self.k)


class PredictedTools:
    """Keeps the tool of every cookbook action; this one leaves them as predicted (×)."""

    def __init__(self, cook: Cook) -> None:
        self._cook = cook
        self._knowledge = cook.knowledge

    async def expect(self, cookbook_actions: Iterable[str]) -> None:
        """Predicts, before an episode, the tools that are not yet believed in, all at once."""
        tools = self._knowledge.tools
        new = [v for v in dict.fromkeys(cookbook_actions) if v not in tools]
        predicted = await gather(self.ask(v) for v in new)
        tools.update(zip(new, predicted, strict=True))

    def succeeded(self, cookbook_action: str) -> None:
        """Is told that a cookbook action was carried out."""

    def failed(self, failure: Failure) -> None:
        """Is told that a subgoal was refused."""

    async def revise(self, cookbook_action: str) -> None:
        """Is told that no executable action succeeds with the tool."""

    async def ask(self, cookbook_action: str) -> str:
        """The model's prediction, from what similar cookbook actions took and what failed."""
        known = self._knowledge
        examples = [(u, known.tools[u]) for u in await self._cook.alike(cookbook_action)]
        failures = known.failures.get(cookbook_action, ())
        return await self._cook.roles.predict(ToolQuestion(cookbook_action, examples, failures))


class CorrectedTools(PredictedTools):
    """The model predicts anew before each episode, told what failed, until it succeeds (△)."""

    async def expect(self, cookbook_actions: Iterable[str]) -> None:
        """Withdraws tools with which something failed and nothing succeeded; predicts those."""
        known = self._knowledge
        succeeded = self._cook.memory.known()
        plan = list(cookbook_actions)
        for v in dict.fromkeys(plan):
            if v in known.failures and v not in succeeded:
                known.revisions += 1
                known.tools.pop(v, None)
        await super().expect(plan)

    def failed(self, failure: Failure) -> None:
        """Keeps the attempt to be told."""
        (tool,) = failure.believed
        failures = self._knowledge.failures.setdefault(failure.item, [])
        failures.append(f"{failure.action} with {tool}")


class AnalogyTools(PredictedTools):
    """RevisionByAnalogy for a single precondition (○; Section 4.1, Appendix A).

    The tool becomes the one with which the most similar cookbook action succeeded, of the top K
    that did, unless it was already taken away from this one. Where they have no other to offer, it
    is one that was never tried here, drawn at random; when all were, they are all tried again.
    """

    async def revise(self, cookbook_action: str) -> None:
        """Replaces the tool."""
        known = self._knowledge
        known.revisions += 1
        rejected = known.rejected.setdefault(cookbook_action, [])
        rejected.append(known.tools[cookbook_action])
        if len(rejected) == len(TOOLS):
            rejected.clear()
        for tool in [known.tools[u] for u in await self._cook.alike(cookbook_action)]:
            if tool not in rejected:
                known.tools[cookbook_action] = tool
                return
        untried = [tool for tool in TOOLS if tool not in rejected]
        rng = Random(f"{self._cook.seed}/revision/{cookbook_action}/{known.revisions}")
        known.tools[cookbook_action] = rng.choice(untried)


class SelfCorrecting(SuccessOnly):
    """The model is told what failed when it is asked again; what worked is reused (△)."""

    def __init__(self, cook: Cook) -> None:
        super().__init__(cook)
        self._knowledge = cook.knowledge

    async def analyses(self, item: str) -> tuple[str, ...]:
        """Everything that failed: its previous answers and what came of them (Section 5.1)."""
        return tuple(self._knowledge.failures.get(item, ()))

    def exhausted(self, item: str) -> bool:  # noqa: ARG002 - the protocol's
        """Never: tools are predicted anew before the next episode, whatever failed."""
        return False


async def cook(
    world: CookingWorld,
    *,
    knowledge: CookingKnowledge,
    tools: PredictedTools,
    actions: ActionPolicy,
) -> CookingEpisode:
    """Follows the cookbook for an episode, and learns from every timestep.

    Args:
        world: at the beginning of the episode.
        knowledge: what is believed of tools.
        tools: predicts and revises them.
        actions: chooses and learns executable actions.
    """
    await tools.expect(v for v, _ in world.recipe)
    steps: list[CookingStep] = []
    while not world.done:
        v, ingredient = world.direction
        tool = knowledge.tools[v]
        action = await actions.choose(v)
        success = world.step(action, ingredient, tool)
        steps.append(CookingStep(v, ingredient, action, tool, success))
        failure = Failure(item=v, action=action, believed={tool: 1}, inventory={})
        await learn_from(
            action, v, None if success else failure, actions=actions, dependencies=tools
        )
    knowledge.episodes += 1
    return CookingEpisode(game=world.name, success=world.success, steps=tuple(steps))


# Who answers -------------------------------------------------------------------------------------


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
