"""ToO+ (ours): Tree of Options that watches the execution.

It differs from ToO in four things.

1. Online planning. As soon as the real state falls short of the prediction, it plans again from
   what is there. The part of the tree that still holds is kept: the rest of a node whose option
   changed nothing, and everything below an option that did what was predicted.
2. Effects that were seen are predicted exactly from then on, in all executions of the trial. An
   option that failed is not considered again as long as nothing else is held.
3. A prerequisite stands beside an option that was judged infeasible, and does not replace it.
4. Options that worked are proposed as well.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from itertools import islice
from typing import TYPE_CHECKING, Any, Generic

from llm_planning.domain import A, S, settled
from llm_planning.planners.tree_of_options.executing import Executing
from llm_planning.planners.tree_of_options.planner import node_json, outcome_of, tree_metrics
from llm_planning.planners.tree_of_options.policies import policies_of
from llm_planning.planners.tree_of_options.prompts import NOW, PREDICTED
from llm_planning.planners.tree_of_options.roles import OptionRoles
from llm_planning.planners.tree_of_options.rules import is_shown
from llm_planning.planners.tree_of_options.search import (
    TreeOfOptions,
    WorldModel,
    beside,
    predicted,
)
from llm_planning.planners.tree_of_options.states import (
    Candidate,
    OptionQuestion,
    OptionState,
    PolicyQuestion,
)
from llm_planning.search import best_path, format_tree

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from llm_planning.outcome import Outcome
    from llm_planning.planners.tree_of_options.executing import Verdict
    from llm_planning.planners.tree_of_options.search import Check, Dynamics, OptionNode, Propose
    from llm_planning.planners.tree_of_options.settings import FeasibleSearchSettings
    from llm_planning.planners.tree_of_options.states import OptionDomain
    from llm_planning.roles import Engines
    from llm_planning.search import Node
    from llm_planning.specs import Problem

IDLE = 3
"""So many searches in a row may find no option before an execution is given up."""


async def too_plus(
    problem: Problem[OptionDomain[Any, Any]],
    *,
    engines: Engines,
    settings: FeasibleSearchSettings,
    seed: int,
) -> Outcome:
    """Searches and executes in turn, until the goal is reached or the attempts are used up.

    Args:
        problem: its domain has a `grammar` and a `state_model`.
        engines: answer the roles.
        settings: of the searches and the execution.
        seed: of the proposals and the world.
    """
    ask: OptionRoles[Any, Any] = OptionRoles(problem.world, engines, settings, seed=seed)
    policies = await policies_of(problem.world, ask, settings)
    watch: Watch[Any, Any] = Watch(ask, settings)
    executed = []
    for number in range(settings.executions):
        run = await Executing.begin(problem, policies, settings, seed=seed, number=number)
        await watch.execute(run)
        executed.append(await run.recorded())
    done = [attempt.option for attempt in executed[0].attempts if attempt.m == 1]
    first = watch.roots[0] if watch.roots else None
    return outcome_of(
        done,
        problem,
        ask,
        executed,
        policies,
        metrics={
            "searches": len(watch.roots),
            "effects_seen": len(watch.effects.seen),
            **(tree_metrics(first) if first else {}),
        },
        trace={"trees": watch.trees},
        text=format_tree(first) if first else "",
    )


@dataclass(slots=True)
class Effects(Generic[S, A]):
    """What options did when they were executed.

    Attributes:
        domain: may say how an effect repeats (`Domain.again`).
        seen: option -> the last states before and after it, in the order of the first sight.
        failed: option -> the state in which it failed last.
    """

    domain: OptionDomain[S, A]
    seen: dict[A, tuple[S, S]] = field(default_factory=dict)
    failed: dict[A, S] = field(default_factory=dict)

    def falls_short(self, expected: S, state: S) -> bool:
        """Whether a state lacks what was expected."""
        falls_short = getattr(self.domain, "falls_short", None)
        return bool(falls_short(expected, state)) if falls_short else expected != state

    def is_hopeless(self, state: S, option: A) -> bool:
        """Whether an option failed, and what is held is the same as then."""
        if option not in self.failed:
            return False
        then = self.failed[option]
        return not (self.falls_short(then, state) or self.falls_short(state, then))

    def checking(
        self, ask: OptionRoles[S, A], settings: FeasibleSearchSettings, moment: str
    ) -> Check[S, A]:
        """The check `beside`, without options that are hopeless."""
        judge = beside(ask, settings, moment)

        async def check(question: OptionQuestion[S, A]) -> tuple[Sequence[A], str | None]:
            found, obstacle = await judge(question)
            state = question.tau.state
            return [one for one in found if not self.is_hopeless(state, one)], obstacle

        return check

    def expect(self, state: S, option: A) -> S | None:
        """The state after an option, if what was seen tells it."""
        if option not in self.seen:
            return None
        before, after = self.seen[option]
        again = getattr(self.domain, "again", None)
        if again is None:
            return after if state == before else None
        found: S | None = again(state, before, after)
        return found

    def dynamics(self, ask: OptionRoles[S, A]) -> Dynamics[S, A]:
        """Dynamics that ask only for what was never seen."""
        predict = predicted(ask)

        async def dynamics(
            question: OptionQuestion[S, A],
        ) -> tuple[OptionState[S, A], Mapping[str, int]]:
            tau, option = question.tau, question.option
            state = self.expect(tau.state, option)
            if state is None:
                return await predict(question)
            described = await settled(self.domain.describe(state))
            return OptionState(tau.goal, state, described, (*tau.options, option)), {}

        return dynamics

    def proposing(self, propose: Propose[S, A], most: int) -> Propose[S, A]:
        """Proposals, and after them options that worked and are not done yet on this path."""

        async def names(tau: OptionState[S, A]) -> Sequence[Candidate[A]]:
            proposed = list(await propose(tau))
            known = {one.proposed for one in proposed} | set(tau.options)
            worked = (option for option in reversed(self.seen) if option not in known)
            return [*proposed, *(Candidate(one, one, "it worked") for one in islice(worked, most))]

        return names


class Watch(Generic[S, A]):
    """The searches of a trial, between which options are executed.

    Args:
        ask: makes the roles.
        settings: of the searches.

    Attributes:
        effects: what options did so far.
        roots: the root of every search, in order.
        trees: the tree of every search as it was then, for the trace.
    """

    def __init__(self, ask: OptionRoles[S, A], settings: FeasibleSearchSettings) -> None:
        self._ask = ask
        self._settings = settings
        self.effects: Effects[S, A] = Effects(ask.domain)
        self._world_model = WorldModel(dynamics=self.effects.dynamics, moment=NOW, judged=PREDICTED)
        self._propose = self.effects.proposing(ask.propose(settings.k, NOW), settings.k)
        self.roots: list[Node[Any, Any]] = []
        self.trees: list[dict[str, Any]] = []

    async def execute(self, run: Executing[S, A]) -> None:
        """Plans and executes from the start of one world to its end."""
        kept: OptionNode[S, A] | None = None
        planned = idle = 0
        while run.goes_on and idle < IDLE:
            root = await self._plan(await run.state(), kept)
            path = best_path(root)
            idle = 0 if path else idle + 1
            if not path:
                self.effects.failed.clear()
            kept, here = None, root
            for edge in path:
                before = run.episode.state
                await run.execute(edge.action, planned, judge=self._watched)
                planned += 1
                if not run.goes_on:
                    break
                after = run.episode.state
                shown = run.attempts[-1].shown
                if shown:
                    self.effects.seen[edge.action] = (before, after)
                else:
                    self.effects.failed[edge.action] = after
                if not shown or self.effects.falls_short(_predicted(edge), after):
                    if after == before:
                        kept = _without(here, edge)
                    break
                if edge.node is None:
                    break
                here = edge.node

    async def _watched(self, question: PolicyQuestion[S, A]) -> Verdict:
        """What the real state shows of an option; one that the world refuses is left at once."""
        if is_shown(self._ask.domain, question):
            return "done"
        state = question.before.state
        for move in question.moves:
            refused = move.step.obstacle is not None and move.step.state == state
            if refused and move.action == question.option:
                return "leave"
            state = move.step.state
        return "again"

    async def _plan(
        self, tau: OptionState[S, A], kept: OptionNode[S, A] | None
    ) -> OptionNode[S, A]:
        """Searches from the real state, in what is left of the last tree."""
        model: TreeOfOptions[S, A] = TreeOfOptions(
            tau,
            self._ask,
            self._settings,
            world_model=self._world_model,
            check=self.effects.checking,
            propose=self._propose,
        )
        root = await model.search(kept)
        self.roots.append(root)
        self.trees.append({"visits": root.visits, "value": root.value, **node_json(root)})
        return root


def _predicted(edge: Any) -> Any:  # noqa: ANN401 - an edge of ToO's tree
    return edge.step.state.tau.state


def _without(node: OptionNode[S, A], edge: Any) -> OptionNode[S, A] | None:  # noqa: ANN401
    """A node without an option that changed nothing; None if no other is left."""
    node.edges = [one for one in node.edges or () if one is not edge]
    return node if node.edges else None
