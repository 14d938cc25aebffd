"""A game's own walkthrough, replayed: what there is to win, and how far apart (Table 5)."""

from __future__ import annotations

from dataclasses import dataclass, replace
from statistics import fmean
from typing import TYPE_CHECKING, Any

from llm_planning import execution
from llm_planning.environments.textgame.game import TextGameError
from llm_planning.planners.mc_dml.outcome import Episode, Spent, game_outcome
from llm_planning.planners.mc_dml.roles import Turn
from llm_planning.planners.mc_dml.search import observe

if TYPE_CHECKING:
    from collections.abc import Sequence

    from llm_planning.environments.textgame.domain import TextGameDomain
    from llm_planning.outcome import Outcome
    from llm_planning.roles import Engines
    from llm_planning.settings import NoSettings
    from llm_planning.specs import Problem


@dataclass(frozen=True, slots=True)
class Replay:
    """A walkthrough as it was played.

    Attributes:
        episode: what happened; nothing is played after the end of the game.
        choices: |𝒜(s)| of the state of each turn.
    """

    episode: Episode
    choices: tuple[int, ...]

    def statistics(self) -> dict[str, Any]:
        """The statistics of Table 5.

        Returns:
            walkthrough_length: steps.
            actions_per_step: mean of |𝒜(s)|; None without steps.
            steps_per_reward, max_steps_per_reward: mean and largest distance, in steps, from one
                rewarded step to the next. The way to the first one counts as a distance, what
                follows the last as none; a step that loses points is not rewarded. None without
                rewards.
        """
        turns = enumerate(self.episode.turns, start=1)
        rewarded = [number for number, turn in turns if turn.reward > 0]
        distances = [here - before for before, here in zip([0, *rewarded], rewarded, strict=False)]
        return {
            "walkthrough_length": len(self.episode.turns),
            "actions_per_step": fmean(self.choices) if self.choices else None,
            "steps_per_reward": fmean(distances) if distances else None,
            "max_steps_per_reward": max(distances, default=None),
        }


async def replay(world: TextGameDomain, walkthrough: Sequence[str], *, seed: int) -> Replay:
    """Plays a walkthrough until its end or that of the game.

    Args:
        world: from its start.
        walkthrough: actions, which need not be among the valid ones.
        seed: of what happens in the world.

    Raises:
        TextGameError: the game failed.
    """
    life = await execution.Episode.begin(world, seed=seed)
    here = life.state
    turns: list[Turn] = []
    choices: list[int] = []
    start = score = here.reward
    for action in walkthrough:
        if life.over:
            break
        observation = await observe(world, here)
        choices.append(len(await world.actions(here)))
        here = (await life.act(action)).state
        score += here.reward
        turns.append(Turn(observation, action, here.reward, score))
    last, lived = await observe(world, here), await life.recorded()
    episode = Episode(tuple(turns), last, here.ending, start, lived)
    return Replay(episode, tuple(choices))


async def play_walkthrough(
    problem: Problem[TextGameDomain],
    *,
    engines: Engines,  # noqa: ARG001 - nobody is asked
    settings: NoSettings,
    seed: int,
) -> Outcome:
    """Replays a game's walkthrough.

    Args:
        problem: a game that knows how it is won.
        engines: of no use.
        settings: none.
        seed: of what happens in the world.

    Raises:
        TextGameError: the game cannot be played, or has no walkthrough.
    """
    world = problem.world
    if not world.walkthrough:
        raise TextGameError(f"{world.name} comes without a walkthrough: play another game")
    replayed = await replay(world, world.walkthrough, seed=seed)
    outcome = game_outcome(
        world,
        replayed.episode,
        spent=Spent(),
        header={"task": problem.task, "seed": seed, "settings": settings.to_json()},
        text=_rewards(replayed.episode),
    )
    return replace(outcome, metrics={**outcome.metrics, **replayed.statistics()})


def _rewards(episode: Episode) -> str:
    """Each step that changes the score."""
    return "\n".join(
        f"{number}. {turn.action}: {turn.reward:+g}, score {turn.score:g}"
        for number, turn in enumerate(episode.turns, start=1)
        if turn.reward
    )
