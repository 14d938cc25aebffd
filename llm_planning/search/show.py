"""A tree for people and for files: numbered lines as in the paper, and JSON."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable

    from llm_planning.search.tree import Node, P


def format_tree(root: Node[P], label: Callable[[P], str]) -> str:
    """Numbers the edges by their place and prints N and Q (Tree of Options, Appendix A.7).

    Args:
        root: of the tree.
        label: names the edge that leads into a node, given the node's payload.

    Returns:
        One line per node, parents before children, such as "1.2. Find a cow (N:3, Q:4.983)".
    """
    lines = []
    stack = [("", root)]
    while stack:
        number, node = stack.pop()
        name = f"{number} {label(node.payload)}" if number else "ROOT"
        lines.append(f"{name} (N:{node.visits}, Q:{node.value:.3f})")
        numbered = [(f"{number}{i}.", child) for i, child in enumerate(node.children, start=1)]
        stack.extend(reversed(numbered))
    return "\n".join(lines)


def to_json(root: Node[P], payload_json: Callable[[P], Any]) -> dict[str, Any]:
    """Exports a tree as nested objects.

    Args:
        root: of the tree.
        payload_json: turns a payload into something the json module writes.

    Returns:
        Each node as `payload`, `visits` (N), `value` (Q), `reward` (r̂), `prior` (π) and `children`.
    """
    return {
        "payload": payload_json(root.payload),
        "visits": root.visits,
        "value": root.value,
        "reward": root.reward,
        "prior": root.prior,
        "children": [to_json(child, payload_json) for child in root.children],
    }
