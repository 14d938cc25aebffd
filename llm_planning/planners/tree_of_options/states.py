"""What ToO plans with: τ, what is asked about it, and what is answered."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Generic

from llm_planning.domain import A, S

if TYPE_CHECKING:
    from collections.abc import Mapping

    from llm_planning.domain import Domain, Grammar, StateModel

    class OptionDomain(Domain[S, A]):
        """A domain that names its options and has a model of its state."""

        grammar: Grammar[A]
        state_model: StateModel[S]


@dataclass(frozen=True, slots=True)
class OptionState(Generic[S, A]):
    """The option-level state τ_i = [ŝ_i, ω_1, ..., ω_i] (Section 3.1), on the way to a goal.

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
class OptionQuestion(Generic[S, A]):
    """A question about an option.

    Attributes:
        tau: τ, after which the option would come.
        option: ω̃ or ω.
        obstacle: why it is infeasible, where that is known.
        before: the τ before the option, where `tau` has the state that it leads to. Rules compare
            the two; no prompt shows it.
    """

    tau: OptionState[S, A]
    option: A
    obstacle: str = ""
    before: OptionState[S, A] | None = None


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
class Feasibility:
    """Whether an option can be carried out.

    Attributes:
        obstacle: why not; None if it can.
    """

    obstacle: str | None = None


@dataclass(frozen=True, slots=True)
class PredictedState(Generic[S]):
    """Where an option leads.

    Attributes:
        state: ŝ_i.
        clipped: item -> count that the prediction takes away although it is not there.
    """

    state: S
    clipped: Mapping[str, int] = field(default_factory=dict)
