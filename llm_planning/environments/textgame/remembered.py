"""The transition memory: what a game answered once is never played again.

A game is deterministic given its state, so what an action does in s, 𝒜(s), and what there is to
see in s hold forever, each remembered as soon as somebody asked for it. A simulation walks
remembered transitions by look-ups in dictionaries, without a trip through the event loop, and
touches the interpreter only for a new one.
"""

from __future__ import annotations

import asyncio
import math
import sys
from itertools import islice
from typing import TYPE_CHECKING

from llm_planning.environments.textgame.game import (
    Origin,
    TextGameError,
    Transition,
    UnrepeatedError,
)
from llm_planning.environments.textgame.transition_store import Record

if TYPE_CHECKING:
    from collections.abc import Callable

    from llm_planning.environments.textgame.game import GameSeconds, TextGame
    from llm_planning.environments.textgame.transition_store import TransitionStore

STATES_KEPT = 100_000
"""Most states in memory, at 1 to 3 KB each with their texts and transitions."""

ROWS_AT_ONCE = 512
"""So many unsaved rows are saved without waiting any longer."""

SECONDS_UNSAVED = 2.0
"""The longest time that a row waits to be saved while the event loop runs."""


class TransitionMemory:
    """What is remembered of one revision of a game, for all its players in the process.

    New rows are saved together: `ROWS_AT_ONCE` of them, or `SECONDS_UNSAVED` after the first one as
    long as the event loop runs, or by `save`. Beyond the limit the older half of the states is
    dropped; they are on disk or, without a store, are asked for again where somebody comes by.

    Args:
        store: where it is kept on disk; None: nowhere.
        limit: most states in memory.

    Attributes:
        records: state -> what is remembered of it, of the states in memory. To be read only.
        computing: states whose valid actions a player has asked for first and waits for.
    """

    def __init__(self, store: TransitionStore | None = None, *, limit: int = STATES_KEPT) -> None:
        self.records: dict[str, Record] = {}
        self.computing: dict[str, asyncio.Event] = {}
        self._store = store
        self._limit = limit
        self._timed: asyncio.AbstractEventLoop | None = None

    def find(self, state: str) -> Record | None:
        """What is remembered of a state, in memory or on disk; None where it is not known.

        Raises:
            TextGameError: the store cannot be read.
        """
        record = self.records.get(state)
        if record is None and self._store is not None:
            record = self._store.load(state)
            if record is not None:
                self._admit(state, record)
        return record

    def way(self, state: str, *, known: Callable[[str], bool]) -> list[tuple[str, Origin]]:
        """How a state is reached: what is to be played, first things first, and where it leads.

        Args:
            state: one that was put.
            known: whether a state needs no way; the beginning does not.

        Raises:
            TextGameError: what the store says cannot be.
        """
        way: list[tuple[str, Origin]] = []
        at, depth = state, math.inf
        while not known(at):
            record = self.find(at)
            # In a sound file depths fall along any way, so that it comes to an end.
            if record is None or record.origin is None or record.depth >= depth:
                raise self.damaged(f"the way to the state {state} leads nowhere")
            way.append((at, record.origin))
            at, depth = record.origin.parent, record.depth
        return way[::-1]

    def put_state(self, state: str, record: Record) -> Record:
        """Remembers a state that was not known; its parent, if it has one, is."""
        self._keep(record, lambda store: store.put_state(state, record))
        self._admit(sys.intern(state), record)
        return record

    def put_actions(self, state: str, actions: tuple[str, ...]) -> tuple[str, ...]:
        """Remembers the valid actions of a known state."""
        # Interned: equal texts of many states are one, and look-ups compare identities.
        actions = tuple(map(sys.intern, actions))
        record = self.find(state)
        if record is not None:
            record.actions = actions
            self._keep(record, lambda store: store.put_actions(state, actions))
        return actions

    def put_seen(self, state: str, record: Record, seen: tuple[str, str]) -> tuple[str, str]:
        """Remembers the answers to `look` and to `inventory` in a known state.

        Args:
            state: a known one.
            record: what is remembered of it.
            seen: the answers.
        """
        look, inventory = seen
        kept = record.seen = sys.intern(look), sys.intern(inventory)
        self._keep(record, lambda store: store.put_seen(state, kept))
        return kept

    def put_transition(self, state: str, record: Record, action: str, made: Transition) -> None:
        """Remembers what an action does, and where it leads.

        Args:
            state: a known one.
            record: what is remembered of it.
            action: one that was not known there.
            made: what it does.
        """
        origin = Origin(state, action)
        reached = self.find(made.state)
        if reached is None:
            self.put_state(made.state, Record(origin, record.depth + 1))
        elif record.depth + 1 < reached.depth:
            reached.origin, reached.depth = origin, record.depth + 1
            self._keep(reached, lambda store: store.put_state(made.state, reached))
        record.transitions[sys.intern(action)] = Transition(
            sys.intern(made.state), sys.intern(made.text), made.reward, made.ending
        )
        self._keep(record, lambda store: store.put_transition(state, action, made))

    def damaged(self, reason: str) -> TextGameError:
        """The error of a memory that says what cannot be."""
        return TextGameError(reason) if self._store is None else self._store.damaged(reason)

    def save(self) -> None:
        """Writes what is not on disk yet; costs nothing where there is nothing to write."""
        if self._store is not None and self._store.unsaved:
            self._store.save()

    def close(self) -> None:
        """Saves, and closes the store; the object cannot be used any more."""
        if self._store is not None:
            self.save()
            self._store.close()

    def _admit(self, state: str, record: Record) -> None:
        self.records[state] = record
        if len(self.records) > self._limit:
            self.save()
            for old in list(islice(self.records, len(self.records) // 2)):
                del self.records[old]

    def _keep(self, record: Record, put: Callable[[TransitionStore], None]) -> None:
        """Puts something about a state into the store, if there is one; sees that it is saved.

        Nothing is put about a state to which no way is known: no later run could come there.
        """
        if self._store is None or math.isinf(record.depth):
            return
        put(self._store)
        if self._store.unsaved >= ROWS_AT_ONCE:
            self._store.save()
            return
        loop = asyncio.get_running_loop()
        # A loop that was closed took its timer with it.
        if self._timed is not loop:
            self._timed = loop
            loop.call_later(SECONDS_UNSAVED, self._save_in_time)

    def _save_in_time(self) -> None:
        self._timed = None
        self.save()


class RememberedGame:
    """A `TextGame` that asks another one only what nobody has asked before.

    Whatever is known is answered without suspending. Players who ask for the same valid actions at
    the same moment have them computed once.

    Args:
        game: who is asked.
        memory: of this revision of the game; shared with other players on the same event loop.
    """

    def __init__(self, game: TextGame, memory: TransitionMemory) -> None:
        self.name = game.name
        self.max_score = game.max_score
        self.walkthrough = game.walkthrough
        self.objective = game.objective
        self.seconds: GameSeconds = game.seconds
        self.memory = memory
        self._game = game
        self._records = memory.records

    def knows(self, state: str) -> bool:
        """Whether somebody was told of this state, in this run or in an earlier one."""
        return self.memory.find(state) is not None or self._game.knows(state)

    async def start(self) -> Transition:
        """The beginning: s_0, the game's first words, and its first score as reward."""
        start = await self._game.start()
        if self.memory.find(start.state) is None:
            self.memory.put_state(start.state, Record(None, 0))
        return start

    async def actions(self, state: str) -> tuple[str, ...]:
        """𝒜(s), looked up or computed."""
        record = self._records.get(state)
        if record is None or record.actions is None:
            return await self._compute(state)
        return record.actions

    async def look(self, state: str) -> tuple[str, str]:
        """The answers to `look` and to `inventory`, looked up or asked for."""
        record = self._records.get(state)
        if record is None or record.seen is None:
            return await self._look(state)
        return record.seen

    async def step(self, state: str, action: str) -> Transition:
        """𝒯(s, a), looked up or played."""
        try:
            return self._records[state].transitions[action]
        except KeyError:
            return await self._play(state, action)

    async def _compute(self, state: str) -> tuple[str, ...]:
        record = await self._record(state)
        while (computing := self.memory.computing.get(state)) is not None:
            with self.seconds.valid_actions.running():
                await computing.wait()
        # Who asked before may have been cancelled.
        if record.actions is not None:
            return record.actions
        computed = self.memory.computing[state] = asyncio.Event()
        try:
            await self._return_to(state)
            return self.memory.put_actions(state, await self._game.actions(state))
        finally:
            del self.memory.computing[state]
            computed.set()

    async def _look(self, state: str) -> tuple[str, str]:
        record = await self._record(state)
        if record.seen is not None:
            return record.seen
        await self._return_to(state)
        return self.memory.put_seen(state, record, await self._game.look(state))

    async def _play(self, state: str, action: str) -> Transition:
        record = await self._record(state)
        if action not in record.transitions:
            await self._return_to(state)
            made = await self._game.step(state, action)
            self.memory.put_transition(state, record, action, made)
        return record.transitions[action]

    async def _record(self, state: str) -> Record:
        """What is remembered of a state; of one that the game alone knows, not how it is reached.

        Raises:
            KeyError: nobody was ever told of this state.
        """
        record = self.memory.find(state)
        if record is None:
            if not self._game.knows(state):
                raise KeyError(state)
            await self.start()
            # Without a store, the memory may have dropped it.
            record = self.memory.find(state) or self.memory.put_state(state, Record(None, math.inf))
        return record

    async def _return_to(self, state: str) -> None:
        """Plays the way to a state that the memory alone knows, from an earlier run."""
        if self._game.knows(state):
            return
        await self._game.start()
        for reached, origin in self.memory.way(state, known=self._game.knows):
            made = await self._game.step(*origin)
            if made.state != reached:
                raise UnrepeatedError(self.name, origin, state=reached, now=made.state)
