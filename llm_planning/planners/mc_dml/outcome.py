"""What an agent of text games hands back: an episode, what it cost, and the same for people."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, TypeVar

from llm_planning.outcome import Outcome
from llm_planning.planners.mc_dml.wording import observed
from llm_planning.stopwatch import Stopwatch

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from llm_planning.environments.textgame.domain import TextGameDomain
    from llm_planning.environments.textgame.game import Ending, Observation, Transition
    from llm_planning.execution import Execution
    from llm_planning.planners.mc_dml.roles import Turn
    from llm_planning.roles import Role


QuestionT = TypeVar("QuestionT")
AnswerT = TypeVar("AnswerT")


@dataclass(frozen=True, slots=True)
class Episode:
    """One play of a game.

    Attributes:
        turns: o_t, a_t and r_t of each move.
        last: what was seen after the last of them.
        ending: how the game ended; None where it would have gone on (the agent's horizon).
        start: the score at the beginning.
        execution: the same as the world carried it out.
    """

    turns: tuple[Turn, ...]
    last: Observation
    ending: Ending | None
    start: float
    execution: Execution[Transition, str]

    @property
    def score(self) -> float:
        """At the end."""
        return self.turns[-1].score if self.turns else self.start

    @property
    def best_score(self) -> float:
        """The highest at any time, the beginning included."""
        return max((self.start, *(turn.score for turn in self.turns)))


@dataclass(slots=True)
class Spent:
    """What an agent's questions and simulations cost; adds up.

    Attributes:
        engine: with at least one question waiting for its answer.
        simulations: of all searches.
        reflections: that were kept.
        priors: situations that a language model was asked about.
    """

    engine: Stopwatch = field(default_factory=Stopwatch)
    simulations: int = 0
    reflections: int = 0
    priors: int = 0

    def timed(self, role: Role[QuestionT, AnswerT]) -> Role[QuestionT, AnswerT]:
        """The same role, its time counted."""

        async def ask(question: QuestionT, /) -> AnswerT:
            with self.engine.running():
                return await role(question)

        return ask


def game_outcome(
    world: TextGameDomain,
    episode: Episode,
    *,
    spent: Spent,
    header: Mapping[str, Any],
    decisions: Sequence[Mapping[str, Any]] = (),
    best_score: float | None = None,
    text: str = "",
) -> Outcome:
    """The outcome of an episode.

    Success is a game that ended in victory. A game that would have gone on is no success, whatever
    its score, and one that never tells its victory from other endings has none.

    Args:
        world: that was played.
        episode: the last, where there were several.
        spent: on all of them.
        header: of the trace: task, seed, settings.
        decisions: how each move was chosen, JSON-able; one for each turn, or none at all.
        best_score: of all episodes; by default of this one.
        text: about the decisions, for people.
    """
    ending = "horizon" if episode.ending is None else str(episode.ending)
    # What the interpreter did, and how long everything took, depends on what was remembered.
    work = {
        "seconds_engine": spent.engine.seconds,
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
        for turn in episode.turns
    ]
    for move, decision in zip(moves, decisions, strict=bool(decisions)):
        move.update(decision)
    most = f" of {world.max_score:g}" if world.max_score else ""
    conclusion = f"{world.name}: {episode.score:g}{most} points, {ending}"
    return Outcome(
        success=episode.execution.success,
        plan=tuple(turn.action for turn in episode.turns),
        metrics={
            **episode.execution.metrics(),
            "game": world.name,
            "score": episode.score,
            "best_score": episode.best_score if best_score is None else best_score,
            "max_score": world.max_score,
            "normalised_score": episode.score / world.max_score if world.max_score else None,
            "moves": len(episode.turns),
            "ending": ending,
            "simulations": spent.simulations,
            **work,
            "reflections": spent.reflections,
            "priors": spent.priors,
        },
        unrepeatable=frozenset(work),
        trace={
            **header,
            "game": world.name,
            "moves": moves,
            "last": observed(episode.last),
            "ending": ending,
        },
        text="\n\n".join(part for part in (text, conclusion) if part),
    )
