"""The trace of a run: its events in order. docs/trace-format.md describes them.

Planners need no argument for it. Inside `recording()` there is a current trace, to which searches,
engines and executions add their events. Events are plain values. They become text when the run is
over: see `trace_file`.
"""

from __future__ import annotations

import hashlib
import math
from contextlib import contextmanager
from contextvars import ContextVar
from itertools import islice
from time import perf_counter
from typing import TYPE_CHECKING, Any, Protocol, TypeAlias

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from llm_planning.domain import Step
    from llm_planning.search import Walk
    from llm_planning.search.tree import Edge, Node
    from llm_serving.request import Usage
    from llm_serving.vllm_stats import EngineLoad

IN_FULL = 128
"""The trace has a line for each of the first 128 simulations, then for every 8th, from 256 on for
every 16th, from 512 on for every 32nd, and so on.

Each search counts its own simulations. Until one of them asks the model, all searches of a run
count together.
"""

LOAD_EVERY = 0.25
"""The least seconds between two `load` events."""

_FEWER_BITS = IN_FULL.bit_length() - 3

_LONGEST_OBSERVATION = 1_000
"""The most characters of an observation. The states of some worlds are long."""

Event: TypeAlias = "dict[str, Any]"
"""A JSON object with its `type`."""

OnBackup: TypeAlias = "Callable[[Walk[Any, Any]], None]"


class Gauge(Protocol):
    """An engine that reports its load."""

    def load(self) -> EngineLoad:
        """Returns the number of running and of waiting requests, and the capacity."""
        ...


_TRACE: ContextVar[Trace | None] = ContextVar("trace", default=None)
_TREE: ContextVar[TreeNotes | None] = ContextVar("tree", default=None)
"""The notes of the tree that the current task searched last. A later search may continue it."""


def tracing() -> Trace | None:
    """Returns the trace of the caller's run, or None outside of `recording()`."""
    return _TRACE.get()


@contextmanager
def recording(*, gauges: Sequence[Gauge] = ()) -> Iterator[Trace]:
    """Records the events of the code inside and of the tasks that it starts, and no others.

    Args:
        gauges: engines whose load is recorded, at most every `LOAD_EVERY` seconds.
    """
    trace = Trace(gauges)
    token = _TRACE.set(trace)
    try:
        yield trace
    finally:
        _TRACE.reset(token)
        _TREE.set(None)


class Trace:
    """The events of one run, in the order in which they happened.

    Args:
        gauges: see `recording`.

    Attributes:
        events: JSON-able lines, each with its `type`; without header, summary and end.
    """

    def __init__(self, gauges: Sequence[Gauge] = ()) -> None:
        self.events: list[Event] = []
        self._begun = perf_counter()
        self._gauges = gauges
        self._looked = -math.inf
        self._trees = 0
        self._prompts: dict[tuple[str, str], str] = {}

    def add(self, kind: str, /, **fields: object) -> None:
        """Adds an event that happens now."""
        self.events.append({"type": kind, "at": self.now(), **fields})

    def now(self) -> float:
        """Seconds since the recording began."""
        return round(perf_counter() - self._begun, 6)

    def belief(self, belief: Mapping[str, Any] | str) -> None:
        """Adds what the agent believes from now on.

        Args:
            belief: in words, or JSON-able, such as place -> probability.
        """
        self.add("belief", belief=belief if isinstance(belief, str) else dict(belief))

    def memory(self, text: str, *, kind: str) -> None:
        """Adds a text that the agent remembers from now on.

        Args:
            text: the text.
            kind: of the memory, such as "reflection".
        """
        self.add("memory", kind=kind, text=text)

    def execution(
        self,
        action: object,
        *,
        reward: float = 0.0,
        text: str = "",
        obstacle: str | None = None,
        done: bool = False,
    ) -> None:
        """Adds a real action and its step; see `Step`."""
        said = {"reward": reward, "text": text, "obstacle": obstacle, "done": done}
        self.add("execution", action=str(action), **said)

    def search(self, root: Node[Any, Any]) -> TreeNotes:
        """Begins the notes of a search, before it starts."""
        tree = _TREE.get()
        if tree is None or tree.trace is not self or not tree.goes_on_from(root):
            before = 0 if tree is None or tree.trace is not self else tree.earlier
            tree = TreeNotes(self, self._trees, root, before)
            self._trees += 1
            _TREE.set(tree)
        tree.begin(root)
        return tree

    def question(self, usage: Usage, **fields: object) -> None:
        """Adds a question that was just answered, and the engines' load if that is due."""
        now = self.now()
        if (tree := _TREE.get()) is not None and tree.trace is self:
            tree.questions += 1
        self.events.append(
            {
                "type": "role",
                "at": round(now - usage.seconds, 6),
                **fields,
                "prompt_tokens": usage.prompt_tokens,
                "cached_tokens": usage.cached_tokens,
                "completion_tokens": usage.completion_tokens,
                "replayed": usage.replayed,
                "seconds": usage.seconds,
            }
        )
        if self._gauges and now - self._looked >= LOAD_EVERY:
            self._looked = now
            for gauge in self._gauges:
                load = gauge.load()
                self.add("load", batch=load.running, waiting=load.waiting, capacity=load.capacity)

    def prompt(self, text: str, model: str, count: Callable[[str], int | None]) -> str:
        """Returns the id of a system message, and adds the message at its first use.

        Args:
            text: the system message.
            model: the name of the model that reads it.
            count: counts its tokens; called once.
        """
        id_ = self._prompts.get((text, model))
        if id_ is None:
            id_ = hashlib.sha256(f"{model}\0{text}".encode("utf-8", "replace")).hexdigest()[:16]
            self._prompts[text, model] = id_
            self.add("prompt", id=id_, model=model, text=text, tokens=count(text))
        return id_


class _Known:
    """A node that the trace has a line for.

    Attributes:
        id: its number within its tree.
        above: id of the node above; None for the root of the first search.
        edges: each edge with its id and its prior in the trace; None before they have a line.
    """

    __slots__ = ("above", "edges", "id")

    def __init__(self, id_: int, above: int | None) -> None:
        self.id = id_
        self.above = above
        self.edges: dict[Edge[Any, Any], tuple[str, float]] | None = None


class TreeNotes:
    """Adds the searches of one tree to a trace: nodes and edges when simulations meet them.

    Ids count within the tree, so that they do not depend on concurrent searches.

    Args:
        trace: of the run.
        number: of the tree.
        root: of the first search.
        before: simulations of all earlier searches; None if one of them asked the model.

    Attributes:
        trace: as given.
        questions: number of questions to the model during the present search.
        earlier: `before` with the earlier searches of this tree.
    """

    def __init__(self, trace: Trace, number: int, root: Node[Any, Any], before: int | None) -> None:
        self.trace = trace
        self.questions = 0
        self.earlier = before
        self._number = number
        self._root = root
        self._nodes: dict[Node[Any, Any], _Known] = {}
        self._next = self._first = self._told = 0
        self._tell_node(root, None, None)

    def goes_on_from(self, root: Node[Any, Any]) -> bool:
        """Whether a node belongs to this tree. If so, forgets all nodes that are not below it."""
        if root not in self._nodes:
            # A real step may lead to a node without a line, or without any simulation.
            above = self._nodes[self._root]
            for edge, (id_, _) in (above.edges or {}).items():
                if root in edge.outcomes.values():
                    self._tell_node(root, (above.id, id_), edge.step)
        known = self._nodes.get(root)
        if known is None:
            return False
        below = {known.id}
        kept = {root: known}
        # The nodes are in the order of their lines, so a node comes after the one above it.
        for node, one in self._nodes.items():
            if one.above in below:
                below.add(one.id)
                kept[node] = one
        self._nodes = kept
        return True

    def begin(self, root: Node[Any, Any]) -> None:
        """Adds the beginning of a search at a known node."""
        self._root = root
        self._first = root.visits
        self.questions = self._told = 0
        self.trace.add("search", tree=self._number, root=self._nodes[root].id)

    def before(self, then: OnBackup | None) -> OnBackup:
        """Makes the hook that adds walks after their backup; `IN_FULL` says which have a line.

        Args:
            then: another hook to call with every walk; None for none.
        """
        root, first, earlier = self._root, self._first, self.earlier or 0
        due = 0

        def walked(walk: Walk[Any, Any]) -> None:
            nonlocal due
            visits = root.visits
            if visits >= due:
                number = visits - first
                count = earlier + number
                due = visits + (1 if count < IN_FULL else 1 << count.bit_length() - _FEWER_BITS)
                self._tell_walk(walk, number)
            if then is not None:
                then(walk)

        return walked

    def end(self) -> None:
        """Adds the end of a search, which may have been cancelled."""
        root = self._root
        known = self._nodes[root]
        edges = {} if root.edges is None else self._tell_edges(root, known)
        simulations = root.visits - self._first
        self.trace.add(
            "decision",
            tree=self._number,
            root=known.id,
            simulations=simulations,
            left_out=simulations - self._told,
            visits=root.visits,
            value=root.value,
            edges=[id_ for id_, _ in edges.values()],
            N=[edge.visits for edge in edges],
            Q=[edge.value for edge in edges],
        )
        if self.questions or self.earlier is None:
            self.earlier = None
        else:
            self.earlier += simulations

    def _tell_walk(self, walk: Walk[Any, Any], number: int) -> None:
        self._told += 1
        known_nodes = self._nodes
        above = walk.nodes[0]
        known = known_nodes[above]
        nodes = [known.id]
        edges = []
        for edge, step, node in zip(walk.edges, walk.steps, islice(walk.nodes, 1, None)):  # noqa: B905
            told = known.edges and known.edges.get(edge)
            if not told or told[1] != edge.prior:
                told = self._tell_edges(above, known)[edge]
            edges.append(told[0])
            above = node
            known = known_nodes.get(node) or self._tell_node(node, (known.id, told[0]), step)
            nodes.append(known.id)
        if above.edges is not None and (known.edges is None or len(known.edges) < len(above.edges)):
            self._tell_edges(above, known)
        self.trace.events.append(
            {
                "type": "simulation",
                "at": self.trace.now(),
                "tree": self._number,
                "number": number,
                "nodes": nodes,
                "edges": edges,
                "descent": walk.launched,
                "rewards": [step.reward for step in walk.steps],
                "tail": walk.tail,
                "N": [edge.visits for edge in walk.edges],
                "Q": [edge.value for edge in walk.edges],
                "note": None if walk.note is None else str(walk.note),
            }
        )

    def _tell_node(
        self, node: Node[Any, Any], edge: tuple[int, str] | None, step: Step[Any] | None
    ) -> _Known:
        known = self._nodes[node] = _Known(self._next, edge and edge[0])
        self._next += 1
        seen = None if step is None else str(step.seen)
        if seen is not None and len(seen) > _LONGEST_OBSERVATION:
            seen = seen[:_LONGEST_OBSERVATION] + "…"
        self.trace.events.append(
            {
                "type": "node",
                "at": self.trace.now(),
                "tree": self._number,
                "id": known.id,
                "edge": edge and edge[1],
                "observation": seen,
                "text": "" if step is None else step.text,
            }
        )
        return known

    def _tell_edges(
        self, node: Node[Any, Any], known: _Known
    ) -> dict[Edge[Any, Any], tuple[str, float]]:
        """Adds a node's edges if they differ from the last line about them; returns their ids."""
        edges = node.edges or ()
        now = {edge: (f"{known.id}.{place}", edge.prior) for place, edge in enumerate(edges)}
        if now != known.edges:
            known.edges = now
            self.trace.events.append(
                {
                    "type": "edges",
                    "at": self.trace.now(),
                    "tree": self._number,
                    "node": known.id,
                    "actions": [str(edge.action) for edge in edges],
                    "priors": [edge.prior for edge in edges],
                    "first_play": [edge.first_play for edge in edges],
                }
            )
        return now
