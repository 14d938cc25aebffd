"""The tree of a search: one slotted node per edge, its statistics apart from its payload."""

from __future__ import annotations

from typing import TYPE_CHECKING, Generic, TypeVar

if TYPE_CHECKING:
    from collections.abc import Iterator

P = TypeVar("P")


class Node(Generic[P]):
    """A state τ together with the edge ω that leads into it.

    In a tree every node but the root has exactly one incoming edge, so N(τ_parent, ω) and N(τ) are
    one number, and the statistics of the edge are kept on the node it leads to.

    Attributes:
        payload: what the planner stores (state, option, ...); the search never looks at it.
        parent: None at the root.
        children: in the order in which they were added; empty until the node is expanded.
        depth: edges between the root and this node.
        reward: r̂ of the incoming edge.
        prior: π of the incoming edge, for PUCT.
        visits: N, the completed visits of the incoming edge.
        value: Q of the incoming edge, the running mean of its returns; 0.0 before the first visit.
        in_flight: O of WU-UCT, iterations that walked this edge and are not backed up yet.
        pending: whether a simulation that is not backed up yet is building the subtree below.
    """

    __slots__ = (
        "children",
        "depth",
        "in_flight",
        "parent",
        "payload",
        "pending",
        "prior",
        "reward",
        "value",
        "visits",
    )

    def __init__(
        self,
        payload: P,
        *,
        parent: Node[P] | None = None,
        reward: float = 0.0,
        prior: float = 0.0,
    ) -> None:
        self.payload = payload
        self.parent = parent
        self.children: list[Node[P]] = []
        self.depth: int = 0 if parent is None else parent.depth + 1
        self.reward = reward
        self.prior = prior
        self.visits = 0
        self.value = 0.0
        self.in_flight = 0
        self.pending = False

    def add_child(self, payload: P, *, reward: float = 0.0, prior: float = 0.0) -> Node[P]:
        """Adds an outgoing edge and the node it leads to.

        Args:
            payload: of the new node.
            reward: r̂ of the new edge.
            prior: π of the new edge.

        Returns:
            The new node, last among the children.
        """
        child = Node(payload, parent=self, reward=reward, prior=prior)
        self.children.append(child)
        return child

    def __repr__(self) -> str:
        # The subtree is left out: the representation of a root would otherwise be the whole tree.
        return f"Node({self.payload!r}, N={self.visits}, Q={self.value:.3f}, depth={self.depth})"


def path_to(node: Node[P]) -> list[Node[P]]:
    """The nodes from the root to `node`, both included."""
    path = [node]
    while (parent := path[-1].parent) is not None:
        path.append(parent)
    path.reverse()
    return path


def preorder(root: Node[P]) -> Iterator[Node[P]]:
    """Walks a subtree: every node before its children, children in their order."""
    stack = [root]
    while stack:
        node = stack.pop()
        yield node
        stack.extend(reversed(node.children))
