"""Homes as files: the two of the project, homes of one's own, and malformed ones."""

import re

import pytest
from household_homes import FLAT, flat

from llm_planning.environments.household.home import BUNDLED, HomeError, bundled_home, read_home
from llm_planning.environments.household.names import CONTAINERS, OBJECTS, ROOMS, SURFACES

MOVABLE_SURFACES = {"cutting board", "fryingpan"}


@pytest.mark.parametrize("name", BUNDLED)
def test_a_home_has_the_names_of_appendix_a1(name):
    home = bundled_home(name)
    containers = {place.name for place in home.places if place.container}
    surfaces = {place.name for place in home.places if not place.container}
    assert set(home.rooms) == set(ROOMS)
    assert sorted(home.things) == sorted(OBJECTS)
    # The stove and the bathroom counter are surfaces; what can be moved is no place.
    assert containers == set(CONTAINERS) - {"stove", "bathroom counter"}
    assert surfaces == {*SURFACES, "bathroom counter"} - MOVABLE_SURFACES
    assert all(sum(weight > 0 for weight in law) > 1 for law in home.law)


def test_the_unseen_home_differs_in_layout_and_in_where_things_lie():
    seen, unseen = map(bundled_home, BUNDLED)
    rooms = [
        {place.name: home.rooms[place.room] for place in home.places} for home in (seen, unseen)
    ]
    assert sum(rooms[0][name] != rooms[1][name] for name in rooms[0]) >= 4

    def law(home, thing):
        weights = home.law[home.things.index(thing)]
        total = sum(weights)
        named = zip(home.places, weights, strict=True)
        return {place.name: weight / total for place, weight in named if weight}

    assert all(law(seen, thing) != law(unseen, thing) for thing in OBJECTS)


def test_a_home_of_ones_own(tmp_path):
    home = flat(tmp_path)
    assert home.rooms == ("kitchen", "hall")
    assert [(place.name, place.room, place.relation) for place in home.places] == [
        ("fridge", 0, "inside"),
        ("table", 0, "on"),
        ("chest", 1, "inside"),
        ("bench", 1, "on"),
    ]
    assert home.things == ("apple", "pear", "hat", "ball")
    assert home.law[0] == home.law[1] == (3.0, 1.0, 0.0, 2.0)
    assert home.number == (2, 1, 1, 1)
    assert home.goals[:3] == ((0, 0), (0, 1), (0, 2))
    assert home.trained_in == home.name


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("rooms:", "room:", "rooms is missing"),
        ("several:", "sveral:", "sveral is {'apple': 2}: Extra inputs"),
        ("fridge: 3", "fridge: much", "things.food.lie.fridge is 'much': Input"),
        ("fridge: 3", "fridge: 0", "things.food.lie.fridge is 0: Input should be gre"),
        ("fridge: 3", "fidge: 3", "things.food.lie: unknown place 'fidge'; did you mean fridge?"),
        ("goals: [fridge", "goals: [shelf", "things.food.goals: unknown place 'shelf'; known: be"),
        ("apple: 2", "plum: 2", "several: unknown thing 'plum'; known: apple"),
        ("apple: 2}", "apple: 2}\ntrained_in: there", "trained_in: unknown home 'there'; known: s"),
        ("[hat, ball]", "[hat, Ta ble]", "the name 'table' is given twice"),
        ("[hat, ball]", "[hat, hat and cap]", "the name 'hat and cap' has the word 'and'"),
        ("[hat, ball]", '[hat, "\\e[2J"]', "things.rest.names.1 is '\\x1b[2J': Str"),
        (FLAT, "rooms: {hall: {}}\nthings: {a: {names: [hat], lie: {x: 1}}}", "rooms: no room ha"),
        (FLAT, "[1]", "holds [1]; write a mapping"),
        ("rooms:\n", "rooms:\n  kitchen: {}\n", "the key 'kitchen' is given twice"),
    ],
)
def test_a_malformed_home_is_one_clear_error(tmp_path, old, new, message):
    path = tmp_path / "home.yaml"
    assert old in FLAT
    path.write_text(FLAT.replace(old, new))
    with pytest.raises(HomeError, match=re.escape(message)) as error:
        read_home(str(path))
    assert str(path) in str(error.value)
    assert "\n" not in str(error.value)


def test_what_is_no_file_is_one_clear_error(tmp_path):
    for name in ("sen", str(tmp_path)):
        with pytest.raises(HomeError, match="neither seen nor unseen nor virtualhome nor a"):
            read_home(name)


@pytest.mark.parametrize(
    ("places", "things", "message"),
    [(61, 1, "61 places are more than 60"), (2, 501, "501 names are")],
)
def test_a_home_that_is_too_large_is_refused(tmp_path, places, things, message):
    path = tmp_path / "home.yaml"
    surfaces = ", ".join(f"p{number}" for number in range(places))
    names = ", ".join(f"t{number}" for number in range(things))
    path.write_text(
        f"rooms: {{hall: {{surfaces: [{surfaces}]}}}}\n"
        f"things: {{all: {{names: [{names}], lie: {{p0: 1}}}}}}\n"
    )
    with pytest.raises(HomeError, match=message):
        read_home(str(path))
