"""The questions of the roles, and the answer of the actuator."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Generic

from llm_planning.domain import A, S

if TYPE_CHECKING:
    from collections.abc import Sequence

    from llm_planning.domain import Domain, Grammar, Judged, StateModel

    class DripDomain(Domain[S, A]):
        """A domain that decomposes and judges."""

        grammar: Grammar[A]
        state_model: StateModel[S]

        def decompose(self, state: S, subtask: A | None) -> Sequence[A]:
            """The subtasks right before a subtask; None is the goal."""
            ...

        def judge(self, state: S, subtask: A, parent: A | None) -> Judged:
            """Whether a subtask is done or executable."""
            ...


@dataclass(frozen=True, slots=True)
class Decomposition(Generic[S, A]):
    """decompose(n): which subtasks come right before this one?

    Attributes:
        subtask: g; None for the goal.
        goal: what is to be reached, in words: the whole goal, or what is open of it.
        state: S_t. The prompt shows it only if `described` does.
        described: S_t in words; empty for DRIP, which decomposes without looking at the state.
        asking: how often this was asked about before in this state.
    """

    subtask: A | None
    goal: str
    state: S = field(repr=False)
    described: str = ""
    asking: int = field(default=0, repr=False)

    @property
    def subject(self) -> str:
        """What is decomposed, in words."""
        return self.goal if self.subtask is None else str(self.subtask)


@dataclass(frozen=True, slots=True)
class Judgement(Generic[S, A]):
    """executability(g, S_t): is the subtask done, executable or neither?

    Attributes:
        subtask: g.
        parent: the subtask that g was decomposed from; None if that is the goal.
        state: S_t.
        described: S_t in words.
        vote: the number of the vote, from 0.
    """

    subtask: A
    parent: A | None
    state: S = field(repr=False)
    described: str
    vote: int = field(default=0, repr=False)


@dataclass(frozen=True, slots=True)
class Application(Generic[S, A]):
    """apply(g, S_t): what is the state after the subtask?

    Attributes:
        subtask: g.
        state: S_t.
        described: S_t in words.
        vote: the number of the vote, from 0.
    """

    subtask: A
    state: S = field(repr=False)
    described: str
    vote: int = field(default=0, repr=False)


@dataclass(frozen=True, slots=True)
class NextAction(Generic[S, A]):
    """ReAct: which action comes next, or is the goal reached?

    Attributes:
        goal: in words.
        state: S_t.
        described: S_t in words.
        history: the actions so far, in words, with a mark if they were refused.
    """

    goal: str
    state: S = field(repr=False)
    described: str
    history: Sequence[str]


@dataclass(frozen=True, slots=True)
class Applied(Generic[S]):
    """What became of an action.

    Attributes:
        state: S_{t+1}.
        obstacle: why the action was refused; None if it was not.
        certain: whether the step drew nothing, so that the plan can be simulated again.
    """

    state: S
    obstacle: str | None = None
    certain: bool = True
