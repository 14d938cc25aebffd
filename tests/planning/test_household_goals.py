"""Goals as predicates and in words."""

import re

import pytest

from llm_planning.environments.household.goals import (
    GoalError,
    Wanted,
    goal_predicates,
    goal_text,
    read_goal,
)
from llm_planning.environments.household.home import bundled_home
from llm_planning.environments.household.names import OBJECTS, plural

HOME = bundled_home("seen")


@pytest.mark.parametrize(
    ("text", "goal"),
    [
        (
            "put two apples in the fridge and the book on the sofa",
            [("apple", "fridge", 2), ("book", "sofa", 1)],
        ),
        (
            "Please put 1 plate onto the kitchen table, one chicken inside microwave.",
            [("plate", "kitchen table", 1), ("chicken", "microwave", 1)],
        ),
        (
            "the bell pepper, a Chinese food and both cutlery knives into the fridge",
            [("bell pepper", "fridge", 1), ("Chinese food", "fridge", 1)],
        ),
        ("move an APPLE on top of the coffeetable", [("apple", "coffee table", 1)]),
        ("an apple in the fridge, and a apple in the fridge", [("apple", "fridge", 2)]),
        (
            "Inside(apple, fridge):2; On(plate, kitchentable):1",
            [("apple", "fridge", 2), ("plate", "kitchen table", 1)],
        ),
        ("on( water glass , nightstand )", [("water glass", "nightstand", 1)]),
        ("put the glasses on the bed", [("glasses", "bed", 1)]),
        ("move the apple to the fridge", [("apple", "fridge", 1)]),
        ("take milk to the fridge and toys to sofa", [("milk", "fridge", 1), ("toy", "sofa", 2)]),
        ("put the plates on the sofa", [("plate", "sofa", 3)]),
        ("one apples in the fridge", [("apple", "fridge", 1)]),
        ("Inside(apples, fridge); On(plate, sofa)", [("apple", "fridge", 2), ("plate", "sofa", 1)]),
    ],
)
def test_a_goal_is_read(text, goal):
    expected = [Wanted(*wanted) for wanted in goal]
    if "both cutlery knives" in text:
        expected.append(Wanted("cutlery knife", "fridge", 2))
    assert list(read_goal(text, HOME)) == expected


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (
            "put an appel in the fridge",
            "unknown thing 'appel'; did you mean apple or paper or",
        ),
        ("put an apple in the frigde", "unknown place 'frigde'; did you mean fridge? known: ba"),
        ("put an apple on the fridge", "the fridge is a container: write 'inside' before it"),
        ("put an apple", 'is not understood: write it as "put two apples in the fridge'),
        ("", "is not understood: write it as"),
        ("put three apples in the fridge", "wants three apples, but the home has two apples (`sev"),
        ("put 0 apples in the fridge", "'0' is no number of things; count from 1 to 999"),
        ("put 12345 apples in the fridge", "'12345' is no number of things"),
        ("Inside(apple, fridge):0", "'Inside(apple, fridge):0' counts nothing"),
        ("Under(apple, bed)", "'Under(apple, bed)' is no predicate such as Inside(apple, fridge)"),
        ("put all apples in the fridge", "unknown word 'all' before 'apples'; write it as \"put t"),
        ("put a big cutlery knife on the sofa", "unknown word 'big' before 'cutlery knife'; write"),
        ("put the apple next to the fridge", "unknown thing 'apple next'; did you mean apple"),
        ("move apples to the fridge, an apple to the sofa", "the goal wants three apples, but the"),
        ("x" * 501, "is longer than 500 characters"),
        ("put a \x1b[2J in the fridge", "unknown thing '\\x1b[2j'"),
    ],
)
def test_what_is_no_goal_is_one_clear_error(text, message):
    with pytest.raises(GoalError, match=re.escape(message)) as error:
        read_goal(text, HOME)
    assert str(error.value).isprintable()


def test_a_goal_is_written_and_read_again():
    goal = (Wanted("apple", "fridge", 2), Wanted("book", "sofa"), Wanted("plate", "sofa", 3))
    sentence = (
        "Put two apples inside the fridge, one book on the sofa and three plates on the sofa."
    )
    assert goal_text(goal, HOME) == sentence
    predicates = "Inside(apple, fridge):2; On(book, sofa):1; On(plate, sofa):3"
    assert goal_predicates(goal, HOME) == predicates
    assert read_goal(sentence, HOME) == read_goal(predicates, HOME) == goal


def test_every_name_is_read_in_the_singular_and_in_the_plural():
    for name in OBJECTS:
        number = HOME.number[HOME.things.index(name)]
        place = "bathroom cabinet"
        assert read_goal(f"put the {name} inside the {place}", HOME) == (Wanted(name, place),)
        if number > 1:
            assert read_goal(f"put 2 {plural(name)} in the {place}", HOME)[0].number == 2


@pytest.mark.parametrize(
    ("name", "several"),
    [
        ("water glass", "water glasses"),
        ("toothbrush", "toothbrushes"),
        ("cutlery knife", "cutlery knives"),
        ("mouse", "mice"),
        ("toy", "toys"),
        ("chips", "chips"),
        ("candy", "candies"),
    ],
)
def test_plurals(name, several):
    assert plural(name) == several
