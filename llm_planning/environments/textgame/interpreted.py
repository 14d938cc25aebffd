"""A game as its interpreter plays it: states that have names, kept as snapshots or played again."""

from __future__ import annotations

import time
from collections import OrderedDict
from dataclasses import replace
from typing import TYPE_CHECKING

from llm_planning.environments.textgame.game import Ending, GameSeconds, Origin, UnrepeatedError

if TYPE_CHECKING:
    from llm_planning.environments.textgame.game import Interpreter, Snapshot, Transition

SNAPSHOTS_KEPT = 1000
"""Of a game: 100 MB where a snapshot holds the memory of a Z-machine."""

_MARKS = {ending: f" ({ending})" for ending in Ending}
_ENDED = tuple(_MARKS.values())


class StateTable:
    """The states of a game that were met: their names, their origins, and snapshots of some.

    A state is named by the interpreter's key, and one in which the game has ended also by its
    ending. Where it came from is remembered for good, at some hundred bytes. The snapshots that
    were used last are kept; any other state is played again, from its nearest ancestor that has
    one. Where a key tells too few states apart, the first way to a state speaks for it.

    Args:
        interpreter: the game's. It plays in the thread of whoever asks, so the players who share a
            table live on one event loop.
        limit: most snapshots kept, besides that of the beginning.

    Attributes:
        start: the beginning of the game.
    """

    def __init__(self, interpreter: Interpreter, *, limit: int = SNAPSHOTS_KEPT) -> None:
        self.interpreter = interpreter
        self._limit = limit
        self._snapshots: OrderedDict[str, Snapshot] = OrderedDict()
        self._origins: dict[str, Origin] = {}
        first = interpreter.begin()
        self._first: Snapshot = first.state
        self.start = self._named(first)

    def knows(self, state: str) -> bool:
        """Whether the state was met."""
        return state in self._origins or state == self.start.state

    def restore(self, state: str, seconds: GameSeconds) -> Snapshot:
        """The snapshot of a state.

        Args:
            state: one in which the game goes on.
            seconds: whose account it goes to, if it has to be played again.

        Raises:
            KeyError: the state is not known.
            TextGameError: the interpreter failed, or went elsewhere than before.
        """
        way = [state]
        while (snapshot := self._find(way[-1])) is None:
            way.append(self._origins[way[-1]].parent)
        for reached in reversed(way[:-1]):
            origin = self._origins[reached]
            made, snapshot = self._play(snapshot, origin.action, seconds)
            if made.state != reached:
                raise UnrepeatedError(self.interpreter.name, origin, state=reached, now=made.state)
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
        made, snapshot = self._play(self.restore(state, seconds), action, seconds)
        origin = Origin(state, action)
        if not self.knows(made.state):
            self._origins[made.state] = origin
        if made.ending is None and self._origins.get(made.state) == origin:
            self._keep(made.state, snapshot)
        return made

    def _play(
        self, snapshot: Snapshot, action: str, seconds: GameSeconds
    ) -> tuple[Transition, Snapshot]:
        started = time.perf_counter()
        made = self.interpreter.step(snapshot, action)
        named = self._named(made)
        seconds.simulation += time.perf_counter() - started
        seconds.steps += 1
        return named, made.state

    def _named(self, made: Transition) -> Transition:
        """An interpreter's transition, with the name of its state for the snapshot."""
        key = self.interpreter.key(made.state)
        return replace(made, state=key if made.ending is None else key + _MARKS[made.ending])

    def _find(self, state: str) -> Snapshot | None:
        if state == self.start.state:
            return self._first
        if state in self._snapshots:
            self._snapshots.move_to_end(state)
        return self._snapshots.get(state)

    def _keep(self, state: str, snapshot: Snapshot) -> None:
        self._snapshots[state] = snapshot
        self._snapshots.move_to_end(state)
        if len(self._snapshots) > self._limit:
            self._snapshots.popitem(last=False)


class InterpretedGame:
    """A `TextGame` that asks its interpreter whatever it is asked.

    Args:
        interpreter: the game's, or a table of its states, to share it with other players.

    Attributes:
        states: the table.
        seconds: what this player's questions cost; playing states again is among it.
    """

    def __init__(self, interpreter: Interpreter | StateTable) -> None:
        self.states = (
            interpreter if isinstance(interpreter, StateTable) else StateTable(interpreter)
        )
        self._interpreter = self.states.interpreter
        self.name = self._interpreter.name
        self.max_score = self._interpreter.max_score
        self.walkthrough = self._interpreter.walkthrough
        self.objective = self._interpreter.objective
        self.seconds = GameSeconds()

    def knows(self, state: str) -> bool:
        """Whether somebody was told of this state."""
        return self.states.knows(state)

    async def start(self) -> Transition:
        """The beginning: s_0, the game's first words, and its first score as reward."""
        return self.states.start

    async def actions(self, state: str) -> tuple[str, ...]:
        """𝒜(s); none where the game has ended."""
        if self._has_ended(state):
            return ()
        snapshot = self.states.restore(state, self.seconds)
        with self.seconds.valid_actions.running():
            return await self._interpreter.valid_actions(snapshot)

    async def look(self, state: str) -> tuple[str, str]:
        """The answers to `look` and to `inventory`; empty where the game has ended."""
        if self._has_ended(state):
            return "", ""
        snapshot = self.states.restore(state, self.seconds)
        started = time.perf_counter()
        seen = self._interpreter.look(snapshot)
        self.seconds.simulation += time.perf_counter() - started
        return seen

    async def step(self, state: str, action: str) -> Transition:
        """𝒯(s, a), played."""
        if self._has_ended(state):
            raise ValueError(f"the game has ended in {state!r}: start again")
        return self.states.step(state, action, self.seconds)

    def _has_ended(self, state: str) -> bool:
        if not self.knows(state):
            raise KeyError(state)
        return state.endswith(_ENDED)
