"""A game as its interpreter plays it: states that have names, kept as snapshots or played again."""

from __future__ import annotations

import time
from collections import OrderedDict
from typing import TYPE_CHECKING, NamedTuple

from llm_planning.environments.textgame.game import Ending, GameSeconds, TextGameError, Transition

if TYPE_CHECKING:
    from llm_planning.environments.textgame.game import Interpreter, Played, Snapshot

SNAPSHOTS_KEPT = 1000
"""Of a game: 100 MB where a snapshot holds the memory of a Z-machine."""

_MARKS = {ending: f" ({ending})" for ending in Ending}
_ENDED = tuple(_MARKS.values())


class Origin(NamedTuple):
    """How a state was reached.

    Attributes:
        parent: the state before it.
        action: what led from there to it.
    """

    parent: str
    action: str


class Snapshots:
    """Snapshots by the names of their states, shared by all players of an interpreter.

    The most recently used ones are kept. Any other is played again, from its nearest ancestor that
    is kept; where every state came from is remembered for good, at some hundred bytes each. A state
    is named by the interpreter's key, and one in which the game has ended also by its ending.
    Where a key tells too few states apart, the first way to a state speaks for it, kept or played
    again.

    Args:
        interpreter: the game's. It plays in the thread of whoever asks, so the players of one
            interpreter live on one event loop.
        limit: most snapshots kept, besides that of the beginning.
    """

    def __init__(self, interpreter: Interpreter, *, limit: int = SNAPSHOTS_KEPT) -> None:
        self.interpreter = interpreter
        self._limit = limit
        self._kept: OrderedDict[str, Snapshot] = OrderedDict()
        self._origins: dict[str, Origin] = {}
        self._beginning: tuple[Transition, Snapshot] | None = None

    def begin(self) -> Transition:
        """The beginning of the game; the interpreter is asked once."""
        if self._beginning is None:
            played = self.interpreter.begin()
            start = Transition(self._name(played), played.text, played.reward, played.ending)
            self._beginning = (start, played.snapshot)
        return self._beginning[0]

    def knows(self, state: str) -> bool:
        """Whether a state was named here, or introduced."""
        return state in self._origins or state == self.begin().state

    def origin(self, state: str) -> Origin | None:
        """How a state is reached; None for the beginning.

        Raises:
            KeyError: the state is not known.
        """
        return None if state == self.begin().state else self._origins[state]

    def introduce(self, state: str, origin: Origin) -> None:
        """Says how a state is reached that was not known; of one that is, the old way stands.

        Args:
            state: its name.
            origin: its parent is known.
        """
        # A parent is known before its children, so no way is a circle.
        if not self.knows(state):
            self._origins[state] = origin

    def restore(self, state: str, seconds: GameSeconds) -> Snapshot:
        """The snapshot of a state.

        Args:
            state: one in which the game goes on.
            seconds: whose account it goes to, if it has to be played again.

        Raises:
            KeyError: the state is not known.
            TextGameError: the interpreter failed, or went elsewhere than before.
        """
        ways = [state]
        while (snapshot := self._look_up(ways[-1])) is None:
            ways.append(self._origins[ways[-1]].parent)
        for reached in reversed(ways[:-1]):
            origin = self._origins[reached]
            again, snapshot = self._play(snapshot, origin.action, seconds)
            if again.state != reached:
                raise TextGameError(
                    f"{self.interpreter.name} does not repeat itself: {origin.action!r} led from "
                    f"{origin.parent!r} to {reached!r}, and now leads to {again.state!r}"
                )
            self._keep(reached, snapshot)
        return snapshot

    def step(self, state: str, action: str, seconds: GameSeconds) -> Transition:
        """𝒯(s, a), played.

        Args:
            state: one in which the game goes on.
            action: whatever the game is to be told.
            seconds: whose account it goes to.

        Raises:
            KeyError: the state is not known.
            TextGameError: the interpreter failed.
        """
        transition, snapshot = self._play(self.restore(state, seconds), action, seconds)
        way = Origin(state, action)
        self.introduce(transition.state, way)
        if transition.ending is None and self.origin(transition.state) == way:
            self._keep(transition.state, snapshot)
        return transition

    def _play(
        self, snapshot: Snapshot, action: str, seconds: GameSeconds
    ) -> tuple[Transition, Snapshot]:
        started = time.perf_counter()
        played = self.interpreter.step(snapshot, action)
        name = self._name(played)
        seconds.simulation += time.perf_counter() - started
        seconds.steps += 1
        return Transition(name, played.text, played.reward, played.ending), played.snapshot

    def _name(self, played: Played) -> str:
        key = self.interpreter.key(played.snapshot)
        return key if played.ending is None else key + _MARKS[played.ending]

    def _look_up(self, state: str) -> Snapshot | None:
        if self._beginning and state == self._beginning[0].state:
            return self._beginning[1]
        if state in self._kept:
            self._kept.move_to_end(state)
        return self._kept.get(state)

    def _keep(self, state: str, snapshot: Snapshot) -> None:
        self._kept[state] = snapshot
        self._kept.move_to_end(state)
        if len(self._kept) > self._limit:
            self._kept.popitem(last=False)


class InterpretedGame:
    """A `TextGame` that asks its interpreter whatever it is asked.

    Args:
        interpreter: the game's, or its snapshots, to share them with other players.

    Attributes:
        seconds: what this player's questions cost; playing states again is among it.
    """

    def __init__(self, interpreter: Interpreter | Snapshots) -> None:
        self.snapshots = (
            interpreter if isinstance(interpreter, Snapshots) else Snapshots(interpreter)
        )
        self._interpreter = self.snapshots.interpreter
        self.name = self._interpreter.name
        self.max_score = self._interpreter.max_score
        self.walkthrough = self._interpreter.walkthrough
        self.objective = self._interpreter.objective
        self.seconds = GameSeconds()

    async def start(self) -> Transition:
        """The beginning: s_0, the game's first words, and its first score as reward."""
        return self.snapshots.begin()

    async def actions(self, state: str) -> tuple[str, ...]:
        """𝒜(s); none where the game has ended."""
        if self._has_ended(state):
            return ()
        snapshot = self.snapshots.restore(state, self.seconds)
        with self.seconds.valid_actions.running():
            return await self._interpreter.valid_actions(snapshot)

    async def look(self, state: str) -> tuple[str, str]:
        """The answers to `look` and to `inventory`; empty where the game has ended."""
        if self._has_ended(state):
            return "", ""
        snapshot = self.snapshots.restore(state, self.seconds)
        started = time.perf_counter()
        seen = self._interpreter.look(snapshot)
        self.seconds.simulation += time.perf_counter() - started
        return seen

    async def step(self, state: str, action: str) -> Transition:
        """𝒯(s, a), played."""
        if self._has_ended(state):
            raise ValueError(f"the game has ended in {state!r}: start again")
        return self.snapshots.step(state, action, self.seconds)

    def _has_ended(self, state: str) -> bool:
        if not self.snapshots.knows(state):
            raise KeyError(state)
        return state.endswith(_ENDED)
