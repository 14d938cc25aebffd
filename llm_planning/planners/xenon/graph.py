"""The dependency graph Ĝ = (V̂, Ê): what a goal takes by it, and what it holds at first.

Section 3 (aggregated requirements), Appendix C (experienced requirements), Appendix E.2 (no cycles)
and Algorithm 2 (GraphInitialization): the agent carries out three human-written plans (Appendix
I.2, Figures 18 to 20), then the LLM predicts the requirements of all other items.
"""

from __future__ import annotations

import math
from collections import deque
from dataclasses import dataclass, field
from graphlib import CycleError, TopologicalSorter
from types import MappingProxyType
from typing import TYPE_CHECKING

from llm_planning.planners.xenon.roles import NeedsQuestion
from llm_planning.roles import gather
from llm_planning.settings import SettingsError

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, KeysView, Mapping

    from llm_planning.environments.minecraft.items.text_world import World
    from llm_planning.planners.xenon.memory import Knowledge, Similar
    from llm_planning.planners.xenon.roles import Predict, Requirements

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

    def without_cycle(self, item: str, candidates: Collection[str]) -> list[str]:
        """Returns the candidates that do not require the item, in the order of V̂."""
        return [u for u in self.items if u in candidates and not self.makes_cycle(item, (u,))]

    def ancestors(self, item: str) -> set[str]:
        """Returns all items that an item requires, directly or not."""
        return ancestors(item, self._required)

    def descendants(self, item: str, *, sparing: Collection[str] = ()) -> list[str]:
        """Returns all items that require an item, directly or not, in the order of V̂.

        Args:
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


# Appendix C ---------------------------------------------------------------------------------------

PICKAXES = ("wooden_pickaxe", "stone_pickaxe", "iron_pickaxe", "diamond_pickaxe")
"""From the lowest tier to the highest (Appendix C)."""


def experienced(
    used: Mapping[str, int], before: Mapping[str, int], after: Mapping[str, int]
) -> tuple[dict[str, int], set[str]]:
    """Returns R_exp(v), and which of its items stayed (Appendix C).

    The rule depends on what happened, not on the verb: a perturbed recipe may be "mined".

    Args:
        used: items used and their quantities, as `World.step` returns them.

    Returns:
        The used items. If there are none, the highest-tier pickaxe in the inventory, if any. And
        those of these items of which the inventory has lost none.
    """
    if used:
        return dict(used), {u for u in used if after.get(u, 0) >= before.get(u, 0)}
    for pickaxe in reversed(PICKAXES):
        if before.get(pickaxe, 0) > 0:
            return {pickaxe: 1}, {pickaxe}
    return {}, set()


# Algorithm 2 --------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class HumanPlan:
    """A human-written plan.

    Attributes:
        goal: the item it obtains.
        steps: (action, item, quantity) in order.
    """

    goal: str
    steps: tuple[tuple[str, str, int], ...]


def _upto_iron(stick: int, iron: int) -> tuple[tuple[str, str, int], ...]:
    """Returns the steps from nothing to iron ingots, with which all three plans begin."""
    return (
        ("mine", "logs", 7),
        ("craft", "planks", 21),
        ("craft", "stick", stick),
        ("craft", "crafting_table", 1),
        ("craft", "wooden_pickaxe", 1),
        ("mine", "cobblestone", 11),
        ("craft", "furnace", 1),
        ("craft", "stone_pickaxe", 1),
        ("mine", "iron_ore", iron),
        ("smelt", "iron_ingot", iron),
    )


# The printed steps for the diamond craft 5 sticks and smelt 2 iron; its header says 6 and 3, and
# the pickaxe takes 3. Those for the golden sword craft 5 sticks, but its header says 7. Here these
# counts are the headers'. Sticks come by fours, so 5, 6 and 7 are the same two crafts.
PLANS = (
    HumanPlan("iron_sword", (*_upto_iron(5, 2), ("craft", "iron_sword", 1))),
    HumanPlan(
        "golden_sword",
        (
            *_upto_iron(7, 3),
            ("craft", "iron_pickaxe", 1),
            ("mine", "gold_ore", 2),
            ("smelt", "gold_ingot", 2),
            ("craft", "golden_sword", 1),
        ),
    ),
    HumanPlan(
        "diamond",
        (*_upto_iron(6, 3), ("craft", "iron_pickaxe", 1), ("mine", "diamond", 1)),
    ),
)
"""In the order of the paper; a run with fewer plans takes the first ones (Appendix K.11)."""


class PlanFailedError(SettingsError):
    """A human-written plan cannot be carried out in the world of this task."""


@dataclass(frozen=True, slots=True)
class Initial:
    """What the LLM predicted; nothing by default.

    Attributes:
        predicted: v -> R(v) as answered, before the cycle check.
        cyclic: items whose prediction was discarded because it made a cycle.
        unasked: mentioned items whose requirements were not asked for, because of the bound.
    """

    predicted: Mapping[str, Requirements] = field(default_factory=dict)
    cyclic: tuple[str, ...] = ()
    unasked: tuple[str, ...] = ()


def demonstrate(
    plans: Iterable[HumanPlan],
    world: World,
    *,
    knowledge: Knowledge,
    succeeded: Callable[[str, str], None],
) -> None:
    """Carries out human-written plans and learns from them (Algorithm 2, lines 3 to 10).

    Args:
        plans: P_0.
        world: of the unperturbed rules; each plan begins with an empty inventory.
        knowledge: is told each item and what it took.
        succeeded: is told each action that worked, and its item.

    Raises:
        PlanFailedError: a step fails.
    """
    for plan in plans:  # 2.3
        world.reset()
        for action, item, quantity in plan.steps:
            target = world.inventory.get(item, 0) + quantity
            while world.inventory.get(item, 0) < target:
                before = dict(world.inventory)
                used = world.step(action, item)
                if used is None:
                    raise PlanFailedError(
                        f"the human-written plan for {plan.goal} fails at {action} {item} with "
                        f"{before}: this task's world lacks what it needs; set plans=0"
                    )
                r_exp, kept = experienced(used, before, world.inventory)  # 2.4-5
                makes = world.inventory[item] - before.get(item, 0)
                knowledge.demonstrate(item, r_exp, makes=makes, kept=kept)  # 2.6-10
            succeeded(action, item)


async def predict_requirements(
    knowledge: Knowledge,
    *,
    predict: Predict,
    similar: Similar,
    k: int,
    most: int,
) -> Initial:
    """Asks for the requirements of every item until all are predicted (lines 12 to 19).

    Every item that an answer mentions joins V̂ and is asked for in turn: provisional acceptance. The
    questions of one round are asked at once. A prediction that would make a cycle is replaced by an
    empty set (Appendix E.2). A weak model can invent names for ever, so at most `most` items are
    asked for; the others are reported and stay without requirements.

    Args:
        knowledge: its Ĝ has V_0 and the demonstrated items.
        k: K, number of examples in a question.
    """
    known = knowledge.graph
    experienced_items = frozenset(knowledge.demonstrated)
    predicted: dict[str, Requirements] = {}
    cyclic: list[str] = []
    waiting = deque(v for v in known.items if v not in experienced_items)

    async def ask(v: str) -> tuple[str, Requirements]:
        alike = await similar.top(v, experienced_items, k)  # 2.14
        examples = [(u, known.requirements(u)) for u in alike]
        return v, await predict(NeedsQuestion(v, examples))  # 2.15

    while waiting and len(predicted) < most:  # 2.12
        batch = [waiting.popleft() for _ in range(min(len(waiting), most - len(predicted)))]
        await similar.learn((*batch, *experienced_items))
        for v, requirements in await gather([ask(v) for v in batch]):
            predicted[v] = requirements
            mentioned = [u for u in requirements if u not in known]
            if known.makes_cycle(v, requirements):  # Appendix E.2
                cyclic.append(v)
                for u in mentioned:
                    known.add(u)
            else:
                known.require(v, requirements)  # 2.16-19
            waiting.extend(mentioned)
    return Initial(predicted, tuple(cyclic), tuple(waiting))
