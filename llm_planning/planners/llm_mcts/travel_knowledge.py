"""What somebody knows of direct flights, by rules: the oracles of L-Policy and L-Model.

Knowledge is a list of flights for every city. It is right, or it is wrong in one of the ways of
`MISTAKES`. With systematic errors a city that is known wrongly stays so for a whole run, and its
wrong list is the same each time. Both planners draw from the same source: with equal seeds and
errors they are wrong about the same cities, and in the same way.

- L-Model is told the list as it is.
- L-Policy writes the best way, city by city. Out of a city that is known wrongly it flies to the
  first city of the wrong list that has no flight from there, and goes on from that one. If the list
  has none, the answer ends there.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, TypeAlias

from llm_planning.names import remedy
from llm_planning.roles import Rule
from llm_planning.settings import SettingsError

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from random import Random

    from llm_planning.environments.travel.graph import FlightGraph
    from llm_planning.environments.travel.pairs import Pair
    from llm_planning.roles import Role

Cities: TypeAlias = tuple[str, ...]


def _one(flights: Cities, others: Cities, rng: Random) -> Sequence[str]:  # noqa: ARG001
    return rng.sample(others, min(1, len(others)))


def _half(flights: Cities, others: Cities, rng: Random) -> Sequence[str]:
    kept = rng.sample(flights, len(flights) // 2)
    mixed = kept + rng.sample(others, min(len(flights) - len(kept), len(others)))
    rng.shuffle(mixed)
    return mixed


def _all(flights: Cities, others: Cities, rng: Random) -> Sequence[str]:
    return rng.sample(others, min(len(flights), len(others)))


def _none(flights: Cities, others: Cities, rng: Random) -> Sequence[str]:  # noqa: ARG001
    return ()


MISTAKES: Final[Mapping[str, Callable[[Cities, Cities, Random], Sequence[str]]]] = {
    "one": _one,
    "half": _half,
    "all": _all,
    "none": _none,
}
"""How a list can be wrong: it names one city to which there is no flight; half of the flights, and
as many others as are missing; as many others as there are flights; no city at all."""


def knowledge_rule(graph: FlightGraph, kinds: Sequence[str] = ()) -> Rule[str, Cities]:
    """Right and wrong flights out of a city; the subject is the city.

    Args:
        graph: the real flights.
        kinds: those of `MISTAKES` that are made, each alike; all if there are none.

    Raises:
        SettingsError: there is no such kind.
    """
    for kind in kinds:
        if kind not in MISTAKES:
            raise SettingsError(f"mistakes: {kind!r} is none; {remedy(kind, MISTAKES)}")

    def right(city: str) -> Cities:
        return graph.flights.get(city, ())

    def wrong(city: str, rng: Random) -> Cities | None:
        flights = right(city)
        others = tuple(one for one in graph.cities if one != city and one not in flights)
        said = tuple(MISTAKES[rng.choice(tuple(kinds or MISTAKES))](flights, others, rng))
        return None if said == flights else said

    return Rule(
        right=right,
        wrong=wrong,
        situation=lambda city: (city,),
        only=lambda some: knowledge_rule(graph, some),
    )


def route_by(known: Role[str, Cities], graph: FlightGraph) -> Role[Pair, Cities]:
    """L-Policy's answer by rules: the best way, with wrong legs out of cities known wrongly.

    Args:
        known: the flights out of a city.
        graph: the real flights.
    """

    async def route(asked: Pair, /) -> Cities:
        cities = [asked.start]
        while (here := cities[-1]) != asked.goal:
            said = await known(here)
            if said == graph.flights.get(here, ()):
                following = (graph.way(here, asked.goal) or ())[1:2]
            else:
                following = tuple(one for one in said if not graph.is_direct(here, one))[:1]
            cities += following
            if not following or following[0] in cities[:-1]:
                break
        return tuple(cities)

    return route
