"""XENON as its paper prints it: Algorithms 1, 3 and 4, with FAM (Section 4.2) and DEX (Appendix G).

"1.5" is line 5 of Algorithm 1. Algorithm 2 is in `graph`, and so are Section 3's aggregation and
R_exp of Appendix C; `memory` has the counts. "Reading" says what the paper leaves open.
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field
from random import Random
from typing import TYPE_CHECKING

from llm_planning.planners.xenon.graph import experienced, predict_requirements
from llm_planning.planners.xenon.notes import note_step
from llm_planning.planners.xenon.roles import ActionQuestion, Failure

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Mapping, Sequence

    from llm_planning.environments.minecraft.items.text_world import World
    from llm_planning.planners.xenon.graph import Initial
    from llm_planning.planners.xenon.memory import ActionMemory, Knowledge, Similar
    from llm_planning.planners.xenon.notes import GraphNotes
    from llm_planning.planners.xenon.roles import Chooses, Predict


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
    """

    inventory: Mapping[str, int]
    missing: Sequence[tuple[int, str]]
    tried: list[Subgoal] = field(default_factory=list)


@dataclass(frozen=True, kw_only=True)
class Xenon:
    """Pursues goals, and learns what items require and how they are obtained.

    Attributes:
        knowledge: Ĝ, C and the experience of Appendix C.
        memory: FAM, S(a, v) and F(a, v), with 𝒜 and x_0; empty at first (1.2).
        similar: ranks items by their names.
        rng: breaks ties between goals.
        k: K, number of similar items to learn from (Table 7, as the next three).
        c0: c_0, the C(v) above which an item is inadmissible; C(v) begins at 1.
        alpha_s: α_s, scale of the quantities that less-tried items require.
        alpha_i: α_i, quantity of each resource that an inadmissible item requires.
        notes: adds Ĝ to the trace; None where Ĝ stays as it is.
    """

    knowledge: Knowledge
    memory: ActionMemory
    similar: Similar
    roles: Chooses
    rng: Random = field(default_factory=lambda: Random(0))
    k: int = 3
    c0: int = 3
    alpha_s: int = 2
    alpha_i: int = 8
    notes: GraphNotes | None = None

    # Algorithm 1 ----------------------------------------------------------------------------------

    async def initialise(self, predict: Predict, *, most: int) -> Initial:
        """Fills Ĝ by predictions, at most so many (1.1; Algorithm 2, after the human plans)."""
        return await predict_requirements(
            self.knowledge, predict=predict, similar=self.similar, k=self.k, most=most
        )

    async def learn(
        self, world: World, *, until: int, watch: Callable[[Sequence[Plan]], None]
    ) -> None:
        """Pursues one goal after another until nothing is left to try.

        Args:
            world: the world to act in; whoever begins an episode has emptied its inventory (1.4).
            until: the environment step at which to stop.
            watch: is called after each goal with the plans for it.
        """
        while world.steps < until:  # 1.3
            goal = await self.select_goal()  # 1.5, 1.17
            if goal is None:
                return
            watch(await self.pursue(goal, world, until=until))

    async def pursue(self, goal: str, world: World, *, until: int) -> list[Plan]:
        """Plans and acts until the goal is reached or all actions of an item are ruled out.

        Args:
            goal: v_g.
            until: the environment step at which to stop.

        Returns:
            The plans, in order.
        """
        plans: list[Plan] = []
        self.note_graph()
        while world.steps < until:  # 1.6
            missing = self.knowledge.aggregated(goal, world.inventory)  # 1.7
            plans.append(Plan(dict(world.inventory), missing))
            goes_on = await self.carry_out(plans[-1], goal, world, until=until)
            # Without it, an agent whose answers need no waiting would block all other trials.
            await asyncio.sleep(0)
            if not goes_on:
                break
        return plans

    async def carry_out(self, plan: Plan, goal: str, world: World, *, until: int) -> bool:
        """Carries out a plan, subgoal by subgoal, and learns from each.

        Reading: an action is chosen when its turn comes. What the end of the episode cuts short has
        failed: otherwise an agent would try for ever what takes too long. If the episode ends
        between two actions, nothing has failed.

        Returns:
            Whether to make another plan for the goal: a subgoal failed, and actions are left.
        """
        known = self.knowledge
        for quantity, item in plan.missing:  # 1.9
            action = await self.select_action(item)  # 1.8
            target = world.inventory.get(item, 0) + quantity
            failed = await self.execute(action, item, world, target=target, until=until)  # 1.10
            reached = world.inventory.get(item, 0) >= target
            subgoal = Subgoal(action, quantity, item, reached, world.steps)
            plan.tried.append(subgoal)
            note_step(subgoal, goal, world, failed=failed, done=world.steps >= until)
            if not (reached or failed):
                return False
            failure = self.failure(action, item, world) if failed else None
            ruled_out = await self.learn_from(action, item, failure)
            self.note_graph()
            if ruled_out and item in known.obtained:
                known.setbacks[goal] = known.setbacks.get(goal, 0) + 1
            if failed:
                return not ruled_out  # 1.17-18
        return False

    async def execute(
        self, action: str, item: str, world: World, *, target: int, until: int
    ) -> bool:
        """Repeats (a, v) until the inventory has `target` of v (Appendix J.4.1).

        When it obtains an item for the first time, the requirements it used enter Ĝ (Appendix C).

        Returns:
            Whether an attempt failed and was not to be repeated.
        """
        while world.inventory.get(item, 0) < target and world.steps < until:
            new = item not in self.knowledge.obtained
            before = dict(world.inventory) if new else {}
            used = world.step(action, item)
            if used is None:
                if not await self.tries_again(action, item):
                    return True
            elif new:  # 1.11
                r_exp, kept = experienced(used, before, world.inventory)
                makes = world.inventory.get(item, 0) - before.get(item, 0)
                self.knowledge.obtain(item, r_exp, makes=makes, kept=kept)
        return False

    async def tries_again(self, action: str, item: str) -> bool:  # noqa: ARG002 - of CRe
        """Whether to repeat a failed attempt; without reprompting (Appendix H), never."""
        return False

    async def learn_from(self, action: str, item: str, failure: Failure | None) -> bool:
        """Learns from the outcome of one subgoal; line 12 stands in both branches of line 13.

        Reading: an item that the agent obtained itself keeps its requirements: they are known, so
        an imperfect controller has failed. Its failures are forgotten and its successes kept.

        Args:
            failure: the failure; None if the subgoal was reached.

        Returns:
            Whether all actions were ruled out.
        """
        if failure is None:  # 1.13
            self.succeeded(action, item)  # 1.12
            return False
        self.failed(failure)  # 1.12
        if not self.all_invalid(item):  # 1.14
            return False
        if item in self.knowledge.obtained:
            self.forgive(item)
        else:
            await self.revise(item)  # 1.15
            self.reset(item)  # 1.16
        return True

    def succeeded(self, action: str, item: str) -> None:
        """S(a, v) += 1."""
        self.memory.record(action, item, True)

    def failed(self, failure: Failure) -> None:
        """F(a, v) += 1."""
        self.memory.record(failure.action, failure.item, False)

    def all_invalid(self, item: str) -> bool:
        """Whether F(a, v) >= S(a, v) + x_0 for every action: the requirements must be wrong."""
        return self.memory.exhausted(item)

    def reset(self, item: str) -> None:
        """M[v, .] <- (0, 0)."""
        self.memory.reset(item)

    def forgive(self, item: str) -> None:
        """F(., v) <- 0."""
        self.memory.forgive(item)

    # DEX (Appendix G) -----------------------------------------------------------------------------

    async def select_goal(self) -> str | None:
        """Chooses the easiest item of the least explored frontier; None without a frontier.

        F_min are the items of F with the smallest exploration count. The difficulty D(f) counts the
        distinct items that f requires according to Ĝ, directly or not.
        """
        f = self.frontier()
        if not f:
            return None
        fewest = min(map(self.explored, f))
        f_min = [v for v in f if self.explored(v) == fewest]
        difficulty = {v: len(self.knowledge.graph.ancestors(v)) for v in f_min}
        easiest = min(difficulty.values())
        return self.rng.choice([v for v in f_min if difficulty[v] == easiest])

    def frontier(self) -> list[str]:
        """Returns F: the items not yet obtained whose requirements in Ĝ are all obtained."""
        graph, obtained = self.knowledge.graph, self.knowledge.obtained
        return [
            v for v in graph.items if v not in obtained and graph.requirements(v).keys() <= obtained
        ]

    def explored(self, item: str) -> int:
        """Returns C(v).

        Reading: plus how often the goal was given up for an obtained item that failed. Otherwise it
        would be pursued for ever, where a controller cannot gather its materials.
        """
        return self.knowledge.revision_count(item) + self.knowledge.setbacks.get(item, 0)

    # Algorithm 3 ----------------------------------------------------------------------------------

    async def revise(self, item: str) -> None:
        """RevisionByAnalogy(Ĝ, v, C, c_0, α_s, α_i)."""
        await self.revise_once(item, [])

    async def revise_once(self, item: str, revised: list[str]) -> None:
        """Revises an item, and all that depend on it if it is inadmissible.

        Reading: C(v) is counted before it is compared (Section 4.1). One call revises no item
        twice, none that experience or a demonstration has shown, and none that depends on the item
        through such a one only.

        Args:
            revised: the items that this call has revised before.
        """
        known = self.knowledge
        revised.append(item)
        known.demonstrated.discard(item)  # what its plan showed is doubted from now on
        if known.count_revision(item) > self.c0:  # 3.1-2
            # Edges into v change no descendant, but XENON+ reads the old ones to spare some.
            descendants = known.graph.descendants(item, sparing=self.vouched_for(item))  # 3.7
            known.graph.require(item, await self.everything(item))  # 3.4-6
            for w in descendants:  # 3.8
                if w not in revised:
                    await self.revise_once(w, revised)  # 3.9
        else:  # 3.10
            known.graph.require(item, await self.analogous(item))  # 3.19

    async def everything(self, item: str) -> dict[str, int]:
        """Returns R(v) of an inadmissible item: α_i of every resource (3.3)."""
        return dict.fromkeys(self.possible(item, self.resources()), self.alpha_i)

    async def analogous(self, item: str) -> dict[str, int]:
        """Returns R(v) of a less-tried item: what similar items required."""
        known = self.knowledge
        alike = await self.similar.top(item, known.succeeded, self.k)  # 3.11
        candidates = {u for w in alike for u in known.graph.requirements(w)}  # 3.12
        resources = self.resources()
        amount = self.alpha_s * known.revision_count(item)
        return {  # 3.13-18
            u: amount if u in resources else 1 for u in self.possible(item, candidates)
        }

    def resources(self) -> set[str]:
        """Returns the "resource" set: the items consumed so far in crafting others."""
        return self.knowledge.consumed

    def possible(self, item: str, candidates: Collection[str]) -> list[str]:
        """Returns the candidates that may be proposed for an item, in the order of V̂.

        Reading: what requires v is never proposed for v, so that Ĝ stays acyclic.
        """
        fitting = self.knowledge.graph.without_cycle(item, candidates)
        return [u for u in fitting if self.admissible(u)]

    def admissible(self, item: str) -> bool:
        """Whether an item may be proposed; reading: none that is inadmissible (Section 4.1)."""
        known = self.knowledge
        return item in known.obtained or known.revision_count(item) <= self.c0

    def vouched_for(self, item: str) -> set[str]:  # noqa: ARG002 - subclasses read it
        """Returns the items that are not revised with an ancestor."""
        return self.knowledge.succeeded

    # Algorithm 4 ----------------------------------------------------------------------------------

    async def select_action(self, item: str) -> str:
        """Chooses the action of a subgoal: the valid one, or one that the LLM selects.

        Reading: where one candidate is left, the LLM is not asked.
        """
        valid = self.memory.valid(item)  # 4.1-2: S(a, v) > 0 and S(a, v) > F(a, v) - x_0
        if valid is not None:  # 4.4
            return valid  # 4.5-6
        candidates = self.memory.candidates(item)  # 4.3, 4.16-18: not F(a, v) >= S(a, v) + x_0
        if len(candidates) == 1:
            return candidates[0]
        return await self.ask(item, candidates)

    async def ask(self, item: str, options: tuple[str, ...], analyses: Sequence[str] = ()) -> str:
        """Asks which option obtains an item, with the K most similar items as examples."""
        known = self.memory.known()  # 4.8-12: item -> its valid action
        alike = await self.similar.top(item, known, self.k)  # 4.13-14
        examples = tuple((u, known[u]) for u in alike)  # 4.15
        return await self.roles.choose(ActionQuestion(item, options, examples, analyses))  # 4.19-20

    # Beside the pseudo-code -----------------------------------------------------------------------

    def forget(self, items: Iterable[str]) -> None:
        """Forgets what was learnt about items whose rules have changed (Appendix K.6)."""
        self.knowledge.forget(items)
        for item in items:
            self.reset(item)

    def failure(self, action: str, item: str, world: World) -> Failure:
        """Returns what a failed subgoal is remembered by."""
        believed = dict(self.knowledge.graph.requirements(item))
        return Failure(item=item, action=action, believed=believed, inventory=dict(world.inventory))

    def note_graph(self) -> None:
        """Adds Ĝ to the trace if it has changed."""
        if self.notes is not None:
            self.notes.trace_changes()
