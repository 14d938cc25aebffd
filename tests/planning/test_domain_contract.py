"""The contract that every domain keeps: this project's, the examples' and the toys of the tests."""

from contextlib import AbstractAsyncContextManager, asynccontextmanager
from random import Random

import pytest
from any_domain_worlds import (
    AsyncCorridor,
    Cliff,
    Corridor,
    Doors,
    Guarded,
    Lottery,
    Tiger,
    Waiting,
    hanoi,
    run,
)
from cooking_kitchens import PAPER_KITCHENS

from llm_planning.domain import Advises, RollsOut
from llm_planning.domain_calls import is_won, observed, settled
from llm_planning.environments.bridges import bridge
from llm_planning.environments.catalogue import DOMAINS
from llm_planning.execution.episode import execute
from llm_planning.planners.any_domain.search_agents import uniform_rollout

STEPS = 12


def of_the_catalogue(domain, task, **settings):
    def open_():
        if task == "simple":
            pytest.importorskip("textworld")
        spec = DOMAINS[domain]
        return spec.open(task, spec.settings.read(settings))

    return open_


def of_others(name, **settings):
    def open_():
        spec = bridge(name)
        return spec.open(spec.tasks[0], spec.settings.read(settings))

    return open_


OPEN = {}
"""Worlds that need not be closed: one serves all tests."""


@asynccontextmanager
async def opened(name):
    """The world of this name; a game is closed at the end."""
    world = OPEN.get(name) or WORLDS[name]()
    if isinstance(world, AbstractAsyncContextManager):
        async with world as game:
            yield game
    else:
        yield OPEN.setdefault(name, await settled(world))


UNUSUAL = {"requirements": 3, "actions": 3, "pool": "required"}

WORLDS = {
    "minecraft": of_the_catalogue("minecraft", "mine-a-diamond"),
    "minecraft single": of_the_catalogue("minecraft", "cook-meat", options="single"),
    "blocks": of_the_catalogue("blocksworld", "hard"),
    "blocks in a hand": of_the_catalogue("blocksworld", "four-blocks", rules="standard"),
    "multiplication": of_the_catalogue("multiplication", "product", digits=3),
    "home": of_the_catalogue("household", "rearrange"),
    "home in full sight": of_the_catalogue("household", "rearrange", sight="full"),
    "items by unusual rules": of_the_catalogue("minecraft-items", "furnace", **UNUSUAL),
    "sets of items": of_the_catalogue("minecraft-goals", "wood", verbs=15, **UNUSUAL),
    "kitchen": lambda: PAPER_KITCHENS.open("cook-a-meal", PAPER_KITCHENS.settings.read({})),
    "travel": of_the_catalogue("travel", "fly", among="mid", problem=3),
    "trap door": of_the_catalogue("textgame", "trap-door", remember="off"),
    "trap door remembered": of_the_catalogue("textgame", "trap-door", remember="memory"),
    "generated game": of_the_catalogue("textgame", "simple", remember="memory"),
    "frozen lake": of_others("gymnasium:FrozenLake-v1"),
    "blackjack": of_others("gymnasium:Blackjack-v1"),
    "pole": of_others("gymnasium:CartPole-v1"),
    "key and door": of_others("gymnasium:MiniGrid-DoorKey-5x5-v0", sight="full"),
    "moving obstacles": of_others("gymnasium:MiniGrid-Dynamic-Obstacles-5x5-v0"),
    "2048": of_others("openspiel:2048"),
    "breakthrough": of_others("openspiel:breakthrough(rows=6,columns=6)", opponent="mcts:20"),
    "dice": of_others("openspiel:backgammon", player=1),
    "poker": of_others("openspiel:kuhn_poker"),
    "scissors": of_others("openspiel:matrix_rps"),
    "lights": of_others("textarena:LightsOut-v0"),
    "nim": of_others("textarena:Nim-v0"),
    "cards": of_others("textarena:Blackjack-v0"),
    "hanoi": hanoi,
    "doors": Doors,
    "corridor": Corridor,
    "async corridor": AsyncCorridor,
    "lottery": Lottery,
    "tiger": Tiger,
    "cliff": Cliff,
    "gate": Guarded,
    "waiting": Waiting,
}


@pytest.fixture(params=WORLDS)
async def world(request):
    async with opened(request.param) as world:
        yield world


async def walk(world, seed):
    """States that random actions lead to, each with its actions and the step that was taken."""
    draws, rng = Random(f"walk {seed}"), Random(seed)
    state = await settled(world.start(seed))
    for _ in range(STEPS):
        actions = await settled(world.actions(state))
        if not actions:
            return
        action = draws.choice(actions)
        step = await settled(world.step(state, action, rng))
        yield state, actions, action, step
        if step.done:
            return
        state = step.state


async def test_a_world_is_the_same_for_equal_seeds(world):
    first, again = [[step async for step in walk(world, 1)] for _ in range(2)]
    assert first
    assert first == again


async def test_states_are_plain_data_that_never_changes(world):
    async for state, actions, action, _ in walk(world, 0):
        description, seen = await settled(world.describe(state)), await observed(world, state)
        # A held state can be continued from any number of times.
        first, again = [await settled(world.step(state, action, Random(3))) for _ in range(2)]
        assert first == again
        assert await settled(world.describe(state)) == description
        assert await observed(world, state) == seen
        assert await settled(world.actions(state)) == actions
        assert first.observation is not None or isinstance(hash(first.state), int)


async def test_actions_are_told_apart_and_each_is_there_once(world):
    async for _, actions, _, _ in walk(world, 0):
        assert len(set(actions)) == len(actions)
        assert len({str(action) for action in actions}) == len(actions)


async def test_a_step_that_draws_nothing_is_certain(world):
    async for state, _, action, _ in walk(world, 0):
        rng = Random(5)
        before = rng.getstate()
        step = await settled(world.step(state, action, rng))
        if rng.getstate() == before:
            assert await settled(world.step(state, action, Random(6))) == step


async def test_what_is_told_of_a_world(world):
    assert world.goal
    assert isinstance(world.about, str)
    start = await settled(world.start(0))
    assert await settled(world.describe(start))
    assert not await is_won(world, start, done=False)
    async for _, _, _, step in walk(world, 0):
        assert await settled(world.describe(step.state))
        won = await is_won(world, step.state, done=step.done)
        assert step.done or not won


async def test_what_a_world_can_do_beyond_that_fits(world):
    feasible, score = (getattr(world, name, None) for name in ("feasible", "score"))
    belief, history = getattr(world, "belief", None), ()
    async for state, actions, action, step in walk(world, 0):
        if feasible is not None:
            assert all(feasible(state, action) is None for action in actions)
        if score is not None:
            assert 0.0 <= score(state) <= 1.0
        if belief is not None:
            assert step.observation is not None
            drawn, again = [await settled(belief(history, Random(1))) for _ in range(2)]
            assert drawn == again
            assert await settled(world.step(drawn, action, Random(1)))
            history = (*history, (action, step.observation))


async def test_a_fast_rollout_is_the_one_of_step_by_step(world):
    if not isinstance(world, RollsOut):
        pytest.skip("its rollouts go step by step")
    states = [step.state async for _, _, _, step in walk(world, 0)]
    states.append(await settled(world.start(0)))
    if isinstance(world, Advises):
        # Random actions alone would hardly ever be rewarded.
        while plan := await settled(world.advise(states[-1])):
            states.append((await settled(world.step(states[-1], plan[0], Random(0)))).state)
    returns = set()
    # The last state but one is a step before a goal.
    for seed, state in enumerate([*states * 5, *states[-2:] * 40]):
        rng, again = Random(seed), Random(seed)
        value = world.rollout(state, rng, gamma=0.9, depth=30)
        assert value == await uniform_rollout(world, state, again, gamma=0.9, depth=30)
        assert rng.getstate() == again.getstate()
        returns.add(value)
    assert len(returns) > 1


@pytest.mark.parametrize(
    ("name", "impossible"),
    [
        ("hanoi", "move disc 3 to peg B"),
        ("gate", "go"),
        ("trap door", "take crown"),
        ("trap door remembered", "take crown"),
        ("minecraft", None),
        ("blocks", None),
        ("items by unusual rules", None),
    ],
)
async def test_what_is_impossible_changes_nothing_and_says_why(name, impossible):
    async with opened(name) as world:
        start = await settled(world.start(0))
        if impossible is None:
            (_, *later) = world.advise(start)
            impossible = next(action for action in later if world.feasible(start, action))
            assert impossible not in world.actions(start)
        step = await settled(world.step(start, impossible, Random(0)))
        assert step.obstacle
        assert (step.reward, step.done) == (0.0, False)
        kept = getattr(step.state, "state", step.state) == getattr(start, "state", start)
        assert kept


async def test_none_is_an_action_as_any_other():
    assert (await execute(Waiting(), [None, None], seed=0)).success
    outcome = await run("uct", Waiting())
    assert (outcome.success, outcome.plan) == (True, ("None", "None"))
