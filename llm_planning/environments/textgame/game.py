"""The surface of a text game: states that have names, and what every action does in each.

A game is deterministic given its state, so a state is a key: who holds it can look around in it and
act from it as often as it likes, in any order, like MC-DML's transition function 𝒯 (Section 3.2).
Nothing is ever copied, and no two who play the same game can disturb each other.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any, NamedTuple, Protocol, TypeAlias

from llm_planning.stopwatch import Stopwatch

Snapshot: TypeAlias = Any
"""A state as its interpreter keeps it; opaque to everybody else, and never changed."""


class TextGameError(Exception):
    """A game cannot be made, opened or played; the message says what to do."""


class Ending(StrEnum):
    """How a game can end by itself; the end of an agent's horizon is none of its endings."""

    VICTORY = "victory"
    FAILURE = "failure"


@dataclass(frozen=True, slots=True)
class Transition:
    """What an action does in a state.

    Attributes:
        state: s': its name, where a `TextGame` tells of it; its snapshot, where an `Interpreter`
            does.
        text: what the game says.
        reward: r, the difference of the scores; of the beginning, the score itself.
        ending: None where the game goes on.
    """

    state: Any
    text: str
    reward: float
    ending: Ending | None

    def __str__(self) -> str:
        return self.text


class Origin(NamedTuple):
    """How a state is reached.

    Attributes:
        parent: the state before it.
        action: what leads from there to it.
    """

    parent: str
    action: str


class UnrepeatedError(TextGameError):
    """A game does not repeat itself, as a deterministic one must.

    Args:
        name: of the game.
        origin: what was played again.
        state: where that led before.
        now: where it leads now.
    """

    def __init__(self, name: str, origin: Origin, *, state: str, now: str) -> None:
        super().__init__(
            f"{name} does not repeat itself: {origin.action!r} led from {origin.parent!r} to "
            f"{state!r}, and now leads to {now!r}"
        )


@dataclass(frozen=True, slots=True)
class Observation:
    """o: what the game says, and the state augmented by `look` and `inventory` (Section 4.1)."""

    text: str
    look: str
    inventory: str


@dataclass(slots=True)
class GameSeconds:
    """Where the time of a game went; adds up.

    Attributes:
        simulation: spent in the interpreter for steps and for looking around.
        valid_actions: with at least one question for valid actions waiting for its answer, no
            matter who else waits for the same.
        steps: of the interpreter.
    """

    simulation: float = 0.0
    valid_actions: Stopwatch = field(default_factory=Stopwatch)
    steps: int = 0


class TextGame(Protocol):
    """One game, for one player; others may share everything behind it.

    Attributes:
        name: for people.
        max_score: the highest score there is.
        walkthrough: actions from the beginning on that win it, or lead to the best known score;
            empty where nobody knows.
        objective: what is to be done, in the game's own words; empty where it does not say.
        seconds: what this player's questions cost; answers that were remembered cost nothing.
    """

    name: str
    max_score: float
    walkthrough: tuple[str, ...]
    objective: str
    seconds: GameSeconds

    def knows(self, state: str) -> bool:
        """Whether somebody was told of this state."""
        ...

    async def start(self) -> Transition:
        """The beginning: s_0 and the game's first words.

        Its reward is the score with which the game begins, so the rewards of an episode, this one
        among them, add up to the game's score.
        """
        ...

    async def actions(self, state: str) -> tuple[str, ...]:
        """𝒜(s), the valid actions: all that a rollout asks of a state.

        Returns:
            Without repetitions and always in the same order; nothing where the game has ended, and
            where nothing can be done.

        Raises:
            KeyError: nobody was ever told of this state.
            TextGameError: the interpreter failed.
        """
        ...

    async def look(self, state: str) -> tuple[str, str]:
        """The answers to `look` and to `inventory`, no turn taken; empty where the game has ended.

        Raises:
            KeyError: nobody was ever told of this state.
            TextGameError: the interpreter failed.
        """
        ...

    async def step(self, state: str, action: str) -> Transition:
        """𝒯(s, a).

        Args:
            state: one that `start` or `step` named.
            action: usually a valid one; whatever the game is told, it answers.

        Raises:
            KeyError: nobody was ever told of this state.
            ValueError: the game has ended in this state.
            TextGameError: the interpreter failed.
        """
        ...


class Interpreter(Protocol):
    """Plays a game file from any snapshot; blocks while it does.

    Snapshots are immutable. With equal snapshots and actions, everything that comes out is equal,
    whatever was played in between. Snapshots with equal keys are the same state: texts, rewards,
    valid actions and all that follows are equal.

    Attributes:
        name: for people.
        revision: what remembered answers hold for: a hash of the game file and of whatever else
            they depend on.
        max_score: the highest score there is.
        walkthrough: see `TextGame`.
        objective: likewise.
    """

    name: str
    revision: str
    max_score: float
    walkthrough: tuple[str, ...]
    objective: str

    def begin(self) -> Transition:
        """The first snapshot, the first words and, as reward, the score with which it begins."""
        ...

    def key(self, snapshot: Snapshot) -> str:
        """Names the state."""
        ...

    def step(self, snapshot: Snapshot, action: str) -> Transition:
        """Plays one action.

        Raises:
            TextGameError: the interpreter failed.
        """
        ...

    def look(self, snapshot: Snapshot) -> tuple[str, str]:
        """The answers to `look` and to `inventory`, no turn taken."""
        ...

    async def valid_actions(self, snapshot: Snapshot) -> tuple[str, ...]:
        """𝒜(s); waits where they are computed elsewhere. Not asked of ended games."""
        ...
