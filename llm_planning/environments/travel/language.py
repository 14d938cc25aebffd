"""The answers of a model about travel: flights, and predicted states.

A city is written in free words. A model has to know which cities there are, so a name that is none
is an answer as well: a flight to nowhere.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING, Annotated, Any, Final

from pydantic import BaseModel, Field, create_model

from llm_planning.environments.travel.graph import spelled

if TYPE_CHECKING:
    from collections.abc import Mapping

    from llm_planning.environments.travel.graph import FlightGraph

LONGEST: Final = 30
"""Characters of a city's name in an answer; more where a graph has longer names."""


@lru_cache(16)
def city_name(graph: FlightGraph) -> Any:  # noqa: ANN401 - an annotated `str`
    """The type of a city as a model writes it: letters without accents, from a capital one on.

    Digits are there if a name of the graph has some, and names may be as long as its longest.
    """
    names = [spelled(name) for name in graph.cities]
    longest, shortest = max(LONGEST, *map(len, names)), max(1, min(2, *map(len, names)))
    digits = "0-9" if any(c.isdigit() for name in names for c in name) else ""
    rest = rf"[A-Za-z{digits} .,'()-]{{{shortest - 1},{longest - 1}}}"
    return Annotated[
        str,
        Field(pattern=f"^[A-Z{digits}]{rest}$", min_length=shortest, max_length=longest),
    ]


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

    instruction = 'An option is a direct flight from where you are: "city" names where it ends.'

    def __init__(self, graph: FlightGraph) -> None:
        self._graph = graph
        self.fields: Mapping[str, Any] = {"city": city_name(graph)}

    def read(self, answer: Mapping[str, Any]) -> Flight:
        """The flight to the city that the text names; to nowhere if there is none."""
        written: str = answer["city"]
        return Flight(self._graph.named(written) or written)

    def write(self, option: Flight) -> Mapping[str, Any]:
        """The fields of a flight, which `read` reads."""
        return {"city": spelled(option.to)}


class PositionModel:
    """The form of a predicted state.

    Args:
        graph: says which cities a text may mean.
    """

    def __init__(self, graph: FlightGraph) -> None:
        self._graph = graph
        self.answer = _position(graph)

    def write(self, state: str) -> BaseModel:
        """Writes a state as `read` reads it."""
        return self.answer(city=spelled(state))

    def read(self, state: str, prediction: BaseModel) -> tuple[str, Mapping[str, int]]:
        """The predicted city; the present one, and what was written, if there is no such city."""
        written: str = prediction.model_dump()["city"]
        city = self._graph.named(written)
        return (state, {written: 1}) if city is None else (city, {})


@lru_cache(16)
def _position(graph: FlightGraph) -> type[BaseModel]:
    return create_model("Position", __doc__="Where the traveller is.", city=(city_name(graph), ...))
