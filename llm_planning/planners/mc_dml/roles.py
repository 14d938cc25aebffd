"""The questions of the agents, π(·|s) and reflections (Section 3.1), and the role that reflects."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, TypeAlias

from llm_planning.planners.mc_dml.prompts import ask_reflection
from llm_serving.answers import Constraint
from llm_serving.patterns import finite_regex
from llm_serving.request import Request

if TYPE_CHECKING:
    from llm_planning.environments.textgame.game import Ending, Observation, Transition
    from llm_planning.execution.episode import Episode
    from llm_planning.priors import Policy
    from llm_planning.roles import Role
    from llm_serving.engine import Engine

REFLECTION = "reflection"
"""The role under which the engine counts reflections."""

# A second N could begin the sentence again, and outlines would take minutes to compile that.
_PATTERN = finite_regex(r"Next time[ ,][^.!?N]{20,189}\.")

SENTENCE = Constraint(_PATTERN.regex, _PATTERN.max_bytes)
"""The language of a reflection: one sentence, 31 to 200 plain characters with its full stop.

JSON around it would only cost tokens.
"""


@dataclass(frozen=True, slots=True)
class GameTurn:
    """A move of a game: what the agent saw, and the action that it took then.

    Attributes:
        observation: o_t.
        action: a_t.
        reward: r_t, the reward of the action.
        score: the game's score after the action.
    """

    observation: Observation
    action: str
    reward: float
    score: float


@dataclass(frozen=True, slots=True)
class GameSituation:
    """What π(a|s) depends on; equal situations get equal answers.

    Attributes:
        memory: the turns of ℳ_i before o_t, oldest first. One turn makes the paper's
            (o_{t-1}, a_{t-1}, o_t). Empty at the start of a game and without ℳ_i.
        observation: o_t.
        actions: 𝒜(s), at least one.
        reflections: ℳ_c, oldest first.
        state: s. Rules read it; no prompt shows it.
    """

    memory: tuple[GameTurn, ...]
    observation: Observation
    actions: tuple[str, ...]
    reflections: tuple[str, ...] = ()
    state: Transition | None = field(default=None, compare=False, repr=False)


@dataclass(frozen=True, slots=True)
class Trajectory:
    """h: what an agent saw and did in a game.

    Attributes:
        turns: the moves, oldest first.
        last: what the agent sees after the last move.
        ending: how the game ended; None if it goes on.
        start: the score before the first move.
        states: the state before each move. Rules read them; no prompt shows them.
    """

    turns: tuple[GameTurn, ...]
    last: Observation
    ending: Ending | None = None
    start: float = 0.0
    states: tuple[Transition, ...] = field(default=(), compare=False, repr=False)

    @property
    def score(self) -> float:
        """The score at the end."""
        return self.turns[-1].score if self.turns else self.start

    @property
    def best_score(self) -> float:
        """The highest score at any time, the start included."""
        return max((self.start, *(turn.score for turn in self.turns)))


def trajectory_of(episode: Episode[Transition, str]) -> Trajectory:
    """The trajectory of an episode so far."""
    score = episode.start.reward
    turns = []
    reached = (episode.start, *(move.step.state for move in episode.moves))
    for move in episode.moves:
        score += move.step.reward
        turns.append(GameTurn(move.seen, move.action, move.step.reward, score))
    return Trajectory(
        tuple(turns), episode.now, episode.state.ending, episode.start.reward, reached[:-1]
    )


GamePolicy: TypeAlias = "Policy[GameSituation]"
"""LLM(a | ℳ_i, ℳ_c, p): π, shape [actions], not negative, sum 1."""

Reflect: TypeAlias = "Role[Trajectory, str]"
"""LLM(h, p_reflection): maps a trajectory that failed to advice in one sentence."""


async def reflect(trajectory: Trajectory, /, *, engine: Engine) -> str:
    """Asks a model what to do better (Algorithm 1, lines 11 and 45). The answer is greedy.

    Args:
        trajectory: a trajectory that failed.
        engine: answers the role `reflection`.

    Returns:
        A sentence of `SENTENCE`.

    Raises:
        ServingError: the engine failed.
    """
    answer = await engine.generate(
        Request(prompt=ask_reflection(trajectory), constraint=SENTENCE, role=REFLECTION)
    )
    return answer.text.strip()
