"""The dependency graph Ĝ = (V̂, Ê), and what a goal takes according to it (XENON, Section 3)."""

from __future__ import annotations

import math
from graphlib import CycleError, TopologicalSorter
from types import MappingProxyType
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, KeysView, Mapping

NOTHING: Mapping[str, int] = MappingProxyType({})
"""An empty requirement set."""


class CyclicGraphError(ValueError):
    """These edges would make an item require itself."""


class DependencyGraph:
    """A directed acyclic graph of items; an edge (u, q, v) says that v requires q of u.

    Args:
        items: the first V̂; these items require nothing yet.

    Attributes:
        changes: how often requirements were replaced.
    """

    def __init__(self, items: Iterable[str] = ()) -> None:
        self._required: dict[str, Mapping[str, int]] = dict.fromkeys(items, NOTHING)
        self._makes: dict[str, int] = {}
        self.changes = 0

    @classmethod
    def of(cls, rules: Mapping[str, tuple[Mapping[str, int], int]]) -> DependencyGraph:
        """Makes a graph from all of its rules at once.

        Args:
            rules: v -> (R(v), how many of v one action gives), V̂ in its order.

        Raises:
            CyclicGraphError: an item would require itself.
        """
        try:
            TopologicalSorter({v: required for v, (required, _) in rules.items()}).prepare()
        except CycleError as error:
            raise CyclicGraphError(f"{error.args[1][0]} would require itself") from error
        graph = cls(rules)
        for v, (required, makes) in rules.items():
            for u in required:
                graph.add(u)
            graph._required[v] = MappingProxyType(dict(required))
            graph._makes[v] = makes
        return graph

    @property
    def items(self) -> KeysView[str]:
        """V̂, in the order in which the items were added."""
        return self._required.keys()

    def __contains__(self, item: str) -> bool:
        return item in self._required

    def add(self, item: str) -> None:
        """Adds an item to V̂; an item that is in V̂ keeps its requirements."""
        self._required.setdefault(item, NOTHING)

    def requirements(self, item: str) -> Mapping[str, int]:
        """Returns R(v, Ĝ), required item -> quantity; empty for an item that is not in V̂."""
        return self._required.get(item, NOTHING)

    def makes(self, item: str) -> int:
        """Returns how many of an item one action gives; 1 before any experience (footnote 1)."""
        return self._makes.get(item, 1)

    def require(self, item: str, requirements: Mapping[str, int], *, makes: int = 1) -> None:
        """Replaces the incoming edges of an item, and adds its requirements to V̂.

        Args:
            item: v.
            requirements: the new R(v).
            makes: how many of v one action gives.

        Raises:
            CyclicGraphError: v would require itself; the graph does not change.
        """
        if self.makes_cycle(item, requirements):
            raise CyclicGraphError(f"{item} would require itself through {sorted(requirements)}")
        for required in requirements:
            self.add(required)
        self._required[item] = MappingProxyType(dict(requirements))
        self._makes[item] = makes
        self.changes += 1

    def makes_cycle(self, item: str, requirements: Iterable[str]) -> bool:
        """Whether one of these requirements is the item or its descendant (Appendix E.2)."""
        return any(u == item or item in self.ancestors(u) for u in requirements)

    def ancestors(self, item: str) -> set[str]:
        """Returns all items that an item requires, directly or not."""
        return ancestors(item, self._required)

    def descendants(self, item: str, *, sparing: Collection[str] = ()) -> list[str]:
        """Returns all items that require an item, directly or not, in the order of V̂.

        Args:
            item: v.
            sparing: items to leave out, with the items that require v through these only.
        """
        found = {item}
        open_ = [item]
        while open_:
            u = open_.pop()
            for w, required in self._required.items():
                if u in required and w not in found and w not in sparing:
                    found.add(w)
                    open_.append(w)
        return [w for w in self._required if w in found and w != item]

    def copy(self) -> DependencyGraph:
        """Returns a copy that changes independently of this graph."""
        twin = DependencyGraph()
        twin._required = dict(self._required)
        twin._makes = dict(self._makes)
        return twin

    def n_true(self, truth: Mapping[str, Mapping[str, int]]) -> int:
        """Returns N_true(Ĝ), the number of items whose incoming edges are the true ones (eq. 1).

        Args:
            truth: goal item v -> R(v, G*).
        """
        return sum(self.requirements(v) == required for v, required in truth.items())


def ancestors(item: str, required: Mapping[str, Iterable[str]]) -> set[str]:
    """Returns all items that an item requires, directly or not.

    Args:
        item: v.
        required: item -> the items that it requires; it may be cyclic, and then v can be its own
            ancestor.
    """
    found: set[str] = set()
    open_ = [*required.get(item, ())]
    while open_:
        u = open_.pop()
        if u not in found:
            found.add(u)
            open_.extend(required.get(u, ()))
    return found


def aggregate(
    graph: DependencyGraph,
    goal: str,
    inventory: Mapping[str, int],
    *,
    kept: Collection[str] = (),
) -> list[tuple[int, str]]:
    """Returns ((q_1, u_1), ..., (q_L, u_L) = (1, g)), the missing items, requirements first.

    If several items use up a requirement, their quantities are added. If they keep it, the largest
    quantity counts. An action that gives several items at once is taken as many times less often.

    Args:
        graph: Ĝ.
        goal: g; one more of it is wanted than the inventory has.
        inventory: item -> count.
        kept: items that stay when they are required, such as a crafting table.

    Returns:
        (quantity, item); the quantity to add to the inventory, at least 1.
    """
    needed = {goal: inventory.get(goal, 0) + 1}
    missing: dict[str, int] = {}
    for item in reversed(_requirements_first(graph, goal)):
        lacking = needed.get(item, 0) - inventory.get(item, 0)
        if lacking <= 0:
            continue
        missing[item] = lacking
        times = math.ceil(lacking / graph.makes(item))
        for u, quantity in graph.requirements(item).items():
            if u in kept:
                needed[u] = max(needed.get(u, 0), quantity)
            else:
                needed[u] = needed.get(u, 0) + quantity * times
    return [(quantity, item) for item, quantity in reversed(missing.items())]


def _requirements_first(graph: DependencyGraph, goal: str) -> list[str]:
    """Returns the goal and its ancestors in Ĝ, each after all that it requires."""
    order: dict[str, None] = {}
    path = [(goal, iter(graph.requirements(goal)))]
    while path:
        item, rest = path[-1]
        for u in rest:
            if u not in order:
                path.append((u, iter(graph.requirements(u))))
                break
        else:
            order[item] = None
            path.pop()
    return list(order)
