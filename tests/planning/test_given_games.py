"""Games that TextWorld made elsewhere: `.z8` and `.ulx` files with their descriptions."""

import asyncio
import importlib.util
import json
import shutil

import pytest

from llm_planning.data_files import changed_files, files_read
from llm_planning.environments.textgame.game import Ending, TextGameError
from llm_planning.environments.textgame.open_games import GameSettings, open_game
from llm_planning.environments.textgame.textworld_interpreter import open_textworld
from llm_planning.environments.textgame.textworld_making import GAME_FILE
from llm_planning.settings import SettingsError
from llm_serving.models.folders import cache_folder

pytestmark = pytest.mark.skipif(
    importlib.util.find_spec("textworld") is None,
    reason="TextWorld is not installed: pip install 'llm-planning[textgames]'",
)


@pytest.fixture(scope="module")
def made():
    """A game that TextWorld made, and its file, which stays in the cache."""
    game = open_textworld("custom", level=None, seed=1)
    return game, cache_folder() / "games" / "text-custom-5-1" / GAME_FILE


@pytest.fixture
def brought(made, tmp_path):
    """Copies of a made game under another name, as a user brings them."""
    _, file = made
    folder = tmp_path / "brought"
    folder.mkdir()
    shutil.copy(file, folder / "quest.z8")
    shutil.copy(file.with_suffix(".json"), folder / "quest.json")
    return folder / "quest.z8"


async def walked(path):
    """The game's name, the objective, and the points and the ending of its solution."""
    async with open_game("zork1", GameSettings(game=str(path), remember="off")) as game:
        here = await game.start()
        points = here.reward
        for action in game.walkthrough:
            assert action in await game.actions(here.state)
            here = await game.step(here.state, action)
            points += here.reward
        return game.name, game.objective, points, here.ending


async def test_a_game_of_textworlds_is_played_by_its_description(made, brought, caplog):
    game, _ = made
    name, objective, points, ending = await walked(brought)
    assert "does not know the story" not in caplog.text
    assert (name, objective) == ("quest", game.objective)
    assert (points, ending) == (game.max_score, Ending.VICTORY)
    with pytest.raises(SettingsError, match=r"TextWorld made .*by their facts"):
        async with open_game("zork1", GameSettings(game=str(brought), state="world")):
            pass


async def test_a_sweep_is_told_by_which_files_a_game_is_played(brought, monkeypatch):
    monkeypatch.chdir(brought.parent)
    await asyncio.sleep(0.02)  # a file system may keep time in steps of some milliseconds
    for _ in range(2):  # the second player finds the game open
        with files_read() as read:
            await walked(brought)
        assert read.hashes().keys() == {"quest.z8", "quest.json"}
    assert changed_files(read.hashes()) == []
    brought.write_bytes(brought.read_bytes() + b"x")
    assert changed_files(read.hashes()) == ["quest.z8"]


@pytest.mark.slow
async def test_a_game_for_another_machine_is_compiled_from_its_description(
    made, brought, tmp_path, monkeypatch
):
    monkeypatch.setenv("LLM_PLANNING_CACHE", str(tmp_path / "cache"))
    game, _ = made
    brought.rename(brought.with_suffix(".ulx"))
    for suffix in (".ulx", ".json"):
        _, objective, points, ending = await walked(brought.with_suffix(suffix))
        assert objective == game.objective
        assert (points, ending) == (game.max_score, Ending.VICTORY)
    assert len(list((tmp_path / "cache" / "games").glob("given-*"))) == 1


@pytest.mark.parametrize("content", [None, b"[]", b"{}", b"\xff"])
async def test_without_its_description_a_game_is_a_story_or_refused(brought, content, caplog):
    description = brought.with_suffix(".json")
    description.unlink()
    if content is not None:
        description.write_bytes(content)
    async with open_game("zork1", GameSettings(game=str(brought), remember="off")) as game:
        assert (game.walkthrough, game.objective) == ((), "")
        assert "=-" in (await game.start()).text
    assert "Jericho does not know the story quest" in caplog.text
    brought.rename(brought.with_suffix(".ulx"))
    with pytest.raises(TextGameError, match=r"quest.json cannot be read as that .*: put there"):
        await walked(brought.with_suffix(".ulx"))


async def test_a_description_that_is_no_games_is_refused_in_one_line(brought):
    description = brought.with_suffix(".json")
    content = json.loads(description.read_bytes())
    description.write_text(json.dumps({**content, "quests": 7}))
    with pytest.raises(TextGameError, match=r"quest.z8 cannot be opened .*very game") as error:
        await walked(brought)
    assert "\n" not in str(error.value)


async def test_a_path_without_a_name_is_refused_as_every_folder():
    with pytest.raises(TextGameError, match=r"story file / cannot be read \(Is a directory\)"):
        await walked("/")
