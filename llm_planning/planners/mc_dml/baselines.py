"""The baselines without search (Appendix B): every move is drawn from the policy.

PUCT, UCT and the ablations are MC-DML with other settings; `specs` has their table.

The LLM agent draws from π(·|s) at temperature 0.1, with the trajectory's last turns in the prompt.
If it repeats itself five times, it takes a random action. The Reflection agent (Shinn et al., 2024)
plays several rounds so, and reflects after each for the rounds that follow. The last round counts.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from random import Random
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

from llm_planning.domain_calls import actions_of
from llm_planning.execution.episode import play_decided
from llm_planning.planners.mc_dml.algorithm import trace_reflection
from llm_planning.planners.mc_dml.playing import game_outcome
from llm_planning.planners.mc_dml.roles import (
    GameAsking,
    GameSituation,
    Trajectory,
    observe,
    text_of,
    trajectory_of,
)
from llm_planning.priors import PriorSettings, softmax

if TYPE_CHECKING:
    from collections.abc import Sequence

    from llm_planning.domain import Domain
    from llm_planning.execution.episode import Episode
    from llm_planning.outcome import Outcome
    from llm_planning.planners.mc_dml.roles import GamePolicy, GameTurn, Observation, Reflect
    from llm_planning.planners.mc_dml.settings import LlmAgentSettings, ReflectionAgentSettings
    from llm_planning.specs import Run

REPEATS = 5
"""After so many times of one action in one state, the agent takes a random action."""

ChosenBy: TypeAlias = Literal["policy", "repeats"]


@dataclass(frozen=True, slots=True)
class MoveChoice:
    """How a move was chosen.

    Attributes:
        policy: each valid action with its probability; all equal for a random action.
        by: `policy`, or `repeats` for a random action after `REPEATS`.
    """

    policy: tuple[tuple[str, float], ...]
    by: ChosenBy

    def to_json(self) -> dict[str, Any]:
        """For a trace, in the form of a search's root without Q and N."""
        root = [{"action": action, "prior": p} for action, p in self.policy]
        return {"root": root, "chosen_by": self.by}


async def llm_agent(run: Run[Any, LlmAgentSettings]) -> Outcome:
    """Plays a game once, without reflections.

    Raises:
        DomainError: the world hides its state.
        TextGameError: the game cannot be played.
        ServingError: the engine failed.
    """
    settings = run.settings
    ask = GameAsking(run, settings)
    prior = ask.prior(PriorSettings.read({"prior": settings.prior}))
    logprobs = ask.timed(prior.logprobs)
    played = await play_round(run.world, logprobs, settings=settings, seed=run.seed)
    return await game_outcome(
        run,
        played.episode,
        decisions=[choice.to_json() for choice in played.choices],
        seconds_engine=ask.waiting.seconds,
        priors=prior.questions,
        text=_moves(played),
        oracles=ask.oracles,
    )


async def reflection_agent(run: Run[Any, ReflectionAgentSettings]) -> Outcome:
    """Plays a game in rounds, and reflects after each. The score is that of the last round.

    A won round is the last, because nothing went wrong in it.
    """
    settings = run.settings
    ask = GameAsking(run, settings)
    prior = ask.prior(PriorSettings.read({"prior": settings.prior}))
    rounds = await play_rounds(
        run.world, ask.timed(prior.logprobs), ask.reflect(), settings=settings, seed=run.seed
    )
    last = rounds[-1]
    outcome = await game_outcome(
        run,
        last.episode,
        decisions=[choice.to_json() for choice in last.choices],
        seconds_engine=ask.waiting.seconds,
        reflections=len(last.reflections),
        priors=prior.questions,
        best_score=max(played.trajectory.best_score for played in rounds),
        text="\n".join((_scores(rounds), _moves(last))),
        oracles=ask.oracles,
    )
    return replace(
        outcome,
        metrics={**outcome.metrics, "rounds": len(rounds)},
        trace={**outcome.trace, "rounds": [played.to_json() for played in rounds]},
    )


@dataclass(frozen=True, slots=True)
class Round:
    """A game played once.

    Attributes:
        episode: what happened.
        trajectory: the episode as the agent saw it.
        reflections: ℳ_c during the round.
    """

    episode: Episode[Any, Any]
    trajectory: Trajectory
    choices: tuple[MoveChoice, ...]
    reflections: tuple[str, ...]

    def to_json(self) -> dict[str, Any]:
        """For a trace."""
        return {
            "reflections": list(self.reflections),
            "actions": [turn.action for turn in self.trajectory.turns],
            "score": self.trajectory.score,
            "ending": self.trajectory.ending or "horizon",
        }


async def play_round(
    world: Domain[Any, Any],
    logprobs: GamePolicy,
    *,
    settings: LlmAgentSettings,
    seed: int,
    number: int = 0,
    reflections: tuple[str, ...] = (),
) -> Round:
    """Plays a game once, and draws every move from π^(1/temperature).

    Args:
        world: the game. A state without actions ends the episode.
        logprobs: log π, shape [actions], in nats.
        seed: of the draws, and of the world.
        number: of the round; part of the seed of the draws.
        reflections: of earlier rounds.
    """
    draw = Random(f"{seed}/{number}")

    async def decide(
        episode: Episode[Any, Any], choices: Sequence[MoveChoice]
    ) -> tuple[Any, MoveChoice] | None:
        actions = await actions_of(world, episode.state)
        if not actions:
            return None
        names = tuple(map(str, actions))
        turns, observation = trajectory_of(episode).turns, episode.now
        by: ChosenBy = "repeats" if _is_stuck(turns, choices, observation) else "policy"
        if by == "repeats":
            weights = [1.0 / len(actions)] * len(actions)
        else:
            past = turns[-settings.history :] if settings.history else ()
            situation = GameSituation(past, observation, names, reflections, episode.state)
            weights = softmax(await logprobs(situation), temperature=settings.temperature)
        (action,) = draw.choices(actions, weights)
        return action, MoveChoice(tuple(zip(names, weights, strict=True)), by)

    episode, choices = await play_decided(
        world,
        decide,
        see=lambda step: observe(world, step.state, text_of(step)),
        moves=settings.moves,
        seed=seed,
    )
    return Round(episode, trajectory_of(episode), tuple(choices), reflections)


def _is_stuck(
    turns: Sequence[GameTurn], choices: Sequence[MoveChoice], observation: Observation
) -> bool:
    """Whether the policy took the same action in the same state the last `REPEATS` times.

    Two states are the same here if place and belongings look the same, because a game that counts
    its turns never returns to exactly the same state.
    """
    last = turns[-REPEATS:]
    if len(last) < REPEATS or any(choice.by == "repeats" for choice in choices[-REPEATS:]):
        return False
    seen = {(o.look, o.inventory) for o in (observation, *(turn.observation for turn in last))}
    return len(seen) == 1 and len({turn.action for turn in last}) == 1


async def play_rounds(
    world: Domain[Any, Any],
    logprobs: GamePolicy,
    reflect: Reflect,
    *,
    settings: ReflectionAgentSettings,
    seed: int,
) -> list[Round]:
    """Plays `k` + 1 rounds, or fewer if the agent wins one.

    Args:
        world: the game; every round starts it anew.
        logprobs: log π, shape [actions], in nats.
        reflect: on every round except the last. A sentence is kept only once.
        seed: of the draws, and of the world.
    """
    rounds: list[Round] = []
    reflections: tuple[str, ...] = ()
    for number in range(settings.k + 1):
        played = await play_round(
            world, logprobs, settings=settings, seed=seed, number=number, reflections=reflections
        )
        rounds.append(played)
        if played.trajectory.ending == "victory" or number == settings.k:
            break
        reflection = await reflect(played.trajectory)
        if reflection not in reflections:
            reflections = (*reflections, reflection)
            trace_reflection(reflection)
    return rounds


def _moves(played: Round) -> str:
    """Writes every move with its probability."""
    moves = zip(played.trajectory.turns, played.choices, strict=True)
    return "\n".join(
        f"{number}. {turn.action} (reward {turn.reward:g}, score {turn.score:g}; "
        f"{'random' if choice.by == 'repeats' else f'p {dict(choice.policy)[turn.action]:.2f}'})"
        for number, (turn, choice) in enumerate(moves, start=1)
    )


def _scores(rounds: Sequence[Round]) -> str:
    """Writes every round's score, then the reflections of all rounds."""
    lines = [
        f"round {i}: score {played.trajectory.score:g}" for i, played in enumerate(rounds, start=1)
    ]
    lines.extend(f"reflection: {reflection}" for reflection in rounds[-1].reflections)
    return "\n".join(lines)
