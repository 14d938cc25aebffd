import json
import os
from pathlib import Path

import pytest

from llm_planning.files import write_json


def test_a_file_is_replaced_and_nothing_is_left_over(tmp_path):
    path = tmp_path / "known.json"
    for value in ({"a": [1, 2.5, None]}, {"ä": "☃"}):
        write_json(path, value)
        assert json.loads(path.read_text("utf-8")) == value
        assert list(tmp_path.iterdir()) == [path]


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


@pytest.mark.parametrize("broken", ["fsync", "replace", "value"])
def test_what_was_there_survives_a_failure(tmp_path, monkeypatch, broken):
    path = tmp_path / "known.json"
    write_json(path, "before")

    def fail(*_):
        raise OSError("out of paper")

    if broken == "fsync":
        monkeypatch.setattr(os, "fsync", fail)
    elif broken == "replace":
        monkeypatch.setattr(Path, "replace", fail)
    with pytest.raises(TypeError if broken == "value" else OSError):
        write_json(path, {1, 2} if broken == "value" else "after")
    assert json.loads(path.read_text()) == "before"
    assert list(tmp_path.iterdir()) == [path]


def test_a_missing_folder(tmp_path):
    with pytest.raises(FileNotFoundError):
        write_json(tmp_path / "missing" / "known.json", 1)
    assert list(tmp_path.iterdir()) == []
