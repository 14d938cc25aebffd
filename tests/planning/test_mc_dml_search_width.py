"""A search with many simulations in flight, and one that remembers: both grow the same tree."""

import asyncio
import random
from itertools import cycle

import pytest
from mc_dml_games import (
    Reflects,
    agent,
    by_words,
    exported,
    random_game,
    read_golden,
    rounded,
    rows,
    search_parts,
    searched,
    tell_actions,
)
from textgame_toys import Numbers

from llm_planning.domain import Domain, Step
from llm_planning.environments.textgame.game import Ending
from llm_planning.environments.textgame.remembered import RememberedGame, TransitionMemory
from llm_planning.environments.textgame.snapshot_game import SnapshotGame
from llm_planning.planners.mc_dml.algorithm import Position, Scene
from llm_planning.search import edges_below
from llm_planning.trace import recording


def delayed(draw, role):
    async def answer(question):
        await asyncio.sleep(draw.choice([0.0, 0.0, 0.0005, 0.001]))
        return await role(question)

    return answer


@pytest.mark.parametrize("width", [1, 4, 16])
async def test_the_tree_does_not_depend_on_how_long_answers_take(width):
    trees = []
    for delays in range(4):
        draw = random.Random(delays)
        parts = search_parts(
            prior=delayed(draw, by_words),
            reflect=delayed(draw, tell_actions),
            depths=(8,),
            simulations_per_action=30,
            width=width,
        )
        result = await searched(random_game(2, [Ending.FAILURE]), parts)
        trees.append((result.reflections, exported(result.root)))
        assert len(result.reflections) == 3
    assert all(tree == trees[0] for tree in trees)
    assert rounded(rows(result.root)) == read_golden("trees")[str(width)]
    other = await searched(random_game(2, [Ending.FAILURE]), parts, seed="another")
    assert exported(other.root) != trees[0][1]


class Maze(Domain):
    """A door leads to one of five rooms, and all that can be done there is fatal, sooner or later.

    Args:
        delays: seconds that the steps take, one after the other.
    """

    goal = "Live."

    def __init__(self, delays):
        self.delays = delays

    def start(self, seed):
        return "hall"

    def describe(self, state):
        return f"You are in {state}."

    def actions(self, state):
        return [] if state == "dead" else ["on", "back"]

    async def step(self, state, action, rng):
        await asyncio.sleep(next(self.delays))
        if state == "hall" and action == "on":
            return Step(f"room {rng.randrange(5)}")
        return Step("dead", done=True)

    def success(self, state):
        return False


@pytest.mark.parametrize("width", [2, 4])
async def test_who_reflects_does_not_depend_on_how_long_the_world_takes(width):
    """Simulations in flight do the same in different rooms, and fail for reasons of their own."""

    async def reflect(trajectory):
        return " ".join(turn.observation.look for turn in trajectory.turns)

    parts = search_parts(
        prior=by_words, reflect=reflect, k=9, depths=(2,), simulations_per_action=15, width=width
    )
    trees = []
    for delays in range(6):
        draws = random.Random(delays)
        maze = Maze(cycle([draws.choice([0.0, 0.0, 0.0005, 0.002]) for _ in range(97)]))
        position = Position((), Scene(maze.start(0)), 0.0)
        with recording() as trace:
            result = await agent(maze, parts).search(position, rng=random.Random(1))
        notes = [event["note"] for event in trace.events if event["type"] == "simulation"]
        trees.append((notes, result.reflections, exported(result.root)))
    assert all(tree == trees[0] for tree in trees)
    assert len(trees[0][1]) >= 3


async def test_rollouts_do_not_look_around():
    toy = Numbers()
    game = RememberedGame(SnapshotGame(toy), TransitionMemory())
    result = await searched(game, search_parts(depths=(6,), simulations_per_action=2))
    asked_about = {
        edge.step.state.state.state
        for _, edge in edges_below(result.root)
        if edge.step and edge.node.edges
    }
    asked_about.add((await game.start()).state)
    assert toy.asked["look"] == len(asked_about) == 4
    assert toy.asked["actions"] > 6


async def test_a_trajectory_is_looked_at_when_it_is_reflected_on():
    """One simulation for each action: a policy is asked at the root alone."""
    toy = Numbers()
    game = RememberedGame(SnapshotGame(toy), TransitionMemory())
    reflect = Reflects()
    await searched(game, search_parts(depths=(9,), simulations_per_action=1, reflect=reflect, k=1))
    (trajectory,) = reflect.trajectories
    seen = {turn.observation.look for turn in trajectory.turns}
    assert toy.asked["look"] == len(seen) > 3
