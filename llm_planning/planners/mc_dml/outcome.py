"""What an agent of text games hands back: what it played, what that cost, and both for people."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeVar

from llm_planning.outcome import Outcome
from llm_planning.planners.mc_dml.wording import observed

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from llm_planning.environments.textgame.domain import TextGameDomain
    from llm_planning.environments.textgame.game import Transition
    from llm_planning.execution import Execution
    from llm_planning.planners.mc_dml.roles import Trajectory
    from llm_planning.roles import Role
    from llm_planning.settings import Settings
    from llm_planning.specs import Problem
    from llm_planning.stopwatch import Stopwatch

QuestionT = TypeVar("QuestionT")
AnswerT = TypeVar("AnswerT")


def timed(role: Role[QuestionT, AnswerT], stopwatch: Stopwatch) -> Role[QuestionT, AnswerT]:
    """The same role; the stopwatch runs while a question waits for its answer."""

    async def ask(question: QuestionT, /) -> AnswerT:
        with stopwatch.running():
            return await role(question)

    return ask


def game_outcome(
    problem: Problem[Any],
    world: TextGameDomain,
    trajectory: Trajectory,
    execution: Execution[Transition, str],
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
) -> Outcome:
    """The outcome of a game.

    Success is a game that ended in victory. A game that would have gone on is no success, whatever
    its score, and one that never tells its victory from other endings has none.

    Args:
        problem: what was planned.
        world: that was played, which is the problem's or tells it as a game.
        trajectory: the last, where several were played.
        execution: the same as the world carried it out.
        settings: of the agent.
        seed: of the trial.
        decisions: how each move was chosen, JSON-able; one for each turn, or none at all.
        seconds_engine: with at least one question waiting for its answer.
        simulations: of all searches.
        reflections: that were kept.
        priors: situations that a language model was asked about.
        best_score: of all trajectories; by default of this one.
        text: about the decisions, for people.
    """
    ending = ending_of(trajectory)
    # What the interpreter did, and how long everything took, depends on what was remembered.
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
            "game": world.name,
            "moves": moves,
            "last": observed(trajectory.last),
            "ending": ending,
        },
        text="\n\n".join(part for part in (text, conclusion) if part),
    )


def ending_of(trajectory: Trajectory) -> str:
    """How a trajectory ended: as the game did, or at the agent's horizon."""
    return "horizon" if trajectory.ending is None else str(trajectory.ending)
