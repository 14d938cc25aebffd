"""Which half of the recipe book lessons leave out."""

from __future__ import annotations

from functools import cache
from random import Random
from types import MappingProxyType
from typing import TYPE_CHECKING, Final

from llm_planning.environments.minecraft.book.rulebook import game_rules
from llm_planning.names import remedy

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

HALVES: Final[Mapping[str, int]] = MappingProxyType({f"half-{seed}": seed for seed in range(3)})
"""Name of a half -> the seed that draws it."""


TOLD: Final = ("bread", "cake")
"""Items that no half holds: the examples in XENON's prompts, which every model reads."""


@cache
def half(seed: int) -> frozenset[str]:
    """Half of the items of the book; they depend on the seed alone."""
    items = sorted(game_rules().rules.keys() - set(TOLD))
    return frozenset(Random(f"half {seed}").sample(items, len(items) // 2))


def left_out(names: Sequence[str]) -> frozenset[str]:
    """The items that are left out under these names: those of `HALVES`, and items.

    Raises:
        ValueError: a name is none of these.
    """
    items: set[str] = set()
    for name in names:
        if name in HALVES:
            items |= half(HALVES[name])
        elif name in game_rules():
            items.add(name)
        else:
            known = (*HALVES, *game_rules().rules)
            raise ValueError(f"cannot hold out {name!r}: {remedy(name, known)}")
    return frozenset(items)
