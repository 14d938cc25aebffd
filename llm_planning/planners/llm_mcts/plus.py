"""LLM-MCTS+ (ours): rollouts by goal regression, Q as a regret, one tree for the episode."""

from __future__ import annotations

from math import inf
from random import Random
from typing import TYPE_CHECKING

from llm_planning.domain import Step
from llm_planning.execution.decisions import Decision, statistics_of, visited
from llm_planning.planners.llm_mcts.algorithm import HomeNode, HomeWalk, Tree
from llm_planning.planners.llm_mcts.playing import Choice, Mind, play_at_home
from llm_planning.planners.llm_mcts.roles import HomeAsking
from llm_planning.search import Node, Select, advance, search, select_by_puct

if TYPE_CHECKING:
    from llm_planning.environments.household.domain import KnownHousehold
    from llm_planning.environments.household.expert import Expert
    from llm_planning.environments.household.rules import Action, Rules, State
    from llm_planning.outcome import Outcome
    from llm_planning.planners.llm_mcts.settings import LlmMctsPlusSettings
    from llm_planning.search import Backup
    from llm_planning.specs import Run


async def llm_mcts_plus(run: Run[KnownHousehold, LlmMctsPlusSettings]) -> Outcome:
    """Before every move, searches in the tree that is kept, and takes the most visited action."""
    settings = run.settings
    asking = HomeAsking(run)
    await asking.ask_for_goal()
    await asking.ask_for_policy()
    places = await asking.ask_for_places(settings)
    world = asking.world
    value = GoalRegression(world.expert, world.rules, gamma=settings.gamma)
    select: Select[State, Action] = select_by_puct(c=settings.c)
    backup = by_regret(value, gamma=settings.gamma, reward=settings.goal_reward)
    rng = Random(f"search {run.seed}")
    root: HomeNode = Node()

    async def decide(mind: Mind) -> Choice | None:
        nonlocal root
        if mind.last is not None:
            action, seen = mind.last
            root = advance(root, action, Step(mind.belief.certain, observation=seen))
        tree = Tree(
            rules=world.rules,
            # What no goal names is left out until it is seen, so a kept tree stays true.
            draw=mind.belief.draw,
            actions=world.rules.useful,
            past=mind.past,
            policy=asking.policy,
            see=world.rules.observe,
            rollout=value,
            depth=world.rules.limit,
            reward=settings.goal_reward,
        )
        simulations = await search(
            root,
            tree,
            select=select,
            backup=backup,
            simulations=settings.most_simulations,
            seconds=settings.seconds or inf,
            width=settings.width,
            # A history that is met only once asks no model.
            expand_at="second",
            rng=rng,
        )
        tried = visited(root)
        if not tried:
            return None
        best = max(tried, key=lambda edge: (edge.visits, edge.value))
        return Choice(best.action, Decision(statistics_of(root)), simulations)

    return await play_at_home(run, asking, decide, places=places)


class GoalRegression:
    """Rollouts by goal regression: what an expert gets who knows the drawn state.

    Its plan goes back from the goal to what has to be done first. A uniform rollout meets the goal
    once in thousands; this one always does, if the time allows.
    """

    def __init__(self, expert: Expert, rules: Rules, *, gamma: float) -> None:
        self._expert = expert
        self._limit = rules.limit
        self._gamma = gamma

    def of(self, state: State) -> float:
        """V(s) = γ^(n - 1) with the n actions of the expert; 0 if the time does not allow them."""
        n = self._expert.length(state)
        return self._gamma ** (n - 1) if n <= self._limit - state.steps else 0.0

    async def __call__(self, state: State, depth: int, rng: Random) -> float:  # noqa: ARG002
        """Returns V(s) in the place of a rollout."""
        return self.of(state)


def by_regret(value: GoalRegression, *, gamma: float, reward: float) -> Backup[State, Action]:
    """Q(h,a) is the mean of R - V(s) over the visits, with V(s) as a control variate (ours).

    Some drawn states are near the goal and some are far from it, whatever is done. V(s) is what
    someone gets there who knows the state. As s is drawn before the action is chosen, the actions
    of a history compare as before, without that luck. Q is minus the regret of not knowing the
    state: no action has more than 0, which an action has before its first visit.

    Args:
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
