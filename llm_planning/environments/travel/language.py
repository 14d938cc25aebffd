"""The answers of a model about travel: flights, and predicted states.

A city is written in free words. A model has to know which cities there are, so a name that is none
is an answer as well: a flight to nowhere.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any, Final, TypeAlias

from pydantic import BaseModel, Field

from llm_planning.environments.travel.graph import plain

if TYPE_CHECKING:
    from collections.abc import Mapping

    from llm_planning.environments.travel.graph import FlightGraph

LONGEST: Final = 30
"""Characters of a city's name in an answer."""

CityName: TypeAlias = Annotated[
    str, Field(pattern=r"[A-Z][A-Za-z .,'()-]{1,29}", min_length=2, max_length=LONGEST)
]
"""A city as a model writes it: letters without accents, from a capital one on."""


@dataclass(frozen=True, slots=True)
class Flight:
    """To fly from where one is to a city.

    Attributes:
        to: the city, which need not exist.
    """

    to: str

    def __str__(self) -> str:
        return f"fly to {self.to}"


class FlightGrammar:
    """The grammar of flights.

    Args:
        graph: says which cities a text may mean.
    """

    told = 'An option is a direct flight from where you are: "city" names where it ends.'

    def __init__(self, graph: FlightGraph) -> None:
        self._graph = graph
        self.fields: Mapping[str, Any] = {"city": CityName}

    def read(self, answer: Mapping[str, Any]) -> Flight:
        """The flight to the city that the text names; to nowhere if there is none."""
        written: str = answer["city"]
        return Flight(self._graph.named(written) or written)

    def write(self, option: Flight) -> Mapping[str, Any]:
        """The fields of a flight, which `read` reads."""
        return {"city": plain(option.to)}


class Position(BaseModel):
    """Where the traveller is."""

    city: CityName


class PositionModel:
    """The form of a predicted state.

    Args:
        graph: says which cities a text may mean.
    """

    answer: type[BaseModel] = Position

    def __init__(self, graph: FlightGraph) -> None:
        self._graph = graph

    def write(self, state: str) -> BaseModel:
        """Writes a state as `read` reads it."""
        return Position(city=plain(state))

    def read(self, state: str, prediction: BaseModel) -> tuple[str, Mapping[str, int]]:
        """The predicted city; the present one, and what was written, if there is no such city."""
        written: str = prediction.model_dump()["city"]
        city = self._graph.named(written)
        return (state, {written: 1}) if city is None else (city, {})
