"""From a goal to what must be obtained for it, in order (XENON, Section 3, stage one)."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping

    from llm_planning.planners.xenon.graph import DependencyGraph


def aggregate(
    graph: DependencyGraph,
    goal: str,
    inventory: Mapping[str, int],
    *,
    kept: Collection[str] = (),
) -> list[tuple[int, str]]:
    """((q_1, u_1), ..., (q_L, u_L) = (1, g)): what is still missing, requirements first.

    Quantities of what several items use up are added; of what is only needed at hand, the most that
    any of them needs at once counts. An action that gives several items at once is needed so many
    times less often.

    Args:
        graph: Ĝ.
        goal: g; one more of it is wanted, however many are held.
        inventory: item -> count at hand.
        kept: items known to stay when they are required, such as a crafting table.

    Returns:
        (quantity, item); the quantity is what has to be added to the inventory, at least 1.
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
    """The goal and its ancestors in Ĝ, each after everything that it requires."""
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
