"""Every planner that travel's members allow makes a journey, by rules and without a model."""

from itertools import pairwise

import pytest

from llm_planning import open_uncached_engine, plan
from llm_planning.environments.travel.domain import TRAVEL, Travel
from llm_planning.environments.travel.graph import City, FlightGraph
from llm_planning.environments.travel.pairs import Pair
from llm_planning.planners.catalogue import PLANNERS
from llm_planning.registry import find_planner

LITTLE = {
    "roles": "rules",
    "simulations": 30,
    "simulations_per_action": 10,
    "k": 3,
    "d": 4,
    "iter": 10,
    "depth": 6,
}
"""Of these a planner is given what it knows."""

JOURNEYS = sorted(
    spec.name for spec in PLANNERS.values() if spec.name != "measure" and not spec.lacks(TRAVEL)
)


@pytest.fixture(scope="module")
def engine():
    with open_uncached_engine("none") as opened:
        yield opened


def world():
    """A to E by way of B or C, and D; F leads nowhere, and the way back to A is short."""
    legs = ("AB", "AC", "AF", "BA", "BD", "CD", "DA", "DE")
    cities = [
        City(key=name, name=name + name.lower(), country="XX", population=10 - number)
        for number, name in enumerate("ABCDEF")
    ]
    return Travel(FlightGraph(cities, map(tuple, legs)), Pair("Aa", "Ee"))


def test_planners_of_each_paper_are_among_them():
    assert {"too", "cot", "drip", "mc-dml", "puct", "uct", "react", "llm-policy"} < set(JOURNEYS)
    assert {"l-policy", "l-model"} < set(JOURNEYS)


@pytest.mark.parametrize("name", JOURNEYS)
async def test_a_planner_makes_a_journey(name, engine):
    spec = find_planner(name)
    known = spec.settings.model_fields.keys() - spec.never_read
    settings = {key: value for key, value in LITTLE.items() if key in known}
    there = world()
    outcome = await plan(name, there, engine=engine, settings=settings)
    cities = ["Aa", *(action.removeprefix("fly to ") for action in outcome.plan)]
    assert all(there.graph.is_direct(*leg) for leg in pairwise(cities))
    assert (cities[0], cities[-1]) == ("Aa", "Ee")
    assert outcome.success
    assert outcome.metrics["optimum"] == 3
