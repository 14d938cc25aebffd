"""The outcome of an agent of text games: what it played and what that cost."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeVar

from llm_planning.outcome import Outcome
from llm_planning.planners.mc_dml.prompts import observed
from llm_planning.planners.mc_dml.roles import trajectory_of

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from llm_planning.environments.textgame.domain import TextGameDomain
    from llm_planning.environments.textgame.game import Transition
    from llm_planning.execution.episode import Episode
    from llm_planning.planners.mc_dml.roles import Trajectory
    from llm_planning.roles import Role
    from llm_planning.settings import Settings
    from llm_planning.specs import Problem
    from llm_planning.stopwatch import Stopwatch

QuestionT = TypeVar("QuestionT")
AnswerT = TypeVar("AnswerT")


def timed(role: Role[QuestionT, AnswerT], stopwatch: Stopwatch) -> Role[QuestionT, AnswerT]:
    """Wraps a role. The stopwatch runs while at least one question waits for its answer."""

    async def ask(question: QuestionT, /) -> AnswerT:
        with stopwatch.running():
            return await role(question)

    return ask


async def game_outcome(
    problem: Problem[Any],
    world: TextGameDomain,
    episode: Episode[Transition, str],
    *,
    settings: Settings,
    seed: int,
    decisions: Sequence[Mapping[str, Any]] = (),
    seconds_engine: float = 0.0,
    simulations: int = 0,
    reflections: int = 0,
    priors: int = 0,
    best_score: float | None = None,
    text: str = "",
    oracles: Sequence[Mapping[str, object]] = (),
) -> Outcome:
    """The outcome of a game.

    Only a game that ended in victory is a success. A game that was cut short is none, whatever its
    score. A game that ended, and of which nothing tells whether it is won, is not judged.

    Args:
        problem: what was planned.
        world: the problem's game, or its domain told as a game.
        episode: the game as it was played; of several rounds, the last.
        settings: of the agent.
        seed: of the trial.
        decisions: how each move was chosen, JSON-able; one for each move, or none at all.
        seconds_engine: time with at least one question waiting for its answer.
        simulations: of all searches.
        reflections: number of kept reflections.
        priors: number of questions to the LLM policy.
        best_score: the highest score of all rounds; by default that of this episode.
        text: about the decisions, for people.
        oracles: descriptions of the roles that rules answered.
    """
    trajectory, execution = trajectory_of(episode), await episode.recorded()
    ending = ending_of(trajectory)
    # Times and interpreter steps depend on which transitions were remembered.
    work = {
        "seconds_engine": seconds_engine,
        "seconds_valid_actions": world.seconds.valid_actions.seconds,
        "seconds_simulation": world.seconds.simulation,
        "interpreter_steps": world.seconds.steps,
    }
    moves = [
        {
            "observation": observed(turn.observation),
            "action": turn.action,
            "reward": turn.reward,
            "score": turn.score,
        }
        for turn in trajectory.turns
    ]
    for move, decision in zip(moves, decisions, strict=bool(decisions)):
        move.update(decision)
    score, most = trajectory.score, world.max_score
    of_most = f" of {most:g}" if most else ""
    conclusion = f"{world.name}: {score:g}{of_most} points, {ending}"
    return Outcome(
        success=execution.success,
        plan=tuple(turn.action for turn in trajectory.turns),
        metrics={
            **execution.metrics(),
            "game": world.name,
            "score": score,
            "best_score": trajectory.best_score if best_score is None else best_score,
            "max_score": most,
            "normalised_score": score / most if most else None,
            "moves": len(trajectory.turns),
            "ending": ending,
            "simulations": simulations,
            **work,
            "reflections": reflections,
            "priors": priors,
        },
        unrepeatable=frozenset(work),
        trace={
            "task": problem.task,
            "seed": seed,
            "settings": settings.to_json(),
            **({"oracles": list(oracles)} if oracles else {}),
            "game": world.name,
            "moves": moves,
            "last": observed(trajectory.last),
            "ending": ending,
        },
        text="\n\n".join(part for part in (text, conclusion) if part),
    )


def ending_of(trajectory: Trajectory) -> str:
    """The ending of the game, or `horizon` if the agent stopped before it."""
    return "horizon" if trajectory.ending is None else str(trajectory.ending)
