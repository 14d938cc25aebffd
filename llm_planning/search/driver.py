"""The search itself: draw, select, step, expand, evaluate, back up; several simulations in flight.

With width W, simulation n + W is launched after simulation n is backed up, and backups follow the
order of the launches. So the tree depends on the answers alone, and not on how long each took.

Descents run one after the other. The expansions and evaluations that follow them overlap.
"""

from __future__ import annotations

import asyncio
import sys
from collections import deque
from collections.abc import Awaitable, Callable, Coroutine, Sequence
from dataclasses import dataclass, field
from math import inf
from random import Random
from time import perf_counter
from typing import TYPE_CHECKING, Any, Generic, Literal, NamedTuple, Protocol, TypeAlias

from llm_planning.domain import A, S, Step
from llm_planning.own_code import unexiting
from llm_planning.search.tree import Edge, Node
from llm_planning.search.walk import Checkpoint, TrackedRandom, Walk
from llm_planning.trace import tracing

if TYPE_CHECKING:
    from llm_planning.search.backup import Backup
    from llm_planning.search.selection import Select
    from llm_planning.trace_tree import Asker

_SECONDS_AT_A_STRETCH = 0.005
"""After so many seconds a search yields the event loop to other searches and the engine."""


class Evaluation(NamedTuple, Generic[S, A]):
    """The result of evaluating a node.

    Attributes:
        edges: the edges of a rollout that stays in the tree (Tree of Options, Appendix A.7). Each
            has a certain step. Empty if the rollout does not stay.
        tail: the return from the last of these edges on.
        note: anything for `on_backup`, such as a reflection.
    """

    edges: Sequence[Edge[S, A]] = ()
    tail: float = 0.0
    note: Any = None


class SearchModel(Protocol[S, A]):
    """The world that a search simulates, real or predicted, and the values of its states.

    "Model" means a `SearchModel` in this package, and never a language model.
    """

    def draw_root(self, walk: Walk[S, A]) -> S | Awaitable[S]:
        """Returns s_0 of a simulation: the known state, or s ~ b(s) drawn with `walk.rng`.

        If it draws nothing, it returns the same state in every simulation of a search. It may be a
        coroutine function.
        """
        ...

    async def legal(self, state: S) -> Sequence[A]:
        """Returns the actions that are possible in a state.

        The search calls this only if the history does not determine the state.
        """
        ...

    async def expand(self, node: Node[S, A], walk: Walk[S, A]) -> Sequence[Edge[S, A]]:
        """Returns edges for those actions of `walk.state` that the node lacks.

        A dead end has none.
        """
        ...

    async def step(self, state: S, action: A, rng: Random) -> Step[S]:
        """Simulates an action. All chance comes from `rng`."""
        ...

    async def evaluate(self, node: Node[S, A], walk: Walk[S, A]) -> Evaluation[S, A]:
        """Returns the value of a node.

        The search calls this once for every new node, and at every visit of a node without actions.
        Whoever changes such a node's edges or memo adds a checkpoint to `walk.changed` before.
        """
        ...


BeforeSelect: TypeAlias = Callable[[Node[S, A], Walk[S, A]], Awaitable[object] | None]
"""Maps a node to an awaitable that a descent awaits before it selects there, or to None."""

ExpandAt: TypeAlias = Literal["first", "second"]

_Start: TypeAlias = Callable[[Coroutine[Any, Any, None]], Awaitable[None]]


async def search(
    root: Node[S, A],
    model: SearchModel[S, A],
    *,
    select: Select[S, A],
    backup: Backup[S, A],
    simulations: int | None,
    seconds: float = inf,
    width: int = 1,
    max_depth: int | None = None,
    expand_at: ExpandAt = "first",
    rng: Random | None = None,
    before_select: BeforeSelect[S, A] | None = None,
    on_backup: Callable[[Walk[S, A]], None] | None = None,
) -> int:
    """Runs simulations of Monte Carlo tree search from a root.

    A simulation draws a state, selects among the edges that are legal in it, steps the state and
    follows what it observes, down to a node that is not expanded, the end of the episode or the
    depth limit. It expands and evaluates that node, then backs up along all edges of the descent
    and of the evaluation. A descent that ends at a node which is being expanded starts again after
    the next backup, so no node is expanded twice.

    Width 1 is the papers' sequential algorithm, step for step. If a simulation fails or the search
    is cancelled, all simulations in flight are cancelled and their changes to the tree are undone.
    The tree is then as the last backup left it, and can be searched further.

    Args:
        root: the start of every descent. Another search of the same root continues its tree.
        select: see `Select`; counts simulations in flight.
        simulations: the most to run; None for as many as begin within `seconds`.
        seconds: by the clock; no simulation but the first is launched later.
        width: the most simulations in flight at once.
        max_depth: actions from the root after which a simulation ends; None for no limit.
        expand_at: the visit that expands a node. `first`: the first visit expands and evaluates
            the node (Tree of Options). `second`: the first visit only evaluates the node; the
            second expands it, selects an action there and evaluates the node that this leads to
            (MC-DML, LLM-MCTS). The root is expanded at once.
        rng: every launch gets a random stream of its own from it. By default its seed is N(root),
            so that a search which continues a tree does not repeat earlier draws.
        before_select: see `BeforeSelect`; while a descent waits, nothing is launched or backed up.
        on_backup: called with every walk after its backup.

    Returns:
        How many simulations were run.

    Raises:
        ValueError: `width` is below 1, or nothing bounds the search.
        RuntimeError: another search is running on the same tree.
        DomainError: an outcome of an action is not hashable; see `Edge.follow`.
        Exception: the first error of the model or of a hook, unchanged.
    """
    if width < 1:
        msg = f"width is {width}, but at least one simulation must be in flight: set width to 1"
        raise ValueError(msg)
    if simulations is None and seconds == inf:
        raise ValueError("nothing bounds the search: set simulations or seconds")
    if root.searched or root.in_flight:
        msg = "this tree is being searched already: await that search, or raise its width"
        raise RuntimeError(msg)
    notes = None if (trace := tracing()) is None else trace.search(root)
    running = _Search(
        root=root,
        model=model,
        select=select,
        backup=backup,
        max_depth=max_depth,
        expand_at=expand_at,
        before_select=before_select,
        on_backup=on_backup if notes is None else notes.before(on_backup),
        spare=[TrackedRandom() for _ in range(width)],
        asker=None if notes is None else notes.asker,
        end=perf_counter() + seconds,
    )
    most = sys.maxsize if simulations is None else simulations
    rng = Random(root.visits) if rng is None else rng
    root.searched = True
    try:
        if width == 1:
            await running.run(most, rng, _in_place)
        else:
            await _in_group(
                lambda group: running.run(
                    most, rng, lambda flight: group.create_task(unexiting(flight))
                )
            )
    finally:
        root.searched = False
        _restore(running.changed)
        for walk in reversed(running.flights):
            if width > 1:
                _mark(walk, -1)
            _undo(walk)
        if notes is not None:
            notes.end()
    return running.launched


@dataclass(slots=True, kw_only=True)
class _Search(Generic[S, A]):
    """The arguments of a search and its progress.

    Attributes:
        spare: random generators of no simulation in flight.
        asker: to whom the trace ascribes questions of the present descent; None without a trace.
        end: when launching ends, by `perf_counter`.
        launched: simulations so far.
        flights: simulations in flight, in the order of launch.
        changed: checkpoints of nodes that the present descent has changed, also in its earlier
            attempts with the same draws; see `Walk.changed`.
    """

    root: Node[S, A]
    model: SearchModel[S, A]
    select: Select[S, A]
    backup: Backup[S, A]
    max_depth: int | None
    expand_at: ExpandAt
    before_select: BeforeSelect[S, A] | None
    on_backup: Callable[[Walk[S, A]], None] | None
    spare: list[TrackedRandom]
    asker: Asker | None
    end: float
    launched: int = 0
    flights: deque[Walk[S, A]] = field(default_factory=deque)
    changed: list[Checkpoint[S, A]] = field(default_factory=list)

    async def run(self, simulations: int, rng: Random, start: _Start) -> None:
        """Launches simulations while there is room, and backs up the oldest."""
        flights, spare = self.flights, self.spare
        crowded = len(spare) > 1
        answers: deque[Awaitable[None]] = deque()
        seed: int | None = None
        pause_at = perf_counter() + _SECONDS_AT_A_STRETCH
        while True:
            while spare and self.goes_on(simulations):
                if perf_counter() >= pause_at:
                    await asyncio.sleep(0)
                    pause_at = perf_counter() + _SECONDS_AT_A_STRETCH
                # A descent that starts again keeps its draws. New draws would favour the nodes that
                # are not being expanded.
                seed = rng.getrandbits(64) if seed is None else seed
                walk = await self.descend(seed, self.launched + 1)
                if walk.nodes[-1].pending:
                    break
                seed = None
                spare.pop()
                if self.changed:
                    walk.changed, self.changed = self.changed, []
                if crowded:
                    _mark(walk, 1)
                flights.append(walk)
                answers.append(start(self.fly(walk)))
                if crowded and self.asker is not None:
                    self.asker = self.asker.another()
                self.launched += 1
            if not flights:
                return
            await answers.popleft()
            walk = flights.popleft()
            if crowded:
                _mark(walk, -1)
            for node in walk.nodes:
                node.visits += 1
            for edge in walk.edges:
                edge.visits += 1
            self.backup(walk)
            spare.append(walk.rng)
            if self.on_backup is not None:
                self.on_backup(walk)

    def goes_on(self, simulations: int) -> bool:
        """Whether another simulation is launched."""
        if not self.launched:
            return simulations > 0
        return self.launched < simulations and perf_counter() < self.end

    async def descend(self, seed: int, number: int) -> Walk[S, A]:
        """Walks from the root to a node that is not expanded, or to an end."""
        rng = self.spare[-1]
        rng.restart(seed)
        node = self.root
        walk: Walk[S, A] = Walk(node, rng, self.max_depth)
        if (asker := self.asker) is not None:
            asker.walk, asker.number = walk, number
        drawn = self.model.draw_root(walk)
        walk.state = await drawn if isinstance(drawn, Awaitable) else drawn
        walk.certain = not rng.drawn
        before_select, select = self.before_select, self.select
        while not (node.edges is None or node.pending or walk.ended):
            if before_select is not None and (waiting := before_select(node, walk)) is not None:
                self.changed.append(Checkpoint.of(node))
                await waiting
            edges = node.edges
            if node.mixed or not walk.certain:
                edges = await self.legal(node, edges, walk)
            if not edges:
                break
            edge = select(node, edges)
            step = edge.step if walk.certain else None
            node = walk.go(edge, await self.step(walk, edge) if step is None else step)
        walk.launched = len(walk.edges)
        walk.grows = node.edges is None
        return walk

    async def legal(
        self, node: Node[S, A], known: list[Edge[S, A]], walk: Walk[S, A]
    ) -> list[Edge[S, A]]:
        """Returns the edges that are legal in the walk's state. Adds edges that the node lacks."""
        actions = frozenset(await self.model.legal(walk.state))
        if not actions <= {edge.action for edge in known}:
            self.changed.append(Checkpoint.of(node))
            known.extend(await self.model.expand(node, walk))
            node.mixed = True
        return [edge for edge in known if edge.action in actions]

    async def step(self, walk: Walk[S, A], edge: Edge[S, A]) -> Step[S]:
        """Steps the walk's state. A certain step is kept at its edge."""
        rng = walk.rng
        rng.drawn = False
        walk.trying = edge
        step = await self.model.step(walk.state, edge.action, rng)
        walk.trying = None
        certain = walk.certain and not rng.drawn
        if certain:
            edge.keep(step)
        walk.certain = certain or step.observation is None
        return step

    async def fly(self, walk: Walk[S, A]) -> None:
        """Expands and evaluates the node at the end of a descent."""
        node = walk.nodes[-1]
        if walk.ended:
            return
        first = self.expand_at == "first"
        if node.edges is None and (first or node.visits or node is self.root):
            node.edges = list(await self.model.expand(node, walk))
            node.mixed = not walk.certain
            if node.edges and not first:
                edge = self.select(node, node.edges)
                step = edge.step if walk.certain else None
                node = walk.go(edge, await self.step(walk, edge) if step is None else step)
                if walk.ended:
                    return
        leaf = await self.model.evaluate(node, walk)
        for edge in leaf.edges:
            if edge.step is None:
                raise RuntimeError(f"an evaluation walked {edge!r}, which has no certain step")
            walk.go(edge, edge.step)
        walk.tail = leaf.tail
        walk.note = leaf.note


async def _in_group(body: Callable[[asyncio.TaskGroup], Awaitable[None]]) -> None:
    """Runs `body` in a task group. The first error cancels the rest and is raised unchanged."""
    try:
        async with asyncio.TaskGroup() as group:
            await body(group)
    except BaseExceptionGroup as errors:
        first = errors.exceptions[0]
    else:
        return
    # Raised out of the handler, the error keeps its own cause and context.
    raise first


def _in_place(flight: Coroutine[Any, Any, None]) -> Awaitable[None]:
    """Returns the flight itself: it runs when it is awaited, without a task of its own."""
    return flight


def _mark(walk: Walk[S, A], by: int) -> None:
    """Adds `by` to the in-flight count of every node and edge of the descent.

    The descent's last node is marked as pending for 1, and unmarked for -1.
    """
    launched = walk.launched
    for node in walk.nodes[: launched + 1]:
        node.in_flight += by
    for edge in walk.edges[:launched]:
        edge.in_flight += by
    walk.nodes[launched].pending = by > 0


def _undo(walk: Walk[S, A]) -> None:
    """Removes from the tree the edges and the node that a walk added before its backup."""
    leaf = walk.nodes[walk.launched]
    if walk.grows:
        leaf.edges = None
    if walk.launched and not leaf.visits:
        walk.edges[walk.launched - 1].forget(leaf)
    _restore(walk.changed)


def _restore(changed: Sequence[Checkpoint[S, A]]) -> None:
    """Undoes the changes of a descent, the latest first."""
    for before in reversed(changed):
        before.restore()
