"""What all stores promise of damage: it is not believed, and costs only what is damaged."""

import os
import subprocess
import sys
import time
from contextlib import closing
from pathlib import Path

import pytest
from hostile.folders import cache_alterations, name_of
from stores import CACHES, Responses, Vectors, altered, fill, read

from llm_serving import cache_file
from llm_serving.cache_file import CacheError, UnreadableCacheError, remove_cache_file
from llm_serving.stores import VectorCache


@CACHES
def test_no_flipped_byte_is_believed(tmp_path, kind):
    path = tmp_path / "store"
    fill(kind, path, range(8))
    refused = []
    content = path.read_bytes()
    for place in range(0, len(content), 61):
        damaged = bytearray(content)
        damaged[place] ^= 1 << (place % 8)
        path.write_bytes(damaged)
        try:
            values = read(kind, path, range(8))
            assert all(value == kind.value(n) for n, value in values.items())
            fill(kind, path, range(8))
        except CacheError as error:
            refused.append(str(error))
        remove_cache_file(path)
        path.write_bytes(content)
    assert len(refused) > 10
    assert read(kind, path, range(8)) == {n: kind.value(n) for n in range(8)}


@CACHES
@pytest.mark.parametrize(("name", "alter"), cache_alterations(), ids=name_of)
def test_what_was_altered_is_refused_or_missed_and_never_believed(tmp_path, kind, name, alter):
    path = tmp_path / "cache.sqlite"
    fill(kind, path, range(40))
    alter(path)
    begun = time.monotonic()
    message = str(path)
    try:
        values = read(kind, path, range(40))
        assert all(value == kind.value(n) for n, value in values.items())
        fill(kind, path, range(40))
    except CacheError as error:
        message = str(error)
    assert str(path) in message
    assert "\n" not in message
    assert time.monotonic() - begun < 60


@CACHES
@pytest.mark.parametrize("writable", [True, False])
def test_a_schema_that_is_no_text_is_unreadable(tmp_path, monkeypatch, kind, writable):
    """SQLite quotes the bytes that it cannot make sense of."""
    path, copy = tmp_path / "cache.sqlite", tmp_path / "copy.sqlite"
    fill(kind, path, range(2))
    monkeypatch.setattr(cache_file, "_is_writable", lambda _: writable)
    content = path.read_bytes()
    refused = 0
    first, last = content.index(b"CREATE TABLE") - 40, content.rindex(b"CREATE TABLE") + 40
    for place in range(first, last, 5):
        damaged = bytearray(content)
        damaged[place] = 0xFF
        copy.write_bytes(damaged)
        try:
            kind.opened(copy).close()
        except UnreadableCacheError as error:
            refused += str(error).isprintable()
        remove_cache_file(copy)
    assert refused > 20


@CACHES
@pytest.mark.parametrize(
    ("damage", "message"),
    [
        (lambda path: path.write_bytes(b"not a database, " * 300), "not an SQLite database"),
        (lambda path: path.write_bytes(b"{}"), "not an SQLite database"),
        (lambda path: altered(path, "CREATE TABLE bookmarks (url)"), "another program's database"),
    ],
)
def test_a_foreign_file_is_refused_untouched_and_can_be_removed(tmp_path, kind, damage, message):
    path = tmp_path / "cache.sqlite"
    damage(path)
    before = path.read_bytes()
    with pytest.raises(UnreadableCacheError, match=message) as caught:
        kind.opened(path)
    assert f"the {kind.named} {path} " in str(caught.value)
    assert str(caught.value).endswith(": remove it")
    assert caught.value.path == path
    assert path.read_bytes() == before
    remove_cache_file(path)
    fill(kind, path, [1])


@CACHES
def test_a_later_version_is_refused(tmp_path, kind):
    path = tmp_path / "store"
    fill(kind, path, [1])
    altered(path, "PRAGMA user_version = 7")
    with pytest.raises(UnreadableCacheError, match="has version 7, and this program reads 2"):
        kind.opened(path)


@CACHES
@pytest.mark.parametrize(
    "damage",
    [
        "substr(value, 1, length(value) - 4)",
        "substr(value, 1, 4)",
        "CAST(value || x'00' AS BLOB)",
        "zeroblob(64)",
        "(SELECT value FROM entries WHERE id = 1)",
    ],
)
def test_damage_found_while_reading_costs_what_is_damaged(tmp_path, kind, damage):
    path = tmp_path / "store"
    with closing(kind.opened(path)) as store:
        kind.put(store, {n: kind.value(n) for n in range(3)})
        altered(path, f"UPDATE entries SET value = {damage} WHERE id > 1")
        assert kind.get(store, [0]) == {0: kind.value(0)}
        for number in (1, 2):
            with pytest.raises(
                UnreadableCacheError, match=rf"{path} holds a damaged entry: remove"
            ):
                kind.get(store, [number])


@CACHES
def test_what_is_no_regular_file_is_not_opened(tmp_path, monkeypatch, kind):
    os.mkfifo(tmp_path / "pipe.sqlite")
    (tmp_path / "zero.sqlite").symlink_to("/dev/zero")
    monkeypatch.setattr(cache_file, "_open", lambda *_, **__: pytest.fail("was opened"))
    for name in ("pipe.sqlite", "zero.sqlite"):
        with pytest.raises(CacheError, match="not a regular file"):
            kind.opened(tmp_path / name)
    with pytest.raises(CacheError, match="LLM_PLANNING_CACHE") as caught:
        kind.opened(tmp_path)
    assert not isinstance(caught.value, UnreadableCacheError)


# --- folders that cannot be written --------------------------------------------------------------

READS = """
import sys
sys.path[:0] = sys.argv[1:3]
from pathlib import Path
from hostile.privileges import respect_permissions
import stores as here
assert respect_permissions()
folder = Path(sys.argv[3])
for path in (folder / "responses.sqlite", folder / "more" / "responses.sqlite"):
    here.fill(here.Responses, path, range(40))
    assert len(here.read(here.Responses, path, range(40))) in {0, 20}
here.fill(here.Vectors, folder / "vectors.sqlite", range(20))
"""
HERE = Path(__file__).parent


@pytest.mark.parametrize("left_open", [True, False])
def test_a_cache_that_cannot_be_written_is_read_with_one_warning(tmp_path, left_open):
    folder = tmp_path / "cache"
    fill(Responses, folder / "responses.sqlite", range(20))
    # A writer that is at work leaves its log beside the file.
    with closing(VectorCache(folder / "vectors.sqlite")) as other:
        fill(Vectors, folder / "vectors.sqlite", range(20))
        if not left_open:
            other.close()
        before = {path: path.read_bytes() for path in folder.iterdir()}
        for path in before:
            path.chmod(0o444)
        folder.chmod(0o555)
        done = subprocess.run(
            [sys.executable, "-c", READS, str(HERE), str(HERE.parent), str(folder)],
            capture_output=True,
            text=True,
            check=False,
        )
        folder.chmod(0o755)
        assert {path: path.read_bytes() for path in before} == before
    assert done.returncode == 0, done.stderr
    lines = done.stderr.splitlines()
    assert len(lines) == 1, lines
    assert "nothing is added to the caches in" in lines[0]
    assert not (folder / "more").exists()


def test_a_file_in_the_folder_s_place_costs_the_cache_alone(tmp_path, caplog):
    (tmp_path / "cache").write_text("in the way")
    for kind in (Responses, Vectors) * 2:
        fill(kind, tmp_path / "cache" / "cache.sqlite", range(3))
    assert len(caplog.messages) == 1
