"""Uniform random actions in a home: the simulator in batches and one by one, and objects.

The peer is a home as a newcomer writes it: rooms, places and things are objects, the possible
actions are listed anew for every step, and a rollout begins with a copy of the home. All three walk
by the same draws, and their walks are compared before anything is timed. Tasks are the first of
each class and home. Seconds are those the thread spent computing.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from random import Random
from time import thread_time as clock
from typing import TYPE_CHECKING

import numpy as np
from harness import AnswersDifferError, Finding, medians, parser, report

from llm_planning.environments.household.home import BUNDLED, bundled_home
from llm_planning.environments.household.rules import NOWHERE, Rules, State
from llm_planning.environments.household.simulator import Batch, Simulator
from llm_planning.environments.household.tasks import CLASSES, TaskMaker

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from llm_planning.environments.household.tasks import Task

BATCH = 256
DEPTH = 30
REPEATS = 5
ROLLOUTS = 20
"""Of each task, one by one and with objects."""

BATCHES = 2
"""Of each task."""


@dataclass(eq=False)
class Thing:
    """Something that can be moved."""

    name: str
    number: int


@dataclass(eq=False)
class Place:
    """A container or a surface."""

    name: str
    room: str
    container: bool
    things: list[Thing] = field(default_factory=list)
    is_open: bool = False

    @property
    def seen(self) -> list[Thing]:
        """The things that someone in the room sees there."""
        if self.container and not self.is_open:
            return []
        return sorted(self.things, key=lambda thing: thing.number)


@dataclass(eq=False)
class ObjectHome:
    """A home of objects, in which an agent acts."""

    rooms: list[str]
    places: list[Place]
    wanted: list[tuple[str, str, int]]
    hands: int
    room: str
    at: Place | None = None
    held: list[Thing] = field(default_factory=list)

    @classmethod
    def of(cls, rules: Rules, state: State) -> ObjectHome:
        """The home of a start."""
        home = rules.home
        places = [
            Place(
                one.name,
                home.rooms[one.room],
                one.container,
                [Thing(rules.things[number], number) for number in things],
            )
            for one, things in zip(home.places, state.places, strict=True)
        ]
        goal = [tuple(one) for one in rules.goal]
        return cls(list(home.rooms), places, goal, rules.hands, home.rooms[state.room])

    def copy(self) -> ObjectHome:
        """A copy that can be changed. Nobody holds anything yet, or is close to anything."""
        places = [
            Place(one.name, one.room, one.container, list(one.things), one.is_open)
            for one in self.places
        ]
        return ObjectHome(self.rooms, places, self.wanted, self.hands, self.room)

    def actions(self) -> list[tuple[str, Place | Thing | str]]:
        """The possible actions."""
        found: list[tuple[str, Place | Thing | str]] = [
            ("room", room) for room in self.rooms if room != self.room
        ]
        here = self.at.seen if self.at else []
        known = {thing.name for thing in here}
        for place in self.places:
            if place.room == self.room and place is not self.at:
                found.append(("place", place))
                for thing in place.seen:
                    if thing.name not in known:
                        known.add(thing.name)
                        found.append(("place", place))
        if self.at is None:
            return found
        if self.at.container:
            found.append(("turn", self.at))
        if len(self.held) < self.hands:
            found += [("grab", thing) for thing in {one.name: one for one in here}.values()]
        if not self.at.container or self.at.is_open:
            found += [("put", thing) for thing in {one.name: one for one in self.held}.values()]
        return found

    def act(self, action: tuple[str, Place | Thing | str]) -> None:
        """Carries out a possible action."""
        match action:
            case ("room", str(room)):
                self.room, self.at = room, None
            case ("place", Place() as place):
                self.at = place
            case ("turn", Place() as place):
                place.is_open = not place.is_open
            case ("grab", Thing() as thing):
                assert self.at is not None
                self.at.things.remove(thing)
                self.held = sorted([*self.held, thing], key=lambda one: one.number)
            case ("put", Thing() as thing):
                assert self.at is not None
                self.held.remove(thing)
                self.at.things.append(thing)

    def won(self) -> bool:
        """Whether the goal is reached."""
        return all(
            sum(thing.name == name for thing in place.things) >= count
            for name, where, count in self.wanted
            for place in self.places
            if place.name == where
        )

    def rollout(self, draw: Callable[[], float]) -> float:
        """1 if the goal is reached, 0 if it is not."""
        now = self.copy()
        for _ in range(DEPTH):
            actions = now.actions()
            now.act(actions[int(draw() * len(actions))])
            if now.won():
                return 1.0
        return 0.0


def same_walks(task: Task) -> None:
    """Walks by the same draws in all three forms.

    Raises:
        AnswersDifferError: they come to different states.
    """
    rules, draws = task.rules, Random(1)
    simulator = Simulator(rules)
    state = task.start
    objects = ObjectHome.of(rules, state)
    batch = Batch(simulator, [state])
    while not (objects.won() or state.steps >= rules.limit):
        share = draws.random()
        batch.step(np.array([share]))
        state = simulator.step(state, share)
        actions = objects.actions()
        objects.act(actions[int(share * len(actions))])
        at = len(rules.home.places) if state.at == NOWHERE else state.at
        place = objects.at and objects.at.name
        known = None if state.at == NOWHERE else rules.home.places[state.at].name
        lie = [tuple(sorted(one.number for one in place.things)) for place in objects.places]
        agree = (
            place == known
            and batch.at.tolist() == [at]
            and objects.room == rules.home.rooms[state.room]
            and batch.room.tolist() == [state.room]
            and tuple(lie) == state.places
            and [int(batch.others[0, p] + batch.named[:, 0, p].sum()) for p in range(len(lie))]
            == [len(one) for one in lie]
        )
        if not agree:
            raise AnswersDifferError(f"{task.name}: the walks differ after action {state.steps}")


def in_batches(tasks: Sequence[Task]) -> float:
    """Seconds of `BATCHES` batches of each task."""
    simulators = [(Simulator(task.rules), task.start) for task in tasks]
    begun = clock()
    for simulator, start in simulators:
        for seed in range(BATCHES):
            simulator.rollouts([start], each=BATCH, depths=[DEPTH], gamma=0.95, seeds=[seed])
    return clock() - begun


def one_by_one(tasks: Sequence[Task]) -> float:
    """Seconds of `ROLLOUTS` rollouts of each task, each by itself."""
    simulators = [(Simulator(task.rules), task.start) for task in tasks]
    rng = Random(1)
    begun = clock()
    for simulator, start in simulators:
        for _ in range(ROLLOUTS):
            simulator.rollout(start, depth=DEPTH, gamma=0.95, rng=rng)
    return clock() - begun


def with_objects(tasks: Sequence[Task]) -> float:
    """Seconds of `ROLLOUTS` rollouts of each task with objects."""
    homes = [ObjectHome.of(task.rules, task.start) for task in tasks]
    draw = Random(1).random
    begun = clock()
    for home in homes:
        for _ in range(ROLLOUTS):
            home.rollout(draw)
    return clock() - begun


def main() -> None:
    """Runs the benchmark."""
    options = parser(__doc__).parse_args()
    makers = [TaskMaker(bundled_home(name)) for name in BUNDLED]
    tasks = [maker.task(name, 1, seed=1) for maker in makers for name in CLASSES]
    for task in tasks:
        same_walks(task)
    seconds = medians(
        {
            "batches": lambda: in_batches(tasks),
            "one by one": lambda: one_by_one(tasks),
            "objects": lambda: with_objects(tasks),
        },
        repeats=REPEATS,
    )
    # Hardly a random rollout reaches its goal, so nearly all have `DEPTH` actions.
    alone = len(tasks) * ROLLOUTS * DEPTH
    batched = len(tasks) * BATCHES * BATCH * DEPTH / seconds["batches"]
    single, objects = alone / seconds["one by one"], alone / seconds["objects"]
    report(
        "household",
        [
            Finding(
                label="actions per second, batches over objects",
                measured=batched / objects,
                unit="x",
                bound="at least",
                target=10,
                details={"actions per second with objects": objects},
            ),
            Finding(
                label=f"actions per second in batches of {BATCH}",
                measured=batched,
                unit="/s",
                bound="at least",
                target=1_000_000,
            ),
            Finding(
                label="actions per second one by one",
                measured=single,
                unit="/s",
                bound="at least",
                target=200_000,
                details={"one by one over objects": single / objects},
            ),
        ],
        as_json=options.json,
    )


if __name__ == "__main__":
    main()
