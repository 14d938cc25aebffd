"""The values that ToO plans with: τ, questions about it, and their answers."""

from __future__ import annotations

from dataclasses import dataclass, field
from itertools import zip_longest
from typing import TYPE_CHECKING, Generic

from llm_planning.domain import A, S

if TYPE_CHECKING:
    from collections.abc import Mapping

    from llm_planning.domain import Domain, Grammar, StateModel
    from llm_planning.execution.episode import Move

    class OptionDomain(Domain[S, A]):
        """A domain with a grammar of its options and a model of its state."""

        grammar: Grammar[A]
        state_model: StateModel[S]


@dataclass(frozen=True, slots=True)
class OptionState(Generic[S, A]):
    """The option-level state τ_i = [ŝ_i, ω_1, ..., ω_i] (Section 3.1), on the way to a goal.

    Attributes:
        goal: in words.
        state: ŝ_i; without a world model always s_0.
        described: ŝ_i in words.
        options: ω_1 to ω_i.
        since: the options after `state`: all without a world model, none with one.
        feedback: what the world said of each of `options`; empty before they are executed.
    """

    goal: str
    state: S
    described: str = ""
    options: tuple[A, ...] = ()
    since: tuple[A, ...] = ()
    feedback: tuple[str, ...] = ()

    @property
    def history(self) -> str:
        """The options as numbered lines. Along a path, lines are only added."""
        said = zip_longest(self.options, self.feedback)
        lines = [
            f"{i}. {option}: {heard}" if heard else f"{i}. {option}"
            for i, (option, heard) in enumerate(said, start=1)
        ]
        return "\n".join(lines) or "none"


@dataclass(frozen=True, slots=True)
class OptionQuestion(Generic[S, A]):
    """A question about an option.

    Attributes:
        tau: τ before the option. A question for a reward has the predicted state in it.
        option: ω̃ or ω.
        obstacle: why the option is infeasible; empty if that is unknown.
        before: the unchanged τ before the option, if `tau` has the predicted state. Rules compare
            the two; only the prompt of a taught model shows it.
    """

    tau: OptionState[S, A]
    option: A
    obstacle: str = ""
    before: OptionState[S, A] | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class PolicyQuestion(Generic[S, A]):
    """A question about an option ω that is executed (Section 3.2): for π_ω, or for β_ω.

    Attributes:
        tau: the real s_{t_m}, with the options that were executed before ω.
        option: ω.
        before: τ with the state s_{t_1} in which ω was begun.
        m: the attempt at ω, from 1.
        program: of the last attempt; empty before the first, and where verbs are executed.
        feedback: of the last attempt, feedback^(m-1); empty before the first.
        critique: what LLM_β missed after the last attempt; empty before the first, and from rules.
        moves: of the last attempt, in order.
        skills: the retrieved skills, as a model reads them.
        explanation: how ω is done, in a model's words; empty if nobody was asked.
    """

    tau: OptionState[S, A]
    option: A
    before: OptionState[S, A]
    m: int = 1
    program: str = ""
    feedback: str = ""
    critique: str = ""
    moves: tuple[Move[S, A], ...] = ()
    skills: str = ""
    explanation: str = ""


@dataclass(frozen=True, slots=True)
class Candidate(Generic[A]):
    """A proposed option, and what the check made of it.

    Attributes:
        option: ω, which expands the node; None if ω̃ was dropped.
        proposed: ω̃; a repair makes ω differ from it.
        reasoning: why the model proposed ω̃.
        obstacle: why ω̃ is infeasible; None if it is feasible or was not checked.
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
class Completion:
    """Whether an option that was executed is done: β_ω.

    Attributes:
        done: whether it is.
        critique: what is missing, by who judges; empty if it is done, and from rules.
    """

    done: bool
    critique: str = ""


@dataclass(frozen=True, slots=True)
class PredictedState(Generic[S]):
    """The predicted state after an option.

    Attributes:
        state: ŝ_i.
        clipped: item -> count that the prediction takes away but the state does not have.
    """

    state: S
    clipped: Mapping[str, int] = field(default_factory=dict)
