"""Lessons of the policies and the models that LLM-MCTS compares: journeys, flights, products."""

from random import Random

import pytest

from llm_planning.domain import DomainError
from llm_planning.environments.multiplication.domain import Multiplication
from llm_planning.environments.travel.domain import TRAVEL
from llm_planning.environments.travel.graph import spelled
from llm_planning.registry import exercise_makers, find_domain

DRAWS = 200


def exercises(domain, role, *, held_out=False, words="general", draws=DRAWS, without=()):
    maker = exercise_makers(find_domain(domain).holding_out(without), words=words)[role]
    return [
        exercise
        for number in range(draws)
        for exercise in maker.about_one_state(Random(number), roles=[role], held_out=held_out)
    ]


@pytest.mark.parametrize(
    ("domain", "role"),
    [
        ("travel", "route"),
        ("travel", "flights"),
        ("multiplication", "product"),
        ("multiplication", "fact"),
    ],
)
def test_right_answers_are_right_in_both_words(domain, role):
    general, taught = (exercises(domain, role, words=words) for words in ("general", "taught"))
    assert [made.answer for made in general] == [made.answer for made in taught]
    assert all(made.grade(made.answer).right for made in general)
    assert len(taught[0].prompt[-1].content) < len(general[0].prompt[0].content)
    others = [made.answer for made in general if made.answer != general[0].answer]
    assert not all(general[0].grade(answer).right for answer in others)


def questions_of(domain, role, **options):
    return {made.prompt[-1].content for made in exercises(domain, role, **options)}


@pytest.mark.parametrize(("domain", "role"), [("travel", "route"), ("multiplication", "product")])
def test_what_the_tables_ask_is_not_taught(domain, role):
    taught = questions_of(domain, role, words="taught", draws=800)
    held_out = questions_of(domain, role, words="taught", held_out=True, draws=800)
    assert len(held_out) > 300
    assert not taught & held_out


def test_held_out_are_the_questions_of_the_tables():
    journeys = {
        f"From {spelled(world.pair.start)} to {spelled(world.pair.goal)}."
        for number in range(1, 401)
        for among in ("large", "mid")
        for world in [open_travel(among, number)]
    }
    assert questions_of("travel", "route", held_out=True) <= journeys

    factors = {
        world.factors(world.start(seed))
        for digits in (2, 3)
        for seed in range(1000, 2000)
        for world in [Multiplication(digits)]
    }
    products = {
        f"What is {first} x {second}?" for pair in factors for first, second in (pair, pair[::-1])
    }
    assert questions_of("multiplication", "product", held_out=True) <= products


def open_travel(among, number):
    settings = {"among": among, "problem": number, "problem_seed": 101}
    return TRAVEL.open("fly", TRAVEL.settings.read(settings))


def test_any_real_journey_is_right_and_flights_that_are_missing_are_wrong():
    made = next(made for made in exercises("travel", "route") if made.kinds["flights"] == "1")
    start, goal = made.brief.split(" - ")
    world = open_travel("large", 1)
    graph = world.graph
    through = next(
        city
        for city in graph.flights[start]
        if goal in graph.flights[city] and city.isascii() and city.isalpha()
    )
    longer = made.answer.replace('","', f'","{through}","', 1)
    assert made.grade(longer).right
    assert not made.grade(made.answer.replace('","', '","Nowhere","', 1)).right

    flights = next(made for made in exercises("travel", "flights") if made.kinds["listed"] == "all")
    whole = flights.grade(flights.answer)
    assert whole.items == (len(flights.brief.split(", ")),) * 2
    none = flights.grade('{"cities":[]}')
    assert not none.right
    assert none.items == (0, whole.items[1])


def test_the_flights_of_half_of_the_cities_may_be_withheld():
    taught = questions_of("travel", "flights", draws=600, without=["half-0"])
    withheld = questions_of("travel", "flights", draws=600, without=["half-0"], held_out=True)
    assert len(taught) > 200 < len(withheld)
    assert not taught & withheld
    whole = questions_of("travel", "flights", draws=600)
    assert taught & whole
    assert withheld & whole
    assert not exercises("travel", "flights", held_out=True)
    without_paris = questions_of("travel", "flights", held_out=True, without=["Paris"])
    assert without_paris == {"Direct flights from Paris:"}
    with pytest.raises(DomainError, match="cannot hold out 'Pari': did you mean Paris"):
        find_domain("travel").holding_out(["Pari"])
