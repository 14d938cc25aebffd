"""Tree of Options: Monte Carlo tree search over options (Section 3.1, Algorithm 1)."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING

from llm_planning.planners.tree_of_options.world import scalar_reward, weights
from llm_planning.roles import together
from llm_planning.search import (
    Node,
    Rollout,
    argmax,
    discounted_returns,
    mean_returns,
    reward_first,
    search,
    select_by_ucb,
    zero_first,
)

if TYPE_CHECKING:
    from collections.abc import Mapping

    from llm_planning.planners.tree_of_options.generator import Candidate, OptionGenerator
    from llm_planning.planners.tree_of_options.settings import SearchSettings
    from llm_planning.planners.tree_of_options.trajectory import Option, Trajectory
    from llm_planning.planners.tree_of_options.world import WorldModel

_RETURNS = {"sum": discounted_returns, "mean": mean_returns}
_FIRST_PLAY = {"zero": zero_first, "reward": reward_first}


@dataclass(slots=True)
class Step:
    """What a node of the tree stores.

    Attributes:
        trajectory: τ_i.
        candidate: how ω_i came about; None at the root.
        scores: r_q(τ_{i-1}, ω_i) by question; empty at the root.
        clipped: item -> count that ω_i takes away although it was not there.
        done: whether ŝ_i is terminal; None until somebody asks.
        dead_end: whether options were proposed here and none was left.
        left_out: candidates that gave no child: infeasible ones that were dropped, and repetitions.
    """

    trajectory: Trajectory
    candidate: Candidate | None = None
    scores: Mapping[str, float] = field(default_factory=dict)
    clipped: Mapping[str, int] = field(default_factory=dict)
    done: bool | None = None
    dead_end: bool = False
    left_out: list[Candidate] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class _Value:
    """Where an option leads and how that is judged."""

    trajectory: Trajectory
    clipped: Mapping[str, int]
    scores: Mapping[str, float]


class TreeOfOptions:
    """One search.

    Depth is counted in options from the root, and d is the most there can be: Section 3.1 iii ends
    a rollout at L = d. (The condition l ≤ L of Algorithm 1 would let a trajectory grow to L + 1
    options, one more than the τ_L that the algorithm returns.)

    The candidates of a node are a set, as in Algorithm 1: Q(τ, ω) and N(τ, ω) belong to an option,
    so where two of the k candidates are the same option, or become so by repair, there is one edge.

    Args:
        generator: proposes options and checks them.
        world: predicts states, rewards and termination.
        settings: of the search.
    """

    def __init__(
        self, *, generator: OptionGenerator, world: WorldModel, settings: SearchSettings
    ) -> None:
        self._generator = generator
        self._world = world
        self._settings = settings
        self._weights = weights(settings)

    async def plan(self, start: Trajectory) -> Node[Step]:
        """SEARCH: runs the iterations.

        Args:
            start: τ_0. Its state is not asked whether it is terminal (Algorithm 1, line 5).

        Returns:
            The root of the tree.
        """
        settings = self._settings
        root = Node(Step(start, done=False))
        await search(
            root,
            select=select_by_ucb(c=settings.c, first_play=_FIRST_PLAY[settings.first_play]),
            simulate=self.simulate,
            returns=partial(_RETURNS[settings.return_], gamma=settings.gamma),
            iterations=settings.iterations,
            width=settings.width,
        )
        return root

    async def simulate(self, leaf: Node[Step]) -> Rollout[Step]:
        """ROLLOUT: follows the best immediate reward from a leaf until terminal or at depth d.

        Args:
            leaf: a node without children.

        Returns:
            The nodes walked. They stay in the tree with their siblings (Appendix A.7).
        """
        node = leaf
        walked: list[Node[Step]] = []
        while not await self._is_end(node):
            await self.expand(node)
            if node.children:
                node = node.children[argmax([child.reward for child in node.children])]  # eq. 5
                walked.append(node)
        return Rollout(walked)

    async def expand(self, node: Node[Step]) -> None:
        """Proposes k options and adds those that pass, with their states and rewards.

        Each candidate goes its own way through check (eq. 3), dynamics (eq. 1) and reward (eq. 6)
        and waits for no other. The children are in the order of the proposal (eq. 2). A node that
        gets none is a dead end.
        """
        step = node.payload
        values: dict[Option, _Value] = {}
        claimed: set[Option] = set()

        async def consider(proposed: Candidate) -> Candidate:
            candidate = await self._generator.check(step.trajectory, proposed)
            option = candidate.option
            if option is not None and option not in claimed:
                claimed.add(option)
                values[option] = await self._value(step.trajectory, option)
            return candidate

        step.left_out = []
        first: dict[Option, Candidate] = {}
        for proposed in await self._generator.propose(step.trajectory):
            if first.setdefault(proposed.proposed, proposed) is not proposed:
                step.left_out.append(proposed)
        for candidate in await together(map(consider, first.values())):
            value = None if candidate.option is None else values.pop(candidate.option, None)
            if value is None:
                step.left_out.append(candidate)
            else:
                node.add_child(
                    Step(value.trajectory, candidate, value.scores, value.clipped),
                    reward=scalar_reward(value.scores, self._weights),
                )
        step.dead_end = not node.children

    async def _value(self, trajectory: Trajectory, option: Option) -> _Value:
        """Predicts ŝ_i of an option, then its scores in the light of ŝ_i."""
        transition = await self._world.dynamics(trajectory, option)
        scores = await self._world.scores(trajectory, option, transition.state)
        return _Value(trajectory.after(option, transition.state), transition.clipped, scores)

    async def _is_end(self, node: Node[Step]) -> bool:
        """Whether a rollout ends here; asks for termination the first time."""
        step = node.payload
        if step.done is None:
            step.done = await self._world.is_terminal(step.trajectory)
        return step.done or step.dead_end or node.depth >= self._settings.d
