"""Which items lessons leave out."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from llm_planning.environments import halves
from llm_planning.environments.minecraft.book.rulebook import game_rules

if TYPE_CHECKING:
    from collections.abc import Sequence

TOLD: Final = ("bread", "cake")
"""Items that no half holds: the examples in XENON's prompts, which every model reads."""


def left_out(names: Sequence[str]) -> frozenset[str]:
    """The items that are left out under these names: those of a half, and items.

    Raises:
        ValueError: a name is none of these.
    """
    items = game_rules().rules.keys()
    return halves.left_out(names, known=items, halved=items - set(TOLD))
