"""Backup rules: how a walk updates Q, from its end to the root.

When a backup runs, N already counts the walk. R_i is the return from edge i on and r_i the reward
of edge i. The first edge is i = 0, and m is the number of edges.
"""

from __future__ import annotations

from collections.abc import Callable
from math import exp
from typing import TYPE_CHECKING, Any, TypeAlias

from llm_planning.domain import A, S
from llm_planning.search.walk import Walk

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from llm_planning.domain import Step
    from llm_planning.search.tree import Edge, Node

Backup: TypeAlias = Callable[[Walk[S, A]], None]
"""Updates Q along a walk. N already counts the walk."""


def by_sums(*, gamma: float) -> Backup[S, A]:
    """Q is the mean of discounted sums: R_i = Σ_{j≥i} γ^{j-i} r_j + γ^{m-i} tail.

    The root's V is the mean of R_0.

    Source: Tree of Options, Section 3.1 iv. The sum runs over the edges of the descent and those of
    the rollout.

    Args:
        gamma: discount γ in [0, 1].
    """

    def back_up(walk: Walk[S, A]) -> None:
        r_i = walk.tail
        for edge, step in _upwards(walk):
            r_i = step.reward + gamma * r_i
            edge.value += (r_i - edge.value) / edge.visits
        _settle(walk.nodes[0], r_i)

    return back_up


def by_means(*, gamma: float) -> Backup[S, A]:
    """Q is the mean of discounted means: R_i of `by_sums` / Σ_{i≤j<m} γ^{j-i}.

    A mean per step does not depend on how many steps are left. The Q printed in Tree of Options,
    Appendix A.7, have this scale. The tail is a value of the last state and not a step, so it adds
    no weight to the divisor. The root's V is the mean of R_0.

    Args:
        gamma: discount γ in [0, 1].
    """

    def back_up(walk: Walk[S, A]) -> None:
        total = r_i = walk.tail
        weight = 0.0
        for edge, step in _upwards(walk):
            total = step.reward + gamma * total
            weight = 1.0 + gamma * weight
            r_i = total / weight
            edge.value += (r_i - edge.value) / edge.visits
        _settle(walk.nodes[0], r_i)

    return back_up


def by_turns(*, gamma: float, mover: Callable[[S], int]) -> Backup[S, Any]:
    """Q is the mean of the R_i of `by_sums`, each as the player sees it who moves there.

    Rewards and tails are those of the player who moves at the root. What that player gains, the
    other loses: R_i changes its sign where the other moves, so both select the highest Q.

    Source: negamax (Knuth and Moore, "An Analysis of Alpha-Beta Pruning", 1975), Section 2. The
    sign goes by who moves, because a player may move twice in a row.

    Args:
        gamma: discount γ in [0, 1], for each move.
        mover: who moves in a state: 0 for the player who moves at the root, 1 for the other.
    """

    def back_up(walk: Walk[S, Any]) -> None:
        movers = [0, *[mover(step.state) for step in walk.steps[:-1]]]
        r_i = walk.tail
        for i in reversed(range(len(walk.edges))):
            edge = walk.edges[i]
            r_i = walk.steps[i].reward + gamma * r_i
            edge.value += ((-r_i if movers[i] else r_i) - edge.value) / edge.visits
        _settle(walk.nodes[0], r_i)

    return back_up


def _upwards(walk: Walk[S, A]) -> Iterator[tuple[Edge[S, A], Step[S]]]:
    return zip(reversed(walk.edges), reversed(walk.steps), strict=True)


def _settle(node: Node[S, A], r: float) -> None:
    """Counts a return into the mean V(h)."""
    node.value += (r - node.value) / node.visits


def softmax_value(q: Sequence[float], temperature: float) -> float:
    """Σ_a w_a Q(h,a) with w_a ∝ exp(Q(h,a) / temperature).

    As the temperature falls, the value goes from the mean to the maximum.

    Source: the Boltzmann operator (Asadi and Littman, "An Alternative Softmax Operator for
    Reinforcement Learning", 2017).

    Args:
        q: shape [edges], at least one.
        temperature: above 0, in units of Q.

    Returns:
        Between the mean and the maximum of `q`.
    """
    highest = max(q)
    weights = [exp((value - highest) / temperature) for value in q]
    return sum(w * value for w, value in zip(weights, q, strict=True)) / sum(weights)


def by_softmax(*, gamma: float, temperature: float) -> Backup[S, A]:
    """Q(h,a) is the mean of r + γ V(h'), V(h) the `softmax_value` of the visited edges' Q.

    V of a node without visited edges is the mean of the returns from there on. All earlier visits
    are credited with the present V(h'): Q(h,a) = r̄(h,a) + γ Σ_o N(hao) V(hao) / N(h,a).

    Args:
        gamma: discount γ in [0, 1].
        temperature: above 0; of the softmax, in units of Q.
    """

    def back_up(walk: Walk[S, A]) -> None:
        value_of(walk.nodes[-1], walk.tail)
        for node, (edge, step) in zip(reversed(walk.nodes[:-1]), _upwards(walk), strict=True):
            mean: float = edge.moments or 0.0
            mean += (step.reward - mean) / edge.visits
            edge.moments = mean
            following = sum([child.visits * child.value for child in edge.nodes])
            edge.value = mean + gamma * following / edge.visits
            value_of(node, 0.0)

    def value_of(node: Node[S, A], tail: float) -> None:
        visited = [edge.value for edge in node.edges or () if edge.visits]
        if visited:
            node.value = softmax_value(visited, temperature)
        else:
            _settle(node, tail)

    return back_up


def by_weighted_returns(*, gamma: float, temperature: float) -> Backup[S, A]:
    """Q(h,a) = Σ_i R_i softmax_i(R_i / T) over the returns of the visits, R_i as in `by_sums`.

    It lies between their mean and their highest. The root's V is the mean of R_0.

    Source: the published codes of LLM-MCTS and of MC-DML (T = 10 in both).

    Args:
        gamma: discount γ in [0, 1].
        temperature: T, above 0, in units of the return.
    """

    def back_up(walk: Walk[S, A]) -> None:
        r_i = walk.tail
        for edge, step in _upwards(walk):
            r_i = step.reward + gamma * r_i
            edge.moments = (*(edge.moments or ()), r_i)
            edge.value = softmax_value(edge.moments, temperature)
        _settle(walk.nodes[0], r_i)

    return back_up
