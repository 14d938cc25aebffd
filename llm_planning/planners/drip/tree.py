"""The reasoning tree T: subtasks, what they were judged, and which of them are in the plan."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Generic, Literal, TypeAlias

from llm_planning.domain import A, Judged
from llm_planning.trace import tracing

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

Status: TypeAlias = Literal["open", "closed", "given up"]
"""Closed: carried out, or done already. Given up: impossible, and not waited for any longer."""

_MARKS = {"open": "…", "closed": "✓", "given up": "✗"}


@dataclass(eq=False, slots=True)
class Node(Generic[A]):
    """n_dj: a subtask g_dj and its executability.

    Attributes:
        subtask: g_dj, an `A`; None for the goal g_00.
        parent: the node that it was decomposed from; None for the root.
        judged: its last judgement; None before the first.
        status: see `Status`.
        steps: its places in π, from 1.
        instead: the action that was applied in its place; None if it was applied itself.
        attempts: the children of each decomposition of this node, oldest first.
    """

    id: int
    subtask: Any
    parent: Node[A] | None
    judged: Judged | None = None
    status: Status = "open"
    steps: list[int] = field(default_factory=list)
    instead: Any = None
    attempts: list[tuple[Node[A], ...]] = field(default_factory=list)

    @property
    def depth(self) -> int:
        """d, the levels above this node; 0 for the root."""
        return 0 if self.parent is None else self.parent.depth + 1

    @property
    def children(self) -> tuple[Node[A], ...]:
        """The children of the last decomposition."""
        return self.attempts[-1] if self.attempts else ()

    @property
    def path(self) -> tuple[Node[A], ...]:
        """The nodes from the root to this one."""
        return (*(self.parent.path if self.parent else ()), self)

    @property
    def is_open(self) -> bool:
        """Whether this node and all above are open, and of their parents' last decompositions."""
        if self.status != "open":
            return False
        return self.parent is None or (self in self.parent.children and self.parent.is_open)

    @property
    def was_given_up(self) -> bool:
        """Whether its subtask was given up earlier, below one of the subtasks that it is for."""
        return any(
            before.status == "given up" and before.subtask == self.subtask
            for above in self.path[1:-1]
            for children in above.attempts
            for before in children
        )

    @property
    def reason(self) -> str:
        """Why its last verdict is as it is; empty before the first."""
        return self.judged.reason if self.judged else ""

    @property
    def above(self) -> A | None:
        """The subtask of the parent; None if that is the goal."""
        return self.parent.subtask if self.parent else None


class ReasoningTree(Generic[A]):
    """T. Each change of a node is an event `subtask` of the trace.

    Args:
        goal: in words.

    Attributes:
        root: n_00.
        nodes: all nodes, oldest first.
    """

    def __init__(self, goal: str) -> None:
        self._goal = goal
        self.root: Node[A] = Node(0, None, None)
        self.nodes: list[Node[A]] = [self.root]
        self._trace(self.root)

    @property
    def depth(self) -> int:
        """The greatest depth of a node."""
        return max(node.depth for node in self.nodes)

    @property
    def deepest_open(self) -> Node[A] | None:
        """The open node furthest from the goal, of several the first; None if there is none."""
        open_nodes = [node for node in self.nodes[1:] if node.is_open]
        return max(open_nodes, key=lambda node: node.depth, default=None)

    def add_children(self, node: Node[A], subtasks: Sequence[A]) -> tuple[Node[A], ...]:
        """Adds the children of a decomposition.

        A subtask that equals one on the path is left out: it would lead back to itself. So is one
        that the decomposition names twice.
        """
        known = {above.subtask for above in node.path}
        new = [subtask for subtask in dict.fromkeys(subtasks) if subtask not in known]
        children = tuple(Node(len(self.nodes) + i, subtask, node) for i, subtask in enumerate(new))
        self.nodes.extend(children)
        node.attempts.append(children)
        for child in children:
            self._trace(child)
        return children

    def note_judgement(self, node: Node[A], judged: Judged) -> None:
        """Notes a judgement. A subtask that is done is closed."""
        node.judged = judged
        node.status = "closed" if judged.verdict == "done" else "open"
        self._trace(node)

    def note_application(self, node: Node[A], step: int, action: A, status: Status) -> None:
        """Notes that a subtask was carried out.

        Args:
            step: its place in π, from 1.
            action: what was applied.
            status: closed, or open if it was carried out only in part.
        """
        node.steps.append(step)
        node.instead = None if action == node.subtask else action
        self.close(node, status)

    def renumber(self, steps: Sequence[int]) -> None:
        """Numbers the plan anew after actions were dropped.

        Args:
            steps: the places of the actions that were kept, from 1, in order.
        """
        now = {step: number for number, step in enumerate(steps, start=1)}
        for node in self.nodes:
            node.steps = [now[step] for step in node.steps if step in now]

    def close(self, node: Node[A], status: Status = "closed") -> None:
        """Sets the status of a node."""
        node.status = status
        self._trace(node)

    def to_json(self) -> dict[str, Any]:
        """For a trace: nested, with the children of all decompositions of a node."""
        return _json(self.root)

    def __str__(self) -> str:
        """A line for each node, below its parent.

        After the subtask come its places in the plan, its last verdict with the reason, and a mark:
        ✓ closed, … open, ✗ given up.
        """
        return "\n".join([f"{_MARKS[self.root.status]} {self._goal}", *_lines(self.root, "")])

    def _trace(self, node: Node[A]) -> None:
        if (trace := tracing()) is not None:
            trace.add(
                "subtask",
                id=node.id,
                above=node.parent.id if node.parent else None,
                **_fields(node),
            )


def _fields(node: Node[Any]) -> dict[str, Any]:
    verdict, reason = node.judged or (None, "")
    return {
        "subtask": None if node.subtask is None else str(node.subtask),
        "verdict": verdict,
        "reason": reason,
        "status": node.status,
        "steps": list(node.steps),
        "instead": None if node.instead is None else str(node.instead),
    }


def _json(node: Node[Any]) -> dict[str, Any]:
    return {
        **_fields(node),
        "attempts": [[_json(child) for child in children] for children in node.attempts],
    }


def _lines(node: Node[Any], indent: str) -> Iterator[str]:
    children = [child for attempt in node.attempts for child in attempt]
    for child in children:
        last = child is children[-1]
        instead = "" if child.instead is None else f" {child.instead}"
        steps = f" [{', '.join(map(str, child.steps))}{instead}]" if child.steps else ""
        verdict, reason = child.judged or (None, "")
        judgement = f" {verdict}: {reason}" if reason else f" {verdict}" if verdict else ""
        branch = "└─ " if last else "├─ "
        yield f"{indent}{branch}{_MARKS[child.status]} {child.subtask}{steps}{judgement}"
        yield from _lines(child, indent + ("   " if last else "│  "))
