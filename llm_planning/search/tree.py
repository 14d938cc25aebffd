"""The tree of a search: nodes are histories, edges are actions taken in them.

A node keeps no state, because one history may stand for many states: the first state may be drawn,
and an action may have several outcomes. The state belongs to the simulation. The tree keeps only
certain steps: an edge has the `step` of its action if nothing was drawn for it.
"""

from __future__ import annotations

from operator import itemgetter
from typing import TYPE_CHECKING, Any, Generic

from llm_base.quoting import quote
from llm_planning.domain import A, DomainError, S

if TYPE_CHECKING:
    from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping

    from llm_planning.domain import Step


class Node(Generic[S, A]):
    """A history h: the actions and observations from the root on.

    Attributes:
        edges: in the order in which they were added; None until the node is expanded.
        visits: N(h), completed simulations through this node.
        value: V(h) of the root, and of the other nodes if the backup keeps it; 0.0 at first.
        in_flight: simulations through this node without a backup yet; always 0 at width 1.
        pending: whether a simulation in flight is expanding or evaluating this node.
        mixed: whether edges were added in a state that the history does not determine. Another
            state may allow more or fewer actions.
        searched: whether a search with this root is running.
        memo: the search model's own notes; the search ignores them.
    """

    __slots__ = ("edges", "in_flight", "memo", "mixed", "pending", "searched", "value", "visits")

    def __init__(self) -> None:
        self.edges: list[Edge[S, A]] | None = None
        self.visits = 0
        self.value = 0.0
        self.in_flight = 0
        self.pending = False
        self.mixed = False
        self.searched = False
        self.memo: Any = None

    def __repr__(self) -> str:
        edges = "unexpanded" if self.edges is None else f"{len(self.edges)} edges"
        return f"Node(N={self.visits}, V={self.value:.3f}, {edges})"

    def _repr_html_(self) -> str:
        """The most visited part of the tree, under a cell of Jupyter."""
        from llm_planning.notebook import tree_html

        return tree_html(self)


class Edge(Generic[S, A]):
    """An action a in a history h.

    Attributes:
        action: a.
        prior: π(a|h).
        first_play: Q before the first backup (r̂ of Tree of Options).
        visits: N(h, a).
        value: Q(h, a); 0.0 before the first visit.
        in_flight: O of WU-UCT, simulations through this edge without a backup yet; always 0 at
            width 1.
        step: the step of a certain action, which is never simulated again; None for any other.
        node: the node after that step; None until a simulation takes it.
        moments: the backup's own statistics of the visits; None before the first.
    """

    __slots__ = (
        "_drawn",
        "action",
        "first_play",
        "in_flight",
        "moments",
        "node",
        "prior",
        "step",
        "value",
        "visits",
    )

    def __init__(
        self,
        action: A,
        *,
        prior: float = 0.0,
        first_play: float = 0.0,
        step: Step[S] | None = None,
    ) -> None:
        self.action = action
        self.prior = prior
        self.first_play = first_play
        self.visits = 0
        self.value = 0.0
        self.in_flight = 0
        self.step = step
        self.node: Node[S, A] | None = None
        self.moments: Any = None
        self._drawn: dict[Hashable, Node[S, A]] | None = None

    @property
    def outcomes(self) -> Mapping[Hashable, Node[S, A]]:
        """Maps each observation met so far to its node.

        Raises:
            DomainError: see `follow`.
        """
        if self.step is None or self.node is None:
            return {**(self._drawn or {})}
        self._check(self.step)
        return {self.step.seen: self.node, **(self._drawn or {})}

    @property
    def nodes(self) -> list[Node[S, A]]:
        """The nodes of all outcomes met so far."""
        return [*(() if self.node is None else (self.node,)), *(self._drawn or {}).values()]

    def keep(self, step: Step[S]) -> None:
        """Keeps the step of a certain action.

        Raises:
            DomainError: see `follow`.
        """
        self._check(step)
        self.step = step

    def follow(self, step: Step[S]) -> Node[S, A]:
        """Returns the node of an outcome, and makes it if the outcome is new.

        Raises:
            DomainError: the outcome has no observation, and its state is not hashable.
        """
        known = self.step
        if known is not None and (step is known or step.seen == known.seen):
            if self.node is None:
                met = self._drawn.pop(known.seen, None) if self._drawn else None
                self.node = met or Node()
            return self.node
        if self._drawn is None:
            self._drawn = {}
        try:
            node = self._drawn.get(step.seen)
        except TypeError as error:
            raise self._unhashable(step) from error
        if node is None:
            node = self._drawn[step.seen] = Node()
        return node

    def _check(self, step: Step[S]) -> None:
        try:
            hash(step.seen)
        except TypeError as error:
            raise self._unhashable(step) from error

    def _unhashable(self, step: Step[S]) -> DomainError:
        return DomainError(
            f"the outcomes of {self.action!r} cannot be told apart, since {quote(step.seen)} is "
            "not hashable: give the step an `observation`, or make the state hashable"
        )

    def forget(self, node: Node[S, A]) -> None:
        """Removes one of `nodes`."""
        if node is self.node:
            self.node = None
        else:
            drawn = self._drawn or {}
            self._drawn = {seen: child for seen, child in drawn.items() if child is not node}

    def __repr__(self) -> str:
        # The representation leaves the node out, because it would repeat the whole subtree.
        return f"Edge({self.action!r}, N={self.visits}, Q={self.value:.3f}, π={self.prior:.3f})"


def edges_below(root: Node[S, A]) -> Iterator[tuple[int, Edge[S, A]]]:
    """Yields every edge of a tree with its depth, parents first. The root's edges have depth 1."""
    stack = [(1, edge) for edge in reversed(root.edges or ())]
    while stack:
        depth, edge = stack.pop()
        yield depth, edge
        below = [following for node in edge.nodes for following in node.edges or ()]
        stack.extend((depth + 1, following) for following in reversed(below))


def best_path(root: Node[S, A]) -> list[Edge[S, A]]:
    """Follows argmax Q over visited edges to the end (Tree of Options, Algorithm 1, line 7).

    After an action with several outcomes it follows the most frequent one; of equals, the earliest.
    """
    path: list[Edge[S, A]] = []
    node: Node[S, A] | None = root
    while node is not None and (visited := [edge for edge in node.edges or () if edge.visits]):
        path.append(max(visited, key=lambda edge: edge.value))
        node = max(path[-1].nodes, key=lambda outcome: outcome.visits, default=None)
    return path


def advance(root: Node[S, A], action: A, step: Step[S]) -> Node[S, A]:
    """Returns the root of the subtree that remains after a real step.

    Args:
        step: its real outcome; only the observation counts.

    Returns:
        The node of the new history; a new node if no simulation reached it.

    Raises:
        RuntimeError: a search is running on the tree.
    """
    _refuse_searched(root)
    for edge in root.edges or ():
        if edge.action == action:
            return edge.follow(step)
    return Node()


def advance_turns(root: Node[S, A], action: A, step: Step[S]) -> Node[S, A]:
    """As `advance`, of a tree that has the moves of others after the action, too.

    Args:
        step: the real outcome of the action and of these moves. The nearest node that is observed
            so is the new root.
    """
    _refuse_searched(root)
    taken = expanded(edge for edge in root.edges or () if edge.action == action)
    below = ((depth, edge.outcomes.get(step.seen)) for depth, edge in edges_below(taken))
    found = [(depth, node) for depth, node in below if node is not None]
    return min(found, key=itemgetter(0), default=(0, Node()))[1]


def _refuse_searched(root: Node[Any, Any]) -> None:
    if root.searched or root.in_flight:
        raise RuntimeError("this tree is being searched: await that search before advancing")


def expanded(edges: Iterable[Edge[S, A]]) -> Node[S, A]:
    """Makes a node with these edges."""
    node: Node[S, A] = Node()
    node.edges = list(edges)
    return node


def format_tree(root: Node[S, A], label: Callable[[A], str] = str) -> str:
    """Writes a tree as numbered lines with N and Q (Tree of Options, Appendix A.7).

    Args:
        label: names an action.

    Returns:
        A line per edge, parents before children, such as "1.2. Find a cow (N:3, Q:4.983)". Below an
        action with several outcomes each has a line, such as "1.2=fog (N:2)", and the edges after
        it are numbered "1.2=fog.1.".
    """
    lines = [f"ROOT (N:{root.visits}, Q:{root.value:.3f})"]

    def write(node: Node[S, A], number: str) -> None:
        for i, edge in enumerate(node.edges or (), start=1):
            here = f"{number}{i}."
            lines.append(f"{here} {label(edge.action)} (N:{edge.visits}, Q:{edge.value:.3f})")
            below = edge.outcomes
            for seen, child in below.items():
                if len(below) > 1:
                    lines.append(f"{number}{i}={seen} (N:{child.visits})")
                    here = f"{number}{i}={seen}."
                write(child, here)

    write(root, "")
    return "\n".join(lines)
