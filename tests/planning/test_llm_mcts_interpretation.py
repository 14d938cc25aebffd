"""Goal interpretation: what is asked, how rules err, and a home whose goal was read wrongly."""

import re
from random import Random

import pytest
from household_homes import flat, own_task, walk

from llm_planning.environments.household.belief import Belief
from llm_planning.environments.household.domain import HOUSEHOLD, Household
from llm_planning.environments.household.goals import GoalError, Wanted, check_goal
from llm_planning.environments.household.home import bundled_home
from llm_planning.planners.llm_mcts.interpretation import (
    ROLE,
    Instruction,
    answer_model,
    as_read,
    formal,
    goal_role,
    reached_as_read,
    translated,
)
from llm_planning.roles import Errors, Oracle
from llm_serving import constraint_of
from llm_serving.scripted import ScriptedEngine

SEEN = bundled_home("seen")
TWO = (Wanted("apple", "fridge", 2), Wanted("book", "sofa"))
ASKED = Instruction("Two apples go in the fridge, and the book on the sofa!", TWO)


def oracle(*, seed=1, **errors):
    return Oracle(ROLE, goal_role(SEEN).rule, errors=Errors(**errors), seed=seed)


async def read_by(engine):
    role = goal_role(SEEN)
    return role.read(ASKED, await role.by(engine)(ASKED))


# THE MODEL ---------------------------------------------------------------------------------------


async def test_a_model_writes_predicates_of_the_home():
    engine = ScriptedEngine({"goal": '{"goal":[[2,"apple","fridge"],[1,"book","sofa"]]}'})
    assert await read_by(engine) == TWO
    (request,) = engine.requests
    system, user = (message.content for message in request.prompt)
    assert user == ASKED.text
    assert "Places: fridge, oven, microwave, dishwasher, kitchen cabinet, kitchen table" in system
    assert '[3,"orange","dining table"]' in system
    assert request.sampling.temperature == 0


async def test_what_is_said_again_counts_once():
    answer = '{"goal":[[1,"apple","fridge"],[2,"apple","fridge"],[1,"apple","sofa"]]}'
    read = await read_by(ScriptedEngine({"goal": answer}))
    assert read == (Wanted("apple", "fridge", 1), Wanted("apple", "sofa", 1))


def test_an_answer_counts_to_what_the_home_has(tmp_path):
    """The small home has two things of a name at most, `seen` three."""
    for home, most in ((flat(tmp_path), 2), (SEEN, 3)):
        regex = constraint_of(answer_model(home)).regex
        assert re.fullmatch(regex, f'{{"goal":[[{most},"apple","fridge"]]}}')
        assert not re.fullmatch(regex, f'{{"goal":[[{most + 1},"apple","fridge"]]}}')


# RULES -------------------------------------------------------------------------------------------


async def test_right_rules_read_the_goal():
    assert await oracle()(ASKED) == TWO


async def test_a_wrong_reading_changes_one_predicate():
    kinds = set()
    for seed in range(40):
        read = await oracle(rate=0.0, seed=seed)(ASKED)
        check_goal(read, SEEN)
        (old, new), *more = [(a, b) for a, b in zip(TWO, read, strict=True) if a != b]
        assert not more
        assert old.number == new.number
        kinds.add((old.thing, old.thing == new.thing, old.place == new.place))
    # Thing or place of either predicate.
    assert kinds == {(w.thing, *same) for w in TWO for same in ((True, False), (False, True))}


async def test_item_by_item_each_predicate_errs_by_itself():
    changed = []
    for seed in range(200):
        read = await oracle(rate=0.5, unit="item", seed=seed)(ASKED)
        check_goal(read, SEEN)
        changed.append(tuple(a != b for a, b in zip(TWO, read, strict=True)))
    for one in ((False, False), (False, True), (True, False), (True, True)):
        assert 30 <= changed.count(one) <= 70, one  # 50 of 200; 6 is a standard deviation
    read = await oracle(rate=0.0, unit="item")(ASKED)
    assert all(a != b for a, b in zip(TWO, read, strict=True))


async def test_two_apples_are_only_mistaken_for_what_there_are_two_of():
    goal = (Wanted("plate", "dishwasher", 3),)
    for seed in range(40):
        (read,) = await oracle(rate=0.0, seed=seed)(Instruction("three plates", goal))
        assert read.thing in {"plate", "water glass"}


# THE HOME AS IT WAS READ -------------------------------------------------------------------------


def test_the_real_goal_in_another_order_is_the_real_home():
    world = Household(own_task("seen", "two apples in the fridge and the book on the sofa"))
    assert as_read(world, tuple(reversed(TWO))) is world


def test_observations_are_put_into_other_numbers():
    """What is seen along a random walk is what the rules of the other goal say of it."""
    world = Household(own_task("seen", "two apples in the fridge and the book on the sofa"))
    mind = as_read(world, (Wanted("towel", "nightstand"), Wanted("book", "sofa")))
    real, rules = world.rules, mind.rules
    assert rules.things[:2] == ("towel", "book")
    mine = mind.start(0)
    seen = 0
    for state, _, action in walk(real, world.start(0), steps=300, seed=4):
        found = translated(real.observe(state), real, rules)
        assert found == rules.observe(mine)
        assert found.shown == rules.observe(mine).shown
        seen += len(found.wanted)
        mine = rules.after(mine, action)
        if real.ended(state._replace(steps=0)) or rules.ended(mine):
            break
    assert seen > 0


def test_an_observation_of_the_same_rules_stays():
    rules = own_task("seen", "the book on the sofa").rules
    first = rules.observe(rules.start(Random(1)))
    assert translated(first, rules, rules) is first


def test_a_goal_that_the_home_cannot_meet(tmp_path):
    """The home has a second apple only where the real goal names apples."""
    home = flat(tmp_path)
    pair = (Wanted("apple", "chest", 2),)
    as_read(Household(own_task(home, "one apple in the fridge")), pair)
    with pytest.raises(GoalError, match="wants two apples, but the home has one apple"):
        as_read(Household(own_task(home, "the pear on the table")), pair)


def test_a_belief_is_never_without_a_place(tmp_path):
    """The pear lies where the misread goal wants it. Once all else is seen, it must be there."""
    home = flat(tmp_path)
    task = own_task(home, "the pear on the table", number=2)
    start = task.start._replace(room=1, at=-1, places=((1, 2), (), (), (0, 3)))
    rules = task.rules
    assert [rules.things[thing] for thing in (0, 1, 2, 3)] == ["pear", "apple", "hat", "ball"]
    mind = as_read(Household(task), (Wanted("apple", "fridge"),)).rules
    belief = Belief.at_start(mind, ((1.0,) * 4,) * 4, translated(rules.observe(start), rules, mind))
    for action in ("walk to the chest", "open the chest", "walk to the kitchen"):
        start = rules.after(start, next(a for a in rules.actions(start) if str(a) == action))
        belief = belief.after(translated(rules.observe(start), rules, mind))
    apple = mind.things.index("apple")
    assert apple in belief.hidden
    assert belief.probabilities(apple) == (1.0, 0.0, 0.0, 0.0)
    assert mind.success(belief.filled(Random(1)).draw(Random(2)))
    assert reached_as_read(belief) is None


def test_an_agent_knows_when_its_goal_is_reached(tmp_path):
    home = flat(tmp_path)
    task = own_task(home, "the pear on the table")
    rules = task.rules
    pear, apple = rules.things.index("pear"), rules.things.index("apple")
    start = task.start._replace(room=1, places=((), (), (), (pear, apple)))
    mind = as_read(Household(task), (Wanted("apple", "bench"),)).rules
    seen = translated(rules.observe(start), rules, mind)
    belief = Belief.at_start(mind, ((1.0,) * 4,) * 4, seen)
    assert (
        reached_as_read(belief)
        == "the instruction was read as On(apple, bench):1, and so it is done"
    )


# THE DOMAIN --------------------------------------------------------------------------------------


def test_the_home_keeps_the_users_own_words():
    goal = "2 apples in the fridge"
    opened = HOUSEHOLD.open("rearrange", HOUSEHOLD.settings.read({"goal": goal}))
    assert opened.instruction == goal
    assert opened.goal == "Put two apples inside the fridge."
    drawn = HOUSEHOLD.open("rearrange", HOUSEHOLD.settings.read({"class": "comp"}))
    assert drawn.instruction == drawn.goal
    assert formal(opened.rules.goal) == [(2, "apple", "fridge")]
