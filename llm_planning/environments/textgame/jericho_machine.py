"""A Z-machine that is put into any of its states: Jericho's Frotz, wrapped.

Everything that decides what follows is in a snapshot: the story's memory, the stack, the machine's
registers and its random numbers (`get_state`: 15 microseconds there and back). Two things are
outside it, and so nobody reaches them: files on the disk, and the list of turns that `undo` goes
back in. A process may hold many machines, of equal or different stories: each loads a private copy
of the library, whose variables are the machine.
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
"""Verbs that reach what no snapshot holds, or end the machine; also cut to 6 or 9 letters."""

_BETWEEN_COMMANDS = re.compile(r"[.,;:]|\b(?:then|and)\b")
_LONGEST_COMMAND = 198
_STOPPED = "The story stopped with a fault of its own."
# Of jericho's `filter_candidate_actions`: objects and values of one difference between worlds.
_DIFFERENCE = 128


class MissingJerichoError(TextGameError):
    """Jericho is not installed."""

    def __init__(self) -> None:
        super().__init__(
            "Z-machine stories are played by Jericho, which is not installed: "
            "pip install 'llm-planning[textgames]'"
        )


def find_jericho() -> ModuleType:
    """The package, imported when it is first needed; it brings neither spaCy nor processes.

    Raises:
        MissingJerichoError: it is not installed.
    """
    if find_spec("jericho") is None:
        raise MissingJerichoError
    return import_module("jericho")


def process_folder() -> Path:
    """A folder of this process's own: nobody else changes what interpreters in C read from it.

    It is made at the first call and gone with the process.

    Raises:
        OSError: there is no room for it.
    """
    return Path(_made_folder().name)


@cache
def _made_folder() -> TemporaryDirectory[str]:
    return TemporaryDirectory(prefix="llm-planning-", ignore_cleanup_errors=True)


@dataclass(frozen=True, slots=True)
class Story:
    """A story file, and what Jericho knows about it. Plain data: worker processes are given it.

    Attributes:
        file: its bytes, in a file of this process's own.
        digest: MD5 of its bytes.
        name: as Jericho calls it.
        seed: of its random numbers.
        grammar: templates of its commands, in Jericho's notation.
        word_length: letters of a word that its parser looks at.
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
        parts: of Jericho's `get_state`: memory, uint8 [dynamic memory of the story]; stack, uint8
            [2048]; registers, random numbers, last words. The arrays are read-only.
        score: the game's.
        ending: None while the game goes on.
    """

    parts: tuple[Any, ...]
    score: int
    ending: Ending | None


class Machine:
    """One story, loaded.

    Args:
        story: a supported one; others may end the process.

    Attributes:
        first: the state in which the game begins.
        first_words: what it says before anything is done.
        max_score: the highest score there is.

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
            The state that follows, and the game's words. A machine that stops has failed, unless
            the story said before that it was won; its state is the one before, ended.

        Raises:
            TextGameError: the command is none that a snapshot's future may depend on.
        """
        words = self._send(snapshot, command)
        # Of a stopped machine, this must be read before it is started again.
        score, ending = int(self._env.get_score()), self._ending()
        if not self._revived():
            return self._snapshot(), words
        if ending is not Ending.VICTORY:
            words, ending = f"{words}\n{_STOPPED}".strip(), Ending.FAILURE
        return MachineSnapshot(snapshot.parts, score, ending), words

    def answers(self, snapshot: MachineSnapshot, commands: Sequence[str]) -> list[str]:
        """The game's words to each of several commands, in the same state.

        Raises:
            TextGameError: as `play`.
        """
        answers = []
        for command in commands:
            answers.append(self._send(snapshot, command))
            self._revived()
        return answers

    def changes(
        self, snapshot: MachineSnapshot, commands: Sequence[str]
    ) -> list[tuple[str, bytes]]:
        """Those of some commands that change the world, the score, or end the game.

        Jericho's own filter, in C; it leaves out those that take things by the way. It stops at a
        command that stops the machine, so the commands around that one are tried apart from it.

        Returns:
            In the order of the commands, each with the difference of the worlds before and after:
            opaque, equal for equal changes.
        """
        if not commands:
            return []
        # Both texts are written to: the commands are cut apart where they lie.
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
        """Names of the objects around the player and in the player's hands, as the story has them.

        Everything below the place where the player is, the player apart.
        """
        self._restore(snapshot)
        player = self._env.get_player_object()
        place = self._env.get_player_location() if player is not None else None
        if place is None:
            return []
        # Not as an attribute of the package: its `util` may be the one of ctypes.
        from jericho.util import get_subtree

        around = get_subtree(place.child, self._env.get_world_objects())
        return [str(thing.name) for thing in around if thing.num != player.num]

    def world(self, snapshot: MachineSnapshot) -> str:
        """Jericho's hash of the world: where its objects are, what they are like, and little else.

        What of it a story's author marked as noise, like Zork's thief, is left out.
        """
        self._restore(snapshot)
        return str(self._env.get_world_state_hash())

    def _send(self, snapshot: MachineSnapshot, command: str) -> str:
        told = checked(command)
        self._restore(snapshot)
        words, *_ = self._env.step(told)
        return str(words).strip()

    def _revived(self) -> bool:
        """Starts the machine again if it stopped; a stopped one restores nothing."""
        stopped = bool(self._env._emulator_halted())
        if stopped:
            self._env.reset()
        return stopped

    def _restore(self, snapshot: MachineSnapshot) -> None:
        memory, stack, *others = snapshot.parts
        # Jericho does not take read-only arrays, even though it only reads them.
        self._env.set_state((memory.copy(), stack.copy(), *others))
        # Half a line that another state's prompt left behind is no part of the next answer.
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

    The words that were said last are not among it, nor what lies beyond the end of the stack.
    """
    memory, stack, counter, top, frame, frames, opcode, random, _ = snapshot.parts
    digest = blake2b(memory.tobytes(), digest_size=16)
    digest.update(stack.view(np.uint16)[top:].tobytes())
    registers = (counter, top, frame, frames, opcode, *map(int, random), snapshot.ending)
    digest.update(repr(registers).encode())
    return digest.hexdigest()


def verbs_of(command: str) -> set[str]:
    """The first words of a command, of which a line may hold several."""
    parts = _BETWEEN_COMMANDS.split(command.lower())
    return {part.split()[0] for part in parts if part.strip()}


def outside_of(command: str) -> list[str]:
    """The verbs of a command that reach outside the game."""
    return sorted(verbs_of(command) & OUTSIDE)


def checked(command: str) -> str:
    """A command as a machine may be told it, its words parted by single blanks.

    Raises:
        TextGameError: it reaches outside the game, or is too long.
    """
    told = " ".join(command.split())
    if outside := outside_of(told):
        raise TextGameError(
            f"the command {command!r} is refused: {outside[0]!r} reaches files or earlier turns, "
            "which are no part of the game's state"
        )
    if len(told.encode()) > _LONGEST_COMMAND:
        raise TextGameError(
            f"the command {command[:40]!r}... has {len(told.encode())} bytes, but the Z-machine "
            f"reads {_LONGEST_COMMAND} at most: shorten it"
        )
    return told
