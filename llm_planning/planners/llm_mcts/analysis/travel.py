"""L-Policy and L-Model: a language model as a policy, or as a model with a search (Section 4.1).

L-Policy is asked for the whole journey at once. L-Model is asked for the direct flights out of a
city, and uniform-cost search finds the journey with the fewest of them. An answer is right if it
begins and ends where it should, and every flight in it exists. No answer is wrong.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING, Any

from llm_planning.environments.travel.language import Flight
from llm_planning.execution.episode import STOP, play
from llm_planning.outcome import Outcome
from llm_planning.planners.llm_mcts.analysis.travel_roles import (
    RouteAsking,
    flights_role,
    route_role,
)
from llm_planning.roles import Asking, gather

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from llm_planning.environments.travel.domain import Travel
    from llm_planning.environments.travel.pairs import Pair
    from llm_planning.execution.episode import Episode, Stop
    from llm_planning.planners.llm_mcts.analysis.travel_roles import (
        Cities,
        FlightSearchSettings,
        RouteSettings,
    )
    from llm_planning.roles import Role
    from llm_planning.specs import Run


async def l_policy(run: Run[Travel, RouteSettings]) -> Outcome:
    """Plans a journey by one answer."""
    world, settings, seed = run.world, run.settings, run.seed
    asking = RouteAsking(world, run.engines, settings, seed=seed)
    cities = await asking.of(route_role(world, settings, seed=seed))(world.pair)
    return await _outcome(run, cities, asking, metrics={}, trace={})


async def l_model(run: Run[Travel, FlightSearchSettings]) -> Outcome:
    """Plans a journey by search in the flights that a model names."""
    world, settings, seed = run.world, run.settings, run.seed
    asking = Asking(world, run.engines, settings, seed=seed)
    found = await uniform_cost(
        asking.of(flights_role(world, settings, seed=seed)),
        world.pair,
        expansions=settings.expansions,
        width=settings.width,
    )
    return await _outcome(
        run,
        found.cities,
        asking,
        metrics={"expansions": found.expansions, "cities_reached": found.reached},
        trace={"said": {city: list(found.flights[city]) for city in found.cities[:-1]}},
    )


@dataclass(frozen=True, slots=True)
class Found:
    """The result of a search.

    Attributes:
        cities: of the journey, both ends included; empty if none was found.
        expansions: the cities whose flights were looked at.
        reached: the cities that they led to, the start included.
        flights: out of each city that was looked at, as they were named.
    """

    cities: Cities
    expansions: int
    reached: int
    flights: Mapping[str, Cities]


async def uniform_cost(
    ask: Role[str, Cities], journey: Pair, *, expansions: int, width: int
) -> Found:
    """Uniform-cost search in which every flight costs one.

    Cities are looked at in the order in which they were reached, so a journey is found with the
    fewest of the flights that were named; of equally short ones the one that is reached first. As
    all costs are equal, the search ends when the goal is named: no other way can be shorter.
    Cities of one depth do not wait for each other, so they are asked about at once.

    Args:
        ask: the direct flights out of a city.
        expansions: the most cities that are looked at.
        width: the most that are asked about at once. The result is the same for every width; with
            more, some are asked about in vain.
    """
    before: dict[str, str | None] = {journey.start: None}
    flights: dict[str, Cities] = {}
    depth = [journey.start]
    while depth and len(flights) < expansions:
        following: list[str] = []
        allowed = depth[: expansions - len(flights)]
        for first in range(0, len(allowed), width):
            batch = allowed[first : first + width]
            answers = await gather(ask(city) for city in batch)
            for city, ends in zip(batch, answers, strict=True):
                flights[city] = ends
                for end in ends:
                    if end in before:
                        continue
                    before[end] = city
                    following.append(end)
                    if end == journey.goal:
                        return Found(_way(before, end), len(flights), len(before), flights)
        depth = following
    return Found((), len(flights), len(before), flights)


def _way(before: Mapping[str, str | None], goal: str) -> Cities:
    cities = [goal]
    while (city := before[cities[-1]]) is not None:
        cities.append(city)
    return tuple(reversed(cities))


def failure_of(world: Travel, cities: Sequence[str]) -> tuple[str, str] | None:
    """What is wrong with a journey, and where; None if it is right.

    Args:
        cities: of the journey, both ends included.
    """
    if len(cities) < 2:
        return "no journey", "the answer names no journey"
    if cities[0] != world.pair.start:
        return "wrong start", f"it begins in {cities[0]}"
    for city, end in pairwise(cities):
        if why := world.feasible(city, Flight(end)):
            return ("no such city" if end not in world.graph.cities else "no such flight"), why
    if cities[-1] != world.pair.goal:
        return "wrong end", f"it ends in {cities[-1]}"
    return None


async def _outcome(
    run: Run[Travel, RouteSettings],
    cities: Cities,
    asking: Asking,
    *,
    metrics: Mapping[str, Any],
    trace: Mapping[str, Any],
) -> Outcome:
    """Flies the journey until a flight does not exist, and judges it."""
    world = run.world
    wrong = failure_of(world, cities)
    flights = list(map(Flight, cities[1:])) if cities[:1] == (world.pair.start,) else []

    async def planned(episode: Episode[str, Flight]) -> Flight | Stop:
        done = episode.moves
        refused = bool(done) and done[-1].step.obstacle is not None
        return STOP if refused or len(done) == len(flights) else flights[len(done)]

    execution = await (await play(world, planned, seed=run.seed)).recorded()
    name, cause = wrong or (None, None)
    verdict = f"wrong: {cause}" if wrong else "right"
    return Outcome(
        success=wrong is None,
        plan=tuple(map(str, map(Flight, cities[1:]))),
        metrics={
            **execution.metrics(),
            "flights": len(cities) - 1 if len(cities) > 1 else None,
            "failure": name,
            "failure_cause": cause,
            **metrics,
        },
        trace={
            "domain": run.domain,
            **run.header,
            **({"oracles": asking.oracles} if asking.oracles else {}),
            "cities": list(cities),
            **trace,
            **execution.to_json(),
        },
        text=f"{' - '.join(cities) or 'no answer'}\n{verdict}",
    )
