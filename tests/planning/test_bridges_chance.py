"""Worlds of Gymnasium as users write them: own chance, what they hide, what they change."""

import random
from copy import deepcopy
from random import Random

import gymnasium
import numpy as np
import pytest
from gymnasium import spaces

from llm_planning.environments.bridges import gymnasium_chance
from llm_planning.environments.bridges.gymnasium_chance import Chance, generators_of
from llm_planning.environments.bridges.gymnasium_copies import (
    SIGHT_BUDGET,
    SIGHT_MEMBERS,
    SIGHT_STEPS,
    Copies,
)
from llm_planning.environments.bridges.gymnasium_worlds import GymnasiumWorld
from llm_planning.search import TrackedRandom


class Doors(gymnasium.Env):
    """Ten rounds: the first door pays 0.4, the second one 1 with chance 0.2."""

    metadata = {"render_modes": []}  # noqa: RUF012 - so does every environment of Gymnasium
    action_space = spaces.Discrete(2)
    observation_space = spaces.Discrete(1000)
    rounds = 10

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.begun, self.round = seed, 0
        self.prepare(seed)
        return self.seen(), {}

    def prepare(self, seed):
        pass

    def seen(self):
        return self.round

    def chance(self):
        return self.np_random.random()

    def step(self, action):
        self.round += 1
        draw = self.chance()
        reward = 0.4 if action == 0 else float(draw < 0.2)
        return self.seen(), reward, self.round == self.rounds, False, {}


class Own(Doors):
    def prepare(self, seed):
        self.rng = np.random.default_rng(seed)

    def chance(self):
        return self.rng.random()


class OwnPython(Own):
    def prepare(self, seed):
        self.rng = Random(seed)


class OwnLegacy(Own):
    def prepare(self, seed):
        self.rng = np.random.RandomState(seed)

    def chance(self):
        return self.rng.random_sample()


class OwnBits(Doors):
    """A generator is made in each step, of bits that are kept."""

    def prepare(self, seed):
        self.bits = [np.random.Philox(seed)]

    def chance(self):
        return np.random.Generator(self.bits[0]).random()


class NeverSeeded(Own):
    """`reset` does not seed it."""

    def prepare(self, seed):
        self.rng = vars(self).get("rng") or np.random.default_rng()


class Taken(Doors):
    """Takes a method out of Gymnasium's generator when it is reset."""

    def prepare(self, seed):
        self.chance = self.np_random.random


class InAnother(Doors):
    """Another environment has the chance."""

    def prepare(self, seed):
        self.other = Doors()
        self.other.reset(seed=seed)

    def chance(self):
        return self.other.chance()


class OfTheClass(Doors):
    rng = Random(0)

    def prepare(self, seed):
        OfTheClass.rng.seed(seed)

    def chance(self):
        return self.rng.random()


OF_THE_MODULE = np.random.default_rng(0)


class OfTheModule(Doors):
    def prepare(self, seed):
        global OF_THE_MODULE  # noqa: PLW0603 - so some do
        OF_THE_MODULE = np.random.default_rng(seed)

    def chance(self):
        return OF_THE_MODULE.random()


class OfASpace(Doors):
    def __init__(self):
        self.action_space = spaces.Discrete(2)
        self.dice = spaces.Box(0, 1, (), np.float64)

    def prepare(self, seed):
        self.dice.seed(seed)

    def chance(self):
        return self.dice.sample()


class Lazy(Own):
    """Makes its generator when it first needs it."""

    def prepare(self, seed):
        self.rng = None

    def chance(self):
        self.rng = self.rng or np.random.default_rng(self.np_random.integers(1 << 60))
        return self.rng.random()


class Renewing(Own):
    """Each step makes the generator of the next one."""

    def chance(self):
        draw = self.rng.random()
        self.rng = np.random.default_rng(self.rng.integers(1 << 60))
        return draw


class RenewingLate(Own):
    """A second level has a generator of its own; nobody who watches comes so far."""

    rounds = 1000

    def chance(self):
        if self.round == 120:
            self.rng = np.random.default_rng(self.rng.integers(1 << 60))
        return super().chance()


class Shared(Doors):
    def prepare(self, seed):
        random.seed(seed)

    def chance(self):
        return random.random()


class SharedOfNumpy(Doors):
    def prepare(self, seed):
        np.random.seed(seed % (1 << 32))

    def chance(self):
        return np.random.random()


class Unseeded(Shared):
    def prepare(self, seed):
        pass


class Late(Unseeded):
    """Draws late, when nobody watches."""

    rounds = 1000

    def chance(self):
        return random.random() if self.round > 120 else 0.0


class LateOwn(Own):
    """A generator of its own is used late."""

    rounds = 1000

    def chance(self):
        return super().chance() if self.round > 120 else 0.0


class Deck(Doors):
    """A deck is shuffled when the episode begins."""

    def prepare(self, seed):
        self.deck = self.np_random.random(10)

    def chance(self):
        return self.deck[self.round - 1]


class OfTheSeed(Doors):
    """Its chance depends on the seed and the round alone."""

    def chance(self):
        return Random(f"{self.begun} {self.round}").random()


class Veiled(Doors):
    """What the first round draws shows later."""

    def chance(self):
        if self.round == 1:
            self.lucky = self.np_random.random() < 0.5
            return 1.0
        return 0.0 if self.lucky else 1.0


class Remade(Own):
    """A step makes the generator that it draws from."""

    def chance(self):
        self.rng = np.random.default_rng(self.round + (self.begun or 0))
        return super().chance()


class Reseeded(Doors):
    def chance(self):
        super().reset(seed=self.round)
        return self.np_random.random()


class Told(Deck):
    """The text says all of the state, the observation does not."""

    metadata = {"render_modes": ["ansi"]}  # noqa: RUF012 - likewise

    def __init__(self, render_mode=None):
        self.render_mode = render_mode

    def render(self):
        return f"{self.round} {self.deck}"


HONEST = (Own, OwnPython, OwnLegacy, OwnBits, NeverSeeded, Taken, InAnother, OfTheClass)
HONEST += (OfTheModule, OfASpace, Shared, SharedOfNumpy, Unseeded, Lazy)
HIDING = (Deck, OfTheSeed, Veiled)
FORESEEN = (Remade, Reseeded, Renewing)


def id_of(kind):
    return f"llm_planning_tests/{kind.__name__}-v0"


@pytest.fixture(autouse=True)
def registered():
    kinds = (Doors, *HONEST, *HIDING, *FORESEEN, Late, LateOwn, RenewingLate)
    kinds += (Told, *ALIASING, Air)
    for kind in kinds:
        gymnasium.register(id_of(kind), entry_point=kind)
    yield
    for kind in kinds:
        del gymnasium.registry[id_of(kind)]


# --- chance ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", [Doors, *HONEST])
def test_chance_of_an_environment_s_own_is_that_of_the_step(kind):
    """The second door pays in a fifth of the cases, and equal chance pays equally."""
    random.seed(5)
    np.random.seed(5)

    def paid(sight):
        world = GymnasiumWorld(id_of(kind), sight=sight)
        assert world.no_search == ""
        state = world.step(world.start(3), "action 0", Random(0)).state
        return [world.step(state, "action 1", Random(seed)).reward for seed in range(100)]

    first = paid("own")
    assert 6 < sum(first) < 38
    assert paid("full") == first
    assert random.random() == Random(5).random()
    assert np.random.random() == np.random.RandomState(5).random_sample()


@pytest.mark.parametrize("kind", HONEST)
def test_a_step_that_draws_from_elsewhere_is_not_certain(kind):
    world = GymnasiumWorld(id_of(kind), sight="full")
    rng = TrackedRandom()
    step = world.step(world.start(0), "action 1", rng)
    assert rng.drawn
    assert step.observation is not None


@pytest.mark.parametrize("kind", [Late, LateOwn])
def test_chance_that_shows_late_is_found(kind, monkeypatch):
    """The step that first draws from elsewhere is taken again with its own chance."""
    monkeypatch.setattr(gymnasium_chance, "LOOKS_EVERY", 1)
    world = GymnasiumWorld(id_of(kind), sight="full")
    assert not world._copies.chance.is_careful
    state = world.start(0)
    for _ in range(120):
        state = world.step(state, "action 1", Random(0)).state
    paid = [world.step(state, "action 1", Random(seed)).reward for seed in range(30)]
    again = [world.step(state, "action 1", Random(seed)).reward for seed in range(30)]
    assert paid == again
    assert 0 < sum(paid) < 16


def test_a_level_that_brings_its_generator_is_seeded():
    world = GymnasiumWorld(id_of(RenewingLate), sight="full")
    state = world.start(3)
    for _ in range(125):
        state = world.step(state, "action 1", Random(0)).state
    paid = [world.step(state, "action 1", Random(seed)).reward for seed in range(30)]
    assert 0 < sum(paid) < 16


@pytest.fixture
def walks(monkeypatch):
    """The environments whose generators were looked for."""
    walks, walk = [], gymnasium_chance.generators_of
    monkeypatch.setattr(
        gymnasium_chance, "generators_of", lambda env: walks.append(env) or walk(env)
    )
    return walks


@pytest.mark.parametrize("kind", [Own, InAnother, OfTheModule])
def test_generators_are_looked_for_once_after_a_reset(kind, walks):
    env, chance = kind(), Chance()
    chance.watch(env, 0)
    for seed in range(3):
        chance.reset(env, seed)
        walks.clear()
        for step in range(40):
            chance.step_again(env, 1, step)
        assert walks == [env]


def test_a_copy_draws_from_its_own_generators():
    env, chance = Own(), Chance()
    chance.watch(env, 0)
    chance.reset(env, 0)
    paid = [chance.step_again(env, 1, seed)[2] for seed in range(100)]
    copy = deepcopy(env)
    assert [chance.step_again(copy, 1, seed)[2] for seed in range(100)] == paid
    assert [chance.step_again(env, 1, seed)[2] for seed in range(100)] == paid
    assert 6 < sum(paid) < 38


def test_a_reset_elsewhere_may_replace_a_generator():
    """That of the module belongs to all environments, also to those of another world."""
    (env, chance), (other, others) = ((OfTheModule(), Chance()) for _ in range(2))
    chance.watch(env, 0)
    chance.reset(env, 0)
    paid = [chance.step_again(env, 1, seed)[2] for seed in range(100)]
    others.reset(other, 1)
    assert [chance.step_again(env, 1, seed)[2] for seed in range(100)] == paid


@pytest.mark.parametrize("kind", FORESEEN)
@pytest.mark.parametrize("sight", ["own", "full"])
def test_chance_that_a_step_makes_itself_is_not_searched(kind, sight):
    world = GymnasiumWorld(id_of(kind), sight=sight)
    assert "a search would foresee its chance" in world.no_search
    assert "\n" not in world.no_search


@pytest.mark.parametrize("is_own", [True, False])
def test_chance_of_pytorch(is_own):
    torch = pytest.importorskip("torch")

    class OfTorch(Doors):
        def prepare(self, seed):
            self.rng = torch.Generator().manual_seed(seed) if is_own else None

        def chance(self):
            return float(torch.rand((), generator=self.rng))

    before, env, chance = torch.get_rng_state(), OfTorch(), Chance()
    chance.watch(env, 0)
    assert (chance.own, chance.shared) == (is_own, () if is_own else (torch.default_generator,))
    chance.reset(env, 0)
    paid = [chance.step_again(env, 1, seed)[2] for seed in [*range(100), *range(100)]]
    assert paid[:100] == paid[100:]
    assert 6 < sum(paid[:100]) < 38
    assert torch.get_rng_state().equal(before)


def test_nothing_but_np_random_is_seeded_in_the_worlds_of_gymnasium():
    for task in ("FrozenLake-v1", "CartPole-v1", "MiniGrid-DoorKey-5x5-v0", "BabyAI-GoToObj-v0"):
        env, chance = gymnasium.make(task), Chance()
        chance.watch(env, 0)
        assert not chance.is_careful
        assert not chance.foreseen


def test_generators_are_found_wherever_they_are_held():
    class Thing:
        __slots__ = ("deep",)

    own, legacy, bits = Random(0), np.random.RandomState(0), np.random.PCG64(0)
    env = gymnasium.make(id_of(Doors))
    env.reset(seed=0)
    thing = Thing()
    thing.deep = {"cells": np.array([own, None], dtype=object)}
    env.unwrapped.thing, env.unwrapped.drawn = [thing], (lambda: legacy,)
    env.unwrapped.rows = iter([np.random.Generator(bits).normal])
    found = set(map(id, generators_of(env)))
    assert {id(one) for one in (own, legacy, bits)} <= found
    assert id(env.unwrapped.np_random.bit_generator) not in found


# --- what is hidden -------------------------------------------------------------------------------


@pytest.mark.parametrize("task", [*map(id_of, HIDING), "Blackjack-v1"])
def test_a_world_that_hides_how_it_goes_on_is_searched_only_if_that_is_meant(task):
    assert "add --set sight=full if that is meant" in GymnasiumWorld(task).no_search
    assert GymnasiumWorld(task, sight="full").no_search == ""


@pytest.mark.parametrize(
    "task",
    [
        *(id_of(Doors), id_of(Told), "FrozenLake-v1", "CliffWalkingSlippery-v1", "Taxi-v4"),
        *("CartPole-v1", "Acrobot-v1", "MountainCar-v0"),
    ],
)
def test_a_world_that_shows_its_state_hides_nothing(task):
    assert GymnasiumWorld(task).no_search == ""


@pytest.mark.parametrize("kind", [Doors, Own, Deck])
def test_a_world_is_tested_once_in_a_process(kind, monkeypatch, walks):
    """Unless its id is registered anew."""
    expected = GymnasiumWorld(id_of(kind)).no_search
    walks.clear()
    with monkeypatch.context() as without:
        without.delattr(Chance, "step")
        second = GymnasiumWorld(id_of(kind))
        assert second.no_search == expected
    assert walks == []
    assert second._copies.chance.own is (kind is Own)
    del gymnasium.registry[id_of(kind)]
    gymnasium.register(id_of(kind), entry_point=OfTheSeed)
    assert "hides from its agent" in GymnasiumWorld(id_of(kind)).no_search


def test_who_does_not_search_does_not_wait_for_the_test_of_what_is_hidden(monkeypatch):
    monkeypatch.delattr(Copies, "hide")
    world = GymnasiumWorld(id_of(Deck))
    world.step(world.start(0), "action 1", Random(0))
    with pytest.raises(AttributeError, match="hide"):
        assert world.no_search


def test_worlds_of_one_id_have_their_own_environments():
    first, second = (GymnasiumWorld(id_of(Doors)) for _ in range(2))
    state = first.step(first.start(0), "action 1", Random(0)).state
    second.step(second.start(0), "action 1", Random(0))
    assert first.step(state, "action 1", Random(0)).state.seen == 2


def test_what_is_hidden_is_looked_for_in_a_number_of_steps():
    """However long a step takes, a loaded machine finds what an idle one does."""
    copies, steps = Copies(gymnasium.make(id_of(Doors))), []
    again = copies.chance.step_again
    copies.chance.step_again = lambda *step: steps.append(step) or again(*step)
    assert not copies.hide(lambda env, seen: str(seen))
    assert SIGHT_BUDGET * 0.8 < len(steps) < SIGHT_BUDGET + SIGHT_MEMBERS * SIGHT_STEPS


# --- what a step changes --------------------------------------------------------------------------


class Row(gymnasium.Env):
    """Walk right over six fields; the observation is the board itself, which every step changes."""

    metadata = {"render_modes": []}  # noqa: RUF012 - likewise
    action_space = spaces.Discrete(2)
    observation_space = spaces.Box(0, 1, (6,), np.int8)

    def __init__(self):
        self.board = np.zeros(6, np.int8)
        self.mask = np.ones(2, np.int8)

    def told(self):
        return self.board

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.go(0)
        return self.told(), {"action_mask": self.mask}

    def go(self, to):
        self.board[:] = 0
        self.board[to] = 1
        self.mask[0] = to > 0

    def step(self, action):
        self.go(max(0, min(5, int(np.argmax(self.board)) + (1 if action else -1))))
        won = bool(self.board[5])
        return self.told(), float(won), won, False, {"action_mask": self.mask}


class InADict(Row):
    def __init__(self):
        super().__init__()
        self.all = {"board": self.board, "again": (self.board,)}

    def told(self):
        return self.all


class InAList(Row):
    def told(self):
        self.list = vars(self).get("list", [])
        self.list[:] = self.board.tolist()
        return self.list


class OfObjects(Row):
    def told(self):
        self.cells = vars(self).get("cells", np.array([[0], [0]], dtype=object))
        self.cells[0] = int(np.argmax(self.board))
        return self.cells


class OfAll(Row):
    """All environments have one board, so that a copy of one is no copy."""

    everybody = np.zeros(6, np.int8)

    def __init__(self):
        super().__init__()
        self.board = OfAll.everybody

    def __deepcopy__(self, memo):
        return OfAll()


ALIASING = (Row, InADict, InAList, OfObjects, OfAll)


@pytest.mark.parametrize("kind", ALIASING[:4])
def test_a_state_reads_the_same_for_ever(kind):
    world = GymnasiumWorld(id_of(kind))
    assert world.no_search == ""
    state, states, told = world.start(0), [], []
    while world.actions(state):
        states.append(state)
        told.append((world.describe(state), world.observe(state), world.actions(state)))
        state = world.step(state, "action 1", Random(0)).state
    assert len(set(map(str, told))) == len(told) == 5
    assert [(world.describe(one), world.observe(one), world.actions(one)) for one in states] == told


def test_a_board_that_all_environments_have_is_no_copy():
    assert "does not do the same twice" in GymnasiumWorld(id_of(OfAll)).no_search


# --- success --------------------------------------------------------------------------------------


class Air(gymnasium.Env):
    """Each second in the air pays, the crash ends it."""

    metadata = {"render_modes": []}  # noqa: RUF012 - likewise
    action_space = spaces.Discrete(2)
    observation_space = spaces.Discrete(10)

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.height = 1 if seed == 7 else 3
        return self.height, {}

    def step(self, action):
        self.height = min(9, self.height + (1 if action else -1))
        return self.height, 1.0, self.height == 0, False, {}


@pytest.mark.parametrize(("seed", "seconds"), [(0, 3), (7, 1)])
def test_a_crash_that_is_paid_like_each_second_is_no_success(seed, seconds):
    """Also where it is the first second: other episodes show that each is paid."""
    world = GymnasiumWorld(id_of(Air))
    state = world.start(seed)
    for _ in range(seconds):
        assert world.success(state) is False
        state = world.step(state, "action 0", Random(0)).state
    assert state.ended == "terminated"
    assert world.success(state) is None
