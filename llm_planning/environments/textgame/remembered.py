"""The transition memory: a game's answers are remembered and never played again.

A game is deterministic given its state, so the transitions from s, 𝒜(s) and the answers to `look`
and `inventory` never change; each is remembered when a player first asks for it. 𝒜(s) is computed
once for all states in the same situation, since it may take seconds. A simulation walks
remembered transitions by dictionary look-ups, without the event loop, and uses the interpreter only
for a new transition.
"""

from __future__ import annotations

import asyncio
import math
import sys
from itertools import islice
from typing import TYPE_CHECKING, Any

from llm_planning.environments.textgame.game import (
    Origin,
    TextGameError,
    Transition,
    UnrepeatedError,
    game_over,
)
from llm_planning.environments.textgame.transition_store import KnownState

if TYPE_CHECKING:
    from collections.abc import Callable

    from llm_planning.environments.textgame.game import GameSeconds, TextGame
    from llm_planning.environments.textgame.transition_store import TransitionStore

STATES_KEPT = 100_000
"""The largest number of states in memory; each takes 1 to 3 KB with its texts and transitions."""

ROWS_AT_ONCE = 512
"""This many unsaved rows are saved at once."""

SECONDS_UNSAVED = 2.0
"""The longest time before a row is saved while the event loop runs, in seconds."""


class TransitionMemory:
    """The memory of one revision of a game, for all of its players in this process.

    New rows are saved in groups: when there are `ROWS_AT_ONCE` of them, `SECONDS_UNSAVED` after the
    first one if the event loop runs, and by `save`. Above the limit, the older half of the states
    is dropped from memory; they remain on disk or, without a store, are asked for again.

    Args:
        store: the file on disk; None to keep nothing on disk.
        limit: largest number of states in memory.

    Attributes:
        states: name -> what is remembered, for the states in memory; callers must not change it.
        computing: situation -> event that is set when its valid actions, which a player is
            computing, are known.
    """

    def __init__(self, store: TransitionStore | None = None, *, limit: int = STATES_KEPT) -> None:
        self.states: dict[str, KnownState] = {}
        self.computing: dict[str, asyncio.Event] = {}
        self._situations: dict[str, tuple[str, ...]] = {}
        self._store = store
        self._limit = limit
        self._timed: asyncio.AbstractEventLoop | None = None

    def find(self, state: str) -> KnownState | None:
        """What is remembered of a state, in memory or on disk; None if nothing is."""
        known = self.states.get(state)
        if known is None and self._store is not None:
            known = self._store.load(state)
            if known is not None:
                self._admit(state, known)
        return known

    def way(self, state: str, *, is_known: Callable[[str], bool]) -> list[tuple[str, Origin]]:
        """The way to a state from its nearest ancestor that the game knows.

        Args:
            state: a state that was put.
            is_known: whether the game knows a state; it always knows the beginning.

        Returns:
            (state, its origin) for each state on the way, in the order in which they are reached.

        Raises:
            TextGameError: the store holds no way to the state, or a way that does not end.
        """
        way: list[tuple[str, Origin]] = []
        at, depth = state, math.inf
        while not is_known(at):
            known = self.find(at)
            # In an undamaged file the depth falls with every step, so the loop ends.
            if known is None or known.origin is None or known.depth >= depth:
                raise self.damaged(f"no way from the beginning to the state {state} is recorded")
            way.append((at, known.origin))
            at, depth = known.origin.parent, known.depth
        return way[::-1]

    def put_state(self, state: str, known: KnownState) -> KnownState:
        """Remembers a new state; its parent, if it has one, must be known."""
        self._keep(known, lambda store: store.put_state(state, known))
        self._admit(sys.intern(state), known)
        return known

    def put_actions(self, state: str, actions: tuple[str, ...]) -> tuple[str, ...]:
        """Remembers the valid actions of a known state."""
        # Interned texts are stored once for all states, and look-ups compare their identities.
        actions = tuple(map(sys.intern, actions))
        known = self.find(state)
        if known is not None:
            known.actions = actions
            self._keep(known, lambda store: store.put_actions(state, actions))
        return actions

    def actions_in(self, situation: str) -> tuple[str, ...] | None:
        """The valid actions of a situation; None if nobody computed them."""
        actions = self._situations.get(situation)
        if actions is None and self._store is not None:
            actions = self._store.load_actions(situation)
        return actions

    def put_situation(self, situation: str, actions: tuple[str, ...]) -> None:
        """Remembers the valid actions of a situation."""
        self._situations[situation] = actions
        if len(self._situations) > self._limit:
            _drop_older_half(self._situations)
        self._put(lambda store: store.put_situation(situation, actions))

    def put_seen(self, state: str, known: KnownState, seen: tuple[str, str]) -> tuple[str, str]:
        """Remembers the answers to `look` and to `inventory` in a known state."""
        look, inventory = seen
        kept = known.seen = sys.intern(look), sys.intern(inventory)
        self._keep(known, lambda store: store.put_seen(state, kept))
        return kept

    def put_transition(
        self, state: str, known: KnownState, action: str, transition: Transition
    ) -> None:
        """Remembers a transition and the state that it leads to.

        Args:
            action: an action without a remembered transition there.
        """
        origin = Origin(state, action)
        reached = self.find(transition.state)
        if reached is None:
            self.put_state(transition.state, KnownState(origin, known.depth + 1))
        elif known.depth + 1 < reached.depth:
            reached.origin, reached.depth = origin, known.depth + 1
            self._keep(reached, lambda store: store.put_state(transition.state, reached))
        known.transitions[sys.intern(action)] = Transition(
            sys.intern(transition.state),
            sys.intern(transition.text),
            transition.reward,
            transition.ending,
        )
        self._keep(known, lambda store: store.put_transition(state, action, transition))

    def damaged(self, reason: str) -> TextGameError:
        """The error for a memory that contradicts itself."""
        return TextGameError(reason) if self._store is None else self._store.damaged(reason)

    def save(self) -> None:
        """Writes the unsaved rows to disk, if there are any."""
        if self._store is not None and self._store.unsaved:
            self._store.save()

    def close(self) -> None:
        """Saves, and closes the store; the memory cannot be used afterwards."""
        if self._store is not None:
            self.save()
            self._store.close()

    def _admit(self, state: str, known: KnownState) -> None:
        self.states[state] = known
        if len(self.states) > self._limit:
            self.save()
            _drop_older_half(self.states)

    def _keep(self, known: KnownState, put: Callable[[TransitionStore], None]) -> None:
        """Puts a row about a state into the store, if there is one, and schedules its saving.

        A state without a known way is left out, because no later run could reach it.
        """
        if not math.isinf(known.depth):
            self._put(put)

    def _put(self, put: Callable[[TransitionStore], None]) -> None:
        if self._store is None:
            return
        put(self._store)
        if self._store.unsaved >= ROWS_AT_ONCE:
            self._store.save()
            return
        loop = asyncio.get_running_loop()
        # The timer of a closed loop never fires, so a new loop gets a timer of its own.
        if self._timed is not loop:
            self._timed = loop
            loop.call_later(SECONDS_UNSAVED, self._save_in_time)

    def _save_in_time(self) -> None:
        self._timed = None
        self.save()


def _drop_older_half(known: dict[str, Any]) -> None:
    for old in list(islice(known, len(known) // 2)):
        del known[old]


class RememberedGame:
    """A `TextGame` that asks another one only for answers that are not remembered.

    Remembered answers are given without suspending. If several players ask for the same valid
    actions at the same moment, they are computed once.

    Args:
        game: the game that gives new answers.
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
        self._states = memory.states

    def knows(self, state: str) -> bool:
        """Whether a player reached this state, in this run or in an earlier one."""
        return self.memory.find(state) is not None or self._game.knows(state)

    async def start(self) -> Transition:
        """The beginning: s_0, the game's first words, and its first score as reward."""
        start = await self._game.start()
        if self.memory.find(start.state) is None:
            self.memory.put_state(start.state, KnownState(None, 0))
        return start

    async def actions(self, state: str) -> tuple[str, ...]:
        """𝒜(s), looked up or computed."""
        known = self._states.get(state)
        if known is None or known.actions is None:
            return await self._compute(state)
        return known.actions

    async def situation(self, state: str) -> str:
        """The game's own answer; it is not remembered."""
        await self._known_state(state)
        await self._return_to(state)
        return await self._game.situation(state)

    async def look(self, state: str) -> tuple[str, str]:
        """The answers to `look` and to `inventory`, looked up or asked for."""
        known = self._states.get(state)
        if known is None or known.seen is None:
            return await self._look(state)
        return known.seen

    async def step(self, state: str, action: str) -> Transition:
        """𝒯(s, a), looked up or played."""
        try:
            return self._states[state].transitions[action]
        except KeyError:
            return await self._play(state, action)

    async def _compute(self, state: str) -> tuple[str, ...]:
        known = await self._known_state(state)
        if self._has_ended(state, known):
            return self.memory.put_actions(state, ())
        # They may have been on disk.
        if known.actions is not None:
            return known.actions
        situation = await self.situation(state)
        while (computing := self.memory.computing.get(situation)) is not None:
            with self.seconds.valid_actions.running():
                await computing.wait()
        # The player who was computing them may have been cancelled.
        if known.actions is not None:
            return known.actions
        if (actions := self.memory.actions_in(situation)) is not None:
            return self.memory.put_actions(state, actions)
        computed = self.memory.computing[situation] = asyncio.Event()
        try:
            actions = await self._game.actions(state)
            # Where every state is a situation of its own, the state's actions say it all.
            if situation != state:
                self.memory.put_situation(situation, actions)
            return self.memory.put_actions(state, actions)
        finally:
            del self.memory.computing[situation]
            computed.set()

    async def _look(self, state: str) -> tuple[str, str]:
        known = await self._known_state(state)
        if known.seen is not None:
            return known.seen
        if self._has_ended(state, known):
            return self.memory.put_seen(state, known, ("", ""))
        await self._return_to(state)
        return self.memory.put_seen(state, known, await self._game.look(state))

    async def _play(self, state: str, action: str) -> Transition:
        known = await self._known_state(state)
        if action not in known.transitions:
            if self._has_ended(state, known):
                raise game_over(state)
            await self._return_to(state)
            transition = await self._game.step(state, action)
            self.memory.put_transition(state, known, action, transition)
        return known.transitions[action]

    async def _known_state(self, state: str) -> KnownState:
        """What is remembered of a state, after adding a state that only the game knows.

        Raises:
            KeyError: neither the memory nor the game knows the state.
        """
        known = self.memory.find(state)
        if known is None:
            if not self._game.knows(state):
                raise KeyError(state)
            await self.start()
            # Without a store, the memory may have dropped it.
            known = self.memory.find(state) or self.memory.put_state(
                state, KnownState(None, math.inf)
            )
        return known

    def _has_ended(self, state: str, known: KnownState) -> bool:
        """Whether the game ended with the transition that first led to the state."""
        if known.origin is None or (parent := self.memory.find(known.origin.parent)) is None:
            return False
        transition = parent.transitions.get(known.origin.action)
        return (
            transition is not None and transition.state == state and transition.ending is not None
        )

    async def _return_to(self, state: str) -> None:
        """Plays the way to a state that the game does not know, but an earlier run reached."""
        if self._game.knows(state):
            return
        await self._game.start()
        for reached, origin in self.memory.way(state, is_known=self._game.knows):
            transition = await self._game.step(*origin)
            if transition.state != reached:
                raise UnrepeatedError(self.name, origin, state=reached, now=transition.state)
