"""Files that are not games are refused before an interpreter reads them."""

import os
import time

import pytest
from hostile.folders import TRACE, game_files

from llm_planning.environments.textgame import jericho_games, textworld_making
from llm_planning.environments.textgame.game import TextGameError
from llm_planning.environments.textgame.jericho_games import find_story, read_story, story_file
from llm_planning.environments.textgame.open_games import GameSettings, open_game
from llm_planning.environments.textgame.textworld_interpreter import open_textworld
from llm_planning.environments.textgame.textworld_making import GAME_FILE, opening_made
from llm_serving.models.folders import CACHE_VARIABLE

NAMES = ["n" * 300, "a\0b", "~nosuchuser/zork1.z5", "~nosuchuser", "a/" * 3000]


def in_one_line(caught):
    return "\n" not in str(caught.value) and len(str(caught.value)) < 9000


@pytest.mark.parametrize(("name", "write"), game_files(), ids=[name for name, _ in game_files()])
async def test_a_file_that_is_no_known_story_is_refused_at_once(tmp_path, monkeypatch, name, write):
    pytest.importorskip("jericho")
    monkeypatch.setenv(TRACE, str(tmp_path / "trace"))
    path = tmp_path / "story.z5"
    write(path)
    begun = time.monotonic()
    with pytest.raises(TextGameError) as caught:
        async with open_game("zork1", GameSettings(game=str(path))):
            pass
    assert in_one_line(caught)
    assert time.monotonic() - begun < 60
    assert not (tmp_path / "trace").exists()


@pytest.mark.parametrize("name", NAMES)
async def test_a_name_that_no_story_can_have(name):
    for settings in (GameSettings(game=name), GameSettings(games=name)):
        with pytest.raises(TextGameError) as caught:
            async with open_game("zork1", settings):
                pass
        assert in_one_line(caught)


def test_a_pipe_in_a_folder_of_stories_is_no_story(tmp_path):
    os.mkfifo(tmp_path / "zork1.z5")
    with pytest.raises(TextGameError, match="not a regular file"):
        read_story(find_story("zork1", str(tmp_path)))


def test_a_link_that_leads_to_itself_is_one_name(tmp_path):
    (tmp_path / "zork1.z5").symlink_to("zork1.z5")
    with pytest.raises(TextGameError, match="cannot be read"):
        read_story(story_file(str(tmp_path / "zork1.z5")))


def test_a_story_is_played_from_what_was_looked_at(tmp_path, monkeypatch):
    """Jericho opens its file at every start of the machine, and ends the process without it."""
    pytest.importorskip("jericho")
    from jericho_toy import write_toy

    from llm_planning.environments.textgame.jericho_machine import Machine

    toy = write_toy(tmp_path)
    bindings = {"name": "toy", "seed": 7, "grammar": toy.grammar, "max_word_length": 9}
    jericho = jericho_games.find_jericho()
    monkeypatch.setattr(jericho.defines, "BINDINGS_DICT", {toy.digest: bindings})
    story = read_story(toy.file)
    assert story.file.parent != toy.file.parent
    toy.file.unlink()
    machine = Machine(story)
    machine._env.reset()
    assert "set three" in machine.play(machine.first, "s")[1]


@pytest.mark.parametrize("name", [GAME_FILE, "game.json"])
def test_a_made_game_that_was_altered_is_made_again(tmp_path, monkeypatch, name):
    pytest.importorskip("textworld")
    monkeypatch.setenv(CACHE_VARIABLE, str(tmp_path))
    games = []

    def generate(_, *, kind, level, seed, file):
        games.append(kind)
        file.write_bytes(b"game")
        file.with_suffix(".json").write_bytes(b"{}")

    monkeypatch.setattr(textworld_making, "generate_apart", generate)
    for _ in range(2):
        with pytest.raises(TextGameError, match="cannot be opened") as caught:
            open_textworld("custom", level=None, seed=1)
    assert in_one_line(caught)
    (place,) = (tmp_path / "games").glob("text-*")
    altered = place / name
    # As long as it was: only its bytes tell.
    altered.write_bytes(b"x" * altered.stat().st_size)
    with pytest.raises(TextGameError, match="cannot be opened"):
        open_textworld("custom", level=None, seed=1)
    assert games == ["custom"] * 2


def test_any_error_in_opening_a_made_game_is_one_line(tmp_path):
    with pytest.raises(TextGameError) as caught, opening_made("custom-5-1", tmp_path / GAME_FILE):
        raise KeyError("many\nlines" * 1000)
    assert in_one_line(caught)
    assert str(tmp_path) in str(caught.value)
