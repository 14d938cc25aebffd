"""Algorithm 1: the reasoning tree grows level by level.

Where the pseudo-code is inconsistent, it is read so:

- l.3 decomposes open nodes only. The decompositions of a level are asked for together.
- l.8 goes over pending nodes only.
- l.16 ends the passes when nothing was applied; 'done' alone makes no further pass.
- l.20 comes after the loop: only nodes that stay false are open children.
- l.22 judges all children again, and l.23 judges a parent again before it is applied. (Section 3.3
  applies it unasked.)
- l.25 holds if every child of the root is closed.
- l.28 collects what remains over all parents.
- A subtask that is done is closed without acting.
- A subtask that equals one above it is dropped. A decomposition into nothing fails its node, or
  gives it up (`empty`).

With the reading `redo`, which is ours, the root's children are judged anew after each level. What
was undone is then open again, unless nodes below it still are.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Generic

from llm_planning.domain import A, S
from llm_planning.planners.drip.acting import Decomposing, ended
from llm_planning.planners.drip.outcome import outcome_of
from llm_planning.planners.drip.progress import Progress
from llm_planning.planners.drip.tree import ReasoningTree
from llm_planning.roles import gather

if TYPE_CHECKING:
    from collections.abc import Sequence

    from llm_planning.outcome import Outcome
    from llm_planning.planners.drip.acting import Ending
    from llm_planning.planners.drip.questions import DripDomain
    from llm_planning.planners.drip.settings import DripSettings
    from llm_planning.planners.drip.tree import Node
    from llm_planning.roles import Engines
    from llm_planning.specs import Problem


async def drip(
    problem: Problem[DripDomain[Any, Any]],
    *,
    engines: Engines,
    settings: DripSettings,
    seed: int,
) -> Outcome:
    """DRIP (Algorithm 1)."""
    acting = await Decomposing.begin(problem, engines, settings, seed=seed)
    tree: ReasoningTree[Any] = ReasoningTree(problem.world.goal)
    ending = await ended(Levels(acting, tree, settings).plan())
    return await outcome_of(
        problem, acting, acting.plan, settings=settings, ending=ending, tree=tree
    )


class Levels(Generic[S, A]):
    """DRIP."""

    def __init__(
        self, acting: Decomposing[S, A], tree: ReasoningTree[A], settings: DripSettings
    ) -> None:
        self._acting = acting
        self._tree = tree
        self._progress: Progress[S, A] = Progress(acting, tree)
        self._settings = settings

    async def plan(self) -> Ending:
        """Runs Algorithm 1.

        Returns:
            Why it stopped.

        Raises:
            RanOutError: the number of actions or of decompositions is at its limit.
        """
        acting, tree = self._acting, self._tree
        frontier: list[Node[A]] = [tree.root]
        for _ in range(self._settings.max_depth):
            acting.spend(len(frontier))
            decomposed = await gather(acting.decompose(node.subtask) for node in frontier)
            remaining: list[Node[A]] = []
            for node, subtasks in zip(frontier, decomposed, strict=True):
                if node.is_open:
                    remaining += await self._carry_out_children(node, subtasks)
            if self._settings.reading == "redo":
                remaining += await self._judge_anew(remaining)
            if _is_executable(tree.root):
                tree.closed(tree.root)
                return "goal"
            frontier = [node for node in remaining if node.is_open]
            if not frontier:
                return "stuck"
        return "depth"

    async def _carry_out_children(self, node: Node[A], subtasks: Sequence[A]) -> list[Node[A]]:
        """Lines 4 to 23 for one parent; returns F_remaining."""
        children = self._tree.decomposed(node, subtasks)
        if not children:
            if sum(not one for one in node.attempts) < self._settings.attempts:
                return [node]
            if self._settings.empty == "close":
                self._tree.closed(node, "given up")
                await self._check_parent_exec()
            return []
        remaining = await self._progress.carry_out(children)
        if not remaining:
            again = await gather(self._progress.judged(child) for child in children)
            if all(judged.verdict != "false" for judged in again):
                await self._check_parent_exec()
        return remaining

    async def _check_parent_exec(self) -> None:
        """checkParentExec(n_0): applies parents all of whose children are closed, deepest first."""
        found = True
        while found:
            found = False
            parents = [node for node in self._tree.nodes[1:] if node.children and node.is_open]
            for node in sorted(parents, key=lambda node: -node.depth):
                if not _is_executable(node):
                    continue
                closed = await self._progress.closes(node, await self._progress.judged(node))
                found = found or closed

    async def _judge_anew(self, remaining: Sequence[Node[A]]) -> list[Node[A]]:
        """Judges the root's children anew; returns those to decompose again."""
        children = [child for child in self._tree.root.children if child.status != "given up"]
        left = await self._progress.carry_out(children)
        in_progress = {above for node in remaining if node.is_open for above in node.path}
        return [child for child in left if child not in in_progress]


def _is_executable(node: Node[A]) -> bool:
    """Whether all children of a node are closed or given up."""
    return bool(node.children) and all(child.status != "open" for child in node.children)
