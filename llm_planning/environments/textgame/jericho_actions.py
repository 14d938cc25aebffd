"""𝒜(s) of a Jericho game: the commands of its grammar that change the world.

This is Jericho's valid action handicap (MC-DML, Section 4.1) without a language model. The names of
things around the player come from the answers to `look` and `inventory`, filtered by the game's own
dictionary, and from the objects that are near. The grammar's templates are filled with one name per
thing, and commands that change nothing are left out. This tries a hundred to thousands of commands
per state, mostly in 0.1 to 3 seconds (in Ztuu up to 13). The result is a function of the story and
the snapshot, unless the time for a state is up before all commands are tried.

Jericho's filter sees objects that move and change. What it cannot see is looked at here: ways
between places that no object shows, and the keys that a story waits for.
"""

from __future__ import annotations

import math
import re
import time
from collections import defaultdict
from dataclasses import dataclass
from functools import lru_cache, partial
from string import ascii_lowercase, digits
from typing import TYPE_CHECKING, Any

from llm_planning.environments.textgame.game import TextGameError
from llm_planning.environments.textgame.jericho_commands import ENTER, SPACE, checked
from llm_planning.environments.textgame.jericho_machine import Machine, find_jericho

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from llm_planning.environments.textgame.jericho_machine import MachineSnapshot, Story

REVISION = 3
"""Part of the interpreter's revision. Increase it when transitions or valid actions are found in
another way, so that older remembered answers are not used."""

WAYS = (
    *("north", "south", "east", "west", "northeast", "northwest", "southeast", "southwest"),
    *("up", "down", "in", "out"),
)
ALWAYS = (*WAYS, "wait", "look", "inventory")
"""What a player can always try: the actions where nothing else is found to do anything."""

_FIRST = (*WAYS, "wait")
"""These commands are tried first in every state, whatever the grammar has."""

_PRESSED = (ENTER, SPACE, *ascii_lowercase, *digits)
_AT_ONCE = 50
"""So many commands are tried between two looks at the clock."""

_TOKEN = re.compile(r"[^\W_]+(?:['-][^\W_]+)*")

# Inform's parsers mark every word that may stand in a noun phrase as a noun. These words name no
# thing, so the game's answer to `examine` and one of them is not about a thing that is here.
_FUNCTION_WORDS = (
    "a an the some any this that these those my your his her its their our and or but except then "
    "of to in into on onto at from with by for out off over under through up down it him them me "
    "myself self yourself you i all each every everything both other another half one two three "
    "four five six seven eight nine ten is are am be was were no not yes north south east west "
    "northeast northwest southeast southwest n s e w ne nw se sw u d here there"
)
_NAMELESS = frozenset(_FUNCTION_WORDS.split())

# Infocom's and Inform's parsers ask this in the same words.
_WHICH = re.compile(r"\bdo you mean\b(.*)", re.IGNORECASE)

# Names everything that is there, in commands that take several things.
_ALL = "all"


@dataclass(frozen=True, slots=True)
class Found:
    """The valid actions of a state, as far as they were found.

    Attributes:
        actions: one command for each change, sorted.
        untried: the number of commands for which there was no time.
    """

    actions: tuple[str, ...]
    untried: int = 0


@dataclass(frozen=True, slots=True)
class Word:
    """A word of the game that may name a thing.

    Attributes:
        rank: 0 for nouns, 1 for names of several words, 2 for adjectives.
        far: the word comes from a text and not from an object that is near.
    """

    rank: int
    far: bool
    text: str

    @property
    def order(self) -> tuple[int, bool, int, str]:
        """The sort key: a preferred name has a smaller one."""
        return self.rank, self.far, len(self.text), self.text


class NamingWords:
    """The words of a dictionary that name things, by their first letters.

    Args:
        words: Jericho's dictionary words, with flags.
        length: number of letters of a word that the parser compares.
    """

    def __init__(self, words: Iterable[Any], length: int) -> None:
        self._length = length
        self._names = {str(word.word) for word in words if word.is_noun or word.is_adj}

    def __contains__(self, word: str) -> bool:
        return word not in _NAMELESS and word[: self._length] in self._names

    def read(self, text: str) -> Iterator[Word]:
        """The names in a text; naming words that follow each other count as one name."""
        run: list[str] = []
        for token in (*_TOKEN.findall(text.lower()), ""):
            if token in self:
                run.append(token)
            elif run:
                yield from _phrase(run, far=True)
                run.clear()

    def of_object(self, name: str) -> Iterator[Word]:
        """The names of an object; its full name even if the parser lacks some of the words."""
        for word in _phrase(_TOKEN.findall(name.lower()), far=False):
            if word.rank == 1 or word.text in self:
                yield word


def _phrase(words: list[str], *, far: bool) -> Iterator[Word]:
    """The names in a phrase: the last word is the noun, and the others are adjectives."""
    if len(words) > 1:
        yield Word(1, far, " ".join(words))
    yield from (Word(2, far, word) for word in words[:-1])
    yield from (Word(0, far, word) for word in words[-1:])


class Finder:
    """Finds the valid actions of one story's states, on a machine of its own.

    Args:
        story: a story that Jericho supports.
    """

    def __init__(self, story: Story) -> None:
        find_jericho()
        # The package exports everything that its modules import, so `jericho.util` may be the
        # `util` of ctypes. Importing from the modules is safe.
        from jericho.template_action_generator import TemplateActionGenerator
        from jericho.util import recognized, verb_usage_count

        self._machine = Machine(story)
        self._known = story.known
        words = self._machine.dictionary()
        self._naming = NamingWords(words, story.word_length)
        known = {word.word for word in words}
        self._always = (
            tuple(command for command in ALWAYS if command[: story.word_length] in known) or ALWAYS
        )
        self._recognized = recognized
        self._count = lru_cache(None)(partial(verb_usage_count, max_word_length=story.word_length))
        self._generator = TemplateActionGenerator(
            {
                "name": story.name,
                "grammar": story.grammar,
                "max_word_length": story.word_length,
            }
        )

    def names(self, snapshot: MachineSnapshot) -> tuple[str, ...]:
        """One name for each thing that is there, and `all`, sorted.

        Two words name the same thing if the game's answers to examining them are equal. If the game
        asks which of several things is meant, the names in its question replace the word, provided
        that the game knows them.
        """
        words = self._words(snapshot)
        answers = self._examined(snapshot, words)
        meant = {
            text: {word.text: word for word in self._naming.read(question[1])}
            for text, answer in answers.items()
            if (question := _WHICH.search(answer))
        }
        asked = {name: word for each in meant.values() for name, word in each.items()}
        new = {name: word for name, word in asked.items() if name not in words}
        answers |= self._examined(snapshot, new)
        clear = {text for text, answer in answers.items() if not _WHICH.search(answer)}
        things: dict[str, list[Word]] = defaultdict(list)
        for text, answer in answers.items():
            if text in clear or not clear & meant.get(text, {}).keys():
                things[answer].append(words.get(text) or new[text])
        best = {min(same, key=lambda each: each.order).text for same in things.values()}
        return tuple(sorted(best | {_ALL}))

    def _words(self, snapshot: MachineSnapshot) -> dict[str, Word]:
        """Text -> word, for the words that may name a thing here."""
        seen = "\n".join(self._machine.answers(snapshot, ("look", "inventory")))
        near = self._machine.nearby(snapshot)
        candidates = [word for name in near for word in self._naming.of_object(name)]
        # An object's name shows which of its words is the noun more reliably than a text does.
        adjectives = {word.text for word in candidates if word.rank == 2}
        adjectives -= {word.text for word in candidates if word.rank == 0}
        candidates.extend(word for word in self._naming.read(seen) if word.text not in adjectives)
        words: dict[str, Word] = {}
        for word in candidates:
            known = words.setdefault(word.text, word)
            words[word.text] = min(known, word, key=lambda each: each.order)
        return words

    def _examined(self, snapshot: MachineSnapshot, texts: Iterable[str]) -> dict[str, str]:
        """Text -> the answer to examining it, in one line, for texts that the game recognizes."""
        names = list(texts)
        answers = self._machine.answers(snapshot, [f"examine {name}" for name in names])
        lines = {
            name: " ".join(answer.split()) for name, answer in zip(names, answers, strict=True)
        }
        return {name: answer for name, answer in lines.items() if self._recognized(answer)}

    def candidates(self, snapshot: MachineSnapshot) -> tuple[str, ...]:
        """The commands to try, sorted, without repetitions: the keys if the story waits for one.

        Otherwise they are the ways, `wait`, and the grammar's commands about the things that are
        there. A command that no story can read is not tried.
        """
        if snapshot.awaits_key:
            return tuple(sorted(_PRESSED))
        filled = self._generator.generate_actions(list(self.names(snapshot)))
        commands = {" ".join(command.split()) for command in (*filled, *_FIRST)}
        return tuple(sorted(filter(_can_be_typed, commands)))

    def chosen(
        self, snapshot: MachineSnapshot, commands: Sequence[str], *, seconds: float = math.inf
    ) -> Found:
        """One command for each change that some commands make.

        If several commands change the world, the score and the ending in the same way, the command
        with the most used verb is chosen. (Jericho only compares the world, so of two commands that
        move the same things, one to death and one to a point, it may keep the deadly one.) A way to
        another place is a change, too, even if no object moves. Where nothing is found, or none of
        the ways that were tried leads anywhere, all of `ALWAYS` are actions: something that no
        answer shows may have changed.

        Args:
            snapshot: a state in which the game goes on.
            commands: the commands to try; the ways and `wait` come first, then the shortest.
            seconds: of processor time, after which no more commands are tried than the first.
        """
        if snapshot.awaits_key:
            return Found(self._keys(snapshot, commands))
        until = time.process_time() + seconds
        waiting = sorted(commands, key=urgency)
        before = snapshot.score, snapshot.ending, snapshot.awaits_key
        groups: dict[object, list[str]] = defaultdict(list)
        # While a limit of processor time is set, this clock moves by ticks: it may stand still.
        while waiting and (len(waiting) == len(commands) or time.process_time() < until):
            differences = dict(self._machine.changes(snapshot, waiting[:_AT_ONCE]))
            # Of a story that it knows, Jericho's filter also sees the score and the ending.
            for command in differences if self._known else waiting[:_AT_ONCE]:
                after, _ = self._machine.play(snapshot, command)
                if after.parts is snapshot.parts:  # the machine stopped
                    continue
                effect = after.score, after.ending, after.awaits_key
                if command in differences or effect != before:
                    groups[differences.get(command), effect].append(command)
            del waiting[:_AT_ONCE]
        ways = [way for way in WAYS if way in commands]
        changing = {command for same in groups.values() for command in same}
        for way, place in self._blind(snapshot, [way for way in ways if way not in changing]):
            groups[place].append(way)
            changing.add(way)
        actions = {min(same, key=self._preference) for same in groups.values()}
        if not actions or (ways and changing.isdisjoint(ways)):
            actions.update(self._always)
        return Found(tuple(sorted(actions)), len(waiting))

    def _keys(self, snapshot: MachineSnapshot, commands: Sequence[str]) -> tuple[str, ...]:
        """One key for each answer; Enter and the space bar rather than letters."""
        answers: dict[str, str] = {}
        for key in sorted(commands, key=_PRESSED.index):
            _, words = self._machine.play(snapshot, key)
            answers.setdefault(words, key)
        return tuple(sorted(answers.values()))

    def _blind(self, snapshot: MachineSnapshot, ways: Sequence[str]) -> Iterator[tuple[str, str]]:
        """(way, the first line of `look` after it) for the ways to another place."""
        before, _ = self._machine.play(snapshot, "look")
        here = {self._place(snapshot), self._place(before)}
        for way in ways:
            after, _ = self._machine.play(snapshot, way)
            if (place := self._place(after)) and place not in here:
                yield way, place

    def _place(self, snapshot: MachineSnapshot) -> str:
        """The first line of the answer to `look`; empty after the end and at a prompt for a key."""
        if snapshot.ending is not None or snapshot.awaits_key:
            return ""
        (look,) = self._machine.answers(snapshot, ("look",))
        return look.partition("\n")[0].strip()

    def _preference(self, command: str) -> tuple[int, int, str]:
        return -self._count(command.partition(" ")[0]), len(command), command


def _can_be_typed(command: str) -> bool:
    try:
        checked(command)
    except TextGameError:
        return False
    return True


def urgency(command: str) -> tuple[bool, int, str]:
    """The sort key of commands in the order in which they are tried."""
    return command not in _FIRST, command.count(" "), command
