"""Which game a task and its settings name; players who share it; what is on disk, and when."""

import asyncio
import gc
import importlib.util
import sqlite3
from weakref import WeakValueDictionary

import pytest
from jericho_toy import write_toy
from textgame_toys import Trails, wander

from llm_planning.environments.textgame import jericho_games, opening, remembered
from llm_planning.environments.textgame.game import TextGameError
from llm_planning.environments.textgame.interpreted import InterpretedGame
from llm_planning.environments.textgame.opening import (
    GAME_TASKS,
    GameSettings,
    open_game,
)
from llm_planning.environments.textgame.remembered import RememberedGame
from llm_planning.environments.textgame.textworld_kinds import LEVELS
from llm_planning.environments.textgame.transition_store import transition_store_path
from llm_planning.environments.textgame.trapdoor import TrapDoor
from llm_planning.settings import SettingsError
from llm_planning.specs import UnknownTaskError


@pytest.fixture
def tables(monkeypatch):
    """The games of this process that are open, by what tells them apart; at first none."""
    monkeypatch.setattr(opening, "_snapshots", WeakValueDictionary())
    monkeypatch.setattr(opening, "_memories", WeakValueDictionary())
    monkeypatch.setattr(opening, "_held", [])
    yield opening._snapshots
    opening.close_games()


@pytest.fixture
def cache(tables, tmp_path, monkeypatch):
    monkeypatch.setenv("LLM_PLANNING_CACHE", str(tmp_path))
    return tmp_path


def saved(path):
    if not path.exists():
        return 0
    file = sqlite3.connect(path)
    (count,) = file.execute("SELECT count(*) FROM transitions").fetchone()
    file.close()
    return count


def test_the_tasks_are_the_kinds_the_trap_door_and_table_1():
    kinds = ("coin-collector", "treasure-hunter", "simple", "custom", "cooking", "trap-door")
    assert GAME_TASKS[:6] == kinds
    assert GAME_TASKS[6:10] == ("zork1", "deephome", "ludicorp", "pentari")
    assert GAME_TASKS[10:] == ("detective", "library", "balances", "temple", "ztuu")


@pytest.mark.parametrize(
    ("task", "settings", "message"),
    [
        ("trap-door", {"level": 3}, r"level=3 .* trap-door is not generated; leave it out"),
        ("trap-door", {"game_seed": 2}, r"game_seed=2 .* trap-door is not generated"),
        ("zork1", {"level": 0}, r"level=0 .* zork1 is not generated"),
        ("simple", {"game": "zork1.z5", "level": 1}, r"level=1 .* a story file is not generated"),
        ("simple", {"level": 4}, r"level=4 .* levels of simple are 1 to 3"),
        ("simple", {"state": "world"}, r"state=world .* simple is none"),
        (
            "zork1",
            {"games": "here", "game": "a.z5"},
            r"games=here .* with game=a\.z5: .* leave one",
        ),
        ("zork1", {"state": "world"}, r"not possible with remember=disk: .* set remember=memory"),
    ],
)
async def test_settings_that_do_not_belong_to_the_game(task, settings, message, tables):
    with pytest.raises(SettingsError, match=message):
        await open_game(task, GameSettings.read(settings))
    assert not list(tables)


async def test_a_task_that_does_not_exist():
    with pytest.raises(UnknownTaskError, match=r"unknown task 'zork' of textgame; did you mean"):
        await open_game("zork", GameSettings())


@pytest.mark.parametrize(
    ("task", "settings", "message"),
    [
        ("zork1", {}, "set games=FOLDER"),
        ("zork1", {"games": "/nowhere"}, "games=/nowhere is no folder"),
        ("zork1", {"game": "/nowhere/a.z5"}, "/nowhere/a.z5 does not exist"),
        ("simple", {"game": __file__}, "is no Z-machine story"),
    ],
)
async def test_story_files_that_are_not_there(task, settings, message, tables):
    for _ in range(2):
        with pytest.raises(TextGameError, match=message):
            await open_game(task, GameSettings.read(settings))


async def test_players_share_everything_but_their_seconds(cache):
    one, two = await asyncio.gather(
        *(open_game("trap-door", GameSettings(remember="memory")) for _ in range(2))
    )
    assert isinstance(one, RememberedGame)
    assert one.memory is two.memory
    told = await wander(one, seed=0, steps=100)
    assert await wander(two, seed=0, steps=100) == told
    assert one.seconds.steps > 0
    assert two.seconds.steps == 0
    off = await open_game("trap-door", GameSettings(remember="off"))
    assert isinstance(off, InterpretedGame)
    assert await wander(off, seed=0, steps=100) == told
    assert off.seconds.steps == 100
    assert (off.name, off.max_score) == (one.name, one.max_score) == ("trap-door", 100.0)
    assert list(cache.iterdir()) == []


@pytest.fixture
def story(cache, tmp_path, monkeypatch):
    """A story file that Jericho is made to support."""
    if importlib.util.find_spec("jericho") is None:
        pytest.skip("Jericho is not installed: pip install 'llm-planning[textgames]'")
    toy = write_toy(tmp_path)
    monkeypatch.setattr(jericho_games, "read_story", lambda file: toy)
    return toy.file


async def told(game, *actions):
    here = await game.start()
    answers = []
    for action in actions:
        here = await game.step(here.state, action)
        answers.append((here.text, here.ending, await game.look(here.state)))
    return answers


@pytest.mark.filterwarnings("ignore:.*is not fully supported")
async def test_what_a_story_costs_is_given_back_with_its_last_player(story, tables, monkeypatch):
    settings = GameSettings(game=str(story))
    monkeypatch.setattr(remembered, "SECONDS_UNSAVED", 0.01)
    # Tasks of their own: the one that opens a game holds its memory until it ends.
    one = await asyncio.create_task(open_game("zork1", settings))
    two = await asyncio.create_task(open_game("simple", settings))
    assert one.memory is two.memory
    (path,) = [file for _, file in opening._memories]
    await told(one, "s", "t")
    del one
    gc.collect()
    assert list(tables)
    await asyncio.sleep(0.05)  # so does the timer that saves it
    del two
    gc.collect()
    assert not list(tables)
    assert not list(opening._memories)
    assert saved(path) == 2
    again = await open_game("zork1", settings)
    assert await told(again, "s", "t") == await told(again, "s", "t")
    assert again.seconds.steps == 0


async def test_a_generated_game_stays_open(cache, tables):
    await open_game("trap-door", GameSettings())
    gc.collect()
    assert len(tables) == len(opening._memories) == 1


@pytest.mark.parametrize("remember", ["memory", "off"])
async def test_worlds_do_not_depend_on_what_others_played(tables, tmp_path, monkeypatch, remember):
    monkeypatch.setattr(jericho_games, "read_story", lambda file: file)
    monkeypatch.setattr(opening, "JerichoInterpreter", lambda story, *, state: Trails())
    settings = GameSettings(game=str(tmp_path / "story.z5"), state="world", remember=remember)
    one, two = await open_game("zork1", settings), await open_game("zork1", settings)
    assert isinstance(one, RememberedGame) == (remember == "memory")
    assert (await told(one, "add", "add", "add"))[-1][-1] == ("add add add", "")
    for _ in range(2):
        assert (await told(two, "double", "double"))[-1][-1] == ("double double", "")
        # What a player met first stays, for this player.
        assert (await told(one, "double", "double"))[-1][-1] == ("add add add", "")


@pytest.mark.filterwarnings("ignore:.*is not fully supported")
async def test_a_story_is_the_same_with_and_without_memory(story):
    async def walks(remember, state="exact"):
        game = await open_game(
            "zork1", GameSettings(game=str(story), remember=remember, state=state)
        )
        ways = [("s", "random", "t"), ("t", "random"), ("s", "random", "t", "down"), ("zap",)]
        return [await told(game, *way) for way in ways]

    plain = await walks("off")
    for remember in ("memory", "disk", "disk"):
        assert await walks(remember) == plain
    assert await walks("memory", "world") == await walks("off", "world")


@pytest.mark.filterwarnings("ignore:.*is not fully supported")
async def test_one_game_has_one_key(cache, tables, story, monkeypatch):
    monkeypatch.chdir(story.parent)
    (story.parent / "zork1.z5").symlink_to(story)
    files = [{"game": "toy.z5"}, {"game": str(story)}, {"games": "."}, {"games": str(story.parent)}]
    players = [await open_game("zork1", GameSettings.read(names)) for names in files]
    assert len({id(player.memory) for player in players}) == len(tables) == 1
    default = opening._key("simple", GameSettings())
    assert default == opening._key("simple", GameSettings(level=LEVELS["simple"].default))
    assert default != opening._key("simple", GameSettings(level=2))
    assert default != opening._key("simple", GameSettings(game_seed=2))


async def test_what_a_trial_learnt_is_saved_when_it_ends(cache):
    path = transition_store_path("trap-door", TrapDoor.revision)

    async def trial(seed, *, fails):
        game = await open_game("trap-door", GameSettings())
        await wander(game, seed=seed, steps=20)
        if fails:
            raise RuntimeError

    await asyncio.create_task(trial(0, fails=False))
    await asyncio.sleep(0)
    first = saved(path)
    assert first >= 10
    await asyncio.gather(asyncio.create_task(trial(1, fails=True)), return_exceptions=True)
    await asyncio.sleep(0)
    assert saved(path) > first
    game = await open_game("trap-door", GameSettings())
    await wander(game, seed=2, steps=20)
    before = saved(path)
    opening.close_games()
    assert saved(path) > before


async def test_walkthroughs(cache):
    for remember in ("memory", "off"):
        game = await open_game("trap-door", GameSettings(remember=remember))
        assert game.walkthrough == TrapDoor.walkthrough


async def test_a_textworld_game_is_the_same_with_and_without_memory(tables, tmp_path):
    """Made in the user's cache, where other tests find it."""
    off = await open_game("cooking", GameSettings(remember="off"))
    told = [await wander(off, seed=seed, steps=20) for seed in range(2)]
    memory = await open_game("cooking", GameSettings(remember="memory"))
    assert [await wander(memory, seed=seed, steps=20) for seed in range(2)] == told
    assert memory.seconds.steps < 40
    (shared,) = tables.values()
    path = tmp_path / "game.sqlite"
    played = []
    # The second time as another process: nothing is known but what is on the disk.
    for seeds in ((0,), (0, 1)):
        kept = opening.TransitionMemory(opening.TransitionStore(path))
        snapshots = opening.Snapshots(shared.interpreter, limit=8)
        game = RememberedGame(InterpretedGame(snapshots), kept)
        for seed in seeds:
            assert await wander(game, seed=seed, steps=20) == told[seed]
            played.append(game.seconds.steps)
        kept.close()
    assert played[0] > 0
    assert played[1] == 0
    assert played[2] > 0
