"""Between which cities is flown: the two settings of LLM-MCTS, Section 4.1.

The paper takes 68 cities of more than 5 million people and 62 of 0.5 to 2 million, and samples 400
pairs of each. It does not list them. Here the large ones are the most populous, and the mid-size
ones are drawn once. Pairs are drawn evenly from all between which there is a way; the way may lead
through any city.
"""

from __future__ import annotations

from functools import lru_cache
from random import Random
from typing import TYPE_CHECKING, Final, Literal, NamedTuple, TypeAlias, get_args

from llm_planning.settings import SettingsError

if TYPE_CHECKING:
    from llm_planning.environments.travel.graph import FlightGraph

Among: TypeAlias = Literal["large", "mid"]

LARGE: Final = 68
MID: Final = 62
"""The numbers of cities."""

MID_PEOPLE: Final = (500_000, 2_000_000)
"""The fewest and the most people of a mid-size city."""

PAIRS: Final = 400
"""The number of pairs of each setting."""


class Pair(NamedTuple):
    """From where to where is flown."""

    start: str
    goal: str


def cities(graph: FlightGraph, among: Among) -> tuple[str, ...]:
    """The cities of a setting, the most populous first; fewer if the graph has no more.

    Cities whose name another one has are left out, because an answer could not tell them apart. So
    are those to which or from which nobody flies.

    Args:
        among: the 68 most populous ones, or 62 of 0.5 to 2 million people, always the same.
    """
    assert among in get_args(Among)
    served = {end for ends in graph.flights.values() for end in ends}
    fitting = [
        name
        for name in graph.cities
        if name not in graph.shared and name in served and graph.flights[name]
    ]
    if among == "large":
        return tuple(fitting[:LARGE])
    least, most = MID_PEOPLE
    fitting = [name for name in fitting if least <= graph.cities[name].population <= most]
    drawn = set(Random("mid-size cities").sample(fitting, min(MID, len(fitting))))
    return tuple(name for name in fitting if name in drawn)


@lru_cache(16)
def pairs(graph: FlightGraph, among: Among, seed: int) -> tuple[Pair, ...]:
    """The pairs of a setting: 400, or as many as there are.

    Args:
        seed: each draws other pairs.

    Raises:
        SettingsError: there is no way between any two of the cities.
    """
    names = cities(graph, among)
    connected = [
        Pair(start, goal)
        for goal in names
        for start in names
        if start != goal and start in graph.flights_to(goal)
    ]
    if not connected:
        raise SettingsError(
            f"setting among={among} is not possible: the graph has no way between any two of its "
            f"{len(names)} cities of that size"
        )
    return tuple(Random(f"pairs {among} {seed}").sample(connected, min(PAIRS, len(connected))))
