"""Worlds for the tests of the planners that work in every domain, and how these are run."""

import sys
from math import exp, log
from pathlib import Path
from random import Random

from llm_planning.domain import Domain, Judged, OneOf, Step
from llm_planning.planners.any_domain.search_agents import DomainModel
from llm_planning.planners.any_domain.specs import SPECS
from llm_planning.roles import Engines
from llm_planning.search import Edge, Node, TrackedRandom, Walk
from llm_planning.specs import Run

EXAMPLES = Path(__file__).resolve().parents[2] / "examples"
PLANNERS = {spec.name: spec for spec in SPECS}


def hanoi(discs=3):
    if str(EXAMPLES) not in sys.path:
        sys.path.append(str(EXAMPLES))
    from own_domain import Hanoi

    return Hanoi(discs)


async def run(name, world, *, engine=None, seed=0, **settings):
    spec = PLANNERS[name]
    given = Run(
        domain="test",
        task="the-task",
        world=world,
        engines=Engines(engine),
        settings=spec.settings.read(settings),
        seed=seed,
    )
    return await spec.run(given)


class Doors(Domain):
    """Two doors; behind the right one is the prize. An arrow shows it in the full state."""

    goal = "Win the prize."
    about = "You stand before two doors."

    def start(self, seed):
        return "outside"

    def describe(self, state):
        return f"You are {state}. An arrow points to the right."

    def observe(self, state):
        return f"You are {state}."

    def actions(self, state):
        return ["open left", "open right"] if state == "outside" else []

    def step(self, state, action, rng):
        won = action == "open right"
        return Step("inside", reward=float(won), done=True, text="A prize!" if won else "Dust.")

    def success(self, state):
        return state == "inside"


class Corridor(Domain):
    """Ten rooms in a row, the prize in the last; one step forward or back at a time.

    Args:
        rooms: how many.
    """

    goal = "Reach the last room."

    def __init__(self, rooms=10):
        self.rooms = rooms
        self.simulated = 0

    def start(self, seed):
        return 0

    def describe(self, state):
        return f"room {state}"

    def actions(self, state):
        return ["forward", "back"]

    def step(self, state, action, rng):
        self.simulated += 1
        there = min(state + 1, self.rooms - 1) if action == "forward" else max(state - 1, 0)
        last = there == self.rooms - 1
        return Step(there, reward=float(last), done=last)


class Kettle(Domain):
    """Tea in three options, one after the other; the second fails by chance.

    Args:
        fails: how likely.
    """

    goal = "Pour the tea."
    OPTIONS = ("fill", "boil", "pour")
    grammar = OneOf(OPTIONS)
    state_model = "asked of no rules"

    def __init__(self, fails=0.5):
        self.fails = fails

    def start(self, seed):
        return 0

    def describe(self, state):
        return f"{state} of 3 done"

    def actions(self, state):
        return self.OPTIONS[state : state + 1]

    def step(self, state, action, rng):
        if why := Kettle.feasible(self, state, action):
            return Step(state, obstacle=why)
        if action == "boil" and rng.random() < self.fails:
            return Step(state, obstacle="the power is cut")
        return Step(state + 1, reward=float(state == 2), done=state == 2)

    def feasible(self, state, action):
        return None if action in Kettle.actions(self, state) else "not now"

    def success(self, state):
        return state == 3

    def score(self, state):
        return state / 3

    def advise(self, state):
        return self.OPTIONS[state:]

    def decompose(self, state, subtask):
        place = 3 if subtask is None else self.OPTIONS.index(subtask)
        return self.OPTIONS[max(place - 1, 0) : place]

    def judge(self, state, subtask, parent):
        place = self.OPTIONS.index(subtask)
        return Judged("done" if place < state else "true" if place == state else "false")


class AsyncCorridor(Corridor):
    async def start(self, seed):
        return super().start(seed)

    async def describe(self, state):
        return super().describe(state)

    async def actions(self, state):
        return super().actions(state)

    async def step(self, state, action, rng):
        return super().step(state, action, rng)


class Lottery(Domain):
    """A safe prize of 4, or 10 with a chance of 0.3."""

    goal = "Take the better offer."

    def start(self, seed):
        return "open"

    def describe(self, state):
        return state

    def actions(self, state):
        return ["gamble", "take"] if state == "open" else []

    def step(self, state, action, rng):
        reward = 4.0 if action == "take" else 10.0 * (rng.random() < 0.3)
        return Step("closed", reward=reward, done=True, observation=f"won {reward:g}")


class Tiger(Domain):
    """A tiger behind one of two doors; listening costs 1 and is right with 0.85.

    What really is behind the doors is a state of its own, with which nobody may simulate.
    """

    goal = "Open the door without the tiger."

    def start(self, seed):
        return f"really {Random(seed).choice(['left', 'right'])}"

    def describe(self, state):
        return f"The tiger is {state}."

    def actions(self, state):
        return ["listen", "open left", "open right"]

    def step(self, state, action, rng):
        tiger = state.removeprefix("really ")
        if action == "listen":
            other = {"left": "right", "right": "left"}[tiger]
            heard = tiger if rng.random() < 0.85 else other
            return Step(state, reward=-1.0, observation=f"heard {heard}")
        eaten = action == f"open {tiger}"
        after = "eaten" if eaten else "safe"
        return Step(after, reward=-100.0 if eaten else 10.0, done=True, observation=after)

    def success(self, state):
        return state == "safe"

    def belief(self, history, rng):
        odds = sum({"heard left": 1, "heard right": -1}[seen] for _, seen in history)
        left = 1 / (1 + exp(-odds * log(0.85 / 0.15)))
        return "left" if rng.random() < left else "right"


class Cliff(Domain):
    """A walk of three steps beside a cliff, in words unlike those of a text game."""

    goal = "Reach the hut."
    about = "A path beside a cliff."

    def start(self, seed):
        return 0

    def describe(self, place):
        return f"You are at milestone {place}."

    def actions(self, place):
        return [] if place in {-1, 3} else [+1, -1]

    def step(self, place, action, rng):
        if action == +1:
            return Step(place + 1, reward=float(place == 2), done=place == 2)
        return Step(-1, done=True, text="You fall.")

    def success(self, place):
        return place == 3


class Waiting(Domain):
    """Won by doing nothing twice; None is that action."""

    goal = "Wait twice."

    def start(self, seed):
        return 0

    def describe(self, waited):
        return f"You waited {waited} times."

    def actions(self, waited):
        return [None, "leave"]

    def step(self, waited, action, rng):
        if action == "leave":
            return Step(-1, done=True)
        return Step(waited + 1, reward=float(waited == 1), done=waited == 1)

    def success(self, waited):
        return waited == 2


class Guarded(Cliff):
    """A gate that opens after waiting. Waiting again changes nothing and is not a failure."""

    def start(self, seed):
        return (0, False)

    def describe(self, place):
        return f"You are at milestone {place[0]}."

    def actions(self, place):
        return [] if place[0] else ["go", "wait"]

    def step(self, place, action, rng):
        if action == "wait":
            return Step((0, True), text="The gate is open.")
        if place[1]:
            return Step((1, True), reward=1.0, done=True)
        return Step(place, obstacle="The gate is shut.")

    def success(self, place):
        return place[0] == 1


def model_of(world, *, prior=None, gamma=0.5, depth=3):
    return DomainModel(
        world, state=0, history=(), past=(), now="", prior=prior, gamma=gamma, depth=depth
    )


def walk_at(state, *, node=None, steps=0):
    walk = Walk(Node() if node is None else node, TrackedRandom(), None)
    for _ in range(steps):
        walk.go(Edge("up"), Step(state))
    walk.state = state
    return walk
