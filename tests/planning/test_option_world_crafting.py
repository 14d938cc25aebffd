"""Folded crafts, which make their materials on the way."""

import re
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st
from option_worlds import SINGLE, WORLD, option

from llm_planning.environments.minecraft.options.option import Option
from llm_planning.environments.minecraft.options.tasks import PLAINS

WORTH = {
    # In planks.
    **{f"{wood}_log": 4 for wood in ("oak", "birch")},
    **{f"{wood}_planks": 1 for wood in ("oak", "birch")},
    "stick": 0.5,
    "crafting_table": 4,
    "wooden_pickaxe": 4,
    "wooden_sword": 2.5,
    "chest": 8,
    "oak_boat": 5,
    "oak_fence": 5 / 3,
    "oak_sign": 6.5 / 3,
}
PRODUCTS = sorted(WORTH.keys() - {"oak_log", "birch_log"})
OF_ANY_WOOD = ("stick", "crafting_table", "wooden_pickaxe", "wooden_sword", "chest", "oak_planks")


def holding(**held):
    return replace(PLAINS, inventory={item: count for item, count in held.items() if count})


def crafted(world, quantity, item, **held):
    return world.step(holding(**held), Option("craft", quantity, item))


@pytest.mark.parametrize(
    ("item", "held", "after", "crafts"),
    [
        # 4 planks for the table, 3 and 2 sticks of 2 planks: 9 of 12 planks, 2 of 4 sticks.
        (
            "wooden_pickaxe",
            {"oak_log": 4},
            {"oak_log": 1, "oak_planks": 3, "stick": 2, "crafting_table": 1, "wooden_pickaxe": 1},
            4,
        ),
        # Sticks and the table are there; of the planks one is missing.
        (
            "wooden_pickaxe",
            {"crafting_table": 1, "stick": 3, "oak_planks": 2, "birch_log": 2},
            {
                "crafting_table": 1,
                "stick": 1,
                "birch_log": 1,
                "birch_planks": 3,
                "wooden_pickaxe": 1,
            },
            2,
        ),
        # 8 planks of two woods.
        ("chest", {"crafting_table": 1, "oak_log": 1, "birch_log": 1}, {"crafting_table": 1}, 3),
        # The boat takes the oak, the table what is left.
        (
            "oak_boat",
            {"oak_planks": 5, "birch_planks": 5},
            {"birch_planks": 1, "crafting_table": 1, "oak_boat": 1},
            2,
        ),
    ],
)
def test_what_is_made_on_the_way(item, held, after, crafts):
    outcome = crafted(WORLD, 1, item, **held)
    assert outcome.obstacle is None
    assert outcome.state.inventory == {**after, item: 1}
    assert outcome.ticks == 20 * crafts
    assert crafted(SINGLE, 1, item, **held).obstacle is not None


def test_a_table_that_is_near_is_used():
    before = replace(holding(oak_log=2), nearby_blocks=(*PLAINS.nearby_blocks, "crafting_table"))
    outcome = WORLD.step(before, option("craft 1 wooden_pickaxe"))
    assert outcome.state.inventory == {"oak_planks": 3, "stick": 2, "wooden_pickaxe": 1}


@pytest.mark.parametrize(
    ("quantity", "item", "held", "missing"),
    [
        (1, "wooden_pickaxe", {"birch_log": 1}, "needs 3 oak_log or another kind, has 1"),
        (1, "wooden_pickaxe", {"oak_planks": 7}, "needs 1 oak_log or another kind, has 0"),
        (1, "stone_pickaxe", {"oak_log": 2}, "needs 3 cobblestone, has 0"),
        (8, "torch", {"oak_log": 1, "coal": 1}, "needs 2 coal or charcoal, has 1"),
    ],
)
def test_what_must_be_gathered_is_named(quantity, item, held, missing):
    assert crafted(WORLD, quantity, item, **held).obstacle == missing


def test_a_furnace_is_not_crafted_on_the_way():
    outcome = WORLD.step(holding(cobblestone=8, iron_ore=1, coal=1), option("smelt 1 iron_ingot"))
    assert outcome.obstacle == "needs a furnace"


def worth(inventory):
    return sum(WORTH[item] * count for item, count in inventory.items())


INVENTORIES = st.dictionaries(
    st.sampled_from(
        ("oak_log", "birch_log", "oak_planks", "birch_planks", "stick", "crafting_table")
    ),
    st.integers(1, 9),
)


@given(held=INVENTORIES, item=st.sampled_from(PRODUCTS), quantity=st.integers(1, 9))
def test_no_wood_comes_from_nowhere(held, item, quantity):
    outcome = crafted(WORLD, quantity, item, **held)
    after = outcome.state.inventory
    assert worth(after) == pytest.approx(worth(held))
    if outcome.success:
        assert after[item] >= held.get(item, 0) + quantity
        assert after == replace(PLAINS, inventory=held).apply(outcome.change).inventory


def test_what_must_be_oak_is_named_before_what_may_be_any_wood():
    assert crafted(WORLD, 1, "oak_boat").obstacle == "needs 2 oak_log, has 0"
    for_the_table = "needs 3 oak_log or another kind, has 2"
    assert crafted(WORLD, 1, "oak_boat", oak_log=2).obstacle == for_the_table
    assert crafted(WORLD, 1, "oak_boat", oak_log=2, birch_log=1).success


@given(held=INVENTORIES, item=st.sampled_from(OF_ANY_WOOD), quantity=st.integers(1, 9))
def test_gathering_what_is_missing_makes_a_craft_feasible(held, item, quantity):
    """The obstacle names the exact number: with one less, the craft stays infeasible."""
    outcome = crafted(WORLD, quantity, item, **held)
    if outcome.success:
        return
    needs, log, has = re.fullmatch(
        r"needs (\d+) (\w+)(?: or another kind)?, has (\d+)", outcome.obstacle
    ).groups()
    missing = int(needs) - int(has)
    assert log.endswith("_log")
    richer = {**held, log: held.get(log, 0) + missing}
    assert crafted(WORLD, quantity, item, **richer).success
    poorer = {**held, log: held.get(log, 0) + missing - 1}
    assert f"needs {needs} {log}" in crafted(WORLD, quantity, item, **poorer).obstacle


@given(held=INVENTORIES, item=st.sampled_from(PRODUCTS), quantity=st.integers(1, 9))
def test_what_can_be_made_singly_is_made_no_otherwise(held, item, quantity):
    single = crafted(SINGLE, quantity, item, **held)
    if single.success:
        assert single == crafted(WORLD, quantity, item, **held)
