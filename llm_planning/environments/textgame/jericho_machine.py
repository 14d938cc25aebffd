"""A Z-machine that can be put into any of its states: a wrapper of Jericho's Frotz.

A snapshot holds everything that decides what follows: the story's memory, the stack, the machine's
registers and its random numbers. Taking and restoring one costs 15 microseconds. It does not hold
files on disk or the turns of `undo`, so the commands that use them are refused. A process can have
many machines, of equal or different stories, because each loads a private copy of the library.
"""

from __future__ import annotations

import re
from ctypes import create_string_buffer
from dataclasses import dataclass
from functools import cache
from hashlib import blake2b
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any

import numpy as np

from llm_planning.environments.textgame.game import Ending, TextGameError

if TYPE_CHECKING:
    from collections.abc import Sequence
    from types import ModuleType

OUTSIDE = frozenset(
    {
        *("undo", "save", "restore", "restor", "restart", "restar", "quit", "q"),
        *("script", "unscript", "unscri", "noscript", "noscri", "recording", "replay"),
        *("transcript", "transcrip", "transc"),
    }
)
"""Verbs that use what a snapshot does not hold, or end the machine; also cut to 6 or 9 letters."""

_BETWEEN_COMMANDS = re.compile(r"[.,;:]|\b(?:then|and)\b")
_LONGEST_COMMAND = 198
_STOPPED = "The story stopped with a fault of its own."
# The size of a difference between two worlds in Jericho's `filter_candidate_actions`.
_DIFFERENCE = 128


class MissingJerichoError(TextGameError):
    """Jericho is not installed."""

    def __init__(self) -> None:
        super().__init__(
            "Z-machine stories are played by Jericho, which is not installed: "
            "pip install 'llm-planning[textgames]'"
        )


def find_jericho() -> ModuleType:
    """The package, imported when it is first needed; the import loads no spaCy.

    Raises:
        MissingJerichoError: Jericho is not installed.
    """
    if find_spec("jericho") is None:
        raise MissingJerichoError
    return import_module("jericho")


def process_folder() -> Path:
    """A private folder of this process, for files that interpreters in C read.

    It is made at the first call and removed with the process.

    Raises:
        OSError: the folder cannot be made.
    """
    return Path(_made_folder().name)


@cache
def _made_folder() -> TemporaryDirectory[str]:
    return TemporaryDirectory(prefix="llm-planning-", ignore_cleanup_errors=True)


@dataclass(frozen=True, slots=True)
class Story:
    """A story file and Jericho's data about it; plain data that is sent to worker processes.

    Attributes:
        file: a private copy of the story file.
        digest: MD5 of its bytes.
        name: Jericho's name of the story.
        seed: of its random numbers.
        grammar: templates of its commands, in Jericho's notation.
        word_length: number of letters of a word that its parser compares.
        walkthrough: commands that lead to the best known score.
    """

    file: Path
    digest: str
    name: str
    seed: int
    grammar: str
    word_length: int
    walkthrough: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, eq=False)
class MachineSnapshot:
    """A state of a machine.

    Attributes:
        parts: the result of Jericho's `get_state`: memory, uint8 [dynamic memory of the story];
            stack, uint8 [2048]; registers, random numbers, last words. The arrays are read-only.
        score: of the game.
        ending: None while the game goes on.
    """

    parts: tuple[Any, ...]
    score: int
    ending: Ending | None


class Machine:
    """A machine with one story loaded.

    Args:
        story: a story that Jericho supports; another story may end the process.

    Attributes:
        first: the state in which the game begins.
        first_words: the text before the first command.
        max_score: the highest possible score.

    Raises:
        MissingJerichoError: Jericho is not installed.
    """

    def __init__(self, story: Story) -> None:
        self._env: Any = find_jericho().FrotzEnv(str(story.file), seed=story.seed)
        words, _ = self._env.reset()
        self.first_words = str(words).strip()
        self.first = self._snapshot()
        self.max_score = int(self._env.get_max_score())

    def play(self, snapshot: MachineSnapshot, command: str) -> tuple[MachineSnapshot, str]:
        """Plays a command in a state.

        Returns:
            The state that follows, and the game's words. If the machine stops, the game ends in
            failure, unless it has just been won; the snapshot is then the one before, ended.

        Raises:
            TextGameError: the command is refused, see `checked`.
        """
        words = self._send(snapshot, command)
        # These must be read before a stopped machine is started again.
        score, ending = int(self._env.get_score()), self._ending()
        if not self._revived():
            return self._snapshot(), words
        if ending is not Ending.VICTORY:
            words, ending = f"{words}\n{_STOPPED}".strip(), Ending.FAILURE
        return MachineSnapshot(snapshot.parts, score, ending), words

    def answers(self, snapshot: MachineSnapshot, commands: Sequence[str]) -> list[str]:
        """The game's words to each of several commands, in the same state.

        Raises:
            TextGameError: a command is refused, see `checked`.
        """
        answers = []
        for command in commands:
            answers.append(self._send(snapshot, command))
            self._revived()
        return answers

    def changes(
        self, snapshot: MachineSnapshot, commands: Sequence[str]
    ) -> list[tuple[str, bytes]]:
        """The commands that change the world or the score, or end the game.

        This is Jericho's own filter, in C, which leaves out commands that only take things in
        passing. It gives up at a command that stops the machine; the commands are then tried in
        halves.

        Returns:
            (command, difference of the worlds before and after) in the order of the commands;
            differences are opaque, and equal for equal changes.
        """
        if not commands:
            return []
        # The library writes to both buffers: it splits the commands in place.
        told = create_string_buffer(";".join(commands).encode("cp1252", "replace"))
        changing = create_string_buffer(len(told) + 1)
        differences = np.zeros((len(commands), _DIFFERENCE), dtype=np.uint16)
        self._restore(snapshot)
        library = self._env.frotz_lib
        count = library.filter_candidate_actions(told, changing, differences.ctypes.data)
        if self._revived():
            half = len(commands) // 2
            parts = (commands[:half], commands[half:]) if half else ()
            return [change for part in parts for change in self.changes(snapshot, part)]
        found = changing.value.decode("cp1252").split(";")[:count]
        rows = differences[:count]
        return [(name, row.tobytes()) for name, row in zip(found, rows, strict=True)]

    def dictionary(self) -> list[Any]:
        """The words that the story's parser knows, with their flags."""
        return list(self._env.get_dictionary())

    def nearby(self, snapshot: MachineSnapshot) -> list[str]:
        """The story's names of the objects around the player and in the player's hands.

        These are all objects below the player's place in the object tree, except the player.
        """
        self._restore(snapshot)
        player = self._env.get_player_object()
        place = self._env.get_player_location() if player is not None else None
        if place is None:
            return []
        # `jericho.util` as an attribute may be the `util` of ctypes; importing from it is safe.
        from jericho.util import get_subtree

        around = get_subtree(place.child, self._env.get_world_objects())
        return [str(thing.name) for thing in around if thing.num != player.num]

    def world(self, snapshot: MachineSnapshot) -> str:
        """Jericho's hash of the world: the places and attributes of its objects, and little else.

        It ignores what Jericho treats as noise in a story, such as Zork's thief.
        """
        self._restore(snapshot)
        return str(self._env.get_world_state_hash())

    def _send(self, snapshot: MachineSnapshot, command: str) -> str:
        told = checked(command)
        self._restore(snapshot)
        words, *_ = self._env.step(told)
        return str(words).strip()

    def _revived(self) -> bool:
        """Starts the machine again if it stopped, since a stopped machine restores no state.

        Returns:
            Whether it had stopped.
        """
        stopped = bool(self._env._emulator_halted())
        if stopped:
            self._env.reset()
        return stopped

    def _restore(self, snapshot: MachineSnapshot) -> None:
        memory, stack, *others = snapshot.parts
        # Jericho refuses read-only arrays, although it only reads them.
        self._env.set_state((memory.copy(), stack.copy(), *others))
        # The rest of another state's prompt must not become a part of the next answer.
        self._env.frotz_lib.flush_buffer()
        self._env.frotz_lib.dumb_clear_screen()

    def _snapshot(self) -> MachineSnapshot:
        memory, stack, *others = self._env.get_state()
        memory.flags.writeable = False
        stack.flags.writeable = False
        score = int(self._env.get_score())
        return MachineSnapshot((memory, stack, *others), score, self._ending())

    def _ending(self) -> Ending | None:
        if self._env.victory():
            return Ending.VICTORY
        return Ending.FAILURE if self._env.game_over() else None


def exact_key(snapshot: MachineSnapshot) -> str:
    """A hash of everything that decides what follows a snapshot.

    It leaves out the last words, and the bytes beyond the end of the stack.
    """
    memory, stack, counter, top, frame, frames, opcode, random, _ = snapshot.parts
    digest = blake2b(memory.tobytes(), digest_size=16)
    digest.update(stack.view(np.uint16)[top:].tobytes())
    registers = (counter, top, frame, frames, opcode, *map(int, random), snapshot.ending)
    digest.update(repr(registers).encode())
    return digest.hexdigest()


def verbs_of(command: str) -> set[str]:
    """The first word of each command in a line, which may hold several commands."""
    parts = _BETWEEN_COMMANDS.split(command.lower())
    return {part.split()[0] for part in parts if part.strip()}


def outside_of(command: str) -> list[str]:
    """The verbs of a command that are in `OUTSIDE`, sorted."""
    return sorted(verbs_of(command) & OUTSIDE)


def checked(command: str) -> str:
    """A command for the machine, with single blanks between its words.

    Raises:
        TextGameError: the command has a verb of `OUTSIDE`, or is too long.
    """
    told = " ".join(command.split())
    if outside := outside_of(told):
        raise TextGameError(
            f"the command {command!r} is refused: {outside[0]!r} reaches files or earlier turns, "
            "which are not part of the game's state"
        )
    if len(told.encode()) > _LONGEST_COMMAND:
        raise TextGameError(
            f"the command {command[:40]!r}... has {len(told.encode())} bytes, but the Z-machine "
            f"reads {_LONGEST_COMMAND} at most: shorten it"
        )
    return told
