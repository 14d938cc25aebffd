"""A tree for people and for files: numbered lines as in the paper, and JSON."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable

    from llm_planning.search.tree import Edge, Node

S = TypeVar("S")
A = TypeVar("A")


def format_tree(root: Node[S, A], label: Callable[[A], str] = str) -> str:
    """Numbers the edges by their place and prints N and Q (Tree of Options, Appendix A.7).

    Args:
        root: of the tree.
        label: names an action.

    Returns:
        One line per edge, parents before children, such as "1.2. Find a cow (N:3, Q:4.983)"; under
        an action with several outcomes, a line for each: "1.2=fog (N:2)", and "1.2=fog.1." below.
    """
    lines = [f"ROOT (N:{root.visits}, Q:{root.value:.3f})"]

    def tell(node: Node[S, A], number: str) -> None:
        for i, edge in enumerate(node.edges or (), start=1):
            here = f"{number}{i}."
            lines.append(f"{here} {label(edge.action)} (N:{edge.visits}, Q:{edge.value:.3f})")
            below = edge.outcomes
            for seen, one in below.items():
                if len(below) > 1:
                    lines.append(f"{number}{i}={seen} (N:{one.visits})")
                    here = f"{number}{i}={seen}."
                tell(one, here)

    tell(root, "")
    return "\n".join(lines)


def to_json(root: Node[S, A], edge_json: Callable[[Edge[S, A]], Any]) -> dict[str, Any]:
    """Exports a tree as nested objects.

    Args:
        root: of the tree.
        edge_json: what else is to be said of an edge, JSON-able.

    Returns:
        Each node with its `visits` and `edges`; each edge with its `visits` (N), `value` (Q),
        `prior` (π), `first_play`, what `edge_json` says as `action`, and `outcomes`: a list of
        nodes.
    """
    return {
        "visits": root.visits,
        "value": root.value,
        "edges": [
            {
                "action": edge_json(edge),
                "visits": edge.visits,
                "value": edge.value,
                "prior": edge.prior,
                "first_play": edge.first_play,
                "outcomes": [to_json(node, edge_json) for node in edge.outcomes.values()],
            }
            for edge in root.edges or ()
        ],
    }
