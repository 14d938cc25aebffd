"""The questions of L-Policy and L-Model: whole journeys, and the direct flights out of a city.

Cities that a model writes are those of the world, whatever their case and accents. A name that is
no city stays as it is: neither planner is told which cities there are.

By rules, knowledge is a list of flights for every city. It is right, or it is wrong in one of the
ways of `MISTAKES`. With systematic errors a city that is known wrongly stays so for a whole run,
and its wrong list is the same each time. Both planners draw from the same source: with equal seeds
and errors they are wrong about the same cities, and in the same way.

- L-Model is told the list as it is.
- L-Policy writes the best way, city by city. Out of a city that is known wrongly it flies to the
  first city of the wrong list that has no flight from there, and goes on from that one. If the list
  has none, the answer ends there.
"""

from __future__ import annotations

from functools import cache, lru_cache, partial
from importlib.resources import files
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Final, TypeAlias

from pydantic import BaseModel, Field, create_model

from llm_planning.environments.travel.graph import spelled
from llm_planning.environments.travel.language import Flight, city_name
from llm_planning.environments.travel.pairs import Pair
from llm_planning.names import remedy
from llm_planning.roles import Asking, Prompt, RoleRules, RoleSettings, RoleSpec, Rule, by_model
from llm_planning.roles.short import short_words
from llm_planning.settings import HOTTEST, SettingsError
from llm_serving.request import Sampling

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from random import Random

    from llm_planning.environments.travel.domain import Travel
    from llm_planning.environments.travel.graph import FlightGraph
    from llm_planning.roles import Errors, Role
    from llm_planning.settings import ReadWhen


ROUTE: Final = "route"
FLIGHTS: Final = "flights"
"""The roles: all cities of a journey in one answer; the direct flights out of a city."""

MOST_LISTED: Final = 25
"""The most flights that one answer may name."""


class RouteSettings(RoleSettings):
    """Settings of L-Policy.

    Attributes:
        temperature: of the model's answers; 0 is greedy.
    """

    known_roles = (ROUTE, FLIGHTS)
    read_when: ClassVar[ReadWhen] = {"temperature": [by_model(ROUTE)]}

    temperature: float = Field(0.0, ge=0.0, le=HOTTEST)


class FlightSearchSettings(RouteSettings):
    """Settings of L-Model. The paper states none of them.

    Attributes:
        listed: the most flights that the model names of a city; rules name all.
        expansions: the most cities whose flights are looked at.
        width: cities that are asked about at once; it does not change the journey.
    """

    read_when: ClassVar[ReadWhen] = {
        "temperature": [by_model(FLIGHTS)],
        "listed": [by_model(FLIGHTS)],
    }

    listed: int = Field(20, ge=1, le=MOST_LISTED)
    expansions: int = Field(100, ge=1)
    width: int = Field(64, ge=1)


Cities: TypeAlias = tuple[str, ...]


def _half(flights: Cities, others: Cities, rng: Random) -> Sequence[str]:
    kept = rng.sample(flights, len(flights) // 2)
    mixed = kept + rng.sample(others, min(len(flights) - len(kept), len(others)))
    rng.shuffle(mixed)
    return mixed


MISTAKES: Final[Mapping[str, Callable[[Cities, Cities, Random], Sequence[str]]]] = {
    "one": lambda _, others, rng: rng.sample(others, min(1, len(others))),
    "half": _half,
    "all": lambda flights, others, rng: rng.sample(others, min(len(flights), len(others))),
    "none": lambda *_: (),
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
        others = tuple(other for other in graph.cities if other != city and other not in flights)
        cities = tuple(MISTAKES[rng.choice(tuple(kinds or MISTAKES))](flights, others, rng))
        return None if cities == flights else cities

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

    async def route(pair: Pair, /) -> Cities:
        cities = [pair.start]
        while (here := cities[-1]) != pair.goal:
            flights = await known(here)
            if flights == graph.flights.get(here, ()):
                following = (graph.way(here, pair.goal) or ())[1:2]
            else:
                following = tuple(city for city in flights if not graph.is_direct(here, city))[:1]
            cities += following
            if not following or following[0] in cities[:-1]:
                break
        return tuple(cities)

    return route


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
        **_words(ROUTE, world, lambda pair: {"start": pair.start, "goal": pair.goal}),
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
        **_words(FLIGHTS, world, lambda city: {"city": city}),
        rule=knowledge_rule(world.graph),
        options=lambda cities: list(map(Flight, cities)),
        **_cities(world.graph, settings.listed, settings, seed=seed),
    )


def _words(role: str, world: Travel, named: Callable[[Any], Mapping[str, str]]) -> dict[str, Any]:
    """How a role tells a model the cities of a question."""

    def values_of(question: Any) -> Mapping[str, str]:  # noqa: ANN401 - `Pair` or `str`
        return {key: spelled(city) for key, city in named(question).items()}

    return {"values_of": values_of, "short": short_words(role, world, values_of=values_of)}


def _cities(graph: FlightGraph, most: int, settings: RouteSettings, *, seed: int) -> dict[str, Any]:
    """The parts of a role that names cities."""
    sampling = Sampling(temperature=settings.temperature, seed=seed)
    return {
        "writes": partial(cities_answer, graph, most),
        "read": lambda _, written: tuple(graph.named(city) or city for city in written.cities),
        "sampling": lambda _: sampling,
    }


class RouteAsking(Asking):
    """Who answers `route`. Rules fly by what they know of flights, which errs as `route` is to."""

    domain: Travel

    @property
    def oracles(self) -> list[dict[str, object]]:
        """The oracle of flights, as that of the route."""
        return [
            {**oracle, "role": ROUTE, "key": f"({FLIGHTS}) {oracle['key']}"}
            for oracle in super().oracles
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
        route = route_by(known, graph)

        async def ask(pair: Pair, /) -> Cities:
            cities = await route(pair)
            self._language.check(map(Flight, cities))
            return cities

        return ask
