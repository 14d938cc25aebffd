"""Algorithm 1, the loop of XENON and its baselines: choose a goal, plan, act, learn.

In a learning run the agent chooses goals itself and revises Ĝ. With one goal (`given_goal`) it
pursues this goal until it is obtained, and Ĝ stays as it is. In the kitchen (`cooking_agent`) the
plan comes from the cookbook, and only `learn_from` is the same.
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Protocol, TypeAlias

from llm_planning.planners.xenon.knowledge import experienced
from llm_planning.planners.xenon.questions import Failure
from llm_planning.trace import tracing

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence

    from llm_planning.environments.minecraft.text_world import World
    from llm_planning.planners.xenon.action_policies import ActionPolicy
    from llm_planning.planners.xenon.graph_notes import GraphNotes
    from llm_planning.planners.xenon.knowledge import Knowledge
    from llm_planning.planners.xenon.revision import DependencyStore

Reprompt: TypeAlias = "Callable[[str, str], Awaitable[bool]]"
"""Tells whether to try (a, v) again after a failed attempt (CRe)."""


@dataclass(frozen=True, slots=True)
class Subgoal:
    """One subgoal (a, q, v) and its outcome.

    Attributes:
        action: a.
        quantity: q, how many of v to add to the inventory.
        item: v.
        reached: the binary feedback.
        steps: environment steps since the episode began, afterwards.
    """

    action: str
    quantity: int
    item: str
    reached: bool
    steps: int

    def __str__(self) -> str:
        return f"{self.action} {self.quantity} {self.item}"


@dataclass(frozen=True, slots=True)
class Plan:
    """One plan for a goal, and how far it was carried out.

    Attributes:
        inventory: the inventory when the plan was made.
        missing: ((q_1, u_1), ..., (1, g)), aggregated from Ĝ.
        tried: the subgoals that were tried.
    """

    inventory: Mapping[str, int]
    missing: Sequence[tuple[int, str]]
    tried: list[Subgoal] = field(default_factory=list)


class Revises(Protocol):
    """Revises what items require, given the outcomes of subgoals."""

    def succeeded(self, item: str) -> None:
        """Learns that a subgoal was reached."""
        ...

    def failed(self, failure: Failure) -> None:
        """Learns that a subgoal failed."""
        ...

    async def revise(self, item: str) -> bool:
        """Revises the requirements of an item at which all actions failed, or leaves them.

        Returns:
            Whether they were revised.
        """
        ...


async def learn_from(
    action: str,
    item: str,
    failure: Failure | None,
    *,
    actions: ActionPolicy,
    dependencies: Revises,
) -> bool:
    """Learns from the outcome of one subgoal (Algorithm 1, lines 12 to 16).

    The memory of an item is reset with a revision only. Where the requirements stay, the item's
    failures are forgotten and its successes kept (ours).

    Args:
        action: a.
        item: v.
        failure: the failure; None if the subgoal was reached.
        actions: learns the outcome, and tells when all actions are ruled out.
        dependencies: learns the outcome, and may be revised when all actions are ruled out.

    Returns:
        Whether all actions were ruled out.
    """
    if failure is None:
        actions.succeeded(action, item)
        dependencies.succeeded(item)
        return False
    actions.failed(failure)
    dependencies.failed(failure)
    if not actions.exhausted(item):
        return False
    if await dependencies.revise(item):
        actions.reset(item)
    else:
        actions.forgive(item)
    return True


@dataclass(frozen=True, slots=True, kw_only=True)
class Agent:
    """Pursues goals, and learns what items require and how they are obtained (Table 8).

    Attributes:
        knowledge: Ĝ and what else the agent has learnt.
        dependencies: keeps and revises Ĝ.
        actions: chooses and learns actions.
        select_goal: chooses the next goal v_g; None when nothing is left to try.
        reprompt: frees a controller that is stuck; without it, a failed attempt is final.
        notes: adds Ĝ to the trace; None where Ĝ stays as it is.
    """

    knowledge: Knowledge
    dependencies: DependencyStore
    actions: ActionPolicy
    select_goal: Callable[[], str | None]
    reprompt: Reprompt | None = None
    notes: GraphNotes | None = None

    async def learn(
        self, world: World, *, until: int, watch: Callable[[Sequence[Plan]], None]
    ) -> None:
        """Pursues one goal after another until nothing is left to try (lines 3 to 18).

        Args:
            world: the world to act in, with any inventory.
            until: the environment step at which to stop.
            watch: is called after each goal with the plans for it.
        """
        while world.steps < until:
            await self.dependencies.review()
            goal = self.select_goal()
            if goal is None:
                return
            attempts = self.knowledge.attempts
            attempts[goal] = attempts.get(goal, 0) + 1
            watch(await self.pursue(goal, world, until=until))

    async def pursue(self, goal: str, world: World, *, until: int) -> list[Plan]:
        """Plans and acts until the goal is reached or all actions of an item are ruled out.

        Args:
            goal: v_g.
            world: the world to act in.
            until: the environment step at which to stop.

        Returns:
            The plans, in order.
        """
        plans: list[Plan] = []
        self.dependencies.expect(goal)
        self._note_graph()
        while world.steps < until:
            missing = self.knowledge.aggregated(goal, world.inventory)
            plans.append(Plan(dict(world.inventory), missing))
            goes_on = await self.carry_out(plans[-1], goal, world, until=until)
            # Without it, an agent whose answers need no waiting would block all other trials.
            await asyncio.sleep(0)
            if not goes_on:
                break
        return plans

    async def carry_out(self, plan: Plan, goal: str, world: World, *, until: int) -> bool:
        """Carries out a plan, subgoal by subgoal, and learns from each (lines 9 to 16).

        With a controller, the end of the episode can cut an action short. Then the action has
        failed: otherwise an agent would try for ever what takes too long. If the episode ends
        between two actions, nothing has failed.

        Returns:
            Whether to make another plan for the goal: a subgoal failed, and actions are left.
        """
        known = self.knowledge
        for quantity, item in plan.missing:
            action = await self.actions.choose(item)
            target = world.inventory.get(item, 0) + quantity
            failed = await self.execute(action, item, world, target=target, until=until)
            reached = world.inventory.get(item, 0) >= target
            subgoal = Subgoal(action, quantity, item, reached, world.steps)
            plan.tried.append(subgoal)
            _note_step(subgoal, goal, world, failed=failed, done=world.steps >= until)
            if not (reached or failed):
                return False
            ruled_out = await learn_from(
                action,
                item,
                self._failure(action, item, world) if failed else None,
                actions=self.actions,
                dependencies=self.dependencies,
            )
            self._note_graph()
            if ruled_out and item in known.obtained:
                known.setbacks[goal] = known.setbacks.get(goal, 0) + 1
            if failed:
                return not ruled_out
        return False

    async def execute(
        self, action: str, item: str, world: World, *, target: int, until: int
    ) -> bool:
        """Repeats (a, v) until the inventory has `target` of v (lines 10, 11; Appendix J.4.1).

        When it obtains an item for the first time, the requirements it used enter Ĝ.

        Returns:
            Whether an attempt failed and was not to be repeated.
        """
        while world.inventory.get(item, 0) < target and world.steps < until:
            new = item not in self.knowledge.obtained
            before = dict(world.inventory) if new else {}
            used = world.step(action, item)
            if used is None:
                if self.reprompt is None or not await self.reprompt(action, item):
                    return True
            elif new:
                after = world.inventory
                r_exp, kept = experienced(used, before, after)
                makes = after.get(item, 0) - before.get(item, 0)
                self.knowledge.obtain(item, r_exp, makes=makes, kept=kept)
        return False

    def forget(self, items: Iterable[str]) -> None:
        """Forgets what was learnt about items whose rules have changed (Appendix K.6)."""
        self.knowledge.forget(items)
        for item in items:
            self.actions.reset(item)
            self.dependencies.forget(item)

    def _note_graph(self) -> None:
        if self.notes is not None:
            self.notes.tell()

    def _failure(self, action: str, item: str, world: World) -> Failure:
        return Failure(
            item=item,
            action=action,
            believed=dict(self.knowledge.graph.requirements(item)),
            inventory=dict(world.inventory),
        )


def _note_step(subgoal: Subgoal, goal: str, world: World, *, failed: bool, done: bool) -> None:
    """Adds a subgoal to the trace of the run, as a real step."""
    if (trace := tracing()) is None:
        return
    item = subgoal.item
    obstacle = None
    if not subgoal.reached:
        obstacle = "the attempt failed" if failed else "the episode ended"
    held = f"{world.inventory.get(item, 0)} {item} after {subgoal.steps} steps, for {goal}"
    trace.execution(subgoal, text=held, obstacle=obstacle, done=done)
