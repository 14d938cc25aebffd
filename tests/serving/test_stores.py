"""What all stores promise: what was put stays, and no damage is believed.

Stores are the response cache, the vector cache and saved indexes. What an index alone promises of
its folder is in tests/kernels/test_index_files.py.
"""

import hashlib
import math
import os
import sqlite3
import subprocess
import sys
import threading
import time
from contextlib import closing
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from hostile.folders import cache_alterations

from llm_kernels import EmbeddingIndex, IndexFileError
from llm_serving import cache_file
from llm_serving.cache_file import CacheError, UnreadableCacheError, remove_cache_file
from llm_serving.request import Completion, ModelIdentity, Scores, Usage
from llm_serving.response_store import ResponseCache, response_cache_path
from llm_serving.vector_store import EncoderIdentity, VectorCache, vector_cache_path

USAGE = Usage(calls=1, prompt_tokens=3, cached_tokens=1, completion_tokens=2)


def key(number):
    return hashlib.sha256(str(number).encode()).digest()


class Responses:
    """Answers: scores, short texts, and texts that are worth compressing."""

    opened, named, path_of = ResponseCache, "response cache", response_cache_path
    table, column, shares, only = "responses", "value", "models", "responses"

    @staticmethod
    def value(number):
        if number % 3 == 0:
            return Scores(logprobs=(-0.5, -1 / (number + 3)), usage=USAGE)
        text = f"né {number} " * (1 if number % 3 == 1 else 200)
        return Completion(text=text, token_ids=(number, 7), finish="stop", usage=USAGE)

    @staticmethod
    def put(store, values, name="tiny"):
        model = ModelIdentity(name=name, revision=f"of {name}", dtype="float32")
        return {n: store.put(key(n), value, model) for n, value in values.items()}

    @staticmethod
    def get(store, numbers):
        found = {n: store.get(key(n)) for n in numbers}
        return {n: value for n, value in found.items() if value is not None}


class Vectors:
    """Unit vectors, compared bit for bit."""

    opened, named, path_of = VectorCache, "vector cache", vector_cache_path
    table, column, shares, only = "vectors", "vector", "encoders", "vectors"

    @staticmethod
    def value(number):
        wave = np.cos(np.linspace(0.1, 1.0, 16) + number)
        return (wave / np.linalg.norm(wave)).astype(np.float32).tobytes()

    @staticmethod
    def put(store, values, name="tiny"):
        vectors = {f"text {n}": np.frombuffer(one, np.float32) for n, one in values.items()}
        kept = store.put(EncoderIdentity(name, f"of {name}"), vectors)
        return {n: kept[f"text {n}"].tobytes() for n in values}

    @staticmethod
    def get(store, numbers):
        texts = {f"text {n}": n for n in numbers}
        tiny = EncoderIdentity("another name", "of tiny")
        assert store.dimension(tiny) in {None, 16}
        kept = store.get(tiny, texts)
        return {texts[text]: vector.tobytes() for text, vector in kept.items()}


class Index:
    """A saved index; filling it is a save."""

    value = Vectors.value

    @staticmethod
    def fill(path, numbers):
        index = EmbeddingIndex(16)
        vectors = [np.frombuffer(Index.value(n), np.float32) for n in numbers]
        index.add(map(str, numbers), vectors, list(numbers))
        index.save(path)

    @staticmethod
    def read(path, numbers):
        index = EmbeddingIndex.load(path)
        assert [index.payload(one) for one in index.keys] == list(map(int, index.keys))
        return {n: index.vector(str(n)).tobytes() for n in numbers if str(n) in index}


def fill(kind, path, numbers):
    if kind is Index:
        Index.fill(path, numbers)
        return
    with closing(kind.opened(path)) as store:
        wanted = {n: kind.value(n) for n in numbers}
        assert kind.put(store, wanted) == wanted


def read(kind, path, numbers):
    if kind is Index:
        return Index.read(path, numbers)
    with closing(kind.opened(path)) as store:
        found = kind.get(store, numbers)
        store.stats()
        return found


def files(path):
    """The files of a store, apart from locks and logs."""
    below = [one for one in path.iterdir() if one.name != "index.lock"] if path.is_dir() else [path]
    return sorted(below)


def altered(path, statement):
    with closing(sqlite3.connect(path)) as connection, connection:
        connection.execute(statement)


CACHES = pytest.mark.parametrize("kind", [Responses, Vectors])
STORES = pytest.mark.parametrize("kind", [Responses, Vectors, Index])
REFUSALS = (CacheError, IndexFileError)


@pytest.fixture
def path(tmp_path):
    return tmp_path / "deep" / "store"


# --- what was put --------------------------------------------------------------------------------


@STORES
def test_what_was_put_comes_back_bit_for_bit(path, kind):
    fill(kind, path, range(40))
    assert read(kind, path, range(50)) == {n: kind.value(n) for n in range(40)}


@CACHES
def test_the_first_value_stands_for_every_process(path, kind):
    first, second = kind.value(1), kind.value(4)
    with closing(kind.opened(path)) as ours, closing(kind.opened(path)) as theirs:
        assert kind.put(ours, {1: first}) == {1: first}
        assert kind.put(theirs, {2: second, 1: second}) == {2: second, 1: first}
        assert theirs.stats().entries == 2
        theirs.clear()
        assert kind.get(ours, [1, 2]) == {}
        kind.put(ours, {2: first})
        assert kind.get(theirs, [1, 2]) == {2: first}


@CACHES
def test_a_cache_counts_what_it_holds_and_gives_space_back(path, kind):
    with closing(kind.opened(path)) as store:
        kind.put(store, {n: kind.value(n) for n in range(600)})
        kind.put(store, {1: kind.value(1)}, name="large")
        before = store.stats()
        shares = [(one.name, one.revision) for one in getattr(before, kind.shares)]
        assert shares[0] == ("tiny", "of tiny")
        entries = [one.entries for one in getattr(before, kind.shares)]
        assert entries[0] == 600
        assert before.entries == sum(entries)
        assert before.bytes == sum(one.bytes for one in getattr(before, kind.shares))
        assert before.file_bytes > before.bytes > 600 * 16
        store.clear()
        after = store.stats()
        assert (after.entries, after.bytes, getattr(after, kind.shares)) == (0, 0, ())
        assert after.file_bytes < before.file_bytes
        kind.put(store, {1: kind.value(1)}, name="large")
        assert getattr(store.stats(), kind.shares)[0].name == "large"


@CACHES
def test_the_default_path_is_in_the_cache_folder(tmp_path, monkeypatch, kind):
    monkeypatch.setenv("LLM_PLANNING_CACHE", str(tmp_path))
    assert kind.path_of() == tmp_path / f"{kind.only}.sqlite"


def test_answers_of_any_text_and_likelihood_are_kept(path):
    texts = Completion(text="né\ud800\n", token_ids=(), finish="length", usage=USAGE)
    scores = Scores(logprobs=(-0.1, -1 / 3, -math.inf), usage=replace(USAGE, cached_tokens=0))
    with closing(ResponseCache(path)) as store:
        for number, answer in enumerate((texts, scores)):
            assert Responses.put(store, {number: answer})[number] is answer
            assert Responses.get(store, [number]) == {number: answer}


def test_long_answers_are_compressed_and_short_ones_are_not(path):
    with closing(ResponseCache(path)) as store:
        Responses.put(store, {1: Responses.value(1)})
        short = store.stats().bytes
        Responses.put(store, {2: Responses.value(2)})
        assert short < 60
        assert store.stats().bytes - short < len(Responses.value(2).text) / 3


def test_vectors_are_found_by_revision_and_text_alone(path):
    tiny, text = EncoderIdentity("tiny", "r1"), "東京 🍎"
    vector = np.array([0.6, 0.8, 1e-30], np.float32)
    with closing(VectorCache(path)) as store:
        assert store.dimension(tiny) is None
        assert store.put(tiny, {}) == {}
        store.put(tiny, {text: vector})
        assert store.dimension(tiny) == 3
        assert store.get(EncoderIdentity("tiny", "r2"), [text]) == {}
        kept = store.get(EncoderIdentity("another", "r1"), [text, "unknown"])
        assert kept[text].tobytes() == vector.tobytes()
    with closing(sqlite3.connect(path)) as connection:
        assert connection.execute("SELECT text, substr(vector, 1, 12) FROM vectors").fetchall() == [
            (hashlib.sha256(text.encode()).digest(), vector.astype("<f4").tobytes())
        ]


def test_more_texts_than_one_statement_takes(path):
    fill(Vectors, path, range(1234))
    assert read(Vectors, path, range(1234)).keys() == set(range(1234))


def test_a_failed_put_leaves_nothing(path):
    with closing(VectorCache(path)) as store:
        altered(
            path,
            "CREATE TRIGGER full BEFORE INSERT ON vectors "
            "WHEN (SELECT count(*) FROM vectors) >= 2 "
            "BEGIN SELECT RAISE(ABORT, 'no room'); END",
        )
        with pytest.raises(CacheError, match="no room"):
            Vectors.put(store, {n: Vectors.value(n) for n in range(5)})
        assert store.stats().entries == 0
        Vectors.put(store, {1: Vectors.value(1)})
        assert store.stats().entries == 1


def test_a_warm_read_is_quick(path):
    times = []
    with closing(ResponseCache(path)) as store:
        Responses.put(store, {n: Responses.value(1) for n in range(300)})
        for number in range(300):
            started = time.perf_counter()
            store.get(key(number))
            times.append(time.perf_counter() - started)
    # 20 to 50 microseconds on two slow cores; the bound leaves room for a busy machine.
    assert sorted(times)[150] < 500e-6


# --- damage --------------------------------------------------------------------------------------


@STORES
def test_no_flipped_byte_is_believed(tmp_path, kind):
    path = tmp_path / "store"
    fill(kind, path, range(8))
    refused = []
    for file in files(path):
        content = file.read_bytes()
        for place in range(0, len(content), 1 if kind is Index else 61):
            damaged = bytearray(content)
            damaged[place] ^= 1 << (place % 8)
            file.write_bytes(damaged)
            try:
                found = read(kind, path, range(8))
                assert all(value == kind.value(n) for n, value in found.items())
                assert kind is not Index
                fill(kind, path, range(8))
            except REFUSALS as error:
                refused.append(str(error))
            if kind is not Index:
                remove_cache_file(path)
            file.write_bytes(content)
    assert len(refused) > 10
    assert kind is not Index or all("or build the index again" in said for said in refused)
    assert read(kind, path, range(8)) == {n: kind.value(n) for n in range(8)}


@CACHES
@pytest.mark.parametrize(("name", "alter"), cache_alterations(), ids=lambda one: str(one)[:60])
def test_what_was_altered_is_refused_or_missed_and_never_believed(tmp_path, kind, name, alter):
    path = tmp_path / "cache.sqlite"
    fill(kind, path, range(40))
    alter(path)
    begun = time.monotonic()
    said = str(path)
    try:
        found = read(kind, path, range(40))
        assert all(value == kind.value(n) for n, value in found.items())
        fill(kind, path, range(40))
    except CacheError as error:
        said = str(error)
    assert str(path) in said
    assert "\n" not in said
    assert time.monotonic() - begun < 10


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
    ("damage", "said"),
    [
        (lambda path: path.write_bytes(b"not a database, " * 300), "not an SQLite database"),
        (lambda path: path.write_bytes(b"{}"), "not an SQLite database"),
        (lambda path: altered(path, "CREATE TABLE bookmarks (url)"), "another program's SQLite"),
    ],
)
def test_a_foreign_file_is_refused_untouched_and_can_be_removed(tmp_path, kind, damage, said):
    path = tmp_path / "cache.sqlite"
    damage(path)
    before = path.read_bytes()
    with pytest.raises(UnreadableCacheError, match=said) as caught:
        kind.opened(path)
    assert f"the {kind.named} {path} " in str(caught.value)
    assert f"`llm-planning cache clear --only {kind.only}`, or run with" in str(caught.value)
    assert path.read_bytes() == before
    remove_cache_file(path)
    fill(kind, path, [1])


@CACHES
def test_a_later_version_is_refused(path, kind):
    fill(kind, path, [1])
    altered(path, "PRAGMA user_version = 7")
    with pytest.raises(UnreadableCacheError, match="has version 7, and this program reads 1"):
        kind.opened(path)


@pytest.mark.parametrize(
    ("kind", "damage"),
    [
        (Responses, "substr(value, 1, length(value) - 4)"),
        (Vectors, "substr(vector, 1, 4)"),
        (Vectors, "zeroblob(64)"),
        (Vectors, f"x'0000c07f{'00' * 60}'"),  # NaN
        (Vectors, f"x'0000803f0000803f{'00' * 56}'"),  # of length 1.41
    ],
)
def test_damage_found_while_reading_costs_what_is_damaged(path, kind, damage):
    with closing(kind.opened(path)) as store:
        kind.put(store, {n: kind.value(n) for n in range(3)})
        altered(path, f"UPDATE {kind.table} SET {kind.column} = {damage} WHERE id > 1")
        assert kind.get(store, [0]) == {0: kind.value(0)}
        for number in (1, 2):
            with pytest.raises(UnreadableCacheError, match=rf"{path} holds a damaged \w+: remove"):
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
import test_stores as here
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
    said = done.stderr.splitlines()
    assert len(said) == 1, said
    assert "nothing is added to the caches in" in said[0]
    assert not (folder / "more").exists()


def test_a_file_in_the_folder_s_place_costs_the_cache_alone(tmp_path, caplog):
    (tmp_path / "cache").write_text("in the way")
    for kind in (Responses, Vectors) * 2:
        fill(kind, tmp_path / "cache" / "cache.sqlite", range(3))
    assert len(caplog.messages) == 1


# --- several threads and processes ---------------------------------------------------------------


@CACHES
def test_many_threads_share_one_object(path, kind):
    numbers = range(400)
    with closing(kind.opened(path)) as store:
        wrong = []

        def work(start):
            for n in (*numbers[start:], *numbers[:start]):
                one = {n: kind.value(n)}
                if not (kind.put(store, one) == one == kind.get(store, [n])):
                    wrong.append(n)

        threads = [threading.Thread(target=work, args=(start,)) for start in range(0, 400, 100)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert wrong == []
        assert store.stats().entries == 400


WRITER = """
import sys
sys.path[:0] = sys.argv[1:3]
from pathlib import Path
import test_stores as here
kind, path = getattr(here, sys.argv[3]), Path(sys.argv[4])
sys.stdin.readline()
store = kind.opened(path)
for n in range(int(sys.argv[5]), int(sys.argv[6])):
    one = {n: kind.value(n)}
    assert kind.put(store, one, name="tiny") == one == kind.get(store, [n]), n
    print(n, flush=True)
"""


def start_writer(kind, path, first, last):
    arguments = map(str, (HERE, HERE.parent, kind.__name__, path, first, last))
    return subprocess.Popen(
        [sys.executable, "-c", WRITER, *arguments],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )


def go(*writers):
    """Lets writers begin, all of which have imported what they need."""
    for writer in writers:
        writer.stdin.write("go\n")
        writer.stdin.flush()


def assert_holds(kind, path, numbers):
    assert read(kind, path, numbers) == {n: kind.value(n) for n in numbers}
    with closing(sqlite3.connect(path)) as connection:
        assert connection.execute("PRAGMA integrity_check").fetchone() == ("ok",)
        assert connection.execute("PRAGMA journal_mode").fetchone() == ("wal",)
        return connection.execute(f"SELECT count(*) FROM {kind.table}").fetchone()[0]


@CACHES
def test_processes_fill_one_file_and_a_killed_one_loses_nothing(path, kind):
    """All of them create it at the same moment; one is killed at its work."""
    ranges = ((0, 400), (200, 600), (1_000, 1_000_000))
    *others, killed = (start_writer(kind, path, *one) for one in ranges)
    go(*others, killed)
    put = [int(killed.stdout.readline()) for _ in range(300)]
    killed.kill()
    with killed:
        put += [int(line) for line in killed.stdout]
    for writer in others:
        writer.communicate(timeout=60)
    assert [one.returncode for one in (*others, killed)] == [0, 0, -9]
    # The one under way when the kill came may be there too.
    entries = assert_holds(kind, path, [*range(600), *put])
    assert entries - 600 in {len(put), len(put) + 1}


@CACHES
def test_a_forked_child_is_told_to_open_its_own(path, monkeypatch, kind):
    with closing(kind.opened(path)) as store:
        monkeypatch.setattr(os, "getpid", lambda: -1)
        with pytest.raises(CacheError, match=rf"the {kind.named} .* open it in the child process"):
            kind.get(store, [1])
