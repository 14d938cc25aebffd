"""Worlds of Gymnasium and OpenSpiel as domains: words, chance, copies, success, what is refused."""

import ast
import asyncio
import re
from collections import Counter
from copy import deepcopy
from dataclasses import replace
from math import inf
from pathlib import Path
from random import Random

import gymnasium
import numpy as np
import pyspiel
import pytest
from command_line import invoke

from llm_planning.domain import DomainError
from llm_planning.environments import bridges
from llm_planning.environments.bridges import bridge
from llm_planning.environments.bridges.grids import grid_text
from llm_planning.environments.bridges.gymnasium_chance import Chance
from llm_planning.environments.bridges.gymnasium_copies import Copies, same
from llm_planning.environments.bridges.gymnasium_worlds import GymnasiumWorld
from llm_planning.environments.bridges.openspiel_games import OpenSpielGame
from llm_planning.registry import find_domain
from llm_planning.search import TrackedRandom


class Counting(gymnasium.Env):
    """Counts steps: for all copies together, or for each across its resets."""

    action_space = gymnasium.spaces.Discrete(2, start=1)
    observation_space = gymnasium.spaces.Discrete(1 << 20)
    metadata = {"render_modes": []}  # noqa: RUF012 - so does every environment of Gymnasium
    steps = 0

    def __init__(self, *, across_resets=False):
        self.across_resets = across_resets
        self.own = 0

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        return 0, {}

    def step(self, action):
        if self.across_resets:
            self.own += 1
            return self.own, 0.0, False, False, {}
        Counting.steps += 1
        return Counting.steps, 0.0, False, False, {}


COUNTING, TIRED = "llm_planning_tests/Counting-v0", "llm_planning_tests/Tired-v0"


@pytest.fixture(autouse=True)
def registered():
    gymnasium.register(COUNTING, entry_point=Counting)
    gymnasium.register(TIRED, entry_point=Counting, kwargs={"across_resets": True})
    yield
    del gymnasium.registry[COUNTING], gymnasium.registry[TIRED]


# --- Gymnasium ------------------------------------------------------------------------------------


def test_steps_are_those_of_the_environment():
    """In any order, also from states that were left before."""
    world = GymnasiumWorld("MiniGrid-DoorKey-5x5-v0", sight="full")
    names = list(world.actions(world.start(5)))
    states = {(): world.start(5)}
    draws = Random(0)
    for _ in range(60):
        past, action = draws.choice(list(states)), draws.choice(names)
        if not states[past].ended:
            states[*past, action] = world.step(states[past], action, Random(0)).state
    env = gymnasium.make("MiniGrid-DoorKey-5x5-v0")
    assert len(states) > 40
    for past, state in states.items():
        seen, _ = env.reset(seed=5)
        total = 0.0
        for action in past:
            seen, reward, *_ = env.step(names.index(action))
            total += reward
        assert same(state.seen, seen)
        assert state.total == pytest.approx(total)


def test_chance_comes_from_the_generator_alone():
    """A frozen lake slips to each of three sides in a third of the cases."""
    world = GymnasiumWorld("FrozenLake-v1")
    start = world.start(0)
    went = Counter(world.step(start, "move down", Random(seed)).state.seen for seed in range(600))
    assert set(went) == {0, 1, 4}
    assert all(150 < count < 250 for count in went.values())


def test_a_step_without_chance_draws_nothing():
    rng = TrackedRandom()
    pole = GymnasiumWorld("CartPole-v1")
    assert pole.step(pole.start(0), "push cart to the left", rng).observation is None
    assert not rng.drawn
    lake = GymnasiumWorld("FrozenLake-v1")
    lake.step(lake.start(0), "move left", rng)
    assert rng.drawn


def test_outcomes_that_look_alike_are_one():
    """The search makes one node of them, whatever was drawn."""
    world = GymnasiumWorld("FrozenLake-v1")
    steps = [world.step(world.start(0), "move down", Random(seed)) for seed in range(40)]
    assert len({step.seen for step in steps}) == 3
    assert len({step.state for step in steps}) > 3


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("FrozenLake-v1", ["move left", "move down", "move right", "move up"]),
        ("Blackjack-v1", ["stick", "hit"]),
        ("MiniGrid-Empty-5x5-v0", ["left", "right", "forward", "pickup", "drop", "toggle", "done"]),
        (COUNTING, ["action 1", "action 2"]),
    ],
)
def test_actions_have_the_names_that_the_environment_gives_them(name, words):
    world = GymnasiumWorld(name)
    assert list(world.actions(world.start(0))) == words


def test_what_is_masked_is_not_possible():
    world = GymnasiumWorld("Taxi-v4")
    state = world.start(0)
    possible = world.actions(state)
    assert possible
    assert sum(state.mask) == len(possible) < len(state.mask)
    names = ("move south (down)", "move north (up)", "move east (right)", "move west (left)")
    for name in names:
        step = world.step(state, name, Random(0))
        assert (step.obstacle is None) == (name in possible)
    unknown = world.step(state, "fly", Random(0))
    assert unknown.obstacle.startswith("there is no such action; ")
    assert unknown.state is state


def test_a_grid_in_words():
    world = GymnasiumWorld("MiniGrid-DoorKey-5x5-v0", sight="full")
    state = world.start(1)
    lines = world.describe(state).splitlines()
    grid, legend = lines[:5], lines[5:]
    assert grid[0] == grid[4] == "#####"
    inner = world._copies.to_see(state).unwrapped
    column, row = inner.agent_pos
    facing = ("right", "down", "left", "up")[inner.agent_dir]
    assert legend[0] == f"{grid[row][column]}: you, at column {column}, row {row}, facing {facing}"
    for line in legend[1:4]:
        letter, _, rest = line.partition(": ")
        place = (int(rest.split("column ")[1].split(",")[0]), int(rest.split("row ")[1]))
        assert grid[place[1]][place[0]] == letter
        assert inner.grid.get(*place).type in rest
    assert "locked yellow door" in world.describe(state)
    assert legend[4:] == [
        "You carry nothing.",
        "Mission: use the key to open the door and then get to the goal",
    ]
    assert world.remainder(state) == "Use the key to open the door and then get to the goal."
    # The agent sees seven by seven cells and stands below the middle.
    own = world.observe(state).splitlines()
    assert [len(line) for line in own[:7]] == [7] * 7
    assert own[6][3] == "^"


def test_what_an_agent_carries_is_told_by_both_views():
    world = GymnasiumWorld("MiniGrid-Fetch-5x5-N2-v0", sight="full")
    inner = world._copies.to_see(world.start(0)).unwrapped
    inner.carrying = next(cell for cell in inner.grid.grid if cell and cell.type in {"key", "ball"})
    carried = f"You carry a {inner.carrying.color} {inner.carrying.type}."
    assert carried in grid_text(inner, None)
    assert carried in grid_text(inner, inner.gen_obs())


@pytest.mark.parametrize(
    ("name", "rewards", "ended", "won"),
    [
        ("CartPole-v1", [1.0] * 475, "truncated", True),
        ("CartPole-v1", [1.0] * 474, "terminated", False),
        ("Blackjack-v1", [1.0], "terminated", True),
        ("Blackjack-v1", [0.0, 1.0], "terminated", True),
        ("MiniGrid-Empty-5x5-v0", [0.0, 0.0, 0.9], "terminated", True),
        ("MiniGrid-Empty-5x5-v0", [0.0, 0.0, 0.0], "truncated", False),
        ("CliffWalking-v1", [-1.0] * 13, "terminated", None),
        ("CliffWalking-v1", [-1.0] * 13, "", False),
        # What follows is decided without a threshold, whatever the world.
        ("CliffWalking-v1", [-1.0, -1.0, 0.0], "terminated", None),
        ("CliffWalking-v1", [-1.0, 20.0], "terminated", True),
        ("CliffWalking-v1", [-1.0, -1.0], "truncated", False),
        ("Blackjack-v1", [0.0, 0.0], "terminated", False),
        ("Blackjack-v1", [0.0, -1.0], "terminated", False),
        ("Blackjack-v1", [0.0, 1.0, 1.0], "terminated", None),
        ("Blackjack-v1", [0.0, 0.5, 1.0], "terminated", True),
        ("Blackjack-v1", [0.0, 2.0, 1.0], "terminated", None),
        ("Blackjack-v1", [-0.3, 0.8, 0.2], "terminated", None),
        ("Blackjack-v1", [1.0, 1.0], "terminated", None),
        ("Blackjack-v1", [0.5, 0.7, 9.0], "terminated", None),
        ("Blackjack-v1", [1.0, 1.0, -100.0], "terminated", False),
        ("Blackjack-v1", [1.0, 1.0], "truncated", None),
    ],
)
def test_success_is_what_the_authors_define(name, rewards, ended, won):
    world = GymnasiumWorld(name)
    start, before = world.start(0), rewards[:-1]
    state = replace(
        start,
        total=sum(rewards),
        ended=ended,
        gained=rewards[-1],
        least_reward=min(before, default=inf),
        most_reward=max(before, default=-inf),
    )
    assert world.success(state) is won


def test_the_rewards_before_the_last_are_kept():
    world = GymnasiumWorld("Taxi-v4")
    state, paid = world.start(0), []
    assert (state.least_reward, state.most_reward) == (inf, -inf)
    for action in ("drop off passenger", "move south (down)", "drop off passenger"):
        name = next((one for one in world.actions(state) if one == action), world.actions(state)[0])
        step = world.step(state, name, Random(0))
        state = step.state
        assert (state.least_reward, state.most_reward) == (
            min(paid, default=inf),
            max(paid, default=-inf),
        )
        paid.append(step.reward)


def test_time_that_is_up_is_said():
    world = GymnasiumWorld("MiniGrid-Empty-5x5-v0")
    state = world.start(0)
    while not state.ended:
        step = world.step(state, "left", Random(0))
        state = step.state
    assert (state.ended, step.done, step.text) == ("truncated", True, "Time is up.")
    assert len(state.past) - 1 == 100


def test_replays_and_copies_are_tested():
    lake = Copies(gymnasium.make("FrozenLake-v1"))
    assert (lake.replays, lake.copies) == (True, True)
    tired = Copies(gymnasium.make(TIRED))
    assert (tired.replays, tired.copies) == (False, True)
    counting = Copies(gymnasium.make(COUNTING))
    assert (counting.replays, counting.copies) == (False, False)


def test_an_error_of_the_environment_s_own_is_told(monkeypatch):
    def step(self, action):
        raise RuntimeError("no such lever")

    monkeypatch.setattr(Counting, "step", step)
    world = GymnasiumWorld(TIRED)
    assert world.no_search == (
        f"{TIRED} cannot be searched, as its step raises RuntimeError: no such lever"
    )


def test_a_world_whose_copies_are_right_is_searched():
    world = GymnasiumWorld(TIRED)
    assert not world.no_search
    starts = [world.start(0) for _ in range(2)]
    seen = [
        world.step(start, "action 1", Random(0)).state.seen for start in starts for _ in range(3)
    ]
    assert seen == [1] * 6


def test_a_world_that_does_nothing_twice_is_played_but_not_searched():
    world = GymnasiumWorld(COUNTING)
    assert "does not do the same twice" in world.no_search
    state = world.start(0)
    for _ in range(3):
        left, state = state, world.step(state, "action 1", Random(0)).state
    with pytest.raises(DomainError, match="neither in a copy nor from its start"):
        world.step(left, "action 1", Random(0))


def test_steps_have_their_own_chance():
    env = gymnasium.make("FrozenLake-v1")
    results = []
    for chance in (7, 7, 8, 9, 10):
        env.reset(seed=0)
        results.append(Chance().step_again(env, 1, chance)[:2])
    assert [drawn for drawn, _ in results] == [7, 7, 8, 9, 10]
    assert results[0] == results[1]
    assert len({result for _, result in results}) > 1
    assert isinstance(env.unwrapped.np_random, np.random.Generator)


def test_chance_is_drawn_once_and_only_where_a_step_needs_it():
    seeds = []
    for task, expected in (("FrozenLake-v1", [7]), ("MountainCar-v0", [])):
        env = gymnasium.make(task)
        env.reset(seed=0)
        seeds.clear()
        drawn, *_ = Chance().step(env, 1, lambda: seeds.append(7) or 7)
        deepcopy(env)
        assert seeds == expected
        assert drawn == (expected[0] if expected else None)


# --- OpenSpiel ------------------------------------------------------------------------------------


def test_moves_are_those_of_the_game():
    game = OpenSpielGame("connect_four")
    state, rng = game.start(0), Random(4)
    while moves := game.actions(state):
        state = game.step(state, rng.choice(moves), rng).state
    spiel = pyspiel.load_game("connect_four").new_initial_state()
    for move in state.moves:
        spiel.apply_action(move)
    assert spiel.is_terminal()
    assert str(spiel) == game.describe(state)
    won = spiel.returns()[0] > 0
    assert game.success(state) is won


def test_the_others_play_as_the_setting_says():
    """Who searches loses to nobody who plays at random."""

    def returns(opponent):
        game = OpenSpielGame("tic_tac_toe", opponent=opponent)
        total = 0.0
        for seed in range(20):
            state, rng = game.start(seed), Random(seed)
            while moves := game.actions(state):
                state = game.step(state, rng.choice(moves), rng).state
            total += state.spiel.returns()[0]
        return total

    assert returns("mcts:200") < -10 < returns("uniform")


def test_chance_has_its_odds():
    """The first card of Kuhn's poker is one of three."""
    game = OpenSpielGame("kuhn_poker", sight="full")
    cards = Counter(game.start(seed).moves[0] for seed in range(300))
    assert set(cards) == {0, 1, 2}
    assert all(70 < count < 130 for count in cards.values())


def test_a_game_that_draws_by_itself_is_not_searched():
    assert "draws its chance by itself" in OpenSpielGame("negotiation", sight="full").no_search
    assert OpenSpielGame("backgammon").no_search == ""


def test_only_contests_are_won():
    assert OpenSpielGame("2048").goal == "End 2048 with the highest return you can."
    game = OpenSpielGame("tic_tac_toe")
    assert game.goal == "Win Tic Tac Toe."
    state = game.start(0)
    assert game.success(state) is False
    assert OpenSpielGame("2048").success(OpenSpielGame("2048").start(0)) is False


def test_what_is_hidden_is_not_searched_by_chance():
    hidden = OpenSpielGame("kuhn_poker")
    assert "--set sight=full" in hidden.no_search
    assert OpenSpielGame("kuhn_poker", sight="full").no_search == ""
    starts = {state.moves: state for state in map(hidden.start, range(60))}
    first, second = starts[2, 0], starts[2, 1]
    assert hidden.observe(first) == hidden.observe(second)
    assert hidden.describe(first) != hidden.describe(second)


# --- both -----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("gymnasium:FrozenLak-v1", "did you mean FrozenLake-v1"),
        ("openspiel:brakthrough", "did you mean breakthrough"),
    ],
)
def test_a_misspelt_world(name, message):
    with pytest.raises(DomainError, match=message) as caught:
        find_domain(name)
    assert len(str(caught.value)) < 300


@pytest.mark.parametrize(
    ("name", "task", "message"),
    [
        ("gymnasium", "Ant-v5", "Ant-v5 cannot be made here: "),
        ("openspiel", "mfg_crowd_modelling", "is no game in turns"),
        ("openspiel", "breakthrough(rows=1)", "cannot be loaded: "),
        ("openspiel", "crossword", "crossword cannot be loaded: LegalActions unimplemented"),
        ("openspiel", "nfg_game", "nfg_game cannot be loaded: "),
    ],
)
def test_worlds_that_are_no_domains(name, task, message):
    spec = bridge(name)
    with pytest.raises(DomainError, match=message):
        spec.open(task, spec.settings.read({}))


def test_there_is_no_third_player():
    spec = bridge("openspiel:chess")
    with pytest.raises(DomainError, match="player=2: chess has 2 players"):
        spec.open("chess", spec.settings.read({"player": 2}))


def test_a_source_has_all_its_worlds_as_tasks():
    assert len(bridge("gymnasium").tasks) > 180
    assert len(bridge("openspiel").tasks) > 100
    assert bridge("gymnasium:Taxi-v4").tasks == ("Taxi-v4",)


def test_a_package_that_is_not_installed(monkeypatch):
    monkeypatch.setitem(bridges.BRIDGES, "gymnasium", "llm_planning.no_such_module")
    with pytest.raises(DomainError, match=r"pip install 'llm-planning\[worlds\]'"):
        bridge("gymnasium:FrozenLake-v1")


def test_the_python_of_the_docs_runs(capsys):
    page = (Path(__file__).parents[2] / "docs" / "other-worlds.md").read_text("utf-8")
    code = next(
        one for one in re.findall(r"```python\n(.*?)```", page, re.DOTALL) if "plan(" in one
    )
    names = {}
    asyncio.run(
        eval(compile(code, "other-worlds.md", "exec", ast.PyCF_ALLOW_TOP_LEVEL_AWAIT), names)
    )
    assert "SFFF" in capsys.readouterr().out.replace("[S]", "S")
    assert names["outcome"].metrics["moves"] <= 3


def test_what_cannot_be_opened_is_one_line_of_the_command():
    ended = invoke("run", "uct", "--domain", "gymnasium:Pendulum-v1", "--model", "none")
    assert ended.exit_code == 1
    assert "Pendulum-v1 has the actions Box" in ended.stderr
    assert len(ended.stderr.strip().splitlines()) == 1


def test_a_search_in_a_world_of_others():
    ended = invoke(
        *("run", "uct", "--domain", "openspiel:tic_tac_toe", "--model", "none"),
        *("--set", "simulations=60"),
    )
    assert ended.exit_code == 0, ended.stderr
    assert "Goal: Win Tic Tac Toe." in ended.stdout


@pytest.mark.parametrize("planner", ["uct", "mc-dml-uct"])
def test_no_search_sees_what_its_player_does_not(planner):
    hidden = invoke("run", planner, "--domain", "openspiel:kuhn_poker", "--model", "none")
    assert hidden.exit_code == 1
    assert "hides something from its players" in hidden.stderr
