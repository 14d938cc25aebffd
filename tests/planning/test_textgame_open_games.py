"""Which game a task and its settings name; players who share it; what is on disk, and when."""

import asyncio
import os
import sqlite3
from contextlib import AsyncExitStack, contextmanager

import pytest
from jericho_toy import write_toy
from textgame_toys import Trails, wander

from llm_planning.environments.textgame import given_games, jericho_games, open_games
from llm_planning.environments.textgame.game import TextGameError
from llm_planning.environments.textgame.open_games import (
    GAME_TASKS,
    GameSettings,
    OpenGames,
    game_key,
    open_game,
)
from llm_planning.environments.textgame.remembered import RememberedGame
from llm_planning.environments.textgame.snapshot_game import SnapshotGame
from llm_planning.environments.textgame.textworld_kinds import LEVELS
from llm_planning.environments.textgame.transition_store import transition_store_path
from llm_planning.environments.textgame.trapdoor import TrapDoor
from llm_planning.experiments.ray_worker import Worker
from llm_planning.model_configs import open_engine, open_uncached_engine
from llm_planning.settings import SettingsError
from llm_planning.sharing import shared, sharing
from llm_planning.specs import UnknownTaskError

TRAP_DOOR = ("trap-door", TrapDoor.revision)


@pytest.fixture(autouse=True)
def cache(tmp_path, monkeypatch):
    monkeypatch.setenv("LLM_PLANNING_CACHE", str(tmp_path / "cache"))
    return tmp_path / "cache"


@pytest.fixture
async def players():
    """Opens games that stay open to the end of the test, or until the player closes them."""
    async with AsyncExitStack() as opened:
        yield opened.enter_async_context


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
    assert GAME_TASKS[6:11] == ("gull-rock", "zork1", "deephome", "ludicorp", "pentari")
    assert GAME_TASKS[11:] == ("detective", "library", "balances", "temple", "ztuu")


@pytest.mark.parametrize(
    ("task", "settings", "error", "message"),
    [
        ("zork", {}, UnknownTaskError, r"unknown task 'zork' of textgame; did you mean"),
        (
            "trap-door",
            {"game_seed": 2},
            SettingsError,
            r"game_seed=2 .* trap-door is not generated; leave",
        ),
        ("zork1", {"level": 0}, SettingsError, r"level=0 .* zork1 is not generated"),
        ("simple", {"game": "a", "level": 1}, SettingsError, r"level=1 .* a story file is not gen"),
        ("simple", {"level": 4}, SettingsError, r"level=4 .* levels of simple are 1 to 3"),
        ("simple", {"state": "world"}, SettingsError, r"state=world .* simple is not one"),
        (
            "zork1",
            {"games": "here", "game": "a"},
            SettingsError,
            r"games=here .* with game=a: .* le",
        ),
        (
            "zork1",
            {"state": "world"},
            SettingsError,
            r"not possible with remember=disk, .*: set rem",
        ),
        ("zork1", {"game": "/nowhere/a.z5"}, TextGameError, "/nowhere/a.z5 does not exist"),
    ],
)
async def test_what_cannot_be_opened_is_told_and_not_held(task, settings, error, message):
    with sharing():
        games = shared(OpenGames)
        for _ in range(2):
            with pytest.raises(error, match=message):
                async with open_game(task, GameSettings.read(settings)):
                    pass
        assert games.shared == {}


async def test_players_share_everything_but_their_seconds(cache, players):
    with sharing():
        first, second, off = [
            await players(open_game("trap-door", GameSettings(remember=remember)))
            for remember in ("memory", "memory", "off")
        ]
        assert first.memory is second.memory
        transitions = await wander(first, seed=0, steps=100)
        assert await wander(second, seed=0, steps=100) == transitions
        assert first.seconds.steps > second.seconds.steps == 0
        assert isinstance(off, SnapshotGame)
        assert await wander(off, seed=0, steps=100) == transitions
        assert off.seconds.steps == 100
        assert not cache.exists()


async def test_without_sharing_each_player_has_a_game_alone(players):
    first, second = [
        await players(open_game("trap-door", GameSettings(remember="memory"))) for _ in range(2)
    ]
    await wander(first, seed=0, steps=20)
    await wander(second, seed=0, steps=20)
    assert first.seconds.steps == second.seconds.steps > 0


async def test_one_scope_within_another_is_the_same_but_for_a_child_process(monkeypatch, players):
    with sharing():
        outer = shared(OpenGames)
        with sharing():
            inner = shared(OpenGames)
            await players(open_game("trap-door", GameSettings()))
        assert inner is outer
        assert len(outer.shared) == 1
        # What a fork of this process would see.
        monkeypatch.setattr("llm_planning.sharing.os.getpid", lambda: -1)
        game = await players(open_game("trap-door", GameSettings(remember="memory")))
        assert len(outer.shared) == 1
        await wander(game, seed=0, steps=5)
    with sharing():
        later = shared(OpenGames)
        assert later is not outer


@pytest.fixture
def made(monkeypatch):
    """The name of a generated game that is the trap door, but is kept on disk."""
    open_ = open_games._interpreter
    monkeypatch.setattr(
        open_games,
        "_interpreter",
        lambda key, state: TrapDoor() if key.task == "simple" else open_(key, state),
    )
    return "simple"


@pytest.fixture
def story(tmp_path, monkeypatch):
    """A story file that Jericho is made to support."""
    pytest.importorskip("jericho")
    toy = write_toy(tmp_path)
    monkeypatch.setattr(jericho_games, "read_story", lambda file: toy)
    return toy.file


async def answers_of(game, *actions):
    here = await game.start()
    answers = []
    for action in actions:
        here = await game.step(here.state, action)
        answers.append((here.text, here.ending, await game.look(here.state)))
    return answers


@pytest.mark.filterwarnings("ignore:.*is not fully supported")
async def test_a_story_is_closed_with_its_last_player_and_a_generated_game_with_the_scope(
    story, made
):
    settings = GameSettings(game=str(story))
    with sharing():
        games = shared(OpenGames)
        async with open_game("zork1", settings) as zork:
            async with open_game("simple", settings) as generated:
                assert zork.memory is generated.memory
                path = zork.memory._store.path
                await answers_of(zork, "s", "t")
            assert saved(path) == 2  # by the player who left
            assert len(games.shared) == 1
        assert games.shared == {}
        with pytest.raises(TextGameError, match="closed"):
            zork.memory.find("another")
        async with open_game("zork1", settings) as again:
            assert await answers_of(again, "s", "t") == await answers_of(again, "s", "t")
            assert again.seconds.steps == 0
        async with open_game(made, GameSettings()) as kept:
            await wander(kept, seed=0, steps=5)
        assert len(games.shared) == 1
        assert kept.memory.find("another") is None
    assert games.shared == {}
    with pytest.raises(TextGameError, match="closed"):
        kept.memory.find("another")


@pytest.mark.parametrize("remember", ["memory", "off"])
async def test_worlds_do_not_depend_on_what_others_played(tmp_path, monkeypatch, remember, players):
    monkeypatch.setattr(jericho_games, "read_story", lambda file: file)
    monkeypatch.setattr(given_games, "JerichoInterpreter", lambda story, *, state: Trails())
    settings = GameSettings(game=str(tmp_path / "story.z5"), state="world", remember=remember)
    with sharing():
        first, second = [await players(open_game("zork1", settings)) for _ in range(2)]
        assert isinstance(first, RememberedGame) == (remember == "memory")
        assert (await answers_of(first, "add", "add", "add"))[-1][-1] == ("add add add", "")
        for _ in range(2):
            assert (await answers_of(second, "double", "double"))[-1][-1] == ("double double", "")
            # What a player met first stays, for this player.
            assert (await answers_of(first, "double", "double"))[-1][-1] == ("add add add", "")


def test_one_game_has_one_key(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "toy.z5").touch()
    (tmp_path / "zork1.z5").symlink_to("toy.z5")
    file = str(tmp_path / "toy.z5")
    named = [{"game": "toy.z5"}, {"game": file}, {"games": "."}, {"games": str(tmp_path)}]
    assert len({game_key("zork1", GameSettings.read(names)) for names in named}) == 1
    default = game_key("simple", GameSettings())
    assert default == game_key("simple", GameSettings(level=LEVELS["simple"].default))
    assert default != game_key("simple", GameSettings(level=2))
    assert default != game_key("simple", GameSettings(game_seed=2))


async def test_what_a_player_learnt_is_saved_when_it_leaves(made):
    path = transition_store_path(*TRAP_DOOR)

    async def trial(seed, *, fails):
        async with open_game(made, GameSettings()) as game:
            await wander(game, seed=seed, steps=20)
            if fails:
                raise RuntimeError

    with sharing():
        await trial(0, fails=False)
        first = saved(path)
        assert first >= 10
        with pytest.raises(RuntimeError):
            await trial(1, fails=True)
        assert saved(path) > first


async def test_what_is_open_at_the_end_of_a_scope_is_saved_and_closed(players, made):
    path = transition_store_path(*TRAP_DOOR)
    with sharing():
        game = await players(open_game(made, GameSettings()))
        await wander(game, seed=2, steps=20)
        assert saved(path) == 0
    assert saved(path) >= 10


async def test_the_trap_door_is_not_kept_on_disk(cache):
    async with open_game("trap-door", GameSettings()) as game:
        await wander(game, seed=0, steps=20)
    assert isinstance(game, RememberedGame)
    assert not cache.exists()


async def test_a_game_that_is_opened_twice_at_once_is_made_once(monkeypatch):
    names = []

    def interpreter(key, state):
        names.append(key)
        return TrapDoor()

    monkeypatch.setattr(open_games, "_interpreter", interpreter)
    games = OpenGames()
    async with games.open("trap-door", GameSettings(remember="off")) as game:
        assert game.name == "trap-door"

        async def player():
            async with games.open("simple", GameSettings(remember="off")) as same:
                await asyncio.sleep(0.01)
                return same.states

        first, second = await asyncio.gather(player(), player())
    assert first is second
    assert len(names) == 2
    games.close()


async def test_without_caches_nothing_is_kept_on_disk(cache, made):
    with open_uncached_engine("none"):
        async with open_game(made, GameSettings()) as game:
            await wander(game, seed=0, steps=20)
    with sharing(on_disk=False):
        async with open_game(made, GameSettings()) as game:
            await wander(game, seed=0, steps=20)
    assert not cache.exists()
    with open_engine("none"):
        async with open_game(made, GameSettings()) as game:
            await wander(game, seed=0, steps=20)
    assert list((cache / "transitions").iterdir())


async def test_trials_of_a_ray_worker_share_the_games_of_its_pool():
    """Ray runs each call of an actor in a context of its own."""

    class Pool:
        limit = 1

        def load(self):
            return None

        async def run(self, trial):
            async with open_game("trap-door", GameSettings(remember="memory")) as game:
                await wander(game, seed=0, steps=10)
                return game.memory, game.seconds.steps

        async def aclose(self):
            closed.append(len(opened[0].shared))

    @contextmanager
    def recipe():
        with sharing():
            games = shared(OpenGames)
            opened.append(games)
            yield Pool()

    opened, closed = [], []
    worker = Worker(recipe, os.getcwd())
    call = asyncio.create_task
    await call(worker.start())
    first, again = [await call(worker.run(None)) for _ in range(2)]
    await call(worker.close())
    assert first[0] is again[0]
    assert first[1] > again[1] == 0
    assert (closed, opened[0].shared) == ([1], {})
