"""Which games can be asked for, what TextWorld is told, and where they are kept."""

import importlib.util
import threading
import time
from concurrent.futures import ThreadPoolExecutor

import pytest
from planted import plant, ran

from llm_planning.environments.cooking import games
from llm_planning.environments.cooking.games import GameSpec, open_kitchen
from llm_planning.environments.textgame import textworld_interpreter, textworld_making
from llm_planning.environments.textgame.game import TextGameError
from llm_planning.environments.textgame.textworld_interpreter import open_textworld
from llm_planning.environments.textgame.textworld_kinds import (
    KINDS,
    KITCHEN,
    LEVELS,
    Challenge,
    Custom,
    game_request,
    level_of,
)
from llm_planning.environments.textgame.textworld_making import GAME_FILE, generate_apart
from llm_serving.models.folders import CACHE_VARIABLE


def test_kinds_are_the_five():
    assert KINDS == ("coin-collector", "treasure-hunter", "simple", "custom", "cooking")


@pytest.mark.parametrize("kind", KINDS)
def test_default_is_a_level(kind):
    assert level_of(kind, None) in LEVELS[kind]
    assert level_of(kind, 1) == 1


@pytest.mark.parametrize(
    ("kind", "level", "message"),
    [
        ("coin-collector", 0, r"coin-collector has no level 0; set one of 1 to 100 and 101 to 150"),
        ("coin-collector", 151, "at most 100 rooms in all"),
        ("simple", 4, "1 dense, 2 balanced, 3 sparse"),
        ("cooking", 16, "11 to 15: 1 to 5, also with doors"),
        ("cookng", None, "no kind of game called 'cookng'; did you mean cooking"),
        (KITCHEN, 1, "no kind of game called 'kitchen'"),
    ],
)
def test_impossible_game_is_an_error(kind, level, message):
    with pytest.raises(TextGameError, match=message):
        open_textworld(kind, level=level, seed=1)


def test_negative_seed_is_an_error():
    with pytest.raises(TextGameError, match="game_seed is -1: set 0 or more"):
        open_textworld("simple", level=1, seed=-1)


def test_missing_textworld_names_the_extra(monkeypatch):
    monkeypatch.setattr(importlib.util, "find_spec", lambda _: None)
    with pytest.raises(TextGameError, match=r"pip install 'llm-planning\[textgames\]'"):
        open_textworld("simple", level=1, seed=1)


def test_rules_of_levels():
    assert game_request("coin-collector", 205) == Challenge("tw-coin_collector", {"level": 205})
    assert [game_request("simple", level).settings["rewards"] for level in (1, 2, 3)] == [
        "dense",
        "balanced",
        "sparse",
    ]
    assert game_request("custom", 5) == Custom(rooms=3, objects=7, quest_length=5)
    asked = ("recipe", "take", "cut", "open", "go", "cook")
    settings = {level: game_request("cooking", level).settings for level in (1, 8, 15)}
    cooking = {level: [setting[name] for name in asked] for level, setting in settings.items()}
    assert cooking == {
        1: [1, 1, False, False, 6, True],
        8: [3, 3, True, False, 6, True],
        15: [5, 5, True, True, 6, True],
    }
    assert [game_request(KITCHEN, 2).settings[a] for a in asked] == [2, 0, True, False, 1, True]


def test_games_are_made_once_and_apart_from_kitchens(tmp_path, monkeypatch):
    games = []

    def generate(name, *, kind, level, seed, file):
        games.append((name, kind, level, seed))
        file.write_bytes(b"game")

    monkeypatch.setenv(CACHE_VARIABLE, str(tmp_path))
    monkeypatch.setattr(importlib.util, "find_spec", lambda _: object())
    monkeypatch.setattr(textworld_making.importlib.metadata, "version", lambda _: "1.7.0")
    monkeypatch.setattr(textworld_making, "generate_apart", generate)
    opened = []
    monkeypatch.setattr(
        textworld_interpreter,
        "TextWorldInterpreter",
        lambda file, name: opened.append((file, name)),
    )
    for kind, level, seed in [("cooking", 2, 1), ("cooking", 2, 1), ("custom", None, 0)]:
        open_textworld(kind, level=level, seed=seed)
    assert games == [("cooking-2-1", "cooking", 2, 1), ("custom-5-0", "custom", 5, 0)]
    # XENON's kitchens have the folder games/cooking-2-1.
    assert (
        opened[0] == opened[1] == (tmp_path / "games/text-cooking-2-1" / GAME_FILE, "cooking-2-1")
    )


def test_games_are_made_at_once_and_read_one_by_one(monkeypatch):
    """Games and kitchens alike: TextWorld has one parser, which two threads cannot use."""
    makers = threading.Barrier(4, timeout=120)
    reading = threading.Lock()
    read = []

    def make(name, *, folder, **_):
        makers.wait()
        return folder

    def begin(file, *, name):
        assert reading.acquire(blocking=False)
        time.sleep(0.02)
        reading.release()
        read.append(file)

    for module, kind in ((textworld_interpreter, "TextWorldInterpreter"), (games, "TextWorldGame")):
        monkeypatch.setattr(module, "make_once", make)
        monkeypatch.setattr(module, kind, begin)
    monkeypatch.setattr(games, "Kitchen", lambda game: game)
    monkeypatch.setattr(games, "_kitchens", {})
    with ThreadPoolExecutor(4) as threads:
        opened = [
            *(threads.submit(open_kitchen, GameSpec(seed=seed)) for seed in (1, 2)),
            *(threads.submit(open_textworld, kind, level=1, seed=1) for kind in KINDS[:2]),
        ]
    for game in opened:
        game.result()
    assert set(read) == {
        "cooking-3-1",
        "cooking-3-2",
        "text-coin-collector-1-1",
        "text-treasure-hunter-1-1",
    }


def test_a_game_is_made_without_what_lies_in_the_working_directory(tmp_path, monkeypatch):
    monkeypatch.chdir(plant(tmp_path))
    # The process has imported this project by the time it says so.
    with pytest.raises(TextGameError, match=r"invalid literal for int\(\) .* 'none'"):
        generate_apart("simple-1", kind="simple", level=1, seed="none", file=tmp_path / "game.z8")
    assert ran(tmp_path) == []
