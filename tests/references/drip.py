"""DRIP, Algorithm 1, slow and in the order of its lines.

The numbers in the margin are the paper's lines. A role is a callable: decompose(g), judge(g, S)
(the paper's executability), act(g, S) (its apply: the next condition). What is asked is kept.
"""

from collections.abc import Callable, Collection, Hashable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any


@dataclass(eq=False)
class Node:
    """n = {g, true or false}, at its depth below the root."""

    goal: Hashable
    depth: int
    true: bool = False
    children: "list[Node]" = field(default_factory=list)

    @property
    def complete(self) -> bool:
        """Whether all its children are true, and there are some (§3.3)."""
        return bool(self.children) and all(child.true for child in self.children)


@dataclass
class Outcome:
    """The plan, the condition it ends in, the tree, the questions in order."""

    plan: list[Hashable]
    state: Hashable
    root: Node
    asked: list[tuple[Any, ...]]


def nodes(root: Node) -> Iterator[Node]:
    """The tree, parents before their children."""
    yield root
    for child in root.children:
        yield from nodes(child)


def drip(
    initial: Hashable,
    goal: Hashable,
    roles: Mapping[str, Callable[..., Any]],
    *,
    max_depth: int,
    asking: Collection[int],
) -> Outcome:
    """Algorithm 1. `judge` answers "true", "false" or "done" (A.3.1: achieved, so not acted on).

    Lines 22 and 25 print `executability`, and line 23 a function: §3.3 has all three follow from
    the marks of the children, without a question. `asking` names those of them that ask.
    """
    root = Node(goal, 0)  # 1
    out, frontier = Outcome([], initial, root, []), [root]  # 1

    def ask(role: str, *question: Any) -> Any:
        out.asked.append((role, *question))
        return roles[role](*question)

    def perform(node: Node) -> None:
        out.plan.append(node.goal)  # 10: π is a list (§3.1), so a subtask can stand in it twice
        out.state = ask("act", node.goal, out.state)  # 10
        node.true = True  # 11

    def closes(node: Node) -> bool:
        answer = ask("judge", node.goal, out.state)  # 9
        if answer == "true":
            perform(node)
        node.true = answer != "false"
        return node.true

    def check_parents() -> None:
        # 23, §3.3, Figure 4: from the deepest up, until none is left; the root is left to line 25.
        found = True
        while found:
            found = False
            for node in sorted(nodes(root), key=lambda node: -node.depth):
                if node is not root and node.complete and not node.true:
                    if 23 not in asking:
                        perform(node)
                    elif not closes(node):
                        continue
                    frontier.remove(node)
                    found = True

    for d in range(1, max_depth + 1):  # 2
        for parent in [node for node in frontier if node.depth == d - 1]:  # 3: those of F (§3.1)
            subtasks = dict.fromkeys(ask("decompose", parent.goal))  # 5: a set, each once
            parent.children = [Node(g, d) for g in subtasks]  # 20: also those that stall at once
            pending = list(parent.children)  # 4, 5
            while pending:  # 6
                before = len(out.plan)
                # 7 to 15: j = 0 to k is printed; §3.2 judges the pending ones again.
                pending = [node for node in pending if not closes(node)]  # 19
                if len(out.plan) == before:  # 16: nothing done; "done" is not in the algorithm
                    break  # 17
            frontier += pending  # 28: printed after 24, where the last parent's alone count
            if parent.complete:  # 22
                asked = [
                    22 not in asking or ask("judge", child.goal, out.state) != "false"
                    for child in parent.children
                ]
                if all(asked):
                    check_parents()  # 23
        if root.complete if 25 not in asking else ask("judge", goal, out.state) != "false":  # 25
            break  # 26
    return out  # 30
