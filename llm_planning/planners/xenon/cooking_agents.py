"""XENON, SC and DECKARD in the kitchen: a store of tools and a choice of actions (Appendix A).

    agent     required tool           executable action
    XENON     AnalogyTools    (○)     FailureAware      (○)   FAM, as in Minecraft
    SC        CorrectedTools  (△)     SelfCorrecting    (△)
    DECKARD   PredictedTools  (×)     SuccessOnly       (×)   as in Minecraft

Cookbook actions are the items v. Each has one precondition, its tool, so Ĝ has one edge into every
node. What an agent experiences with one ingredient holds for all, as the paper's pairs suggest.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from random import Random
from typing import TYPE_CHECKING, NamedTuple

from pydantic import ConfigDict

from llm_planning.environments.cooking.recipes import TOOLS
from llm_planning.planners.xenon.choosing import Asking, FailureAware, SuccessOnly
from llm_planning.planners.xenon.cooking_roles import ToolQuestion
from llm_planning.planners.xenon.roles import Attempt
from llm_planning.roles import gather

if TYPE_CHECKING:
    from collections.abc import Iterable

    from llm_planning.environments.cooking.kitchen import CookingWorld
    from llm_planning.planners.xenon.choosing import ActionPolicy
    from llm_planning.planners.xenon.cooking_roles import CookingRoles
    from llm_planning.planners.xenon.memory import ActionMemory
    from llm_planning.planners.xenon.similarity import Similar


class Step(NamedTuple):
    """One timestep: what the cookbook says, the subgoal made of it, and its outcome."""

    cookbook_action: str
    ingredient: str
    action: str
    tool: str
    success: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Episode:
    """One episode.

    Attributes:
        game: its name.
        success: whether the plan was completed and the meal eaten.
        steps: every timestep, in order.
    """

    __pydantic_config__ = ConfigDict(extra="forbid", strict=True)

    game: str
    success: bool
    steps: tuple[Step, ...]


@dataclass(slots=True, kw_only=True)
class CookingKnowledge:
    """Ĝ and what came of it; items v are cookbook actions. It outlasts an episode.

    Attributes:
        tools: Ĝ: v -> the one tool that it is believed to require.
        rejected: v -> tools that a revision took away from it, oldest first.
        failures: v -> what failed, in words, oldest first; kept by self-correction alone.
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
class CookingParts:
    """What the parts of one agent share.

    Attributes:
        knowledge: what it has learnt of tools.
        memory: S(a, v) and F(a, v) of executable actions a.
        similar: ranks cookbook actions by their names.
        roles: whom it asks.
        k: K, similar cookbook actions to learn from, and examples for the model.
        seed: of its draws.
    """

    knowledge: CookingKnowledge
    memory: ActionMemory
    similar: Similar
    roles: CookingRoles
    k: int
    seed: int

    @property
    def asking(self) -> Asking:
        """What ways of choosing actions share."""
        return Asking(memory=self.memory, similar=self.similar, ask=self.roles.choose, k=self.k)

    async def alike(self, cookbook_action: str) -> list[str]:
        """The K most similar cookbook actions that succeeded, most similar first."""
        return await self.similar.top(cookbook_action, self.memory.known(), self.k)


class PredictedTools:
    """Keeps the tool of every cookbook action; this one leaves them as predicted (×)."""

    def __init__(self, given: CookingParts) -> None:
        self._given = given
        self._knowledge = given.knowledge

    async def expect(self, cookbook_actions: Iterable[str]) -> None:
        """Predicts, before an episode, the tools that are not yet believed in, all at once."""
        tools = self._knowledge.tools
        new = [v for v in dict.fromkeys(cookbook_actions) if v not in tools]
        predicted = await gather(self.ask(v) for v in new)
        tools.update(zip(new, predicted, strict=True))

    async def revise(self, cookbook_action: str) -> None:
        """Is told that no executable action succeeds with the tool."""

    async def ask(self, cookbook_action: str) -> str:
        """The model's prediction, from what similar cookbook actions took and what failed."""
        known = self._knowledge
        examples = [(u, known.tools[u]) for u in await self._given.alike(cookbook_action)]
        failures = known.failures.get(cookbook_action, ())
        return await self._given.roles.predict(ToolQuestion(cookbook_action, examples, failures))


class CorrectedTools(PredictedTools):
    """The model predicts anew before each episode, told what failed, until it succeeds (△)."""

    async def expect(self, cookbook_actions: Iterable[str]) -> None:
        """Withdraws tools with which something failed and nothing succeeded; predicts those."""
        known = self._knowledge
        succeeded = self._given.memory.known()
        plan = list(cookbook_actions)
        for v in dict.fromkeys(plan):
            if v in known.failures and v not in succeeded:
                known.revisions += 1
                known.tools.pop(v, None)
        await super().expect(plan)


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
        for tool in [known.tools[u] for u in await self._given.alike(cookbook_action)]:
            if tool not in rejected:
                known.tools[cookbook_action] = tool
                return
        untried = [tool for tool in TOOLS if tool not in rejected]
        rng = Random(f"{self._given.seed}/revision/{cookbook_action}/{known.revisions}")
        known.tools[cookbook_action] = rng.choice(untried)


class SelfCorrecting(SuccessOnly):
    """The model is told what failed when it is asked again; what worked is reused (△).

    Args:
        asking: with what worked.
        knowledge: keeps failures in words.
    """

    def __init__(self, asking: Asking, *, knowledge: CookingKnowledge) -> None:
        super().__init__(asking)
        self._knowledge = knowledge

    async def analyses(self, item: str) -> tuple[str, ...]:
        """Everything that failed: its previous answers and what came of them (Section 5.1)."""
        return tuple(self._knowledge.failures.get(item, ()))

    def failed(self, attempt: Attempt) -> None:
        """Keeps the attempt to be told."""
        (tool,) = attempt.believed
        told = f"{attempt.action} with {tool}"
        self._knowledge.failures.setdefault(attempt.item, []).append(told)

    def exhausted(self, item: str) -> bool:  # noqa: ARG002 - the protocol's
        """Never: tools are predicted anew before the next episode, whatever failed."""
        return False


@dataclass(frozen=True, slots=True, kw_only=True)
class CookingAgent:
    """Follows a cookbook, one subgoal (executable action, ingredient, tool) at a timestep.

    Attributes:
        knowledge: what it has learnt of tools.
        tools: predicts and revises them.
        actions: chooses and learns executable actions.
    """

    knowledge: CookingKnowledge
    tools: PredictedTools
    actions: ActionPolicy

    async def cook(self, world: CookingWorld) -> Episode:
        """Plays an episode and learns from every timestep."""
        await self.tools.expect(v for v, _ in world.recipe)
        steps: list[Step] = []
        while not world.done:
            v, ingredient = world.direction
            tool = self.knowledge.tools[v]
            action = await self.actions.choose(v)
            success = world.step(action, ingredient, tool)
            steps.append(Step(v, ingredient, action, tool, success))
            if success:
                self.actions.succeeded(action, v)
                continue
            self.actions.failed(Attempt(item=v, action=action, believed={tool: 1}, inventory={}))
            if self.actions.exhausted(v):
                await self.tools.revise(v)
                self.actions.reset(v)
        self.knowledge.episodes += 1
        return Episode(game=world.name, success=world.success, steps=tuple(steps))


def xenon(given: CookingParts) -> CookingAgent:
    """XENON: ADG with a single precondition, and FAM."""
    return CookingAgent(
        knowledge=given.knowledge, tools=AnalogyTools(given), actions=FailureAware(given.asking)
    )


def self_correction(given: CookingParts) -> CookingAgent:
    """SC: the model corrects both of its answers."""
    return CookingAgent(
        knowledge=given.knowledge,
        tools=CorrectedTools(given),
        actions=SelfCorrecting(given.asking, knowledge=given.knowledge),
    )


def deckard(given: CookingParts) -> CookingAgent:
    """DECKARD: neither answer is corrected; what worked is remembered."""
    return CookingAgent(
        knowledge=given.knowledge, tools=PredictedTools(given), actions=SuccessOnly(given.asking)
    )
