"""Rows: lessons laid out so that equal beginnings are there once.

Sorted by their tokens, lessons that begin alike lie side by side, and the new tokens of each are
those after what it shares with the one before it. Written down in this order they are the nodes of
a forest in depth-first order: ancestors come before their descendants, and the descendants of a
node follow it without a gap.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from itertools import pairwise
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

    from llm_planning.distill.tokens import Lesson

LONGEST_ROW = 2048
"""Tokens of a row. Memory grows with it: about 0.7 MB a token for a model of 135M parameters."""

LONGEST_ROW_ON_GPU = 6144
"""The same on a GPU, where a longer row costs hardly more time."""


@dataclass(slots=True)
class Row:
    """Lessons whose equal beginnings are there once, as a forest in depth-first order.

    Attributes:
        tokens: token id of each node.
        depths: of each node, which is its position in every lesson that it is part of.
        ends: node -> the first node after its descendants; node i is an ancestor of node j, or j
            itself, if i <= j < ends[i].
        sources: node from which each target is predicted.
        targets: token ids to be predicted.
        weights: of each target in the loss.
        lessons: of each target, the number of its lesson among those that were packed.
        places: of each target, its place in the lesson's answer.
    """

    tokens: list[int] = field(default_factory=list)
    depths: list[int] = field(default_factory=list)
    ends: list[int] = field(default_factory=list)
    sources: list[int] = field(default_factory=list)
    targets: list[int] = field(default_factory=list)
    weights: list[float] = field(default_factory=list)
    lessons: list[int] = field(default_factory=list)
    places: list[int] = field(default_factory=list)


def pack(
    lessons: Sequence[Lesson], *, longest_row: int = LONGEST_ROW, multiple: int = 1
) -> list[Row]:
    """Lays lessons out in as few rows as their sizes ask for, all of about one size.

    Args:
        lessons: in any order.
        longest_row: tokens that a row has at most; each may have one lesson more.
        multiple: the number of rows is a multiple of it, if there are lessons enough.

    Returns:
        Rows in which every answer token of every lesson is a target once.

    Example:
        >>> from llm_planning.distill.tokens import Lesson
        >>> from llm_planning.distill.trie import pack
        >>> yes = Lesson(role="r", prompt=(1, 2, 3), answer=(4, 0), weights=(1.0, 1.0))
        >>> no = Lesson(role="r", prompt=(1, 2, 3), answer=(5, 0), weights=(1.0, 1.0))
        >>> [row.tokens for row in pack([no, yes])]
        [[1, 2, 3, 4, 5]]
    """
    read = [(*lesson.prompt, *lesson.answer[:-1]) for lesson in lessons]
    order = sorted(range(len(lessons)), key=read.__getitem__)
    shared = [_shared(read[before], read[after]) for before, after in pairwise(order)]
    fresh = [len(read[number]) - same for number, same in zip(order, (0, *shared), strict=True)]
    total = sum(fresh)
    count = multiple * max(math.ceil(total / (longest_row * multiple)), 1)
    rows: list[Row] = []
    path: list[int] = []  # the nodes of the lesson before, in the row that is being filled
    passed = 0
    for number, same, added in zip(order, (0, *shared), fresh, strict=True):
        # A row ends behind the lesson with which it reaches its part of all tokens.
        if not rows or passed * count >= total * len(rows):
            _close(rows, path, 0)
            rows.append(Row())
        passed += added
        row, common = rows[-1], min(same, len(path))
        _close(rows, path, common)
        first = len(row.tokens)
        path += range(first, first + len(read[number]) - common)
        row.tokens += read[number][common:]
        row.depths += range(common, len(read[number]))
        row.ends += [0] * (len(read[number]) - common)
        _add_targets(row, lessons[number], number, path)
    _close(rows, path, 0)
    return rows


def _shared(first: tuple[int, ...], second: tuple[int, ...]) -> int:
    """The number of tokens that two sequences have in common at their beginnings."""
    shortest = min(len(first), len(second))
    if first[:shortest] == second[:shortest]:
        return shortest
    return next(place for place in range(shortest) if first[place] != second[place])


def _close(rows: list[Row], path: list[int], common: int) -> None:
    """Ends the nodes of the path beyond its first ones: what follows descends from them no more."""
    for node in path[common:]:
        rows[-1].ends[node] = len(rows[-1].tokens)
    del path[common:]


def _add_targets(row: Row, lesson: Lesson, number: int, path: list[int]) -> None:
    row.sources += path[len(lesson.prompt) - 1 :]
    row.targets += lesson.answer
    row.weights += [weight * lesson.importance for weight in lesson.weights]
    row.lessons += [number] * len(lesson.answer)
    row.places += range(len(lesson.answer))
