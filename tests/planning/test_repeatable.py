"""Worlds that change a state, draw from elsewhere, or do two things in one state are refused."""

import os
import random
import threading
from collections import namedtuple
from dataclasses import dataclass, field
from enum import Enum
from functools import cached_property, partial
from random import Random

import numpy as np
import pytest
from any_domain_worlds import Corridor, run

from llm_planning import repeatable
from llm_planning.domain import Domain, DomainError, Step
from llm_planning.environments.multiplication.domain import Multiplication
from llm_planning.execution.episode import execute
from llm_planning.roles.domain_rules import CheckedRules


@pytest.fixture(autouse=True)
def nothing_was_simulated():
    repeatable._simulated.clear()


class Places(Domain):
    """Four places in a row; each test changes how the state is made, or what moves it."""

    goal = "Reach place 3."

    def start(self, seed):
        return self.made(0)

    def made(self, at):
        return at

    def at(self, state):
        return state

    def describe(self, state):
        return f"place {self.at(state)}"

    def actions(self, state):
        return ["on", "back"] if self.at(state) < 3 else []

    def step(self, state, action, rng):
        at = max(0, self.at(state) + (1 if action == "on" else -1))
        return Step(self.moved(state, at), float(at == 3), at == 3, observation=at)

    def moved(self, state, at):
        return self.made(at)

    def success(self, state):
        return self.at(state) == 3


# STATES THAT STAY AS THEY ARE ---------------------------------------------------------------------

Spot = namedtuple("Spot", "at bag")
Pair = namedtuple("Pair", "one other")


@dataclass
class Open:
    at: int


@dataclass(frozen=True)
class Shut:
    at: int
    bag: list = field(default_factory=list, compare=False)


class Plain:
    def __init__(self, at):
        self.at = at


def put(state, at):
    if isinstance(state, dict | list | np.ndarray):
        state["at" if isinstance(state, dict) else 0] = at
    else:
        state.at = at
    return state


def put_inside(state, at):
    put(state["at"] if isinstance(state, dict) else state[1], at)
    return state


def fill(state, at):
    """Makes a new state, and changes a part that both have."""
    state.bag.append(at)
    return state._replace(at=at)


def local(at):
    class Local:
        pass

    made = Local()
    made.at = at
    return made


KINDS = {
    "dict": (lambda at: {"at": at}, lambda state: state["at"], put),
    "nested": (lambda at: {"at": [at]}, lambda state: state["at"][0], put_inside),
    "list": (lambda at: [at], lambda state: state[0], put),
    "array": (lambda at: np.array([at, 0.0]), lambda state: int(state[0]), put),
    "dataclass": (Open, lambda state: state.at, put),
    "object": (Plain, lambda state: state.at, put),
    "local": (local, lambda state: state.at, put),
    "bag": (lambda at: Spot(at, [0] * at), lambda state: len(state.bag), fill),
    "pair": (lambda at: (at, Plain(at)), lambda state: state[1].at, put_inside),
}
"""How a state is made, where it is, and how a step changes it in place."""


@pytest.mark.parametrize("kind", KINDS)
async def test_a_step_that_changes_its_state_is_refused(kind):
    made, at, moved = KINDS[kind]

    class Changing(Places):
        pass

    Changing.made, Changing.at, Changing.moved = map(staticmethod, (made, at, moved))
    said = r"^Changing\.step changed the state that it was given"
    with pytest.raises(DomainError, match=said):
        await run("uct", Changing(), simulations=3)
    with pytest.raises(DomainError, match=said):
        await execute(Changing(), ["on"], seed=0)
    with pytest.raises(DomainError, match=said):
        CheckedRules(Changing()).step(made(0), "on", Random(0))


@pytest.mark.parametrize("kind", KINDS)
async def test_the_same_states_made_anew_are_planned_with(kind):
    made, at, _ = KINDS[kind]

    class Making(Places):
        pass

    Making.made, Making.at = map(staticmethod, (made, at))
    outcome = await run("uct", Making(), simulations=40)
    assert (outcome.success, outcome.plan) == (True, ("on", "on", "on"))


async def test_only_the_step_that_changes_is_refused():
    class Seldom(Places):
        made = staticmethod(lambda at: {"at": at})
        at = staticmethod(lambda state: state["at"])

        def moved(self, state, at):
            return put(state, at) if at == 2 else {"at": at}

    with pytest.raises(DomainError, match=r"^Seldom\.step changed"):
        await execute(Seldom(), ["on", "on"], seed=0)
    assert (await execute(Seldom(), ["on", "back"], seed=0)).last == "place 0"


class Kept(Plain):
    @cached_property
    def double(self):
        return 2 * self.at


async def test_a_state_may_keep_what_it_computed():
    class Caching(Places):
        made = Kept
        at = staticmethod(lambda state: state.double // 2)

    assert (await run("uct", Caching(), simulations=40)).success


async def test_a_rollout_and_a_score_that_change_their_state_are_refused():
    class Rolled(Places):
        made = staticmethod(lambda at: {"at": at})
        at = staticmethod(lambda state: state["at"])

        def rollout(self, state, rng, *, gamma, depth):
            state["at"] = 3
            return 1.0

    class Scored(Rolled):
        def score(self, state):
            state["at"] += 1
            return 0.0

    for world, method in ((Rolled, "rollout"), (Scored, "score")):
        with pytest.raises(DomainError, match=rf"^{world.__name__}\.{method} changed the state"):
            await run("uct", world(), simulations=3)


READERS = r"describe, observe, actions, milestones, success or score"


@pytest.mark.parametrize(
    ("reader", "said"),
    [
        ("describe", "describe or actions"),
        ("actions", "describe or actions"),
        ("milestones", READERS),
    ],
)
async def test_a_method_that_only_reads_may_not_change_a_state(reader, said):
    class Shuffling(Places):
        made = staticmethod(lambda at: [at, 0])
        at = staticmethod(lambda state: state[0])

    def read(self, state):
        state[1] += 1
        return getattr(Places, reader)(self, state)

    setattr(Shuffling, reader, read)
    with pytest.raises(DomainError, match=rf"^Shuffling\.{said} changed the state"):
        await run("uct", Shuffling(), simulations=3)


@dataclass(frozen=True)
class Later:
    at: int
    found: object = None


async def test_a_class_of_states_may_hold_values_first_and_lists_later():
    class Finding(Places):
        made = Later
        at = staticmethod(lambda state: state.at if state.found is None else len(state.found))

        def moved(self, state, at):
            if state.found is None:
                return Later(at, Box([0] * at))
            state.found.things.append(0)
            return Later(at, state.found)

    with pytest.raises(DomainError, match=r"^Finding\.step (or actions )?changed"):
        await run("uct", Finding(), simulations=20)


class Box:
    """Hashed by what it is, not by what it holds."""

    def __init__(self, things):
        self.things = things

    def __len__(self):
        return len(self.things)


class Colour(Enum):
    RED = 1


@pytest.mark.parametrize(
    ("state", "digest"),
    [(3, None), ("a", None), (Colour.RED, None), (Pair(1, ()), hash((1, ())))],
)
def test_values_need_no_bytes(state, digest):
    assert repeatable.digest_of(state) == digest


class Listing(list):
    pass


class Keyed(dict):
    __getattr__ = dict.__getitem__


@dataclass
class Named:
    at: int
    name: str = "it"

    def __hash__(self):
        return hash(self.name)


class Marked(tuple):
    pass


class Hiding(Plain):
    def __getstate__(self):
        return {}

    def __setstate__(self, state):
        self.at = 0


class Locked(Plain):
    def __init__(self, at):
        super().__init__(at)
        self.lock = threading.Lock()


class Slotted:
    __slots__ = ("at",)

    def __init__(self, at):
        self.at = at


def marked(at):
    made = Marked()
    made.at = at
    return made


def fill_bag(state, at):
    state.bag.append(0)
    return state


ITEMS = (lambda state: state[0], put)


def put_item(state, at):
    state[0] = at
    return state


ATTRIBUTE = (lambda state: state.at, put)
ODD = {
    "list": (
        lambda at: Listing([at]),
        lambda state: state[0],
        put_item,
    ),
    "dict": (lambda at: Keyed(at=at), lambda state: state["at"], put),
    "hash": (Named, *ATTRIBUTE),
    "tuple": (marked, *ATTRIBUTE),
    "hiding": (Hiding, *ATTRIBUTE),
    "locked": (Locked, *ATTRIBUTE),
    "slots": (Slotted, *ATTRIBUTE),
    "not compared": (lambda at: Shut(at, [0] * at), lambda state: len(state.bag), fill_bag),
}


@pytest.mark.parametrize("kind", ODD)
@pytest.mark.parametrize("awaited", [False, True])
async def test_a_change_of_an_odd_state_is_seen_and_the_state_may_be_made_anew(kind, awaited):
    made, at, moved = ODD[kind]

    class Changing(Places):
        pass

    Changing.made, Changing.at, Changing.moved = map(staticmethod, (made, at, moved))
    with pytest.raises(DomainError, match=r"^Changing\.step changed the state"):
        await run("uct", Changing(), simulations=3)

    class Making(Places):
        pass

    if awaited:

        async def describe(self, state):
            return Places.describe(self, state)

        Making.describe = describe
    Making.made, Making.at = map(staticmethod, (made, at))
    assert (await run("uct", Making(), simulations=40)).success


async def test_a_world_that_keeps_its_state_itself_is_refused():
    class Kept(Places):
        now = 0

        def start(self, seed):
            self.now = 0
            return 0

        def at(self, state):
            return self.now

        def step(self, state, action, rng):
            self.now = {"on": 2, "back": 0}[action]
            return Step(state, observation=self.now)

    with pytest.raises(DomainError, match=r"^Kept\.step changed what `describe` or `actions` say"):
        await run("uct", Kept(), simulations=9)


async def test_words_that_change_by_themselves_are_refused():
    class Flipping(Places):
        turn = 0

        def actions(self, state):
            self.turn += 1
            return ["on", "back"][:: 1 if self.turn % 2 else -1]

    said = r"^Flipping\.(describe or actions said two|step changed what `describe`)"
    with pytest.raises(DomainError, match=said):
        await run("uct", Flipping(), simulations=9)


async def test_rules_that_change_a_state_are_refused():
    class Ruled(Places):
        def advise(self, state):
            state[0] = 3
            return ["on"]

    with pytest.raises(DomainError, match=r"^Ruled\.advise changed the state"):
        CheckedRules(Ruled()).advise([0])


# CHANCE FROM ELSEWHERE ----------------------------------------------------------------------------

GENERATOR = np.random.default_rng(0)


class Bets(Places):
    shared = Random(0)

    def __init__(self):
        self.own = Random(0)
        self.kept = {"deep": [np.random.RandomState(0)]}
        self.bound = Random(1).random
        self.partial = partial(Random(2).uniform, 0, 1)

    def step(self, state, action, rng):
        return Step(state + 1 if self.draw(rng) < 0.2 else state, done=True)


DRAWS = {
    "random": ("Python's `random`", lambda _: random.random()),
    "numpy": ("`numpy.random`", lambda _: np.random.random()),
    "own": ("a generator that the world keeps", lambda self: self.own.random()),
    "deep": ("a generator that the world keeps", lambda self: self.kept["deep"][0].random()),
    "module": ("a generator that the world keeps", lambda _: GENERATOR.random()),
    "class": ("a generator that the world keeps", lambda self: self.shared.random()),
    "bound": ("a generator that the world keeps", lambda self: self.bound()),
    "partial": ("a generator that the world keeps", lambda self: self.partial()),
}


@pytest.mark.parametrize("kind", DRAWS)
async def test_a_step_that_draws_from_elsewhere_is_refused(kind):
    source, draw = DRAWS[kind]

    class Drawing(Bets):
        def draw(self, rng):
            return draw(self)

    with pytest.raises(DomainError, match=rf"^Drawing\.step drew from {source}, which is not"):
        await run("uct", Drawing(), simulations=3)
    Drawing.__module__ = "a_module_that_is_gone"
    with pytest.raises(DomainError, match=rf"^Drawing\.step drew from {source}"):
        await run("uct", Drawing(), simulations=3)
    if kind in {"random", "numpy"}:
        with pytest.raises(DomainError, match=r"^Drawing\.step drew from"):
            await execute(Drawing(), ["on"], seed=0)


async def test_a_generator_in_the_state_is_refused():
    class Carried(Places):
        made = staticmethod(lambda at: (at, Random(0)))
        at = staticmethod(lambda state: state[0])

        def moved(self, state, at):
            later = Random()
            later.setstate(state[1].getstate())
            return (at if later.random() < 0.9 else 0, later)

    with pytest.raises(DomainError, match=r"^Carried\.step drew from a generator in its state"):
        await run("uct", Carried(), simulations=3)


async def test_what_draws_from_the_system_is_found_by_what_it_does():
    class System(Bets):
        def draw(self, rng):
            return os.urandom(1)[0] / 256 * 0.4

    with pytest.raises(DomainError, match=r"^System\.step did two things with '(on|back)' in one"):
        await run("uct", System(), simulations=60)


async def test_what_a_world_keeps_is_found_by_what_it_does():
    class Counting(Places):
        steps = 0

        async def step(self, state, action, rng):
            self.steps += 1
            return Step(state, float(self.steps), observation=state)

    with pytest.raises(DomainError, match=r"^Counting\.step did two things with 'on' in one state"):
        await run("uct", Counting(), simulations=3)


async def test_a_state_that_differs_is_found_where_words_are_awaited():
    class Drifting(Places):
        steps = 0

        async def describe(self, state):
            return "somewhere"

        async def step(self, state, action, rng):
            self.steps += 1
            return Step(self.steps, observation=state)

    with pytest.raises(DomainError, match=r"^Drifting\.step did two things with 'on' in one state"):
        await run("uct", Drifting(), simulations=3)


SEEDED = {
    "python": lambda self, rng: (random.seed(rng.getrandbits(64)), random.random())[1],
    "numpy": lambda self, rng: (np.random.seed(rng.getrandbits(32)), np.random.random())[1],
    "own": lambda self, rng: (self.own.seed(rng.getrandbits(64)), self.own.random())[1],
    "put back": lambda self, rng: put_back(rng),
    "new": lambda self, rng: np.random.default_rng(rng.getrandbits(64)).random(),
}


def put_back(rng):
    before = random.getstate()
    random.seed(rng.getrandbits(64))
    drawn = random.random()
    random.setstate(before)
    return drawn


@pytest.mark.parametrize("draw", SEEDED)
async def test_generators_that_a_step_seeds_from_rng_are_fine(draw):
    class Seeding(Bets):
        pass

    Seeding.draw = SEEDED[draw]
    random.seed(1)
    np.random.seed(1)
    plans = [(await run("uct", Seeding(), simulations=30, moves=1)).trace for _ in range(2)]
    assert plans[0] == plans[1]
    assert all(option["N"] for option in plans[0]["moves"][0]["options"])


async def test_a_start_may_seed_a_global_generator():
    class Shuffled(Places):
        def start(self, seed):
            random.seed(seed)
            return random.randrange(2)

    assert (await run("uct", Shuffled(), simulations=40)).success
    begun = random.getstate()
    with pytest.raises(DomainError, match=r"^Loud\.start drew from Python's `random`"):
        await run("uct", type("Loud", (Places,), {"start": lambda *_: random.randrange(9)})())
    assert random.getstate() != begun  # the first draw happened


@pytest.mark.parametrize(
    "draw", [random.random, lambda: int.from_bytes(os.urandom(8), "big") / 2**64]
)
async def test_a_start_that_is_not_the_seed_s_is_refused(draw):
    class Starting(Places):
        def start(self, seed):
            return draw()

    with pytest.raises(DomainError, match=r"^Starting\.start (drew from Python's|made two states)"):
        await run("uct", Starting())


async def test_a_score_and_rollouts_that_draw_from_elsewhere_are_refused():
    class Scored(Places):
        def score(self, state):
            return random.random()

    class Rolled(Places):
        def rollout(self, state, rng, *, gamma, depth):
            return random.random()

    class Deep(Places):
        def step(self, state, action, rng):
            step = super().step(state, action, rng)
            return step._replace(reward=random.random()) if state > 1 else step

    class Listed(Places):
        def actions(self, state):
            return random.sample(["on", "back"], 2)

    class Believed(Places):
        def belief(self, history, rng):
            return random.randrange(3)

    for world, method in (
        (Scored, "score"),
        (Rolled, "rollout"),
        (Deep, "step"),
        (Listed, "actions"),
        (Believed, "belief"),
    ):
        with pytest.raises(DomainError, match=rf"^{world.__name__}\.{method} drew from Python's"):
            await run("uct", world(), simulations=2)


async def test_others_may_draw_meanwhile(monkeypatch):
    """The engine's thread draws from a global generator, too."""
    looks = []

    def drawn_by_others():
        looks.append(len(looks))
        return (len(looks) // 20, 0)  # a draw after each twenty looks

    monkeypatch.setattr(repeatable, "elsewhere", drawn_by_others)
    assert (await run("uct", Places(), simulations=40)).success
    assert len(looks) > 20


def test_a_draw_of_a_whole_round_is_seen():
    for draw in (lambda: [random.random() for _ in range(312)], lambda: np.random.random((12, 26))):
        before = repeatable.elsewhere()
        draw()
        assert repeatable.elsewhere() != before


def test_a_look_that_fails_puts_the_generators_back():
    def failing():
        raise ZeroDivisionError

    random.seed(5)
    expected = random.Random(5).random()
    with pytest.raises(ZeroDivisionError):
        repeatable._refuse_drawing(Places(), "step", failing)
    assert random.random() == expected


@pytest.mark.parametrize("world", [Corridor, Multiplication])
def test_whose_steps_are_looked_at(world):
    made = world()
    assert repeatable.is_watched(made) is isinstance(made, Corridor)
    made.no_search = "It is a robot."
    assert not repeatable.is_watched(made)


def test_the_first_steps_are_taken_again_and_later_a_few():
    world = Places()
    times = [repeatable.repetitions(world) for _ in range(1100)]
    assert times[:18] == [6] * 6 + [1] * 10 + [0, 0]
    assert [number for number, again in enumerate(times, 1) if again][16:] == [512, 1024]
