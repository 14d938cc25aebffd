"""LLM-MCTS: Algorithm 1, before every move.

`llm_mcts` is SEARCH. `Tree` is what SIMULATE and ROLLOUT do in a home; `search.search` calls it.
That loop draws a state (line 4), descends by `select` (line 29) as long as the history is in the
tree (lines 23 and 24), tells histories apart by what is seen (line 31), and backs R = r + γ R' up
along the path (lines 32 to 35).

A history tells apart where things of the goal were seen, and no other things: those are drawn once
for each decision, as full observations would give every simulation a tree of its own.

Source: "Large Language Models as Commonsense Knowledge for Large-Scale Task Planning".
"""

from __future__ import annotations

from math import inf
from random import Random
from typing import TYPE_CHECKING, Final, TypeAlias

from llm_planning.domain import Step
from llm_planning.environments.household.rules import Action, State
from llm_planning.environments.household.simulator import Rollouts
from llm_planning.execution.decisions import Decision, best_edge, statistics_of, visited
from llm_planning.planners.any_domain.roles import Situation
from llm_planning.planners.llm_mcts.playing import Choice, play_at_home
from llm_planning.planners.llm_mcts.roles import HomeAsking, Past
from llm_planning.search import (
    Edge,
    Evaluation,
    ListedActions,
    Node,
    Walk,
    by_sums,
    by_weighted_returns,
    search,
    select_by_puct,
    select_by_uct,
)

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Hashable, Sequence

    from llm_planning.environments.household.domain import KnownHousehold
    from llm_planning.environments.household.rules import Rules
    from llm_planning.outcome import Outcome
    from llm_planning.planners.llm_mcts.playing import Mind
    from llm_planning.planners.llm_mcts.settings import LlmMctsSettings
    from llm_planning.priors import Policy
    from llm_planning.roles import Engines
    from llm_planning.search import Select
    from llm_planning.search.driver import Backup
    from llm_planning.specs import Problem

HomeNode: TypeAlias = Node[State, Action]
HomeWalk: TypeAlias = Walk[State, Action]

_SELECTION: Final = {"puct": select_by_puct, "uct": select_by_uct}


async def llm_mcts(
    problem: Problem[KnownHousehold], *, engines: Engines, settings: LlmMctsSettings, seed: int
) -> Outcome:
    """LLM-MCTS: Algorithm 1 before every move, with a new tree.

    Raises:
        ServingError: the engine failed.
    """
    asking = HomeAsking(problem, engines, settings, seed=seed)
    await asking.ask_for_goal()
    if settings.selection == "puct":
        await asking.ask_for_policy()
    places = await asking.ask_for_places(settings)
    rules = asking.world.rules
    rng = Random(f"search {seed}")
    rollout = Rollouts(rules, each=settings.rollouts, gamma=settings.gamma, width=settings.width)
    rule: Callable[..., Select[State, Action]] = _SELECTION[settings.selection]
    select = rule(c=settings.c)
    means: Backup[State, Action] = by_sums(gamma=settings.gamma)
    weighted: Backup[State, Action] = by_weighted_returns(
        gamma=settings.gamma, temperature=settings.value_temperature
    )

    async def decide(mind: Mind) -> Choice | None:
        """SEARCH(h, b, 𝒯, N)."""
        belief = mind.belief.filled(Random(f"others {seed} {mind.belief.steps}"))
        draw = belief.draw if settings.states == "simulation" else _always(belief.draw(rng))
        root: HomeNode = Node()
        tree = Tree(
            rules,
            draw=draw,
            actions=rules.actions,
            past=mind.past,
            policy=asking.policy,
            see=rules.observe if settings.histories == "observations" else lambda _: (),
            rollout=rollout,
            depth=settings.depth,
            reward=settings.goal_reward,
        )
        simulations = await search(  # lines 2 to 7
            root,
            tree,
            select=select,
            backup=means if settings.values == "mean" else weighted,
            simulations=settings.most,
            seconds=settings.seconds or inf,
            width=settings.width,
            max_depth=settings.depth,
            expand_at=settings.ask,
            rng=rng,
        )
        tried = visited(root)
        if not tried:
            return None
        best = best_edge(root, rng) if settings.ties == "draw" else max(tried, key=_by_value)
        assert best is not None
        return Choice(best.action, Decision(statistics_of(root)), simulations)  # line 8

    return await play_at_home(problem, asking, decide, places=places)


def _always(state: State) -> Callable[[Random], State]:
    return lambda _: state


def _by_value(edge: Edge[State, Action]) -> tuple[float, float]:
    return edge.value, edge.prior


class Tree(ListedActions[State, Action]):
    """SIMULATE and ROLLOUT in a home.

    Args:
        rules: of the home and the goal.
        draw: draws s ~ b(s).
        actions: the actions of a state that are searched.
        past: h at the root.
        policy: π(a|h); None for the uniform one.
        see: what an agent sees of a state, which tells histories apart.
        rollout: maps a state, a number of actions and draws to the return of acting on by uniform
            actions, for a reward of 1 at the goal.
        depth: actions from the root after which a simulation ends; the paper's γ^d < ε.
        reward: R at the goal.
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
        rollout: Callable[[State, int, Random], Awaitable[float]],
        depth: int,
        reward: float,
    ) -> None:
        self._rules = rules
        self._draw = draw
        self._actions = actions
        self._past = past
        self._policy = policy
        self._see = see
        self._rollout = rollout
        self._depth = depth
        self._reward = reward

    def draw_root(self, walk: HomeWalk) -> State:
        """S ~ b(s) (line 4)."""
        walk.memory = state = self._draw(walk.rng)
        return state

    async def evaluate(self, node: HomeNode, walk: HomeWalk) -> Evaluation[State, Action]:  # noqa: ARG002
        """ROLLOUT(s, h, done, d): uniform actions until the goal or the depth (lines 10 to 18)."""
        value = await self._rollout(walk.state, self._depth - walk.depth, walk.rng)
        return Evaluation(tail=self._reward * value)

    async def legal(self, state: State) -> Sequence[Action]:
        """A, the actions of the drawn state."""
        return self._actions(state)

    async def pi(
        self, node: HomeNode, walk: HomeWalk, actions: Sequence[Action]
    ) -> Sequence[float]:
        """π̂(a|h) ← QUERYLLMPOLICY(h) (line 28)."""
        if self._policy is None:
            return await super().pi(node, walk, actions)
        if node.memo is None:
            node.memo = self._history(walk)
        turns, now, belief = node.memo
        return await self._policy(Situation(turns, now, tuple(map(str, actions)), state=belief))

    def _history(self, walk: HomeWalk) -> Past:
        """H' ← PUSHBACK(h, [a, o]) (line 31); that of the node before is known.

        Where actions alone tell histories apart, it is what the first walks saw that came along.
        """
        if not walk.edges:
            return self._past
        before: Past = walk.nodes[-2].memo
        return before.then(walk.edges[-1].action, self._rules.observe(walk.state))

    async def step(self, state: State, action: Action, rng: Random) -> Step[State]:  # noqa: ARG002
        """(s', o, r, done) ~ 𝒢(s, a) (line 30)."""
        rules = self._rules
        after = rules.after(state, action)
        assert not isinstance(after, str), after
        # Only what is put somewhere can reach the goal.
        won = len(after.held) < len(state.held) and rules.success(after)
        done = won or after.steps >= rules.limit
        return Step(after, self._reward if won else 0.0, done, self._see(after))
