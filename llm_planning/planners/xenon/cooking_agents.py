"""XENON, SC and DECKARD in the kitchen: a store of tools and a choice of actions (Appendix A).

    agent     required tool           executable action
    XENON     AnalogyTools    (○)     FailureAware      (○)   FAM, as in Minecraft
    SC        CorrectedTools  (△)     SelfCorrecting    (△)
    DECKARD   PredictedTools  (×)     SuccessOnly       (×)   as in Minecraft

Cookbook actions are the items v. Each has one precondition, its tool, so Ĝ has one edge into every
node. What an agent experiences with one ingredient holds for all, as the paper's pairs suggest.
"""

from __future__ import annotations

from dataclasses import dataclass
from random import Random
from typing import TYPE_CHECKING, NamedTuple, Protocol

from llm_planning.environments.cooking.recipes import TOOLS
from llm_planning.planners.xenon.choosing import FailureAware, SuccessOnly
from llm_planning.planners.xenon.failure_notes import FailureNotes
from llm_planning.planners.xenon.roles import Attempt
from llm_planning.roles import together

if TYPE_CHECKING:
    from collections.abc import Iterable

    from llm_planning.environments.cooking.kitchen import CookingWorld
    from llm_planning.planners.xenon.choosing import ActionPolicy
    from llm_planning.planners.xenon.cooking_knowledge import CookingKnowledge
    from llm_planning.planners.xenon.cooking_roles import CookingRoles, PredictTool
    from llm_planning.planners.xenon.roles import ChooseAction
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

    game: str
    success: bool
    steps: tuple[Step, ...]


class ToolStore(Protocol):
    """Keeps the tool of every cookbook action."""

    async def expect(self, cookbook_actions: Iterable[str]) -> None:
        """Predicts tools before an episode in which these cookbook actions occur."""
        ...

    async def revise(self, cookbook_action: str) -> None:
        """Is told that no executable action succeeds with the tool."""
        ...


class PredictedTools:
    """Tools stay as predicted (×).

    Args:
        knowledge: Ĝ.
        similar: ranks cookbook actions by their names.
        predict: the planner LLM.
        k: K, examples it is given.
    """

    def __init__(
        self, knowledge: CookingKnowledge, *, similar: Similar, predict: PredictTool, k: int
    ) -> None:
        self._knowledge = knowledge
        self._similar = similar
        self._predict = predict
        self._k = k

    async def expect(self, cookbook_actions: Iterable[str]) -> None:
        """Predicts the tools that are not yet believed in, all at once."""
        tools = self._knowledge.tools
        new = [v for v in dict.fromkeys(cookbook_actions) if v not in tools]
        predicted = await together(self.ask(v) for v in new)
        tools.update(zip(new, predicted, strict=True))

    async def revise(self, cookbook_action: str) -> None:
        """Changes nothing."""

    async def ask(self, cookbook_action: str) -> str:
        """The model's prediction, from what similar cookbook actions took and what failed."""
        known = self._knowledge
        alike = await self._similar.top(cookbook_action, known.memory.known(), self._k)
        return await self._predict(
            cookbook_action,
            examples=[(u, known.tools[u]) for u in alike],
            failures=known.failures.get(cookbook_action, ()),
        )


class CorrectedTools(PredictedTools):
    """The model predicts anew before each episode, told what failed, until it succeeds (△)."""

    async def expect(self, cookbook_actions: Iterable[str]) -> None:
        """Withdraws tools with which something failed and nothing succeeded; predicts those."""
        known = self._knowledge
        succeeded = known.memory.known()
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

    Args:
        knowledge: Ĝ.
        similar: ranks cookbook actions by their names.
        predict: the planner LLM, for the initial tools.
        k: K, similar cookbook actions to learn from, and examples for the model.
        seed: of the draws.
    """

    def __init__(
        self,
        knowledge: CookingKnowledge,
        *,
        similar: Similar,
        predict: PredictTool,
        k: int,
        seed: int,
    ) -> None:
        super().__init__(knowledge, similar=similar, predict=predict, k=k)
        self._seed = seed

    async def revise(self, cookbook_action: str) -> None:
        """Replaces the tool."""
        known = self._knowledge
        known.revisions += 1
        rejected = known.rejected.setdefault(cookbook_action, [])
        rejected.append(known.tools[cookbook_action])
        if len(rejected) == len(TOOLS):
            rejected.clear()
        alike = await self._similar.top(cookbook_action, known.memory.known(), self._k)
        for tool in (known.tools[u] for u in alike):
            if tool not in rejected:
                known.tools[cookbook_action] = tool
                return
        untried = [tool for tool in TOOLS if tool not in rejected]
        rng = Random(f"{self._seed}/revision/{cookbook_action}/{known.revisions}")
        known.tools[cookbook_action] = rng.choice(untried)


class SelfCorrecting(SuccessOnly):
    """The model is told what failed when it is asked again; what worked is reused (△).

    Args:
        knowledge: successes, and failures in words.
        similar: ranks cookbook actions by their names.
        ask: the planner LLM.
        k: K, examples it is given.
    """

    def __init__(
        self, knowledge: CookingKnowledge, *, similar: Similar, ask: ChooseAction, k: int
    ) -> None:
        super().__init__(knowledge.memory, similar=similar, ask=ask, k=k, notes=FailureNotes())
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
        knowledge: what it has learnt.
        tools: predicts and revises tools.
        actions: chooses and learns executable actions.
    """

    knowledge: CookingKnowledge
    tools: ToolStore
    actions: ActionPolicy

    async def cook(self, world: CookingWorld) -> Episode:
        """Plays an episode and learns from every timestep."""
        await self.tools.expect(v for v, _ in world.recipe)
        steps: list[Step] = []
        while not world.done:
            v, ingredient = world.direction
            tool = self.knowledge.tools[v]
            action = await self.actions.choose(v, 1)
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


def xenon(
    knowledge: CookingKnowledge, roles: CookingRoles, *, similar: Similar, k: int, seed: int
) -> CookingAgent:
    """XENON: ADG with a single precondition, and FAM."""
    return CookingAgent(
        knowledge=knowledge,
        tools=AnalogyTools(knowledge, similar=similar, predict=roles.predict, k=k, seed=seed),
        actions=FailureAware(knowledge.memory, similar=similar, ask=roles.choose, k=k),
    )


def self_correction(
    knowledge: CookingKnowledge, roles: CookingRoles, *, similar: Similar, k: int
) -> CookingAgent:
    """SC: the model corrects both of its answers."""
    return CookingAgent(
        knowledge=knowledge,
        tools=CorrectedTools(knowledge, similar=similar, predict=roles.predict, k=k),
        actions=SelfCorrecting(knowledge, similar=similar, ask=roles.choose, k=k),
    )


def deckard(
    knowledge: CookingKnowledge, roles: CookingRoles, *, similar: Similar, k: int
) -> CookingAgent:
    """DECKARD: neither answer is corrected; what worked is remembered."""
    return CookingAgent(
        knowledge=knowledge,
        tools=PredictedTools(knowledge, similar=similar, predict=roles.predict, k=k),
        actions=SuccessOnly(
            knowledge.memory, similar=similar, ask=roles.choose, k=k, notes=FailureNotes()
        ),
    )
