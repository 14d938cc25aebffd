"""XENON, SC and DECKARD in the kitchen (Appendix A).

    agent         required tool             executable action
    XenonCook     revised by analogy (○)    FAM, as in Minecraft (○)
    ScCook        predicted anew     (△)    told what failed     (△)
    DeckardCook   as predicted       (×)    successes only       (×)

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

from llm_planning.environments.cooking.domain import Subgoal
from llm_planning.environments.cooking.recipes import TOOLS
from llm_planning.planners.xenon.algorithm import Xenon
from llm_planning.planners.xenon.baselines import SuccessesOnly
from llm_planning.planners.xenon.cooking_roles import ToolQuestion
from llm_planning.planners.xenon.notes import Belief, GraphNotes
from llm_planning.planners.xenon.roles import Failure
from llm_planning.roles import gather
from llm_planning.trace import tracing

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from llm_planning.environments.cooking.domain import Cooking, Meal
    from llm_planning.planners.xenon.asking import CookingAsking
    from llm_planning.planners.xenon.memory import ActionMemory


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
        failures: v -> failed attempts in words, oldest first; only `ScCook` keeps them.
    """

    __pydantic_config__ = ConfigDict(extra="forbid", strict=True)

    tools: dict[str, str] = field(default_factory=dict)
    rejected: dict[str, list[str]] = field(default_factory=dict)
    failures: dict[str, list[str]] = field(default_factory=dict)
    revisions: int = 0
    episodes: int = 0


@dataclass(frozen=True, kw_only=True)
class Cook(Xenon):
    """Keeps the tool of every cookbook action as predicted, and rules out actions by FAM.

    Attributes:
        known: what the agent has learnt of tools; `knowledge` stays empty.
        seed: of the agent's draws.
    """

    roles: CookingAsking
    known: CookingKnowledge
    seed: int

    async def expect(self, cookbook_actions: Iterable[str]) -> None:
        """Predicts the tools of new cookbook actions before an episode, all at once."""
        tools = self.known.tools
        new = [v for v in dict.fromkeys(cookbook_actions) if v not in tools]
        predicted = await gather(self.predict(v) for v in new)
        tools.update(zip(new, predicted, strict=True))

    async def predict(self, cookbook_action: str) -> str:
        """Returns the predicted tool, given similar cookbook actions and failures."""
        known = self.known
        examples = [(u, known.tools[u]) for u in await self.alike(cookbook_action)]
        failures = known.failures.get(cookbook_action, ())
        return await self.roles.predict(ToolQuestion(cookbook_action, examples, failures))

    async def alike(self, cookbook_action: str) -> list[str]:
        """Returns the K most similar cookbook actions that succeeded, most similar first."""
        return await self.similar.top(cookbook_action, self.memory.known(), self.k)

    async def revise(self, item: str) -> None:
        """Leaves the tool as it is."""


@dataclass(frozen=True, kw_only=True)
class DeckardCook(Cook, SuccessesOnly):
    """DECKARD: nothing is corrected."""


@dataclass(frozen=True, kw_only=True)
class ScCook(Cook, SuccessesOnly):
    """SC: the model is told what failed.

    It predicts tools anew before each episode until they succeed.
    """

    async def expect(self, cookbook_actions: Iterable[str]) -> None:
        """Predicts anew the tools of cookbook actions that failed and never succeeded."""
        known = self.known
        succeeded = self.memory.known()
        plan = list(cookbook_actions)
        for v in dict.fromkeys(plan):
            if v in known.failures and v not in succeeded:
                known.revisions += 1
                known.tools.pop(v, None)
        await super().expect(plan)

    async def analyses(self, item: str) -> tuple[str, ...]:
        """Returns all failed attempts, the model's earlier answers (Section 5.1)."""
        return tuple(self.known.failures.get(item, ()))

    def failed(self, failure: Failure) -> None:
        """Keeps the attempt for the next questions."""
        super().failed(failure)
        (tool,) = failure.believed
        failures = self.known.failures.setdefault(failure.item, [])
        failures.append(f"{failure.action} with {tool}")

    def all_invalid(self, item: str) -> bool:  # noqa: ARG002 - an override
        """Returns False: before the next episode the tools are predicted anew in any case."""
        return False


@dataclass(frozen=True, kw_only=True)
class XenonCook(Cook):
    """XENON: RevisionByAnalogy for a single precondition (Section 4.1, Appendix A).

    A revision takes the tool of the most similar cookbook action that succeeded and whose tool was
    not tried here yet, among the top K. If there is none, it draws a tool that was not tried here.
    When all tools were tried, all of them are tried again.
    """

    async def revise(self, item: str) -> None:
        """Replaces the tool."""
        known = self.known
        known.revisions += 1
        rejected = known.rejected.setdefault(item, [])
        rejected.append(known.tools[item])
        if len(rejected) == len(TOOLS):
            rejected.clear()
        alike = [known.tools[u] for u in await self.alike(item)]
        tool = next((tool for tool in alike if tool not in rejected), None)
        if tool is None:
            untried = [tool for tool in TOOLS if tool not in rejected]
            tool = Random(f"{self.seed}/revision/{item}/{known.revisions}").choice(untried)
        known.tools[item] = tool


def notes_on_tools(knowledge: CookingKnowledge, memory: ActionMemory) -> GraphNotes:
    """Makes the notes on an agent, from what it knows of tools and of executable actions."""

    def beliefs() -> Iterator[tuple[str, Belief]]:
        actions = memory.known()
        for v, tool in knowledge.tools.items():
            revisions = len(knowledge.rejected.get(v, ()))
            yield v, Belief({tool: 1}, actions.get(v), v in actions, revisions)

    return GraphNotes(beliefs)


async def cook(world: Cooking, meal: Meal, *, agent: Cook, max_steps: int) -> CookingEpisode:
    """Follows the cookbook for an episode, and learns from every timestep.

    Args:
        meal: at its beginning, in `world`.
        max_steps: timesteps after which the episode ends.
    """
    await agent.expect(v for v, _ in meal.recipe)
    agent.note_graph()
    steps: list[CookingStep] = []
    while not meal.is_eaten and len(steps) < max_steps:
        v, ingredient = meal.direction
        tool = agent.known.tools[v]
        action = await agent.select_action(v)
        subgoal = Subgoal(action, ingredient, tool)
        step = world.step(meal, subgoal, Random(0))  # cooking draws nothing
        meal, success = step.state, step.obstacle is None
        steps.append(CookingStep(v, ingredient, action, tool, success))
        if (trace := tracing()) is not None:
            trace.execution(
                str(subgoal),
                reward=float(success),
                text=f"{v} {ingredient}: {meal.done} of {len(meal.recipe)} directions done",
                obstacle=step.obstacle,
                done=meal.is_eaten or len(steps) == max_steps,
            )
        failure = Failure(item=v, action=action, believed={tool: 1}, inventory={})
        await agent.learn_from(action, v, None if success else failure)
        agent.note_graph()
    agent.known.episodes += 1
    return CookingEpisode(game=meal.game, success=meal.is_eaten, steps=tuple(steps))
