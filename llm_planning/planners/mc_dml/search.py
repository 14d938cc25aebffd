"""MC-DML's search for one move: Algorithm 1, as a `SearchModel`.

SIMULATE descends by SELECTACTION until it takes an action for the first time, and ROLLOUT goes on
from there. A state gets π and its edges when a simulation enters it for the second time (the root
at once). So the search never asks for π of a state that only rollouts have seen. R = r + γ R' is
backed up along the path (lines 26 to 29).

A simulation reads ℳ_c as it is at its launch, and adds its own reflection at its backup. So the
tree does not depend on how long the answers of several simulations in flight take.
"""

from __future__ import annotations

from dataclasses import dataclass
from operator import attrgetter
from typing import TYPE_CHECKING, TypeAlias

from llm_planning.domain import Step
from llm_planning.environments.textgame.game import Ending, Observation, Transition
from llm_planning.planners.any_domain.decisions import visited
from llm_planning.planners.mc_dml.roles import GameSituation, GameTurn, Trajectory
from llm_planning.search import Edge, Evaluation, Node, Walk, search
from llm_planning.trace import tracing

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Iterable, Sequence
    from random import Random

    from llm_planning.environments.textgame.domain import TextGameDomain
    from llm_planning.planners.mc_dml.roles import GamePolicy, Reflect
    from llm_planning.search import Backup, Select

GameNode: TypeAlias = Node[Transition, str]
GameEdge: TypeAlias = Edge[Transition, str]
GameWalk: TypeAlias = Walk[Transition, str]


@dataclass(frozen=True, slots=True, kw_only=True)
class SearchParts:
    """The parts of a search. The ablations and the baselines replace some of them (Table 3).

    Attributes:
        prior: π(·|s).
        past: turns of ℳ_i before o_t; 1 makes (o_{t-1}, a_{t-1}, o_t), 0 leaves ℳ_i out.
        reflect: writes the reflections of ℳ_c.
        k: the most reflections of a root; 0 leaves ℳ_c out.
        select: picks an edge of a state (eq. 1 or 3).
        depths: planning horizons H, tried in order while the best Q of the root is 0.
        gamma: γ.
        simulations_per_action: a search runs so many simulations for each action of its root.
        width: simulations in flight at once; 1 is Algorithm 1, step for step.
        backup: updates Q along a simulation.
        reward: r of a transition, as the search counts it.
        reflects_on: the endings of simulations that are reflected on.
        stuck: the actions where the game goes on and none is valid.
    """

    prior: GamePolicy
    past: int
    reflect: Reflect
    k: int
    select: Select[Transition, str]
    depths: tuple[int, ...]
    gamma: float
    simulations_per_action: int
    width: int
    backup: Backup[Transition, str]
    reward: Callable[[Transition], float] = attrgetter("reward")
    reflects_on: frozenset[Ending] = frozenset({Ending.FAILURE})
    stuck: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Position:
    """The point of a game from which a search starts.

    Attributes:
        turns: the moves so far, oldest first.
        here: s_0 of the search, with what the game said.
        score: the game's score.
    """

    turns: tuple[GameTurn, ...]
    here: Transition
    score: float


@dataclass(frozen=True, slots=True)
class SearchResult:
    """The result of the search for one move.

    Attributes:
        root: of the last tree. The `memo` of a node is the length of ℳ_c when the search asked for
            the node's π.
        depth: H of the last tree.
        simulations: of all trees.
        reflections: ℳ_c at the end.
    """

    root: GameNode
    depth: int
    simulations: int
    reflections: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class CrossTrialMemory:
    """ℳ_c, the cross-trial memory of one root: reflections on failed simulations (Section 3.1).

    It holds at most k different reflections; then reflecting stops (Section 4.1). A trajectory is
    reflected on only once, because the same actions from the same root fail for the same reason.
    Simulations in flight together do not see each other's reflections.

    Attributes:
        reflections: ℳ_c, oldest first. It only grows, so its length identifies it.
        failed: action sequences from the root on that already have a reflection.
    """

    reflections: tuple[str, ...] = ()
    failed: frozenset[tuple[str, ...]] = frozenset()

    def with_lesson(self, lesson: Lesson, *, k: int) -> CrossTrialMemory:
        """ℳ_c ← ℳ_c + reflection (line 12), if the reflection is new and ℳ_c has fewer than k."""
        known = self.reflections
        new = lesson.reflection not in known and len(known) < k
        reflections = (*known, lesson.reflection) if new else known
        return CrossTrialMemory(reflections, self.failed | {lesson.actions})


@dataclass(frozen=True, slots=True)
class Lesson:
    """A reflection on a failed simulation.

    Attributes:
        actions: of the simulation, from the root on.
        reflection: the sentence.
    """

    actions: tuple[str, ...]
    reflection: str

    def __str__(self) -> str:
        return self.reflection


async def search_move(
    parts: SearchParts, world: TextGameDomain, position: Position, *, rng: Random
) -> SearchResult:
    """SEARCH(s_0) with dynamic pruning: H = d_min, and H + Δd while the best Q of the root is 0.

    Every H grows a tree from scratch (lines 4 to 6). ℳ_c belongs to the root, so all its trees
    share it.

    Raises:
        ValueError: the position has no valid action.
        TextGameError: the game failed.
        Exception: an error of a role, unchanged.
    """
    actions = await world.actions(position.here) or parts.stuck
    if not actions:
        raise ValueError("there is nothing to search: no action is valid here")
    simulations = parts.simulations_per_action * len(actions)
    memory = CrossTrialMemory()
    total = 0
    for depth in parts.depths:
        root: GameNode = Node()
        model = _GameModel(parts, world, position, depth, memory)
        await search(
            root,
            model,
            select=parts.select,
            backup=parts.backup,
            simulations=simulations,
            width=parts.width,
            expand_at="second",
            rng=rng,
            before_select=model.before_select,
            on_backup=model.on_backup,
        )
        total += simulations
        memory = model.memory
        if max(edge.value for edge in visited(root)) != 0.0:
            break
    return SearchResult(root, depth, total, memory.reflections)


@dataclass(slots=True)
class _GameModel:
    """The `SearchModel` of one tree.

    An action in the tree may lose the game, even at t = H, and `evaluate` reflects on that. The
    driver does not evaluate a node after a `done` step or at `max_depth`. So this model uses
    neither: a node at the end of the game or at H has no edges instead.
    """

    parts: SearchParts
    world: TextGameDomain
    position: Position
    depth: int
    memory: CrossTrialMemory

    def draw_root(self, walk: GameWalk) -> Transition:
        """s_0."""
        walk.memory = self.memory
        return self.position.here

    async def legal(self, state: Transition) -> tuple[str, ...]:
        """𝒜(s)."""
        stuck = self.parts.stuck if state.ending is None else ()
        return await self.world.actions(state) or stuck

    async def expand(self, node: GameNode, walk: GameWalk) -> Sequence[GameEdge]:
        """Makes an edge for each action that the node lacks, with its π."""
        known = {edge.action for edge in node.edges or ()}
        actions = () if walk.depth == self.depth else await self.legal(walk.state)
        if known.issuperset(actions):
            return ()
        pi = await self._pi(walk, actions)
        node.memo = len(walk.memory.reflections)
        return [
            Edge(action, prior=p)
            for action, p in zip(actions, pi, strict=True)
            if action not in known
        ]

    async def step(self, state: Transition, action: str, rng: Random) -> Step[Transition]:
        """𝒯(s, a)."""
        made = await self.world.play(state, action, rng)
        return Step(made, self.parts.reward(made), text=made.text)

    async def evaluate(self, node: GameNode, walk: GameWalk) -> Evaluation[Transition, str]:  # noqa: ARG002
        """ROLLOUT: takes uniform actions until the game ends or t = H (lines 43 to 56).

        Returns:
            R' = Σ_j γ^j r_j as the tail, and the reflection on a failure as the note.
        """
        world, rng, gamma = self.world, walk.rng, self.parts.gamma
        here = walk.state
        walked: list[tuple[str, Transition]] = []
        value = 0.0
        weight = 1.0
        for _ in range(self.depth - walk.depth):
            if here.ending is not None:
                break
            actions = await world.actions(here) or self.parts.stuck
            if not actions:
                break
            action = actions[int(rng.random() * len(actions))]
            here = await world.play(here, action, rng)
            walked.append((action, here))
            value += weight * self.parts.reward(here)
            weight *= gamma
        failed = here.ending in self.parts.reflects_on
        return Evaluation(tail=value, note=await self._reflect(walk, walked) if failed else None)

    async def _reflect(self, walk: GameWalk, walked: list[tuple[str, Transition]]) -> Lesson | None:
        """Reflects on a failed trajectory (lines 10 to 13 and 44 to 47)."""
        if len(walk.memory.reflections) >= self.parts.k:
            return None
        steps = [*_steps(walk), *walked]
        actions = tuple(action for action, _ in steps)
        if actions in walk.memory.failed:
            return None
        turns, last = await self._turns(steps)
        states = (self.position.here, *(made for _, made in steps))[: len(steps)]
        return Lesson(actions, await self.parts.reflect(Trajectory(turns, last, states=states)))

    def on_backup(self, walk: GameWalk) -> None:
        """Adds a walk's lesson to ℳ_c, for the simulations that are launched from now on."""
        if walk.note is None:
            return
        before = self.memory.reflections
        self.memory = self.memory.with_lesson(walk.note, k=self.parts.k)
        if self.memory.reflections != before:
            trace_reflection(walk.note.reflection)

    def before_select(self, node: GameNode, walk: GameWalk) -> Awaitable[None] | None:
        """Asks anew for a node's π if ℳ_c has grown since the last asking (line 34)."""
        if node.memo == len(walk.memory.reflections) or not node.edges:
            return None
        return self._renew(node, node.edges, walk)

    async def _renew(self, node: GameNode, edges: Sequence[GameEdge], walk: GameWalk) -> None:
        pi = await self._pi(walk, tuple(edge.action for edge in edges))
        for edge, p in zip(edges, pi, strict=True):
            edge.prior = p
        node.memo = len(walk.memory.reflections)

    async def _pi(self, walk: GameWalk, actions: tuple[str, ...]) -> Sequence[float]:
        """Asks for LLM(a | ℳ_i, ℳ_c, p), with LASTPART(h) as ℳ_i (lines 33 and 34)."""
        past = self.parts.past
        turns, observation = await self._turns(_steps(walk))
        memory = (*self.position.turns, *turns)[-past:] if past else ()
        known = walk.memory.reflections
        return await self.parts.prior(
            GameSituation(memory, observation, actions, known, walk.state)
        )

    async def _turns(
        self, steps: Iterable[tuple[str, Transition]]
    ) -> tuple[tuple[GameTurn, ...], Observation]:
        """The turns of the trajectory h from the root on, and the observation after the last."""
        score = self.position.score
        observation = await observe(self.world, self.position.here)
        turns = []
        for action, here in steps:
            score += here.reward
            turns.append(GameTurn(observation, action, here.reward, score))
            observation = await observe(self.world, here)
        return tuple(turns), observation


def trace_reflection(reflection: str) -> None:
    """Adds a new reflection of ℳ_c to the trace."""
    if (trace := tracing()) is not None:
        trace.memory(reflection, kind="reflection")


async def observe(world: TextGameDomain, here: Transition) -> Observation:
    """O(s): what the game said, with `look` and `inventory` (Section 4.1)."""
    return Observation(here.text, *await world.look(here))


def best_action(root: GameNode, draw: Random) -> str:
    """argmax_a Q(s_0, a) over the visited actions (line 7).

    Args:
        root: a searched root.
        draw: decides between actions of equal Q and equal π.
    """
    ranked = {edge.action: (edge.value, edge.prior) for edge in visited(root)}
    best = max(ranked.values())
    return draw.choice([action for action, rank in ranked.items() if rank == best])


def _steps(walk: GameWalk) -> list[tuple[str, Transition]]:
    """The actions of a simulation in the tree, each with its transition."""
    return [(edge.action, step.state) for edge, step in zip(walk.edges, walk.steps, strict=True)]
