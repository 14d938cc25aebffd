"""LLM-MCTS: Algorithm 1, before every move.

    SEARCH     lines 1 to 9      `llm_mcts`: `decide`
    ROLLOUT    lines 10 to 18    `Tree.evaluate`
    SIMULATE   lines 19 to 36    `search.search`, which calls `Tree`

`search.search` descends while the history is in the tree (lines 23 and 24). It takes the action of
the highest Q(h, a) + c π̂(a|h) √N(h) / (N(h, a) + 1) (line 29), and `Tree` says what that does. At
the end of the tree it has `Tree` roll out (line 26). Then it goes back up: R = r + γ R', N(h, a)
and N(h) grow by 1, Q(h, a) by (R - Q(h, a)) / N(h, a) (lines 32 to 35).

Read so, or ours:

- l.8 compares the actions that were tried.
- l.16 and l.17 go on with a and s' (printed are a* and s).
- l.20 also ends a simulation where the episode would be over. l.26 may roll out several times
  (`rollouts`).
- l.28 asks for π once for each node, at its second visit or when it is made (`ask`).
- l.31: a history tells apart where things of the goal were seen, and no other things (ours): those
  are drawn once for each decision, as full observations would give each simulation its own tree.

Source: "Large Language Models as Commonsense Knowledge for Large-Scale Task Planning".
"""

from __future__ import annotations

from dataclasses import dataclass
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
    from llm_planning.search import Backup, Select
    from llm_planning.specs import Run

HomeNode: TypeAlias = Node[State, Action]
HomeWalk: TypeAlias = Walk[State, Action]

_SELECTION: Final = {"puct": select_by_puct, "uct": select_by_uct}


async def llm_mcts(run: Run[KnownHousehold, LlmMctsSettings]) -> Outcome:
    """LLM-MCTS: Algorithm 1 before every move, with a new tree."""
    settings, seed = run.settings, run.seed
    asking = HomeAsking(run)
    await asking.ask_for_goal()
    if settings.selection == "puct":
        await asking.ask_for_policy()
    places = await asking.ask_for_places(settings)
    rules = asking.world.rules
    rng = Random(f"search {seed}")
    rollout = Rollouts(rules, each=settings.rollouts, gamma=settings.gamma)
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
            rules=rules,
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
            simulations=settings.most_simulations,
            seconds=settings.seconds or inf,
            width=settings.width,
            max_depth=settings.depth,
            expand_at=settings.ask,
            rng=rng,
        )
        tried = visited(root)
        if not tried:
            return None
        best = (
            best_edge(root, rng)
            if settings.ties == "draw"
            else max(tried, key=lambda edge: (edge.value, edge.prior))
        )
        assert best is not None
        return Choice(best.action, Decision(statistics_of(root)), simulations)  # line 8

    return await play_at_home(run, asking, decide, places=places)


def _always(state: State) -> Callable[[Random], State]:
    return lambda _: state


@dataclass(kw_only=True)
class Tree(ListedActions[State, Action]):
    """SIMULATE and ROLLOUT in a home.

    Attributes:
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

    rules: Rules
    draw: Callable[[Random], State]
    actions: Callable[[State], Sequence[Action]]
    past: Past
    policy: Policy[Situation] | None
    see: Callable[[State], Hashable]
    rollout: Callable[[State, int, Random], Awaitable[float]]
    depth: int
    reward: float

    def draw_root(self, walk: HomeWalk) -> State:
        """Draws s ~ b(s) (line 4)."""
        walk.memory = state = self.draw(walk.rng)
        return state

    async def evaluate(self, node: HomeNode, walk: HomeWalk) -> Evaluation[State, Action]:  # noqa: ARG002
        """ROLLOUT(s, h, done, d): uniform actions until the goal or the depth (lines 10 to 18).

        The value is the mean of `rollouts` such walks; the paper takes one.
        """
        value = await self.rollout(walk.state, self.depth - walk.depth, walk.rng)
        return Evaluation(tail=self.reward * value)

    async def legal(self, state: State) -> Sequence[Action]:
        """A, the actions of the drawn state."""
        return self.actions(state)

    async def pi(
        self, node: HomeNode, walk: HomeWalk, actions: Sequence[Action]
    ) -> Sequence[float]:
        """π̂(a|h) ← QUERYLLMPOLICY(h) (line 28)."""
        if self.policy is None:
            return await super().pi(node, walk, actions)
        if node.memo is None:
            node.memo = self._history(walk)
        turns, now, belief = node.memo
        return await self.policy(Situation(turns, now, tuple(map(str, actions)), state=belief))

    def _history(self, walk: HomeWalk) -> Past:
        """The history h' ← PUSHBACK(h, [a, o]) (line 31); that of the node before is known.

        With `histories=actions` a node has many histories. Then h holds what was seen by the walk
        for which π was asked.
        """
        if not walk.edges:
            return self.past
        before: Past = walk.nodes[-2].memo
        return before.then(walk.edges[-1].action, self.rules.observe(walk.state))

    async def step(self, state: State, action: Action, rng: Random) -> Step[State]:  # noqa: ARG002
        """(s', o, r, done) ~ 𝒢(s, a) (line 30)."""
        rules = self.rules
        after = rules.after(state, action)
        assert not isinstance(after, str), after
        # Only what is put somewhere can reach the goal.
        won = len(after.held) < len(state.held) and rules.success(after)
        done = won or after.steps >= rules.limit  # the episode's limit ends it as well
        return Step(after, self.reward if won else 0.0, done, self.see(after))
