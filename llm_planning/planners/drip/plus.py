"""Ours: the reading `redo` of DRIP, and DRIP+, depth first on the present state.

DRIP+ against Algorithm 1:

- A: the goal is tested on the state after every action. What is open of it is decomposed again,
  until it holds or nothing changes any more.
- B: `Domain.spared` puts an action that undoes nothing of the goal in the place of one that does.
- C: a decomposition is simulated before it is accepted: its subtasks are carried out by the
  domain's `step`, then the decomposed one must be possible, or the goal reached. Where a subtask is
  refused, or a step draws chance, the simulation says nothing, and the decomposition is accepted.
- Parts of the goal that are executable come first. Every other subtask is judged at its turn. One
  that is impossible after its own subtasks is decomposed again a few times, then given up. So is
  one that comes apart into nothing new. Later attempts of the subtasks above only judge it, so
  attempts do not multiply with the depth. Each round of the goal begins anew.
- A final pass drops actions that the plan does without, if no action drew chance.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Generic

from llm_planning.domain import A, S
from llm_planning.domain_calls import settled, simulated
from llm_planning.planners.drip.acting import Decomposing, ending_of
from llm_planning.planners.drip.algorithm import Drip, drip
from llm_planning.planners.drip.outcome import Planned, outcome_of
from llm_planning.planners.drip.tree import ReasoningTree
from llm_planning.search import TrackedRandom

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from llm_planning.domain import Step
    from llm_planning.outcome import Outcome
    from llm_planning.planners.drip.acting import Ending
    from llm_planning.planners.drip.roles import DripDomain
    from llm_planning.planners.drip.settings import DripPlusSettings, DripSettings
    from llm_planning.planners.drip.tree import Node
    from llm_planning.specs import Run


class Redoing(Drip[S, A]):
    """The root's children are judged anew after each level, so that what was undone is done again.

    What was undone is then open again, unless nodes below it still are.
    """

    async def level(self, frontier: Sequence[Node[A]]) -> list[Node[A]]:
        """Lines 3 to 24, and the root's children that are to be decomposed again."""
        remaining = await super().level(frontier)
        children = [child for child in self.tree.root.children if child.status != "given up"]
        left = await self.carry_out(children)
        in_progress = {above for node in remaining if node.is_open for above in node.path}
        return [*remaining, *(child for child in left if child not in in_progress)]


READINGS: Mapping[str, type[Drip[Any, Any]]] = {"literal": Drip, "redo": Redoing}


async def drip_as_read(run: Run[DripDomain[Any, Any], DripSettings]) -> Outcome:
    """DRIP in the reading that the settings say."""
    return await drip(run, algorithm=READINGS[run.settings.reading])


async def drip_plus(run: Run[DripDomain[Any, Any], DripPlusSettings]) -> Outcome:
    """DRIP+."""
    return await outcome_of(run, _planned)


async def _planned(run: Run[DripDomain[Any, Any], DripPlusSettings]) -> Planned[Any, Any]:
    acting = await Decomposing.begin(run)
    tree: ReasoningTree[Any] = ReasoningTree(run.world.goal)
    ending = await ending_of(DripPlus(acting, tree, run.settings).plan())
    plan = acting.plan
    if run.settings.superfluous == "drop" and acting.certain:
        simulator: Simulator[Any, Any] = Simulator(run.world)
        steps = await simulator.needed(acting.states[0], plan)
        plan = [plan[step - 1] for step in steps]
        tree.renumber(steps)
    return Planned(acting, plan, ending, tree)


class DripPlus(Drip[S, A]):
    """DRIP+."""

    def __init__(
        self, acting: Decomposing[S, A], tree: ReasoningTree[A], settings: DripPlusSettings
    ) -> None:
        super().__init__(acting, tree, settings)
        self._domain: Any = acting.domain
        self._idle = 0
        self._simulator: Simulator[S, A] = Simulator(self._domain)

    async def plan(self) -> Ending:
        """Decomposes what is open of the goal and achieves it, round by round.

        Returns:
            Why it stopped.
        """
        while not await self._reached():
            if self._idle == self.settings.idle:
                return "stuck"
            before = self.acting.state
            await self._achieve_parts(self.tree.root)
            self._idle = self._idle + 1 if self.acting.state == before else 0
        self.tree.close(self.tree.root)
        return "goal"

    async def closes(self, node: Node[A]) -> bool:
        """See `Drip.closes`; nothing is carried out any more once the goal holds."""
        return not await self._reached() and await super().closes(node)

    async def action_of(self, node: Node[A]) -> A:
        """What the domain puts in the place of a subtask that would undo part of the goal."""
        action: A = self._domain.spared(self.acting.state, node.subtask)
        return action

    async def _achieve_parts(self, root: Node[A]) -> None:
        """Decomposes what is open of the goal, and achieves the parts.

        Parts of the goal have no order, so those that are executable come first; then the first
        other one is broken down, and the rest are judged again.
        """
        pending: Sequence[Node[A]] = await self._decomposed(root)
        while pending := await self.carry_out(pending):
            if await self._reached():
                return
            first, *pending = pending
            await self._achieve(first)

    async def _achieve(self, node: Node[A]) -> None:
        """Brings a subtask about, or gives it up. What comes before it is achieved in order."""
        for attempt in range(self.settings.attempts + 1):
            if await self.closes(node):
                return
            tried = attempt == self.settings.attempts or node.was_given_up
            if tried or node.depth == self.settings.max_depth:
                break
            children = await self._decomposed(node)
            if not children:
                break
            for child in children:
                await self._achieve(child)
                if await self._reached():
                    return
        self.tree.close(node, "given up")

    async def _decomposed(self, node: Node[A]) -> Sequence[Node[A]]:
        """Asks for a decomposition until the simulation accepts one; the last is taken anyway.

        Who always gives the same wrong answer to a question may know the answer to another one. So
        it is asked in another way each time: about what is open in the present state, about what is
        open, about the whole goal.
        """
        acting = self.acting
        left = self._domain.remainder(acting.state)
        ways = ((left, await acting.described()), (left, ""), ("", ""))
        first = self._idle if node.subtask is None else self._idle + len(node.attempts)
        subtasks: Sequence[A] = ()
        for asking in range(self.settings.askings):
            goal, described = ways[(first + asking) % len(ways)]
            acting.spend(1)
            subtasks = await acting.decompose(
                node.subtask, goal=goal, described=described, asking=asking
            )
            if await self._simulates(node.subtask, subtasks):
                break
        return self.tree.add_children(node, subtasks)

    async def _simulates(self, subtask: A | None, before: Sequence[A]) -> bool:
        """Whether nothing speaks against a decomposition."""
        state = self.acting.state
        for action in before:
            step = await self._simulator.step(state, action)
            if step is None or step.obstacle is not None:
                return True
            state = step.state
        if subtask is None:
            return await self._holds(state)
        step = await self._simulator.step(state, subtask)
        return step is None or step.obstacle is None

    async def _reached(self) -> bool:
        return await self._holds(self.acting.state)

    async def _holds(self, state: S) -> bool:
        return bool(await settled(self._domain.success(state)))


class Simulator(Generic[S, A]):
    """Carries actions out where no chance is drawn."""

    def __init__(self, domain: Any) -> None:  # noqa: ANN401
        self._domain = domain
        self._draws = TrackedRandom()

    async def step(self, state: S, action: A) -> Step[S] | None:
        """The step of an action; None if it draws chance."""
        self._draws.drawn = False
        step: Step[S] = await simulated(self._domain, state, action, self._draws)
        return None if self._draws.drawn else step

    async def reaches(self, state: S, plan: Sequence[A]) -> bool:
        """Whether a plan reaches the goal, with no action refused."""
        for action in plan:
            step = await self.step(state, action)
            if step is None or step.obstacle is not None:
                return False
            state = step.state
        return bool(await settled(self._domain.success(state)))

    async def needed(self, start: S, plan: Sequence[A]) -> list[int]:
        """Drops actions that a plan does without, one by one from the front, until all are needed.

        Args:
            start: S_0.
            plan: π.

        Returns:
            The places of the actions that are left, from 1; all if π does not reach the goal.
        """
        kept = list(range(1, len(plan) + 1))
        if not await self.reaches(start, plan):
            return kept
        length = 0
        while len(kept) != length:
            length = len(kept)
            kept = await self._pass(start, plan, kept)
        return kept

    async def _pass(self, state: S, plan: Sequence[A], steps: Sequence[int]) -> list[int]:
        kept: list[int] = []
        for number, step in enumerate(steps, start=1):
            if not await self.reaches(state, [plan[later - 1] for later in steps[number:]]):
                kept.append(step)
                taken = await self.step(state, plan[step - 1])
                state = taken.state if taken else state
        return kept
