"""What all stores promise: what was put stays, in every thread and process.

Stores are the response cache and the vector cache. Damage is in test_stores_damage.py.
"""

import hashlib
import math
import os
import sqlite3
import subprocess
import sys
import threading
from contextlib import closing
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from stores import (
    CACHES,
    USAGE,
    Responses,
    Vectors,
    altered,
    fill,
    read,
)

from llm_serving import cache_file
from llm_serving.cache_file import CacheError
from llm_serving.request import Completion, Scores
from llm_serving.stores import EncoderIdentity, ResponseCache, VectorCache


@pytest.fixture
def path(tmp_path):
    return tmp_path / "deep" / "store"


# --- what was put --------------------------------------------------------------------------------


@CACHES
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
        shares = [(share.name, share.revision) for share in before.shares]
        assert shares[0] == ("tiny", "of tiny")
        entries = [share.entries for share in before.shares]
        assert entries[0] == 600
        assert before.entries == sum(entries)
        assert before.bytes == sum(share.bytes for share in before.shares)
        assert before.file_bytes > before.bytes > 600 * 16
        store.clear()
        after = store.stats()
        assert (after.entries, after.bytes, after.shares) == (0, 0, ())
        assert after.file_bytes < before.file_bytes
        kind.put(store, {1: kind.value(1)}, name="large")
        assert store.stats().shares[0].name == "large"


@CACHES
def test_the_default_path_is_in_the_cache_folder(tmp_path, monkeypatch, kind):
    monkeypatch.setenv("LLM_PLANNING_CACHE", str(tmp_path))
    assert kind.path_of() == tmp_path / f"{kind.only}-2.sqlite"


@CACHES
@pytest.mark.parametrize("name", ["/{}/a", "{}/file:a?mode=memory", "file:a", "{}/a%20#b"])
@pytest.mark.parametrize("writable", [True, False])
def test_any_path_that_names_a_file_is_read(tmp_path, monkeypatch, kind, name, writable):
    """SQLite would read an authority, a parameter or a fragment in some of them."""
    monkeypatch.chdir(tmp_path)
    path = Path(name.format(tmp_path))
    fill(kind, path, range(3))
    assert path.read_bytes().startswith(b"SQLite format 3")
    monkeypatch.setattr(cache_file, "_is_writable", lambda _: writable)
    assert read(kind, path, range(3)) == {n: kind.value(n) for n in range(3)}


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
        assert connection.execute("SELECT key FROM entries").fetchall() == [
            (hashlib.sha256(f"r1\n{text}".encode()).digest(),)
        ]


def test_more_texts_than_one_statement_takes(path):
    fill(Vectors, path, range(1234))
    assert read(Vectors, path, range(1234)).keys() == set(range(1234))


def test_a_failed_put_leaves_nothing(path):
    with closing(VectorCache(path)) as store:
        altered(
            path,
            "CREATE TRIGGER full BEFORE INSERT ON entries "
            "WHEN (SELECT count(*) FROM entries) >= 2 "
            "BEGIN SELECT RAISE(ABORT, 'no room'); END",
        )
        with pytest.raises(CacheError, match="no room"):
            Vectors.put(store, {n: Vectors.value(n) for n in range(5)})
        assert store.stats().entries == 0
        Vectors.put(store, {1: Vectors.value(1)})
        assert store.stats().entries == 1


HERE = Path(__file__).parent


# --- several threads and processes ---------------------------------------------------------------


@CACHES
def test_many_threads_share_one_object(path, kind):
    numbers = range(400)
    with closing(kind.opened(path)) as store:
        wrong = []

        def work(start):
            for n in (*numbers[start:], *numbers[:start]):
                entry = {n: kind.value(n)}
                if not (kind.put(store, entry) == entry == kind.get(store, [n])):
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
import stores as here
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
        return connection.execute("SELECT count(*) FROM entries").fetchone()[0]


@CACHES
def test_processes_fill_one_file_and_a_killed_one_loses_nothing(path, kind):
    """All of them create it at the same moment; one is killed at its work."""
    ranges = ((0, 400), (200, 600), (1_000, 1_000_000))
    *others, killed = (start_writer(kind, path, *numbers) for numbers in ranges)
    go(*others, killed)
    put = [int(killed.stdout.readline()) for _ in range(300)]
    killed.kill()
    with killed:
        put += [int(line) for line in killed.stdout]
    for writer in others:
        writer.communicate(timeout=60)
    assert [writer.returncode for writer in (*others, killed)] == [0, 0, -9]
    # The one under way when the kill came may be there too.
    entries = assert_holds(kind, path, [*range(600), *put])
    assert entries - 600 in {len(put), len(put) + 1}


@CACHES
def test_a_forked_child_is_told_to_open_its_own(path, monkeypatch, kind):
    with closing(kind.opened(path)) as store:
        monkeypatch.setattr(os, "getpid", lambda: -1)
        with pytest.raises(CacheError, match=rf"the {kind.named} .* open it in the child process"):
            kind.get(store, [1])
