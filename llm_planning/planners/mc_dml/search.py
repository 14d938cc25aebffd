"""MC-DML's search for one move: Algorithm 1, as a model of `llm_planning.search`.

SIMULATE descends by SELECTACTION until it takes an action for the first time, and ROLLOUT goes on
from there. A state gets π and its edges when it is entered for the second time (the root at once),
so a state that only rollouts have seen asks for nothing. R = r + γ R' is backed up along the path
(lines 26 to 29).

What a simulation reads of ℳ_c is fixed at its launch, and what it learns counts from its backup on,
so it does not matter how long the answers of several simulations in flight take.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeAlias

from llm_planning.domain import Step
from llm_planning.environments.textgame.game import Ending, Observation, Transition
from llm_planning.planners.any_domain.decisions import visited
from llm_planning.planners.mc_dml.roles import GameSituation, GameTurn, Trajectory
from llm_planning.search import Edge, Evaluation, Node, Walk, by_sums, search
from llm_planning.trace import tracing

if TYPE_CHECKING:
    from collections.abc import Awaitable, Iterable, Sequence
    from random import Random

    from llm_planning.environments.textgame.domain import TextGameDomain
    from llm_planning.planners.mc_dml.roles import GamePolicy, Reflect
    from llm_planning.search import Select

GameNode: TypeAlias = Node[Transition, str]
GameEdge: TypeAlias = Edge[Transition, str]
GameWalk: TypeAlias = Walk[Transition, str]


@dataclass(frozen=True, slots=True, kw_only=True)
class SearchParts:
    """What a search is composed of; the ablations and the baselines replace parts (Table 3).

    Attributes:
        prior: π(·|s).
        past: turns of ℳ_i before o_t; 1 makes (o_{t-1}, a_{t-1}, o_t), 0 leaves ℳ_i out.
        reflect: who fills ℳ_c.
        k: most reflections of a root; with 0, nobody reflects.
        select: picks an edge of a state (eq. 1 or 3).
        depths: planning horizons H, one after the other while the best Q of the root is 0.
        gamma: γ.
        simulations_per_action: simulations of a search are this many for each action of its root.
        width: simulations in flight at once; 1 is Algorithm 1, step for step.
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


@dataclass(frozen=True, slots=True)
class Position:
    """Where a game stands when a move is to be chosen.

    Attributes:
        turns: what was played, oldest first.
        here: the transition that led here: s_0, and what the game said.
        score: the game's.
    """

    turns: tuple[GameTurn, ...]
    here: Transition
    score: float


@dataclass(frozen=True, slots=True)
class SearchResult:
    """What the search for one move came to.

    Attributes:
        root: of the last tree; the `memo` of a node is how many reflections there were in ℳ_c when
            π was asked for.
        depth: its H.
        simulations: of all trees.
        reflections: ℳ_c.
    """

    root: GameNode
    depth: int
    simulations: int
    reflections: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class CrossTrialMemory:
    """ℳ_c, the cross-trial memory of one root: what failed simulations taught (Section 3.1).

    At most k different reflections; once there are k, nobody reflects any more (Section 4.1). A
    trajectory that was reflected on is not again: from the same root, the same actions fail for the
    same reason. Simulations that are in flight together do not know of each other's.

    Attributes:
        reflections: ℳ_c, oldest first; it only grows, so its length tells one from another.
        failed: actions from the root on that were reflected on.
    """

    reflections: tuple[str, ...] = ()
    failed: frozenset[tuple[str, ...]] = frozenset()

    def with_lesson(self, lesson: Lesson, *, k: int) -> CrossTrialMemory:
        """ℳ_c ← ℳ_c + reflection (line 12), if it is not in it already and there is room."""
        known = self.reflections
        new = lesson.reflection not in known and len(known) < k
        reflections = (*known, lesson.reflection) if new else known
        return CrossTrialMemory(reflections, self.failed | {lesson.actions})


@dataclass(frozen=True, slots=True)
class Lesson:
    """What a failed simulation taught.

    Attributes:
        actions: that failed, from the root on.
        reflection: on them.
    """

    actions: tuple[str, ...]
    reflection: str

    def __str__(self) -> str:
        return self.reflection


async def search_move(
    parts: SearchParts, world: TextGameDomain, position: Position, *, rng: Random
) -> SearchResult:
    """SEARCH(s_0) with dynamic pruning: H = d_min, and H + Δd while the best Q of the root is 0.

    Every tree is grown from scratch (lines 4 to 6). ℳ_c belongs to the root and is kept.

    Args:
        parts: of the search.
        world: where every transition is taken.
        position: the root.
        rng: of the rollouts.

    Raises:
        ValueError: nothing can be done here.
        TextGameError: the game failed.
        Exception: of whoever answers, unchanged.
    """
    actions = await world.actions(position.here)
    if not actions:
        raise ValueError("there is nothing to search: no action is valid here")
    simulations = parts.simulations_per_action * len(actions)
    memory = CrossTrialMemory()
    total = 0
    for depth in parts.depths:
        root: GameNode = Node()
        model = _Model(parts, world, position, depth, memory)
        await search(
            root,
            model,
            select=parts.select,
            backup=by_sums(gamma=parts.gamma),
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
class _Model:
    """One tree's `Model`: the game, who is asked, and H.

    An action of the tree may lose the game, at t = H too, and that is reflected on when the new
    node is evaluated. The driver evaluates nothing where a step is `done` or `max_depth` is
    reached, so neither is said to it: a node at the end of the game or at H has no edges.
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

    async def legal(self, state: Transition) -> Sequence[str]:
        """𝒜(s)."""
        return await self.world.actions(state)

    async def expand(self, node: GameNode, walk: GameWalk) -> Sequence[GameEdge]:
        """An edge for each action, with its π."""
        known = {edge.action for edge in node.edges or ()}
        actions = () if walk.depth == self.depth else await self.world.actions(walk.state)
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
        return Step(made, made.reward, text=made.text)

    async def evaluate(self, node: GameNode, walk: GameWalk) -> Evaluation[Transition, str]:  # noqa: ARG002
        """ROLLOUT: uniform actions until the game ends or t = H (lines 43 to 56).

        Returns:
            As its tail R' = Σ_j γ^j r_j, as its note the reflection on a failure.
        """
        world, rng, gamma = self.world, walk.rng, self.parts.gamma
        here = walk.state
        walked: list[tuple[str, Transition]] = []
        value = 0.0
        weight = 1.0
        for _ in range(self.depth - walk.depth):
            if here.ending is not None:
                break
            actions = await world.actions(here)
            if not actions:
                break
            action = actions[int(rng.random() * len(actions))]
            here = await world.play(here, action, rng)
            walked.append((action, here))
            value += weight * here.reward
            weight *= gamma
        failed = here.ending is Ending.FAILURE
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
        return Lesson(actions, await self.parts.reflect(Trajectory(turns, last)))

    def on_backup(self, walk: GameWalk) -> None:
        """A lesson counts from here on, for simulations that are launched later."""
        if walk.note is None:
            return
        before = self.memory.reflections
        self.memory = self.memory.with_lesson(walk.note, k=self.parts.k)
        if self.memory.reflections != before:
            trace_reflection(walk.note.reflection)

    def before_select(self, node: GameNode, walk: GameWalk) -> Awaitable[None] | None:
        """A node that is entered again asks for π again where ℳ_c has grown since (line 34)."""
        if node.memo == len(walk.memory.reflections) or not node.edges:
            return None
        return self._renew(node, node.edges, walk)

    async def _renew(self, node: GameNode, edges: Sequence[GameEdge], walk: GameWalk) -> None:
        pi = await self._pi(walk, tuple(edge.action for edge in edges))
        for edge, p in zip(edges, pi, strict=True):
            edge.prior = p
        node.memo = len(walk.memory.reflections)

    async def _pi(self, walk: GameWalk, actions: tuple[str, ...]) -> Sequence[float]:
        """LLM(a | ℳ_i, ℳ_c, p), with LASTPART(h) as ℳ_i (lines 33 and 34)."""
        past = self.parts.past
        turns, observation = await self._turns(_steps(walk))
        memory = (*self.position.turns, *turns)[-past:] if past else ()
        known = walk.memory.reflections
        return await self.parts.prior(GameSituation(memory, observation, actions, known))

    async def _turns(
        self, steps: Iterable[tuple[str, Transition]]
    ) -> tuple[tuple[GameTurn, ...], Observation]:
        """The trajectory h from the root on: its turns, and what was seen after the last one."""
        score = self.position.score
        observation = await observe(self.world, self.position.here)
        turns = []
        for action, here in steps:
            score += here.reward
            turns.append(GameTurn(observation, action, here.reward, score))
            observation = await observe(self.world, here)
        return tuple(turns), observation


def trace_reflection(reflection: str) -> None:
    """Tells the trace that ℳ_c has grown."""
    if (trace := tracing()) is not None:
        trace.memory(reflection, kind="reflection")


async def observe(world: TextGameDomain, here: Transition) -> Observation:
    """O(s): what the game said, with `look` and `inventory` (Section 4.1)."""
    return Observation(here.text, *await world.look(here))


def best_action(root: GameNode, draw: Random) -> str:
    """argmax_a Q(s_0, a) over the actions that were taken (line 7).

    Args:
        root: of a search.
        draw: decides between actions of equal Q and equal π.
    """
    ranked = {edge.action: (edge.value, edge.prior) for edge in visited(root)}
    best = max(ranked.values())
    return draw.choice([action for action, rank in ranked.items() if rank == best])


def _steps(walk: GameWalk) -> list[tuple[str, Transition]]:
    """The actions of a simulation in the tree, with what they did."""
    return [(edge.action, step.state) for edge, step in zip(walk.edges, walk.steps, strict=True)]
