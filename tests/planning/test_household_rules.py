"""What can be done in a home, what it does, and what is seen of it."""

import re
from random import Random

import pytest
from household_homes import FLAT, flat, following, own_task, walk

from llm_planning.environments.household.home import read_home
from llm_planning.environments.household.observations import (
    observation_text,
    state_text,
)
from llm_planning.environments.household.rules import NOWHERE, Action, State

GOAL = "two apples in the fridge"


@pytest.fixture
def kitchen(tmp_path):
    """A known state: an apple and the hat on the table, another apple in the chest."""
    rules = own_task(flat(tmp_path), GOAL).rules
    apple, pear, hat, ball = map(rules.things.index, ("apple", "pear", "hat", "ball"))
    places = ((pear,), (apple, hat), (apple,), (ball,))
    return rules, State(0, NOWHERE, 0, (), places)


def parts_of(rules, state):
    return [str(action) for action in rules.actions(state)]


def test_the_actions_of_a_room(kitchen):
    rules, state = kitchen
    assert rules.things[0] == "apple"
    assert parts_of(rules, state) == [
        "walk to the hall",
        "walk to the fridge",
        "walk to the table",
        "walk to the apple",
        "walk to the hat",
    ]


def test_walking_makes_close_to_all_that_is_there(kitchen):
    rules, state = kitchen
    (_, at_hat) = following(rules, state, ["walk to the hat"])
    (_, at_table) = following(rules, state, ["walk to the table"])
    assert at_hat == at_table
    assert parts_of(rules, at_table) == [
        "walk to the hall",
        "walk to the fridge",
        "grab the apple",
        "grab the hat",
    ]


def test_a_goal_is_carried_out(kitchen):
    rules, state = kitchen
    plan = [
        *("walk to the apple", "grab the apple", "walk to the fridge", "open the fridge"),
        *("put the apple inside the fridge", "walk to the hall", "walk to the chest"),
        *("open the chest", "grab the apple", "walk to the kitchen", "walk to the fridge"),
        "put the apple inside the fridge",
    ]
    states = following(rules, state, plan)
    assert [rules.success(state) for state in states] == [False] * 12 + [True]
    assert states[-1].steps == 12
    assert rules.actions(states[-1]) == []
    apple, pear = map(rules.things.index, ("apple", "pear"))
    assert states[-1].places[0] == (apple, apple, pear)


@pytest.mark.parametrize(
    ("before", "action", "why"),
    [
        ([], Action("walk to", "bench"), "the bench is in another room"),
        ([], Action("walk to", "pear"), "no pear is in sight"),
        ([], Action("walk to", "kitchen"), "you are in the kitchen already"),
        ([], Action("walk to", "moon"), "there is no 'moon'"),
        ([], Action("grab", "apple"), "you are not close to any apple that is in sight"),
        ([], Action("grab", "fridge"), "'fridge' is nothing that can be grabbed"),
        ([], Action("open", "fridge"), "you are not close to the fridge"),
        ([], Action("open", "table"), "'table' is no container"),
        ([], Action("fly to", "hall"), "unknown verb 'fly to'; did you mean walk to?"),
        (["walk to the hat"], Action("walk to", "table"), "you are close to the table already"),
        (["walk to the hat"], Action("walk to", "apple"), "you are close to the apple already"),
        (
            ["walk to the fridge"],
            Action("grab", "pear"),
            "you are not close to any pear",
        ),
        (["walk to the fridge"], Action("close", "fridge"), "the fridge is closed already"),
        (["walk to the fridge", "open the fridge"], Action("open", "fridge"), "is open already"),
        (["walk to the hat", "grab the hat"], Action("grab", "apple"), "you hold the hat"),
        (["walk to the hat", "grab the hat"], Action("walk to", "hat"), "you hold the hat"),
        (
            ["walk to the hat", "grab the hat", "walk to the fridge"],
            Action("put", "hat", "fridge", "inside"),
            "the fridge is closed",
        ),
        (
            ["walk to the hat", "grab the hat"],
            Action("put", "hat", "fridge", "on"),
            "nothing can be put on 'fridge'",
        ),
        (
            ["walk to the hat", "grab the hat"],
            Action("put", "hat", "bench", "on"),
            "you are not close to the bench",
        ),
        (["walk to the hat"], Action("put", "hat", "table", "on"), "you do not hold any hat"),
    ],
)
def test_an_impossible_action_says_why(kitchen, before, action, why):
    rules, state = kitchen
    state = following(rules, state, before)[-1]
    assert action not in rules.actions(state)
    assert why in rules.after(state, action)


@pytest.mark.parametrize(("home", "hands"), [("seen", 1), ("unseen", 2)])
def test_the_possible_actions_are_those_that_change_the_state(home, hands):
    task = own_task(home, "two plates in the dishwasher and an apple in the fridge", hands=hands)
    rules = task.rules
    every = {
        action
        for seed in range(3)
        for _, actions, _ in walk(rules, task.start, steps=30, seed=seed)
        for action in actions
    }
    assert len(every) > 100
    for state, actions, _ in walk(rules, task.start, steps=30, seed=9):
        assert len({str(action) for action in actions}) == len(actions)
        changing = {action for action in every if not isinstance(rules.after(state, action), str)}
        assert changing == every & set(actions)
        for action in actions:
            after = rules.after(state, action)
            assert after._replace(steps=state.steps) != state
            assert after.steps == state.steps + 1
            # Nothing is lost, and no more is held than there are hands.
            things = sorted(thing for place in (after.held, *after.places) for thing in place)
            assert things == sorted(
                thing for thing, number in enumerate(rules.number) for _ in range(number)
            )
            assert len(after.held) <= hands


def test_an_episode_ends_with_the_limit(tmp_path):
    task = own_task(flat(tmp_path), GOAL, limit=5)
    states = [state for state, _, _ in walk(task.rules, task.start, steps=9, seed=1)]
    assert len(states) == 5


def test_a_start_follows_the_law_and_leaves_the_goal_open(tmp_path):
    rules = own_task(flat(tmp_path), GOAL).rules
    starts = [rules.start(Random(seed)) for seed in range(1200)]
    apple, pear = rules.things.index("apple"), rules.things.index("pear")
    # Weights 3, 1, 2 of fridge, table, bench; for apples, the goal takes the fridge away.
    pears = [sum(start.places[place].count(pear) for start in starts) for place in range(4)]
    apples = [sum(start.places[place].count(apple) for start in starts) for place in range(4)]
    assert pears[2] == 0
    assert pears[0] == pytest.approx(600, abs=70)
    assert pears[3] == pytest.approx(400, abs=66)
    assert (apples[0], apples[2]) == (0, 0)
    assert apples[1] == pytest.approx(800, abs=93)
    assert sum(start.room for start in starts) == pytest.approx(600, abs=70)
    assert all((start.at, start.opened, start.held) == (NOWHERE, 0, ()) for start in starts)


def test_an_observation_and_a_state_in_english(kitchen):
    rules, state = kitchen
    plan = ["walk to the hat", "grab the hat", "walk to the fridge", "open the fridge"]
    state = following(rules, state, plan)[-1]
    seen = rules.observe(state)
    assert observation_text(seen, rules) == (
        "You are in the kitchen, close to the fridge. You hold a hat. The fridge is open; inside: "
        "a pear. On the table: an apple."
    )
    assert state_text(state, rules).splitlines() == [
        "You are in the kitchen, close to the fridge. You hold a hat.",
        "In the kitchen: The fridge is open; inside: a pear. On the table: an apple.",
        "In the hall: The chest is closed; inside: an apple. On the bench: a ball.",
    ]


def test_closed_containers_and_other_rooms_are_not_seen(kitchen):
    rules, state = kitchen
    seen = rules.observe(state)
    assert [place for place, _ in seen.shown] == [1]
    assert observation_text(seen, rules) == (
        "You are in the kitchen. You hold nothing. The fridge is closed. On the table: an apple, "
        "a hat."
    )
    apple = rules.things.index("apple")
    places = (*state.places[:2], (), (*state.places[3], apple))
    moved = state._replace(places=places)
    assert rules.observe(moved) == seen


def test_observations_are_keyed_by_what_the_goal_names(kitchen):
    rules, state = kitchen
    apple, _, hat, _ = range(4)
    seen = rules.observe(state)
    without_hat = rules.observe(state._replace(places=((), (apple,), (apple,), (hat,))))
    without_apple = rules.observe(state._replace(places=((), (hat,), (apple, apple), ())))
    assert seen == without_hat
    assert hash(seen) == hash(without_hat)
    assert seen.shown != without_hat.shown
    assert seen != without_apple


def test_one_thing_of_a_name_that_no_goal_has(tmp_path):
    home = flat(tmp_path)
    rules = own_task(home, "the pear in the chest").rules
    assert rules.number == (1, 1, 1, 1)
    assert own_task(home, GOAL).rules.number == (2, 1, 1, 1)
    with pytest.raises(ValueError, match=re.escape("three apples, but the home has two apples")):
        own_task(home, "three apples in the fridge")


def test_a_goal_that_holds_before_anything_is_done(tmp_path):
    path = tmp_path / "home.yaml"
    path.write_text(FLAT.replace("{chest: 1, bench: 1}", "{bench: 1}"))
    with pytest.raises(ValueError, match="hat always lies where the goal wants it"):
        own_task(read_home(str(path)), "the hat on the bench")


def test_two_hands_hold_two_things(tmp_path):
    home = flat(tmp_path)
    rules = own_task(home, "the apple in the chest and the pear in the chest", hands=2).rules
    start = rules.start(Random(1))
    state = start._replace(room=1, at=3, places=((), (), (), (0, 0, 1, 2, 3)))
    first, second = rules.things[:2]
    states = following(rules, state, [f"grab the {second}", f"grab the {first}"])
    assert states[-1].held == (0, 1)
    assert not any(str(action).startswith("grab") for action in rules.actions(states[-1]))
    assert [str(action) for action in rules.actions(states[-1])][-2:] == [
        f"put the {first} on the bench",
        f"put the {second} on the bench",
    ]
