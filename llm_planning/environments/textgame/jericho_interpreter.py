"""Jericho games for everybody who plays: snapshots, keys, valid actions.

Valid actions take 0.1 to 3 seconds per state, so they are found in worker processes.
"""

from __future__ import annotations

import threading
from contextlib import suppress
from functools import lru_cache, partial
from hashlib import blake2b
from typing import TYPE_CHECKING, Literal, TypeAlias

from llm_planning.environments.textgame.game import TextGameError, Transition
from llm_planning.environments.textgame.jericho_actions import REVISION, Finder
from llm_planning.environments.textgame.jericho_machine import Machine, exact_key, find_jericho
from llm_planning.worker_processes import WorkerLostError, bounded, in_lone_worker, in_worker

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from llm_planning.environments.textgame.jericho_machine import MachineSnapshot, Story

    Try: TypeAlias = Callable[[tuple[str, ...]], object]

StateOption: TypeAlias = Literal["exact", "world"]

MOST_SECONDS = 60.0
"""Of processor time, for the valid actions of a state, which take some tenths to a few. A command
that sets the interpreter going for ever is cut off like one that makes it crash."""


class JerichoInterpreter:
    """Plays a Z-machine story from any snapshot; an `Interpreter`.

    The story's random numbers begin with the seed of Jericho's bindings, under which its
    walkthrough holds, and are part of the state: no answer depends on what else was played.

    Two namings of states. `exact`: everything in the interpreter's memory. Turn counters and the
    last command are in there too, so states hardly ever meet again on another way. `world`:
    Jericho's hash of the objects, with score and ending. States meet, but what is not an
    object's place or attribute is given up: turns, hunger, random numbers, timers, points that can
    be had only once. Of states with the same name, the one that was met first speaks for all.

    Args:
        story: a supported one.
        state: how states are named.

    Attributes:
        revision: of the story file, of Jericho, of the naming and of how valid actions are found.
        objective: not known.

    Raises:
        MissingJerichoError: Jericho is not installed.
    """

    def __init__(self, story: Story, *, state: StateOption) -> None:
        self._story = story
        self._machine = Machine(story)
        self._playing = threading.Lock()
        self._key = {"exact": exact_key, "world": self._world_key}[state]
        jericho = find_jericho()
        told = (story.digest, jericho.__version__, state, story.seed, story.grammar, REVISION)
        self.name = story.name
        self.revision = blake2b(repr(told).encode(), digest_size=16).hexdigest()
        self.max_score = float(self._machine.max_score)
        self.walkthrough = story.walkthrough
        self.objective = ""

    def begin(self) -> Transition:
        """The first snapshot and the first words.

        The reward is the score that the game begins with (10 in Detective), so that the rewards of
        an episode add up to the game's score.
        """
        first = self._machine.first
        return Transition(first, self._machine.first_words, float(first.score), first.ending)

    def key(self, snapshot: MachineSnapshot) -> str:
        """Names the state."""
        return self._key(snapshot)

    def step(self, snapshot: MachineSnapshot, action: str) -> Transition:
        """Plays one action.

        A story that stops its machine has failed, unless it said before that it was won.

        Raises:
            TextGameError: the action reaches outside the game (`undo`, `save`), or is too long.
        """
        with self._playing:
            after, words = self._machine.play(snapshot, action)
        return Transition(after, words, float(after.score - snapshot.score), after.ending)

    def look(self, snapshot: MachineSnapshot) -> tuple[str, str]:
        """The answers to `look` and to `inventory`, no turn taken; nothing of an ended game."""
        if snapshot.ending is not None:
            return "", ""
        with self._playing:
            look, inventory = self._machine.answers(snapshot, ("look", "inventory"))
        return look, inventory

    async def valid_actions(self, snapshot: MachineSnapshot) -> tuple[str, ...]:
        """𝒜(s), computed in a worker process.

        Raises:
            TextGameError: the interpreter crashed or hung where it was only looked at.
        """
        return await find_valid_actions(self._story, snapshot)

    def _world_key(self, snapshot: MachineSnapshot) -> str:
        with self._playing:
            world = self._machine.world(snapshot)
        named = (world, snapshot.score, snapshot.ending)
        return blake2b(repr(named).encode(), digest_size=16).hexdigest()


# A process plays few stories at a time; each holds less than a megabyte.
_finder = lru_cache(maxsize=8)(Finder)


def valid_actions(story: Story, snapshot: MachineSnapshot) -> tuple[str, ...]:
    """𝒜(s), computed here."""
    return chosen(story, snapshot, candidates(story, snapshot))


def candidates(story: Story, snapshot: MachineSnapshot) -> tuple[str, ...]:
    """The commands that are tried in a state."""
    return _finder(story).candidates(snapshot)


def chosen(story: Story, snapshot: MachineSnapshot, commands: Sequence[str]) -> tuple[str, ...]:
    """Those of some commands that are valid, one for each change of the world."""
    return _finder(story).chosen(snapshot, commands)


async def find_valid_actions(story: Story, snapshot: MachineSnapshot) -> tuple[str, ...]:
    """𝒜(s), computed in a worker process.

    Some commands of some stories make the interpreter crash (in Zork I, to put everything into the
    nest in the egg that one carries), or could hold it for ever. A command that does is no valid
    action.

    Raises:
        TextGameError: the story crashes or hangs even where it only is looked at.
    """
    whole = partial(bounded, MOST_SECONDS, valid_actions, story, snapshot)
    for elsewhere in (in_worker, in_lone_worker):
        # The first may be lost by another state's fault, with all other shared processes.
        with suppress(WorkerLostError):
            return await elsewhere(whole)
    try:
        tried = partial(bounded, MOST_SECONDS, candidates, story, snapshot)
        choose = partial(bounded, MOST_SECONDS, chosen, story, snapshot)
        harmless = await without_crashes(choose, await in_lone_worker(tried))
        return await in_lone_worker(choose, harmless)
    except WorkerLostError as error:
        raise TextGameError(
            f"the valid actions of a state of {story.name} cannot be found: the interpreter ends "
            f"its process, or takes more than {MOST_SECONDS:g} seconds, whatever it is told. Free "
            "memory if the machine has none left, or play another story"
        ) from error


async def without_crashes(attempt: Try, commands: tuple[str, ...]) -> tuple[str, ...]:
    """Those of some commands that a process survives, found by halving.

    Half a minute for one that crashes; some ten times `MOST_SECONDS` for one that hangs.

    Args:
        attempt: tries commands; importable by its name.
        commands: at least one of them crashes.

    Returns:
        In the order of the commands.
    """
    try:
        await in_lone_worker(attempt, commands)
    except WorkerLostError:
        half = len(commands) // 2
        if half == 0:
            return ()
        first = await without_crashes(attempt, commands[:half])
        return first + await without_crashes(attempt, commands[half:])
    return commands
