"""The objects ToO plans with: options ω, trajectories τ and the candidates between them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from llm_planning.environments.minecraft.state import State


@dataclass(frozen=True, slots=True)
class Option:
    """One option ω = [verb] [quantity] [item] (Appendix A.2)."""

    verb: str
    quantity: int
    item: str

    def __str__(self) -> str:
        return f"{self.verb} {self.quantity} {self.item}"


@dataclass(frozen=True, slots=True)
class Trajectory:
    """τ_i = [ŝ_i, ω_1, ..., ω_i] on the way to a goal.

    Attributes:
        goal: what is asked for.
        state: ŝ_i; without a world model s_0 throughout.
        options: ω_1 to ω_i.
    """

    goal: str
    state: State
    options: tuple[Option, ...] = ()

    @property
    def history(self) -> str:
        """The options as numbered lines: it only grows along a path."""
        lines = [f"{i}. {option}" for i, option in enumerate(self.options, start=1)]
        return "\n".join(lines) or "none"

    def after(self, option: Option, state: State) -> Trajectory:
        """τ_{i+1}: the option done, its state reached."""
        return Trajectory(self.goal, state, (*self.options, option))
