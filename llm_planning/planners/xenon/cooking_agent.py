"""XENON, SC and DECKARD in the kitchen: a store of tools and a choice of actions (Appendix A).

    agent     required tool           executable action
    XENON     AnalogyTools    (○)     FailureAware      (○)   FAM, as in Minecraft
    SC        CorrectedTools  (△)     SelfCorrecting    (△)
    DECKARD   PredictedTools  (×)     SuccessOnly       (×)   as in Minecraft

Cookbook actions are the items v. Each requires one tool, so Ĝ has one edge into every node. What an
agent experiences with one ingredient holds for all, as the paper's pairs suggest.

An agent asks two questions. Before an episode: which tool does a cookbook action require? At each
timestep: which executable action carries it out?
"""

from __future__ import annotations

from dataclasses import dataclass, field
from random import Random
from typing import TYPE_CHECKING, NamedTuple

from pydantic import ConfigDict

from llm_planning.environments.cooking.recipes import TOOLS
from llm_planning.planners.xenon.action_policies import Shared, SuccessOnly
from llm_planning.planners.xenon.agent import learn_from
from llm_planning.planners.xenon.asking import CookingAsking
from llm_planning.planners.xenon.graph_notes import Belief, GraphNotes
from llm_planning.planners.xenon.questions import Failure, ToolQuestion
from llm_planning.roles import gather
from llm_planning.trace import tracing

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from llm_planning.environments.cooking.kitchen import CookingWorld
    from llm_planning.planners.xenon.action_policies import ActionPolicy
    from llm_planning.planners.xenon.fam import ActionMemory


class CookingStep(NamedTuple):
    """One timestep: the cookbook's direction, the subgoal and its outcome."""

    cookbook_action: str
    ingredient: str
    action: str
    tool: str
    success: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class CookingEpisode:
    """One episode.

    Attributes:
        game: name of the game.
        success: whether the plan was completed and the meal eaten.
        steps: all timesteps, in order.
    """

    __pydantic_config__ = ConfigDict(extra="forbid", strict=True)

    game: str
    success: bool
    steps: tuple[CookingStep, ...]


@dataclass(slots=True, kw_only=True)
class CookingKnowledge:
    """Ĝ and its revisions, which outlast an episode; items v are cookbook actions.

    Attributes:
        tools: Ĝ: v -> the one tool that it is believed to require.
        rejected: v -> tools that revisions took away from it, oldest first.
        failures: v -> failed attempts in words, oldest first; only `CorrectedTools` keeps them.
        revisions: number of revisions.
        episodes: number of finished episodes.
    """

    __pydantic_config__ = ConfigDict(extra="forbid", strict=True)

    tools: dict[str, str] = field(default_factory=dict)
    rejected: dict[str, list[str]] = field(default_factory=dict)
    failures: dict[str, list[str]] = field(default_factory=dict)
    revisions: int = 0
    episodes: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Cook(Shared[CookingAsking]):
    """What the parts of one cooking agent share.

    Attributes:
        knowledge: what the agent has learnt of tools.
        seed: of the agent's draws.
    """

    knowledge: CookingKnowledge
    seed: int

    async def alike(self, cookbook_action: str) -> list[str]:
        """Returns the K most similar cookbook actions that succeeded, most similar first."""
        return await self.similar.top(cookbook_action, self.memory.known(), self.k)


class PredictedTools:
    """Keeps the tool of every cookbook action. This class leaves them as predicted (×)."""

    def __init__(self, cook: Cook) -> None:
        self._cook = cook
        self._knowledge = cook.knowledge

    async def expect(self, cookbook_actions: Iterable[str]) -> None:
        """Predicts the tools of new cookbook actions before an episode, all at once."""
        tools = self._knowledge.tools
        new = [v for v in dict.fromkeys(cookbook_actions) if v not in tools]
        predicted = await gather(self.ask(v) for v in new)
        tools.update(zip(new, predicted, strict=True))

    def succeeded(self, cookbook_action: str) -> None:
        """Learns nothing from a cookbook action that was carried out."""

    def failed(self, failure: Failure) -> None:
        """Learns from a subgoal that was refused; here nothing."""

    async def revise(self, cookbook_action: str) -> bool:  # noqa: ARG002 - a default
        """Revises a tool with which no executable action succeeds; here nothing changes.

        Returns:
            Whether the tool was revised.
        """
        return False

    async def ask(self, cookbook_action: str) -> str:
        """Returns the predicted tool, given similar cookbook actions and failures."""
        known = self._knowledge
        examples = [(u, known.tools[u]) for u in await self._cook.alike(cookbook_action)]
        failures = known.failures.get(cookbook_action, ())
        return await self._cook.roles.predict(ToolQuestion(cookbook_action, examples, failures))


class CorrectedTools(PredictedTools):
    """Has the model predict anew before each episode, told what failed, until it succeeds (△)."""

    async def expect(self, cookbook_actions: Iterable[str]) -> None:
        """Predicts anew the tools of cookbook actions that failed and never succeeded."""
        known = self._knowledge
        succeeded = self._cook.memory.known()
        plan = list(cookbook_actions)
        for v in dict.fromkeys(plan):
            if v in known.failures and v not in succeeded:
                known.revisions += 1
                known.tools.pop(v, None)
        await super().expect(plan)

    def failed(self, failure: Failure) -> None:
        """Keeps the attempt for the next questions."""
        (tool,) = failure.believed
        failures = self._knowledge.failures.setdefault(failure.item, [])
        failures.append(f"{failure.action} with {tool}")


class AnalogyTools(PredictedTools):
    """RevisionByAnalogy for a single precondition (○; Section 4.1, Appendix A).

    A revision takes the tool of the most similar cookbook action that succeeded and whose tool was
    not tried here yet, among the top K. If there is none, it draws a tool that was not tried here.
    When all tools were tried, all of them are tried again.
    """

    async def revise(self, cookbook_action: str) -> bool:
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
                return True
        untried = [tool for tool in TOOLS if tool not in rejected]
        rng = Random(f"{self._cook.seed}/revision/{cookbook_action}/{known.revisions}")
        known.tools[cookbook_action] = rng.choice(untried)
        return True


class SelfCorrecting(SuccessOnly):
    """Reuses what worked, and tells the model what failed (△)."""

    def __init__(self, cook: Cook) -> None:
        super().__init__(cook)
        self._knowledge = cook.knowledge

    async def analyses(self, item: str) -> tuple[str, ...]:
        """Returns all failed attempts, the model's earlier answers (Section 5.1)."""
        return tuple(self._knowledge.failures.get(item, ()))

    def exhausted(self, item: str) -> bool:  # noqa: ARG002 - an override
        """Returns False: before the next episode the tools are predicted anew in any case."""
        return False


def notes_on_tools(knowledge: CookingKnowledge, memory: ActionMemory) -> GraphNotes:
    """Makes the notes on an agent, from what it knows of tools and of executable actions."""

    def beliefs() -> Iterator[tuple[str, Belief]]:
        actions = memory.known()
        for v, tool in knowledge.tools.items():
            revisions = len(knowledge.rejected.get(v, ()))
            yield v, Belief({tool: 1}, actions.get(v), v in actions, revisions)

    return GraphNotes(beliefs)


async def cook(
    world: CookingWorld,
    *,
    knowledge: CookingKnowledge,
    tools: PredictedTools,
    actions: ActionPolicy,
    notes: GraphNotes,
) -> CookingEpisode:
    """Follows the cookbook for an episode, and learns from every timestep.

    Args:
        world: at the beginning of the episode.
        knowledge: what the agent has learnt of tools.
        tools: predicts and revises tools.
        actions: chooses and learns executable actions.
        notes: adds Ĝ to the trace.
    """
    await tools.expect(v for v, _ in world.recipe)
    notes.tell()
    steps: list[CookingStep] = []
    while not world.done:
        v, ingredient = world.direction
        tool = knowledge.tools[v]
        action = await actions.choose(v)
        success = world.step(action, ingredient, tool)
        steps.append(CookingStep(v, ingredient, action, tool, success))
        if (trace := tracing()) is not None:
            trace.execution(
                f"{action} {ingredient} with {tool}",
                reward=float(success),
                text=f"{v} {ingredient}: {world.position} of {len(world.recipe)} directions done",
                obstacle=None if success else f"it does not {v} the {ingredient}",
                done=world.done,
            )
        failure = Failure(item=v, action=action, believed={tool: 1}, inventory={})
        await learn_from(
            action, v, None if success else failure, actions=actions, dependencies=tools
        )
        notes.tell()
    knowledge.episodes += 1
    return CookingEpisode(game=world.name, success=world.success, steps=tuple(steps))
