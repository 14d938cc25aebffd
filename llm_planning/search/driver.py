"""The search itself: select, simulate, back up, with one or several iterations in flight.

With width W, iteration n + W is launched once iteration n is backed up, and iterations are backed
up in the order in which they were launched. What a descent sees is then a function of the answers
alone, not of how long each took: with the same answers, the same tree.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable, Coroutine, Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Generic, Protocol, TypeAlias, TypeVar

from llm_planning.search.selection import argmax
from llm_planning.search.tree import Node, P

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Rollout(Generic[P]):
    """What one simulation walked below its leaf.

    Attributes:
        nodes: from the leaf's child on, attached to the tree; rollout nodes stay in it (Tree of
            Options, Appendix A.7). Empty where the leaf is terminal or at the depth limit.
        tail: return from the last node on, for planners that keep no rollout nodes.
    """

    nodes: Sequence[Node[P]] = ()
    tail: float = 0.0


class Returns(Protocol):
    """Maps rewards r̂ [m] and the return after the last of them to returns R [m]."""

    def __call__(self, rewards: Sequence[float], *, tail: float) -> Sequence[float]:
        """Returns R_i of each edge, from the root on."""
        ...


Simulate: TypeAlias = Callable[[Node[P]], Coroutine[Any, Any, Rollout[P]]]
"""Expands a leaf, rolls out from it and says which nodes it walked."""

Ready: TypeAlias = Callable[[Node[P]], Awaitable[object] | None]
"""What a descent has to await before it selects among a node's children; None for nothing."""

_Start: TypeAlias = Callable[[Coroutine[Any, Any, Rollout[P]]], Awaitable[Rollout[P]]]


async def search(
    root: Node[P],
    *,
    select: Callable[[Node[P]], Node[P]],
    simulate: Simulate[P],
    returns: Returns,
    iterations: int,
    width: int = 1,
    ready: Ready[P] | None = None,
    on_iteration: Callable[[int], None] | None = None,
) -> None:
    """Runs iterations of Monte Carlo tree search (Tree of Options, Section 3.1 and Algorithm 1).

    Each iteration descends by `select` to a node without children, simulates from there, and backs
    up: every edge walked, those of the rollout included, gets N ← N + 1 and Q ← Q + (R_i - Q) / N;
    so does the root, whose Q is the mean of R_0. A descent that ends at a node under construction
    is put off until the next backup, so no node is expanded twice.

    Width 1 is the paper's sequential algorithm, step for step. Where a simulation fails or the
    search is cancelled, the other simulations are cancelled, what they had attached is taken off,
    and the tree is as the last backup left it: it can be searched further.

    Args:
        root: where every descent starts; searching it again continues.
        select: picks a child of an expanded node, counting visits in flight.
        simulate: see `Simulate`; may add nodes below its leaf only.
        returns: see `Returns`.
        iterations: how many to run.
        width: most iterations in flight at once.
        ready: see `Ready`; called with every node that a descent passes, before `select`. While a
            descent waits, nothing is launched or backed up; what is in flight goes on.
        on_iteration: called after each backup with the number of iterations backed up.

    Raises:
        ValueError: `width` is below 1.
        RuntimeError: another search is running on the same tree.
        Exception: the first error of a simulation or of `ready`, unchanged.
    """
    if width < 1:
        msg = f"width is {width}, but at least one iteration must be in flight: set width to 1"
        raise ValueError(msg)
    if root.in_flight:
        msg = "this tree is being searched already: await that search, or raise its width"
        raise RuntimeError(msg)
    flights: deque[list[Node[P]]] = deque()

    async def iterate(start: _Start[P]) -> None:
        answers: deque[Awaitable[Rollout[P]]] = deque()
        launched = 0
        for backed_up in range(1, iterations + 1):
            while launched < iterations and len(flights) < width:
                path = await _descend(root, select, ready)
                if path[-1].pending:
                    break
                _take_off(path)
                flights.append(path)
                answers.append(start(simulate(path[-1])))
                launched += 1
            rollout = await answers.popleft()
            _back_up(flights[0], rollout, returns)
            _land(flights.popleft())
            if on_iteration is not None:
                on_iteration(backed_up)

    try:
        if width == 1:
            await iterate(_in_place)
        else:
            await _in_group(lambda group: iterate(group.create_task))
    finally:
        for path in flights:
            _land(path)
            path[-1].children.clear()


async def _in_group(body: Callable[[asyncio.TaskGroup], Awaitable[None]]) -> None:
    """Runs `body` in a task group; the first error cancels the rest and is raised as it was."""
    try:
        async with asyncio.TaskGroup() as group:
            await body(group)
    except BaseExceptionGroup as errors:
        first = errors.exceptions[0]
    else:
        return
    # Raised out of the handler, the error keeps its own cause and context.
    raise first


def _in_place(simulation: Coroutine[Any, Any, Rollout[P]]) -> Awaitable[Rollout[P]]:
    """Leaves a simulation to whoever awaits it: no task, no trip through the event loop."""
    return simulation


async def _descend(
    root: Node[P], select: Callable[[Node[P]], Node[P]], ready: Ready[P] | None
) -> list[Node[P]]:
    """Walks from the root to a node without children, or under construction."""
    node = root
    path = [node]
    while node.children and not node.pending:
        if ready is not None and (waiting := ready(node)) is not None:
            await waiting
        node = select(node)
        path.append(node)
    return path


def _take_off(path: Sequence[Node[P]]) -> None:
    """Marks a path as walked and its leaf as under construction."""
    for node in path:
        node.in_flight += 1
    path[-1].pending = True


def _land(path: Sequence[Node[P]]) -> None:
    """Takes the marks of `_take_off` away."""
    for node in path:
        node.in_flight -= 1
    path[-1].pending = False


def _back_up(path: Sequence[Node[P]], rollout: Rollout[P], returns: Returns) -> None:
    """Credits the root and every edge from it to the end of the rollout with its return."""
    edges = [*path[1:], *rollout.nodes]
    credits_ = returns([edge.reward for edge in edges], tail=rollout.tail)
    root = path[0]
    root.visits += 1
    root.value += ((credits_[0] if edges else rollout.tail) - root.value) / root.visits
    for edge, r_i in zip(edges, credits_, strict=True):
        edge.visits += 1
        edge.value += (r_i - edge.value) / edge.visits


def greedy_path(root: Node[P]) -> list[Node[P]]:
    """Follows argmax Q over visited edges until there is none (Algorithm 1, line 7).

    Args:
        root: where the path starts.

    Returns:
        The nodes below the root, in order; of equal Q, the earlier child.
    """
    path: list[Node[P]] = []
    node = root
    while visited := [child for child in node.children if child.visits]:
        node = visited[argmax([child.value for child in visited])]
        path.append(node)
    return path


async def forest(jobs: Iterable[Callable[[], Awaitable[T]]], *, limit: int) -> list[T]:
    """Runs many searches at once; what they ask of the engine meets in its batches.

    Args:
        jobs: each called, when its turn comes, for one search (or any other work) to await. They
            are drawn one by one, so they may be as many as there are trials.
        limit: most jobs running at once.

    Returns:
        What the jobs returned, in their order.

    Raises:
        ValueError: `limit` is below 1.
        Exception: the first error of a job, unchanged; the other jobs are cancelled.
    """
    if limit < 1:
        msg = f"limit is {limit}, but at least one job must run: set limit to 1"
        raise ValueError(msg)
    queue = enumerate(jobs)
    results: dict[int, T] = {}

    async def work() -> None:
        for index, job in queue:
            results[index] = await job()

    async def start(group: asyncio.TaskGroup) -> None:
        for _ in range(limit):
            group.create_task(work())

    await _in_group(start)
    return [results[index] for index in range(len(results))]
