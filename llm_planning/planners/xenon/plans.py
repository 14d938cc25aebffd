"""The three human-written plans that an agent begins with (XENON, App. I.2, Figures 18 to 20)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeAlias

Step: TypeAlias = tuple[str, str, int]


@dataclass(frozen=True, slots=True)
class HumanPlan:
    """One plan.

    Attributes:
        goal: the item it obtains.
        steps: (action, item, quantity) in order.
    """

    goal: str
    steps: tuple[Step, ...]


def _upto_iron(stick: int, iron: int) -> tuple[Step, ...]:
    """From nothing to iron ingots, which all three plans begin with."""
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


# The printed steps of the diamond gather 2 iron ore where its header and the pickaxe need 3; those
# of the golden sword craft 5 sticks, which gives 8, where its header says 7. In these two the
# headers' counts are used.
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
"""In the order of the paper; a single plan is the first (Appendix K.11)."""
