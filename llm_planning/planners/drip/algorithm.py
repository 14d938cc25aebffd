"""DRIP, Algorithm 1: the reasoning tree grows level by level.

The numbers in the margin are the lines of the paper. `decompose`, `executability` and `apply` are
asked by `acting`, in words that `roles` has. Where the pseudo-code is open or inconsistent, it is
read so:

- l.3 decomposes open nodes only. The decompositions of a level are asked for together.
- l.8 goes over pending nodes only.
- l.9 has the third verdict of Tables 8 and 11: a subtask that is done is closed without acting.
- l.11 and l.20 find the children in T: all are added at l.5, as open, and l.11 closes one.
- l.16 ends the passes when nothing was applied; 'done' alone makes no further pass.
- l.22 judges all children again, but only if none remains.
- l.23 judges a parent again before it is applied (Section 3.3 applies it unasked), and gives no F.
- l.25 asks nobody: it holds if every child of the root is closed (Section 3.3) or given up.
- l.28 collects what remains over all parents, without the old F. If nothing does, the planner is
  `stuck`.
- A subtask that equals one above it is dropped. A decomposition into nothing is asked for again at
  the next level (`attempts`), and then fails its node, or gives it up (`empty`).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Generic

from llm_planning.domain import A, S
from llm_planning.planners.drip.acting import Decomposing, ending_of
from llm_planning.planners.drip.outcome import Planned, outcome_of
from llm_planning.planners.drip.tree import ReasoningTree
from llm_planning.roles import gather

if TYPE_CHECKING:
    from collections.abc import Sequence

    from llm_planning.domain import Judged
    from llm_planning.outcome import Outcome
    from llm_planning.planners.drip.acting import Ending
    from llm_planning.planners.drip.roles import DripDomain
    from llm_planning.planners.drip.settings import DripSettings
    from llm_planning.planners.drip.tree import Node, Status
    from llm_planning.specs import Run


class Drip(Generic[S, A]):
    """Algorithm 1.

    Args:
        acting: asks, applies, and keeps S_t and π.
        tree: T, with its root.
    """

    def __init__(
        self,
        acting: Decomposing[S, A],
        tree: ReasoningTree[A],
        settings: Any,  # noqa: ANN401 - a variant reads others
    ) -> None:
        self.acting = acting
        self.tree = tree
        self.settings = settings

    async def plan(self) -> Ending:
        """Runs the algorithm.

        Returns:
            Why it stopped.

        Raises:
            RanOutError: the number of actions or of decompositions is at its limit.
        """
        tree = self.tree
        frontier: list[Node[A]] = [tree.root]  # 1
        for _ in range(self.settings.max_depth):  # 2
            remaining = await self.level(frontier)  # 3 to 24
            if _none_open(tree.root):  # 25
                tree.close(tree.root)
                return "goal"  # 26, 30
            frontier = [node for node in remaining if node.is_open]  # 28
            if not frontier:
                return "stuck"  # not printed
        return "depth"  # 29, 30

    async def level(self, frontier: Sequence[Node[A]]) -> list[Node[A]]:
        """Lines 3 to 24; returns F_remaining of all parents."""
        self.acting.spend(len(frontier))
        decomposed = await gather(  # 5
            self.acting.decompose(node.subtask, asking=_empty(node)) for node in frontier
        )
        remaining: list[Node[A]] = []
        for node, subtasks in zip(frontier, decomposed, strict=True):  # 3
            if node.is_open:
                remaining += await self._children(node, subtasks)
        return remaining

    async def _children(self, node: Node[A], subtasks: Sequence[A]) -> list[Node[A]]:
        """Lines 4 to 23 for one parent; returns F_remaining."""
        children = self.tree.add_children(node, subtasks)  # 4, 5
        if not children:
            if _empty(node) < self.settings.attempts:
                return [node]  # once more, at the next level
            if self.settings.empty == "close":
                self.tree.close(node, "given up")
                await self._check_parent_exec()
            return []
        remaining = await self.carry_out(children)  # 6 to 19
        if not remaining:
            again = await gather(self.judged(child) for child in children)  # 22
            if all(judged.verdict != "false" for judged in again):
                await self._check_parent_exec()  # 23
        return remaining

    async def carry_out(self, pending: Sequence[Node[A]]) -> list[Node[A]]:
        """Lines 6 to 19: applies what is executable until nothing is.

        Each pass judges one pending node after the other. A node that is applied changes the state
        in which the next one is judged.

        Returns:
            F_remaining: what is not executable.
        """
        remaining, before = list(pending), None
        while remaining and self.acting.state is not before:  # 6, 16 to 18
            before = self.acting.state
            remaining = [node for node in remaining if not await self.closes(node)]  # 7 to 15, 19
        return remaining

    async def judged(self, node: Node[A]) -> Judged:
        """executability(g, S_t)."""
        return await self.acting.judge(node.subtask, node.above)

    async def closes(self, node: Node[A]) -> bool:
        """Judges a node, and applies its subtask if it is executable (lines 9 to 13).

        Returns:
            Whether the node is closed: the subtask was done, or is now.
        """
        judged = await self.judged(node)  # 9
        self.tree.note_judgement(node, judged)
        if judged.verdict == "true":
            action = await self.action_of(node)
            before = len(self.acting.plan)
            done = await self.acting.apply(action)  # 10
            if len(self.acting.plan) > before:
                status: Status = "closed" if done else "open"
                self.tree.note_application(node, len(self.acting.plan), action, status)  # 11
        return node.status == "closed"

    async def action_of(self, node: Node[A]) -> A:
        """What is applied for an executable node: its subtask."""
        action: A = node.subtask
        return action

    async def _check_parent_exec(self) -> None:
        """checkParentExec(n_0): applies parents none of whose children is open, deepest first."""
        closed = True
        while closed:
            closed = False
            parents = [node for node in self.tree.nodes[1:] if node.children and node.is_open]
            for node in sorted(parents, key=lambda node: -node.depth):
                if _none_open(node):
                    closed = await self.closes(node) or closed


def _empty(node: Node[A]) -> int:
    """How often a node came apart into nothing."""
    return sum(not attempt for attempt in node.attempts)


def _none_open(node: Node[A]) -> bool:
    """Whether a node has children, and all of them are closed or given up."""
    return bool(node.children) and all(child.status != "open" for child in node.children)


async def drip(
    run: Run[DripDomain[Any, Any], DripSettings], *, algorithm: type[Drip[Any, Any]] = Drip
) -> Outcome:
    """Plans by Algorithm 1, or by a variant of it; then the plan is carried out."""

    async def planned(run: Run[DripDomain[Any, Any], DripSettings]) -> Planned[Any, Any]:
        acting = await Decomposing.begin(run)
        tree: ReasoningTree[Any] = ReasoningTree(run.world.goal)
        ending = await ending_of(algorithm(acting, tree, run.settings).plan())
        return Planned(acting, acting.plan, ending, tree)

    return await outcome_of(run, planned)
