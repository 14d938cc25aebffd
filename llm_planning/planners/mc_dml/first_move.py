"""Table 4 as metrics: the greedy action of the first search beside its best rival.

At a bottleneck the action that pays at once is a bait (Figure 1). What the search made of it, in a
game that begins at one, is what tells agents with and without ℳ_c apart.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Sequence

    from llm_planning.environments.textgame.game import TextGame
    from llm_planning.planners.mc_dml.episode import ActionStatistics


async def first_move_metrics(
    game: TextGame, root: Sequence[ActionStatistics], *, executed: str
) -> dict[str, Any]:
    """What the first search thinks of the greedy action and of the best other one.

    Which action is greedy is the game's to say, whether the search visited it or not: a search that
    never did has not taken the bait.

    Args:
        game: that was searched; each action of s_0 is played in it once.
        root: statistics of all actions of s_0.
        executed: a_0.

    Returns:
        greedy_first: whether a_0 is the greedy action, the one with the highest r > 0.
        greedy_q, greedy_prior, greedy_visits: its Q(s_0, a), None if it was never visited,
            π(a|s_0) and N(s_0, a).
        patient_q, patient_prior, patient_visits: those of the visited action with the highest Q
            among the others; missing where no other was visited.
        Nothing at all where no action pays at once.
    """
    start = (await game.start()).state
    rewards = [(await game.step(start, one.action)).reward for one in root]
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
