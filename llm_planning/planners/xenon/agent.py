"""The loop of XENON and its baselines (Algorithm 1): choose a goal, plan, act, learn."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from typing import TYPE_CHECKING

from llm_planning.planners.xenon.aggregate import aggregate
from llm_planning.planners.xenon.knowledge import experienced
from llm_planning.planners.xenon.roles import Attempt

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable
    from random import Random

    from llm_planning.environments.minecraft.text_world import World
    from llm_planning.planners.xenon.choosing import ActionPolicy
    from llm_planning.planners.xenon.failure_notes import FailureNotes
    from llm_planning.planners.xenon.goals import SelectGoal
    from llm_planning.planners.xenon.knowledge import Knowledge
    from llm_planning.planners.xenon.revision import StaticStore


@dataclass(frozen=True, slots=True, kw_only=True)
class Agent:
    """Learns what items require, and how they are obtained, by trying (Table 8).

    Attributes:
        knowledge: what it has learnt.
        dependencies: keeps and revises Ĝ.
        actions: chooses and learns actions.
        select_goal: chooses the next goal.
        notes: what is kept of failures beside the action memory.
        rng: of its goals.
    """

    knowledge: Knowledge
    dependencies: StaticStore
    actions: ActionPolicy
    select_goal: SelectGoal
    notes: FailureNotes
    rng: Random

    async def learn(self, world: World, *, until: int, watch: Callable[[], None]) -> None:
        """Pursues one goal after the other (Algorithm 1, lines 4 to 18).

        Args:
            world: where it acts; the inventory is what it is.
            until: the step at which to stop; earlier if nothing is left to try.
            watch: called after each goal.
        """
        while world.steps < until:
            await self.dependencies.review()
            goal = self.select_goal(self.knowledge, self.rng)
            if goal is None:
                return
            attempts = self.knowledge.attempts
            attempts[goal] = attempts.get(goal, 0) + 1
            await self.pursue(goal, world, until=until)
            watch()
            # Answers that need no waiting would otherwise keep every other trial waiting.
            await asyncio.sleep(0)

    async def pursue(self, goal: str, world: World, *, until: int) -> None:
        """Plans and acts until the goal is reached, or some requirements were reconsidered.

        Args:
            goal: v_g.
            world: where it acts.
            until: the step at which to stop.
        """
        self.dependencies.expect(goal)
        while world.steps < until:
            failed = await self.carry_out(goal, world, until=until)
            if failed is None:
                return
            self.actions.failed(failed)
            self.notes.unrevised.setdefault(failed.item, []).append(failed)
            if self.actions.exhausted(failed.item):
                if failed.item in self.knowledge.obtained:
                    setbacks = self.knowledge.setbacks
                    setbacks[goal] = setbacks.get(goal, 0) + 1
                failures = self.notes.unrevised.pop(failed.item)
                await self.dependencies.revise(failed.item, failures)
                self.actions.reset(failed.item)
                return

    async def carry_out(self, goal: str, world: World, *, until: int) -> Attempt | None:
        """Carries out one plan for the goal, subgoal by subgoal.

        Returns:
            The subgoal that failed; None if the goal was reached, or the time was up between two
            actions. An action that the end of the episode cuts short, as it can with a controller,
            has failed: an agent that did not count it would try for ever what takes too long.
        """
        known = self.knowledge
        for quantity, item in aggregate(known.graph, goal, world.inventory, kept=known.kept):
            action = await self.actions.choose(item)
            target = world.inventory.get(item, 0) + quantity
            if not self._execute(action, item, world, target=target, until=until):
                return Attempt(
                    item=item,
                    action=action,
                    believed=dict(known.graph.requirements(item)),
                    inventory=dict(world.inventory),
                )
            if world.inventory.get(item, 0) < target:
                return None
            self.actions.succeeded(action, item)
            self.notes.unrevised.pop(item, None)
        return None

    def forget(self, items: Iterable[str]) -> None:
        """Is told that the rules of these items have changed, not how (Appendix K.6)."""
        self.knowledge.forget(items)
        for item in items:
            self.actions.reset(item)
            self.notes.forget(item)

    def _execute(self, action: str, item: str, world: World, *, target: int, until: int) -> bool:
        """Repeats (a, v) until so many of v are held: False at the first failure."""
        while world.inventory.get(item, 0) < target and world.steps < until:
            learning = item not in self.knowledge.obtained
            before = dict(world.inventory) if learning else {}
            used = world.step(action, item)
            if used is None:
                return False
            if learning:
                after = world.inventory
                r_exp, kept = experienced(used, before, after)
                self.knowledge.obtain(
                    item, r_exp, makes=after.get(item, 0) - before.get(item, 0), kept=kept
                )
        return True
