"""Tree of Options: Monte Carlo tree search over options (Section 3.1, Algorithm 1)."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Generic

from llm_planning.planners.tree_of_options.trajectory import Candidate, Considered, Trajectory
from llm_planning.planners.tree_of_options.world import scalar_reward, weights
from llm_planning.roles import together
from llm_planning.search import (
    Edge,
    Leaf,
    Node,
    Step,
    by_means,
    by_sums,
    search,
    select_by_ucb,
)
from llm_planning.search.tree import A, S

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from random import Random

    from llm_planning.planners.tree_of_options.settings import SearchSettings
    from llm_planning.planners.tree_of_options.world import Check, Dynamics
    from llm_planning.roles import Role
    from llm_planning.search import Walk

_BACKUPS = {"sum": by_sums, "mean": by_means}


@dataclass(frozen=True, slots=True)
class Reached(Generic[S, A]):
    """A state of the search: τ_i, and how ω_i came about.

    Attributes:
        trajectory: τ_i.
        candidate: ω_i; None at the root.
        scores: r_q(τ_{i-1}, ω_i) by question; empty at the root.
        clipped: item -> count that ω_i takes away although it was not there.
    """

    trajectory: Trajectory[S, A]
    candidate: Candidate[A] | None = None
    scores: Mapping[str, float] = field(default_factory=dict, hash=False)
    clipped: Mapping[str, int] = field(default_factory=dict, hash=False)


@dataclass(slots=True)
class Memo(Generic[A]):
    """What is kept at a node.

    Attributes:
        done: whether ŝ_i is terminal; None until somebody asks.
        dead_end: whether options were proposed here and none was left.
        left_out: candidates that gave no edge: infeasible ones that were dropped, and repetitions.
    """

    done: bool | None = None
    dead_end: bool = False
    left_out: list[Candidate[A]] = field(default_factory=list)


@dataclass(frozen=True, slots=True, kw_only=True)
class TreeOfOptions(Generic[S, A]):
    """One search, as a composition of roles.

    Depth is counted in options from the root, and d is the most there can be: Section 3.1 iii ends
    a rollout at L = d. (The condition l ≤ L of Algorithm 1 would let a trajectory grow to L + 1
    options, one more than the τ_L that the algorithm returns.)

    The candidates of a node are a set, as in Algorithm 1: Q(τ, ω) and N(τ, ω) belong to an option,
    so where two of the k candidates are the same option, or become so by repair, there is one edge.

    Attributes:
        propose: names k candidates (eq. 2).
        check: what each of them becomes (eq. 3).
        dynamics: where an option leads (eq. 1).
        reward: the scores r_q of an option and the state it leads to (eq. 6).
        termination: whether a trajectory's state is terminal (eq. 4).
        settings: of the search.
    """

    propose: Role[Trajectory[S, A], Sequence[Candidate[A]]]
    check: Check[S, A]
    dynamics: Dynamics[S, A]
    reward: Role[Considered[S, A], Mapping[str, float]]
    termination: Role[Trajectory[S, A], bool]
    settings: SearchSettings

    async def plan(self, start: Trajectory[S, A]) -> Node[Reached[S, A], A]:
        """SEARCH: runs the iterations.

        Args:
            start: τ_0. Its state is not asked whether it is terminal (Algorithm 1, line 5).

        Returns:
            The root of the tree.
        """
        settings = self.settings
        root: Node[Reached[S, A], A] = Node()
        root.memo = Memo(done=False)
        await search(
            root,
            _Model(self, Reached(start)),
            select=select_by_ucb(c=settings.c),
            backup=_BACKUPS[settings.return_](gamma=settings.gamma),
            simulations=settings.iterations,
            width=settings.width,
        )
        return root

    async def expand(
        self, node: Node[Reached[S, A], A], here: Reached[S, A], depth: int
    ) -> list[Edge[Reached[S, A], A]]:
        """Proposes k options and returns edges for those that pass, states and rewards known.

        Each candidate goes its own way through check (eq. 3), dynamics (eq. 1) and reward (eq. 6)
        and waits for no other. The edges are in the order of the proposal (eq. 2). A node that gets
        none is a dead end.
        """
        if node.memo is None:
            node.memo = Memo()
        memo: Memo[A] = node.memo
        if memo.done is None:
            memo.done = await self.termination(here.trajectory)
        if memo.done or depth >= self.settings.d:
            return []
        steps: dict[A, Step[Reached[S, A]]] = {}
        claimed: set[A] = set()

        async def consider(proposed: Candidate[A]) -> Candidate[A]:
            question = Considered(here.trajectory, proposed.proposed)
            option, obstacle = await self.check(question)
            if option is not None and option not in claimed:
                claimed.add(option)
                steps[option] = await self.predict(here, option)
            return replace(proposed, option=option, obstacle=obstacle)

        memo.left_out = []
        first: dict[A, Candidate[A]] = {}
        for proposed in await self.propose(here.trajectory):
            if first.setdefault(proposed.proposed, proposed) is not proposed:
                memo.left_out.append(proposed)
        edges = []
        for candidate in await together(map(consider, first.values())):
            step = None if candidate.option is None else steps.pop(candidate.option, None)
            if candidate.option is None or step is None:
                memo.left_out.append(candidate)
                continue
            step = step._replace(state=replace(step.state, candidate=candidate))
            first_play = step.reward if self.settings.first_play == "reward" else 0.0
            edges.append(Edge(candidate.option, first_play=first_play, step=step))
        memo.dead_end = not edges
        return edges

    async def predict(self, here: Reached[S, A], option: A) -> Step[Reached[S, A]]:
        """Where an option leads (eq. 1), then its scores in the light of that (eq. 6)."""
        before = here.trajectory
        following, clipped = await self.dynamics(Considered(before, option))
        judged = replace(following, options=before.options)
        scores = await self.reward(Considered(judged, option, before=before))
        reached = Reached(following, Candidate(option, option), scores, clipped)
        return Step(reached, scalar_reward(scores, weights(self.settings)))


@dataclass(frozen=True, slots=True)
class _Model(Generic[S, A]):
    """The predicted world as the search asks for it; nothing in it is drawn."""

    planner: TreeOfOptions[S, A]
    start: Reached[S, A]

    def draw_root(self, walk: Walk[Reached[S, A], A]) -> Reached[S, A]:  # noqa: ARG002
        """τ_0."""
        return self.start

    async def legal(self, state: Reached[S, A]) -> Sequence[A]:
        """Never asked: a predicted state is a function of the options, so all edges are legal."""
        raise RuntimeError(f"a predicted state is certain, but {state.trajectory.history} is not")

    async def expand(
        self, node: Node[Reached[S, A], A], walk: Walk[Reached[S, A], A]
    ) -> Sequence[Edge[Reached[S, A], A]]:
        """Expands a leaf."""
        return await self.planner.expand(node, walk.state, walk.depth)

    async def evaluate(
        self, node: Node[Reached[S, A], A], walk: Walk[Reached[S, A], A]
    ) -> Leaf[Reached[S, A], A]:
        """ROLLOUT: follows the best immediate reward until terminal or at depth d.

        What is walked stays in the tree with its siblings (Appendix A.7).
        """
        walked: list[Edge[Reached[S, A], A]] = []
        while node.edges:
            edge = max(node.edges, key=_reward_of)  # eq. 5
            walked.append(edge)
            step = _certain(edge)
            node = edge.follow(step)
            depth = walk.depth + len(walked)
            node.edges = await self.planner.expand(node, step.state, depth)
        return Leaf(walked)

    async def step(self, state: Reached[S, A], action: A, rng: Random) -> Step[Reached[S, A]]:  # noqa: ARG002
        """Predicts an option."""
        return await self.planner.predict(state, action)


def _certain(edge: Edge[Reached[S, A], A]) -> Step[Reached[S, A]]:
    if edge.step is None:
        raise RuntimeError(f"{edge!r} was made without a prediction")
    return edge.step


def _reward_of(edge: Edge[Reached[S, A], A]) -> float:
    return _certain(edge).reward
