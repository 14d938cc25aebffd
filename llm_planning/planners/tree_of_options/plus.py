"""ToO+ (ours): Tree of Options that watches the execution.

It differs from ToO in four things. Whether an option is done says β_ω, as in every planner.

1. Online planning. As soon as the real state falls short of the prediction, it plans again from
   what is there. The part of the tree that still holds is kept: the rest of a node whose option
   changed nothing, and everything below an option that did what was predicted.
2. Effects that were seen are predicted exactly from then on: in all executions of the trial, and
   with `effects=FOLDER` in all trials that share the folder. An option that failed is not
   considered again as long as nothing else is held and nothing new is in view.
3. A prerequisite stands beside an option that was judged infeasible, and does not replace it.
4. Options that worked are proposed as well.
"""

from __future__ import annotations

from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any, Generic

from llm_base.files import at_home
from llm_planning.domain import A, S
from llm_planning.execution.options import (
    Candidate,
    Executing,
    OptionState,
    tau_of,
)
from llm_planning.execution.whole_plans import executed, outcome_of
from llm_planning.planners.tree_of_options.algorithm import TreeOfOptions
from llm_planning.planners.tree_of_options.asking import OptionAsking
from llm_planning.planners.tree_of_options.effects import Effects, EffectStore
from llm_planning.planners.tree_of_options.outcome import node_json, tree_metrics
from llm_planning.search import best_path, format_tree

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from llm_planning.execution.options import OptionDomain, PolicyQuestion
    from llm_planning.outcome import Outcome
    from llm_planning.planners.tree_of_options.algorithm import OptionNode
    from llm_planning.planners.tree_of_options.settings import (
        FeasibleSearchSettings,
        PlusSettings,
    )
    from llm_planning.search import Node
    from llm_planning.specs import Run

IDLE = 3
"""So many searches in a row may find no option before an execution is given up."""


async def too_plus(run: Run[OptionDomain[Any, Any], PlusSettings]) -> Outcome:
    """Searches and executes in turn, until the goal is reached or the attempts are used up."""
    world, settings = run.world, run.settings
    ask: OptionAsking[Any, Any] = OptionAsking(world, run.engines, settings, seed=run.seed)
    store = None if settings.effects == "none" else EffectStore(Path(at_home(settings.effects)))
    effects: Effects[Any, Any] = Effects(world)
    if store is not None:
        effects.seen.update(store.read(world))
    watch: Watch[Any, Any] = Watch(ask, settings, effects)
    executions = await executed(watch.execute, ask, settings)
    if store is not None:
        store.add(world, effects.seen)
    first = watch.roots[0] if watch.roots else None
    return outcome_of(
        executions.options,
        run,
        ask,
        executions,
        metrics={
            "searches": len(watch.roots),
            "effects_seen": len(watch.effects.seen),
            **(tree_metrics(first) if first else {}),
        },
        trace={"trees": watch.trees},
        text=format_tree(first) if first else "",
    )


class WatchedTree(TreeOfOptions[S, A]):
    """The search, with the `effects` that options had when they were executed."""

    def __init__(
        self,
        start: OptionState[S, A],
        ask: OptionAsking[S, A],
        settings: FeasibleSearchSettings,
        effects: Effects[S, A],
    ) -> None:
        # A prerequisite is asked for always: it stands beside the option.
        super().__init__(start, ask, settings.model_copy(update={"infeasible": "repair"}))
        self._effects = effects

    async def propose(self, tau: OptionState[S, A]) -> Sequence[Candidate[A]]:
        """Names candidates, and after them options that worked, not done yet on this path."""
        proposed = list(await super().propose(tau))
        known = {candidate.proposed for candidate in proposed} | set(tau.options)
        worked = (option for option in reversed(self._effects.seen) if option not in known)
        most = self.settings.k
        return [
            *proposed,
            *(Candidate(option, option, "it worked") for option in islice(worked, most)),
        ]

    async def check(self, tau: OptionState[S, A], option: A) -> tuple[Sequence[A], str | None]:
        """Puts the prerequisite beside an infeasible ω̃, and leaves out what is hopeless."""
        options, obstacle = await super().check(tau, option)
        beside = options if obstacle is None else (option, *options)
        return [
            option for option in beside if not self._effects.is_hopeless(tau.state, option)
        ], obstacle

    async def predict(
        self, tau: OptionState[S, A], option: A
    ) -> tuple[OptionState[S, A], Mapping[str, int]]:
        """Predicts only what was never seen."""
        state = self._effects.expect(tau.state, option)
        if state is None:
            return await super().predict(tau, option)
        return await tau_of(self._domain, state, (*tau.options, option)), {}


class Watch(Generic[S, A]):
    """The searches of a trial, between which options are executed.

    Attributes:
        effects: what options did so far.
        roots: the root of every search, in order.
        trees: the tree of every search as it was then, for the trace.
    """

    def __init__(
        self, ask: OptionAsking[S, A], settings: FeasibleSearchSettings, effects: Effects[S, A]
    ) -> None:
        self._ask = ask
        self._settings = settings
        self.effects = effects
        self.roots: list[Node[Any, Any]] = []
        self.trees: list[dict[str, Any]] = []

    async def execute(self, executing: Executing[S, A]) -> None:
        """Plans and executes from the start of one world to its end."""
        kept: OptionNode[S, A] | None = None
        planned = idle = 0
        while executing.goes_on and idle < IDLE:
            root = await self._plan(await executing.state(), kept)
            path = best_path(root)
            idle = 0 if path else idle + 1
            if not path:
                self.effects.failed.clear()
            kept, here = None, root
            for edge in path:
                before = executing.episode.state
                await executing.execute(edge.action, planned, leaves=_refused)
                planned += 1
                if not executing.goes_on:
                    break
                after = executing.episode.state
                effective = executing.attempts[-1].shown
                if effective:
                    self.effects.seen[edge.action] = (before, after)
                else:
                    self.effects.failed[edge.action] = after
                if not effective or self.effects.falls_short(_predicted(edge), after):
                    if after == before:
                        kept = _without(here, edge)
                    break
                if edge.node is None:
                    break
                here = edge.node

    async def _plan(
        self, tau: OptionState[S, A], kept: OptionNode[S, A] | None
    ) -> OptionNode[S, A]:
        """Searches from the real state, in what is left of the last tree."""
        root = await WatchedTree(tau, self._ask, self._settings, self.effects).search(kept)
        self.roots.append(root)
        self.trees.append({"visits": root.visits, "value": root.value, **node_json(root)})
        return root


def _refused(question: PolicyQuestion[Any, Any]) -> bool:
    """Whether the world refused an option in its last attempt, and nothing changed by it."""
    state = question.before.state
    for move in question.moves:
        refused = move.step.obstacle is not None and move.step.state == state
        if refused and move.action == question.option:
            return True
        state = move.step.state
    return False


def _predicted(edge: Any) -> Any:  # noqa: ANN401 - an edge of ToO's tree
    return edge.step.state.tau.state


def _without(node: OptionNode[S, A], edge: Any) -> OptionNode[S, A] | None:  # noqa: ANN401
    """A node without an option that changed nothing; None if no other is left."""
    node.edges = [other for other in node.edges or () if other is not edge]
    return node if node.edges else None
