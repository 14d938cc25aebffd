"""MC-DML: Algorithm 1, its memories (Section 3.1) and its dynamic pruning (Section 4.1).

    SEARCH         lines 1 to 8     `McDml.search`, `best_action`
    SIMULATE       lines 9 to 31    `search.search`, which calls `Tree`
    SELECTACTION   lines 32 to 42   `Tree.before_select`, `Tree.pi`, then `McDml.select`
    ROLLOUT        lines 43 to 56   `Tree.evaluate`

`search.search` descends from the root by `select` until an action is taken for the first time
(lines 18 to 24 and 37 to 42), has `Tree` evaluate where that leads, and goes back up: R = r + γ R',
N(h) and N(h, a) grow by 1, Q(h, a) by (R - Q(h, a)) / N(h, a) (lines 26 to 29).

A state gets π when a simulation enters it for the second time, the root at once. So the search
never asks for π of a state that only rollouts have seen. A simulation reads ℳ_c as it is at its
launch, and adds its own reflection at its backup. So the tree does not depend on how long the
answers of several simulations in flight take.

MaxDepthReached() of line 6 is read as Appendix B's number of simulations: 50 |𝒜(s_0)| a tree.

Source: "Monte Carlo Planning with Large Language Model for Text-Based Games".
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias

from llm_planning.domain import Step
from llm_planning.domain_calls import actions_of, is_won, simulated
from llm_planning.execution.decisions import visited
from llm_planning.planners.mc_dml.roles import (
    GameSituation,
    GameTurn,
    Trajectory,
    ending_of,
    observe,
    text_of,
)
from llm_planning.search import Edge, Evaluation, ListedActions, Node, Walk, search
from llm_planning.trace import tracing

if TYPE_CHECKING:
    from collections.abc import Awaitable, Hashable, Iterable, Sequence
    from random import Random

    from llm_planning.domain import Domain
    from llm_planning.planners.mc_dml.roles import Ending, GamePolicy, Observation, Reflect
    from llm_planning.planners.mc_dml.settings import GameSearchSettings
    from llm_planning.search import Select


class Scene(NamedTuple):
    """s', and what 𝒯(s, a) says on the way there.

    Attributes:
        state: s'.
        text: what 𝒯(s, a) says, in words.
        reward: r.
        ending: how the game ended; None if it goes on.
        observation: o', see `Step`. None if all of the above is observed.
    """

    state: Any
    text: str = ""
    reward: float = 0.0
    ending: Ending | None = None
    observation: Hashable = None

    def __str__(self) -> str:
        return self.text


GameNode: TypeAlias = Node[Scene, Any]
GameWalk: TypeAlias = Walk[Scene, Any]


class Position(NamedTuple):
    """The point of a game from which a search starts.

    Attributes:
        turns: the moves so far, oldest first.
        here: s_0 of the search.
        score: the game's score.
    """

    turns: tuple[GameTurn, ...]
    here: Scene
    score: float


class Searched(NamedTuple):
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


@dataclass(frozen=True, slots=True, kw_only=True)
class McDml:
    """MC-DML in a world. The ablations and the baselines replace some of its parts (Table 3).

    Attributes:
        settings: the numbers of Appendix B.
        prior: π(·|s).
        reflect: writes the reflections of ℳ_c; None without ℳ_c.
        past: turns of ℳ_i before o_t; 1 makes (o_{t-1}, a_{t-1}, o_t), 0 leaves ℳ_i out.
        select: picks an edge: the one of the highest Q(s, a) + C π(a|s) √N(s) / (1 + N(s, a)) (eq.
            3; lines 35 and 36 print √(N(s) / (N(s, a) + 1)) instead), or what UCT takes (eq. 1).
    """

    domain: Domain[Any, Any]
    settings: GameSearchSettings
    prior: GamePolicy
    reflect: Reflect | None
    past: int
    select: Select[Scene, Any]

    async def actions(self, here: Scene) -> Sequence[Any]:
        """𝒜(s)."""
        if here.ending is not None:
            return ()
        return await actions_of(self.domain, here.state) or self.settings.if_stuck

    async def transition(self, here: Scene, action: Any, rng: Random) -> Scene:  # noqa: ANN401
        """𝒯(s, a) (lines 19 and 54)."""
        step = await simulated(self.domain, here.state, action, rng)
        won = await is_won(self.domain, step.state, done=step.done)
        ending = ending_of(won=won, done=step.done)
        return Scene(step.state, text_of(step), step.reward, ending, step.observation)

    async def search(self, position: Position, *, rng: Random) -> Searched:
        """SEARCH(s_0) with dynamic pruning: H = d_min, and Δd more while the best Q is 0.

        Every H grows a tree from scratch. ℳ_c belongs to the root, so all its trees share it.

        Raises:
            ValueError: the position has no valid action.
            TextGameError: the game failed.
            Exception: an error of a role, unchanged.
        """
        settings = self.settings
        actions = await self.actions(position.here)
        if not actions:
            raise ValueError("there is nothing to search: no action is valid here")
        simulations = settings.simulations_per_action * len(actions)
        memory = CrossTrialMemory()
        total = 0
        for horizon in settings.depths:
            root: GameNode = Node()
            tree = Tree(self, position, horizon, memory)
            await search(  # lines 4 to 6: so many simulations
                root,
                tree,
                select=self.select,
                backup=settings.backup(),
                simulations=simulations,
                width=settings.width,
                expand_at="second",
                rng=rng,
                before_select=tree.before_select,
                on_backup=tree.on_backup,
            )
            total += simulations
            memory = tree.memory
            if max(edge.value for edge in visited(root)) != 0.0:
                break
        return Searched(root, horizon, total, memory.reflections)


def best_action(root: GameNode, draw: Random) -> Any:  # noqa: ANN401 - an action of the world
    """argmax_a Q(h_0, a) over the visited actions (line 7).

    Args:
        draw: decides between actions of equal Q and equal π.
    """
    ranked = {edge.action: (edge.value, edge.prior) for edge in visited(root)}
    best = max(ranked.values())
    return draw.choice([action for action, rank in ranked.items() if rank == best])


@dataclass
class Tree(ListedActions[Scene, Any]):
    """SIMULATE, SELECTACTION and ROLLOUT of one tree.

    A simulation ends at a node without edges: where the game has ended, or at t = H (lines 10 to
    17). The loop evaluates such a node, and `evaluate` reflects there if the game has failed.
    The loop's own ends, a `done` step and `max_depth`, would not evaluate it, so they are not used.
    """

    agent: McDml
    position: Position
    horizon: int
    memory: CrossTrialMemory

    def draw_root(self, walk: GameWalk) -> Scene:
        """s_0 (lines 2 and 3)."""
        walk.memory = self.memory
        return self.position.here

    async def legal(self, state: Scene) -> Sequence[Any]:
        """𝒜(s); none if the game has ended, not only by failure (line 10)."""
        return await self.agent.actions(state)

    async def step(self, state: Scene, action: Any, rng: Random) -> Step[Scene]:  # noqa: ANN401
        """[r, s', o'] ← 𝒯(s, a) (line 19); the search makes h' of o' (line 20)."""
        made = await self.agent.transition(state, action, rng)
        r = self.agent.settings.reward(made.reward, made.text)
        return Step(made, r, observation=made.observation, text=made.text)

    async def expand(self, node: GameNode, walk: GameWalk) -> Sequence[Edge[Scene, Any]]:
        """Makes an edge for each action, with its π; none at t = H (line 15)."""
        return () if walk.depth == self.horizon else await super().expand(node, walk)

    def before_select(self, node: GameNode, walk: GameWalk) -> Awaitable[None] | None:
        """Asks anew for a node's π if ℳ_c has grown since the last asking (line 34)."""
        if node.memo == len(walk.memory.reflections) or not node.edges:
            return None
        return self.ask(node, walk, node.edges)

    async def pi(self, node: GameNode, walk: GameWalk, actions: Sequence[Any]) -> Sequence[float]:
        """π(a|s) ← LLM(ℳ_i, ℳ_c, p), with LASTPART(h) as ℳ_i (lines 33 and 34)."""
        past = self.agent.past
        turns, observation = await self._turns(_steps(walk))
        recent = (*self.position.turns, *turns)[-past:] if past else ()
        known = walk.memory.reflections
        pi = await self.agent.prior(
            GameSituation(recent, observation, tuple(map(str, actions)), known, walk.state.state)
        )
        node.memo = len(known)
        return pi

    async def evaluate(self, node: GameNode, walk: GameWalk) -> Evaluation[Scene, Any]:  # noqa: ARG002
        """ROLLOUT: takes uniform actions until the game ends or t = H (lines 43 to 56).

        Returns:
            R' = Σ_j γ^j r_j as the tail, and the reflection on a failure as the note.
        """
        agent, settings, rng = self.agent, self.agent.settings, walk.rng
        here = walk.state
        walked: list[tuple[Any, Scene]] = []
        value = 0.0
        weight = 1.0
        for _ in range(self.horizon - walk.depth):  # line 49
            actions = await agent.actions(here)
            if not actions:
                break
            action = actions[int(rng.random() * len(actions))]  # line 53
            here = await agent.transition(here, action, rng)  # line 54
            walked.append((action, here))
            value += weight * settings.reward(here.reward, here.text)  # line 55
            weight *= settings.gamma
        failed = settings.fails(here.ending)  # lines 10 and 44
        return Evaluation(tail=value, note=await self._reflect(walk, walked) if failed else None)

    async def _reflect(self, walk: GameWalk, walked: list[tuple[Any, Scene]]) -> Lesson | None:
        """Asks for reflection ← LLM(h, p_reflection) (lines 11, 45), if ℳ_c takes one more.

        Ours: the same trajectory is not reflected on twice.
        """
        reflect, most = self.agent.reflect, self.agent.settings.most_reflections
        if reflect is None or len(walk.memory.reflections) >= most:
            return None
        steps = [*_steps(walk), *walked]
        actions = tuple(action for action, _ in steps)
        if actions in walk.memory.failed:
            return None
        turns, last = await self._turns(steps)
        scenes = (self.position.here, *(made for _, made in steps))[: len(steps)]
        failed = Trajectory(turns, last, states=tuple(scene.state for scene in scenes))
        return Lesson(actions, await reflect(failed))

    def on_backup(self, walk: GameWalk) -> None:
        """ℳ_c ← ℳ_c + reflection (lines 12 and 46), for the simulations that are launched later."""
        if walk.note is None:
            return
        before = self.memory.reflections
        k = self.agent.settings.most_reflections
        self.memory = self.memory.with_lesson(walk.note, k=k)
        if self.memory.reflections != before:
            trace_reflection(walk.note.reflection)

    async def _turns(
        self, steps: Iterable[tuple[Any, Scene]]
    ) -> tuple[tuple[GameTurn, ...], Observation]:
        """The turns of the trajectory h from the root on, and the observation after the last."""
        domain, score, here = self.agent.domain, self.position.score, self.position.here
        observation = await observe(domain, here.state, here.text)
        turns = []
        for action, made in steps:
            score += made.reward
            turns.append(GameTurn(observation, str(action), made.reward, score))
            observation = await observe(domain, made.state, made.text)
        return tuple(turns), observation


class Lesson(NamedTuple):
    """A reflection on a failed simulation.

    Attributes:
        actions: of the simulation, from the root on.
    """

    actions: tuple[Any, ...]
    reflection: str

    def __str__(self) -> str:
        return self.reflection


@dataclass(frozen=True, slots=True)
class CrossTrialMemory:
    """ℳ_c, the cross-trial memory of one root: reflections on failed simulations (Section 3.1).

    It holds at most k reflections; then reflecting stops (Section 4.1). Ours: all differ, and no
    trajectory is reflected on twice, because the same actions from the same root fail for the same
    reason.

    Attributes:
        reflections: ℳ_c, oldest first. It only grows, so its length identifies it.
        failed: action sequences from the root on that already have a reflection.
    """

    reflections: tuple[str, ...] = ()
    failed: frozenset[tuple[Any, ...]] = frozenset()

    def with_lesson(self, lesson: Lesson, *, k: int) -> CrossTrialMemory:
        """ℳ_c ← ℳ_c + reflection (line 12), if ℳ_c has fewer than k, and not this one (ours)."""
        known = self.reflections
        new = lesson.reflection not in known and len(known) < k
        reflections = (*known, lesson.reflection) if new else known
        return CrossTrialMemory(reflections, self.failed | {lesson.actions})


def trace_reflection(reflection: str) -> None:
    """Adds a new reflection of ℳ_c to the trace."""
    if (trace := tracing()) is not None:
        trace.memory(reflection, kind="reflection")


def _steps(walk: GameWalk) -> list[tuple[Any, Scene]]:
    """The actions of a simulation in the tree, each with its transition."""
    return [(edge.action, step.state) for edge, step in zip(walk.edges, walk.steps, strict=True)]
