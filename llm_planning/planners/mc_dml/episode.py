"""A game played by searching before every move, and the statistics of those searches (Table 4).

At a bottleneck the action that pays at once is a bait (Figure 1). What the first search made of it,
in a game that begins at one, is what tells agents with and without ℳ_c apart.
"""

from __future__ import annotations

from dataclasses import dataclass
from random import Random
from typing import TYPE_CHECKING, Any

from llm_planning import execution
from llm_planning.planners.mc_dml.outcome import Episode
from llm_planning.planners.mc_dml.roles import Turn
from llm_planning.planners.mc_dml.search import Position, best_action, observe, search_move

if TYPE_CHECKING:
    from collections.abc import Sequence

    from llm_planning.environments.textgame.domain import TextGameDomain
    from llm_planning.planners.mc_dml.search import Agent, Searched


@dataclass(frozen=True, slots=True)
class ActionStatistics:
    """An action of the root, as a column of Table 4.

    Attributes:
        action: a.
        value: Q(s, a).
        prior: π(a|s), as it was asked last.
        visits: N(s, a).
    """

    action: str
    value: float
    prior: float
    visits: int


@dataclass(frozen=True, slots=True)
class Decision:
    """How a move was chosen.

    Attributes:
        root: the statistics of every valid action.
        depth: H of the last tree.
        simulations: of all trees.
        reflections: ℳ_c at the end.
    """

    root: tuple[ActionStatistics, ...]
    depth: int
    simulations: int
    reflections: tuple[str, ...]

    def to_json(self) -> dict[str, Any]:
        """For a trace."""
        return {
            "root": [
                {"action": a.action, "Q": a.value, "prior": a.prior, "N": a.visits}
                for a in self.root
            ],
            "depth": self.depth,
            "simulations": self.simulations,
            "reflections": list(self.reflections),
        }


async def play(
    world: TextGameDomain, agent: Agent, *, moves: int, seed: int
) -> tuple[Episode, tuple[Decision, ...]]:
    """Searches, executes the best action, and so on, with a fresh tree for every move.

    Args:
        world: from its start.
        agent: how to search.
        moves: most of them; a state in which nothing can be done ends the episode as well.
        seed: of rollouts, of draws between equal actions and of what happens in the world.

    Returns:
        The episode, and how each of its moves was chosen.

    Raises:
        TextGameError: the game failed.
        Exception: of whoever answers the agent, unchanged.
    """
    life = await execution.Episode.begin(world, seed=seed)
    here = life.state
    turns: tuple[Turn, ...] = ()
    decisions: list[Decision] = []
    start = score = here.reward
    while len(turns) < moves and not life.over and await world.actions(here):
        stream = f"{seed}/{len(turns)}"
        position = Position(turns, here, score)
        searched = await search_move(agent, world, position, rng=Random(stream))
        decisions.append(_decision(searched))
        action = best_action(searched.root, Random(f"{stream}/tie"))
        observation = await observe(world, here)
        here = (await life.act(action)).state
        score += here.reward
        turns = (*turns, Turn(observation, action, here.reward, score))
    last, lived = await observe(world, here), await life.recorded()
    return Episode(turns, last, here.ending, start, lived), tuple(decisions)


async def first_move_metrics(
    world: TextGameDomain, root: Sequence[ActionStatistics], *, executed: str, seed: int
) -> dict[str, Any]:
    """What the first search thinks of the greedy action and of the best other one.

    Which action is greedy is the game's to say, whether the search visited it or not: a search that
    never did has not taken the bait.

    Args:
        world: that was searched; each action of s_0 is played in it once.
        root: statistics of all actions of s_0.
        executed: a_0.
        seed: of what happens in the world.

    Returns:
        greedy_first: whether a_0 is the greedy action, the one with the highest r > 0.
        greedy_q, greedy_prior, greedy_visits: its Q(s_0, a), None if it was never visited,
            π(a|s_0) and N(s_0, a).
        patient_q, patient_prior, patient_visits: those of the visited action with the highest Q
            among the others; missing where no other was visited.
        Nothing at all where no action pays at once.
    """
    start = await world.start(seed)
    happening = execution.world_draws(seed)
    rewards = [(await world.play(start, one.action, happening)).reward for one in root]
    if max(rewards) <= 0:
        return {}
    greedy = root[rewards.index(max(rewards))]
    metrics: dict[str, Any] = {
        "greedy_first": executed == greedy.action,
        "greedy_q": greedy.value if greedy.visits else None,
        "greedy_prior": greedy.prior,
        "greedy_visits": greedy.visits,
    }
    others = [one for one in root if one.visits and one is not greedy]
    if others:
        patient = max(others, key=lambda one: one.value)
        metrics["patient_q"] = patient.value
        metrics["patient_prior"] = patient.prior
        metrics["patient_visits"] = patient.visits
    return metrics


def format_decisions(turns: Sequence[Turn], decisions: Sequence[Decision]) -> str:
    """Every move with the statistics of its root, best Q first, as an aligned table."""
    blocks = []
    for number, (turn, decision) in enumerate(zip(turns, decisions, strict=True), start=1):
        width = max(len(one.action) for one in decision.root)
        lines = [
            f"{number}. {turn.action} (reward {turn.reward:g}, score {turn.score:g}; "
            f"H {decision.depth}, {decision.simulations} simulations)",
            f"   {'':{width}}  {'Q':>8}  {'prior':>5}  {'N':>6}",
        ]
        ranked = sorted(decision.root, key=lambda one: (-one.value, -one.visits))
        lines.extend(
            f"   {one.action:{width}}  {one.value:8.2f}  {one.prior:5.2f}  {one.visits:6d}"
            for one in ranked
        )
        lines.extend(f"   reflection: {reflection}" for reflection in decision.reflections)
        blocks.append("\n".join(lines))
    return "\n\n".join(blocks)


def _decision(searched: Searched) -> Decision:
    return Decision(
        tuple(
            ActionStatistics(edge.action, edge.value, edge.prior, edge.visits)
            for edge in searched.root.edges or ()
        ),
        searched.depth,
        searched.simulations,
        searched.reflections,
    )
