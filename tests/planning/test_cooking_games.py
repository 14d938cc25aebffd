"""Real games of TextWorld, if it is installed; and how games are made and kept."""

import importlib.metadata
import importlib.util
import sys
import threading
import time
from random import Random

import pytest
from cooking_kitchens import cooking_in, solution

from llm_planning.environments.cooking.games import (
    GameSpec,
    TextWorldGame,
    make_game,
    open_kitchen,
    open_kitchens,
)
from llm_planning.environments.cooking.kitchen import Kitchen
from llm_planning.environments.cooking.recipes import CookingError
from llm_planning.environments.textgame import textworld_making
from llm_planning.environments.textgame.game import TextGameError
from llm_planning.environments.textgame.textworld_kinds import KITCHEN
from llm_serving.models.folders import CACHE_VARIABLE

INSTALLED = importlib.util.find_spec("textworld") is not None
SPEC = GameSpec(seed=1, ingredients=2)


@pytest.fixture(scope="module")
def game_file():
    """One real game; making it takes seconds, so it stays in the cache."""
    if not INSTALLED:
        pytest.skip("TextWorld is not installed: pip install 'llm-planning[textgames]'")
    return make_game(SPEC)


@pytest.fixture
def kitchen(game_file):
    return Kitchen(TextWorldGame(game_file, name=SPEC.name))


def test_real_game_is_won_by_its_cookbook(kitchen):
    world, meal = cooking_in(kitchen)
    assert [v for v, _ in meal.recipe[-2:]] == ["prepare", "eat"]
    # Two ingredients, each cut and cooked.
    assert len(meal.recipe) == 6
    assert {v for v, _ in meal.recipe[:-2]} <= {"chop", "dice", "slice", "fry", "roast"}
    for subgoal in world.advise(meal):
        meal = world.step(meal, subgoal, Random(0)).state
    assert world.success(meal)
    assert kitchen.played == 6


def test_refused_combinations_leave_the_real_game_alone(kitchen):
    world, meal = cooking_in(kitchen)
    while not world.success(meal):
        right = solution(meal.direction)
        for subgoal in world.actions(meal):
            if subgoal.action != right.action:
                assert world.step(meal, subgoal, Random(0)).obstacle
        meal = world.step(meal, right, Random(0)).state
    assert kitchen.played == 6


def test_raw_game_would_lose_the_meal(game_file):
    """A wrong tool, which the world refuses, ruins the meal in the bare game."""
    game = TextWorldGame(game_file, name=SPEC.name)
    kitchen = Kitchen(game)
    v, food = next(d for d in kitchen.recipe if d.action in {"fry", "roast"})
    reply = game.send(f"cook {food} with {'oven' if v == 'fry' else 'stove'}")
    assert reply.lost


def test_remembered_answers_are_those_of_the_game(game_file):
    first, second = (Kitchen(TextWorldGame(game_file, name=SPEC.name)) for _ in range(2))
    for position, direction in enumerate(first.recipe):
        tool = solution(direction)[2]
        played = first.carry_out(position, tool)
        assert first.carry_out(position, tool) is played
        assert second.carry_out(position, tool) == played
    assert first.played == second.played == len(first.recipe)


async def test_kitchens_are_opened_once_per_process(game_file):
    first, second = await open_kitchens([SPEC, SPEC])
    assert first is second is open_kitchen(SPEC)


@pytest.fixture
def cache(tmp_path, monkeypatch):
    """An empty cache, and a TextWorld that seems to be installed."""
    monkeypatch.setenv(CACHE_VARIABLE, str(tmp_path))
    monkeypatch.setattr(importlib.util, "find_spec", lambda _: object())
    monkeypatch.setattr(importlib.metadata, "version", lambda _: "1.7.0")


def stand_in(tmp_path, monkeypatch, script):
    """Replaces the interpreter that makes games by another program."""
    program = tmp_path / "python"
    program.write_text(f"#!/bin/sh\n{script}\n")
    program.chmod(0o755)
    monkeypatch.setattr(sys, "executable", str(program))


def test_game_is_made_with_a_fixed_hash_seed(cache, tmp_path, monkeypatch):
    monkeypatch.setenv("PYTHONHASHSEED", "7")
    stand_in(tmp_path, monkeypatch, 'echo "$PYTHONHASHSEED $4 $5" > "$6"')
    assert make_game(SPEC).read_text() == "0 1 2\n"


@pytest.mark.parametrize(
    ("script", "seconds", "says"),
    [
        ("echo 'no food' >&2; exit 3", 60, r"could not make cooking-2-1 \(exit 3\): no food"),
        ("exit 0", 60, r"could not make cooking-2-1 \(exit 0\)"),
        ("exec sleep 5", 0.05, r"took more than 0\.05 seconds to make cooking-2-1"),
    ],
)
def test_generation_that_fails_names_the_game(cache, tmp_path, monkeypatch, script, seconds, says):
    monkeypatch.setattr(textworld_making, "MAKING_SECONDS", seconds)
    stand_in(tmp_path, monkeypatch, f"echo first >&2; {script}")
    with pytest.raises(CookingError, match=says):
        make_game(SPEC)


@pytest.fixture
def slow_making(cache, monkeypatch):
    """Makes empty games slowly, and records who made which."""
    names = []

    def generate(name, *, kind, level, seed, file):
        names.append((name, kind, level, seed))
        time.sleep(0.05)
        file.write_bytes(b"game")

    monkeypatch.setattr(textworld_making, "generate_apart", generate)
    return names


MADE = ("cooking-2-1", KITCHEN, 2, 1)


def test_concurrent_generators_share(slow_making):
    files = []
    threads = [threading.Thread(target=lambda: files.append(make_game(SPEC))) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert slow_making == [MADE]
    assert len(set(files)) == 1
    assert files[0].read_bytes() == b"game"


def test_games_of_different_specs_are_apart(slow_making):
    specs = [SPEC, GameSpec(seed=2, ingredients=2), GameSpec(seed=1, ingredients=3)]
    assert len({make_game(spec) for spec in specs}) == 3
    assert slow_making == [MADE, ("cooking-2-2", KITCHEN, 2, 2), ("cooking-3-1", KITCHEN, 3, 1)]


def test_half_written_game_is_made_again(slow_making):
    file = make_game(SPEC)
    file.write_bytes(b"")
    assert make_game(SPEC).read_bytes() == b"game"
    assert slow_making == [MADE, MADE]


def test_failed_generation_leaves_nothing(slow_making, tmp_path, monkeypatch):
    def fail(name, *, file, **_):
        file.write_bytes(b"half")
        raise TextGameError("no luck")

    monkeypatch.setattr(textworld_making, "generate_apart", fail)
    with pytest.raises(CookingError, match="no luck"):
        make_game(SPEC)
    assert not any(path.is_dir() for path in (tmp_path / "games").iterdir())
