import pytest
from cooking_kitchens import PaperGame, paper_kitchen, solution

from llm_planning.environments.cooking.kitchen import (
    CookingWorld,
    EpisodeOverError,
    Kitchen,
)
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
        ("There is nothing written.", "no recipe that ends in a meal"),
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


@pytest.mark.parametrize("cookbook_action", ["chop", "dice", "slice", "fry", "roast"])
def test_exactly_one_combination_is_valid(cookbook_action):
    direction = Direction(cookbook_action, "carrot")
    valid = [(a, t) for a in ACTIONS for t in TOOLS if fits(direction, a, t)]
    expected = {"fry": ("cook", "stove"), "roast": ("cook", "oven")}
    assert valid == [expected.get(cookbook_action, (cookbook_action, "knife"))]


def test_meal_takes_any_tool_and_its_command_none():
    for verb in ("prepare", "eat"):
        direction = Direction(verb, "meal")
        assert [t for t in TOOLS if fits(direction, verb, t)] == list(TOOLS)
        assert command(direction, "fridge") == f"{verb} meal"
    assert command(Direction("fry", "egg"), "stove") == "cook egg with stove"


def test_refused_combination_costs_a_step_and_leaves_the_game_alone():
    game = PaperGame(("fry", "egg"))
    world = CookingWorld(Kitchen(game))
    told = list(game.commands)
    for action, ingredient, tool in [
        ("cook", "egg", "oven"),  # the raw game would roast it and lose the meal
        ("eat", "egg", "stove"),
        ("cook", "carrot", "stove"),
        ("prepare", "meal", "stove"),  # valid, but for the direction after this one
    ]:
        assert world.step(action, ingredient, tool) is False
    assert (world.steps, world.position, world.direction) == (4, 0, ("fry", "egg"))
    assert game.commands == told
    assert world.step("cook", "egg", "stove") is True
    assert game.commands == [*told, "cook egg with stove"]
    assert not world.done


def test_plan_completed_is_success():
    kitchen = paper_kitchen(("dice", "carrot"), ("roast", "carrot"))
    world = CookingWorld(kitchen)
    for number, direction in enumerate(world.recipe, start=1):
        assert world.direction == direction
        assert world.step(*solution(direction))
        assert world.steps == number
    assert world.success
    assert world.done
    with pytest.raises(EpisodeOverError, match="over"):
        world.step("eat", "meal", "table")


def test_horizon_ends_an_episode_without_success():
    world = CookingWorld(paper_kitchen(("dice", "carrot")), max_steps=2)
    world.step("close", "carrot", "knife")
    assert not world.done
    world.step("dice", "carrot", "knife")
    assert world.done
    assert not world.success
    with pytest.raises(EpisodeOverError):
        _ = world.direction


def test_game_is_played_once_and_remembered():
    kitchen = paper_kitchen(("dice", "carrot"))
    for _ in range(3):
        world = CookingWorld(kitchen)
        while not world.done:
            world.step(*solution(world.direction))
        assert world.success
    assert kitchen.played == len(kitchen.recipe) == 3


def test_unknown_words_are_errors_and_cost_nothing():
    world = CookingWorld(paper_kitchen(("dice", "carrot")))
    with pytest.raises(ValueError, match=r"'slise'; did you mean slice"):
        world.step("slise", "carrot", "knife")
    with pytest.raises(ValueError, match=r"'stov'; did you mean stove"):
        world.step("dice", "carrot", "stov")
    assert world.steps == 0


def test_game_that_gives_no_point_is_an_error():
    game = PaperGame(("dice", "carrot"))
    world = CookingWorld(Kitchen(game))
    game.directions = (("dice", "onion"),)
    with pytest.raises(CookingError, match="paper does not do 'dice carrot with knife'"):
        world.step("dice", "carrot", "knife")
    assert world.position == 0


def test_missing_ingredient_is_an_error():
    game = PaperGame(("dice", "carrot"), ("fry", "egg"))
    game.foods.remove("carrot")
    with pytest.raises(CookingError, match="paper begins without carrot at hand"):
        Kitchen(game)


def test_rules_use_the_actions_and_tools():
    for rule in RULES.values():
        assert rule.action in ACTIONS
        assert set(rule.tools) <= set(TOOLS)
