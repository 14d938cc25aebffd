"""Returns of one iteration: what each edge on the path is credited with."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence


def discounted_returns(rewards: Sequence[float], gamma: float, tail: float = 0.0) -> list[float]:
    """Discounted sums of rewards: R_i = Σ_{j≥i} γ^{j-i} r_j + γ^{m-i} tail.

    Source: Tree of Options, Section 3.1 iv, where the sum runs over the edges walked as well as
    those of the rollout.

    Args:
        rewards: shape [m], r̂ of the edges from the root to the end of the rollout.
        gamma: discount γ in [0, 1].
        tail: return from the last state on.

    Returns:
        R, shape [m].
    """
    returns = [0.0] * len(rewards)
    following = tail
    for i in range(len(rewards) - 1, -1, -1):
        following = rewards[i] + gamma * following
        returns[i] = following
    return returns


def mean_returns(rewards: Sequence[float], gamma: float, tail: float = 0.0) -> list[float]:
    """Discounted means of rewards: R_i = `discounted_returns`_i / Σ_{i≤j<m} γ^{j-i}.

    A mean per step does not depend on how many steps are left, which is the scale of the Q printed
    in Tree of Options, Appendix A.7. The tail is a value of the last state, not a step: it adds no
    weight to the divisor.

    Args:
        rewards: shape [m], r̂ of the edges from the root to the end of the rollout.
        gamma: discount γ in [0, 1].
        tail: return from the last state on.

    Returns:
        R, shape [m].
    """
    returns = [0.0] * len(rewards)
    following = tail
    weight = 0.0
    for i in range(len(rewards) - 1, -1, -1):
        following = rewards[i] + gamma * following
        weight = 1.0 + gamma * weight
        returns[i] = following / weight
    return returns
