"""ToO's tree, for the outcome of a trial."""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from llm_planning.search import edges_below

if TYPE_CHECKING:
    from llm_planning.execution.options import Candidate
    from llm_planning.planners.tree_of_options.algorithm import OptionEdge, OptionNode


def tree_metrics(root: OptionNode[Any, Any]) -> dict[str, int]:
    """The size of a tree."""
    below = list(edges_below(root))
    nodes = [root, *(edge.node for _, edge in below if edge.node is not None)]
    dead_ends = sum(node.memo.dead_end for node in nodes if node.memo is not None)
    return {
        "nodes": len(below) + 1,
        "expansions": sum(bool(node.edges) for node in nodes) + dead_ends,
        "dead_ends": dead_ends,
        "depth": max((depth for depth, _ in below), default=0),
    }


def node_json(node: OptionNode[Any, Any] | None) -> dict[str, Any]:
    """The candidates left out at a node, and its edges with their subtrees."""
    memo = node.memo if node else None
    return {
        "left_out": [_candidate_json(candidate) for candidate in memo.left_out] if memo else [],
        "edges": [_edge_json(edge) for edge in (node.edges if node else None) or ()],
    }


def _edge_json(edge: OptionEdge[Any, Any]) -> dict[str, Any]:
    """An edge with the subtree below it."""
    reached = edge.step.state if edge.step else None
    memo = edge.node.memo if edge.node else None
    return {
        "option": str(edge.action),
        "visits": edge.visits,
        "value": edge.value,
        "reward": edge.step.reward if edge.step else 0.0,
        "candidate": _candidate_json(reached.candidate) if reached and reached.candidate else None,
        "scores": dict(reached.scores) if reached else {},
        "state": reached.tau.described if reached else "",
        "clipped": dict(reached.clipped) if reached else {},
        "done": memo.done if memo else None,
        **node_json(edge.node),
    }


def _candidate_json(candidate: Candidate[Any]) -> dict[str, Any]:
    return {
        **asdict(candidate),
        "option": None if candidate.option is None else str(candidate.option),
        "proposed": str(candidate.proposed),
    }
