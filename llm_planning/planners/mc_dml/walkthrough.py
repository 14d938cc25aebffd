"""Replays a game's own walkthrough, and measures the distances between its rewards (Table 5)."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise
from statistics import fmean
from typing import TYPE_CHECKING, Any

from llm_planning.environments.textgame.game import TextGameError
from llm_planning.execution.episode import play_decided
from llm_planning.planners.mc_dml.playing import game_outcome
from llm_planning.planners.mc_dml.roles import observe, trajectory_of

if TYPE_CHECKING:
    from collections.abc import Sequence

    from llm_planning.environments.textgame.domain import TextGameDomain
    from llm_planning.environments.textgame.game import Transition
    from llm_planning.execution.episode import Episode
    from llm_planning.outcome import Outcome
    from llm_planning.planners.mc_dml.roles import GameTurn, Trajectory
    from llm_planning.settings import NoSettings
    from llm_planning.specs import Run


async def play_walkthrough(run: Run[TextGameDomain, NoSettings]) -> Outcome:
    """Replays a game's walkthrough, which asks no model.

    Raises:
        TextGameError: the game cannot be played, or has no walkthrough.
    """
    world = run.world
    if not world.walkthrough:
        raise TextGameError(f"{world.name} comes without a walkthrough: play another game")
    episode, choices = await replay(world, world.walkthrough, seed=run.seed)
    trajectory = trajectory_of(episode)
    outcome = await game_outcome(run, episode, text=_rewards(trajectory))
    statistics = walkthrough_statistics(trajectory.turns, choices)
    return replace(outcome, metrics={**outcome.metrics, **statistics})


async def replay(
    world: TextGameDomain, walkthrough: Sequence[str], *, seed: int
) -> tuple[Episode[Transition, str], list[int]]:
    """Plays a walkthrough until it or the game ends.

    Args:
        walkthrough: actions; they need not be among the valid actions.
        seed: of the world.

    Returns:
        The episode, and |𝒜(s)| of the state before each action.
    """

    async def decide(episode: Episode[Transition, str], choices: Sequence[int]) -> tuple[str, int]:
        return walkthrough[len(choices)], len(await world.actions(episode.state))

    return await play_decided(
        world,
        decide,
        see=lambda step: observe(world, step.state),
        moves=len(walkthrough),
        seed=seed,
    )


def walkthrough_statistics(turns: Sequence[GameTurn], choices: Sequence[int]) -> dict[str, Any]:
    """The statistics of Table 5.

    Args:
        turns: the walkthrough as it was played.
        choices: |𝒜(s)| of the state before each action.

    Returns:
        walkthrough_length: steps.
        actions_per_step: mean of |𝒜(s)|; None without steps.
        steps_per_reward, max_steps_per_reward: mean and largest distance, in steps, "between two
            reward-triggering steps" (Appendix A); None where fewer than two steps change the
            score. As in the authors' published code (`game_stas.py`), a step that loses points is
            one of them, and the way to the first one is no distance.
    """
    changing = [number for number, turn in enumerate(turns, start=1) if turn.reward]
    distances = [here - before for before, here in pairwise(changing)]
    return {
        "walkthrough_length": len(turns),
        "actions_per_step": fmean(choices) if choices else None,
        "steps_per_reward": fmean(distances) if distances else None,
        "max_steps_per_reward": max(distances, default=None),
    }


def _rewards(trajectory: Trajectory) -> str:
    """Writes each step that changes the score."""
    return "\n".join(
        f"{number}. {turn.action}: {turn.reward:+g}, score {turn.score:g}"
        for number, turn in enumerate(trajectory.turns, start=1)
        if turn.reward
    )
