"""L-Policy and L-Model: golden traces, the search by hand, and what wrong beliefs lead to."""

import asyncio
import re
from itertools import pairwise

import pytest
from runs import compact, run_in

from llm_planning.domain import DomainError
from llm_planning.environments.travel.domain import TRAVEL, Travel
from llm_planning.environments.travel.graph import City, FlightGraph
from llm_planning.environments.travel.pairs import Pair
from llm_planning.planners.llm_mcts.analysis.travel import failure_of, uniform_cost
from llm_planning.planners.llm_mcts.analysis.travel_roles import (
    MISTAKES,
    cities_answer,
    knowledge_rule,
    route_by,
)
from llm_planning.planners.llm_mcts.specs import SPECS
from llm_planning.roles import Errors, Oracle
from llm_planning.settings import SettingsError
from llm_serving.answers import constraint_of
from llm_serving.scripted import ScriptedEngine

PLANNERS = {spec.name: spec for spec in SPECS}

FROM = "Direct flights from "

LEGS = "AB AC BD CD DE BA"
"""A to E by way of B or C, and D: three flights."""


def world(start="Aa", goal="Ee", legs=LEGS):
    names = sorted({letter for leg in legs.split() for letter in leg})
    cities = [
        City(key=name, name=name + name.lower(), country="XX", population=1000 - i)
        for i, name in enumerate(names)
    ]
    return Travel(FlightGraph(cities, map(tuple, legs.split())), Pair(start, goal))


def run(name, *, engine=None, where=None, seed=0, **settings):
    spec = PLANNERS[name]
    given = spec.settings.read(settings)
    return asyncio.run(spec.run(run_in(where or world(), given, engine, seed=seed)))


def knowledge(graph, kind, *, seed):
    errors = Errors(rate=0.8, kind="systematic", mistakes=(kind,))
    return Oracle("flights", knowledge_rule(graph), errors=errors, seed=seed)


def listing(*cities):
    return compact({"cities": cities})


# --- L-Policy -------------------------------------------------------------------------------------


def test_l_policy_asks_once_and_flies():
    engine = ScriptedEngine({"route": listing("AA", "Cc", "Dd", "Ee")})
    outcome = run("l-policy", engine=engine)
    (request,) = engine.requests
    assert request.prompt[1].content == "From Aa to Ee."
    assert outcome.success
    assert outcome.plan == ("fly to Cc", "fly to Dd", "fly to Ee")
    assert outcome.metrics["flights"] == outcome.metrics["options_executed"] == 3
    assert outcome.trace["cities"] == ["Aa", "Cc", "Dd", "Ee"]
    assert outcome.text.splitlines() == ["Aa - Cc - Dd - Ee", "right"]


@pytest.mark.parametrize(
    ("cities", "failure", "flown"),
    [
        ((), "no journey", 0),
        (("Aa",), "no journey", 0),
        (("Bb", "Dd", "Ee"), "wrong start", 0),
        (("Aa", "Bb", "Dd"), "wrong end", 2),
        (("Aa", "Dd", "Ee"), "no such flight", 0),
        (("Aa", "Xanadu", "Dd", "Ee"), "no such city", 0),
        # The world stops where a flight does not exist: from Aa one could go on to Bb.
        (("Aa", "Ee", "Aa", "Bb", "Dd", "Ee"), "no such flight", 0),
        (("Aa", "Bb", "Dd", "Ee", "Aa"), "no such flight", 3),
    ],
)
def test_an_answer_with_a_fault_is_wrong(cities, failure, flown):
    outcome = run("l-policy", engine=ScriptedEngine({"route": listing(*cities)}))
    assert (outcome.success, outcome.metrics["failure"]) == (False, failure)
    assert outcome.metrics["options_executed"] == flown


# --- L-Model --------------------------------------------------------------------------------------


def asked(flights, calls):
    async def ask(city):
        calls.append(city)
        return tuple(flights.get(city, ()))

    return ask


def test_l_model_looks_at_cities_in_the_order_in_which_they_are_reached():
    lists = {"Aa": ("Bb", "Cc"), "Bb": ("Dd", "Aa"), "Cc": ("Dd",), "Dd": ("Ee",)}
    engine = ScriptedEngine(
        {"flights": lambda request: listing(*lists[request.prompt[1].content[len(FROM) : -1]])}
    )
    outcome = run("l-model", engine=engine, width=1)
    assert [request.prompt[1].content for request in engine.requests] == [
        f"{FROM}Aa:",
        f"{FROM}Bb:",
        f"{FROM}Cc:",
        f"{FROM}Dd:",
    ]
    assert outcome.success
    assert outcome.trace["cities"] == ["Aa", "Bb", "Dd", "Ee"]
    assert outcome.trace["said"] == {"Aa": ["Bb", "Cc"], "Bb": ["Dd", "Aa"], "Dd": ["Ee"]}
    assert (outcome.metrics["expansions"], outcome.metrics["cities_reached"]) == (4, 5)


@pytest.mark.parametrize("seed", range(2))
@pytest.mark.parametrize("kind", MISTAKES)
def test_a_whole_level_at_once_gives_the_same_journey(seed, kind):
    """On the real graph, with wrong beliefs; also where the cap cuts a level."""
    where = TRAVEL.open("fly", TRAVEL.settings.read({"among": "mid", "problem": seed + 1}))
    for cap in (7, 1000):
        searches = []
        for width in (1, 5, 1000):
            known = knowledge(where.graph, kind, seed=seed)
            narrow = asyncio.run(uniform_cost(known, where.pair, expansions=cap, width=width))
            searches.append(
                (narrow.cities, narrow.expansions, narrow.reached, list(narrow.flights))
            )
        assert searches[0] == searches[1] == searches[2]


def test_a_level_is_asked_about_together():
    inside = most = 0

    async def ask(city):
        nonlocal inside, most
        inside += 1
        most = max(most, inside)
        await asyncio.sleep(0)
        inside -= 1
        return ("b", "c", "d") if city == "a" else ()

    asyncio.run(uniform_cost(ask, Pair("a", "z"), expansions=9, width=9))
    assert most == 3


def test_the_search_ends_at_its_cap_and_where_nothing_is_named():
    calls = []
    flights = {"a": "bc", "b": "d", "c": "e", "d": "z"}
    none = asyncio.run(uniform_cost(asked(flights, calls), Pair("a", "z"), expansions=3, width=64))
    assert (none.cities, none.expansions, calls) == ((), 3, ["a", "b", "c"])
    empty = asyncio.run(uniform_cost(asked({}, []), Pair("a", "z"), expansions=9, width=64))
    assert (empty.cities, empty.expansions, empty.reached) == ((), 1, 1)
    assert failure_of(world(), ()) == ("no journey", "the answer names no journey")


def test_a_name_that_is_no_city_is_a_leg_that_does_not_exist():
    lists = {"Aa": ("Xanadu", "Bb"), "Xanadu": ("Ee",), "Bb": ()}
    engine = ScriptedEngine(
        {"flights": lambda request: listing(*lists[request.prompt[1].content[len(FROM) : -1]])}
    )
    outcome = run("l-model", engine=engine)
    assert outcome.trace["cities"] == ["Aa", "Xanadu", "Ee"]
    assert outcome.metrics["failure"] == "no such city"


# --- wrong beliefs --------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def large():
    return TRAVEL.open("fly", TRAVEL.settings.read({}))


def wrong_cities(graph, kind, seed=3):
    known = knowledge(graph, kind, seed=seed)

    async def ask():
        return {city: await known(city) for city in graph.cities}

    lists = asyncio.run(ask())
    return {city: flights for city, flights in lists.items() if flights != graph.flights[city]}


@pytest.mark.parametrize("kind", MISTAKES)
def test_one_city_in_five_is_known_wrongly_and_stays_so(large, kind):
    wrong = wrong_cities(large.graph, kind)
    assert 0.15 < len(wrong) / 725 < 0.25
    assert wrong == wrong_cities(large.graph, kind)
    for city, flights in wrong.items():
        false = [flight for flight in flights if not large.graph.is_direct(city, flight)]
        real = len(large.graph.flights[city])
        assert city not in flights
        assert {
            "one": (len(false), len(flights)) == (1, 1),
            "half": len(flights) == real and len(false) == real - real // 2,
            "all": len(flights) == len(false) == min(real, 724 - real),
            "none": not flights,
        }[kind]


def test_both_planners_are_wrong_about_the_same_cities(large):
    """A route is wrong exactly where the best way leaves a city that L-Model is told wrongly of."""
    wrong = wrong_cities(large.graph, "one")
    way = route_by(knowledge(large.graph, "one", seed=3), large.graph)
    names = list(large.graph.cities)[:30]
    for start in names:
        for goal in names[:10]:
            best = large.graph.way(start, goal)
            journey = asyncio.run(way(Pair(start, goal)))
            if set(best[:-1]) & set(wrong):
                first = next(city for city in best if city in wrong)
                place = best.index(first)
                assert journey[: place + 2] == (*best[: place + 1], wrong[first][0])
            else:
                assert journey == best


def test_rules_without_errors_are_right(tmp_path):
    for name in ("l-policy", "l-model"):
        outcome = run(name, roles="rules")
        assert outcome.success
        assert len(outcome.plan) == 3
    roles = tmp_path / "roles.yaml"
    roles.write_text("flights: {rate: 0.5, kind: systematic, mistakes: [forgotten]}\n")
    with pytest.raises(SettingsError, match="'forgotten' is none; known: all, half, none, one"):
        run("l-model", roles=str(roles))


def test_answers_are_finite():
    graph = world().graph
    constraint_of(cities_answer(graph, 25))
    assert cities_answer(graph, 20)(cities=["Paris"] * 20)


def test_the_language_has_the_shortest_journey_however_long_it_and_its_names_are():
    names = [
        f"{letter} of the Hartsfield Jackson Atlanta International" for letter in "ABCDEFGHIJKL"
    ]
    cities = [City(key=name[0], name=name, country="XX", population=9) for name in names]
    graph = FlightGraph(cities, pairwise("ABCDEFGHIJKL"))
    where = Travel(graph, Pair(names[0], names[-1]))
    for name, script in (
        ("l-policy", {"route": listing(*names)}),
        ("l-model", {"flights": {name: listing(*graph.flights[name]) for name in names}}),
    ):
        engine = ScriptedEngine({role: answering(script[role]) for role in script})
        outcome = run(name, engine=engine, where=where)
        assert outcome.success
        assert outcome.plan == run(name, where=where, roles="rules").plan
        assert len(outcome.plan) == 11
        for request in engine.requests:
            answer = answering(script[request.role])(request)
            assert re.fullmatch(request.constraint.regex, answer)
            assert len(answer) <= request.constraint.max_bytes


def answering(script):
    """A script's answer, or its answer to the city that a question names."""

    def answer(request):
        if isinstance(script, str):
            return script
        asked = request.prompt[-1].content.removeprefix(FROM).removesuffix(":")
        return script[asked]

    return answer


def test_rules_cannot_name_what_no_answer_can():
    cities = [City(key=name, name=name, country="XX", population=9) for name in ("Oslo", "東京")]
    where = Travel(FlightGraph(cities, [("Oslo", "東京")]), Pair("Oslo", "東京"))
    for name in ("l-policy", "l-model"):
        with pytest.raises(DomainError, match="rules name 'fly to 東京', which no answer can"):
            run(name, where=where, roles="rules")
