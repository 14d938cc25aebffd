"""The world that LLM-MCTS simulates: a home in which things may be anywhere (Algorithm 1).

A simulation draws s ~ b(s) and follows what it would see. Nodes are histories h. A history tells
apart where things of the goal were seen, and no other things: those are drawn once for each
decision, as full observations would give every simulation a tree of its own.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Final, NamedTuple, TypeAlias

from llm_planning.domain import Step
from llm_planning.environments.household.observations import observation_text
from llm_planning.environments.household.simulator import Simulator
from llm_planning.planners.any_domain.roles import Situation, Turn
from llm_planning.search import Edge, Evaluation

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Hashable, Sequence
    from random import Random

    from llm_planning.environments.household.belief import Belief
    from llm_planning.environments.household.expert import Expert
    from llm_planning.environments.household.observations import Observation
    from llm_planning.environments.household.rules import Action, Rules, State
    from llm_planning.priors import Policy
    from llm_planning.search import Backup, Node, Walk

    HomeNode: TypeAlias = Node[State, Action]
    HomeWalk: TypeAlias = Walk[State, Action]

LeafValue: TypeAlias = "Callable[[HomeWalk], Awaitable[float]]"
"""Maps a walk that ends at a leaf to the return from there on, for a reward of 1."""

FROM_BATCH: Final = 30
"""Rollouts from which a batch of arrays is faster than one after the other."""


class Past(NamedTuple):
    """What a history is to a policy.

    Attributes:
        turns: what was seen and done, oldest first.
        now: what is seen now, in words.
        belief: what someone knows who answers by rules.
    """

    turns: tuple[Turn, ...]
    now: str
    belief: Belief

    def then(self, action: Action, seen: Observation) -> Past:
        """The history after one more action and what is seen then."""
        return Past(
            (*self.turns, Turn(self.now, str(action))),
            observation_text(seen, self.belief.rules),
            self.belief.after(seen),
        )


class BelievedHome:
    """A `SearchModel` of a home.

    Args:
        rules: of the home and the goal.
        draw: draws s ~ b(s).
        actions: the actions of a state that are searched.
        past: the history at the root.
        policy: π(a|h); None for the uniform one.
        see: what an agent sees of a state, which tells histories apart.
        value: of a new leaf.
        reward: at the goal.
    """

    def __init__(
        self,
        rules: Rules,
        *,
        draw: Callable[[Random], State],
        actions: Callable[[State], Sequence[Action]],
        past: Past,
        policy: Policy[Situation] | None,
        see: Callable[[State], Hashable],
        value: LeafValue,
        reward: float,
    ) -> None:
        self._rules = rules
        self._draw = draw
        self._actions = actions
        self._past = past
        self._policy = policy
        self._see = see
        self._value = value
        self._reward = reward

    def draw_root(self, walk: HomeWalk) -> State:
        """Draws s ~ b(s) (line 4)."""
        walk.memory = state = self._draw(walk.rng)
        return state

    async def legal(self, state: State) -> Sequence[Action]:
        """The actions of the drawn state."""
        return self._actions(state)

    async def step(self, state: State, action: Action, rng: Random) -> Step[State]:  # noqa: ARG002
        """(s', o, r, done) ~ 𝒢(s, a) (lines 15 and 30)."""
        rules = self._rules
        after = rules.after(state, action)
        assert not isinstance(after, str), after
        # Only what is put somewhere can reach the goal.
        won = len(after.held) < len(state.held) and rules.success(after)
        done = won or after.steps >= rules.limit
        return Step(after, self._reward if won else 0.0, done, self._see(after))

    async def expand(self, node: HomeNode, walk: HomeWalk) -> Sequence[Edge[State, Action]]:
        """Makes edges for the actions that the node lacks, and asks for π(a|h) (line 28)."""
        known = node.edges or []
        old = [edge.action for edge in known]
        new = [action for action in self._actions(walk.state) if action not in old]
        if not new:
            return ()
        edges = [*known, *map(Edge, new)]
        if self._policy is None:
            pi: Sequence[float] = [1.0 / len(edges)] * len(edges)
        else:
            if node.memo is None:
                node.memo = self._history(walk)
            turns, now, belief = node.memo
            names = tuple(str(edge.action) for edge in edges)
            pi = await self._policy(Situation(turns, now, names, state=belief))
        for edge, p in zip(edges, pi, strict=True):
            edge.prior = p
        return edges[len(known) :]

    def _history(self, walk: HomeWalk) -> Past:
        """The history at the end of a walk; that of the node before is known.

        Where actions alone tell histories apart, it is what the first walks saw that came along.
        """
        if not walk.edges:
            return self._past
        before: Past = walk.nodes[-2].memo
        return before.then(walk.edges[-1].action, self._rules.observe(walk.state))

    async def evaluate(
        self,
        node: HomeNode,  # noqa: ARG002 - the walk ends there
        walk: HomeWalk,
    ) -> Evaluation[State, Action]:
        """Returns the value of a leaf."""
        return Evaluation(tail=self._reward * await self._value(walk))


class UniformRollouts:
    """Rollouts of uniform actions (lines 10 to 18).

    Few are rolled out one after the other. From `FROM_BATCH` on, those of all leaves that are
    waiting at the same moment are one batch. Each leaf has draws of its own, so its value does not
    depend on the company.

    Args:
        rules: of the home and the goal.
        each: rollouts of a leaf; their mean is its value.
        depth: actions from the root after which a rollout ends.
        gamma: γ.
        width: the most leaves that wait at the same moment.
    """

    def __init__(self, rules: Rules, *, each: int, depth: int, gamma: float, width: int) -> None:
        self._simulator = Simulator(rules)
        self._each = each
        self._depth = depth
        self._gamma = gamma
        self._batched = each * width >= FROM_BATCH
        self._waiting: list[tuple[State, int, int, asyncio.Future[float]]] = []

    async def __call__(self, walk: HomeWalk) -> float:
        """Returns the mean of the rollouts."""
        depth = self._depth - walk.depth
        if not self._batched:
            one, rng = self._simulator.rollout, walk.rng
            returns = [
                one(walk.state, depth=depth, gamma=self._gamma, rng=rng) for _ in range(self._each)
            ]
            return sum(returns) / self._each
        loop = asyncio.get_running_loop()
        if not self._waiting:
            loop.call_soon(self._roll_out)
        value: asyncio.Future[float] = loop.create_future()
        self._waiting.append((walk.state, depth, walk.rng.getrandbits(32), value))
        return await value

    def _roll_out(self) -> None:
        waiting, self._waiting = self._waiting, []
        states, depths, seeds, values = zip(*waiting, strict=True)
        try:
            returns = self._simulator.rollouts(
                states, each=self._each, depths=depths, gamma=self._gamma, seeds=seeds
            )
        # A callback's error would reach nobody, and the leaves would wait for ever.
        except Exception as error:
            for value in values:
                if not value.done():
                    value.set_exception(error)
            return
        for value, mean in zip(values, returns.mean(axis=1).tolist(), strict=True):
            if not value.done():
                value.set_result(mean)


class GoalRegression:
    """Rollouts by goal regression: what an expert gets who knows the drawn state.

    Its plan goes back from the goal to what has to be done first. A uniform rollout meets the goal
    once in thousands; this one always does, if the time allows.

    Args:
        expert: plans.
        rules: of the home and the goal.
        gamma: γ.
    """

    def __init__(self, expert: Expert, rules: Rules, *, gamma: float) -> None:
        self._expert = expert
        self._limit = rules.limit
        self._gamma = gamma

    def of(self, state: State) -> float:
        """V(s) = γ^(n - 1) with the n actions of the expert; 0 if the time does not allow them."""
        n = self._expert.length(state)
        return self._gamma ** (n - 1) if n <= self._limit - state.steps else 0.0

    async def __call__(self, walk: HomeWalk) -> float:
        """Returns V(s)."""
        return self.of(walk.state)


def by_regret(value: GoalRegression, *, gamma: float, reward: float) -> Backup[State, Action]:
    """Q(h,a) is the mean of R - V(s) over the visits, with V(s) as a control variate (ours).

    Some drawn states are near the goal and some are far from it, whatever is done. V(s) is what
    someone gets there who knows the state. As s is drawn before the action is chosen, the actions
    of a history compare as before, without that luck. Q is minus the regret of not knowing the
    state: no action has more than 0, which an action has before its first visit.

    Args:
        value: V.
        gamma: γ.
        reward: at the goal.
    """

    def back_up(walk: HomeWalk) -> None:
        states = (walk.memory, *(step.state for step in walk.steps))
        r = walk.tail
        # The last state's V is not needed.
        for edge, step, state in reversed(list(zip(walk.edges, walk.steps, states, strict=False))):
            r = step.reward + gamma * r
            edge.value += (r - reward * value.of(state) - edge.value) / edge.visits
        root = walk.nodes[0]
        root.value += (r - root.value) / root.visits

    return back_up
