"""A game played from an interpreter's snapshots; a state without one is played again."""

from __future__ import annotations

import time
from collections import OrderedDict
from dataclasses import replace
from typing import TYPE_CHECKING

from llm_planning.environments.textgame.game import (
    Ending,
    GameSeconds,
    Origin,
    UnrepeatedError,
    game_over,
)

if TYPE_CHECKING:
    from llm_planning.environments.textgame.game import Interpreter, Snapshot, Transition

SNAPSHOTS_KEPT = 1000
"""Snapshots of one game in memory; 100 MB if a snapshot holds the memory of a Z-machine."""

_MARKS = {ending: f" ({ending})" for ending in Ending}
_ENDED = tuple(_MARKS.values())


class StateTable:
    """The states that were reached in a game: their names, their origins, and recent snapshots.

    The name of a state is the interpreter's key, followed by the ending if the game has ended. The
    origin of each state is kept for good, at some hundred bytes. Only the snapshots used last are
    kept; another state is played again, from its nearest ancestor that has a snapshot. If two
    states have the same key, the first one reached stands for both.

    Args:
        interpreter: of the game. It plays in the calling thread, so all players who share a table
            must be on one event loop.
        limit: largest number of snapshots kept, besides the snapshot of the beginning.

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
        """Whether the state was reached before."""
        return state in self._origins or state == self.start.state

    def restore(self, state: str, seconds: GameSeconds) -> Snapshot:
        """The snapshot of a state.

        Args:
            state: the name of a state in which the game goes on.
            seconds: the account to add to, if the state has to be played again.

        Raises:
            KeyError: the state is not known.
            TextGameError: the interpreter failed, or reached another state than before.
        """
        way = [state]
        while (snapshot := self._find(way[-1])) is None:
            way.append(self._origins[way[-1]].parent)
        for reached in reversed(way[:-1]):
            origin = self._origins[reached]
            transition, snapshot = self._play(snapshot, origin.action, seconds)
            if transition.state != reached:
                raise UnrepeatedError(
                    self.interpreter.name, origin, state=reached, now=transition.state
                )
            self._keep(reached, snapshot)
        return snapshot

    def step(self, state: str, action: str, seconds: GameSeconds) -> Transition:
        """𝒯(s, a), played.

        Args:
            state: the name of a state in which the game goes on.
            action: any text.
            seconds: the account to add to.
        """
        transition, snapshot = self._play(self.restore(state, seconds), action, seconds)
        origin = Origin(state, action)
        if not self.knows(transition.state):
            self._origins[transition.state] = origin
        if transition.ending is None and self._origins.get(transition.state) == origin:
            self._keep(transition.state, snapshot)
        return transition

    def _play(
        self, snapshot: Snapshot, action: str, seconds: GameSeconds
    ) -> tuple[Transition, Snapshot]:
        started = time.perf_counter()
        transition = self.interpreter.step(snapshot, action)
        named = self._named(transition)
        seconds.simulation += time.perf_counter() - started
        seconds.steps += 1
        return named, transition.state

    def _named(self, transition: Transition) -> Transition:
        """An interpreter's transition, with the state's name in place of its snapshot."""
        key = self.interpreter.key(transition.state)
        return replace(
            transition, state=key if transition.ending is None else key + _MARKS[transition.ending]
        )

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


class SnapshotGame:
    """A `TextGame` that asks its interpreter every question.

    Args:
        interpreter: of the game, or a table of its states that other players share.

    Attributes:
        states: the table.
        seconds: the cost of this player's questions, including states that were played again.
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
        """Whether a player reached this state before."""
        return self.states.knows(state)

    async def start(self) -> Transition:
        """The beginning: s_0, the game's first words, and its first score as reward."""
        return self.states.start

    async def actions(self, state: str) -> tuple[str, ...]:
        """𝒜(s); empty if the game has ended."""
        if self._has_ended(state):
            return ()
        snapshot = self.states.restore(state, self.seconds)
        with self.seconds.valid_actions.running():
            return await self._interpreter.valid_actions(snapshot)

    async def situation(self, state: str) -> str:
        """The interpreter's situation; the state itself if the game has ended."""
        if self._has_ended(state):
            return state
        snapshot = self.states.restore(state, self.seconds)
        started = time.perf_counter()
        situation = self._interpreter.situation(snapshot)
        self.seconds.simulation += time.perf_counter() - started
        return situation

    async def look(self, state: str) -> tuple[str, str]:
        """The answers to `look` and to `inventory`; empty if the game has ended."""
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
            raise game_over(state)
        return self.states.step(state, action, self.seconds)

    def _has_ended(self, state: str) -> bool:
        if not self.knows(state):
            raise KeyError(state)
        return state.endswith(_ENDED)
