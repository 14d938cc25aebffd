"""Which edge a descent takes: the papers' scores as pure functions of arrays.

Each rule maps the statistics of one node's outgoing edges, shape [edges] each, to a score per edge,
and the descent takes the highest, the earliest of equals. The `select_by_*` functions bind a rule
to the tree. They count visits in flight like completed ones, N + O in place of N in both terms
(WU-UCT: Liu et al., "Watch the Unobserved", 2020), so that several descents spread over the tree.
"""

from __future__ import annotations

from math import inf, log, sqrt
from typing import TYPE_CHECKING, TypeAlias, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from llm_planning.search.tree import Node

P = TypeVar("P")

FirstPlay: TypeAlias = "Callable[[float], float]"
"""Maps r̂ of an edge that was never visited to the Q that stands in until its first backup."""

UcbRule: TypeAlias = "Callable[[Sequence[float], Sequence[int], int, float], list[float]]"
"""Maps Q and N of the edges, N of the node and c to scores."""

PuctRule: TypeAlias = (
    "Callable[[Sequence[float], Sequence[float], Sequence[int], int, float], list[float]]"
)
"""Maps Q, π, N of the edges, N of the node and c to scores."""


def ucb(q: Sequence[float], n: Sequence[int], parent_n: int, c: float) -> list[float]:
    """UCB of Tree of Options: Q(τ,ω) + c √(ln N(τ) / (N(τ,ω) + 1)).

    Source: Tree of Options, Section 3.1 i. Before the first visit of τ there is nothing to weigh
    against, and the bonus is 0.

    Args:
        q: shape [edges], Q(τ,ω).
        n: shape [edges], N(τ,ω).
        parent_n: N(τ), the present visit not counted.
        c: exploration weight.

    Returns:
        Scores, shape [edges].
    """
    log_n = log(parent_n) if parent_n else 0.0
    return [q_i + c * sqrt(log_n / (n_i + 1)) for q_i, n_i in zip(q, n, strict=True)]


def uct(q: Sequence[float], n: Sequence[int], parent_n: int, c: float) -> list[float]:
    """UCT: Q(s,a) + c √(ln N(s) / N(s,a)), infinite for an edge that was never visited.

    Source: MC-DML, Section 2.1, eq. 1 (Kocsis and Szepesvári, 2006).

    Args:
        q: shape [edges], Q(s,a).
        n: shape [edges], N(s,a).
        parent_n: N(s) = Σ_a N(s,a).
        c: exploration weight.

    Returns:
        Scores, shape [edges].
    """
    log_n = log(parent_n) if parent_n else 0.0
    return [q_i + c * sqrt(log_n / n_i) if n_i else inf for q_i, n_i in zip(q, n, strict=True)]


def puct(
    q: Sequence[float], prior: Sequence[float], n: Sequence[int], parent_n: int, c: float
) -> list[float]:
    """PUCT: Q(s,a) + c π(a|s) √N(s) / (1 + N(s,a)).

    Source: LLM-MCTS, Algorithm 1, line 29; MC-DML, eqs. 2 and 3.

    Args:
        q: shape [edges], Q(s,a).
        prior: shape [edges], π(a|s).
        n: shape [edges], N(s,a).
        parent_n: N(s) = Σ_a N(s,a).
        c: exploration weight.

    Returns:
        Scores, shape [edges].
    """
    root_n = c * sqrt(parent_n)
    return [q_i + p_i * root_n / (1 + n_i) for q_i, p_i, n_i in zip(q, prior, n, strict=True)]


def puct_root_of_quotient(
    q: Sequence[float], prior: Sequence[float], n: Sequence[int], parent_n: int, c: float
) -> list[float]:
    """PUCT with the root over the whole quotient: Q(s,a) + c π(a|s) √(N(s) / (N(s,a) + 1)).

    Source: MC-DML, Algorithm 1, lines 35 and 36, which differ from its eq. 3: the bonus of an edge
    fades with the root of its visits only.

    Args:
        q: shape [edges], Q(s,a).
        prior: shape [edges], π(a|s).
        n: shape [edges], N(s,a).
        parent_n: N(s) = Σ_a N(s,a).
        c: exploration weight.

    Returns:
        Scores, shape [edges].
    """
    return [
        q_i + c * p_i * sqrt(parent_n / (n_i + 1))
        for q_i, p_i, n_i in zip(q, prior, n, strict=True)
    ]


def argmax(scores: Sequence[float]) -> int:
    """Index of the highest score; of equals, the lowest index.

    Raises:
        ValueError: there are no scores.
    """
    return scores.index(max(scores))


def zero_first(reward: float) -> float:  # noqa: ARG001
    """First play at Q = 0: Tree of Options to the letter.

    Args:
        reward: r̂ of the edge.

    Returns:
        0.
    """
    return 0.0


def reward_first(reward: float) -> float:
    """First play at the edge's own reward r̂.

    Source: RAP (Hao et al., 2023), whose search Tree of Options follows. The tree printed in Tree
    of Options, Appendix A.7, with root edges visited 5, 5 and 0 times, needs this reading: beside
    an edge with Q near 5, one at Q = 0 would need a bonus of 5, and c √(ln N) stays below
    0.7 √(ln 10) ≈ 1.06.

    Args:
        reward: r̂ of the edge.

    Returns:
        r̂.
    """
    return reward


def select_by_ucb(
    *, c: float, first_play: FirstPlay, rule: UcbRule = ucb
) -> Callable[[Node[P]], Node[P]]:
    """Selection by UCB, with N(τ) the visits of the node (Tree of Options, Algorithm 1, line 15).

    Args:
        c: exploration weight.
        first_play: what stands in for Q before the first backup, `zero_first` or `reward_first`.
        rule: `ucb`, or another score of the same arrays.

    Returns:
        A function from an expanded node to the child to descend to.
    """

    def select(node: Node[P]) -> Node[P]:
        children = node.children
        q = []
        n = []
        for child in children:
            visits = child.visits
            q.append(child.value if visits else first_play(child.reward))
            n.append(visits + child.in_flight)
        return children[argmax(rule(q, n, node.visits + node.in_flight, c))]

    return select


def select_by_uct(*, c: float) -> Callable[[Node[P]], Node[P]]:
    """Selection by `uct`.

    Args:
        c: exploration weight.

    Returns:
        A function from an expanded node to the child to descend to.
    """

    def select(node: Node[P]) -> Node[P]:
        children = node.children
        q = [child.value for child in children]
        n = [child.visits + child.in_flight for child in children]
        return children[argmax(uct(q, n, sum(n), c))]

    return select


def select_by_puct(*, c: float, rule: PuctRule = puct) -> Callable[[Node[P]], Node[P]]:
    """Selection by PUCT from Q = 0, with N(s) = Σ_a N(s,a).

    The papers set N(s) to 0 when s is added to the tree, so the visit that added it is not counted
    (LLM-MCTS, Algorithm 1, lines 24 and 33).

    Args:
        c: exploration weight.
        rule: `puct` or `puct_root_of_quotient`.

    Returns:
        A function from an expanded node to the child to descend to.
    """

    def select(node: Node[P]) -> Node[P]:
        children = node.children
        q = [child.value for child in children]
        prior = [child.prior for child in children]
        n = [child.visits + child.in_flight for child in children]
        return children[argmax(rule(q, prior, n, sum(n), c))]

    return select
