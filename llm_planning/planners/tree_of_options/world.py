"""ToO's option-level world model: next state, reward, and what becomes of infeasible options."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Generic, Protocol

from llm_planning.domain import Need, settled
from llm_planning.search.tree import A, S

if TYPE_CHECKING:
    from collections.abc import Mapping

    from llm_planning.domain import Domain, Grammar, StateModel
    from llm_planning.planners.tree_of_options.settings import SearchSettings
    from llm_planning.planners.tree_of_options.trajectory import (
        Considered,
        Trajectory,
        Transition,
        Verdict,
    )
    from llm_planning.roles import Role

    class OptionDomain(Domain[S, A]):
        """A domain that names its options and has a model of its state."""

        grammar: Grammar[A]
        state_model: StateModel[S]


NAMES_OPTIONS = Need("grammar", "names its options")
MODELS_STATE = Need("state_model", "has a model of its state")
"""What the planners of this package ask of a domain."""

PRIMARY = ("reward_estimate", "reachability", "relativity", "consistency")
MODERATE = ("feasibility", "success_probability", "task_specificity")
PENALTY = ("redundancy",)
"""The groups of questions that share a weight (Appendix A.6 and Table 3)."""


def weights(settings: SearchSettings) -> dict[str, float]:
    """c_q of every question q (eq. 6)."""
    return {
        **dict.fromkeys(PRIMARY, settings.primary_weight),
        **dict.fromkeys(MODERATE, settings.moderate_weight),
        **dict.fromkeys(PENALTY, settings.penalty_weight),
    }


def scalar_reward(scores: Mapping[str, float], c: Mapping[str, float]) -> float:
    """r̂ = Σ_q c_q r_q (eq. 6)."""
    return sum(c_q * scores[q] for q, c_q in c.items())


class Dynamics(Protocol[S, A]):
    """What an option makes of a trajectory."""

    async def __call__(
        self, question: Considered[S, A], /
    ) -> tuple[Trajectory[S, A], Mapping[str, int]]:
        """τ_{i+1}, and what the prediction takes away although it is not there."""
        ...


@dataclass(frozen=True, slots=True)
class Predicted(Generic[S, A]):
    """The dynamics predictor (eq. 1).

    Attributes:
        domain: describes the states.
        dynamics: predicts them.
    """

    domain: Domain[S, A]
    dynamics: Role[Considered[S, A], Transition[S]]

    async def __call__(
        self, question: Considered[S, A], /
    ) -> tuple[Trajectory[S, A], Mapping[str, int]]:
        """Asks for ŝ_{i+1}."""
        transition = await self.dynamics(question)
        following = replace(
            question.trajectory,
            state=transition.state,
            described=await settled(self.domain.describe(transition.state)),
            options=(*question.trajectory.options, question.option),
        )
        return following, transition.clipped


async def unpredicted(
    question: Considered[Any, Any], /
) -> tuple[Trajectory[Any, Any], Mapping[str, int]]:
    """No dynamics: nodes are [s_0, ω_1, ..., ω_i], as in ToT (Section 4.4)."""
    trajectory, option = question.trajectory, question.option
    following = replace(
        trajectory,
        options=(*trajectory.options, option),
        since=(*trajectory.since, option),
    )
    return following, {}


class Check(Protocol[S, A]):
    """What becomes of a proposed option."""

    async def __call__(self, question: Considered[S, A], /) -> tuple[A | None, str | None]:
        """The option to expand with, if any, and why the proposed one is infeasible, if it is."""
        ...


async def unchecked(question: Considered[Any, A], /) -> tuple[A | None, str | None]:
    """Takes every option as it is proposed."""
    return question.option, None


@dataclass(frozen=True, slots=True)
class Repair(Generic[S, A]):
    """Puts a prerequisite in the place of an infeasible option (eq. 3), without a second check."""

    feasibility: Role[Considered[S, A], Verdict]
    repair: Role[Considered[S, A], A]

    async def __call__(self, question: Considered[S, A], /) -> tuple[A | None, str | None]:
        """The option, or its prerequisite."""
        obstacle = (await self.feasibility(question)).obstacle
        if obstacle is None:
            return question.option, None
        return await self.repair(replace(question, obstacle=obstacle)), obstacle


@dataclass(frozen=True, slots=True)
class Drop(Generic[S, A]):
    """Leaves an infeasible option out (Algorithm 1, line 26)."""

    feasibility: Role[Considered[S, A], Verdict]

    async def __call__(self, question: Considered[S, A], /) -> tuple[A | None, str | None]:
        """The option, if it is feasible."""
        obstacle = (await self.feasibility(question)).obstacle
        return (question.option if obstacle is None else None), obstacle
