"""What the agents ask, whoever answers: π(·|s) and reflections (Section 3.1)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeAlias

if TYPE_CHECKING:
    from llm_planning.environments.textgame.game import Ending, Observation, Transition
    from llm_planning.execution import Episode
    from llm_planning.priors import Policy
    from llm_planning.roles import Role


@dataclass(frozen=True, slots=True)
class GameTurn:
    """o and the action a that was taken on it.

    Attributes:
        observation: o_t.
        action: a_t.
        reward: r_t, of the action.
        score: the game's, after the action.
    """

    observation: Observation
    action: str
    reward: float
    score: float


@dataclass(frozen=True, slots=True)
class GameSituation:
    """What π(a|s) depends on; equal situations get equal answers.

    Attributes:
        memory: the past of ℳ_i, oldest first: one turn makes (o_{t-1}, a_{t-1}, o_t), the paper's;
            none at the beginning of a game and without ℳ_i.
        observation: o_t.
        actions: 𝒜(s), at least one.
        reflections: ℳ_c, oldest first.
    """

    memory: tuple[GameTurn, ...]
    observation: Observation
    actions: tuple[str, ...]
    reflections: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Trajectory:
    """h: what was seen and done in a game.

    Attributes:
        turns: o_t, a_t and r_t of each move, oldest first.
        last: what was seen after the last of them.
        ending: how the game ended; None where it goes on.
        start: the score before the first of them.
    """

    turns: tuple[GameTurn, ...]
    last: Observation
    ending: Ending | None = None
    start: float = 0.0

    @property
    def score(self) -> float:
        """At the end."""
        return self.turns[-1].score if self.turns else self.start

    @property
    def best_score(self) -> float:
        """The highest at any time, the beginning included."""
        return max((self.start, *(turn.score for turn in self.turns)))


def trajectory_of(episode: Episode[Transition, str]) -> Trajectory:
    """An episode of a game as its agent saw it, so far."""
    score = episode.start.reward
    turns = []
    for move in episode.moves:
        score += move.step.reward
        turns.append(GameTurn(move.seen, move.action, move.step.reward, score))
    return Trajectory(tuple(turns), episode.now, episode.state.ending, episode.start.reward)


GamePolicy: TypeAlias = "Policy[GameSituation]"
"""LLM(a | ℳ_i, ℳ_c, p): π, shape [actions], not negative, sum 1."""

Reflect: TypeAlias = "Role[Trajectory, str]"
"""LLM(h, p_reflection): why a trajectory failed and what to do better, in a sentence."""
