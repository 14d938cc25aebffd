"""Problems of Blocksworld as PDDL files, as PlanBench and the planning competitions write them.

A file says which blocks there are, how they stand at the start, and what has to hold at the end.
Names count without upper and lower case. What a file says must be complete and possible: the first
fact that is not is refused, with its file.
"""

from __future__ import annotations

import hashlib
import os
import re
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, Final, NoReturn, TypeAlias

from llm_kernels.files import at_home, read_regular
from llm_kernels.quoting import LONGEST_VALUE, printable, shown
from llm_planning.domain import DomainError
from llm_planning.environments.blocksworld.blocks import (
    TABLE,
    Blocks,
    Goal,
    Puzzle,
    goal_text,
    state_text,
)
from llm_planning.environments.blocksworld.language import HELD
from llm_planning.names import remedy

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

MOST_BYTES: Final = 1 << 20
"""The largest file that is read."""

MOST_BLOCKS: Final = 50
"""The most blocks of a problem: a model's answer is one of thousands of actions then."""

MOST_PROBLEMS: Final = 10_000
"""The most problems of a folder."""

Expression: TypeAlias = "str | list[Expression]"
"""A word, or what stands between two parentheses."""

Fact: TypeAlias = tuple[str, ...]
"""A predicate and its blocks."""

_PREDICATES: Final[Mapping[str, tuple[str, int]]] = {
    "on": ("on", 2),
    "ontable": ("ontable", 1),
    "on-table": ("ontable", 1),
    "clear": ("clear", 1),
    "handempty": ("handempty", 0),
    "arm-empty": ("handempty", 0),
    "holding": ("holding", 1),
}
"""Predicate as written -> as it is called here, and the number of its blocks."""

_SECTIONS: Final = (":domain", ":requirements", ":objects", ":init", ":goal")
_NAME: Final = re.compile(r"[a-z0-9][a-z0-9_-]{0,31}")
_TOKEN: Final = re.compile(r"[()]|[^\s()]+")


class PddlError(DomainError):
    """A file is no problem of Blocksworld; the message names the file and what is wrong in it."""


def read_problems(name: str, *, hand: bool) -> list[Puzzle]:
    """Reads the problems of a file or a folder.

    Args:
        name: a file, or a folder whose files `*.pddl` are read in the order of their numbers. Files
            of a folder that define a domain are passed over.
        hand: whether a block may be held at the start.

    Returns:
        At least one problem, named after its file.

    Raises:
        PddlError: there is none, or one is not a problem of Blocksworld.
    """
    files = _files(name)
    if not os.path.isdir(at_home(name)):
        return [_problem(*_read(files[0]), hand=hand)]
    found = [
        _problem(path, defined, hand=hand)
        for path, defined in map(_read, files)
        if _kind(defined) != "domain"
    ]
    if not found:
        raise PddlError(f"pddl={name} has no problem: name a folder with files *.pddl, or a file")
    return found


def hash_of(name: str) -> str:
    """SHA-256 of the files that `read_problems` reads, with their names; empty if it cannot."""
    hashed = hashlib.sha256()
    try:
        for path in _files(name):
            content = read_regular(path, most=MOST_BYTES)
            hashed.update(f"{path.name}\0{len(content)}\0".encode())
            hashed.update(content)
    except (OSError, ValueError, PddlError):
        return ""
    return hashed.hexdigest()


def _files(name: str) -> list[Path]:
    place = at_home(name)
    if not os.path.isdir(place):
        return [Path(place)]
    try:
        files = [one for one in os.listdir(place) if one.lower().endswith(".pddl")]
    except OSError as error:
        raise PddlError(f"pddl={name} cannot be read: {error.strerror}") from error
    if len(files) > MOST_PROBLEMS:
        raise PddlError(f"pddl={name} has {len(files)} files, more than {MOST_PROBLEMS}")
    return [Path(place, one) for one in sorted(files, key=_by_number)]


def write_problem(puzzle: Puzzle) -> str:
    """A problem as the text of a file, which `read_problems` reads.

    Example:
        >>> from llm_planning.environments.blocksworld.blocks import Blocks, Goal, Puzzle
        >>> start = Blocks.of({"a": "b", "b": "table"})
        >>> print(write_problem(Puzzle("little", start, Goal((("b", "a"),)))))
        (define (problem blocks-little)
          (:domain blocksworld-4ops)
          (:objects a b)
          (:init (clear a) (on a b) (ontable b) (handempty))
          (:goal (and (on b a))))
        <BLANKLINE>
    """
    return (
        f"(define (problem blocks-{re.sub('[^a-z0-9-]+', '-', puzzle.name.lower())})\n"
        "  (:domain blocksworld-4ops)\n"
        f"  (:objects {' '.join(puzzle.start.names)})\n"
        f"  (:init {state_text(puzzle.start, texts='predicates', hand=True)})\n"
        f"  (:goal (and {goal_text(puzzle.goal, texts='predicates')})))\n"
    )


def _text(fact: Sequence[str]) -> str:
    return f"({' '.join(fact)})"


def _by_number(name: str) -> list[tuple[int, str]]:
    """Sorts instance-2 before instance-10."""
    parts = re.split(r"([0-9]+)", name)
    return [(int(part), "") if place % 2 else (0, part) for place, part in enumerate(parts)]


def _refuse(path: Path, said: str) -> NoReturn:
    raise PddlError(f"{path}: {said}")


def _read(path: Path) -> tuple[Path, list[Expression]]:
    """A file and its parts: what stands in its outermost parentheses."""
    try:
        text = read_regular(path, most=MOST_BYTES).decode("utf-8-sig")
    except FileNotFoundError:
        _refuse(path, "there is no such file: set pddl to a file or a folder of problems")
    except OSError as error:
        raise PddlError(f"{path}: it cannot be read: {error.strerror}") from error
    except UnicodeDecodeError as error:
        raise PddlError(f"{path}: it is not UTF-8 text") from error
    except ValueError as error:
        raise PddlError(f"{path}: no file can have this name") from error
    parts = _parsed(path, text.lower())
    if parts[:1] != ["define"]:
        _refuse(path, "it does not begin with (define (problem ...")
    return path, parts


def _parsed(path: Path, text: str) -> list[Expression]:
    """What stands in the only outermost parentheses of a text."""
    whole: list[Expression] = []
    open_ = [whole]
    for number, line in enumerate(text.splitlines(), start=1):
        for token in _TOKEN.findall(line.partition(";")[0]):
            if len(open_) == 1 and (whole or token != "("):
                _refuse(path, f"line {number}: {shown(token)} stands outside of (define ...)")
            if token == "(":
                inner: list[Expression] = []
                open_[-1].append(inner)
                open_.append(inner)
            elif token == ")":
                open_.pop()
            else:
                open_[-1].append(token)
    if len(open_) > 1:
        _refuse(path, f"{len(open_) - 1} parentheses are not closed at its end")
    if not whole or isinstance(whole[0], str):
        _refuse(path, "it has nothing in it")
    return whole[0]


def _kind(defined: Sequence[Expression]) -> str:
    """What a file defines: `problem`, `domain` or something else."""
    head = defined[1] if len(defined) > 1 else ""
    return head[0] if isinstance(head, list) and head and isinstance(head[0], str) else ""


def _problem(path: Path, defined: list[Expression], *, hand: bool) -> Puzzle:
    """The problem that the parts of a file define."""
    if _kind(defined) != "problem":
        found = f"defines a {_kind(defined)}" if _kind(defined) == "domain" else "defines nothing"
        _refuse(path, f"it {found}, where (define (problem ...) ...) is expected")
    sections = _sections(path, defined[2:])
    blocks = _objects(path, sections[":objects"])
    reader = _Facts(path, blocks)
    goal = sections[":goal"]
    if len(goal) != 1:
        _refuse(path, f"(:goal ...) has {len(goal)} parts: write one fact or one (and ...)")
    joined = goal[0]
    wanted = joined[1:] if isinstance(joined, list) and joined[:1] == ["and"] else goal
    start = _start(path, blocks, reader.facts(sections[":init"], "start"))
    if start.held is not None and not hand:
        _refuse(
            path,
            f"the start has the fact (holding {start.held}), but by the variant no block is held: "
            "set rules=standard",
        )
    return Puzzle(path.name, start, _goal(path, reader.facts(wanted, "goal")))


def _sections(path: Path, parts: Iterable[Expression]) -> dict[str, list[Expression]]:
    sections: dict[str, list[Expression]] = {}
    for part in parts:
        key = part[0] if isinstance(part, list) and part else part
        if not isinstance(part, list) or not isinstance(key, str) or key not in _SECTIONS:
            known = remedy(key, _SECTIONS) if isinstance(key, str) else f"known: {_SECTIONS}"
            _refuse(path, f"the section {shown(key)} is not of Blocksworld; {known}")
        if key in sections:
            _refuse(path, f"it has two sections ({key} ...)")
        sections[key] = part[1:]
    for key in (":objects", ":init", ":goal"):
        if key not in sections:
            _refuse(path, f"it has no section ({key} ...)")
    return sections


def _objects(path: Path, said: Sequence[Expression]) -> tuple[str, ...]:
    """The names of the blocks, sorted."""
    names: list[str] = []
    words = iter(said)
    for word in words:
        if word == "-":
            kind = next(words, "nothing")
            if kind not in {"block", "object"}:
                _refuse(path, f"(:objects ...) has the type {shown(kind)}: all objects are blocks")
        elif not isinstance(word, str) or not _NAME.fullmatch(word) or word in {TABLE, HELD}:
            _refuse(
                path,
                f"(:objects ...) has {shown(word)}: the name of a block is up to 32 letters, "
                f"digits, - and _, and neither {TABLE} nor {HELD}",
            )
        else:
            names.append(word)
    for name, times in Counter(names).items():
        if times > 1:
            _refuse(path, f"(:objects ...) has {name} {times} times")
    if not 1 <= len(names) <= MOST_BLOCKS:
        _refuse(path, f"it has {len(names)} blocks: 1 to {MOST_BLOCKS} are possible")
    return tuple(sorted(names))


class _Facts:
    """Reads facts.

    Args:
        path: of the file.
        blocks: that there are.
    """

    def __init__(self, path: Path, blocks: Sequence[str]) -> None:
        self._path = path
        self._blocks = blocks

    def facts(self, said: Iterable[Expression], of: str) -> list[Fact]:
        """The different facts of the start or of the goal, each with the predicate's own name."""
        return list(dict.fromkeys(self._fact(one, of) for one in said))

    def _fact(self, said: Expression, of: str) -> Fact:
        words = [one for one in said if isinstance(one, str)] if isinstance(said, list) else []
        if not words or len(words) != len(said):
            _refuse(self._path, f"the {of} has {_quoted(said)}, which is no fact of Blocksworld")
        predicate, *blocks = words
        told = f"the {of} has the fact {_quoted(said)}"
        if predicate not in _PREDICATES:
            known = remedy(predicate, _PREDICATES)
            _refuse(self._path, f"{told}, which is not of Blocksworld; {known}")
        name, number = _PREDICATES[predicate]
        if len(blocks) != number:
            _refuse(self._path, f"{told}: ({predicate} ...) takes {number} blocks")
        for block in blocks:
            if block not in self._blocks:
                where = f"which is not in (:objects ...): {remedy(block, self._blocks)}"
                _refuse(self._path, f"{told} about {shown(block)}, {where}")
        return (name, *blocks)


def _quoted(said: Expression) -> str:
    """The beginning of an expression as it was written."""
    words: list[str] = []
    waiting = [said]
    while waiting and len(words) < LONGEST_VALUE:
        one = waiting.pop()
        if isinstance(one, str):
            words.append(one)
        else:
            waiting += [")", *reversed(one), "("]
    text = " ".join(words).replace("( ", "(").replace(" )", ")")
    return printable(text if len(text) <= LONGEST_VALUE else f"{text[:LONGEST_VALUE]}...")


def _start(path: Path, blocks: Sequence[str], facts: Sequence[Fact]) -> Blocks:
    """s_0 of its facts.

    Raises:
        PddlError: two facts contradict each other, or one is missing.
    """
    below = _below(path, facts, "start")
    held = [fact[1] for fact in facts if fact[0] == "holding"]
    hands = [fact for fact in facts if fact[0] in {"holding", "handempty"}]
    if len(hands) > 1:
        _contradict(path, "start", hands[0], hands[1])
    if not hands:
        _refuse(path, "the start lacks the fact (handempty)")
    clear = {fact[1] for fact in facts if fact[0] == "clear"}
    above = {under: block for block, under in below.items()}
    for block in blocks:
        if block in held:
            for fact in facts:
                if fact[0] != "holding" and block in fact:
                    _contradict(path, "start", ("holding", block), fact)
        elif block not in below:
            _refuse(path, f"the start lacks a fact that says what {block} stands on")
        elif block in clear and block in above:
            _contradict(path, "start", ("clear", block), ("on", above[block], block))
        elif block not in clear and block not in above:
            _refuse(path, f"the start lacks the fact (clear {block}): nothing stands on {block}")
    return Blocks.of(below, held=held[0] if held else None)


def _goal(path: Path, facts: Sequence[Fact]) -> Goal:
    """The goal of its facts.

    Raises:
        PddlError: it asks for nothing, for a held block, or for what no state has.
    """
    for fact in facts:
        if fact[0] == "holding":
            _refuse(path, f"the goal has the fact {_text(fact)}: no goal may ask for a held block")
    below = _below(path, facts, "goal")
    clear = tuple(sorted(fact[1] for fact in facts if fact[0] == "clear"))
    for block, under in below.items():
        if under in clear:
            _contradict(path, "goal", ("on", block, under), ("clear", under))
    if not below and not clear:
        _refuse(path, "the goal asks for nothing: write facts with on, ontable or clear")
    return Goal(tuple(sorted(below.items())), clear)


def _below(path: Path, facts: Iterable[Fact], of: str) -> dict[str, str]:
    """Block -> what it stands on.

    Raises:
        PddlError: no state is like that.
    """
    stated: dict[str, Fact] = {}
    carried: dict[str, Fact] = {}
    for fact in facts:
        if fact[0] not in {"on", "ontable"}:
            continue
        if fact[1] in stated:
            _contradict(path, of, stated[fact[1]], fact)
        stated[fact[1]] = fact
        if fact[0] == "on":
            if fact[2] in carried:
                _contradict(path, of, carried[fact[2]], fact)
            carried[fact[2]] = fact
    below = {block: fact[2] if fact[0] == "on" else TABLE for block, fact in stated.items()}
    for block, fact in stated.items():
        # Each carries one block at most, so the way down ends, or comes back to where it began.
        under, circle = below[block], [fact]
        while under in below and under != block:
            circle.append(stated[under])
            under = below[under]
        if under == block:
            told = shown(" ".join(map(_text, circle)))[1:-1]
            _refuse(path, f"the {of} is not possible: {told} go in a circle")
    return below


def _contradict(path: Path, of: str, one: Fact, other: Fact) -> NoReturn:
    _refuse(path, f"the {of} is not possible: {_text(one)} contradicts {_text(other)}")
