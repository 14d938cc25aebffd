"""Gull Rock, the story of our own: Frotz plays it everywhere, and MC-DML searches in it."""

import shutil
import subprocess
from random import Random

import pytest
from jericho_toy import needs_jericho
from textgame_toys import played

from llm_planning.environments.textgame.game import Ending
from llm_planning.environments.textgame.jericho_games import read_story
from llm_planning.environments.textgame.jericho_interpreter import JerichoInterpreter, valid_actions
from llm_planning.environments.textgame.open_games import GameSettings, game_key, open_game
from llm_planning.environments.textgame.remembered import RememberedGame, TransitionMemory
from llm_planning.environments.textgame.shipped_stories import GULL_ROCK
from llm_planning.environments.textgame.snapshot_game import SnapshotGame
from llm_planning.running import plan
from llm_planning.worker_processes import end_workers
from llm_serving.scripted import ScriptedEngine

pytestmark = needs_jericho
SOURCE = GULL_ROCK.file.with_suffix(".inf")
TO_THE_CAVE = ("east", "north")


@pytest.fixture(scope="module")
def story():
    return read_story(GULL_ROCK.file)


@pytest.fixture
def game(story):
    return JerichoInterpreter(story, state="exact")


def test_the_walkthrough_wins_all_points(game):
    transition, rewards = game.begin(), []
    for action in game.walkthrough:
        transition = game.step(transition.state, action)
        rewards.append(transition.reward)
    assert transition.ending is Ending.VICTORY
    paid = dict(zip(game.walkthrough, rewards, strict=True))
    assert {action: reward for action, reward in paid.items() if reward} == {
        "read logbook": 5.0,
        "light lantern": 5.0,
        "take key": 5.0,
        "take pearl": 5.0,
        "unlock hatch with key": 10.0,
        "fill lamp": 10.0,
        "light lamp": 10.0,
    }
    assert sum(rewards) == game.max_score == 50.0


def test_light_decides_what_is_seen_and_whether_the_ledge_kills(game):
    dark = played(game, *TO_THE_CAVE)
    assert "pitch dark" in dark.text
    assert game.step(dark.state, "open box").text == "You can't see any such thing."
    lit = played(game, *game.walkthrough[: game.walkthrough.index("open box")])
    assert "The box, closed." in lit.text
    assert game.step(lit.state, "north").ending is None
    put_out = game.step(lit.state, "extinguish lantern")
    assert game.step(put_out.state, "north").ending is Ending.FAILURE


def rollouts(game, actions_of, *, number, steps=10):
    draw = Random(0)
    for _ in range(number):
        here = game.begin()
        for _ in range(steps):
            if here.ending is not None:
                break
            actions = actions_of(here.state)
            yield here.state, actions
            here = game.step(here.state, draw.choice(actions))


def test_states_of_one_world_have_the_same_valid_actions(game, story):
    """Whatever their turns and points are; and there are 5 to 25 of them."""
    worlds, names, compared = {}, set(), 0
    anew = lambda state: valid_actions(story, state, 10.0).actions  # noqa: E731
    for state, actions in rollouts(game, anew, number=8):
        names.add(game.key(state))
        compared += game.situation(state) in worlds
        assert worlds.setdefault(game.situation(state), actions) == actions
        assert 5 <= len(actions) <= 25
    assert compared > 20
    assert len(names) > len(worlds)


async def test_valid_actions_are_computed_at_most_a_fifth_as_often_by_world(story):
    """The states of 150 random rollouts of 10 moves, as a search of one move plays them."""
    game = JerichoInterpreter(story, state="exact")
    asked = []

    async def valid(snapshot):
        asked.append(game.situation(snapshot))
        return valid_actions(story, snapshot, 10.0).actions

    game.valid_actions = valid
    remembered = RememberedGame(SnapshotGame(game), TransitionMemory())
    draw, states = Random(0), set()
    for _ in range(150):
        here = await remembered.start()
        for _ in range(10):
            if here.ending is not None:
                break
            states.add(here.state)
            actions = await remembered.actions(here.state)
            here = await remembered.step(here.state, draw.choice(actions))
    assert len(asked) == len(set(asked))
    assert len(states) >= 5 * len(asked)


async def test_it_is_a_task_and_a_file_like_others(game):
    task = GameSettings.read({"remember": "memory"})
    file = GameSettings.read({"remember": "memory", "game": str(GULL_ROCK.file)})
    assert game_key("gull-rock", task) == game_key("zork1", file)
    async with open_game("gull-rock", task) as opened:
        assert (opened.name, opened.max_score) == ("gull-rock", 50.0)
        assert opened.walkthrough == GULL_ROCK.walkthrough
        assert "north" in await opened.actions((await opened.start()).state)
    world = GameSettings.read({"remember": "memory", "state": "world"})
    async with open_game("gull-rock", world) as opened:
        start = await opened.start()
        moved = await opened.step((await opened.step(start.state, "north")).state, "south")
        assert moved.state == start.state
    end_workers()


async def test_mc_dml_searches_in_it(tmp_path, monkeypatch):
    monkeypatch.setenv("LLM_PLANNING_CACHE", str(tmp_path))
    outcome = await plan(
        "mc-dml-puct",
        "gull-rock",
        engine=ScriptedEngine({}),
        settings={"moves": 1, "simulations_per_action": 3, "d_min": 4, "d_max": 4},
        seed=0,
    )
    assert outcome.metrics["game"] == "gull-rock"
    assert outcome.metrics["simulations"] == 3 * len(outcome.trace["moves"][0]["root"]) >= 15
    walked = await plan("walkthrough", "gull-rock", engine=ScriptedEngine({}), seed=0)
    # Rewards at the steps 13, 18, 23, 27, 33, 45 and 46.
    assert walked.metrics["steps_per_reward"] == pytest.approx((5 + 5 + 4 + 6 + 12 + 1) / 6)
    assert walked.metrics["max_steps_per_reward"] == 12
    end_workers()


@pytest.mark.skipif(shutil.which("inform6") is None, reason="inform6-compiler is not installed")
def test_the_story_is_compiled_from_its_source(tmp_path):
    compiled = tmp_path / "gull_rock.z5"
    version = subprocess.run(["inform6", "-V"], capture_output=True, text=True, check=False)
    if "6.41" not in version.stdout:
        pytest.skip("another version of the compiler writes other bytes")
    subprocess.run(["inform6", "-w", "-v5", str(SOURCE), str(compiled)], check=True)
    assert compiled.read_bytes() == GULL_ROCK.file.read_bytes()
