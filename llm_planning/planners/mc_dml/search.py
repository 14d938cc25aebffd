"""MC-DML's search for one move: Algorithm 1, on the tree and the driver of `llm_planning.search`.

SIMULATE descends by SELECTACTION until it takes an action for the first time, and ROLLOUT goes on
from there. The driver descends to a node without children, so a leaf is one of two things:

- an action that was never taken: its transition is played, and the rollout goes on from s';
- a state that is entered a second time (or the root): only now does it ask for π and get a child
  for each action, of which the best is taken for the first time, as above.

Either way one action's N goes from 0 to 1, and the driver backs up every edge of the path with
R = r + γ R' (lines 26 to 29). A state that only rollouts have seen asks for nothing.
"""

from __future__ import annotations

import asyncio
from collections import deque
from dataclasses import dataclass
from functools import partial
from random import Random
from time import perf_counter
from typing import TYPE_CHECKING, TypeAlias

from llm_planning.environments.textgame.game import Ending, Observation
from llm_planning.planners.mc_dml.cross_trial import CrossTrialMemory
from llm_planning.planners.mc_dml.roles import Situation, Trajectory, Turn
from llm_planning.search import Node, Rollout, discounted_returns, path_to, search

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Coroutine, Iterable, Sequence
    from typing import Any

    from llm_planning.environments.textgame.game import TextGame, Transition
    from llm_planning.planners.mc_dml.roles import Prior, Reflect

_SECONDS_AT_A_STRETCH = 0.005
"""Of simulating, before other searches and the engine get a turn of the event loop."""

Select: TypeAlias = "Callable[[Node[Step]], Node[Step]]"


@dataclass(frozen=True, slots=True, kw_only=True)
class Agent:
    """A search as a composition; the ablations and the baselines replace its parts (Table 3).

    Attributes:
        prior: π(·|s).
        past: turns of ℳ_i before o_t; 1 makes (o_{t-1}, a_{t-1}, o_t), 0 leaves ℳ_i out.
        reflect: who fills ℳ_c; nobody if None.
        k: most reflections of a root.
        select: picks the child of a node that was visited (eq. 1 or 3).
        depths: planning horizons H, one after the other while the best Q of the root is 0.
        gamma: γ.
        simulations_per_action: simulations of a search are this many for each action of its root.
        width: simulations in flight at once; 1 is Algorithm 1, step for step.
    """

    prior: Prior
    past: int
    reflect: Reflect | None
    k: int
    select: Select
    depths: tuple[int, ...]
    gamma: float
    simulations_per_action: int
    width: int


@dataclass(frozen=True, slots=True)
class Position:
    """Where a game stands when a move is to be chosen.

    Attributes:
        turns: what was played, oldest first.
        here: the transition that led here: s_0, and what the game said.
        score: the game's.
    """

    turns: tuple[Turn, ...]
    here: Transition
    score: float


@dataclass(slots=True)
class Step:
    """What a node of the tree stores; its edge's r, π, N and Q are the node's.

    Attributes:
        action: a; empty at the root.
        transition: 𝒯(s, a); None until the action is taken for the first time.
        reflections: how many there were in ℳ_c when the children's π was asked for.
    """

    action: str
    transition: Transition | None = None
    reflections: int = 0


@dataclass(frozen=True, slots=True)
class Searched:
    """What the search for one move came to.

    Attributes:
        root: of the last tree.
        depth: its H.
        simulations: of all trees.
        reflections: ℳ_c.
    """

    root: Node[Step]
    depth: int
    simulations: int
    reflections: tuple[str, ...]


@dataclass(slots=True)
class _Simulation:
    """One simulation, from its launch to its backup.

    What it reads is fixed at its launch, and what it learns counts from its backup on, so it does
    not matter how long the answers of several simulations in flight take.

    Attributes:
        reflections: ℳ_c at the launch.
        draw: uniform in [0, 1).
        learnt: its reflection, if it failed and reflected.
    """

    reflections: tuple[str, ...]
    draw: Callable[[], float]
    learnt: str | None = None


class Search:
    """SEARCH(s_0), with dynamic pruning: grows trees until one finds a value, or H is d_max.

    Args:
        agent: how to search.
        game: where every transition is taken.
        position: the root.
        seed: of the rollouts.
    """

    def __init__(self, agent: Agent, game: TextGame, position: Position, *, seed: str) -> None:
        self._agent = agent
        self._game = game
        self._position = position
        self._random = Random(seed)
        self._memory = CrossTrialMemory(agent.reflect, k=agent.k)
        self._in_flight: deque[_Simulation] = deque()
        self._depth = 0
        self._pause_at = perf_counter() + _SECONDS_AT_A_STRETCH

    async def run(self) -> Searched:
        """Searches with H = d_min, and again with H + Δd while the best Q of the root is 0.

        ℳ_c belongs to the root and is kept when its tree is grown anew.

        Raises:
            ValueError: nothing can be done here.
            TextGameError: the game failed.
            Exception: of whoever answers, unchanged.
        """
        actions = await self._game.actions(self._position.here.state)
        if not actions:
            raise ValueError("there is nothing to search: no action is valid here")
        simulations = self._agent.simulations_per_action * len(actions)
        total = 0
        for depth in self._agent.depths:
            root = await self._grow(depth, simulations)
            total += simulations
            if best_value(root) != 0.0:
                break
        return Searched(root, self._depth, total, self._memory.reflections)

    async def _grow(self, depth: int, simulations: int) -> Node[Step]:
        """A tree from scratch (lines 4 to 6)."""
        self._depth = depth
        root = Node(Step("", self._position.here))
        await search(
            root,
            select=self._agent.select,
            simulate=self._launch,
            returns=partial(discounted_returns, gamma=self._agent.gamma),
            iterations=simulations,
            width=self._agent.width,
            ready=self._renewal,
            on_iteration=self._backed_up,
        )
        return root

    # SIMULATE ------------------------------------------------------------------------------------

    def _launch(self, leaf: Node[Step]) -> Coroutine[Any, Any, Rollout[Step]]:
        simulation = _Simulation(
            self._memory.reflections, Random(self._random.getrandbits(64)).random
        )
        self._in_flight.append(simulation)
        return self._simulate(leaf, simulation)

    def _backed_up(self, _number: int) -> None:
        """Simulations are backed up in the order of their launch, and ℳ_c grows with them."""
        learnt = self._in_flight.popleft().learnt
        if learnt is not None:
            self._memory.add(learnt)

    async def _simulate(self, leaf: Node[Step], simulation: _Simulation) -> Rollout[Step]:
        """What SIMULATE does from a leaf on (lines 10 to 25)."""
        if perf_counter() >= self._pause_at:
            await asyncio.sleep(0)
            self._pause_at = perf_counter() + _SECONDS_AT_A_STRETCH
        transition = leaf.payload.transition
        if transition is None:
            return Rollout(tail=await self._take(leaf, simulation))
        # Line 10: a failure was reflected on when the rollout of the first visit began with it.
        if transition.ending is not None or leaf.depth == self._depth:
            return Rollout()
        actions = await self._game.actions(transition.state)
        if not actions:
            return Rollout()
        pi = await self._pi(leaf, actions, simulation.reflections)
        for action, p in zip(actions, pi, strict=True):
            leaf.add_child(Step(action), prior=p)
        leaf.payload.reflections = len(simulation.reflections)
        child = most_promising(leaf)
        return Rollout([child], tail=await self._take(child, simulation))

    async def _take(self, node: Node[Step], simulation: _Simulation) -> float:
        """Takes a node's action for the first time and rolls out (lines 19 to 22).

        Returns:
            R'.
        """
        parent = node.parent
        if parent is None or parent.payload.transition is None:
            raise RuntimeError("an action is taken before the state that it is taken in is known")
        step = node.payload
        step.transition = await self._game.step(parent.payload.transition.state, step.action)
        node.reward = step.transition.reward
        return await self._roll_out(node, step.transition, simulation)

    async def _roll_out(
        self, node: Node[Step], transition: Transition, simulation: _Simulation
    ) -> float:
        """ROLLOUT: uniform actions until the game ends or t = H (lines 43 to 56).

        Args:
            node: the last of the tree.
            transition: that led into it.
            simulation: whose draws these are.

        Returns:
            R' = Σ_j γ^j r_j.
        """
        game, draw, gamma = self._game, simulation.draw, self._agent.gamma
        walked: list[tuple[str, Transition]] = []
        value = 0.0
        weight = 1.0
        for _ in range(self._depth - node.depth):
            if transition.ending is not None:
                break
            actions = await game.actions(transition.state)
            if not actions:
                break
            action = actions[int(draw() * len(actions))]
            transition = await game.step(transition.state, action)
            walked.append((action, transition))
            value += weight * transition.reward
            weight *= gamma
        if transition.ending is Ending.FAILURE:
            await self._learn(node, walked, simulation)
        return value

    async def _learn(
        self, node: Node[Step], walked: list[tuple[str, Transition]], simulation: _Simulation
    ) -> None:
        """Reflects on a failed trajectory (lines 10 to 13 and 44 to 47)."""
        if not self._memory.has_room(simulation.reflections):
            return
        steps = [*_steps_to(node), *walked]
        if self._memory.is_new(tuple(action for action, _ in steps)):
            turns, last = await self._turns(steps)
            simulation.learnt = await self._memory.reflect(Trajectory(turns, last))

    # SELECTACTION --------------------------------------------------------------------------------

    def _renewal(self, node: Node[Step]) -> Awaitable[None] | None:
        """A node that is entered again asks for π again where ℳ_c has grown since (line 34)."""
        if node.payload.reflections == len(self._memory.reflections):
            return None
        return self._renew(node)

    async def _renew(self, node: Node[Step]) -> None:
        reflections = self._memory.reflections
        actions = tuple(child.payload.action for child in node.children)
        pi = await self._pi(node, actions, reflections)
        for child, p in zip(node.children, pi, strict=True):
            child.prior = p
        node.payload.reflections = len(reflections)

    async def _pi(
        self, node: Node[Step], actions: tuple[str, ...], reflections: tuple[str, ...]
    ) -> Sequence[float]:
        """LLM(a | ℳ_i, ℳ_c, p), with LASTPART(h) as ℳ_i (lines 33 and 34)."""
        past = self._agent.past
        turns, observation = await self._turns(_steps_to(node))
        memory = (*self._position.turns, *turns)[-past:] if past else ()
        return await self._agent.prior(Situation(memory, observation, actions, reflections))

    async def _turns(
        self, steps: Iterable[tuple[str, Transition]]
    ) -> tuple[tuple[Turn, ...], Observation]:
        """The trajectory h from the root on: its turns, and what was seen after the last one."""
        score = self._position.score
        observation = await observe(self._game, self._position.here)
        turns = []
        for action, transition in steps:
            score += transition.reward
            turns.append(Turn(observation, action, transition.reward, score))
            observation = await observe(self._game, transition)
        return tuple(turns), observation


async def observe(game: TextGame, transition: Transition) -> Observation:
    """O(s): what the game said, with `look` and `inventory` (Section 4.1)."""
    return Observation(transition.text, *await game.look(transition.state))


def most_promising(node: Node[Step]) -> Node[Step]:
    """Eq. 3 at the first visit of s: every Q and N is 0, and so is every exploration term.

    As N(s) → 0+, the terms shrink to 0 in the order of π, so the highest π decides; of equals, the
    first.
    """
    return max(node.children, key=lambda child: child.prior)


def best_value(root: Node[Step]) -> float:
    """max_a Q(s_0, a) over the actions that were taken."""
    return max(child.value for child in root.children if child.visits)


def best_action(root: Node[Step], draw: Random) -> Node[Step]:
    """argmax_a Q(s_0, a) over the actions that were taken (line 7).

    Args:
        root: of a search.
        draw: decides between actions of equal Q and equal π.
    """
    ranked = [(child.value, child.prior) for child in root.children if child.visits]
    best = max(ranked)
    return draw.choice(
        [child for child in root.children if child.visits and (child.value, child.prior) == best]
    )


def _steps_to(node: Node[Step]) -> list[tuple[str, Transition]]:
    """The actions from the root to a node, with what they did."""
    steps = [node_.payload for node_ in path_to(node)[1:]]
    return [(step.action, step.transition) for step in steps if step.transition is not None]
