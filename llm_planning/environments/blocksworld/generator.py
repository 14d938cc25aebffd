"""Random problems: start and goal are drawn evenly from all states of so many blocks.

PlanBench's problems are drawn in this way; their goals name only what stands on a block. The names
of blocks are letters.
"""

from __future__ import annotations

from math import comb, factorial
from random import Random
from string import ascii_lowercase
from typing import TYPE_CHECKING, Final

from llm_planning.environments.blocksworld.blocks import TABLE, Blocks, Goal, Puzzle

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

TABLE_6: Final[Mapping[int, int]] = dict(
    zip(range(6, 16), (1, 1, 7, 14, 13, 13, 12, 18, 21, 10), strict=True)
)
"""Number of blocks -> how many problems of that size the paper has (DRIP, Table 6): 110."""

FOUR_BLOCKS: Final[Mapping[int, int]] = {4: 20}
"""Twenty small problems."""


def problems(counts: Mapping[int, int], *, seed: int) -> list[Puzzle]:
    """Draws problems, smaller ones first.

    Each is drawn by itself, so the problems of one size are the same whatever else is asked.

    Args:
        counts: number of blocks -> number of problems.

    Returns:
        Problems whose goals ask for something that does not hold at the start. They are named after
        their size and their number among those of that size, such as 6-1.
    """
    return [
        draw_problem(size, f"{size}-{number}", Random(f"blocksworld {seed} {size} {number}"))
        for size, several in sorted(counts.items())
        for number in range(1, several + 1)
    ]


def draw_problem(size: int, name: str, rng: Random) -> Puzzle:
    """Draws a problem of so many blocks whose goal does not hold at the start."""
    blocks = ascii_lowercase[:size]
    while True:
        start, end = random_state(blocks, rng), random_state(blocks, rng)
        goal = Goal(tuple((block, under) for block, under in end.on if under != TABLE))
        if goal.missing(start):
            return Puzzle(name, start, goal)


def random_state(blocks: Sequence[str], rng: Random) -> Blocks:
    """Draws one of all states with an empty hand; each is equally likely.

    n blocks have n! / k! · C(n - 1, k - 1) states with k towers.
    """
    size = len(blocks)
    towers = range(1, size + 1)
    weights = [factorial(size) // factorial(k) * comb(size - 1, k - 1) for k in towers]
    (number,) = rng.choices(towers, weights)
    order = rng.sample(list(blocks), size)
    bases = {0, *rng.sample(range(1, size), number - 1)}
    return Blocks.of(
        {block: TABLE if place in bases else order[place - 1] for place, block in enumerate(order)}
    )
