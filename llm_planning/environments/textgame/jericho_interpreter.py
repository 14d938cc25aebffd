"""The interpreter of Jericho games.

Valid actions take 0.1 to 13 seconds per state, so they are found in worker processes.
"""

from __future__ import annotations

import logging
import math
import threading
import time
from contextlib import suppress
from dataclasses import replace
from functools import lru_cache, partial
from hashlib import blake2b
from typing import TYPE_CHECKING, Literal, TypeAlias

from llm_planning.environments.textgame.game import TextGameError, Transition
from llm_planning.environments.textgame.jericho_actions import (
    ALWAYS,
    REVISION,
    Finder,
    Found,
    urgency,
)
from llm_planning.environments.textgame.jericho_machine import Machine, exact_key, find_jericho
from llm_planning.worker_processes import WorkerLostError, bounded, in_lone_worker, in_worker

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from llm_planning.environments.textgame.jericho_machine import MachineSnapshot, Story

    Try: TypeAlias = Callable[[tuple[str, ...]], object]

StateOption: TypeAlias = Literal["exact", "world"]

logger = logging.getLogger(__name__)

SECONDS = 10.0
"""The processor time after which no more commands of a state are tried; most take less than 3."""

MOST_SECONDS = 20.0
"""The limit of processor time for a process that finds valid actions. A command that never ends is
treated like one that makes the interpreter crash."""

SECONDS_APART = 120.0
"""The time after which no more commands are looked for that end their process."""

_START, _EACH = 1.0, 0.01
"""Seconds of processor time for a trial of some commands, and for each of them: it finds a command
that never ends sooner than `MOST_SECONDS` would."""


class JerichoInterpreter:
    """Plays a Z-machine story from any snapshot; an `Interpreter`.

    The story's random numbers begin with the seed of Jericho's bindings, for which its walkthrough
    works. They are part of the state, so no answer depends on what else was played.

    There are two ways to name states. `exact` hashes the interpreter's whole memory. This includes
    turn counters and the last command, so two ways hardly ever lead to the same state. `world`
    takes Jericho's hash of the objects, with score and ending. Ways then meet, but the name ignores
    everything but the objects' places and attributes: turns, hunger, random numbers, timers, points
    that are given only once. The first of several states with the same name stands for all.

    Args:
        story: a story that Jericho supports.
        state: how states are named.

    Attributes:
        revision: identifies the story file, Jericho's version, the naming, and the method that
            finds valid actions.
        objective: empty, since a story file states none.

    Raises:
        MissingJerichoError: Jericho is not installed.
        TextGameError: the states of a story without known objects are to be named by its objects.
    """

    def __init__(self, story: Story, *, state: StateOption) -> None:
        if state == "world" and not story.objects_decide:
            raise TextGameError(
                f"setting state=world is not possible: Jericho does not know the objects of "
                f"{story.name}, so all of its states would have one name; leave it out"
            )
        if not story.objects_decide:
            logger.warning(
                "Jericho does not know the story %s (MD5 %s): its points and its end are those "
                "that it tells, its commands are usual ones",
                story.name,
                story.digest,
            )
        self._story = story
        self._machine = Machine(story)
        self._playing = threading.Lock()
        self._warned_of_time = False
        self._key = {"exact": exact_key, "world": self._world_key}[state]
        jericho = find_jericho()
        identity = (story.digest, jericho.__version__, state, story.seed, story.grammar, REVISION)
        self.name = story.name
        self.revision = blake2b(repr(identity).encode(), digest_size=16).hexdigest()
        self.max_score = float(self._machine.max_score)
        self.walkthrough = story.walkthrough
        self.objective = ""

    def begin(self) -> Transition:
        """The first snapshot, the first words and, as reward, the first score (10 in Detective)."""
        first = self._machine.first
        return Transition(first, self._machine.first_words, float(first.score), first.ending)

    def key(self, snapshot: MachineSnapshot) -> str:
        """The name of a snapshot's state."""
        return self._key(snapshot)

    def situation(self, snapshot: MachineSnapshot) -> str:
        """The world of the snapshot, whatever its turns, points and random numbers.

        Both authors' codes remember valid actions so (MC-DML and MC-LAVE-RL, `env.py`). A story
        whose objects may not tell everything has no such name: its situations are its states.
        """
        if not self._story.objects_decide:
            return self.key(snapshot)
        with self._playing:
            world = self._machine.world(snapshot)
        return f"{world} key" if snapshot.awaits_key else world

    def step(self, snapshot: MachineSnapshot, action: str) -> Transition:
        """Plays one action.

        A story that stops its machine ends in failure, unless it has just been won.

        Raises:
            TextGameError: the action reaches outside the game (`undo`, `save`), or is too long.
        """
        with self._playing:
            after, words = self._machine.play(snapshot, action)
        return Transition(after, words, float(after.score - snapshot.score), after.ending)

    def look(self, snapshot: MachineSnapshot) -> tuple[str, str]:
        """The answers to `look` and to `inventory`, no turn taken.

        They are empty if the game has ended, and where the story waits for a key.
        """
        if snapshot.ending is not None or snapshot.awaits_key:
            return "", ""
        with self._playing:
            look, inventory = self._machine.answers(snapshot, ("look", "inventory"))
        return look, inventory

    async def valid_actions(self, snapshot: MachineSnapshot) -> tuple[str, ...]:
        """𝒜(s), computed in a worker process; a warning says once if there was no time for all."""
        found = await find_valid_actions(self._story, snapshot)
        if found.untried and not self._warned_of_time:
            self._warned_of_time = True
            logger.warning(
                "%s: the valid actions of a state are those that were found in %g s; %d commands "
                "were not tried. This is said once",
                self.name,
                SECONDS,
                found.untried,
            )
        return found.actions

    def _world_key(self, snapshot: MachineSnapshot) -> str:
        with self._playing:
            world = self._machine.world(snapshot)
        named = (world, snapshot.score, snapshot.ending)
        return blake2b(repr(named).encode(), digest_size=16).hexdigest()


# A process plays few stories at a time; each holds less than a megabyte.
_finder = lru_cache(maxsize=8)(Finder)


def valid_actions(story: Story, snapshot: MachineSnapshot, seconds: float) -> Found:
    """𝒜(s), computed in this process, as far as there is time."""
    return chosen(story, snapshot, seconds, candidates(story, snapshot))


def candidates(story: Story, snapshot: MachineSnapshot) -> tuple[str, ...]:
    """The commands to try in a state."""
    return _finder(story).candidates(snapshot)


def chosen(
    story: Story, snapshot: MachineSnapshot, seconds: float, commands: Sequence[str]
) -> Found:
    """The valid commands among some commands, one for each change, as far as there is time."""
    return _finder(story).chosen(snapshot, commands, seconds=seconds)


def chosen_apart(
    most: float, story: Story, snapshot: MachineSnapshot, seconds: float, commands: Sequence[str]
) -> Found:
    """The valid commands among some, in a process that ends if they take too long."""
    limit = min(most, _START + _EACH * len(commands))
    return bounded(limit, chosen, story, snapshot, seconds, commands)


async def find_valid_actions(story: Story, snapshot: MachineSnapshot) -> Found:
    """𝒜(s), computed in a worker process.

    Some commands of some stories make the interpreter crash or hang (in Zork I, putting everything
    into the nest in the egg that the player carries). Such commands are not valid actions.

    Raises:
        TextGameError: the story crashes or hangs for every command, even for `look`.
    """
    whole = partial(bounded, MOST_SECONDS, valid_actions, story, snapshot, SECONDS)
    for elsewhere in (in_worker, in_lone_worker):
        # Another state's crash ends all shared processes, so a lost call is repeated alone.
        with suppress(WorkerLostError):
            return await elsewhere(whole)
    choose = partial(chosen_apart, MOST_SECONDS, story, snapshot, SECONDS)
    tried: tuple[str, ...] = ALWAYS
    with suppress(WorkerLostError):
        tried = await in_lone_worker(partial(bounded, MOST_SECONDS, candidates, story, snapshot))
    try:
        if tried is ALWAYS:
            return await in_lone_worker(choose, ALWAYS)
        until = time.monotonic() + SECONDS_APART
        harmless = await without_crashes(choose, tuple(sorted(tried, key=urgency)), until=until)
        found = await in_lone_worker(choose, harmless)
        if time.monotonic() > until:
            return replace(found, untried=len(tried) - len(harmless))
        return found
    except WorkerLostError as error:
        raise TextGameError(
            f"the valid actions of a state of {story.name} cannot be found: the interpreter ends "
            f"its process, or takes more than {MOST_SECONDS:g} seconds, for every command. Free "
            "memory if the machine has none left, or play another story"
        ) from error


async def without_crashes(
    attempt: Try, commands: tuple[str, ...], *, until: float = math.inf
) -> tuple[str, ...]:
    """The commands that do not end a process, found by halving.

    This takes half a minute for one command that crashes, and two for one that never ends.

    Args:
        attempt: a function that tries commands, importable by its name.
        until: reading of `time.monotonic` after which commands that were not tried are left out.

    Returns:
        The harmless commands, in the same order.
    """
    if time.monotonic() > until:
        return ()
    try:
        await in_lone_worker(attempt, commands)
    except WorkerLostError:
        half = len(commands) // 2
        if half == 0:
            return ()
        first = await without_crashes(attempt, commands[:half], until=until)
        return first + await without_crashes(attempt, commands[half:], until=until)
    return commands
