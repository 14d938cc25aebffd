"""The questions that XENON and its baselines ask, whoever answers (XENON, Section 4, App. B, F).

An agent knows these protocols only. `llm_roles` answers them with a language model, `oracle_roles`
with the rules of the unperturbed game and stated error rates.
"""

from __future__ import annotations

from collections.abc import Mapping  # noqa: TC003 (pydantic reads it)
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol, TypeAlias

if TYPE_CHECKING:
    from collections.abc import Sequence

Requirements: TypeAlias = "Mapping[str, int]"
"""R(v): required item -> quantity."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Attempt:
    """One subgoal that failed, as self-correction is told of it (Figures 9 and 12).

    Attributes:
        item: v, what was to be obtained.
        action: a, how.
        believed: R(v, Ĝ) at that moment.
        inventory: item -> count when it failed.
    """

    item: str
    action: str
    believed: Requirements
    inventory: Mapping[str, int]


class PredictRequirements(Protocol):
    """What does an item need? (Algorithm 2, line 13; Figure 15)."""

    async def __call__(
        self, item: str, *, examples: Sequence[tuple[str, Requirements]]
    ) -> Requirements:
        """Predicts R(v).

        Args:
            item: v.
            examples: the top-K similar experienced items, most similar first, and what they need.
        """
        ...


class CorrectRequirements(Protocol):
    """What does an item need, given what failed? LLM self-correction (Figure 9)."""

    async def __call__(
        self,
        item: str,
        *,
        asking: int,
        failures: Sequence[Attempt],
        examples: Sequence[tuple[str, Requirements]],
    ) -> Requirements:
        """Predicts R(v) anew.

        Args:
            item: v.
            asking: n of the n-th correction of v, from 1; each is a draw of its own.
            failures: recent failed attempts at v, oldest first.
            examples: the top-K similar obtained items, most similar first, and what they need.
        """
        ...


class ChooseAction(Protocol):
    """Which action obtains an item? (Algorithm 4, line 19; Figures 12 and 16)."""

    async def __call__(
        self,
        item: str,
        *,
        quantity: int,
        examples: Sequence[tuple[str, str]],
        options: Sequence[str],
        analyses: Sequence[str],
    ) -> str:
        """Chooses a.

        Args:
            item: v.
            quantity: q, how many are wanted.
            examples: the top-K similar items with a valid action, most similar first.
            options: the actions to choose from, at least one.
            analyses: why earlier attempts failed, in the words of `AnalyseFailure`; empty without
                self-correction.

        Returns:
            One of the options.
        """
        ...


class AnalyseFailure(Protocol):
    """Why did an attempt fail? LLM self-reflection (Figure 12)."""

    async def __call__(self, failure: Attempt) -> str:
        """Explains one failed attempt in a sentence."""
        ...


class RankItems(Protocol):
    """Which known items are likely to be required? XENON+ and its last ablation only."""

    async def __call__(self, item: str, *, candidates: Sequence[str]) -> Sequence[float]:
        """Log-probabilities, in nats, that the model gives to each candidate as a requirement.

        Args:
            item: v.
            candidates: names that the agent knows, at least one.

        Returns:
            A log-probability per candidate, in their order.
        """
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Roles:
    """Everybody an agent can ask."""

    predict: PredictRequirements
    correct: CorrectRequirements
    choose: ChooseAction
    analyse: AnalyseFailure
    rank: RankItems
