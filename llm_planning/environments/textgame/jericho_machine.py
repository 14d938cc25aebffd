"""A Z-machine that can be put into any of its states: a wrapper of Jericho's Frotz.

A snapshot holds everything that decides what follows: the story's memory, the stack, the machine's
registers and its random numbers. Taking and restoring one costs 15 microseconds. It does not hold
files on disk or the turns of `undo`, so the commands that use them are refused. A process can have
many machines, of equal or different stories, because each loads a private copy of the library.
"""

from __future__ import annotations

import re
import warnings
from ctypes import create_string_buffer
from dataclasses import dataclass, replace
from functools import cache
from hashlib import blake2b
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any

import numpy as np

from llm_planning.environments.textgame.game import Ending, TextGameError
from llm_planning.environments.textgame.jericho_commands import checked, key_of
from llm_planning.environments.textgame.story_verdicts import (
    asks_what_now,
    points_in,
    printed_ending,
    status_score,
)

if TYPE_CHECKING:
    from collections.abc import Sequence
    from types import ModuleType

    from numpy.typing import NDArray

_READS_KEY = 246
"""The instruction with which a story waits for one key (Z-Machine Standards, 15: `read_char`)."""

_STOPPED = "The story stopped with a fault of its own."
# The size of a difference between two worlds in Jericho's `filter_candidate_actions`.
_DIFFERENCE = 128
# Prompt and status line around an answer, which Jericho removes from stories that it knows.
_AROUND_ANSWER = re.compile(
    r"\A\s*>?(?:[^\n]* {3}(?:Score: +-?\d+ +Moves: +\d+|Time: [^\n]*)[^\S\n]*(?:\n|\Z))?\s*"
    r"|\n>[^\n]*\s*\Z"
)
# ZSCII from 155 on, in which dictionaries are written (Z-Machine Standards, 3.8.5.3).
_ZSCII = dict(
    enumerate(
        "äöüÄÖÜß»«ëïÿËÏáéíóúýÁÉÍÓÚÝàèìòùÀÈÌÒÙâêîôûÂÊÎÔÛåÅøØãñõÃÑÕæÆçÇþðÞÐ£œŒ¡¿",
        start=155,
    )
)


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


def hush() -> None:
    """Silences Jericho's warning about unknown games for the rest of the process.

    Other games tell their own score, so Jericho need not know it. (Restoring the old filters could
    remove those of other threads.)
    """
    warnings.filterwarnings("ignore", message=".*is not fully supported")


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
        known: Jericho knows where this story keeps its score and its objects, and how it ends.
            Otherwise only what the story says itself is known.
        objects_decide: places and attributes of its objects decide what can be done, as Jericho
            assumes of the stories that it knows.
    """

    file: Path
    digest: str
    name: str
    seed: int
    grammar: str
    word_length: int
    walkthrough: tuple[str, ...] = ()
    known: bool = True
    objects_decide: bool = True


@dataclass(frozen=True, slots=True)
class DictionaryWord:
    """A word that a story's parser knows, as far as the parser looks at it.

    Attributes:
        is_noun: it may name a thing.
        is_adj: it may describe a thing.
    """

    word: str
    is_noun: bool
    is_adj: bool


@dataclass(frozen=True, slots=True, eq=False)
class MachineSnapshot:
    """A state of a machine.

    Attributes:
        parts: the result of Jericho's `get_state`: memory, uint8 [dynamic memory of the story];
            stack, uint8 [2048]; registers, random numbers, last words. The arrays are read-only.
        ending: None while the game goes on.
    """

    parts: tuple[Any, ...]
    score: int
    ending: Ending | None

    @property
    def awaits_key(self) -> bool:
        """Whether the story waits for one key, and not for a line."""
        return bool(self.parts[6] == _READS_KEY)


class Machine:
    """A machine with one story loaded.

    Args:
        story: a story that Jericho supports, or that `jericho_games.read_story` has tried.

    Attributes:
        first: the state in which the game begins.
        first_words: the text before the first command.
    """

    def __init__(self, story: Story) -> None:
        if not story.known:
            hush()
        self._env: Any = find_jericho().FrotzEnv(str(story.file), seed=story.seed)
        self._known = story.known
        words, _ = self._env.reset()
        self.first_words = self._cleaned(str(words))
        self.max_score = int(self._env.get_max_score())
        self.first = self._snapshot(self.first_words, score=0)
        if not self._known:
            (points,) = map(points_in, self.answers(self.first, ("score",)))
            self.max_score = points.most if points else 0

    def play(self, snapshot: MachineSnapshot, command: str) -> tuple[MachineSnapshot, str]:
        """Plays a command in a state.

        Returns:
            The state that follows, and the game's words. If the machine stops, the game ends in
            failure, unless it has just been won; the snapshot is then the one before, ended.
        """
        words = self._send(snapshot, command)
        if not self._has_stopped():
            return self._snapshot(words, score=snapshot.score), words
        # These must be read before the stopped machine is started again.
        score = int(self._env.get_score()) if self._known else snapshot.score
        ending = self._ending(words, score, self._verdict())
        self._revive()
        if ending is not Ending.VICTORY:
            words, ending = f"{words}\n{_STOPPED}".strip(), Ending.FAILURE
        return MachineSnapshot(snapshot.parts, score, ending), words

    def answers(self, snapshot: MachineSnapshot, commands: Sequence[str]) -> list[str]:
        """The game's words to each of several commands, in the same state."""
        answers = []
        for command in commands:
            answers.append(self._send(snapshot, command))
            self._revive()
        return answers

    def changes(
        self, snapshot: MachineSnapshot, commands: Sequence[str]
    ) -> list[tuple[str, bytes]]:
        """The commands that change the world or the score, or end the game.

        This is Jericho's own filter, in C, which leaves out commands that only take things in
        passing. It gives up at a command that stops the machine; the commands are then tried in
        halves. It splits a list at semicolons, so a command that has one is not tried.

        Returns:
            (command, difference of the worlds before and after) in the order of the commands;
            differences are opaque, and equal for equal changes.
        """
        commands = [command for command in commands if ";" not in command]
        if not commands:
            return []
        # The library writes to both buffers: it splits the commands in place.
        typed = create_string_buffer(";".join(map(checked, commands)).encode("latin-1"))
        changing = create_string_buffer(len(typed) + 1)
        differences = np.zeros((len(commands), _DIFFERENCE), dtype=np.uint16)
        self._restore(snapshot)
        library = self._env.frotz_lib
        count = library.filter_candidate_actions(typed, changing, differences.ctypes.data)
        if self._has_stopped():
            self._revive()
            half = len(commands) // 2
            parts = (commands[:half], commands[half:]) if half else ()
            return [change for part in parts for change in self.changes(snapshot, part)]
        changed = changing.value.decode("latin-1").split(";")[:count]
        rows = differences[:count]
        return [(name, row.tobytes()) for name, row in zip(changed, rows, strict=True)]

    def dictionary(self) -> list[DictionaryWord]:
        """The words that the story's parser knows."""
        return [
            DictionaryWord(
                bytes(word._word).decode("latin-1").translate(_ZSCII), word.is_noun, word.is_adj
            )
            for word in self._env.get_dictionary()
        ]

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

        It ignores what Jericho treats as noise in a story, such as Zork's thief. Of a story that
        Jericho does not know, it is a hash of just these places and attributes.
        """
        if not self._known:
            return blake2b(placed_objects(snapshot.parts[0]), digest_size=16).hexdigest()
        self._restore(snapshot)
        return str(self._env.get_world_state_hash())

    def _send(self, snapshot: MachineSnapshot, command: str) -> str:
        # The interpreter would keep the rest of a line for later keys, in whatever state.
        line = key_of(command) if snapshot.awaits_key else checked(command)
        self._restore(snapshot)
        return self._cleaned(self._answer(line))

    def _answer(self, line: str) -> str:
        # Jericho's `step` sends UTF-8, of which the machine reads every byte as a letter.
        words: bytes = self._env.frotz_lib.step(line.encode("latin-1") + b"\n")
        return words.decode("cp1252", "replace")

    def _cleaned(self, words: str) -> str:
        return (words if self._known else _AROUND_ANSWER.sub("", words)).strip()

    def _has_stopped(self) -> bool:
        return bool(self._env._emulator_halted())

    def _revive(self) -> None:
        """Starts the machine again if it stopped, since a stopped machine restores no state."""
        if self._has_stopped():
            self._env.reset()

    def _restore(self, snapshot: MachineSnapshot) -> None:
        memory, stack, *others = snapshot.parts
        # Jericho refuses read-only arrays, although it only reads them.
        self._env.set_state((memory.copy(), stack.copy(), *others))
        # The rest of another state's prompt must not become a part of the next answer.
        self._env.frotz_lib.flush_buffer()
        self._env.frotz_lib.dumb_clear_screen()

    def _snapshot(self, words: str, *, score: int) -> MachineSnapshot:
        """The present state, after an answer; `score` is the one before."""
        memory, stack, *others = self._env.get_state()
        memory.flags.writeable = False
        stack.flags.writeable = False
        after = MachineSnapshot((memory, stack, *others), score, None)
        # Jericho judges by the last answer, so before the score is asked for.
        verdict = self._verdict()
        score = int(self._env.get_score()) if self._known else self._printed_score(after, words)
        return replace(after, score=score, ending=self._ending(words, score, verdict))

    def _printed_score(self, after: MachineSnapshot, words: str) -> int:
        """The score of a story that Jericho does not know; the one before if nothing tells it."""
        status = status_score(after.parts[0])
        if status is not None:
            return status
        points = points_in(words)
        if points is None and not after.awaits_key:
            points = points_in(self._answer("score"))
            self._revive()
        return after.score if points is None else points.score

    def _verdict(self) -> Ending | None:
        if self._env.victory():
            return Ending.VICTORY
        return Ending.FAILURE if self._env.game_over() else None

    def _ending(self, words: str, score: int, verdict: Ending | None) -> Ending | None:
        """How the game has ended: what it printed decides first, then Jericho, then the score.

        Jericho says of the stories that it knows when they are over. Of others, their words do.
        """
        printed = printed_ending(words)
        ends_in_words = printed is not None and not self._known
        if verdict is None and not ends_in_words and not asks_what_now(words):
            return None
        if printed is not None:
            return printed
        if verdict is Ending.VICTORY or score >= self.max_score > 0:
            return Ending.VICTORY
        return Ending.FAILURE if self._known else Ending.OVER


def placed_objects(memory: NDArray[np.uint8]) -> bytes:
    """Attributes and parent of every object of a story (Z-Machine Standards, 12.3).

    Nothing counts the objects; property tables begin where their table ends.

    Args:
        memory: of a story, shape [bytes].
    """
    defaults, size, compared, word = (31, 9, 5, 7) if memory[0] <= 3 else (63, 14, 8, 12)
    first = int.from_bytes(memory[0x0A:0x0C].tobytes()) + 2 * defaults
    at, end = first, len(memory)
    while at < end:
        end = min(end, int.from_bytes(memory[at + word : at + word + 2].tobytes()))
        at += size
    count = (at - first) // size
    return memory[first : first + count * size].reshape(count, size)[:, :compared].tobytes()


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
