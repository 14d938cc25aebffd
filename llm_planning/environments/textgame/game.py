"""The interface of a text game: named states, and the transition of every action in each.

A game is deterministic given its state. So the name of a state is enough to look around in it and
to act from it, any number of times and in any order, as with MC-DML's transition function 𝒯
(Section 3.2). No game is ever copied, and players of the same game cannot disturb each other.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any, NamedTuple, Protocol, TypeAlias

from llm_planning.stopwatch import Stopwatch

Snapshot: TypeAlias = Any
"""A state in the form of its interpreter; immutable, and opaque to all other code."""


class TextGameError(Exception):
    """A game cannot be made, opened or played; the message says what to do."""


class Ending(StrEnum):
    """How a game ends; an episode that is cut off at the horizon has no ending.

    `OVER` is the end of a story of which nothing tells whether it is won.
    """

    VICTORY = "victory"
    FAILURE = "failure"
    OVER = "over"


@dataclass(frozen=True, slots=True)
class Transition:
    """The result of an action in a state, or the beginning of a game.

    Attributes:
        state: s': the state's name in a `TextGame`, its snapshot in an `Interpreter`.
        text: the game's answer.
        reward: r, the difference of the scores; for the beginning, the first score.
        ending: None if the game goes on.
    """

    state: Any
    text: str
    reward: float
    ending: Ending | None

    def __str__(self) -> str:
        return self.text


class Origin(NamedTuple):
    """How a state is reached."""

    parent: str
    action: str


def game_over(state: str) -> ValueError:
    """The error of an action in a state in which the game has ended."""
    return ValueError(f"the game has ended in {state!r}: start again")


class UnrepeatedError(TextGameError):
    """An action that was played again led to another state than before.

    Args:
        origin: the state and the action that were played again.
        state: the state that followed before.
        now: the state that follows now.
    """

    def __init__(self, name: str, origin: Origin, *, state: str, now: str) -> None:
        super().__init__(
            f"{name} does not repeat itself: {origin.action!r} led from {origin.parent!r} to "
            f"{state!r}, and now leads to {now!r}"
        )


@dataclass(slots=True)
class GameSeconds:
    """The accumulated cost of a game, by use.

    Attributes:
        simulation: seconds in the interpreter, for steps and for looking around.
        valid_actions: time during which at least one question for valid actions waited for its
            answer; questions that wait side by side count once.
        steps: number of steps of the interpreter.
    """

    simulation: float = 0.0
    valid_actions: Stopwatch = field(default_factory=Stopwatch)
    steps: int = 0


class TextGame(Protocol):
    """One game, for one player; several players may share its states and its memory.

    A question about a state raises `KeyError` if the state is not known, and `TextGameError` if the
    interpreter fails.

    Attributes:
        name: for people.
        max_score: the highest possible score.
        walkthrough: actions from the beginning that win the game or reach the best known score;
            empty if unknown.
        objective: the goal in the game's own words; empty if the game states none.
        seconds: the cost of this player's questions; remembered answers cost nothing.
    """

    name: str
    max_score: float
    walkthrough: tuple[str, ...]
    objective: str
    seconds: GameSeconds

    def knows(self, state: str) -> bool:
        """Whether a player reached this state before."""
        ...

    async def start(self) -> Transition:
        """The beginning: s_0 and the game's first words.

        Its reward is the score with which the game begins, so that the rewards of an episode,
        including this one, add up to the game's score.
        """
        ...

    async def actions(self, state: str) -> tuple[str, ...]:
        """𝒜(s), the valid actions; a rollout needs nothing else of a state.

        Returns:
            The actions without repetitions, always in the same order; empty if the game has ended
            or no action changes anything.
        """
        ...

    async def situation(self, state: str) -> str:
        """The name of all that decides 𝒜(s); several states may be in the same situation."""
        ...

    async def look(self, state: str) -> tuple[str, str]:
        """The answers to `look` and to `inventory`, no turn taken; empty if the game has ended."""
        ...

    async def step(self, state: str, action: str) -> Transition:
        """𝒯(s, a).

        Args:
            state: the name of a state that `start` or `step` returned.
            action: any text, usually a valid action.

        Raises:
            ValueError: the game has ended in this state.
        """
        ...


class Interpreter(Protocol):
    """Plays a game from any snapshot; its methods block, except `valid_actions`.

    Snapshots are immutable. Equal snapshots and actions have equal results, whatever was played in
    between. Snapshots with equal keys are the same state: their texts, rewards and valid actions
    are equal, now and after the same actions.

    Attributes:
        name: for people.
        revision: identifies the game file and everything else that remembered answers depend on.
        max_score: the highest possible score.
        walkthrough: see `TextGame`.
        objective: likewise.
    """

    name: str
    revision: str
    max_score: float
    walkthrough: tuple[str, ...]
    objective: str

    def begin(self) -> Transition:
        """The first snapshot, the first words and, as reward, the game's first score."""
        ...

    def key(self, snapshot: Snapshot) -> str:
        """The name of a snapshot's state."""
        ...

    def situation(self, snapshot: Snapshot) -> str:
        """The name of all that decides the valid actions: the key, or less than that."""
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
        """𝒜(s) of a state in which the game goes on; may be computed in another process."""
        ...
