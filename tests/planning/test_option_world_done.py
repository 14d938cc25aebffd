"""Options whose effect holds already."""

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st
from option_worlds import WORLD, option

from llm_planning.environments.minecraft.options import vocabulary
from llm_planning.environments.minecraft.options.option import Option
from llm_planning.environments.minecraft.options.state import Sighting
from llm_planning.environments.minecraft.options.tasks import PLAINS
from llm_planning.environments.minecraft.options.verbs import VERBS


def done(text, *, hand=None, **held):
    hands = (None, None, None, None, hand, None)
    return WORLD.done(replace(PLAINS, inventory=held, equipment=hands), option(text))


@pytest.mark.parametrize(
    ("text", "enough", "too_few"),
    [
        ("mine 3 oak_log", {"oak_log": 3}, {"oak_log": 2, "birch_log": 5}),
        # A block is as good as what so many of it give.
        ("mine 8 stone", {"cobblestone": 8}, {"cobblestone": 7}),
        ("mine 2 redstone_ore", {"redstone": 8}, {"redstone": 7}),
        ("mine 16 grass", {"wheat_seeds": 2}, {"wheat_seeds": 1}),
        ("mine 1 grass", {"wheat_seeds": 1}, {}),
        ("craft 4 stick", {"stick": 4}, {"stick": 3}),
        ("smelt 3 iron_ore", {"iron_ingot": 3}, {"iron_ore": 3}),
        ("cook 1 beef", {"cooked_beef": 1}, {"beef": 1}),
        ("kill 1 cow", {"beef": 1, "leather": 1}, {"beef": 9}),
        ("kill 2 sheep", {"mutton": 2, "white_wool": 2}, {"mutton": 2, "white_wool": 1}),
        ("shear 2 sheep", {"white_wool": 2, "shears": 1}, {"white_wool": 2}),
        ("shear 2 white_wool", {"white_wool": 2, "shears": 1}, {"white_wool": 1, "shears": 1}),
        ("milk 1 cow", {"milk_bucket": 1}, {"bucket": 1}),
        ("collect 1 lava", {"lava_bucket": 1}, {"water_bucket": 1}),
    ],
)
def test_what_is_held(text, enough, too_few):
    assert done(text, **enough)
    assert not done(text, **too_few)


def test_what_is_worn():
    assert done("equip 1 iron_pickaxe", hand="iron_pickaxe", iron_pickaxe=1)
    assert not done("equip 1 iron_pickaxe", iron_pickaxe=1)
    # A tool in hand is held, too, once.
    assert done("craft 1 iron_pickaxe", hand="iron_pickaxe")
    assert not done("craft 2 iron_pickaxe", hand="iron_pickaxe")


def test_what_is_in_view():
    state = replace(
        PLAINS,
        nearby_blocks=(*PLAINS.nearby_blocks, "torch"),
        near={**PLAINS.near, "torch": Sighting(2, 1)},
    )
    for text, verdict in (
        ("place 2 torch", True),
        ("place 3 torch", False),
        ("place 1 furnace", False),
        ("find 1 pig", True),
        ("find 5 coal_ore", True),
        ("find 1 plains", True),
        ("find 1 cow", False),
        ("find 1 surroundings", False),
    ):
        assert WORLD.done(state, option(text)) is verdict


@pytest.mark.parametrize(
    "text",
    [
        "fly 1 cow",
        "mine 1 leather",
        "craft 1 diamond",
        "smelt 1 stick",
        "kill 1 beef",
        "shear 1 cow",
        "milk 1 pig",
        "collect 1 sand",
        "mine 65 dirt",
    ],
)
def test_impossible_options_are_never_done(text):
    held = {"leather": 1, "diamond": 1, "stick": 1, "beef": 1, "white_wool": 1, "shears": 1}
    assert not done(text, **held, milk_bucket=1, sand=1, dirt=99)


@given(
    verb=st.sampled_from(sorted({*VERBS} - {"equip", "place", "kill", "find"})),
    item=st.sampled_from(vocabulary.OBJECTS),
    quantity=st.integers(1, 5),
)
def test_an_option_that_was_carried_out_is_done(verb, item, quantity):
    """With all materials. A kill needs luck, and a place counts earlier blocks."""
    plenty = ("bucket", "shears", "furnace", "coal", "oak_planks", "iron_ingot", "diamond_pickaxe")
    raw = ("iron_ore", "gold_ore", "beef", "mutton", "cod", "oak_log", "gold_ingot", "diamond")
    near = {kind: Sighting(500, 1) for kind in (*vocabulary.BLOCKS, *vocabulary.ENTITIES)}
    before = replace(
        PLAINS,
        inventory=dict.fromkeys((*plenty, *raw), 60),
        nearby_blocks=vocabulary.BLOCKS,
        nearby_entities=vocabulary.ENTITIES,
        near=near,
    )
    chosen = Option(verb, quantity, item)
    outcome = WORLD.step(before, chosen)
    # Of a block with a rare drop, so many need not give what they give on average.
    if outcome.success and not (verb == "mine" and item in ("grass", "oak_leaves", "birch_leaves")):
        assert WORLD.done(outcome.state, chosen)
