"""What the agents ask, whoever answers: π(·|s) and reflections (Section 3.1)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeAlias

if TYPE_CHECKING:
    from collections.abc import Sequence

    from llm_planning.environments.textgame.game import Observation
    from llm_planning.roles import Role


@dataclass(frozen=True, slots=True)
class Turn:
    """o and the action a that was taken on it.

    Attributes:
        observation: o_t.
        action: a_t.
        reward: r_t, of the action.
        score: the game's, after the action.
    """

    observation: Observation
    action: str
    reward: float
    score: float


@dataclass(frozen=True, slots=True)
class Situation:
    """What π(a|s) depends on; equal situations get equal answers.

    Attributes:
        memory: the past of ℳ_i, oldest first: one turn makes (o_{t-1}, a_{t-1}, o_t), the paper's;
            none at the beginning of a game and without ℳ_i.
        observation: o_t.
        actions: 𝒜(s), at least one.
        reflections: ℳ_c, oldest first.
    """

    memory: tuple[Turn, ...]
    observation: Observation
    actions: tuple[str, ...]
    reflections: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Trajectory:
    """h: turns, and what was seen after the last of them."""

    turns: tuple[Turn, ...]
    last: Observation


Policy: TypeAlias = "Role[Situation, Sequence[float]]"
"""LLM(a | ℳ_i, ℳ_c, p): π, shape [actions], not negative, sum 1."""

Reflect: TypeAlias = "Role[Trajectory, str]"
"""LLM(h, p_reflection): why a trajectory failed and what to do better, in a sentence."""
