"""The state prior: drawn answers, log-probabilities, and the home's law with its errors."""

import re
from collections import Counter
from math import inf, log

import pytest
from household_homes import flat, own_task

from llm_planning.environments.household.home import bundled_home, home_of
from llm_planning.planners.llm_mcts.positions import (
    FLOOR,
    ROLE,
    Where,
    calibrated,
    floored,
    language,
    named,
    position_role,
    state_prior,
)
from llm_planning.roles import Errors, Oracle
from llm_serving.scripted import ScriptedEngine


@pytest.fixture
def rules(tmp_path):
    """Of the small home; the goal has two names."""
    return own_task(flat(tmp_path), "two apples in the fridge and the hat on the table").rules


def answering(*answers):
    """An engine that gives these answers about every thing, in the order of the samples."""
    return ScriptedEngine({ROLE: lambda request: answers[request.sample]})


# DRAWN ANSWERS -----------------------------------------------------------------------------------


async def test_answers_are_counted_by_hand(rules):
    """Of 5 positions, 3 are the fridge, 1 the table, and 1 the bench."""
    engine = answering(
        "inside the fridge, on the table", "on the fridge", "on the bench, inside the fridge"
    )
    prior = await state_prior(rules, "samples", engine=engine, samples=3, seed=7)
    assert rules.things == ("apple", "hat", "pear", "ball")
    assert prior == ((0.6, 0.2, FLOOR, 0.2),) * 2 + ((1.0,) * 4,) * 2
    assert Counter(request.sample for request in engine.requests) == {0: 2, 1: 2, 2: 2}
    assert {request.sampling.seed for request in engine.requests} == {7}
    assert {request.sampling.temperature for request in engine.requests} == {0.5}


async def test_the_question_names_the_places_and_one_thing(rules):
    engine = answering("inside the fridge")
    await state_prior(rules, "samples", engine=engine, samples=1)
    system, user = (message.content for message in engine.requests[1].prompt)
    assert "inside these containers: fridge, chest.\n" in system
    assert "on these surfaces: table, bench." in system
    assert "hat" in user
    assert "apple" not in user


@pytest.mark.parametrize(
    ("text", "fits"),
    [
        ("inside the fridge", True),
        ("on the old oak table, inside the chest, on the bench", True),
        ("on the very old oak table", False),
        ("under the bed", False),
        ("on the bed, on the bed, on the bed, on the bed", False),
        ("on the ", False),
        ("on the bed.", False),
    ],
)
def test_a_drawn_answer_has_a_finite_language(text, fits):
    free = language(bundled_home("seen"))
    assert bool(re.fullmatch(free.regex, text)) is fits
    assert len(text) <= free.max_bytes


def test_odd_names_of_a_home_can_be_drawn():
    home = home_of(
        {
            "rooms": {"den": {"surfaces": ["den table", "den table 2", "TV stand"]}},
            "things": {"all": {"names": ["hat"], "lie": {"den table": 1.0}}},
        },
        "odd",
    )
    answer = "on the den table 2, on the tv stand, on the den table 2"
    assert re.fullmatch(language(home).regex, answer)
    assert len(answer) <= language(home).max_bytes
    assert not re.fullmatch(language(home).regex, "on the den table 3")


def test_the_place_of_a_position():
    assert named("on the kitchen table") == "kitchen table"
    assert named("inside the fridge") == "fridge"


async def test_the_uniform_prior_asks_nobody(rules):
    engine = ScriptedEngine({})
    assert await state_prior(rules, "uniform", engine=engine) == ((1.0,) * 4,) * 4
    assert not engine.requests + engine.scored


def test_the_floor_by_hand():
    assert floored([3, 0, 1, 0]) == (0.75, FLOOR, 0.25, FLOOR)


def test_what_is_said_of_nothing_in_particular_is_taken_away():
    """0.5 / 0.8 is to 0.5 / 0.2 as 1 to 4; of several neutral words, the mean in nats counts."""
    asked = (log(0.5), log(0.5))
    assert calibrated(asked, [(log(0.8), log(0.2))]) == pytest.approx([0.2, 0.8])
    both = [(log(0.8), log(0.2)), (log(0.2), log(0.8))]
    assert calibrated(asked, both) == pytest.approx([0.5, 0.5])
    # An engine may give -inf: what is impossible stays so, and no place becomes NaN.
    shut = (-inf, log(0.5), log(0.5))
    assert calibrated(shut, [(-inf, log(0.8), log(0.2))]) == pytest.approx([0, 0.2, 0.8])
    assert calibrated(shut, [(log(0.5), log(0.5), -inf)]) == pytest.approx([0, 2 / 3, 1 / 3])


# RULES -------------------------------------------------------------------------------------------


def oracle(rules, *, seed=1, **errors):
    return Oracle(ROLE, position_role(rules, seed=seed).rule, errors=Errors(**errors), seed=seed)


async def test_right_rules_say_the_law(rules):
    """Of the law of apples, fridge 3, table 1, bench 2, the goal takes the fridge away."""
    engine = ScriptedEngine({})
    exact = await state_prior(rules, "exact", engine=engine, oracle=oracle(rules))
    assert exact[0] == pytest.approx((FLOOR, 1 / 3, FLOOR, 2 / 3))
    assert exact[1] == pytest.approx((FLOOR, FLOOR, 0.5, 0.5))
    drawn = await state_prior(rules, "samples", engine=engine, oracle=oracle(rules), samples=900)
    assert drawn[0][0] == drawn[0][2] == FLOOR
    # 300 of 900 are on the table, ± 4 · √(900 · 2/9) = 57.
    assert 243 / 900 < drawn[0][1] < 357 / 900
    again = await state_prior(rules, "samples", engine=engine, oracle=oracle(rules), samples=900)
    assert again == drawn


@pytest.mark.parametrize("kind", ["samples", "exact"])
async def test_a_wrong_belief_stays_at_one_place(kind):
    """Errors that stay put a thing where it never lies and is not wanted, in all samples."""
    rules = own_task("seen", "an apple in the fridge and the book on the sofa").rules
    counts = Counter()
    for seed in range(60):
        asked = oracle(rules, seed=seed, rate=0.0, kind="systematic")
        prior = await state_prior(rules, kind, engine=ScriptedEngine({}), oracle=asked)
        for thing in (0, 1):
            assert sorted(prior[thing])[-2:] == [FLOOR, 1.0]
            place = prior[thing].index(1.0)
            assert not bundled_home("seen").law[rules.home.things.index(rules.things[thing])][place]
            counts[thing, rules.home.places[place].name] += 1
    assert counts[0, "fridge"] == counts[1, "sofa"] == 0
    assert len(counts) > 16


async def test_independent_errors_are_of_single_samples():
    """A third of the samples is wrong, and these spread over 13 places."""
    rules = own_task("seen", "an apple in the fridge").rules
    asked = oracle(rules, rate=2 / 3)
    (apple, *_) = await state_prior(
        rules, "samples", engine=ScriptedEngine({}), oracle=asked, samples=900
    )
    law = rules.law[0]
    wrong = [share for place, share in enumerate(apple) if not law[place]]
    # 300 of 900, ± 4 · √(900 · 2/9) = 57.
    assert 243 / 900 < sum(wrong) < 357 / 900
    assert max(wrong) < 0.1


async def test_a_thing_that_lies_everywhere_is_never_wrong(rules):
    """The pear lies in three places, and is wanted in the fourth."""
    home = rules.home
    rules = own_task(home, "the pear in the chest").rules
    asked = oracle(rules, rate=0.0, kind="systematic")
    assert await asked(Where("pear")) == rules.law[0] == (3.0, 1.0, 0.0, 2.0)
