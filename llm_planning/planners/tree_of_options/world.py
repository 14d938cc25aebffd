"""The option-level world model: next state, reward and termination (Section 3.1)."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from collections.abc import Mapping

    from llm_planning.environments.minecraft.state import State
    from llm_planning.planners.tree_of_options.answers import (
        Evaluation,
        Prediction,
        Termination,
    )
    from llm_planning.planners.tree_of_options.settings import SearchSettings
    from llm_planning.planners.tree_of_options.trajectory import Option, Trajectory
    from llm_planning.roles import Role

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


@dataclass(frozen=True, slots=True)
class Transition:
    """Where an option leads.

    Attributes:
        state: ŝ_i.
        clipped: item -> count that the prediction takes away although it is not there.
    """

    state: State
    clipped: Mapping[str, int] = field(default_factory=dict)


class Dynamics(Protocol):
    """Predicts the next state."""

    async def __call__(self, trajectory: Trajectory, option: Option) -> Transition:
        """ŝ_i from ŝ_{i-1} and ω_i."""
        ...


class Predicted:
    """The dynamics predictor (eq. 1): the model names what changes, the rest of ŝ_{i-1} stays."""

    def __init__(self, dynamics: Role[Prediction]) -> None:
        self._dynamics = dynamics

    async def __call__(self, trajectory: Trajectory, option: Option) -> Transition:
        """Asks the model."""
        prediction = await self._dynamics(state=trajectory.state, option=option)
        change = prediction.change()
        state = trajectory.state
        return Transition(state.apply(change), state.missing(change))


async def unpredicted(trajectory: Trajectory, option: Option) -> Transition:  # noqa: ARG001
    """No dynamics: nodes are [s_0, ω_1, ..., ω_i], as in ToT (Section 4.4)."""
    return Transition(trajectory.state)


class WorldModel:
    """Predicts next states, rewards and termination.

    Args:
        dynamics: the next state.
        reward: the eight scores of an option and the state it leads to.
        termination: whether a trajectory's state is terminal.
    """

    def __init__(
        self, *, dynamics: Dynamics, reward: Role[Evaluation], termination: Role[Termination]
    ) -> None:
        self.dynamics = dynamics
        self._reward = reward
        self._termination = termination

    async def scores(
        self, trajectory: Trajectory, option: Option, state: State
    ) -> dict[str, float]:
        """r_q(τ, ω) of every question q, judged with the state that ω leads to (A.4)."""
        evaluation = await self._reward(
            goal=trajectory.goal, state=state, history=trajectory.history, option=option
        )
        return evaluation.model_dump()

    async def is_terminal(self, trajectory: Trajectory) -> bool:
        """Whether τ's state is terminal (eq. 4)."""
        verdict = await self._termination(
            goal=trajectory.goal, state=trajectory.state, history=trajectory.history
        )
        return verdict.done
