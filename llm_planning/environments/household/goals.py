"""Goals: what has to lie where, as counted predicates and as English sentences.

A goal is a set of predicates with counts, such as `Inside(apple, fridge):2; On(book, sofa):1`
(LLM-MCTS, Appendix A.3). `read_goal` also reads a sentence, such as "put two apples in the fridge
and the book on the sofa". Its grammar is small: clauses joined by "and" or commas, each with a
number, a thing, a preposition and a place. A clause without a place has that of the next one.
"To" means inside or on, as the place is. Apples without a number are all that the home has.
"""

from __future__ import annotations

import re
from functools import cache
from typing import TYPE_CHECKING, Final, NamedTuple, NoReturn, TypeAlias

from llm_base.quoting import LONGEST_VALUE, quote
from llm_planning.domain import DomainError
from llm_planning.environments.household.names import plural, unique_name
from llm_planning.names import remedy
from llm_planning.roles.options import listed

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from llm_planning.environments.household.home import Home, Place

LONGEST_GOAL: Final = 500
"""Characters of the longest goal that is read."""

NUMBERS: Final = ("no", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine")
"""Number -> its word."""

_COUNTS: Final[Mapping[str, int | None]] = {
    **{word: number for number, word in enumerate(NUMBERS) if number},
    **dict.fromkeys(("a", "an", "any", "some"), 1),
    "both": 2,
    "the": None,
}
"""Word before a thing -> how many are meant; None where only the thing's form tells."""
_WAYS: Final = (
    'write it as "put two apples in the fridge and the book on the sofa", or as '
    "Inside(apple, fridge):2; On(book, sofa):1"
)
_INSIDE: Final = ("inside of", "inside", "into", "in")
_ON: Final = ("on top of", "onto", "upon", "on")
_CLAUSE: Final = re.compile(
    r"(?:(?:please )?(?:put|place|move|bring|take|carry|lay|set) )?(?P<thing>.+?)"
    rf"(?: (?P<prep>{'|'.join((*_INSIDE, *_ON))}|to) (?:the |a |an )?(?P<place>.+))?"
)
_PREDICATE: Final = re.compile(r"(inside|on)\(([^(),]+),([^(),]+)\)(?:\s*:\s*([0-9]{1,3}))?", re.I)


class GoalError(DomainError):
    """A goal cannot be read, or cannot be reached; the message says why."""


class Wanted(NamedTuple):
    """One predicate of a goal.

    Attributes:
        thing: name of what is wanted.
        place: name of the container or the surface.
        number: how many things of this name have to lie there, at least 1.
    """

    thing: str
    place: str
    number: int = 1


def read_goal(text: str, home: Home) -> tuple[Wanted, ...]:
    """Reads a goal.

    Args:
        text: predicates, or an English sentence.
        home: where it has to hold.

    Returns:
        Predicates of different things or places; equal ones in the text are added up.

    Raises:
        GoalError: it is not understood, names what the home does not have, or wants more things
            than there are.
    """
    if len(text) > LONGEST_GOAL:
        raise GoalError(f"goal={quote(text)} is longer than {LONGEST_GOAL} characters")
    parts = _predicates(text) if "(" in text else _clauses(text)
    counts: dict[tuple[str, str], int] = {}
    vocabulary = _Vocabulary(text, home)
    for count, thing, inside, place in parts:
        there = vocabulary.place(place, inside=inside)
        name = vocabulary.thing(thing)
        wanted = vocabulary.meant(thing, name) if count is None else count
        counts[name, there.name] = counts.get((name, there.name), 0) + wanted
    goal = tuple(Wanted(thing, place, count) for (thing, place), count in counts.items())
    check_goal(goal, home)
    return goal


def check_goal(goal: Sequence[Wanted], home: Home) -> None:
    """Makes sure that a home has what a goal wants, and that it can be elsewhere at the start.

    Raises:
        GoalError: it has too few things of a name, or all of them always lie where the goal wants
            some.
    """
    for name in dict.fromkeys(predicate.thing for predicate in goal):
        number = home.things.index(name)
        asked = sum(predicate.number for predicate in goal if predicate.thing == name)
        if asked > home.number[number]:
            raise GoalError(
                f"the goal wants {amount_text(asked, name)}, but the home has "
                f"{amount_text(home.number[number], name)} (`several` in its file)"
            )
        wanted = {predicate.place for predicate in goal if predicate.thing == name}
        for place in home.starts[number] if home.starts else ():
            if home.places[place].name in wanted:
                raise GoalError(
                    f"{name} lies at the {home.places[place].name} already, where the goal wants "
                    "it: want another place"
                )
        weights = zip(home.places, home.law[number], strict=True)
        if not any(weight for place, weight in weights if place.name not in wanted):
            raise GoalError(
                f"{name} always lies where the goal wants it, so there is nothing to do: want "
                "another place, or let `lie` of the home's file name one more"
            )


def goal_text(goal: Sequence[Wanted], home: Home) -> str:
    """A goal as a sentence, such as "Put two apples inside the fridge."."""
    parts = (
        f"{amount_text(number, thing)} {_there(place, home)} the {place}"
        for thing, place, number in goal
    )
    return f"Put {listed(parts)}."


def goal_predicates(goal: Sequence[Wanted], home: Home) -> str:
    """A goal as predicates, such as `Inside(apple, fridge):2`; `read_goal` reads them."""
    return "; ".join(
        f"{_there(place, home).capitalize()}({thing}, {place}):{number}"
        for thing, place, number in goal
    )


def amount_text(count: int, name: str) -> str:
    """A number of things in words: "one apple", "two apples"."""
    word = NUMBERS[count] if count < len(NUMBERS) else str(count)
    return f"{word} {name if count == 1 else plural(name)}"


def _there(place: str, home: Home) -> str:
    return next(known.relation for known in home.places if known.name == place)


_Part: TypeAlias = tuple[int | None, str, bool | None, str]
"""Count, thing, whether inside, place; None where that is not said."""


def _predicates(text: str) -> list[_Part]:
    """The parts of each predicate."""
    parts: list[_Part] = []
    for part in filter(None, (piece.strip() for piece in text.split(";"))):
        match = _PREDICATE.fullmatch(part)
        if match is None:
            _refuse(text, f"{quote(part)} is no predicate such as Inside(apple, fridge):2")
        relation, thing, place, count = match.groups()
        if count is not None and not int(count):
            _refuse(text, f"{quote(part)} counts nothing; count from 1")
        number = None if count is None else int(count)
        parts.append((number, thing, relation.lower() == "inside", place))
    return parts


def _clauses(text: str) -> list[_Part]:
    """The parts of each clause of a sentence."""
    clean = re.sub(r"\s+", " ", text.strip().rstrip(".!").lower())
    parts: list[_Part] = []
    waiting: list[tuple[int | None, str]] = []
    clauses = (clause.strip() for clause in re.split(r",|;|\band\b", clean))
    for match in (_CLAUSE.fullmatch(clause) for clause in clauses if clause):
        if match is None:
            break
        count, thing = _counted(match["thing"], text)
        waiting.append((count, thing))
        if match["place"]:
            inside = None if match["prep"] == "to" else match["prep"] in _INSIDE
            parts += [(*counted, inside, match["place"]) for counted in waiting]
            waiting = []
    if waiting or not parts:
        _refuse(text, _WAYS)
    return parts


def _counted(thing: str, text: str) -> tuple[int | None, str]:
    """The count before a thing, None if none is said, and the thing."""
    first, _, rest = thing.partition(" ")
    if rest and first.isdecimal() and first.isascii():
        if not 0 < int(first[:3]) == int(first):
            _refuse(text, f"{quote(first)} is no number of things; count from 1 to 999")
        return int(first), rest
    if rest and first in _COUNTS:
        second, _, more = rest.partition(" ")
        both = more and second in _COUNTS
        return (_COUNTS[second], more) if both else (_COUNTS[first], rest)
    return None, thing


class _Vocabulary:
    """Finds what a goal names in a home; errors quote the goal."""

    def __init__(self, text: str, home: Home) -> None:
        self._text = text
        self._home = home

    def thing(self, text: str) -> str:
        forms = _forms(self._home.things)
        if (name := forms.get(unique_name(text))) is None:
            words = text.split()
            for end in range(1, len(words)):
                before, known = " ".join(words[:end]), " ".join(words[end:])
                if unique_name(known) in forms:
                    _refuse(self._text, f"unknown word {before!r} before {known!r}; {_WAYS}")
            _refuse(
                self._text, f"unknown thing {text.strip()!r}; {remedy(text, self._home.things)}"
            )
        return name

    def meant(self, text: str, name: str) -> int:
        """How many things a form of a name means: in the plural, all that the home has."""
        if unique_name(text) == unique_name(name):
            return 1
        return self._home.number[self._home.things.index(name)]

    def place(self, text: str, *, inside: bool | None) -> Place:
        places = {unique_name(known.name): known for known in self._home.places}
        if (place := places.get(unique_name(text))) is None:
            names = [known.name for known in self._home.places]
            _refuse(self._text, f"unknown place {text.strip()!r}; {remedy(text, names)}")
        if inside is not None and place.container != inside:
            _refuse(
                self._text,
                f"the {place.name} is a {'container' if place.container else 'surface'}: write "
                f"{place.relation!r} before it",
            )
        return place


@cache
def _forms(things: tuple[str, ...]) -> Mapping[str, str]:
    """Singular and plural forms without blanks -> name; a singular form counts first."""
    plurals = {unique_name(plural(name)): name for name in things}
    return {**plurals, **{unique_name(name): name for name in things}}


def _refuse(text: str, why: str) -> NoReturn:
    quoted = quote(text) if len(text) < LONGEST_VALUE else quote(text[:LONGEST_VALUE])
    raise GoalError(f"goal={quoted} is not understood: {why}")
