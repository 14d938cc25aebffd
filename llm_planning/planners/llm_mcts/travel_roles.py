"""The questions of L-Policy and L-Model: whole journeys, and the direct flights out of a city.

Cities that a model writes are those of the world, whatever their case and accents. A name that is
no city stays as it is: neither planner is told which cities there are.
"""

from __future__ import annotations

from functools import cache, lru_cache, partial
from importlib.resources import files
from typing import TYPE_CHECKING, Annotated, Any, Final

from pydantic import BaseModel, Field, create_model

from llm_planning.environments.travel.graph import spelled
from llm_planning.environments.travel.language import Flight, city_name
from llm_planning.environments.travel.pairs import Pair
from llm_planning.planners.llm_mcts.travel_knowledge import knowledge_rule, route_by
from llm_planning.planners.llm_mcts.travel_settings import FLIGHTS, ROUTE
from llm_planning.roles import Asking, Prompt, RoleRules, RoleSpec
from llm_serving.request import Sampling

if TYPE_CHECKING:
    from llm_planning.environments.travel.domain import Travel
    from llm_planning.environments.travel.graph import FlightGraph
    from llm_planning.planners.llm_mcts.travel_knowledge import Cities
    from llm_planning.planners.llm_mcts.travel_settings import FlightSearchSettings, RouteSettings
    from llm_planning.roles import Errors, Role

LONGEST_ROUTE: Final = 8
"""The most cities of a model's journey; more where the shortest one has more."""


class CitiesAnswer(BaseModel):
    """Names of cities as a model writes them."""

    cities: list[Any]


@lru_cache(64)
def cities_answer(graph: FlightGraph, most: int) -> type[CitiesAnswer]:
    """The answers of up to `most` cities, which need not be in the graph."""
    city = city_name(graph)
    cities: Any = Annotated[list[city], Field(max_length=most)]  # type: ignore[valid-type]
    return create_model("Cities", __base__=CitiesAnswer, cities=(cities, ...))


@cache
def _prompt(system: str, user: str, listed: int) -> Prompt:
    source = (files(__package__) / "templates" / "travel.j2").read_text("utf-8")
    return Prompt(
        [source],
        system=(system, f"{system}_format"),
        user=(user,),
        constants={"listed": listed},
    )


def route_role(world: Travel, settings: RouteSettings, *, seed: int) -> RoleSpec[Pair, Cities]:
    """L-Policy's question: the cities of a journey, the first one included.

    Rules answer it in a `RouteAsking`.
    """
    start, goal = world.pair
    most = max(LONGEST_ROUTE, world.graph.flights_to(goal)[start] + 1)
    return RoleSpec(
        name=ROUTE,
        asks=Pair,
        prompt=partial(_prompt, ROUTE, "journey", 0),
        tell=lambda asked: {"start": spelled(asked.start), "goal": spelled(asked.goal)},
        **_cities(world.graph, most, settings, seed=seed),
    )


def flights_role(
    world: Travel, settings: FlightSearchSettings, *, seed: int
) -> RoleSpec[str, Cities]:
    """L-Model's question: the direct flights out of a city.

    Args:
        world: says which cities and flights there are.
        settings: how answers are drawn, and how many flights a model names.
        seed: of these draws.
    """
    return RoleSpec(
        name=FLIGHTS,
        asks=str,
        prompt=partial(_prompt, FLIGHTS, "city", settings.listed),
        tell=lambda city: {"city": spelled(city)},
        rule=knowledge_rule(world.graph),
        options=lambda cities: list(map(Flight, cities)),
        **_cities(world.graph, settings.listed, settings, seed=seed),
    )


def _cities(graph: FlightGraph, most: int, settings: RouteSettings, *, seed: int) -> dict[str, Any]:
    """The parts of a role that names cities."""
    sampling = Sampling(temperature=settings.temperature, seed=seed)
    return {
        "writes": partial(cities_answer, graph, most),
        "read": lambda _, said: tuple(graph.named(one) or one for one in said.cities),
        "sampling": lambda _: sampling,
    }


class RouteAsking(Asking):
    """Who answers `route`. Rules fly by what they know of flights, which errs as `route` is to."""

    domain: Travel

    @property
    def oracles(self) -> list[dict[str, object]]:
        """The oracle of flights, as that of the route."""
        return [
            {**one, "role": ROUTE, "key": f"({FLIGHTS}) {one['key']}"} for one in super().oracles
        ]

    def errors_of(self, role: str) -> Errors | None:  # noqa: ARG002 - there is one role
        """How the domain's rules err in the route; None if a model answers it."""
        return super().errors_of(ROUTE)

    def by_rules(self, spec: RoleRules[Any, Any]) -> Role[Any, Any] | None:  # noqa: ARG002
        """The route by rules; None if a model answers it."""
        graph = self.domain.graph
        known = super().by_rules(RoleRules(name=FLIGHTS, rule=knowledge_rule(graph)))
        if known is None:
            return None
        way = route_by(known, graph)

        async def ask(asked: Pair, /) -> Cities:
            cities = await way(asked)
            self._language.check(map(Flight, cities))
            return cities

        return ask
