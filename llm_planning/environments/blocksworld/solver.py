"""Shortest plans by A*.

There is a shortest plan that moves blocks only to their places in the goal or to the table, and
never takes a block from its place. Every other block has to be moved itself, at least once: their
number h is a lower bound of the moves that are left. A move to the right place lowers it by one.

A move is forced if a shortest plan can begin with it whatever follows: then it is the only one that
is tried. By the variant, a block must not be hurried onto a tower that has to be taken apart
itself: the blocks that are then in one tower could no longer be stacked on each other.
"""

from __future__ import annotations

from heapq import heappop, heappush
from itertools import count
from typing import TYPE_CHECKING, Final, Protocol, TypeAlias

from llm_planning.domain import DomainError
from llm_planning.environments.blocksworld.blocks import TABLE, BlockAction, Blocks
from llm_planning.environments.blocksworld.goals import definite
from llm_planning.environments.blocksworld.rules import PICK_UP, PUT_DOWN, STACK, UNSTACK

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Mapping

    from llm_planning.environments.blocksworld.blocks import Goal
    from llm_planning.environments.blocksworld.rules import RuleName

MOST_EXPANDED: Final = 100_000
"""Positions after which a search gives up: some 10 seconds."""

_TABLE, _HAND = -1, -2
"""What stands in the place of a block's number."""

_ANYWHERE = -3
"""The place of a block of which the goal asks nothing."""

_CLEAR = -4
"""In the place of a block that has to stand on another: nothing may."""

Position: TypeAlias = tuple[int, ...]
"""What each block stands on, by number: a block's number, the table or the hand."""

Move: TypeAlias = tuple[int, int]
"""A block's number, and what it is put on."""


class UnsolvedError(DomainError):
    """The search for a shortest plan takes too long."""


def shortest_plan(start: Blocks, goal: Goal, rules: RuleName) -> list[BlockAction]:
    """A shortest plan.

    By the standard rules, the hand is empty at its end.

    Raises:
        UnsolvedError: the search takes too long, or the goal contradicts itself.

    Example:
        >>> from llm_planning.environments.blocksworld.blocks import Blocks, Goal
        >>> from llm_planning.environments.blocksworld.solver import shortest_plan
        >>> start = Blocks.of({"a": "b", "b": "table", "c": "a"})
        >>> plan = shortest_plan(start, Goal((("b", "c"),)), "variant")
        >>> [str(action) for action in plan]
        ['put-down c', 'stack b c']
    """
    budget = iter(range(MOST_EXPANDED))
    best: list[Move] | None = None
    for definite_goal in definite(goal, start.names):
        moves = _moves(
            start, definite_goal, rules, budget, fewer_than=None if best is None else len(best)
        )
        best = best if moves is None else moves
    if best is None:
        raise UnsolvedError("no state reaches the goal: its facts contradict each other")
    names = start.names
    if rules != "standard":
        return [_without_hand(names, move) for move in best]
    first = _position(start)
    return [action for move in _from_where(first, best) for action in _of_standard(names, *move)]


def _position(state: Blocks) -> Position:
    numbers = {name: number for number, name in enumerate(state.names)} | {TABLE: _TABLE}
    below = state.below
    return tuple(numbers[below[name]] if name in below else _HAND for name in state.names)


def _moves(
    start: Blocks, goal: Goal, rules: RuleName, budget: Iterator[int], *, fewer_than: int | None
) -> list[Move] | None:
    """The moves of a shortest plan; None if it has not `fewer_than` so many."""
    names = start.names
    numbers = {name: number for number, name in enumerate(names)} | {TABLE: _TABLE}
    places = [_ANYWHERE] * len(names)
    wanted: list[int | None] = [None] * len(names)
    for block, under in goal.on:
        places[numbers[block]] = numbers[under]
        if under != TABLE:
            wanted[numbers[under]] = numbers[block]
    for block in goal.clear:
        wanted[numbers[block]] = _CLEAR
    apart = {(numbers[block], numbers[under]) for _, block, under in goal.without}
    board = _BOARDS[rules](places, wanted, apart)
    return _search(_position(start), board, budget, fewer_than=fewer_than)


class _Board(Protocol):
    """The rules as a search needs them."""

    def misplaced(self, position: Position) -> list[int]:
        """The blocks that have to be moved themselves."""
        ...

    def moves(self, position: Position, misplaced: list[int]) -> list[Move]:
        """The moves to be tried: a forced one alone, or all."""
        ...


class _Places:
    """What the goal asks.

    Args:
        places: of each block, what it has to stand on, or `_ANYWHERE`.
        wanted: of each block, the block that has to stand on it, `_CLEAR`, or None.
        apart: (block, another) that it must not stand on.
    """

    def __init__(
        self, places: list[int], wanted: list[int | None], apart: Collection[Move]
    ) -> None:
        self._places = places
        self._wanted = wanted
        self._apart = apart

    def _fits(self, block: int, under: int) -> bool:
        """Whether a block may stand where it stands, as far as these two are concerned."""
        place = self._places[block]
        if place != _ANYWHERE:
            return place == under
        if under < 0:
            return under == _TABLE
        return self._wanted[under] is None and (block, under) not in self._apart


class _VariantBoard(_Places):
    """A block is moved with all that stands on it."""

    def misplaced(self, position: Position) -> list[int]:
        """The blocks that stand where they must not stay."""
        return [block for block, under in enumerate(position) if not self._fits(block, under)]

    def moves(self, position: Position, misplaced: list[int]) -> list[Move]:
        """The forced move; without one, all stacks on right places, and cuts of other relations."""
        places, covered = self._places, set(position)
        stacks: list[Move] = []
        for block in misplaced:
            onto = places[block]
            if onto in {_TABLE, _ANYWHERE}:
                return [(block, _TABLE)]
            if onto not in covered and not _stands_on(position, onto, block):
                if not _has_any(position, onto, misplaced):
                    return [(block, onto)]
                stacks.append((block, onto))
        cuts = [
            (block, _TABLE)
            for block, under in enumerate(position)
            if under >= 0 and places[block] != under
        ]
        return stacks + cuts


def _stands_on(position: Position, block: int, under: int) -> bool:
    """Whether a block is in the pile that begins with another."""
    while block >= 0 and block != under:
        block = position[block]
    return block == under


def _has_any(position: Position, block: int, sought: list[int]) -> bool:
    """Whether a block or one below it is among others."""
    while block >= 0:
        if block in sought:
            return True
        block = position[block]
    return False


class _StandardBoard(_Places):
    """A clear block is moved alone, so a block is in its place if those below it are."""

    def misplaced(self, position: Position) -> list[int]:
        """The blocks that have to be moved: those out of place, and all above one of these."""
        known: dict[int, bool] = {_TABLE: True, _HAND: False}

        def settled(block: int) -> bool:
            if block not in known:
                under = position[block]
                known[block] = self._fits(block, under) and settled(under)
            return known[block]

        return [block for block in range(len(position)) if not settled(block)]

    def moves(self, position: Position, misplaced: list[int]) -> list[Move]:
        """The forced move; without one, every clear and misplaced block to the table."""
        places, covered = self._places, set(position)
        held = [block for block, under in enumerate(position) if under == _HAND]
        waiting: list[Move] = []
        for block in held or [block for block in misplaced if block not in covered]:
            onto = places[block]
            if onto in {_TABLE, _ANYWHERE}:
                return [(block, _TABLE)]
            if onto not in covered and onto not in misplaced:
                return [(block, onto)]
            if position[block] != _TABLE:
                waiting.append((block, _TABLE))
        return waiting


_BOARDS: Final[Mapping[RuleName, type[_VariantBoard] | type[_StandardBoard]]] = {
    "variant": _VariantBoard,
    "standard": _StandardBoard,
    "handless": _StandardBoard,
}


def _search(
    first: Position, board: _Board, budget: Iterator[int], *, fewer_than: int | None
) -> list[Move] | None:
    """The moves of a shortest way to a position in which no block is misplaced: A*.

    Args:
        budget: an item for each position that may be looked at.
        fewer_than: moves that the way must not have; None for any number.

    Returns:
        The moves; None if every way is too long.
    """
    order = count()
    misplaced = board.misplaced(first)
    # f = g + h; of equal f the least h, and of these the last one that was found.
    waiting = [(len(misplaced), len(misplaced), 0, first, misplaced)]
    best: dict[Position, int] = {first: 0}
    came: dict[Position, tuple[Position, Move]] = {}
    for _ in budget:
        f, h, _, position, misplaced = heappop(waiting)
        if fewer_than is not None and f >= fewer_than:
            return None
        if not misplaced:
            return _way(position, came)
        g = f - h
        if g > best[position]:
            continue
        for move in board.moves(position, misplaced):
            block, onto = move
            after = (*position[:block], onto, *position[block + 1 :])
            if after not in best or g + 1 < best[after]:
                best[after] = g + 1
                came[after] = (position, move)
                left = board.misplaced(after)
                heappush(waiting, (g + 1 + len(left), len(left), -next(order), after, left))
    raise UnsolvedError(
        f"no shortest plan for {len(first)} blocks was found among {MOST_EXPANDED} positions: take "
        "a smaller problem"
    )


def _way(position: Position, came: Mapping[Position, tuple[Position, Move]]) -> list[Move]:
    """The moves that led to a position."""
    moves: list[Move] = []
    while position in came:
        position, move = came[position]
        moves.append(move)
    return moves[::-1]


def _without_hand(names: tuple[str, ...], move: Move) -> BlockAction:
    block, onto = move
    if onto == _TABLE:
        return BlockAction(PUT_DOWN, names[block])
    return BlockAction(STACK, names[block], names[onto])


def _from_where(first: Position, moves: list[Move]) -> Iterator[tuple[int, int, int]]:
    """Each move as (block, what it stood on, what it is put on)."""
    position = list(first)
    for block, onto in moves:
        yield block, position[block], onto
        position[block] = onto


def _of_standard(
    names: tuple[str, ...], block: int, under: int, onto: int
) -> Iterator[BlockAction]:
    if under == _TABLE:
        yield BlockAction(PICK_UP, names[block])
    elif under >= 0:
        yield BlockAction(UNSTACK, names[block], names[under])
    if onto == _TABLE:
        yield BlockAction(PUT_DOWN, names[block])
    else:
        yield BlockAction(STACK, names[block], names[onto])
