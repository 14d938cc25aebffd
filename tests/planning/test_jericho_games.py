"""The story files that are opened, and the errors for all others."""

from hashlib import md5

import pytest
from jericho_toy import needs_jericho, write_toy

from llm_planning.environments.textgame.game import TextGameError
from llm_planning.environments.textgame.jericho_games import (
    JERICHO_GAMES,
    find_story,
    read_story,
)


@pytest.mark.parametrize("file", ["zork1.z5", "ZORK1.Z3"])
def test_a_game_is_found_by_its_name(tmp_path, file):
    (tmp_path / file).touch()
    (tmp_path / "zork1.txt").touch()
    (tmp_path / "zork10.z5").touch()
    assert find_story("zork1", str(tmp_path)) == tmp_path / file


@pytest.mark.parametrize(
    ("name", "folder", "message"),
    [
        ("zork", "", "did you mean zork1"),
        ("zork1", "", r"set games=FOLDER .* or game=FILE"),
        ("zork1", "/nowhere", "games=/nowhere is not a folder"),
        ("ztuu", None, r"no ztuu\.z3 or ztuu\.z5 or ztuu\.z8 in games="),
        ("temple", None, r"several files of 'temple' \(temple.Z5, temple.z3\)"),
    ],
)
def test_what_is_not_found_is_told_with_its_remedy(tmp_path, name, folder, message):
    for file in ("temple.z3", "temple.Z5"):
        (tmp_path / file).touch()
    with pytest.raises(TextGameError, match=message):
        find_story(name, str(tmp_path) if folder is None else folder)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"\x05" * 63, r"story\.z5 is no Z-machine story"),
        (b"\x09" + bytes(100), r"story\.z5 is no Z-machine story"),
        (b"FORM" + bytes(100), "Blorb archive: unpack"),
        (None, "does not exist: set game=FILE"),
    ],
)
def test_a_file_that_is_no_story_is_refused(tmp_path, content, message):
    if content is not None:
        (tmp_path / "story.z5").write_bytes(content)
    with pytest.raises(TextGameError, match=message):
        read_story(tmp_path / "story.z5")
    with pytest.raises(TextGameError, match=r"cannot be read \(Is a directory\)"):
        read_story(tmp_path)


@needs_jericho
def test_an_unsupported_story_is_refused_before_anything_is_played(tmp_path):
    file = write_toy(tmp_path).file
    digest = md5(file.read_bytes(), usedforsecurity=False).hexdigest()
    message = rf"version 5, release 1, serial 261122, MD5 {digest}\): Jericho knows .* 5\d stories"
    with pytest.raises(TextGameError, match=message):
        read_story(file)
    named = file.rename(tmp_path / "zork1.z5")
    with pytest.raises(TextGameError, match="its zork1 has MD5 b732a93a6244ddd92a9b9a3e3a46c687"):
        read_story(named)
    noise = tmp_path / "noise.z5"
    noise.write_bytes(b"\x05" + bytes(17) + b"\n\x1b[2J\xff" + bytes(40))
    with pytest.raises(TextGameError, match=r"serial \?\?\[2J\?, MD5"):
        read_story(noise)


@needs_jericho
def test_a_supported_story_is_read_with_its_bindings(tmp_path, monkeypatch):
    import jericho

    toy = write_toy(tmp_path)
    digest = md5(toy.file.read_bytes(), usedforsecurity=False).hexdigest()
    monkeypatch.setitem(jericho.defines.BINDINGS_DICT, digest, jericho.defines.detective)
    story = read_story(toy.file)
    assert (story.name, story.seed, story.word_length) == ("detective", 0, 9)
    assert story.walkthrough[:2] == ("TAKE PAPER", "READ PAPER")
    assert len(story.walkthrough) == 51


@needs_jericho
def test_jericho_knows_all_games_of_table_1():
    import jericho

    known = {bindings["name"] for bindings in jericho.defines.BINDINGS_DICT.values()}
    assert set(JERICHO_GAMES) <= known
    assert len(JERICHO_GAMES) == 9
