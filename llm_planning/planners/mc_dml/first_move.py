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

    Args:
        game: that was searched; asked again only for what it has answered.
        root: statistics of the actions of s_0.
        executed: a_0.

    Returns:
        greedy_first: whether a_0 is the greedy action, the one with the highest r > 0.
        greedy_q, greedy_prior, greedy_visits: its Q(s_0, a), π(a|s_0) and N(s_0, a).
        patient_q, patient_prior, patient_visits: those of the action with the highest Q among
            the others.
        Nothing at all where none of the visited actions pays at once, or only one was visited.
    """
    visited = [one for one in root if one.visits]
    start = (await game.start()).state
    rewards = [(await game.step(start, one.action)).reward for one in visited]
    if len(visited) < 2 or max(rewards) <= 0:
        return {}
    greedy = visited.pop(rewards.index(max(rewards)))
    patient = max(visited, key=lambda one: one.value)
    return {
        "greedy_first": executed == greedy.action,
        "greedy_q": greedy.value,
        "greedy_prior": greedy.prior,
        "greedy_visits": greedy.visits,
        "patient_q": patient.value,
        "patient_prior": patient.prior,
        "patient_visits": patient.visits,
    }
