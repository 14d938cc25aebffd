"""𝒜(s) of a Jericho game: which of the commands that its grammar allows change the world.

Jericho's valid action handicap (MC-DML, Section 4.1), made without a language model: what there
is to name around the player is read from the game's words (`look`, `inventory`), of which the
game's own dictionary says which name things, and from the names of the objects that are near. The
grammar's templates are filled with one name per thing, and the commands that change nothing are
left out. A hundred to thousands of commands are tried, in 0.1 to 3 seconds per state. What is found
is a function of the story and the snapshot.
"""

from __future__ import annotations

import re
from collections import defaultdict
from dataclasses import dataclass
from functools import lru_cache, partial
from typing import TYPE_CHECKING, Any

from llm_planning.environments.textgame.jericho_machine import (
    Machine,
    find_jericho,
    outside_of,
)

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from llm_planning.environments.textgame.jericho_machine import MachineSnapshot, Story

REVISION = 2
"""Part of what remembered transitions hold for: a change of how they or the valid actions are found
must not meet them."""

_TOKEN = re.compile(r"[^\W_]+(?:['-][^\W_]+)*")

# The parsers of Inform mark every word that may stand in a noun phrase as a noun. These name no
# thing: whatever the game says to `examine` and one of them, it is not about something here.
_FUNCTION_WORDS = (
    "a an the some any this that these those my your his her its their our and or but except then "
    "of to in into on onto at from with by for out off over under through up down it him them me "
    "myself self yourself you i all each every everything both other another half one two three "
    "four five six seven eight nine ten is are am be was were no not yes north south east west "
    "northeast northwest southeast southwest n s e w ne nw se sw u d here there"
)
_NAMELESS = frozenset(_FUNCTION_WORDS.split())

# The parsers of Infocom and Inform ask alike.
_WHICH = re.compile(r"\bdo you mean\b(.*)", re.IGNORECASE)

# Everything that is there, in the commands that take several things.
_ALL = "all"


@dataclass(frozen=True, slots=True)
class Word:
    """A word of the game's that may name something.

    Attributes:
        rank: 0 for what things are called, 1 for full names, 2 for adjectives.
        far: it was read; no object that is near bears it.
        text: the word, or several.
    """

    rank: int
    far: bool
    text: str

    @property
    def order(self) -> tuple[int, bool, int, str]:
        """Names come in this order of preference."""
        return self.rank, self.far, len(self.text), self.text


class Vocabulary:
    """The words of a dictionary that name things, by their first letters.

    Args:
        words: of Jericho's, with flags.
        length: letters of a word that the parser looks at.
    """

    def __init__(self, words: Iterable[Any], length: int) -> None:
        self._length = length
        self._names = {str(word.word) for word in words if word.is_noun or word.is_adj}

    def __contains__(self, word: str) -> bool:
        return word not in _NAMELESS and word[: self._length] in self._names

    def read(self, text: str) -> Iterator[Word]:
        """Names in a text: words that follow each other are taken for the name of one thing."""
        run: list[str] = []
        for token in (*_TOKEN.findall(text.lower()), ""):
            if token in self:
                run.append(token)
            elif run:
                yield from _phrase(run, far=True)
                run.clear()

    def of_object(self, name: str) -> Iterator[Word]:
        """Names of an object that has this name; the full one even if the parser lacks words."""
        for word in _phrase(name.lower().split(), far=False):
            if word.rank == 1 or word.text in self:
                yield word


def _phrase(words: list[str], *, far: bool) -> Iterator[Word]:
    """Names in a phrase: its last word is the noun, the others are adjectives, as in English."""
    if len(words) > 1:
        yield Word(1, far, " ".join(words))
    yield from (Word(2, far, word) for word in words[:-1])
    yield from (Word(0, far, word) for word in words[-1:])


class Finder:
    """Finds the valid actions of one story's states, on a machine of its own.

    Args:
        story: a supported one.
    """

    def __init__(self, story: Story) -> None:
        find_jericho()
        # Not as attributes of the package: it exports whatever its modules import, and its `util`
        # is the one of ctypes where somebody has loaded that.
        from jericho.template_action_generator import TemplateActionGenerator
        from jericho.util import recognized, verb_usage_count

        self._machine = Machine(story)
        self._vocabulary = Vocabulary(self._machine.dictionary(), story.word_length)
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
        """What the things that are there are called: one name for each, sorted, and `all`.

        Words to whose examination the game says the same name the same thing. Where it asks which
        of several things is meant, their own names stand for the word, if it knows them.
        """
        words = self._words(snapshot)
        answers = self._examined(snapshot, words)
        meant = {
            text: {word.text: word for word in self._vocabulary.read(question[1])}
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
        """Words that may name something here, by their text."""
        seen = "\n".join(self._machine.answers(snapshot, ("look", "inventory")))
        near = self._machine.nearby(snapshot)
        found = [word for name in near for word in self._vocabulary.of_object(name)]
        # An object's own name knows better than the text which of its words is the noun.
        adjectives = {word.text for word in found if word.rank == 2}
        adjectives -= {word.text for word in found if word.rank == 0}
        found.extend(word for word in self._vocabulary.read(seen) if word.text not in adjectives)
        words: dict[str, Word] = {}
        for word in found:
            known = words.setdefault(word.text, word)
            words[word.text] = min(known, word, key=lambda each: each.order)
        return words

    def _examined(self, snapshot: MachineSnapshot, texts: Iterable[str]) -> dict[str, str]:
        """What the game says of those of some words that it takes for a thing, in one line."""
        names = list(texts)
        answers = self._machine.answers(snapshot, [f"examine {name}" for name in names])
        said = {name: " ".join(answer.split()) for name, answer in zip(names, answers, strict=True)}
        return {name: answer for name, answer in said.items() if self._recognized(answer)}

    def candidates(self, snapshot: MachineSnapshot) -> tuple[str, ...]:
        """The grammar's commands about the things that are there, sorted, without repetitions."""
        filled = self._generator.generate_actions(list(self.names(snapshot)))
        commands = {" ".join(command.split()) for command in filled}
        return tuple(sorted(command for command in commands if not outside_of(command)))

    def chosen(self, snapshot: MachineSnapshot, commands: Sequence[str]) -> tuple[str, ...]:
        """One command for each change that some commands make, sorted.

        Of several that do the same to the world, the score and the game's ending, the one whose
        verb players use most. (Jericho compares the world only: of two that die and earn a point
        by the same movement of things, it may keep the deadly one.)
        """
        groups: dict[object, list[str]] = defaultdict(list)
        for command, difference in self._machine.changes(snapshot, commands):
            after, _ = self._machine.play(snapshot, command)
            groups[difference, after.score, after.ending].append(command)
        return tuple(sorted(min(same, key=self._preference) for same in groups.values()))

    def _preference(self, command: str) -> tuple[int, int, str]:
        return -self._count(command.partition(" ")[0]), len(command), command
