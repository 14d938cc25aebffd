"""DRIP, Algorithm 1, slow and in the order of its lines.

The numbers in the margin are the paper's lines. A role is a callable: decompose(g), judge(g, S)
(the paper's executability), act(g, S) (its apply: the next condition). What is asked is kept.
"""

from collections.abc import Callable, Hashable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any


@dataclass(eq=False)
class Node:
    """n = {g, true or false}, at its depth below the root."""

    goal: Hashable
    depth: int
    true: bool = False
    children: "list[Node]" = field(default_factory=list)


@dataclass
class Outcome:
    """The plan, the condition it ends in, the tree, the frontier left, the questions in order."""

    plan: list[Hashable]
    state: Hashable
    root: Node
    frontier: list[Node]
    asked: list[tuple[Any, ...]]


def nodes(root: Node) -> Iterator[Node]:
    """The tree, parents before their children."""
    yield root
    for child in root.children:
        yield from nodes(child)


def drip(
    initial: Hashable, goal: Hashable, roles: Mapping[str, Callable[..., Any]], *, max_depth: int
) -> Outcome:
    """Algorithm 1. `judge` answers "true", "false" or "done" (A.3.1: achieved)."""
    root = Node(goal, 0)  # 1
    out = Outcome([], initial, root, [root], [])  # 1

    def ask(role: str, *question: Any) -> Any:
        out.asked.append((role, *question))
        return roles[role](*question)

    def perform(node: Node) -> None:
        out.plan.append(node.goal)  # 10: π is a list (§3.1), so a subtask can stand in it twice
        out.state = ask("act", node.goal, out.state)  # 10
        node.true = True  # 11

    def check_parents(depth: int) -> None:
        # 23, §3.3: from the current depth upward, unasked; the root is left to line 25 (A.2.2).
        for level in range(depth, 0, -1):
            for node in [n for n in nodes(root) if n.depth == level and not n.true]:
                if node.children and all(child.true for child in node.children):
                    perform(node)
                    out.frontier.remove(node)

    for d in range(1, max_depth + 1):  # 2
        for parent in [n for n in out.frontier if n.depth == d - 1]:  # 3: those of F (§3.1)
            subtasks = dict.fromkeys(ask("decompose", parent.goal))  # 5: a set, each once
            parent.children = [Node(g, d) for g in subtasks]  # 20: also those that stall at once
            pending = list(parent.children)  # 4, 5
            while pending:  # 6
                remaining = []  # 7
                for node in pending:  # 8: j = 0 to k is printed; §3.2 asks the pending ones again
                    answer = ask("judge", node.goal, out.state)  # 9
                    if answer == "true":
                        perform(node)  # 10, 11
                    elif answer == "done":
                        node.true = True
                    else:
                        remaining.append(node)  # 13
                if remaining == pending:  # 16
                    break  # 17
                pending = remaining  # 19
            out.frontier += pending  # 28: printed after 24, where the last parent's alone count
            if parent.children and not pending:  # 22: by the marks, unasked, as in §3.3
                check_parents(d - 1)  # 23
        if ask("judge", goal, out.state) != "false":  # 25, every depth, even with none left in 3
            break  # 26
    return out  # 30
