"""Air travel as a domain: from one city to another by direct flights.

Source: LLM-MCTS, Section 4.1.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Final

from pydantic import Field, model_validator

from llm_base.files import at_home
from llm_planning.domain import Domain, Judged, Step, wording_of
from llm_planning.environments import halves
from llm_planning.environments.travel.files import BUNDLED, graph_hash, read_graph
from llm_planning.environments.travel.language import Flight, FlightGrammar, PositionModel
from llm_planning.environments.travel.pairs import Among, Pair, pairs
from llm_planning.settings import Settings, SettingsError, identified
from llm_planning.specs import DomainSpec

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from random import Random

    from llm_planning.environments.travel.graph import FlightGraph

ABOUT: Final = (
    "You travel by plane, with scheduled direct flights between large cities of the real world. "
    "From a city you can fly to any city that it has a direct flight to, and to no other. The "
    "fewer flights, the better."
)


class Travel(Domain[str, Flight]):
    """Cities with direct flights between some of them.

    The state is the name of the city where the traveller is. Nothing is drawn, and every seed has
    the same start.

    Args:
        pair: from where to where; there is a way.
        problem: its name in metrics.
    """

    pair: Pair
    grammar: FlightGrammar
    state_model: PositionModel
    example: tuple[tuple[str, str], ...]

    about = ABOUT

    def __init__(self, graph: FlightGraph, pair: Pair, *, problem: str = "") -> None:
        self.graph = graph
        self.pair = pair
        self.goal = f"Be in {pair.goal}."
        self.grammar, self.state_model = FlightGrammar(graph), PositionModel(graph)
        self.wording = wording_of(__package__)
        # No city of this world, so that nothing is given away.
        self.example = (("Goal: Be in Alderby. You are in Birchby.", str(Flight("Alderby"))),)
        self._fewest = graph.flights_to(pair.goal)
        self._problem = problem

    def traits(self) -> dict[str, str | int]:
        """What every run's metrics say of the journey."""
        pair = self.pair
        return {
            "problem": self._problem or f"{pair.start} - {pair.goal}",
            "flown_from": pair.start,
            "flown_to": pair.goal,
            "optimum": self._fewest[pair.start],
        }

    def start(self, seed: int) -> str:  # noqa: ARG002 - every seed has the same start
        """s_0."""
        return self.pair.start

    def describe(self, state: str) -> str:
        """Where the traveller is."""
        return f"You are in {state}."

    def actions(self, state: str) -> Sequence[Flight]:
        """The direct flights; none where the goal is reached."""
        return () if self.success(state) else tuple(map(Flight, self.graph.flights[state]))

    def step(self, state: str, action: Flight, rng: Random) -> Step[str]:  # noqa: ARG002
        """Flies."""
        if refusal := self.feasible(state, action):
            return Step(state, text=refusal, obstacle=refusal)
        won = self.success(action.to)
        return Step(action.to, float(won), won, text=f"You land in {action.to}.")

    def success(self, state: str) -> bool:
        """Whether the traveller is where the goal says."""
        return state == self.pair.goal

    def feasible(self, state: str, action: Flight) -> str | None:
        """Why there is no such flight; None if there is."""
        if action.to not in self.graph.cities:
            return f"no city {action.to} is known"
        if self.graph.is_direct(state, action.to):
            return None
        return f"there is no direct flight from {state} to {action.to}"

    def advise(self, state: str) -> Sequence[Flight]:
        """A way with the fewest flights; empty where there is none."""
        way = self.graph.way(state, self.pair.goal) or ()
        return tuple(map(Flight, way[1:]))

    def score(self, state: str) -> float:
        """1 - (flights that are still needed / flights that the start needs); at least 0."""
        needed = self._fewest.get(state)
        return 0.0 if needed is None else max(0.0, 1.0 - needed / self._fewest[self.pair.start])

    def named(self, state: str) -> Sequence[Flight]:  # noqa: ARG002
        """The one flight that the goal itself names: the last one."""
        return (Flight(self.pair.goal),)

    def decompose(self, state: str, subtask: Flight | None) -> Sequence[Flight]:
        """The flight right before another one: to where that one begins, by the shortest way.

        Args:
            subtask: a flight; None for the goal.
        """
        if subtask is None:
            return self.named(state)
        way = self.graph.way(state, subtask.to) if subtask.to in self.graph.cities else None
        return () if way is None or len(way) <= 2 else (Flight(way[-2]),)

    def judge(self, state: str, subtask: Flight | None, parent: Flight | None) -> Judged:  # noqa: ARG002
        """Whether the traveller is there already, or can fly there.

        Args:
            subtask: a flight; None for the goal, which is done or cannot be done.
            parent: plays no part.
        """
        if subtask is None:
            done = self.success(state)
            return Judged("done" if done else "false", self.describe(state))
        if state == subtask.to:
            return Judged("done", f"you are in {state}")
        refusal = self.feasible(state, subtask)
        direct = f"{state} has a direct flight to {subtask.to}"
        return Judged("false", refusal) if refusal else Judged("true", direct)

    def remainder(self, state: str) -> str:  # noqa: ARG002
        """The goal, which has one part."""
        return self.goal

    def spared(self, state: str, action: Flight) -> Flight:  # noqa: ARG002
        """The flight itself: a goal of one part is never reached in part."""
        return action

    def mistakes(self, subtask: Flight) -> Mapping[str, Sequence[Flight]]:
        """Flights to another city."""
        return {"city": [Flight(city) for city in self.graph.cities if city != subtask.to]}


TASKS: Final = ("fly",)


class TravelSettings(Settings):
    """Settings of the domain.

    Attributes:
        among: between which cities is flown: `large`, the 68 most populous, or `mid`, 62 of 0.5 to
            2 million people. Ways may lead through any city.
        problem: number of the pair of cities, from 1 to 400.
        problem_seed: of the pairs; each draws others.
        graph: a folder with `cities.csv` and `direct_flights.csv`, in the place of the graph that
            comes with the project.
        graph_sha256: hash of these files, in hexadecimal, so that changed files make another trial.
            It is computed; a given value must match the files.
    """

    among: Among = "large"
    problem: int = Field(1, ge=1)
    problem_seed: int = Field(1, ge=0)
    graph: str = ""
    graph_sha256: str = ""

    @model_validator(mode="before")
    @classmethod
    def _identify(cls, values: object) -> object:
        if not isinstance(values, dict) or not (graph := values.get("graph")):
            return values
        return identified(values, "graph", graph_hash(Path(at_home(str(graph)))))


def _open(_: str, settings: TravelSettings) -> Travel:
    folder = Path(at_home(settings.graph)) if settings.graph else BUNDLED
    graph = read_graph(folder, settings.graph_sha256)
    drawn = pairs(graph, settings.among, settings.problem_seed)
    if settings.problem > len(drawn):
        raise SettingsError(
            f"setting problem={settings.problem} is not possible: among={settings.among} has "
            f"{len(drawn)} pairs of cities"
        )
    name = f"{settings.among} {settings.problem}"
    return Travel(graph, drawn[settings.problem - 1], problem=name)


def left_out(names: Sequence[str]) -> frozenset[str]:
    """The cities that are left out under these names: those of a half, and cities.

    Raises:
        ValueError: a name is none of these.
    """
    cities = read_graph(BUNDLED, graph_hash(BUNDLED)).cities.keys()
    return halves.left_out(names, known=cities, halved=cities)


TRAVEL = DomainSpec(
    name="travel",
    summary="from city to city by direct flights of the real world: LLM-MCTS",
    kind=Travel,
    tasks=TASKS,
    settings=TravelSettings,
    open=_open,
    leaving_out=left_out,
)
