"""DRIP against its reference: random subtasks, random answers."""

import asyncio
from hashlib import blake2b
from itertools import takewhile
from random import Random

from hypothesis import given, settings
from hypothesis import strategies as st

from llm_planning.domain import Domain, Judged, OneOf, Step
from llm_planning.planners.drip.specs import SPECS
from llm_planning.roles import Engines
from llm_planning.specs import Run

from .drip import drip

DRIP = next(spec for spec in SPECS if spec.name == "drip")
SUBTASKS = tuple(f"g{number}" for number in range(16))


def hashed(*key):
    """A number in [0, 1) for a key."""
    return int.from_bytes(blake2b(repr(key).encode(), digest_size=4).digest(), "big") / 2**32


class World(Domain):
    """Subtasks whose answers are hashed. Both algorithms are answered here, and `asked` keeps what.

    A state is a number and how much was done; the more, the more is possible. It is a new tuple
    after every action. Nothing comes before itself: the package drops such a subtask, where the
    paper decomposes it again.
    """

    goal = "g"
    grammar = OneOf(SUBTASKS)

    def __init__(self, seed, *, odds, states=1, most=1):
        self.seed, self.states, self.most, self.odds = seed, states, most, odds
        self.asked = []

    def start(self, seed):
        self.asked.append(("start",))
        return (0, 0)

    def describe(self, state):
        return str(state)

    def actions(self, state):
        return SUBTASKS

    def before(self, subtask):
        """The subtasks right before one: some of those with a higher number, perhaps twice."""
        number = -1 if subtask is None else SUBTASKS.index(subtask)
        later = SUBTASKS[number + 1 : number + 6]
        rare = hashed(self.seed, "nothing", subtask) < 0.1
        count = 0 if rare or not later else 1 + int(hashed(self.seed, subtask) * self.most)
        chosen = (hashed(self.seed, "before", subtask, place) for place in range(count))
        return [later[int(share * len(later))] for share in chosen]

    def verdict(self, subtask, state):
        true, done = self.odds
        true += state[1] * (1 - true) / 6
        number = hashed(self.seed, "judge", subtask, state)
        return "true" if number < true else "done" if number < true + done else "false"

    def after(self, subtask, state):
        number = int(hashed(self.seed, "act", subtask, state) * self.states)
        return (number, min(state[1] + 1, 6))

    def decompose(self, state, subtask):
        self.asked.append(("decompose", subtask))
        return self.before(subtask)

    def judge(self, state, subtask, parent):
        self.asked.append(("judge", subtask, state))
        return Judged(self.verdict(subtask, state))

    def step(self, state, action, rng):
        self.asked.append(("act", action, state))
        return Step(self.after(action, state))

    @property
    def roles(self):
        """The same answers for the reference."""
        return {"decompose": self.before, "judge": self.verdict, "act": self.after}


class Orderly(World):
    """A subtask is possible from the start on, or once what comes right before it was carried out.

    A state is what was carried out. No subtask stands in two places.
    """

    def start(self, seed):
        super().start(seed)
        return frozenset()

    def before(self, subtask):
        number = -1 if subtask is None else SUBTASKS.index(subtask)
        above = {
            subtask: int(hashed(self.seed, subtask) * (place + 1)) - 1
            for place, subtask in enumerate(SUBTASKS)
        }
        return [subtask for subtask, parent in above.items() if parent == number]

    def verdict(self, subtask, state):
        before = self.before(subtask)
        ready = bool(before) and state.issuperset(before)
        free = subtask is not None and hashed(self.seed, "free", subtask) < self.odds[0]
        return "true" if ready or free else "false"

    def after(self, subtask, state):
        return state | {subtask}


def planned(world, *, max_depth):
    """The package's plan, tree and questions; not those asked once the plan is carried out."""
    read = {"max_depth": max_depth, "budget": 100_000, "decompositions": 100_000}
    run = Run(
        domain="drawn",
        task="drawn",
        world=world,
        engines=Engines(None),
        settings=DRIP.settings.read({"roles": "rules", "reading": "literal", **read}),
        seed=0,
    )
    outcome = asyncio.run(DRIP.run(run))
    asked = list(takewhile(lambda question: question != ("start",), world.asked[1:]))
    return list(outcome.plan), edges_of(outcome.trace["tree"]), asked


def edges_of(node):
    """A node of the package's trace: whether each child is closed, and what is below it."""
    (children,) = node["attempts"] or ((),)
    return [(child["subtask"], child["status"] == "closed", edges_of(child)) for child in children]


def read_off(node):
    """The same of the reference's tree."""
    return [(child.goal, child.true, read_off(child)) for child in node.children]


def split(asked):
    """The decompositions, which the package asks for level by level, and the other questions."""
    decompositions = [question for question in asked if question[0] == "decompose"]
    return decompositions, [question for question in asked if question[0] != "decompose"]


@settings(deadline=None, max_examples=250, derandomize=True)
@given(seed=st.integers(0, 2**32), max_depth=st.integers(3, 6))
def test_reading_literal_is_the_reference(seed, max_depth):
    """Equal plans, trees and questions in order. Of lines 22, 23 and 25 the package asks at two."""
    rng = Random(seed)
    odds = (rng.uniform(0, 0.4), rng.uniform(0, 0.3))
    world = World(seed, states=rng.randint(2, 5), most=rng.randint(2, 3), odds=odds)
    plan, tree, asked = planned(world, max_depth=max_depth)
    reference = drip((0, 0), None, world.roles, max_depth=max_depth, asking={22, 23})
    assert plan == reference.plan
    assert tree == read_off(reference.root)
    assert split(asked) == split(reference.asked)


@settings(deadline=None, max_examples=80, derandomize=True)
@given(seed=st.integers(0, 2**32), free=st.floats(0.2, 0.9), max_depth=st.integers(2, 6))
def test_where_what_was_possible_stays_possible_all_readings_agree(seed, free, max_depth):
    """What the lines 22, 23 and 25 ask follows from the marks, so that asking changes nothing.

    A state only grows, so a child that was carried out is possible ever after (22). A parent is
    possible once its children were carried out (23). The goal is so just then (25), as none of its
    subtasks is carried out elsewhere in the tree.
    """
    world = Orderly(seed, odds=(free, 0))
    plan, tree, _ = planned(world, max_depth=max_depth)
    for asking in ((), (22, 23, 25)):
        reference = drip(frozenset(), None, world.roles, max_depth=max_depth, asking=asking)
        assert plan == reference.plan
        assert tree == read_off(reference.root)
