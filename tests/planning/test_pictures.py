"""Pictures of states: what they show, what they hide, and that they repeat."""

import io
import os
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from random import Random

import pytest
from PIL import Image as Pillow
from PIL import ImageChops, ImageStat

from llm_planning.domain import DomainError
from llm_planning.domain_calls import settled
from llm_planning.environments.household.domain import HOUSEHOLD, HouseholdSettings
from llm_planning.environments.minecraft.options.domain import Minecraft
from llm_planning.environments.minecraft.options.vocabulary import BLOCKS, ENTITIES, ITEMS
from llm_planning.pictures import Canvas, fitted, text_width

DOCS = Path(__file__).parents[2] / "docs" / "images"


def pixels(picture):
    return Pillow.open(io.BytesIO(picture.data)).convert("RGB")


def home(**settings):
    return HOUSEHOLD.open("rearrange", HouseholdSettings.read(settings))


MINECRAFT = Minecraft()
WORLDS = {"minecraft": MINECRAFT, "household": home(), "known household": home(sight="full")}


@pytest.fixture(params=WORLDS)
def world(request):
    return WORLDS[request.param]


@pytest.mark.parametrize("size", [336, 337, 448, 1000])
def test_a_picture_is_a_png_of_its_size(world, size):
    picture = world.draw(world.start(0), size=size)
    assert picture.data.startswith(b"\x89PNG")
    assert pixels(picture).size == (size, size)


def test_the_usual_size_is_the_smallest(world):
    assert pixels(world.draw(world.start(0))).size == (336, 336)


def test_equal_states_have_equal_bytes(world):
    other = type(world)(task=world.task) if world is MINECRAFT else home(sight="room")
    if world is not WORLDS["known household"]:
        assert other.draw(other.start(0)) == world.draw(world.start(0))
    assert world.draw(world.start(0)) == world.draw(world.start(0))


DRAWN = """
from hashlib import sha256
from random import Random
from llm_planning.environments.household.domain import HOUSEHOLD, HouseholdSettings
from llm_planning.environments.minecraft.options.domain import Minecraft
home = HOUSEHOLD.open("rearrange", HouseholdSettings.read({"sight": "full"}))
for world in (Minecraft(task="craft-a-compass"), home):
    rng, state = Random(1), world.start(0)
    for _ in range(8):
        print(sha256(world.draw(state, size=400).data).hexdigest())
        state = world.step(state, rng.choice(world.actions(state)), rng).state
"""


def test_every_process_draws_the_same_bytes():
    """The response cache outlives the process. Hashes of texts differ from process to process."""
    outputs = {
        subprocess.run(
            [sys.executable, "-c", DRAWN],
            env={**os.environ, "PYTHONHASHSEED": seed},
            check=True,
            capture_output=True,
            text=True,
        ).stdout
        for seed in ("1", "2")
    }
    (lines,) = (output.split() for output in outputs)
    assert len(lines) == 16
    assert len(set(lines)) > 8


def test_every_step_that_changes_something_in_sight_changes_the_picture(world):
    rng = Random(1)
    state, drawn = world.start(0), {}
    for _ in range(12):
        actions = world.actions(state)
        if not actions:
            break
        see = getattr(world, "observe", None) or world.describe
        if world is WORLDS["known household"]:
            see = world.rules.observe
        drawn[repr(see(state))] = world.draw(state).data
        state = world.step(state, rng.choice(actions), rng).state
    assert len(drawn) > 4
    assert len(set(drawn.values())) == len(drawn)


@pytest.mark.parametrize("size", [335, 4097, 336.0, True, None])
def test_impossible_sizes_are_refused_in_one_line(world, size):
    with pytest.raises(DomainError, match="336 to 4096") as refused:
        world.draw(world.start(0), size=size)
    assert repr(size) in str(refused.value)
    assert "\n" not in str(refused.value)


# Minecraft ----------------------------------------------------------------------------------------

START = MINECRAFT.start(0)


@pytest.mark.parametrize(
    "change",
    [
        {"inventory": {"oak_log": 1}},
        {"inventory": {"oak_log": 2}},
        {"inventory": {"iron_pickaxe": 1}},
        {"position": (1.0, 64.0, 0.0)},
        {"position": (0.0, 12.0, 0.0)},
        {"health": 19.0},
        {"hunger": 3.0},
        {"time": "night"},
        {"biome": "desert"},
        {"nearby_blocks": ("diamond_ore",)},
        {"nearby_entities": ("cow",)},
        {"equipment": (None, None, None, None, "shears", None)},
        {"chests": ("chest",)},
    ],
    ids=str,
)
def test_the_picture_shows_every_part_of_the_record(change):
    assert MINECRAFT.draw(replace(START, **change)) != MINECRAFT.draw(START)


def test_number_and_distance_of_what_is_near_are_shown():
    kind = START.nearby_blocks[0]
    number, distance = START.near[kind]
    pictures = {MINECRAFT.draw(START)}
    for sighting in ((number + 1, distance), (number, distance + 1)):
        near = {**START.near, kind: type(START.near[kind])(*sighting)}
        pictures.add(MINECRAFT.draw(replace(START, near=near)))
    assert len(pictures) == 3


def test_the_order_in_which_items_were_obtained_changes_nothing():
    state = replace(START, inventory={"stick": 2, "coal": 1})
    other = replace(START, inventory={"coal": 1, "stick": 2})
    assert MINECRAFT.draw(state) == MINECRAFT.draw(other)


def test_a_full_inventory_finds_room_and_more_is_counted():
    full = [replace(START, inventory=dict.fromkeys(ITEMS[:count], 64)) for count in (35, 36)]
    beyond = [replace(START, inventory=dict.fromkeys(ITEMS[:count], 64)) for count in (60, 61)]
    assert len({MINECRAFT.draw(state) for state in (*full, *beyond)}) == 4


ARMOUR = ("iron_helmet", "iron_chestplate", "iron_leggings", "iron_boots")
WORN = {
    "iron": (*ARMOUR, "iron_pickaxe", "shield"),
    "leather": (
        *(piece.replace("iron", "leather") for piece in ARMOUR),
        "crafting_table",
        "shield",
    ),
}


@pytest.mark.parametrize("size", [336, 672])
@pytest.mark.parametrize("worn", WORN)
def test_each_piece_of_full_armour_is_seen(worn, size):
    whole = replace(START, equipment=WORN[worn], inventory={}, chests=("chest",) * 2)
    without = [
        replace(whole, equipment=tuple(None if piece == slot else item for piece, item in pieces))
        for slot, pieces in ((slot, list(enumerate(WORN[worn]))) for slot in range(6))
    ]
    another = replace(whole, equipment=(*WORN[worn][:5], "torch"))
    fewer = [replace(whole, chests=("chest",) * number) for number in range(5) if number != 2]
    swapped = replace(whole, equipment=(*WORN[worn][:4], *reversed(WORN[worn][4:])))
    states = [whole, another, swapped, *without, *fewer]
    assert len({MINECRAFT.draw(state, size=size) for state in states}) == len(states)


@pytest.mark.parametrize("size", [336, 672])
def test_chests_that_find_no_room_are_counted(size):
    states = [
        replace(START, equipment=WORN["iron"], chests=("trapped_chest",) * number)
        for number in (40, 41, 42)
    ]
    assert len({MINECRAFT.draw(state, size=size) for state in states}) == 3


@pytest.mark.parametrize("size", [336, 672])
def test_a_full_inventory_finds_room_below_full_armour(size):
    """Every item is drawn: without any one of them the picture is another."""
    kept = dict.fromkeys(ITEMS[:36], 64)
    full = replace(START, equipment=WORN["iron"], inventory=kept)
    others = [replace(full, inventory={**kept, item: 63}) for item in kept]
    assert len({MINECRAFT.draw(state, size=size) for state in (full, *others)}) == 37


def test_everything_that_can_be_near_or_held_can_be_drawn():
    for size in (336, 500):
        for first in range(0, len(ITEMS), 30):
            held = dict.fromkeys((*ITEMS[first : first + 30], "pufferfish_bucket", "x"), 1)
            MINECRAFT.draw(replace(START, inventory=held), size=size)
        crowd = replace(START, nearby_blocks=BLOCKS, nearby_entities=ENTITIES)
        MINECRAFT.draw(crowd, size=size)


# A home -------------------------------------------------------------------------------------------


def hidden_moves(world, state):
    """States that differ from one in a single thing that is not in sight."""
    rules = world.rules
    seen = dict(rules.observe(state).shown)
    out_of_sight = [place for place in range(len(state.places)) if place not in seen]
    for place in out_of_sight:
        for thing in state.places[place]:
            for other in out_of_sight:
                if other != place:
                    places = list(state.places)
                    left = list(places[place])
                    left.remove(thing)
                    places[place] = tuple(left)
                    yield state._replace(places=tuple(places)).with_thing(thing, other)
                    break


@pytest.mark.parametrize("name", ["seen", "unseen"])
def test_what_is_not_in_sight_is_not_in_the_picture(name):
    world = home(home=name)
    state = world.start(0)
    drawn = world.draw(state)
    moves = list(hidden_moves(world, state))
    assert len(moves) > 10
    assert {world.draw(moved) for moved in moves} == {drawn}


def test_states_that_agree_with_an_observation_have_its_picture():
    """A belief draws where hidden things may be; none of its draws may be told from another."""
    world = home()
    state = world.start(0)
    draws = {world.belief((), Random(seed)) for seed in range(20)}
    assert len(draws) > 10
    assert {world.draw(draw) for draw in draws} == {world.draw(state)}


def test_a_thing_in_sight_is_in_the_picture():
    world = home()
    state = world.start(0)
    place, things = next((p, t) for p, t in world.rules.observe(state).shown if t)
    places = list(state.places)
    places[place] = things[1:]
    assert world.draw(state._replace(places=tuple(places))) != world.draw(state)


@pytest.mark.parametrize("name", ["seen", "unseen"])
def test_a_room_with_everything_in_sight_finds_room(name):
    world = home(home=name)
    rules, state = world.rules, world.start(0)
    everything = tuple(sorted(thing for things in state.places for thing in things))
    for room, places in enumerate(rules.rooms):
        crowded = [()] * len(state.places)
        crowded[places[0]] = everything
        full = state._replace(room=room, at=places[0], opened=(1 << 30) - 1)
        for lie in (state.places, tuple(crowded)):
            world.draw(full._replace(places=lie))


# The canvas ---------------------------------------------------------------------------------------


def test_a_text_is_shortened_to_its_width():
    assert fitted("crafting_table", 500, 10) == "crafting_table"
    short = fitted("crafting_table", 40, 10)
    assert short.endswith("..")
    assert short.startswith("cra")
    assert text_width(short, 10) <= 40


def test_what_is_drawn_is_where_it_was_put():
    canvas = Canvas(336, (0, 0, 0))
    canvas.box(10, 20, 30, 40, fill=(255, 0, 0))
    picture = pixels(canvas.image())
    assert picture.getpixel((10, 20)) == picture.getpixel((39, 59)) == (255, 0, 0)
    assert picture.getpixel((9, 20)) == picture.getpixel((40, 59)) == (0, 0, 0)


# Documentation ------------------------------------------------------------------------------------

KNOWN = home(**{"class": "novel-comp-2", "sight": "full"})
SHOWN = {"minecraft-state": (Minecraft(task="craft-a-compass"), 9), "household-state": (KNOWN, 5)}


@pytest.mark.parametrize("name", SHOWN)
async def test_the_pictures_in_the_docs_are_drawn_as_today(name):
    """After some of the actions that rules advise. A newer font may move a letter a little.

    Whoever changes a picture writes `drawn.data` to the file, and looks at it.
    """
    world, actions = SHOWN[name]
    rng, state = Random(0), world.start(0)
    for _ in range(actions):
        state = world.step(state, (await settled(world.advise(state)))[0], rng).state
    drawn = world.draw(state, size=448)
    there = Pillow.open(DOCS / f"{name}.png").convert("RGB")
    different = ImageStat.Stat(ImageChops.difference(there, pixels(drawn))).mean
    assert max(different) < 1.0
