from random import Random

import pytest
from cooking_kitchens import PaperGame, cooking_in, paper_kitchen, solution

from llm_planning.environments.cooking.domain import Subgoal
from llm_planning.environments.cooking.kitchen import Kitchen
from llm_planning.environments.cooking.recipes import (
    ACTIONS,
    RULES,
    TOOLS,
    CookingError,
    Direction,
    command,
    fits,
    read_cookbook,
)

BOOK = """You open the copy of 'Cooking: A Modern Approach (3rd Ed.)' and start reading:

Recipe #1
---------
Gather all following ingredients and follow the directions to prepare this tasty meal.

Ingredients:
  block of cheese
  red hot pepper

Directions:
  slice the block of cheese
  roast the block of cheese
  fry the red hot pepper
  prepare meal

Your score has not changed."""


def test_cookbook_gives_the_plan():
    assert read_cookbook(BOOK) == (
        ("slice", "block of cheese"),
        ("roast", "block of cheese"),
        ("fry", "red hot pepper"),
        ("prepare", "meal"),
        ("eat", "meal"),
    )


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("Directions:\n  chop the carrot\n", "no recipe that ends in a meal"),
        ("Directions:\n  grill the carrot\n  prepare meal", "'grill carrot'.* chop, dice, slice"),
    ],
)
def test_unusable_cookbook(text, message):
    with pytest.raises(CookingError, match=message):
        read_cookbook(text)


def test_actions_and_tools_are_the_papers():
    assert set(ACTIONS) == {
        "chop", "close", "cook", "dice", "drop", "eat", "examine", "slice", "prepare",
    }  # fmt: skip
    assert set(TOOLS) == {"knife", "oven", "stove", "fridge", "table", "counter"}


@pytest.mark.parametrize(
    ("verb", "expected"), [("dice", ("dice", "knife")), ("roast", ("cook", "oven"))]
)
def test_exactly_one_combination_is_valid(verb, expected):
    direction = Direction(verb, "carrot")
    assert [(a, t) for a in ACTIONS for t in TOOLS if fits(direction, a, t)] == [expected]


def test_meal_takes_any_tool_and_its_command_none():
    for verb in ("prepare", "eat"):
        direction = Direction(verb, "meal")
        assert [t for t in TOOLS if fits(direction, verb, t)] == list(TOOLS)
        assert command(direction, "fridge") == f"{verb} meal"
    assert command(Direction("fry", "egg"), "stove") == "cook egg with stove"


def tried(world, meal, *subgoal):
    return world.step(meal, Subgoal(*subgoal), Random(0))


def test_a_refused_subgoal_leaves_the_meal_and_the_game_alone():
    game = PaperGame(("fry", "egg"))
    world, meal = cooking_in(Kitchen(game))
    commands = list(game.commands)
    for action, ingredient, tool, why in [
        # The raw game would roast it and lose the meal.
        ("cook", "egg", "oven", "it does not fry the egg"),
        ("eat", "egg", "stove", "it does not fry the egg"),
        ("cook", "carrot", "stove", "the next is the egg"),
        # Valid, but for the direction after this one.
        ("prepare", "meal", "stove", "the next is the egg"),
        ("fly", "egg", "stove", "there is no fly with stove"),
        ("cook", "egg", "stov", "there is no cook with stov"),
    ]:
        assert tried(world, meal, action, ingredient, tool) == (
            meal,
            0.0,
            False,
            None,
            why,
            why,
            0,
        )
    assert game.commands == commands
    step = tried(world, meal, "cook", "egg", "stove")
    assert (step.state.done, step.done, step.obstacle) == (1, False, None)
    assert game.commands == [*commands, "cook egg with stove"]


def test_what_fits_is_not_told_before_a_try():
    world, meal = cooking_in(paper_kitchen(("fry", "egg")))
    assert len(world.actions(meal)) == len(ACTIONS) * len(TOOLS)
    assert "cook" not in world.describe(meal)


def test_the_advice_of_the_cookbook_cooks_the_meal_and_the_game_is_played_once():
    kitchen = paper_kitchen(("dice", "carrot"), ("roast", "carrot"))
    for _ in range(3):
        world, meal = cooking_in(kitchen)
        for number, subgoal in enumerate(world.advise(meal), start=1):
            assert subgoal == solution(meal.direction)
            step = world.step(meal, subgoal, Random(0))
            meal = step.state
            assert (meal.done, step.reward) == (number, float(number == 4))
            assert world.score(meal) == number / 4
        assert step.done
        assert world.success(meal)
        assert not world.actions(meal)
        assert not world.advise(meal)
        assert tried(world, meal, "eat", "meal", "table").obstacle == "the meal is eaten"
    assert kitchen.played == len(kitchen.recipe) == 4


def test_game_that_gives_no_point_is_an_error():
    game = PaperGame(("dice", "carrot"))
    world, meal = cooking_in(Kitchen(game))
    game.directions = (("dice", "onion"),)
    with pytest.raises(CookingError, match="paper does not do 'dice carrot with knife'"):
        tried(world, meal, "dice", "carrot", "knife")


def test_missing_ingredient_is_an_error():
    game = PaperGame(("dice", "carrot"), ("fry", "egg"))
    game.foods.remove("carrot")
    with pytest.raises(CookingError, match="paper begins without carrot at hand"):
        Kitchen(game)


def test_rules_use_the_actions_and_tools():
    for rule in RULES.values():
        assert rule.action in ACTIONS
        assert set(rule.tools) <= set(TOOLS)
