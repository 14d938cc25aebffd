"""States, goals and actions of Blocksworld, and how they read as English and as predicates."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, Literal, TypeAlias

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

TABLE: Final = "table"
"""What a block stands on that stands on no block."""

Pairs: TypeAlias = tuple[tuple[str, str], ...]
"""(Block, what it stands on), sorted by block."""

Fact: TypeAlias = tuple[str, ...]
"""A predicate and its blocks."""

Texts: TypeAlias = Literal["english", "predicates"]
"""How states and goals are written."""

Dialect: TypeAlias = Literal["four operators", "three operators", "mystery"]
"""The actions that a file's problem is made for: with a hand, without one, or PlanBench's Mystery,
which says the first in other words."""


@dataclass(frozen=True, slots=True)
class Blocks:
    """A state: what each block stands on.

    Attributes:
        on: every block that is not held, with the block below it or `TABLE`.
        held: the block in the hand, which only the standard rules know; None if it is empty.

    Example:
        >>> from llm_planning.environments.blocksworld.blocks import Blocks
        >>> state = Blocks.of({"a": "b", "b": "table", "c": "a"})
        >>> state.pile("a"), state.clear
        (('a', 'c'), ('c',))
    """

    on: Pairs
    held: str | None = None

    @classmethod
    def of(cls, below: Mapping[str, str], *, held: str | None = None) -> Blocks:
        """The state in which each block stands on what it is mapped to."""
        return cls(tuple(sorted(below.items())), held)

    @property
    def below(self) -> dict[str, str]:
        """Block -> the block that it stands on, or `TABLE`; without the held block."""
        return dict(self.on)

    @property
    def above(self) -> dict[str, str]:
        """Block -> the block that stands on it, if one does."""
        return {below: block for block, below in self.on if below != TABLE}

    @property
    def names(self) -> tuple[str, ...]:
        """All blocks, sorted."""
        names = (block for block, _ in self.on)
        return tuple(names) if self.held is None else tuple(sorted((*names, self.held)))

    @property
    def clear(self) -> tuple[str, ...]:
        """The blocks on which nothing stands, sorted; without the held block."""
        covered = self.above
        return tuple(block for block, _ in self.on if block not in covered)

    def pile(self, block: str) -> tuple[str, ...]:
        """A block and all that stands on it, bottom first."""
        above, pile = self.above, [block]
        while pile[-1] in above:
            pile.append(above[pile[-1]])
        return tuple(pile)

    def base(self, block: str) -> str:
        """The lowest block of the tower that a block is in."""
        below = self.below
        while below[block] != TABLE:
            block = below[block]
        return block

    def moved(self, block: str, to: str) -> Blocks:
        """The state after a block, with all that stands on it, was put on a block or the table."""
        return Blocks(tuple((other, to if other == block else under) for other, under in self.on))


@dataclass(frozen=True, slots=True)
class Goal:
    """What has to hold at the end; of other blocks nothing is asked.

    Attributes:
        on: blocks with the block that each has to stand on, or `TABLE`.
        clear: blocks on which nothing may stand, sorted.
        without: facts with `on`, `ontable` and `clear` that must not hold, sorted.
    """

    on: Pairs
    clear: tuple[str, ...] = ()
    without: tuple[Fact, ...] = ()

    @property
    def below(self) -> dict[str, str]:
        """Block -> what it has to stand on."""
        return dict(self.on)

    def missing(self, state: Blocks) -> int:
        """How many of the goal's facts do not hold in a state."""
        left = self.open(state)
        return len(left.on) + len(left.clear) + len(left.without)

    def open(self, state: Blocks) -> Goal:
        """The goal's facts that do not hold in a state."""
        below, above = state.below, state.above
        return Goal(
            tuple((block, under) for block, under in self.on if below.get(block) != under),
            tuple(block for block in self.clear if block in above or block == state.held),
            tuple(fact for fact in self.without if _holds(state, fact)),
        )


@dataclass(frozen=True, slots=True)
class BlockAction:
    """An action.

    Attributes:
        block: what it is done to.
        onto: the second block of `stack`, and of the standard `unstack`.

    Example:
        >>> from llm_planning.environments.blocksworld.blocks import BlockAction
        >>> str(BlockAction("stack", "a", "b")), str(BlockAction("unstack blocks", "b"))
        ('stack a b', 'unstack blocks b')
    """

    verb: str
    block: str
    onto: str = ""

    def __str__(self) -> str:
        return f"{self.verb} {self.block} {self.onto}".rstrip()


@dataclass(frozen=True, slots=True)
class Puzzle:
    """A problem of Blocksworld.

    Attributes:
        name: of its file, or its number among generated ones.
        start: s_0.
        goal: what has to hold at the end.
        dialect: of its file; None for a problem without a file.
        no_plan: why no plan reaches the goal; empty if one does.
    """

    name: str
    start: Blocks
    goal: Goal
    dialect: Dialect | None = None
    no_plan: str = ""


def state_text(state: Blocks, *, texts: Texts, hand: bool) -> str:
    """A state in words: clear blocks first, then what each block stands on.

    Args:
        hand: whether the hand is told of, as in the standard rules.
    """
    facts = [
        *(("clear", block) for block in state.clear),
        *(standing(block, under) for block, under in state.on),
    ]
    if hand:
        facts.append(("handempty",) if state.held is None else ("holding", state.held))
    return _written(facts, texts)


def towers(state: Blocks) -> list[str]:
    """Each tower from its top to the table, those with the first blocks by name first.

    Example:
        >>> from llm_planning.environments.blocksworld.blocks import Blocks, towers
        >>> towers(Blocks.of({"a": "b", "b": "table", "c": "a", "d": "table"}))
        ['c on a on b on table', 'd on table']
    """
    above = state.above
    lines = []
    for base, under in state.on:
        if under == TABLE:
            pile = [base]
            while pile[-1] in above:
                pile.append(above[pile[-1]])
            lines.append(" on ".join((*reversed(pile), TABLE)))
    return lines


def goal_text(goal: Goal, *, texts: Texts) -> str:
    """A goal in words: what blocks have to stand on, which have to be clear, what must not hold."""
    facts = [
        *(standing(block, under) for block, under in goal.on),
        *(("clear", block) for block in goal.clear),
    ]
    return _written(facts, texts, goal.without)


def standing(block: str, under: str) -> Fact:
    """The fact that a block stands on another, or on `TABLE`."""
    return ("ontable", block) if under == TABLE else ("on", block, under)


def fact_text(fact: Iterable[str]) -> str:
    """A fact as PDDL writes it."""
    return f"({' '.join(fact)})"


def _holds(state: Blocks, fact: Fact) -> bool:
    predicate, block, *others = fact
    if predicate == "clear":
        return block in state.clear
    return state.below.get(block) == (others[0] if others else TABLE)


_ENGLISH: Final = {
    "clear": "Block {} is clear.",
    "on": "Block {} is on block {}.",
    "ontable": "Block {} is on the table.",
    "holding": "You hold block {}.",
    "handempty": "Your hand is empty.",
}
"""Predicate -> the sentence that says the same of its blocks."""

_DENIED: Final = {
    "clear": "Block {} is not clear.",
    "on": "Block {} is not on block {}.",
    "ontable": "Block {} is not on the table.",
}
"""Predicate -> the sentence that says the contrary."""


def _written(facts: Iterable[Fact], texts: Texts, without: Iterable[Fact] = ()) -> str:
    if texts == "predicates":
        denied = (f"(not {fact_text(fact)})" for fact in without)
        return " ".join((*map(fact_text, facts), *denied))
    affirmed = (_ENGLISH[predicate].format(*blocks) for predicate, *blocks in facts)
    denied = (_DENIED[predicate].format(*blocks) for predicate, *blocks in without)
    return " ".join((*affirmed, *denied))
