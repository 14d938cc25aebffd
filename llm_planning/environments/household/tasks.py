"""Tasks of five classes, drawn from a seed, and trajectories of the expert.

Source: LLM-MCTS, Section 3.1, Appendices A.2 and B. Training tasks are set in one home. Of its
pairs (thing, place) a share is trained; of the compositions of two trained pairs, another share.

    simple          a trained pair
    comp            two pairs whose composition is trained
    novel-simple    a pair that is not trained, of a trained thing and a trained place
    novel-comp-2    two trained pairs whose composition is not trained
    novel-comp-3    three trained pairs of which no two make a trained composition
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from itertools import combinations
from random import Random
from typing import TYPE_CHECKING, Final, Literal, TypeAlias, get_args

from llm_planning.domain import DomainError
from llm_planning.environments.household.expert import Expert
from llm_planning.environments.household.goals import Wanted
from llm_planning.environments.household.home import Home, bundled_home
from llm_planning.environments.household.rules import Rules

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from llm_planning.environments.household.rules import Action, State

TaskClass: TypeAlias = Literal["simple", "comp", "novel-simple", "novel-comp-2", "novel-comp-3"]
CLASSES: Final[tuple[TaskClass, ...]] = get_args(TaskClass)

TRAINED_PAIRS: Final = 0.75
TRAINED_COMPOSITIONS: Final = 0.5
"""Shares of the pairs, and of the compositions of trained pairs, that are trained (our choice)."""

SPLIT_SEED: Final = 1
"""Of the split. Tasks of all seeds share it, so that none is novel by the choice of a seed."""

TRAJECTORIES: Final = 10_000
PROMPT_INSTANCES: Final = 200
"""Sizes of the training set and of its subset for prompts (Section 3.1)."""

Pair: TypeAlias = tuple[str, str]
"""A thing and the place where it is wanted."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Task:
    """A goal in a home, and where everything is at the start.

    Attributes:
        name: home, class and number.
        rules: of the home and the goal.
        start: s_0.
    """

    name: str
    rules: Rules
    start: State


@dataclass(frozen=True, slots=True)
class Split:
    """What is trained.

    Attributes:
        pairs: trained pairs, in the order of the home.
        compositions: trained compositions of two of them.
    """

    pairs: tuple[Pair, ...]
    compositions: frozenset[frozenset[Pair]]


def pairs_of(home: Home) -> tuple[Pair, ...]:
    """The pairs that the tasks of a home may want."""
    return tuple((home.things[thing], home.places[place].name) for thing, place in home.goals)


@cache
def split_of(home: Home) -> Split:
    """Draws what is trained in a home.

    Every thing and every place of the pairs keeps a trained pair, so that what is novel about a
    pair is never its thing or its place.
    """
    rng = Random(f"household split {SPLIT_SEED}")
    pairs = pairs_of(home)
    trained = set(pairs)
    for pair in rng.sample(pairs, len(pairs)):
        if len(trained) <= TRAINED_PAIRS * len(pairs):
            break
        others = trained - {pair}
        if any(other[0] == pair[0] for other in others) and any(
            other[1] == pair[1] for other in others
        ):
            trained = others
    kept = tuple(pair for pair in pairs if pair in trained)
    return Split(
        kept,
        frozenset(
            frozenset(both) for both in _different(kept, 2) if rng.random() < TRAINED_COMPOSITIONS
        ),
    )


def _different(pairs: Sequence[Pair], size: int) -> Iterator[tuple[Pair, ...]]:
    """Sets of pairs with different things."""
    for some in combinations(pairs, size):
        if len({thing for thing, _ in some}) == size:
            yield some


class TaskMaker:
    """Draws tasks of a home.

    Args:
        hands: how many things can be held at once.
        limit: actions after which an episode ends.
    """

    def __init__(self, home: Home, *, hands: int = 1, limit: int = 30) -> None:
        trained_in = home if home.trained_in == home.name else bundled_home(home.trained_in)
        split = split_of(trained_in)
        mine = pairs_of(home)
        self.home = home
        self._hands = hands
        self._limit = limit
        self._compositions = split.compositions
        self._trained = tuple(pair for pair in mine if pair in set(split.pairs))
        things, places = ({pair[part] for pair in split.pairs} for part in (0, 1))
        self._novel = tuple(
            (thing, place)
            for thing, place in mine
            if (thing, place) not in self._trained and thing in things and place in places
        )

    def task(self, name: TaskClass, number: int, *, seed: int) -> Task:
        """Draws a task; each is drawn by itself, whatever else is asked.

        Args:
            name: of its class.
            number: of the task, from 1.

        Raises:
            DomainError: the home has no tasks of this class.
        """
        rng = Random(f"household task {seed} {self.home.name} {name} {number}")
        return self._drawn(name, f"{self.home.name} {name} {number}", rng)

    def training_task(self, number: int, *, seed: int) -> Task:
        """Draws a training task: in turn a simple one and a composition."""
        rng = Random(f"household training {seed} {self.home.name} {number}")
        name: TaskClass = "simple" if number % 2 else "comp"
        return self._drawn(name, f"{self.home.name} training {number}", rng)

    def own_task(self, goal: Sequence[Wanted], number: int, *, seed: int) -> Task:
        """Draws a start for a given goal."""
        rng = Random(f"household own {seed} {self.home.name} {number}")
        return self._with_start(goal, f"{self.home.name} own {number}", rng)

    def _drawn(self, name: TaskClass, title: str, rng: Random) -> Task:
        goal = tuple(Wanted(thing, place) for thing, place in self._pairs(name, rng))
        return self._with_start(goal, title, rng)

    def _with_start(self, goal: Sequence[Wanted], title: str, rng: Random) -> Task:
        rules = Rules(self.home, goal, hands=self._hands, limit=self._limit)
        return Task(name=title, rules=rules, start=rules.start(rng))

    def _pairs(self, name: TaskClass, rng: Random) -> tuple[Pair, ...]:
        """Draws the pairs of a goal evenly from all goals of a class."""
        pairs = self._novel if name == "novel-simple" else self._trained
        size = {"comp": 2, "novel-comp-2": 2, "novel-comp-3": 3}.get(name, 1)
        for _ in range(_TRIES if len(pairs) >= size else 0):
            some = tuple(rng.sample(pairs, size))
            if self._fits(name, some):
                return some
        raise DomainError(
            f"home={self.home.name} has no tasks class={name}: its goals make none; add `goals` to "
            "its file, or set a goal of your own"
        )

    def _fits(self, name: TaskClass, some: tuple[Pair, ...]) -> bool:
        if len({thing for thing, _ in some}) < len(some):
            return False
        both = [
            frozenset(composition) in self._compositions for composition in combinations(some, 2)
        ]
        return all(both) if name == "comp" else not any(both)


_TRIES: Final = 10_000
"""Draws of a goal before a class counts as empty. About one in ten fits in this project's homes."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Trajectory:
    """The expert's way through a task.

    Attributes:
        states: before each action, shape [actions].
    """

    task: Task
    states: tuple[State, ...]
    actions: tuple[Action, ...]


def trajectory(task: Task) -> Trajectory:
    """The expert's trajectory of a task."""
    rules = task.rules
    actions = Expert(rules).plan(task.start)
    states = [task.start]
    for action in actions:
        after = rules.after(states[-1], action)
        assert not isinstance(after, str), after
        states.append(after)
    return Trajectory(task=task, states=tuple(states[:-1]), actions=actions)


def trajectories(
    *, seed: int, numbers: Iterable[int] = range(1, TRAJECTORIES + 1)
) -> Iterator[Trajectory]:
    """The expert's trajectories of training tasks in the home `seen`.

    Args:
        numbers: of the tasks, from 1.
    """
    maker = TaskMaker(bundled_home("seen"))
    return (trajectory(maker.training_task(number, seed=seed)) for number in numbers)


def prompt_numbers(*, seed: int) -> list[int]:
    """The numbers of the training tasks that prompts may show, drawn evenly from all."""
    every = range(1, TRAJECTORIES + 1)
    return sorted(Random(f"household prompts {seed}").sample(every, PROMPT_INSTANCES))
