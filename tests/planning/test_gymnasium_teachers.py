"""Who advises in worlds of Gymnasium, and the sweeps that ask what their advice is worth."""

from pathlib import Path
from random import Random
from types import SimpleNamespace

import gymnasium
import pytest

from llm_planning.domain import Advises
from llm_planning.environments.bridges.gymnasium_copies import Copies
from llm_planning.environments.bridges.gymnasium_teachers import (
    DISCOUNT,
    MissionBot,
    ValueIteration,
)
from llm_planning.environments.bridges.gymnasium_worlds import GymnasiumWorld
from llm_planning.execution.episode import world_draws
from llm_planning.experiments.grid import load_sweep
from llm_planning.roles.domain_rules import adviser


async def taken(world, *, seed, most=100):
    """The actions of whoever does as advised, and the last state."""
    state, draws, actions = world.start(seed), world_draws(seed), []
    while not state.ended and len(actions) < most:
        (action,) = await world.advise(state)
        actions.append(action)
        state = world.step(state, action, draws).state
    return actions, state


def lake(**settings):
    env = gymnasium.make("FrozenLake-v1", **settings)
    env.reset(seed=0)
    return env, ValueIteration(env.unwrapped.P, Copies(env))


def test_the_shortest_way_over_a_lake_that_is_not_slippery():
    # S F F F / F H F H / F F F H / H F F G: six moves, the last one rewarded; from the third row it
    # is right, down, right. A hole ends the episode without a reward.
    _, known = lake(is_slippery=False)
    by_hand = [5, 4, 3, 4, 4, None, 2, None, 3, 2, 1, None, None, 1, 0, None]
    expected = [0.0 if left is None else DISCOUNT**left for left in by_hand]
    assert known.values == pytest.approx(expected)


def test_a_slippery_lake_has_its_known_value():
    # The value of the start at a discount of 0.99, as textbooks and courses print it.
    assert lake()[1].values[0] == pytest.approx(0.5420, abs=1e-4)


async def test_a_taxi_takes_as_few_moves_as_a_search_in_breadth():
    world = GymnasiumWorld("Taxi-v4")
    table = gymnasium.make("Taxi-v4").unwrapped.P
    actions, last = await taken(world, seed=0)
    reached, moves = {int(world.start(0).seen)}, 0
    while not any(
        reward == 20 for state in reached for [(_, _, reward, _)] in table[state].values()
    ):
        reached |= {after for state in reached for [(_, after, _, _)] in table[state].values()}
        moves += 1
    assert (len(actions), last.total) == (moves + 1, 20 - moves)


@pytest.mark.parametrize(
    "task",
    ["BabyAI-GoToLocalS8N7-v0", "BabyAI-PutNextLocalS5N3-v0", "BabyAI-UnlockLocal-v0"],
)
async def test_the_bot_does_what_the_mission_says(task):
    world = GymnasiumWorld(task)
    for seed in range(3):
        _, last = await taken(world, seed=seed)
        assert world.success(last)


async def test_the_bot_goes_on_after_what_it_did_not_advise():
    world = GymnasiumWorld("BabyAI-GoToLocalS8N7-v0")
    state, draws = world.start(1), Random(0)
    for action in ("right", "right", "forward"):
        state = world.step(state, action, draws).state
    while not state.ended:
        (action,) = await world.advise(state)
        state = world.step(state, action, draws).state
    assert world.success(state)


def test_the_bot_knows_only_what_the_agent_saw():
    def advised(cell):
        """What it does first where the red ball lies in this cell."""
        env = gymnasium.make("BabyAI-GoToRedBallNoDists-v0")
        env.reset(seed=0)
        room = env.unwrapped
        (ball,) = (thing for thing in room.grid.grid if thing and thing.type == "ball")
        room.grid.set(*ball.cur_pos, None)
        room.put_obj(ball, *cell)
        room.instrs.reset_verifier(room)
        begun = SimpleNamespace(begin=lambda _: (SimpleNamespace(env=env), None, {}))
        return MissionBot(begun).number(SimpleNamespace(past=((0, 0),))), room.in_view(*cell)

    inner = [(column, row) for column in range(1, 7) for row in range(1, 7)]
    agent = gymnasium.make("BabyAI-GoToRedBallNoDists-v0")
    agent.reset(seed=0)
    by_sight = {True: set(), False: set()}
    for cell in inner:
        if cell != tuple(agent.unwrapped.agent_pos):
            number, seen = advised(cell)
            by_sight[seen].add(number)
    assert len(by_sight[False]) == 1 < len(by_sight[True])


async def test_a_bot_that_gives_up_advises_nothing():
    # The authors say that it cannot do this level.
    world = GymnasiumWorld("BabyAI-KeyInBox-v0")
    assert await world.advise(world.start(1)) == []


async def test_only_worlds_with_a_teacher_advise():
    assert isinstance(GymnasiumWorld("FrozenLake-v1"), Advises)
    assert not isinstance(GymnasiumWorld("MiniGrid-Empty-5x5-v0"), Advises)


async def test_rules_name_the_next_action():
    world = GymnasiumWorld("BabyAI-GoToLocalS8N7-v0")
    state = world.start(0)
    named = await adviser(world, seed=0)(state, world.actions(state))
    assert named == tuple(await world.advise(state))


# --- the sweeps of priors -------------------------------------------------------------------------

PROJECT = Path(__file__).resolve().parents[2]
LEVELS = 5
SHARES = (
    "rules",
    *(f"configs/matrix/oracles/prior-{right}.yaml" for right in ("0.9", "0.6", "0.3")),
)
PROBLEM = "(define (problem p) (:domain d) (:init) (:goal (and (done))))"
DOMAIN = """
(define (domain d) (:predicates (done))
  (:action finish :parameters () :precondition (and) :effect (and (done))))
"""


def planned(path):
    """World -> the settings that it is planned in: its roles, the seed, and what all share."""
    by_world = {}
    for trial in load_sweep(path).trials:
        settings = dict(trial.settings)
        roles = settings.pop("roles", None)
        for key in ("roles_sha256", "prior", "prior_temperature", "prior_mixture"):
            settings.pop(key, None)
        by_world.setdefault(trial.domain, []).append((trial.planner, roles, trial.seed, settings))
    return by_world


def check_paired(trials):
    """Each seed is planned by UCT, and by PUCT for each share that is right, with equal limits."""
    seeds = {seed for _, _, seed, _ in trials}
    expected = {("uct", None), *(("puct", roles) for roles in SHARES)}
    assert {(planner, roles) for planner, roles, _, _ in trials} == expected
    assert len(trials) == len(seeds) * len(expected)
    assert all(settings == trials[0][3] for *_, settings in trials)
    assert min(seeds) == 1000


def test_the_sweep_of_priors_pairs_every_world(monkeypatch):
    monkeypatch.chdir(PROJECT)
    by_world = planned("configs/matrix/priors.yaml")
    assert sum("BabyAI" in world for world in by_world) == LEVELS
    assert len(by_world) == LEVELS + 1
    for trials in by_world.values():
        check_paired(trials)


def test_so_does_the_one_of_pddl(tmp_path, monkeypatch):
    (tmp_path / "configs").symlink_to(PROJECT / "configs")
    problems = {"blocks": "problem1", "elevator": "problem2", "gripper": "prob01"}
    for name, problem in {**problems, "newspapers": "problem0"}.items():
        folder = tmp_path / "pddlgym" / "pddl" / name
        folder.mkdir(parents=True)
        folder.with_suffix(".pddl").write_text(DOMAIN)
        (folder / f"{problem}.pddl").write_text(PROBLEM)
    monkeypatch.chdir(tmp_path)
    by_world = planned(PROJECT / "examples" / "priors-pddl.yaml")
    assert len(by_world) == len(problems) + 1
    for trials in by_world.values():
        check_paired(trials)
    of_model = load_sweep(PROJECT / "examples" / "priors-model.yaml").trials
    assert {trial.domain for trial in of_model} & set(by_world)
    assert {trial.settings["prior"] for trial in of_model} == {"exact"}
