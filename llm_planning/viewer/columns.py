"""The events of a trace as columns of numbers, which a browser reads without parsing.

The page replays *moments*: a search that begins, a simulation, a decision, a real step, a belief, a
memory, a subtask, a change of a learnt graph. Nodes, edges and questions belong to the first moment
after them. A question also belongs to the node that asked it, where the trace says which.
"""

from __future__ import annotations

import math
from collections import Counter
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from llm_planning.viewer.cached_part import cached_end
from llm_planning.viewer.texts import Strings, Texts

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from llm_planning.events import Event

KINDS: Final = (
    "search",
    "simulation",
    "decision",
    "execution",
    "belief",
    "memory",
    "subtask",
    "graph",
)
"""The kinds of moments; the page knows them by their place."""

_MOST: Final = 2**31 - 1

_TYPES: Final[dict[str, str]] = {
    "node_tree": "u4",
    "node_edge": "i4",
    "node_moment": "u4",
    "node_seen": "u4",
    "node_text": "u4",
    "edge_node": "u4",
    "edge_action": "u4",
    "edge_moment": "u4",
    "edge_detail": "u4",
    "edge_prior": "f4",
    "edge_first": "f4",
    "moment_kind": "u1",
    "moment_at": "f8",
    "moment_tree": "i4",
    "moment_number": "f8",
    "moment_value": "f8",
    "moment_extra": "f8",
    "moment_note": "u4",
    "moment_path": "u4",
    "moment_updates": "u4",
    "path_node": "u4",
    "update_edge": "u4",
    "update_n": "u4",
    "update_q": "f8",
    "update_reward": "f8",
    "question_at": "f8",
    "question_seconds": "f8",
    "question_node": "i4",
    "question_edge": "i4",
    "question_about": "u4",
    "question_role": "u4",
    "question_model": "u4",
    "question_prompt": "u4",
    "question_cached": "u4",
    "question_written": "u4",
    "question_replayed": "u1",
    "question_body": "u4",
    "load_at": "f8",
    "load_batch": "u4",
    "load_waiting": "u4",
    "load_capacity": "u4",
}
"""Column -> its type of number."""

_UNUSABLE = (LookupError, TypeError, ValueError, ArithmeticError, RecursionError)
"""What a line raises that says something impossible."""

_SPARE = ("at", "type")


class Columns:
    """Reads events into columns. What cannot be used is counted, and the rest goes on.

    Attributes:
        strings: actions, roles and models.
        prompts: id of a system message -> its `prompt` line.
        unused: type -> number of lines that could not be used.
    """

    def __init__(self, events: Iterable[Event]) -> None:
        self.texts = Texts()
        self.strings = Strings()
        self.prompts: dict[str, Event] = {}
        self.unused: Counter[str] = Counter()
        self._columns: dict[str, list[Any]] = {name: [] for name in _TYPES}
        self._nodes: dict[tuple[int, int], int] = {}
        self._edges: dict[tuple[int, str], int] = {}
        self._asked: list[tuple[tuple[int, int], tuple[int, str]]] = []
        readers: dict[str, Callable[[Event], None]] = {
            "prompt": self._prompt,
            "role": self._question,
            "node": self._node,
            "edges": self._edge_list,
            "search": self._search,
            "simulation": self._simulation,
            "decision": self._decision,
            "load": self._load,
            "execution": self._noted,
            "belief": self._noted,
            "memory": self._noted,
            "subtask": self._noted,
            "graph": self._noted,
        }
        for event in events:
            if (read := readers.get(event["type"])) is not None:
                try:
                    read(event)
                except _UNUSABLE:
                    self.unused[event["type"]] += 1
        self._link_questions()
        self._row(moment_path=self._size("path_node"), moment_updates=self._size("update_edge"))

    @property
    def nodes(self) -> int:
        """How many nodes all trees have together."""
        return self._size("node_tree")

    def packed(self) -> tuple[bytes, dict[str, tuple[str, int, int]]]:
        """The columns one behind the other; column -> its type, first byte and length."""
        parts: list[bytes] = []
        places: dict[str, tuple[str, int, int]] = {}
        offset = 0
        # The widest first, so that each begins where its numbers may begin.
        for name, kind in sorted(_TYPES.items(), key=lambda item: item[1][1], reverse=True):
            values = np.asarray(self._columns[name], dtype=f"<{kind}")
            places[name] = (kind, offset, len(values))
            parts.append(values.tobytes())
            offset += values.nbytes
        return b"".join(parts), places

    def detail_tree(self, tree: object) -> None:
        """Adds what a planner says of its options in a nested tree to the edges it is about.

        Args:
            tree: with `edges`, each with its `option` and again `edges`, as Tree of Options leaves
                one in its summary. Anything else is passed over.
        """
        children: dict[int, int] = {}
        for node, edge in enumerate(self._columns["node_edge"]):
            children.setdefault(edge, node)
        below: dict[int, list[int]] = {}
        for edge, node in enumerate(self._columns["edge_node"]):
            below.setdefault(node, []).append(edge)
        actions = self.strings.listed()
        work: list[tuple[object, int | None]] = [(tree, children.get(-1))]
        while work:
            value, at = work.pop()
            items = value.get("edges") if isinstance(value, dict) else None
            if at is None or not isinstance(items, list):
                continue
            for item, edge in zip(items, below.get(at, ()), strict=False):
                action = actions[self._columns["edge_action"][edge]]
                if isinstance(item, dict) and item.get("option") == action:
                    about = {key: value for key, value in item.items() if key != "edges"}
                    self._columns["edge_detail"][edge] = self.texts.add_json(about)
                    if edge not in children:
                        self._untried(edge)
                    work.append((item, children.get(edge)))

    def _untried(self, edge: int) -> None:
        """Adds a node for an option that no simulation took, so that the tree shows it."""
        self._row(
            node_tree=self._columns["node_tree"][self._columns["edge_node"][edge]],
            node_edge=edge,
            node_moment=self._columns["edge_moment"][edge],
            node_seen=0,
            node_text=0,
        )

    def _size(self, name: str) -> int:
        return len(self._columns[name])

    def _row(self, **values: object) -> None:
        for name, value in values.items():
            self._columns[name].append(value)

    def _moment(self, event: Event, **values: object) -> None:
        """Adds a moment. What it passes and updates comes after."""
        row = {
            "moment_kind": KINDS.index(event["type"]),
            "moment_at": _number(event.get("at", 0.0)),
            "moment_tree": -1,
            "moment_number": math.nan,
            "moment_value": math.nan,
            "moment_extra": math.nan,
            "moment_note": 0,
            "moment_path": self._size("path_node"),
            "moment_updates": self._size("update_edge"),
        }
        self._row(**row | values)

    def _prompt(self, event: Event) -> None:
        self.prompts[str(event["id"])] = event

    def _link_questions(self) -> None:
        """Finds the nodes and edges of questions, whose lines come after them."""
        columns = self._columns
        for at, (node, edge) in enumerate(self._asked):
            columns["question_node"][at] = self._nodes.get(node, columns["question_node"][at])
            columns["question_edge"][at] = self._edges.get(edge, -1)

    def _question(self, event: Event) -> None:
        kept = ("asked", "system", "turns", "temperature", "sample", "answer", "finish")
        scored = ("choices", "logprobs", "shared")
        body = {key: event[key] for key in (*kept, *scored) if key in event}
        body |= cached_end(event, self.prompts.get(str(event.get("system")), {}).get("text"))
        tree, id_ = (_count(event[key]) if key in event else -1 for key in ("tree", "node"))
        self._row(
            question_at=_number(event.get("at", 0.0)),
            question_seconds=_number(event.get("seconds", 0.0)),
            question_node=-1,
            question_edge=-1,
            question_about=self.strings.add(str(event.get("about", ""))),
            question_role=self.strings.add(str(event.get("role", ""))),
            question_model=self.strings.add(str(event.get("model", ""))),
            question_prompt=_count(event.get("prompt_tokens", 0)),
            question_cached=_count(event.get("cached_tokens", 0)),
            question_written=_count(event.get("completion_tokens", 0)),
            question_replayed=min(255, _count(event.get("replayed", 0))),
            question_body=self.texts.add_json(body),
        )
        self._asked.append(((tree, id_), (tree, str(event.get("edge")))))

    def _node(self, event: Event) -> None:
        tree, id_ = _count(event["tree"]), _count(event["id"])
        edge = event["edge"]
        row = {
            "node_tree": tree,
            "node_edge": -1 if edge is None else self._edges[tree, edge],
            "node_moment": self._size("moment_kind"),
            "node_seen": self.texts.add(str(event["observation"] or "")),
            "node_text": self.texts.add(str(event.get("text") or "")),
        }
        self._nodes[tree, id_] = self._size("node_tree")
        self._row(**row)

    def _edge_list(self, event: Event) -> None:
        tree, id_ = _count(event["tree"]), _count(event["node"])
        node = self._nodes[tree, id_]
        actions = [self.strings.add(str(action)) for action in event["actions"]]
        priors = [_number(prior) for prior in event["priors"]]
        first = [_number(value) for value in event.get("first_play", ())] or [0.0] * len(actions)
        for place, (action, prior, play) in enumerate(zip(actions, priors, first, strict=True)):
            key = (tree, f"{id_}.{place}")
            known = self._edges.get(key)
            if known is not None:
                self._columns["edge_prior"][known] = prior
                continue
            self._edges[key] = self._size("edge_node")
            self._row(
                edge_node=node,
                edge_action=action,
                edge_moment=self._size("moment_kind"),
                edge_detail=0,
                edge_prior=prior,
                edge_first=play,
            )

    def _search(self, event: Event) -> None:
        tree = _count(event["tree"])
        root = self._nodes[tree, _count(event["root"])]
        self._moment(event, moment_tree=tree)
        self._row(path_node=root)

    def _simulation(self, event: Event) -> None:
        tree = _count(event["tree"])
        nodes = [self._nodes[tree, _count(id_)] for id_ in event["nodes"]]
        edges = [self._edges[tree, id_] for id_ in event["edges"]]
        rewards = [_number(reward) for reward in event.get("rewards", ())]
        rewards += [math.nan] * (len(edges) - len(rewards))
        note = event.get("note")
        updates = self._updates(edges, event, rewards)
        self._moment(
            event,
            moment_tree=tree,
            moment_number=_number(event.get("number", math.nan)),
            moment_value=_number(event.get("tail", math.nan)),
            moment_extra=_number(event.get("descent", math.nan)),
            moment_note=0 if note is None else self.texts.add(str(note)),
        )
        self._columns["path_node"].extend(nodes)
        self._update(updates)

    def _decision(self, event: Event) -> None:
        tree = _count(event["tree"])
        root = self._nodes[tree, _count(event["root"])]
        edges = [self._edges[tree, id_] for id_ in event["edges"]]
        updates = self._updates(edges, event, [math.nan] * len(edges))
        self._moment(
            event,
            moment_tree=tree,
            moment_number=_number(event.get("simulations", math.nan)),
            moment_value=_number(event.get("value", math.nan)),
            moment_extra=_number(event.get("left_out", math.nan)),
        )
        self._row(path_node=root)
        self._update(updates)

    def _updates(
        self, edges: list[int], event: Event, rewards: list[float]
    ) -> list[tuple[int, int, float, float]]:
        visits = [_count(n) for n in event["N"]]
        values = [_number(q) for q in event["Q"]]
        return list(zip(edges, visits, values, rewards[: len(edges)], strict=True))

    def _update(self, updates: list[tuple[int, int, float, float]]) -> None:
        for edge, visits, value, reward in updates:
            self._row(update_edge=edge, update_n=visits, update_q=value, update_reward=reward)

    def _noted(self, event: Event) -> None:
        note = {key: value for key, value in event.items() if key not in _SPARE}
        self._moment(event, moment_note=self.texts.add_json(note))

    def _load(self, event: Event) -> None:
        self._row(
            load_at=_number(event.get("at", 0.0)),
            load_batch=_count(event["batch"]),
            load_waiting=_count(event["waiting"]),
            load_capacity=_count(event["capacity"]),
        )


def _count(value: object) -> int:
    """A whole number that a column can hold.

    Raises:
        ValueError: it is none.
    """
    if isinstance(value, bool) or not isinstance(value, int | float) or value != int(value):
        raise ValueError("it is not a whole number")
    if not 0 <= value <= _MOST:
        raise ValueError("it is too large, or negative")
    return int(value)


def _number(value: object) -> float:
    """A number; its text is read if it is infinite or none (docs/trace-format.md, "Numbers").

    Raises:
        ValueError: it is none.
    """
    if isinstance(value, bool) or not isinstance(value, int | float | str):
        raise ValueError("it is not a number")
    return float(value)
