"""The questions of L-Policy and L-Model: whole journeys, and the direct flights out of a city."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache, lru_cache
from importlib.resources import files
from typing import TYPE_CHECKING, Annotated, Any, Final

from pydantic import BaseModel, Field, create_model

from llm_planning.environments.travel.graph import spelled
from llm_planning.environments.travel.language import Flight, city_name
from llm_planning.planners.llm_mcts.travel_knowledge import described, knowledge, route_by
from llm_planning.planners.llm_mcts.travel_settings import (
    FLIGHTS,
    ROUTE,
)
from llm_planning.roles import LlmRole, OptionLanguage, Prompt
from llm_serving.request import Sampling

if TYPE_CHECKING:
    from collections.abc import Mapping

    from llm_planning.environments.travel.domain import Travel
    from llm_planning.environments.travel.graph import FlightGraph
    from llm_planning.planners.llm_mcts.travel_knowledge import Cities
    from llm_planning.planners.llm_mcts.travel_settings import RouteSettings
    from llm_planning.roles import Engines, Oracle, Role

LONGEST_ROUTE: Final = 8
"""The most cities of a model's journey; more where the shortest one has more."""


@dataclass(frozen=True, slots=True)
class Journey:
    """Through which cities does one fly?

    Attributes:
        start: where the journey begins.
        goal: where it ends.
    """

    start: str
    goal: str


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


class TravelRoles:
    """The roles of one run, answered by a model or by rules.

    Cities that a model writes are those of the world, whatever their case and accents. A name that
    is no city stays as it is: neither planner is told which cities there are.

    Args:
        world: says which cities there are, and the flights for rules.
        engines: the models.
        settings: say who answers.
        seed: of all draws.

    Attributes:
        oracles: descriptions of the roles that rules answer.
    """

    def __init__(
        self, world: Travel, engines: Engines, settings: RouteSettings, *, seed: int
    ) -> None:
        self.oracles: list[dict[str, Any]] = []
        self._graph, (start, goal) = world.graph, world.pair
        self._longest = max(LONGEST_ROUTE, self._graph.flights_to(goal)[start] + 1)
        self._language: OptionLanguage[Flight] = OptionLanguage(world.grammar)
        self._engines = engines
        self._settings = settings
        self._seed = seed

    def route(self) -> Role[Journey, Cities]:
        """L-Policy's question: the cities of a journey, the first one included."""
        known = self._known(ROUTE)
        if known is not None:
            way = route_by(known, self._graph)

            async def by_rules(asked: Journey, /) -> Cities:
                return self._spoken(await way(asked.start, asked.goal))

            return by_rules

        def tell(asked: Journey) -> Mapping[str, object]:
            return {"start": spelled(asked.start), "goal": spelled(asked.goal)}

        role: LlmRole[Journey, CitiesAnswer] = LlmRole(
            ROUTE,
            prompt=_prompt(ROUTE, "journey", 0),
            answer=cities_answer(self._graph, self._longest),
            engine=self._engines.of(ROUTE),
            sampling=self._sampling,
            tell=tell,
        )
        return role.read(self._named)

    def flights(self, listed: int) -> Role[str, Cities]:
        """L-Model's question: the direct flights out of a city.

        Args:
            listed: the most that a model names.
        """
        known = self._known(FLIGHTS)
        if known is not None:

            async def by_rules(city: str, /) -> Cities:
                return self._spoken(await known(city))

            return by_rules

        def tell(city: str) -> Mapping[str, object]:
            return {"city": spelled(city)}

        role: LlmRole[str, CitiesAnswer] = LlmRole(
            FLIGHTS,
            prompt=_prompt(FLIGHTS, "city", listed),
            answer=cities_answer(self._graph, listed),
            engine=self._engines.of(FLIGHTS),
            sampling=self._sampling,
            tell=tell,
        )
        return role.read(self._named)

    @property
    def _sampling(self) -> Sampling:
        return Sampling(temperature=self._settings.temperature, seed=self._seed)

    def _named(self, asked: object, said: CitiesAnswer) -> Cities:  # noqa: ARG002
        return tuple(self._graph.named(one) or one for one in said.cities)

    def _spoken(self, cities: Cities) -> Cities:
        """What rules say, if a model can say it."""
        self._language.check(map(Flight, cities))
        return cities

    def _known(self, role: str) -> Oracle[str, Cities] | None:
        """Who answers by rules; None if a model does."""
        errors = self._settings.errors_of(role, opened=self._engines.by_role)
        if errors is None:
            return None
        known = knowledge(self._graph, errors, seed=self._seed)
        self.oracles.append(described(known, role))
        return known
