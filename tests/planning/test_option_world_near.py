"""What is near has a number and a distance, and is used up."""

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st
from option_worlds import WORLD, option, outcomes

from llm_planning.environments.minecraft.options.state import Sighting
from llm_planning.environments.minecraft.options.surroundings import BLOCK_TICKS
from llm_planning.environments.minecraft.options.tasks import PLAINS


def standing(held=None, *, blocks=(), entities=(), **near):
    """A state by day with these things near; by day no monster comes."""
    return replace(
        PLAINS,
        inventory=held or {},
        nearby_blocks=(*blocks, *(kind for kind in near if kind not in ANIMALS)),
        nearby_entities=(*entities, *(kind for kind in near if kind in ANIMALS)),
        near={kind: Sighting(*seen) for kind, seen in near.items()},
    )


ANIMALS = ("cow", "sheep", "pig", "zombie")


def step(state, text):
    return WORLD.step(state, option(text))


@pytest.mark.parametrize(
    ("text", "held", "near", "left", "ticks_each"),
    [
        ("mine 3 oak_log", {}, {"oak_log": (5, 7)}, 2, 40),
        ("kill 3 pig", {}, {"pig": (5, 7)}, 2, 100),
        ("shear 3 sheep", {"shears": 1}, {"sheep": (5, 7)}, 2, 60),
        ("collect 3 lava", {"bucket": 5}, {"lava": (5, 7)}, 2, 20),
        ("collect 3 water", {"bucket": 8}, {"water": (5, 7)}, 5, 20),
        ("milk 3 cow", {"bucket": 8}, {"cow": (5, 7)}, 5, 60),
    ],
)
def test_what_is_taken_is_gone(text, held, near, left, ticks_each):
    before = standing(held, **near)
    outcome = step(before, text)
    assert outcome.success
    (kind,) = near
    assert outcome.state.near == {kind: Sighting(left, 7)}
    # There and back, 7 blocks each, and three times the work.
    assert outcome.ticks == round(2 * 7 * BLOCK_TICKS + 3 * ticks_each)
    rest = step(outcome.state, text.replace("3", str(left)))
    assert rest.success
    gone = left == 2
    assert (kind in (*rest.state.nearby_blocks, *rest.state.nearby_entities)) is not gone
    assert (kind in rest.state.near) is not gone


@given(number=st.integers(1, 9), wanted=st.integers(1, 12))
def test_no_more_than_there_is(number, wanted):
    outcome = step(
        standing(iron_ore=(number, 3), held={"stone_pickaxe": 1}), f"mine {wanted} iron_ore"
    )
    taken = min(number, wanted)
    assert outcome.state.inventory["iron_ore"] == taken
    assert outcome.state.near.get("iron_ore", (0, 3)) == (number - taken, 3)
    assert outcome.success is (wanted <= number)
    assert outcome.obstacle in (None, f"only {number} of {wanted} iron_ore nearby")


@pytest.mark.parametrize(
    ("verb", "wanted", "kind", "number", "ticks_each"),
    [
        ("mine", 20, "oak_log", 16, 40),
        ("kill", 6, "pig", 4, 100),
        ("kill", 2, "spider", 1, 100),
    ],
)
def test_what_is_not_counted_is_scarce_and_far(verb, wanted, kind, number, ticks_each):
    before = standing({"stone_pickaxe": 1}, blocks=("stone", kind), entities=("cow", kind))
    outcome = step(before, f"{verb} {wanted} {kind}")
    assert outcome.obstacle == f"only {number} of {wanted} {kind} nearby"
    assert outcome.ticks == round(2 * 32 * BLOCK_TICKS + number * ticks_each)
    assert outcome.state.nearby_blocks == ("stone",)
    assert outcome.state.nearby_entities == ("cow",)
    assert step(outcome.state, "mine 64 cobblestone").success


def test_what_is_left_of_it_is_counted():
    fewer = step(standing(blocks=("oak_log",)), "mine 6 oak_log").state
    assert fewer.near == {"oak_log": Sighting(10, 32)}


def test_monsters_that_come_are_counted():
    night = replace(standing(zombie=(1, 20), pig=(4, 9)), time="midnight")
    left = [outcome.state for outcome in outcomes(night, "find 1 sheep", 200)]
    met = [state for state in left if state.near.keys() & {"zombie", "skeleton", "spider"}]
    assert len(met) > 5
    for state in met:
        # The zombie was left behind, so this monster came, and stands one block away.
        (kind,) = state.near.keys() & {"zombie", "skeleton", "spider"}
        assert state.near[kind] == Sighting(1, 1)
        assert state.nearby_entities[0] == kind or state.near[state.nearby_entities[0]][1] == 1
    stayed = outcomes(night, "kill 4 pig", 300)
    assert {step.state.near["zombie"] for step in stayed} == {Sighting(1, 20), Sighting(2, 1)}
    # A killed monster does not count, with a sighting before or without one.
    for seen in (night, replace(night, near={})):
        fought = outcomes(seen, "kill 1 zombie", 600)
        assert {step.state.near.get("zombie") for step in fought} == {None, Sighting(1, 1)}


# what is placed


def test_placing_counts():
    state = step(standing({"torch": 3}), "place 2 torch").state
    assert state.near == {"torch": Sighting(2, 1)}
    assert step(state, "place 1 torch").state.near == {"torch": Sighting(3, 1)}


@pytest.mark.parametrize(
    ("text", "pickaxe"), [("find 1 surroundings", {}), ("find 1 sheep", {"wooden_pickaxe": 1})]
)
def test_stations_are_taken_along(text, pickaxe):
    before = standing(pickaxe, crafting_table=(1, 1), furnace=(2, 1), chest=(1, 1), oak_log=(9, 5))
    outcome = step(before, text)
    # A furnace is broken with a pickaxe or left where it is, as a chest is.
    gained = {"crafting_table": 1, "furnace": 2} if pickaxe else {"crafting_table": 1}
    assert outcome.change.gained == gained
    assert outcome.state.inventory == {**pickaxe, **gained}
    assert not {"crafting_table", "furnace", "chest"} & {*outcome.state.nearby_blocks}
    assert outcome.change.near["furnace"].number == 0
    bare = step(replace(before, nearby_blocks=("oak_log",), near={}), text)
    assert outcome.ticks >= 40 * sum(gained.values())
    assert outcome.ticks == bare.ticks + 40 * sum(gained.values())


def test_stations_stay_with_a_player_who_stays():
    state = standing(crafting_table=(1, 1), pig=(4, 2))
    assert step(state, "find 1 pig").state == state
