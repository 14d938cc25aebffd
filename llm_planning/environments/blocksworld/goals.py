"""What goals ask for beyond the places of blocks: facts that exclude each other, and facts denied.

That a block is not clear says that some block stands on it, and that it is not on the table that it
stands on some block. Such a goal is reached by one of several: those that say which block.
"""

from __future__ import annotations

from itertools import product
from typing import TYPE_CHECKING

from llm_base.quoting import quote
from llm_planning.environments.blocksworld.blocks import Goal, fact_text, standing

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Sequence

    from llm_planning.environments.blocksworld.blocks import Fact


def contradiction(facts: Sequence[Fact], without: Collection[Fact] = ()) -> str:
    """Why no state has some facts with `on`, `ontable` and `clear`; empty if one has.

    Args:
        facts: that have to hold.
        without: facts that must not; each by itself is compared with the others.
    """
    stated: dict[str, Fact] = {}
    carried: dict[str, Fact] = {}
    clear = [fact for fact in facts if fact[0] == "clear"]
    for fact in facts:
        if fact in without:
            return f"{fact_text(fact)} contradicts (not {fact_text(fact)})"
        if fact[0] == "clear":
            continue
        # A block that stands on the table is stated, and no other carries it.
        for known, block in zip((stated, carried), fact[1:], strict=False):
            if block in known:
                return f"{fact_text(known[block])} contradicts {fact_text(fact)}"
            known[block] = fact
    for fact in clear:
        if fact[1] in carried:
            return f"{fact_text(carried[fact[1]])} contradicts {fact_text(fact)}"
    return _circle(stated)


def _circle(stated: dict[str, Fact]) -> str:
    """Which facts put a block above itself; empty if none do."""
    below = {block: fact[2] for block, fact in stated.items() if fact[0] == "on"}
    for block, first in below.items():
        # Each carries one block at most, so the way down ends, or comes back to where it began.
        under, circle = first, [block]
        while under in below and under != block:
            circle.append(under)
            under = below[under]
        if under == block:
            circle_text = " ".join(fact_text(stated[member]) for member in circle)
            return f"{quote(circle_text)[1:-1]} go in a circle"
    return ""


def vague(goal: Goal) -> list[Fact]:
    """The denied facts of a goal by which some block has to stand somewhere, whichever it is."""
    below = goal.below
    carrying = set(below.values())
    return [
        fact
        for fact in goal.without
        if (fact[0] == "clear" and fact[1] not in carrying)
        or (fact[0] == "ontable" and fact[1] not in below)
    ]


def definite(goal: Goal, blocks: Sequence[str]) -> Iterator[Goal]:
    """The goals by one of which a goal is reached; none of them has a vague fact.

    Args:
        blocks: all that there are.

    Yields:
        The goal itself if it is not vague. A contradictory goal has none.
    """
    choices = [
        [
            (block, fact[1]) if fact[0] == "clear" else (fact[1], block)
            for block in blocks
            if block != fact[1]
        ]
        for fact in vague(goal)
    ]
    denied = tuple(fact for fact in goal.without if fact[0] == "on")
    for chosen in product(*choices):
        pairs = sorted({*goal.on, *chosen})
        facts = [
            *(standing(block, under) for block, under in pairs),
            *(("clear", block) for block in goal.clear),
        ]
        if not contradiction(facts, goal.without):
            yield Goal(tuple(pairs), goal.clear, denied)
