"""GraphInitialization: what an agent believes before it acts (XENON, Algorithm 2).

The agent carries out three human-written plans (Appendix I.2, Figures 18 to 20). Then the LLM
predicts the requirements of all other items.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from llm_planning.planners.xenon.knowledge import experienced
from llm_planning.planners.xenon.questions import NeedsQuestion
from llm_planning.roles import gather
from llm_planning.settings import SettingsError

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from llm_planning.environments.minecraft.text_world import World
    from llm_planning.planners.xenon.action_policies import ActionPolicy
    from llm_planning.planners.xenon.knowledge import Knowledge
    from llm_planning.planners.xenon.questions import Predict, Requirements
    from llm_planning.planners.xenon.similarity import Similar


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


# The printed steps for the diamond gather 2 iron ore, but its header and the pickaxe need 3. Those
# for the golden sword craft 5 sticks, which gives 8, but its header says 7. Here both counts are
# the headers'.
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
    plans: Iterable[HumanPlan], world: World, *, knowledge: Knowledge, actions: ActionPolicy
) -> None:
    """Carries out human-written plans and learns from them (Algorithm 2, lines 3 to 9).

    Args:
        plans: P_0.
        world: of the unperturbed rules; each plan begins with an empty inventory.
        knowledge: is told each item and what it took.
        actions: is told each action that worked.

    Raises:
        PlanFailedError: a step fails.
    """
    for plan in plans:
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
                r_exp, kept = experienced(used, before, world.inventory)
                makes = world.inventory[item] - before.get(item, 0)
                knowledge.demonstrate(item, r_exp, makes=makes, kept=kept)
            actions.succeeded(action, item)


async def predict_requirements(
    knowledge: Knowledge,
    *,
    predict: Predict,
    similar: Similar,
    k: int,
    most: int,
) -> Initial:
    """Asks for the requirements of every item until all are predicted (lines 10 to 19).

    Every item that an answer mentions joins V̂ and is asked for in turn: provisional acceptance. The
    questions of one round are asked at once. A prediction that would make a cycle is replaced by an
    empty set (Appendix E.2). A weak model can invent names for ever, so at most `most` items are
    asked for; the others are reported and stay without requirements.

    Args:
        knowledge: its Ĝ has V_0 and the demonstrated items.
        predict: the LLM.
        similar: ranks items by their names.
        k: K, number of examples in a question.
        most: most items to ask for.
    """
    known = knowledge.graph
    experienced_items = frozenset(knowledge.demonstrated)
    predicted: dict[str, Requirements] = {}
    cyclic: list[str] = []
    waiting = deque(v for v in known.items if v not in experienced_items)

    async def ask(v: str) -> tuple[str, Requirements]:
        alike = await similar.top(v, experienced_items, k)
        examples = [(u, known.requirements(u)) for u in alike]
        return v, await predict(NeedsQuestion(v, examples))

    while waiting and len(predicted) < most:
        batch = [waiting.popleft() for _ in range(min(len(waiting), most - len(predicted)))]
        await similar.learn((*batch, *experienced_items))
        for v, requirements in await gather([ask(v) for v in batch]):
            predicted[v] = requirements
            mentioned = [u for u in requirements if u not in known]
            if known.makes_cycle(v, requirements):
                cyclic.append(v)
                for u in mentioned:
                    known.add(u)
            else:
                known.require(v, requirements)
            waiting.extend(mentioned)
    return Initial(predicted, tuple(cyclic), tuple(waiting))
