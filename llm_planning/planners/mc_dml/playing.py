"""The baselines that only prompt (Appendix B): no search, every move is drawn from the policy.

LLM agent: π(·|s) with the trajectory's last turns in the prompt, at temperature 0.1; whoever
repeats itself five times takes a random action. Reflection agent (Shinn et al., 2024): the same in
rounds, with a reflection at the end of each for those that follow; the last round counts.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from random import Random
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

from pydantic import Field

from llm_planning import execution
from llm_planning.environments.textgame.game import Ending
from llm_planning.planners.mc_dml.outcome import Episode, Spent, game_outcome
from llm_planning.planners.mc_dml.prompts import Questions
from llm_planning.planners.mc_dml.reflection import LlmReflection
from llm_planning.planners.mc_dml.roles import Situation, Trajectory, Turn
from llm_planning.planners.mc_dml.search import observe, remembered
from llm_planning.planners.mc_dml.settings import EpisodeSettings, ReflectionSettings
from llm_planning.planners.mc_dml.worlds import as_text_game
from llm_planning.priors import PriorKind, make_prior, softmax

if TYPE_CHECKING:
    from collections.abc import Sequence

    from llm_planning.environments.textgame.domain import TextGameDomain
    from llm_planning.environments.textgame.game import Observation
    from llm_planning.outcome import Outcome
    from llm_planning.planners.mc_dml.roles import Reflect
    from llm_planning.priors import Prior
    from llm_planning.roles import Engines
    from llm_planning.specs import Problem

REPEATS = 5
"""Consecutive times of one action in one state, after which a random action is taken."""

ChosenBy: TypeAlias = Literal["policy", "repeats"]


class LlmAgentSettings(EpisodeSettings):
    """Settings of the LLM agent.

    Attributes:
        prior: how the model is asked for π(·|s).
        history: turns of the current trajectory before o_t that the prompt tells; the paper does
            not say how many.
        temperature: of the draw; the probabilities are those of `prior` to the power of its
            inverse.
    """

    prior: PriorKind = "exact"
    history: int = Field(3, ge=0, le=20)
    temperature: float = Field(0.1, gt=0.0, allow_inf_nan=False)


class ReflectionAgentSettings(ReflectionSettings, LlmAgentSettings):
    """Settings of the Reflection agent; `k` reflections make k + 1 rounds."""


@dataclass(frozen=True, slots=True)
class Choice:
    """How a move was chosen.

    Attributes:
        policy: probability of every valid action, in their order; all equal for a random action.
        by: the policy, or its repeats.
    """

    policy: tuple[tuple[str, float], ...]
    by: ChosenBy

    def to_json(self) -> dict[str, Any]:
        """For a trace, as the root of a search that has neither Q nor N."""
        root = [{"action": action, "prior": p} for action, p in self.policy]
        return {"root": root, "chosen_by": self.by}


@dataclass(frozen=True, slots=True, kw_only=True)
class LlmPlayer:
    """Who draws a move from the policy.

    Attributes:
        prior: the policy.
        spent: where its questions are counted.
        history: turns before o_t that it is told.
        temperature: of the draw.
    """

    prior: Prior[Situation]
    spent: Spent
    history: int
    temperature: float

    async def policy(self, situation: Situation) -> list[float]:
        """π^(1/temperature), normalised, shape [actions].

        Raises:
            ServingError: the engine failed.
        """
        with self.spent.engine.running():
            logprobs = await self.prior.logprobs(situation)
        return softmax(logprobs, temperature=self.temperature)

    async def play(
        self,
        world: TextGameDomain,
        *,
        moves: int,
        seed: int,
        number: int = 0,
        reflections: tuple[str, ...] = (),
    ) -> tuple[Episode, tuple[Choice, ...]]:
        """Plays a game once.

        Args:
            world: from its start.
            moves: most of them; a state in which nothing can be done ends the episode as well.
            seed: of the draws, and of what happens in the world.
            number: of the round.
            reflections: of earlier rounds.

        Returns:
            The episode, and how each of its moves was chosen.

        Raises:
            TextGameError: the game failed.
            ServingError: the engine failed.
        """
        life = await execution.Episode.begin(world, seed=seed)
        here = life.state
        turns: list[Turn] = []
        choices: list[Choice] = []
        draw = Random(f"{seed}/{number}")
        start = score = here.reward
        observation = await observe(world, here)
        while len(turns) < moves and not life.over and (actions := await world.actions(here)):
            by: ChosenBy = "repeats" if _is_stuck(turns, choices, observation) else "policy"
            if by == "repeats":
                weights = [1.0 / len(actions)] * len(actions)
            else:
                told = tuple(turns[-self.history :]) if self.history else ()
                weights = await self.policy(Situation(told, observation, actions, reflections))
            (action,) = draw.choices(actions, weights)
            choices.append(Choice(tuple(zip(actions, weights, strict=True)), by))
            here = (await life.act(action)).state
            score += here.reward
            turns.append(Turn(observation, action, here.reward, score))
            observation = await observe(world, here)
        lived = await life.recorded()
        return Episode(tuple(turns), observation, here.ending, start, lived), tuple(choices)


def _is_stuck(turns: Sequence[Turn], choices: Sequence[Choice], observation: Observation) -> bool:
    """Whether the policy took the same action in this state the last `REPEATS` times.

    The state is what an agent sees of it, place and belongings: a game that counts its turns is
    never twice in the same state by itself.
    """
    last = turns[-REPEATS:]
    if len(last) < REPEATS or any(choice.by == "repeats" for choice in choices[-REPEATS:]):
        return False
    seen = {(o.look, o.inventory) for o in (observation, *(turn.observation for turn in last))}
    return len(seen) == 1 and len({turn.action for turn in last}) == 1


async def llm_agent(
    problem: Problem[Any], *, engines: Engines, settings: LlmAgentSettings, seed: int
) -> Outcome:
    """Plays a game once, without reflections.

    Args:
        problem: a text game, or any domain that is told as one.
        engines: who answers `prior`.
        settings: of the agent.
        seed: of the draws.

    Raises:
        DomainError: the world hides its state.
        TextGameError: the game cannot be played.
        ServingError: the engine failed.
    """
    world = as_text_game(problem)
    player = _player(engines, settings, seed)
    episode, choices = await player.play(world, moves=settings.moves, seed=seed)
    player.spent.priors = player.prior.questions
    return game_outcome(
        world,
        episode,
        spent=player.spent,
        header={"task": problem.task, "seed": seed, "settings": settings.to_json()},
        decisions=[choice.to_json() for choice in choices],
        text=_moves(episode, choices),
    )


async def reflection_agent(
    problem: Problem[Any], *, engines: Engines, settings: ReflectionAgentSettings, seed: int
) -> Outcome:
    """Plays a game in rounds; the score is the last one's.

    A round that is won is the last, since nothing about it went wrong.

    Args:
        problem: a text game, or any domain that is told as one.
        engines: who answers `prior` and `reflection`.
        settings: of the agent.
        seed: of the draws.

    Raises:
        DomainError: the world hides its state.
        TextGameError: the game cannot be played.
        ServingError: the engine failed.
    """
    world = as_text_game(problem)
    player = _player(engines, settings, seed)
    reflect = player.spent.timed(LlmReflection(engines.of("reflection")))
    rounds = await play_rounds(world, player, reflect, settings=settings, seed=seed)
    last = rounds[-1]
    player.spent.priors = player.prior.questions
    player.spent.reflections = len(last.reflections)
    outcome = game_outcome(
        world,
        last.episode,
        spent=player.spent,
        header={"task": problem.task, "seed": seed, "settings": settings.to_json()},
        decisions=[choice.to_json() for choice in last.choices],
        best_score=max(one.episode.best_score for one in rounds),
        text="\n".join((_scores(rounds), _moves(last.episode, last.choices))),
    )
    return replace(
        outcome,
        metrics={**outcome.metrics, "rounds": len(rounds)},
        trace={**outcome.trace, "rounds": [one.to_json() for one in rounds]},
    )


@dataclass(frozen=True, slots=True)
class Round:
    """One round of the Reflection agent.

    Attributes:
        reflections: ℳ_c while it was played.
        episode: what happened.
        choices: how its moves were chosen.
    """

    reflections: tuple[str, ...]
    episode: Episode
    choices: tuple[Choice, ...]

    def to_json(self) -> dict[str, Any]:
        """For a trace."""
        return {
            "reflections": list(self.reflections),
            "actions": [turn.action for turn in self.episode.turns],
            "score": self.episode.score,
            "ending": "horizon" if self.episode.ending is None else str(self.episode.ending),
        }


async def play_rounds(
    world: TextGameDomain,
    player: LlmPlayer,
    reflect: Reflect,
    *,
    settings: ReflectionAgentSettings,
    seed: int,
) -> list[Round]:
    """Plays `k` + 1 rounds, or fewer if one is won.

    Args:
        world: from its start, in every round.
        player: plays all of them.
        reflect: on each but the last; a sentence that is known already is not added again.
        settings: of the agent.
        seed: of the draws.

    Raises:
        TextGameError: the game failed.
        ServingError: the engine failed.
    """
    rounds: list[Round] = []
    reflections: tuple[str, ...] = ()
    for number in range(settings.k + 1):
        episode, choices = await player.play(
            world, moves=settings.moves, seed=seed, number=number, reflections=reflections
        )
        rounds.append(Round(reflections, episode, choices))
        if episode.ending is Ending.VICTORY or number == settings.k:
            break
        reflection = await reflect(Trajectory(episode.turns, episode.last))
        if reflection not in reflections:
            reflections = (*reflections, reflection)
            remembered(reflection)
    return rounds


def _player(engines: Engines, settings: LlmAgentSettings, seed: int) -> LlmPlayer:
    return LlmPlayer(
        prior=make_prior(settings.prior, engines.of("prior"), wording=Questions(), seed=seed),
        spent=Spent(),
        history=settings.history,
        temperature=settings.temperature,
    )


def _moves(episode: Episode, choices: Sequence[Choice]) -> str:
    """Every move with its probability."""
    return "\n".join(
        f"{number}. {turn.action} (reward {turn.reward:g}, score {turn.score:g}; "
        f"{'random' if choice.by == 'repeats' else f'p {dict(choice.policy)[turn.action]:.2f}'})"
        for number, (turn, choice) in enumerate(zip(episode.turns, choices, strict=True), start=1)
    )


def _scores(rounds: Sequence[Round]) -> str:
    """Every round's score and what was learnt from it."""
    lines = [f"round {i}: score {one.episode.score:g}" for i, one in enumerate(rounds, start=1)]
    lines.extend(f"reflection: {reflection}" for reflection in rounds[-1].reflections)
    return "\n".join(lines)
