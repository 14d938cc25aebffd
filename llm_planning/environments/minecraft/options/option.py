"""An option, and the largest quantity of one."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

MOST: Final = 64
"""The largest quantity of an option: a stack."""


@dataclass(frozen=True, slots=True)
class Option:
    """One option ω = [verb] [quantity] [item] (Tree of Options, Appendix A.2)."""

    verb: str
    quantity: int
    item: str

    def __str__(self) -> str:
        return f"{self.verb} {self.quantity} {self.item}"
