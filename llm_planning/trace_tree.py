"""The lines of a search tree in a trace, and which of its nodes asked a question.

`Trace` makes the notes of a search, and the search driver tells them what it does.
"""

from __future__ import annotations

from collections import defaultdict
from contextlib import contextmanager
from contextvars import ContextVar
from itertools import islice
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias

if TYPE_CHECKING:
    from collections.abc import Callable, Hashable, Iterator

    from llm_planning.domain import Step
    from llm_planning.events import Event, Events
    from llm_planning.search.tree import Edge, Node
    from llm_planning.search.walk import Walk

IN_FULL = 128
"""The trace has a line for each of the first 128 simulations, then for every 8th, from 256 on for
every 16th, from 512 on for every 32nd, and so on.

Each search counts its own simulations. Until one of them asks the model, all searches of a run
count together.
"""

_FEWER_BITS = IN_FULL.bit_length() - 3

_LONGEST_OBSERVATION = 1_000
"""The most characters of an observation. The states of some worlds are long."""

_OF_THE_ASKER = frozenset({"tree", "simulation", "node", "about", "edge"})
"""Fields of a question's line that say who asked it. Where simulations in flight want the same
answer, it may be any of them."""

_UNREPEATABLE = frozenset({"at", "seconds", "cached_tokens", "shared", "replayed", "observation"})
"""Fields of times, speeds and shares of caches. The text of a state may depend on the process, as
the order of a set does."""

OnBackup: TypeAlias = "Callable[[Walk[Any, Any]], None]"


def repeatable_fields(event: Event) -> Event:
    """A line of a trace without what may differ between runs with the same answers."""
    apart = _UNREPEATABLE | _OF_THE_ASKER if event["type"] == "role" else _UNREPEATABLE
    return {key: value for key, value in event.items() if key not in apart}


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


class Asker:
    """Who asks in a task: the simulation that is under way there.

    Attributes:
        walk: the simulation, or its present attempt.
        number: of the simulation, from 1 in each search.
    """

    __slots__ = ("notes", "number", "walk")

    walk: Walk[Any, Any]

    def __init__(self, notes: TreeNotes) -> None:
        self.notes = notes
        self.number = 0

    def another(self) -> Asker:
        """Leaves this one to the tasks made so far, and makes one for those made from now on."""
        asker = Asker(self.notes)
        _ASKER.set(asker)
        return asker


_ASKER: ContextVar[Asker | None] = ContextVar("asker", default=None)
_AT: ContextVar[Node[Any, Any] | None] = ContextVar("at", default=None)
_ABOUT: ContextVar[object] = ContextVar("about", default=None)


@contextmanager
def asking_at(node: Node[Any, Any]) -> Iterator[None]:
    """Questions inside are asked at a node that the walk has yet to reach.

    Without it, the node is the last of the walk.
    """
    token = _AT.set(node)
    try:
        yield
    finally:
        _AT.reset(token)


@contextmanager
def asking_about(action: Hashable) -> Iterator[None]:
    """Questions inside are about an action of the node at which they are asked.

    A search model's `step` needs no such word: the driver knows the action.
    """
    token = _ABOUT.set(action)
    try:
        yield
    finally:
        _ABOUT.reset(token)


def note_question(trace: Events, event: Event) -> None:
    """Notes who asked a question that was just answered, if a simulation did."""
    asker = _ASKER.get()
    if asker is not None and asker.notes.trace is trace:
        walk = asker.walk
        edge = walk.trying
        about = _ABOUT.get() if edge is None else edge.action
        question = _Question(event, walk, _AT.get() or walk.nodes[-1], edge, about)
        asker.notes.asked(question, asker.number)


class _Question(NamedTuple):
    """A question of a simulation.

    Attributes:
        event: its line.
        walk: that asked.
        node: at which it was asked.
        edge: that was tried; None if none was.
        about: the action that it was about; None if it was about none.
    """

    event: Event
    walk: Walk[Any, Any]
    node: Node[Any, Any]
    edge: Edge[Any, Any] | None
    about: object


class TreeNotes:
    """Adds the searches of one tree to a trace: nodes and edges when simulations meet them.

    Ids count within the tree, so that they do not depend on concurrent searches.

    Args:
        before: simulations of all earlier searches; None if one of them asked the model.

    Attributes:
        trace: as given.
        questions: number of questions to the model during the present search.
        asker: who asks in the search's own task; None outside of a search.
        earlier: `before` with the earlier searches of this tree.
    """

    def __init__(
        self, trace: Events, number: int, root: Node[Any, Any], before: int | None
    ) -> None:
        self.trace = trace
        self.questions = 0
        self.asker: Asker | None = None
        self.earlier = before
        self._number = number
        self._root = root
        self._nodes: dict[Node[Any, Any], _Known] = {}
        self._asked: defaultdict[int, list[_Question]] = defaultdict(list)
        self._next = self._first = self._lines = 0
        self._add_node(root, None, None)

    def goes_on_from(self, root: Node[Any, Any]) -> bool:
        """Whether a node belongs to this tree. If so, forgets all nodes that are not below it."""
        if root not in self._nodes:
            # A real step may lead to a node without a line, or without any simulation.
            above = self._nodes[self._root]
            for edge, (id_, _) in (above.edges or {}).items():
                if root in edge.outcomes.values():
                    self._add_node(root, (above.id, id_), edge.step)
        known = self._nodes.get(root)
        if known is None:
            return False
        below = {known.id}
        kept = {root: known}
        # The nodes are in the order of their lines, so a node comes after the one above it.
        for node, traced in self._nodes.items():
            if traced.above in below:
                below.add(traced.id)
                kept[node] = traced
        self._nodes = kept
        return True

    def begin(self, root: Node[Any, Any]) -> None:
        """Adds the beginning of a search at a known node."""
        self._root = root
        self._first = root.visits
        self.questions = self._lines = 0
        self.asker = Asker(self)
        # Another search may be under way around this one.
        self._outside = (_ASKER.set(self.asker), _AT.set(None), _ABOUT.set(None))
        self.trace.add("search", tree=self._number, root=self._nodes[root].id)

    def asked(self, question: _Question, number: int) -> None:
        """Notes a question of a simulation. Its node is told with the simulation's line."""
        self.questions += 1
        self._asked[number].append(question)

    def before(self, then: OnBackup | None) -> OnBackup:
        """Makes the hook that adds walks after their backup; `IN_FULL` says which have a line.

        A walk that asked has one always.

        Args:
            then: another hook to call with every walk; None for none.
        """
        root, first, earlier, asked = self._root, self._first, self.earlier or 0, self._asked
        due = 0

        def walked(walk: Walk[Any, Any]) -> None:
            nonlocal due
            visits = root.visits
            if visits >= due:
                number = visits - first
                count = earlier + number
                due = visits + (1 if count < IN_FULL else 1 << count.bit_length() - _FEWER_BITS)
                self._add_walk(walk, number)
            elif asked and visits - first in asked:
                self._add_walk(walk, visits - first)
            if asked and (questions := asked.pop(visits - first, None)):
                for question in questions:
                    if question.node not in self._nodes:
                        # It was asked in an earlier attempt, which went another way.
                        self._add_way(question.walk)
                    self._place(question, visits - first)
            if then is not None:
                then(walk)

        return walked

    def end(self) -> None:
        """Adds the end of a search, which may have been cancelled."""
        asker, at, about = self._outside
        _ASKER.reset(asker)
        _AT.reset(at)
        _ABOUT.reset(about)
        self.asker = None
        root = self._root
        known = self._nodes[root]
        edges = {} if root.edges is None else self._add_edges(root, known)
        for number, questions in self._asked.items():
            for question in questions:
                self._place(question, number)
        self._asked.clear()
        simulations = root.visits - self._first
        self.trace.add(
            "decision",
            tree=self._number,
            root=known.id,
            simulations=simulations,
            left_out=simulations - self._lines,
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

    def _add_walk(self, walk: Walk[Any, Any], number: int) -> None:
        self._lines += 1
        nodes, edges = self._add_way(walk)
        last = walk.nodes[-1]
        known = self._nodes[last]
        if last.edges is not None and (known.edges is None or len(known.edges) < len(last.edges)):
            self._add_edges(last, known)
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

    def _add_way(self, walk: Walk[Any, Any]) -> tuple[list[int], list[str]]:
        """Adds what has no line yet of a walk; returns the ids of its nodes and edges."""
        known_nodes = self._nodes
        above = walk.nodes[0]
        known = known_nodes[above]
        nodes = [known.id]
        edges = []
        for edge, step, node in zip(walk.edges, walk.steps, islice(walk.nodes, 1, None)):  # noqa: B905
            traced = known.edges and known.edges.get(edge)
            if not traced or traced[1] != edge.prior:
                traced = self._add_edges(above, known)[edge]
            edges.append(traced[0])
            above = node
            known = known_nodes.get(node) or self._add_node(node, (known.id, traced[0]), step)
            nodes.append(known.id)
        return nodes, edges

    def _place(self, question: _Question, number: int) -> None:
        """Says in a question's line where it was asked, as far as that has lines."""
        event, _, node, edge, about = question
        event["tree"] = self._number
        event["simulation"] = number
        known = self._nodes.get(node)
        if known is not None:
            event["node"] = known.id
        if about is None:
            return
        event["about"] = str(about)
        if edge is None:
            edge = next((edge for edge in node.edges or () if edge.action == about), None)
        if known is not None and edge is not None:
            traced = (known.edges or {}).get(edge) or self._add_edges(node, known).get(edge)
            if traced is not None:
                event["edge"] = traced[0]

    def _add_node(
        self, node: Node[Any, Any], edge: tuple[int, str] | None, step: Step[Any] | None
    ) -> _Known:
        known = self._nodes[node] = _Known(self._next, edge and edge[0])
        self._next += 1
        observation = None if step is None else str(step.seen)
        if observation is not None and len(observation) > _LONGEST_OBSERVATION:
            observation = observation[:_LONGEST_OBSERVATION] + "…"
        self.trace.events.append(
            {
                "type": "node",
                "at": self.trace.now(),
                "tree": self._number,
                "id": known.id,
                "edge": edge and edge[1],
                "observation": observation,
                "text": "" if step is None else step.text,
            }
        )
        return known

    def _add_edges(
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
