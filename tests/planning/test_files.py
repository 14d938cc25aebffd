import json
import os
from pathlib import Path

import pytest

from llm_planning.files import make_folder, write_durably, write_json


def test_a_file_is_replaced_and_nothing_is_left_over(tmp_path):
    path = tmp_path / "known.json"
    for value in ({"a": [1, 2.5, None]}, {"ä": "☃"}):
        write_json(path, value)
        assert json.loads(path.read_text("utf-8")) == value
        assert list(tmp_path.iterdir()) == [path]


def test_the_content_is_what_it_was(tmp_path):
    content = bytes(range(256)) * 100
    write_durably(tmp_path / "known", content)
    assert (tmp_path / "known").read_bytes() == content


def test_a_name_without_a_folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    write_json(Path("known.json"), 1)
    assert (tmp_path / "known.json").read_text() == "1"


@pytest.mark.parametrize("mask", [0o022, 0o077])
def test_permissions_are_those_of_any_new_file(tmp_path, mask):
    before = os.umask(mask)
    try:
        write_json(tmp_path / "known.json", 1)
    finally:
        os.umask(before)
    assert (tmp_path / "known.json").stat().st_mode & 0o777 == 0o666 & ~mask


@pytest.mark.parametrize("temporary", [None, ".mine.tmp"])
@pytest.mark.parametrize("broken", ["fsync", "replace", "interrupt"])
def test_what_was_there_survives_a_failure(tmp_path, monkeypatch, broken, temporary):
    path = tmp_path / "known.json"
    path.write_text("before")
    error = KeyboardInterrupt if broken == "interrupt" else OSError

    def fail(*_):
        raise error

    if broken == "replace":
        monkeypatch.setattr(Path, "replace", fail)
    else:
        monkeypatch.setattr(os, "fsync", fail)
    with pytest.raises(error):
        write_durably(path, b"after", temporary=temporary and tmp_path / temporary)
    assert path.read_text() == "before"
    assert list(tmp_path.iterdir()) == [path]


def test_what_is_no_json_writes_nothing(tmp_path):
    path = tmp_path / "known.json"
    write_json(path, "before")
    with pytest.raises(TypeError):
        write_json(path, {1, 2})
    assert json.loads(path.read_text()) == "before"
    assert list(tmp_path.iterdir()) == [path]


def test_a_missing_folder(tmp_path):
    with pytest.raises(FileNotFoundError):
        write_json(tmp_path / "missing" / "known.json", 1)
    assert list(tmp_path.iterdir()) == []


def test_the_file_and_its_name_are_put_on_the_disk(tmp_path, monkeypatch):
    synced = []
    monkeypatch.setattr(os, "fsync", lambda fd: synced.append(os.readlink(f"/proc/self/fd/{fd}")))
    write_durably(tmp_path / "known", b"x", temporary=tmp_path / "known.tmp")
    assert synced == [str(tmp_path / "known.tmp"), str(tmp_path)]


def test_folders_are_made_with_those_above_them(tmp_path, monkeypatch):
    synced = []
    monkeypatch.setattr(os, "fsync", lambda fd: synced.append(os.readlink(f"/proc/self/fd/{fd}")))
    for _ in range(2):
        make_folder(tmp_path / "a" / "b")
    assert (tmp_path / "a" / "b").is_dir()
    assert synced == [str(tmp_path), str(tmp_path / "a")]
