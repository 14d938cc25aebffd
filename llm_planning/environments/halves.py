"""Halves of what there is to know in a world, which lessons may leave out."""

from __future__ import annotations

from random import Random
from types import MappingProxyType
from typing import TYPE_CHECKING, Final

from llm_planning.names import remedy

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping, Sequence

HALVES: Final[Mapping[str, int]] = MappingProxyType({f"half-{seed}": seed for seed in range(3)})
"""Name of a half -> the seed that draws it."""


def half(seed: int, known: Collection[str]) -> frozenset[str]:
    """Half of what is known; it depends on the seed alone."""
    return frozenset(Random(f"half {seed}").sample(sorted(known), len(known) // 2))


def left_out(
    names: Sequence[str], *, known: Collection[str], halved: Collection[str]
) -> frozenset[str]:
    """What is left out under these names: halves, and what is known.

    Args:
        names: of `HALVES`, or of `known`.
        known: all that can be left out.
        halved: of which halves are drawn.

    Raises:
        ValueError: a name is none of these.
    """
    out: set[str] = set()
    for name in names:
        if name in HALVES:
            out |= half(HALVES[name], halved)
        elif name in known:
            out.add(name)
        else:
            raise ValueError(f"cannot hold out {name!r}: {remedy(name, (*HALVES, *known))}")
    return frozenset(out)
