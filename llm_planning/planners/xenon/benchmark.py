"""One given goal, one episode: planning with a dependency graph that is not learnt any further.

Shared by the long-horizon benchmark (XENON, Section 5.3) and by the comparison of ways to choose
actions (Appendix K.10). Experience changes the action memory only.
"""

from __future__ import annotations

import asyncio
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING

from llm_planning.environments.minecraft.controller import group_of
from llm_planning.outcome import Outcome
from llm_planning.planners.xenon.aggregate import aggregate
from llm_planning.planners.xenon.graph import DependencyGraph
from llm_planning.planners.xenon.roles import Attempt

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Collection, Mapping, Sequence

    from llm_planning.environments.minecraft.rulebook import RuleBook
    from llm_planning.environments.minecraft.text_world import World
    from llm_planning.planners.xenon.choosing import ActionPolicy
    from llm_planning.settings import Settings


@dataclass(frozen=True, slots=True)
class Graph:
    """What is believed to be required; it stays as it is.

    Attributes:
        edges: Ĝ.
        kept: items that stay when they are required.
    """

    edges: DependencyGraph
    kept: Collection[str]

    def aggregated(self, goal: str, inventory: Mapping[str, int]) -> list[tuple[int, str]]:
        """((q_1, u_1), ..., (1, g)): what is still missing, requirements first."""
        return aggregate(self.edges, goal, inventory, kept=self.kept)


@dataclass(frozen=True, slots=True)
class Subgoal:
    """One (a, q, v), and what came of it.

    Attributes:
        action: a.
        quantity: q, how many were to be added.
        item: v.
        reached: the binary feedback.
        steps: the clock afterwards, in environment steps.
    """

    action: str
    quantity: int
    item: str
    reached: bool
    steps: int

    def __str__(self) -> str:
        return f"{self.action} {self.quantity} {self.item}"


@dataclass(frozen=True, slots=True)
class Episode:
    """What was done for one goal.

    Attributes:
        goal: g.
        success: whether it was obtained in time.
        steps: environment steps it took.
        plans: the subgoals tried, plan by plan; each plan but the last ends with a failure.
        omitted: true requirements that one of the plans had no subgoal for.
        plan_length: subgoals of the first plan, tried or not.
    """

    goal: str
    success: bool
    steps: int
    plans: tuple[tuple[Subgoal, ...], ...]
    omitted: frozenset[str]
    plan_length: int

    @property
    def subgoals(self) -> tuple[Subgoal, ...]:
        """Everything that was tried, in order."""
        return tuple(subgoal for plan in self.plans for subgoal in plan)


class Repeat:
    """Repeats an action until the quantity is held or one attempt fails (Appendix J.4.1).

    Args:
        world: where.
        goes_on: whether to try (a, v) again although an attempt has failed; by default never.
    """

    def __init__(
        self, world: World, *, goes_on: Callable[[str, str], Awaitable[bool]] | None = None
    ) -> None:
        self._world = world
        self._goes_on = goes_on

    async def __call__(self, action: str, quantity: int, item: str, *, until: int) -> bool:
        """Tries (a, v) until q more of v are held.

        Args:
            action: a.
            quantity: q.
            item: v.
            until: the step at which to stop.

        Returns:
            Whether they are.
        """
        world = self._world
        target = world.inventory.get(item, 0) + quantity
        while world.inventory.get(item, 0) < target:
            if world.steps >= until:
                return False
            if world.step(action, item) is not None:
                continue
            if self._goes_on is None or not await self._goes_on(action, item):
                return False
        return True


async def obtain(
    goal: str,
    world: World,
    *,
    graph: Graph,
    truth: Graph,
    actions: ActionPolicy,
    execute: Repeat,
    until: int,
) -> Episode:
    """Plans and acts until the goal is held or the time is up (Algorithm 1, lines 6 to 18).

    Actions that are all ruled out for an item are explored afresh; the graph is not revised.

    Args:
        goal: g.
        world: at the beginning of an episode.
        graph: to plan with.
        truth: to tell which requirements a plan leaves out.
        actions: chooses actions and learns from their outcomes.
        execute: carries subgoals out in this world.
        until: the horizon, in environment steps.
    """
    plans: list[tuple[Subgoal, ...]] = []
    omitted: set[str] = set()
    plan_length = len(graph.aggregated(goal, world.inventory))
    while world.steps < until and goal not in world.inventory:
        requirements = graph.aggregated(goal, world.inventory)
        needed = {item for _, item in truth.aggregated(goal, world.inventory)}
        omitted |= needed - {item for _, item in requirements}
        plan: list[Subgoal] = []
        for quantity, item in requirements:
            action = await actions.choose(item)
            reached = await execute(action, quantity, item, until=until)
            plan.append(Subgoal(action, quantity, item, reached, world.steps))
            if not reached:
                believed, held = graph.edges.requirements(item), dict(world.inventory)
                actions.failed(Attempt(item=item, action=action, believed=believed, inventory=held))
                if actions.exhausted(item):
                    actions.reset(item)
                break
            actions.succeeded(action, item)
        plans.append(tuple(plan))
        # Answers that need no waiting would otherwise keep every other trial waiting.
        await asyncio.sleep(0)
    return Episode(
        goal=goal,
        success=goal in world.inventory,
        steps=world.steps,
        plans=tuple(plans),
        omitted=frozenset(omitted),
        plan_length=plan_length,
    )


def true_graph(book: RuleBook, items: Collection[str]) -> Graph:
    """𝒢*, the oracle graph.

    Args:
        book: the rules.
        items: its nodes; with everything that they need.
    """
    edges = DependencyGraph()
    kept: set[str] = set()
    for item in items:
        rule = book.rule(item)
        edges.require(item, rule.requirements, makes=rule.makes)
        kept.update(rule.kept)
    return Graph(edges, kept)


async def play(
    goal: str,
    world: World,
    *,
    book: RuleBook,
    graph: Graph | None = None,
    actions: ActionPolicy,
    execute: Repeat,
    until: int,
    judged_by: str,
    settings: Settings,
    seed: int,
    oracles: Sequence[Mapping[str, object]] = (),
) -> Outcome:
    """Obtains a goal, and says how that went.

    Its metrics: `env_steps`; `plan_length`, subgoals of the first plan; `subgoals` and
    `failed_subgoals` tried; `invalid_subgoals` of them with an action that never obtains the item;
    `invalid_action`, whether one of those was in the last plan (Table 15); `subgoal_omission`,
    whether a plan left out something that is required; `group`, the goal's.

    Args:
        goal: g.
        world: at the beginning of an episode.
        book: the rules.
        graph: to plan with; by default the true one.
        actions: chooses actions and learns from their outcomes.
        execute: carries subgoals out in this world.
        until: the horizon, in environment steps.
        judged_by: what the world is called.
        settings: of the run.
        seed: of the run.
        oracles: who answers in a model's place.

    Raises:
        UnknownGoalError: there is no such goal.
    """
    group = group_of(goal)
    truth = true_graph(book, world.items)
    episode = await obtain(
        goal,
        world,
        graph=graph or truth,
        truth=truth,
        actions=actions,
        execute=execute,
        until=until,
    )

    def invalid(subgoal: Subgoal) -> bool:
        return subgoal.item not in book or subgoal.action != book.rule(subgoal.item).action

    tried = episode.subgoals
    return Outcome(
        success=episode.success,
        plan=tuple(str(subgoal) for subgoal in tried if subgoal.reached),
        metrics={
            "success_basis": judged_by,
            "env_steps": episode.steps,
            "plan_length": episode.plan_length,
            "subgoals": len(tried),
            "failed_subgoals": sum(not subgoal.reached for subgoal in tried),
            "invalid_subgoals": sum(map(invalid, tried)),
            "invalid_action": any(map(invalid, episode.plans[-1])),
            "subgoal_omission": bool(episode.omitted),
            "group": group,
        },
        trace={
            "goal": goal,
            "seed": seed,
            "settings": settings.to_json(),
            "oracles": list(oracles),
            "omitted": sorted(episode.omitted),
            "plans": [[asdict(subgoal) for subgoal in plan] for plan in episode.plans],
        },
        text=_told(episode),
    )


def _told(episode: Episode) -> str:
    lines = [
        f"step {subgoal.steps}: {subgoal}{'' if subgoal.reached else ' (failed)'}"
        for subgoal in episode.subgoals
    ]
    end = "obtained" if episode.success else "not obtained"
    return "\n".join([*lines, f"{episode.goal} {end} after {episode.steps} steps"])
