"""The eight tasks of Tree of Options (Section 4.1, Table 1), named as in the paper.

The paper takes the objectives from MineDojo and does not print their initial states. Here all tasks
begin alike, with bare hands by day on a plain with wood, stone, coal, pigs and chickens in sight.
A plan has to find cows and sheep, as the plans printed in the paper do (Appendices A.7 and C.2),
and also lava and the other ores. `dataclasses.replace(task, start=...)` gives a task that starts
from another state.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from llm_planning.environments.minecraft.options.state import Sighting, State
from llm_planning.environments.minecraft.options.tables import MEAT, WOODS

if TYPE_CHECKING:
    from collections.abc import Mapping


@dataclass(frozen=True, slots=True, kw_only=True)
class Task:
    """One objective.

    Attributes:
        name: as in the paper, in kebab-case.
        goal: one sentence for the prompts that says what the inventory must hold at the end.
        wanted: groups of items; one item of each group must be held.
        start: s_0.
        milestones: name -> items of which one must have been held, in the order in which they are
            usually reached.
    """

    name: str
    goal: str
    wanted: tuple[tuple[str, ...], ...]
    start: State
    milestones: Mapping[str, tuple[str, ...]] = field(default_factory=dict)


_BLOCKS = {
    "grass_block": Sighting(2_000, 1),
    "dirt": Sighting(2_000, 2),
    "oak_log": Sighting(32, 6),
    "oak_leaves": Sighting(200, 6),
    "stone": Sighting(2_000, 10),
    "coal_ore": Sighting(17, 14),
    "water": Sighting(100, 18),
}
_ANIMALS = {"pig": Sighting(4, 9), "chicken": Sighting(4, 12)}

PLAINS = State(
    biome="plains",
    time="day",
    nearby_blocks=tuple(_BLOCKS),
    nearby_entities=tuple(_ANIMALS),
    near={**_BLOCKS, **_ANIMALS},
)
"""The start of every task. Counts are the middle of the ranges in `options.tables.STOCK`."""

_EIGHT: Mapping[str, tuple[str, tuple[tuple[str, ...], ...]]] = {
    "obtain-leather": ("Obtain 1 leather.", (("leather",),)),
    "cook-meat": ("Cook 1 meat of any kind, for example 1 cooked_beef.", (MEAT,)),
    "shear-a-sheep": (
        "Shear 1 sheep with shears, so that 1 white_wool is in the inventory.",
        # A killed sheep leaves wool, too. Holding shears is the best sign that a state can show.
        (("white_wool",), ("shears",)),
    ),
    "milk-a-cow": (
        "Milk 1 cow, so that 1 milk_bucket is in the inventory.",
        (("milk_bucket",),),
    ),
    "collect-a-lava-bucket": (
        "Fill a bucket with lava, so that 1 lava_bucket is in the inventory.",
        (("lava_bucket",),),
    ),
    "craft-a-golden-sword": ("Craft 1 golden_sword.", (("golden_sword",),)),
    "craft-a-compass": ("Craft 1 compass.", (("compass",),)),
    "craft-a-diamond-pickaxe": ("Craft 1 diamond_pickaxe.", (("diamond_pickaxe",),)),
}

TASKS = {
    name: Task(name=name, goal=goal, wanted=wanted, start=PLAINS)
    for name, (goal, wanted) in _EIGHT.items()
}
"""Every task by name."""

MINE_A_DIAMOND = Task(
    name="mine-a-diamond",
    goal="Mine 1 diamond.",
    wanted=(("diamond",),),
    start=PLAINS,
    milestones={
        "wood": tuple(f"{wood}_log" for wood in WOODS),
        "wooden_pickaxe": ("wooden_pickaxe",),
        "stone": ("cobblestone",),
        "stone_pickaxe": ("stone_pickaxe",),
        "iron": ("iron_ore", "iron_ingot"),
        "iron_pickaxe": ("iron_pickaxe",),
        "diamond": ("diamond",),
    },
)
"""The task of DRIP (Section 4.2) with the milestones of Tables 3 and 4, from bare hands; not one of
the eight of Tree of Options. The paper does not say whether iron means ore or ingots. Here it is
ore: its seven steps from iron to the iron pickaxe leave room for the furnace."""
