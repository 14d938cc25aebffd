"""What verbs hand to the world: an attempt, and what comes of it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from random import Random
from typing import TYPE_CHECKING, TypeAlias

from llm_planning.environments.minecraft.state import Change

if TYPE_CHECKING:
    from llm_planning.environments.minecraft.surroundings import Position


@dataclass(frozen=True, slots=True, kw_only=True)
class Effect:
    """What an attempt does, time, hunger and monsters left aside.

    Attributes:
        change: to the state, x and z left aside.
        ticks: time it takes; a second has 20.
        exhaustion: as the game counts it; 4 take half a drumstick.
        position: where the player got; None where they stayed.
        shortfall: why less was reached than the option says; None if all of it was.
    """

    change: Change = field(default_factory=Change)
    ticks: float
    exhaustion: float = 0.0
    position: Position | None = None
    shortfall: str | None = None


Attempt: TypeAlias = Callable[[Random], Effect]
"""A feasible option, ready to be carried out with its draws."""
