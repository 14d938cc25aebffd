import json
import os
from pathlib import Path

import pytest

from llm_base.files import (
    TargetError,
    check_target,
    make_folder,
    open_regular,
    read_json,
    read_regular,
    write_durably,
    write_json,
)


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


def unfit(tmp_path, kind):
    path = tmp_path / "known.json"
    if kind == "folder":
        path.mkdir()
    elif kind == "fifo":
        os.mkfifo(path)
    elif kind == "dangling":
        path.symlink_to(tmp_path / "nowhere.json")
    elif kind == "loop":
        path.symlink_to(path)
    elif kind == "link to a device":
        path.symlink_to("/dev/null")
    elif kind == "device":
        return type(path)("/dev/full")
    elif kind == "missing":
        return tmp_path / "missing" / "known.json"
    elif kind == "below a file":
        (tmp_path / "file").write_text("")
        return tmp_path / "file" / "known.json"
    return path


@pytest.mark.parametrize(
    ("kind", "complaint"),
    [
        ("folder", "that is a folder; name a file in it"),
        ("fifo", "that is not a regular file; name one"),
        ("device", "that is not a regular file; name one"),
        ("link to a device", "that is not a regular file; name one"),
        ("dangling", "that link leads nowhere; name a file"),
        ("loop", "that link leads nowhere; name a file"),
        ("missing", "the folder .*missing is missing"),
        ("below a file", "the folder .*file is missing"),
    ],
)
def test_nothing_is_written_to_what_is_no_place_for_it(tmp_path, kind, complaint):
    path = unfit(tmp_path, kind)
    before = sorted(tmp_path.rglob("*"))
    for refuse in (
        check_target,
        lambda path: write_durably(path, b"x"),
    ):
        with pytest.raises(TargetError, match=f"^cannot write {path}: {complaint}$"):
            refuse(path)
    assert sorted(tmp_path.rglob("*")) == before


@pytest.mark.parametrize("protected", ["folder", "file"])
def test_what_may_not_be_written_is_refused(tmp_path, monkeypatch, protected):
    path = tmp_path / "known.json"
    if protected == "file":
        path.write_text("before")
    asked = []
    monkeypatch.setattr(os, "access", lambda *given: asked.append(given) or False)
    with pytest.raises(TargetError, match="may not be written to"):
        check_target(path)
    assert asked[0] == (path if protected == "file" else tmp_path, os.W_OK)


def test_a_planted_link_is_not_written_through(tmp_path):
    other = tmp_path / "other"
    other.write_text("theirs")
    part = tmp_path / "known.tmp"
    part.symlink_to(other)
    write_durably(tmp_path / "known", b"ours", temporary=part)
    assert other.read_text() == "theirs"
    assert (tmp_path / "known").read_bytes() == b"ours"
    assert not part.is_symlink()


def test_a_link_stays_one_and_what_it_leads_to_is_written(tmp_path):
    (tmp_path / "link").symlink_to(tmp_path / "known")
    (tmp_path / "known").write_text("before")
    write_durably(tmp_path / "link", b"after")
    assert (tmp_path / "link").is_symlink()
    assert (tmp_path / "known").read_bytes() == b"after"


@pytest.mark.parametrize("name", ["a\0b", "\ud800"])
def test_a_name_that_no_file_can_have(tmp_path, name):
    with pytest.raises(TargetError, match="no file can have this name"):
        check_target(tmp_path / name)


def test_a_private_file_stays_private(tmp_path):
    path = tmp_path / "known"
    path.write_text("before")
    path.chmod(0o600)
    write_durably(path, b"after")
    assert path.stat().st_mode & 0o777 == 0o600
    assert path.read_bytes() == b"after"


@pytest.mark.parametrize("length", [255, 256])
def test_names_as_long_as_names_can_be(tmp_path, length):
    path = tmp_path / ("n" * length)
    if length == 255:
        write_durably(path, b"x")
        assert path.read_bytes() == b"x"
    else:
        with pytest.raises(TargetError, match="longer than 255 bytes"):
            write_durably(path, b"x")
        assert list(tmp_path.iterdir()) == []


def test_a_regular_file_is_read(tmp_path):
    path = tmp_path / "known"
    path.write_bytes(b"12345")
    assert read_regular(path) == read_regular(path, most=5) == b"12345"
    with pytest.raises(OSError, match="it is larger than 4 bytes"):
        read_regular(path, most=4)
    with open_regular(path) as file:
        assert file.read(2) == b"12"


@pytest.mark.parametrize("kind", ["folder", "fifo", "device", "link to a device", "missing"])
def test_nothing_else_is_read_or_waited_for(tmp_path, kind):
    before = len(os.listdir("/proc/self/fd"))
    with pytest.raises(OSError) as caught:  # noqa: PT011 - its words differ
        read_regular(unfit(tmp_path, kind))
    assert caught.value.strerror
    assert len(os.listdir("/proc/self/fd")) == before


def test_a_json_file_is_read_whoever_wrote_it(tmp_path):
    path = tmp_path / "known.json"
    write_json(path, {"a": [1, None]})
    assert read_json(path, most=100) == {"a": [1, None]}
    with pytest.raises(OSError, match="larger than 3 bytes"):
        read_json(path, most=3)
    for content in (b"{", b"\xff\xfe{", b"[" * 100_000):
        path.write_bytes(content)
        with pytest.raises(ValueError):  # noqa: PT011 - JSON's own words, and its decoder's
            read_json(path, most=1 << 20)
