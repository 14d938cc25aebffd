"""Selection rules: the papers' scores, and the edge with the highest score.

Each rule scores one edge by its statistics and its node's N. The `select_by_*` functions apply a
rule to a node: they take the edge with the highest score, the earliest of equals. They count visits
in flight like completed ones, N + O in place of N in both terms (WU-UCT: Liu et al., "Watch the
Unobserved", 2020), so that several descents spread over the tree.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import inf, log, sqrt
from typing import TypeAlias

from llm_planning.domain import A, S
from llm_planning.search.tree import Edge, Node

Select: TypeAlias = Callable[[Node[S, A], Sequence[Edge[S, A]]], Edge[S, A]]
"""Maps a node and its legal edges to the edge that the descent takes."""


def ucb(q: float, n: int, parent_n: int, c: float) -> float:
    """UCB of Tree of Options: Q(τ,ω) + c √(ln N(τ) / (N(τ,ω) + 1)).

    Before the first visit of τ the bonus is 0.

    Source: Tree of Options, Section 3.1 i.

    Args:
        parent_n: N(τ) without the present visit.
        c: exploration weight.
    """
    return q + c * sqrt(log(parent_n) / (n + 1)) if parent_n else q


def uct(q: float, n: int, parent_n: int, c: float) -> float:
    """UCT: Q(s,a) + c √(ln N(s) / N(s,a)), infinite for an unvisited edge.

    Source: MC-DML, Section 2.1, eq. 1 (Kocsis and Szepesvári, 2006).

    Args:
        parent_n: N(s) = Σ_a N(s,a).
        c: exploration weight.
    """
    return q + c * sqrt(log(parent_n) / n) if n else inf


def puct(q: float, prior: float, n: int, parent_n: int, c: float) -> float:
    """PUCT: Q(s,a) + c π(a|s) √N(s) / (1 + N(s,a)).

    Source: LLM-MCTS, Algorithm 1, line 29; MC-DML, eqs. 2 and 3.

    Args:
        parent_n: N(s) = Σ_a N(s,a).
        c: exploration weight.
    """
    return q + prior * c * sqrt(parent_n) / (1 + n)


def argmax(scores: Sequence[float]) -> int:
    """Index of the highest score; of equals, the lowest index.

    Raises:
        ValueError: there are no scores.
    """
    return scores.index(max(scores))


def select_by_ucb(*, c: float) -> Select[S, A]:
    """Selection by UCB, with N(τ) the visits of the node (Tree of Options, Algorithm 1, line 16).

    The Q of an unvisited edge is its `first_play`.
    """

    def select(node: Node[S, A], edges: Sequence[Edge[S, A]]) -> Edge[S, A]:
        total = node.visits + node.in_flight
        best, highest = edges[0], -inf
        for edge in edges:
            visits = edge.visits
            q = edge.value if visits else edge.first_play
            score = ucb(q, visits + edge.in_flight, total, c)
            if score > highest:
                best, highest = edge, score
        return best

    return select


def select_by_uct(*, c: float) -> Select[S, A]:
    """Selection by `uct`."""

    def select(node: Node[S, A], edges: Sequence[Edge[S, A]]) -> Edge[S, A]:  # noqa: ARG001
        total = sum([edge.visits + edge.in_flight for edge in edges])
        best, highest = edges[0], -inf
        for edge in edges:
            score = uct(edge.value, edge.visits + edge.in_flight, total, c)
            if score > highest:
                best, highest = edge, score
        return best

    return select


def select_by_puct(*, c: float) -> Select[S, A]:
    """Selection by PUCT from Q = 0, with N(s) = Σ_a N(s,a).

    The papers set N(s) to 0 when s is added to the tree, so the visit that added it is not counted
    (LLM-MCTS, Algorithm 1, lines 24 and 33). At N(s) = 0 every score is 0. Here the limit N(s) → 0+
    decides then: the highest π, the earliest of equals. If only some edges of a node are legal, π
    is renormalised over them.
    """

    def select(node: Node[S, A], edges: Sequence[Edge[S, A]]) -> Edge[S, A]:
        total = sum([edge.visits + edge.in_flight for edge in edges])
        if not total:
            return max(edges, key=lambda edge: edge.prior)
        share = 1.0 if edges is node.edges else sum([edge.prior for edge in edges]) or 1.0
        best, highest = edges[0], -inf
        for edge in edges:
            n = edge.visits + edge.in_flight
            score = puct(edge.value, edge.prior / share, n, total, c)
            if score > highest:
                best, highest = edge, score
        return best

    return select
