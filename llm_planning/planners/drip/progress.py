"""Subtasks of the tree are judged, and carried out if they are executable."""

from __future__ import annotations

from typing import TYPE_CHECKING, Generic

from llm_planning.domain import A, S, settled

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Sequence

    from llm_planning.domain import Judged
    from llm_planning.planners.drip.acting import Decomposing
    from llm_planning.planners.drip.tree import Node, ReasoningTree, Status


async def never() -> bool:
    """DRIP does not test its goal."""
    return False


class Progress(Generic[S, A]):
    """What was done in the tree.

    Args:
        acting: asks, applies and keeps the plan.
        tree: T.
        reached: whether the goal holds; nothing is carried out any more then.
        spared: puts another action in the place of one, given the state; None keeps actions.
    """

    def __init__(
        self,
        acting: Decomposing[S, A],
        tree: ReasoningTree[A],
        *,
        reached: Callable[[], Awaitable[bool]] = never,
        spared: Callable[[S, A], A | Awaitable[A]] | None = None,
    ) -> None:
        self.acting = acting
        self.tree = tree
        self._reached = reached
        self._spared = spared

    async def judged(self, node: Node[A]) -> Judged:
        """Judges a node in the present state."""
        return await self.acting.judge(node.subtask, node.above)

    async def closes(self, node: Node[A], judged: Judged) -> bool:
        """Notes a judgement of the present state, and applies the subtask if it is executable.

        Returns:
            Whether the node is closed: the subtask was done, or is now.
        """
        self.tree.judged(node, judged)
        if judged.verdict == "true":
            action = node.subtask
            if self._spared is not None:
                action = await settled(self._spared(self.acting.state, action))
            before = len(self.acting.plan)
            done = await self.acting.apply(action)
            if len(self.acting.plan) > before:
                status: Status = "closed" if done else "open"
                self.tree.applied(node, len(self.acting.plan), action, status)
        return node.status == "closed"

    async def carry_out(self, pending: Sequence[Node[A]]) -> list[Node[A]]:
        """Applies what is executable until nothing is (Algorithm 1, lines 6 to 19).

        Each pass judges one pending node after the other. A node that is applied changes the state
        in which the next one is judged.

        Returns:
            F_remaining: what is not executable.
        """
        remaining, before = list(pending), None
        while remaining and self.acting.state is not before:
            before = self.acting.state
            remaining = [
                node
                for node in remaining
                if await self._reached() or not await self.closes(node, await self.judged(node))
            ]
        return remaining
