"""The objects ToO plans with: trajectories τ, what is asked about them, and what is answered."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Generic

from llm_planning.search.tree import A, S

if TYPE_CHECKING:
    from collections.abc import Mapping


@dataclass(frozen=True, slots=True)
class Trajectory(Generic[S, A]):
    """τ_i = [ŝ_i, ω_1, ..., ω_i] on the way to a goal.

    Attributes:
        goal: what is asked for.
        state: ŝ_i; without a world model s_0 throughout.
        described: ŝ_i in words.
        options: ω_1 to ω_i.
        since: those of them that came after `state`; none with a world model.
    """

    goal: str
    state: S
    described: str = ""
    options: tuple[A, ...] = ()
    since: tuple[A, ...] = ()

    @property
    def history(self) -> str:
        """The options as numbered lines: it only grows along a path."""
        lines = [f"{i}. {option}" for i, option in enumerate(self.options, start=1)]
        return "\n".join(lines) or "none"


@dataclass(frozen=True, slots=True)
class Considered(Generic[S, A]):
    """A question about an option.

    Attributes:
        trajectory: τ, after which it would come.
        option: ω̃ or ω.
        obstacle: why it is infeasible, where that is known.
        before: where the trajectory's state is the one that the option leads to, the τ before it.
            Rules compare the two; no prompt shows it.
    """

    trajectory: Trajectory[S, A]
    option: A
    obstacle: str = ""
    before: Trajectory[S, A] | None = None


@dataclass(frozen=True, slots=True)
class Candidate(Generic[A]):
    """An option that expands a node, and how it came about.

    Attributes:
        option: ω; None where ω̃ was dropped.
        proposed: ω̃; differs from ω where it was repaired.
        reasoning: why it was proposed.
        obstacle: why ω̃ is infeasible; None where it is feasible or was not checked.
    """

    option: A | None
    proposed: A
    reasoning: str = ""
    obstacle: str | None = None


@dataclass(frozen=True, slots=True)
class Verdict:
    """Whether an option can be carried out.

    Attributes:
        obstacle: why not; None if it can.
    """

    obstacle: str | None = None


@dataclass(frozen=True, slots=True)
class Transition(Generic[S]):
    """Where an option leads.

    Attributes:
        state: ŝ_i.
        clipped: item -> count that the prediction takes away although it is not there.
    """

    state: S
    clipped: Mapping[str, int] = field(default_factory=dict)
