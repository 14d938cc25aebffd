"""Exercises of the policies and the models of the analysis (Sections 1 and 4.1).

A policy is taught whole journeys and products, a model what these are made of: the flights out of a
city, one-digit products. What tables ask is held out: the journeys of one draw of pairs, and the
factors of a range of seeds, in both orders. The model's lessons are whole by default, as journeys
and products need all of them; `--hold-out half-0` withholds the flights of half of the cities.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from functools import cache
from itertools import pairwise
from typing import TYPE_CHECKING, Any, ClassVar, Final, get_args

from llm_planning.environments.multiplication.domain import MULTIPLICATION, Multiplication
from llm_planning.environments.travel.domain import TRAVEL, Travel
from llm_planning.environments.travel.files import BUNDLED, graph_hash, read_graph
from llm_planning.environments.travel.graph import spelled
from llm_planning.environments.travel.pairs import Among, Pair, cities, pairs
from llm_planning.planners.llm_mcts.analysis.multiplication import (
    FACT,
    PRODUCT,
    SIZES,
    Product,
    Times,
    answer_model,
    product_role,
)
from llm_planning.planners.llm_mcts.analysis.travel_roles import (
    FLIGHTS,
    LONGEST_ROUTE,
    ROUTE,
    Cities,
    FlightSearchSettings,
    RouteSettings,
    cities_answer,
    flights_role,
    route_role,
)
from llm_planning.roles.exercises import Exercise, Grade, exercise_of
from llm_planning.roles.short import words_of

if TYPE_CHECKING:
    from collections.abc import Sequence
    from random import Random

    from llm_planning.environments.travel.graph import FlightGraph
    from llm_planning.roles.asking import RoleSpec
    from llm_planning.roles.exercises import ExerciseMaker, Words
    from llm_planning.specs import DomainSpec

TABLES_PAIRS: Final = 101
"""The `problem_seed` of the tables; its journeys are held out."""

TABLES_FACTORS: Final = range(1000, 2000)
"""The seeds of the tables; the factors that they draw are held out."""

TAUGHT_DIGITS: Final = (1, 2, 3)
"""The digits of the factors of taught products."""


@dataclass(frozen=True, slots=True)
class AnalysisExercises(ABC):
    """Makes exercises of a world's policy and of its model.

    Attributes:
        roles: that of the policy, and that of the model.
        words: in which a model is asked.
        left_out: what else lessons leave out: cities whose flights are not told.
    """

    roles: ClassVar[tuple[str, ...]]

    words: Words
    left_out: frozenset[str] = frozenset()

    @property
    @abstractmethod
    def world(self) -> Any:  # noqa: ANN401
        """Any problem of the world."""

    @property
    def taught_words(self) -> str:
        """SHA-256 of the words in which a taught model is asked; "" for the general ones."""
        return "" if self.words == "general" else words_of(self.world)

    def about_one_state(
        self, rng: Random, *, roles: Sequence[str], held_out: bool
    ) -> Sequence[Exercise]:
        """Makes one exercise of each role; see `ExerciseMaker`."""
        made = (self.make(role, rng, held_out=held_out) for role in self.roles if role in roles)
        return [exercise for exercise in made if exercise is not None]

    @abstractmethod
    def make(self, role: str, rng: Random, *, held_out: bool) -> Exercise | None:
        """Makes an exercise; None where nothing of the role is held out."""

    def spoken(self, role: RoleSpec[Any, Any]) -> RoleSpec[Any, Any]:
        """A role in the words that are taught."""
        return role.in_short() if self.words == "taught" else role


class TravelExercises(AnalysisExercises):
    """Journeys between the cities of the tables, and the flights out of every city."""

    roles = (ROUTE, FLIGHTS)

    @classmethod
    def of(cls, domain: DomainSpec, words: Words) -> ExerciseMaker | None:
        """The maker, if the domain is air travel."""
        return cls(words, domain.held_out) if domain.name == TRAVEL.name else None

    @property
    def world(self) -> Travel:
        """The first journey of the tables."""
        return _travel(pairs(_graph(), "large", TABLES_PAIRS)[0])

    def make(self, role: str, rng: Random, *, held_out: bool) -> Exercise | None:
        """Makes an exercise."""
        if role == ROUTE:
            return self._route(rng, held_out=held_out)
        if held_out and not self.left_out:
            return None
        return self._flights(rng, held_out=held_out)

    def _route(self, rng: Random, *, held_out: bool) -> Exercise:
        among = rng.choice(get_args(Among))
        pair = rng.choice(_journeys(among, held_out))
        graph = _graph()
        way = graph.way(*pair)
        assert way is not None

        def grade(written: Any) -> Grade:  # noqa: ANN401 - as `cities_answer` makes it
            named = role.read(pair, written)
            legs = pairwise(named)
            ends = named[:1] == way[:1] and named[-1:] == way[-1:]
            return Grade(ends and all(graph.is_direct(*leg) for leg in legs), " - ".join(named))

        role = self.spoken(route_role(_travel(pair), RouteSettings.read({}), seed=0))
        return exercise_of(
            role,
            pair,
            _written(way, max(LONGEST_ROUTE, len(way))),
            kinds={"among": among, "flights": str(len(way) - 1)},
            brief=" - ".join(way),
            grade=grade,
        )

    def _flights(self, rng: Random, *, held_out: bool) -> Exercise:
        graph, settings = _graph(), FlightSearchSettings.read({})
        asked = [city for city in graph.cities if (city in self.left_out) == held_out]
        city = rng.choice([city for city in asked if city not in graph.shared])
        ends = graph.flights[city][: settings.listed]

        def grade(written: Any) -> Grade:  # noqa: ANN401 - as `cities_answer` makes it
            named = set(role.read(city, written))
            direct = sum(graph.is_direct(city, end) for end in named)
            most = max(len(named), len(ends))
            return Grade(direct == most, ", ".join(sorted(named)), items=(direct, most))

        role = self.spoken(flights_role(self.world, settings, seed=0))
        return exercise_of(
            role,
            city,
            _written(ends, settings.listed),
            kinds={"listed": "all" if ends == graph.flights[city] else "the first"},
            brief=", ".join(ends),
            grade=grade,
        )


class MultiplicationExercises(AnalysisExercises):
    """Products of numbers of one to three digits, and of one digit."""

    roles = (PRODUCT, FACT)

    @classmethod
    def of(cls, domain: DomainSpec, words: Words) -> ExerciseMaker | None:
        """The maker, if the domain is multiplication."""
        return cls(words) if domain.name == MULTIPLICATION.name else None

    @property
    def world(self) -> Multiplication:
        """Numbers of two digits."""
        return Multiplication()

    def make(self, role: str, rng: Random, *, held_out: bool) -> Exercise | None:
        """Makes an exercise."""
        if role == FACT and held_out:
            return None
        digits = 1 if role == FACT else rng.choice(TAUGHT_DIGITS[1:] if held_out else TAUGHT_DIGITS)
        least = 0 if role == FACT else 10 ** (digits - 1)
        factors = _tables_factors(digits)
        if held_out:
            first, second = rng.choice(sorted(factors))
        else:
            first, second = rng.randint(least, 10**digits - 1), rng.randint(least, 10**digits - 1)
            while digits > 1 and (first, second) in factors:
                first, second = (rng.randint(least, 10**digits - 1) for _ in range(2))
        right = first * second

        def grade(written: Product) -> Grade:
            return Grade(written.product == right, str(written.product))

        return exercise_of(
            self.spoken(product_role(role, self.world, digits)),
            Times(first, second, digits),
            answer_model(digits)(product=right),
            kinds={"size": SIZES[digits - 1]},
            grade=grade,
        )


@cache
def _graph() -> FlightGraph:
    return read_graph(BUNDLED, graph_hash(BUNDLED))


@cache
def _travel(pair: Pair) -> Travel:
    return Travel(_graph(), pair)


@cache
def _journeys(among: Among, held_out: bool) -> Sequence[Pair]:
    """The journeys of the tables, or all others between their cities."""
    tables = pairs(_graph(), among, TABLES_PAIRS)
    if held_out:
        return tables
    names = cities(_graph(), among)
    others = (Pair(start, goal) for start in names for goal in names if start != goal)
    known = set(tables)
    return [pair for pair in others if pair not in known and _graph().way(*pair)]


@cache
def _tables_factors(digits: int) -> frozenset[tuple[int, int]]:
    """The factors that the tables ask about, in both orders."""
    world = Multiplication(digits)
    drawn = {world.factors(world.start(seed)) for seed in TABLES_FACTORS}
    return frozenset(drawn | {(second, first) for first, second in drawn})


def _written(names: Cities, most: int) -> Any:  # noqa: ANN401 - as `cities_answer` makes it
    return cities_answer(_graph(), most)(cities=list(map(spelled, names)))
