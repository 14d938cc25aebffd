"""The file of answered questions: what it keeps, damage, several processes."""

import math
import sqlite3
import subprocess
import sys
import threading
import time
from dataclasses import replace

import pytest

from llm_serving.cache import (
    CacheError,
    ResponseCache,
    UnreadableCacheError,
    remove_cache_file,
    response_cache_path,
)
from llm_serving.request import (
    Completion,
    ModelIdentity,
    Scores,
    Usage,
)

MODEL = ModelIdentity(name="tiny", revision="r1", dtype="float32")


def completion(text="craft 1 stick", **usage):
    return Completion(
        text=text,
        token_ids=tuple(text.encode()),
        finish="stop",
        usage=Usage(calls=1, prompt_tokens=9, cached_tokens=4, completion_tokens=3, **usage),
    )


@pytest.fixture
def cache(tmp_path):
    cache = ResponseCache(tmp_path / "deep" / "responses.sqlite")
    yield cache
    cache.close()


# --- the file ------------------------------------------------------------------------------------


def test_answers_come_back_as_they_were_put(cache):
    plain = replace(completion(), text="né\ud800\n")
    long = completion(text="mine 3 iron ore; " * 200)
    scores = Scores(
        logprobs=(-0.1, -1 / 3, -math.inf), usage=Usage(calls=1, prompt_tokens=7, cached_tokens=2)
    )
    for number, answer in enumerate((plain, long, scores)):
        key = bytes([number]) * 32
        assert cache.get(key) is None
        assert cache.put(key, answer, MODEL) is answer
        assert cache.get(key) == answer


def test_long_answers_are_compressed_and_short_ones_are_not(cache):
    cache.put(b"s" * 32, completion(text="ok"), MODEL)
    short = cache.stats().bytes
    long = completion(text="mine 3 iron ore; " * 200)
    cache.put(b"l" * 32, long, MODEL)
    assert short < 60
    assert cache.stats().bytes - short < len(long.text) / 3


def test_the_first_answer_of_a_key_stands(tmp_path):
    ours, theirs = (ResponseCache(tmp_path / "r.sqlite") for _ in range(2))
    first, second = completion(text="first"), completion(text="second")
    assert ours.put(b"k" * 32, first, MODEL) == first
    assert theirs.put(b"k" * 32, second, MODEL) == first
    assert theirs.stats().entries == 1
    ours.close()
    theirs.close()


def test_stats_by_model_and_clear(cache):
    other = replace(MODEL, name="large", revision="r2")
    for number in range(200):
        cache.put(number.to_bytes(32, "big"), completion(text=str(number) * 40), MODEL)
    cache.put(b"o" * 32, completion(), other)
    before = cache.stats()
    assert [(m.name, m.revision, m.dtype, m.entries) for m in before.models] == [
        ("tiny", "r1", "float32", 200),
        ("large", "r2", "float32", 1),
    ]
    assert before.entries == 201
    assert before.bytes == sum(model.bytes for model in before.models) > 200 * 40
    assert before.file_bytes > before.bytes
    cache.clear()
    after = cache.stats()
    assert (after.entries, after.bytes, after.models) == (0, 0, ())
    assert after.file_bytes < before.file_bytes
    cache.put(b"o" * 32, completion(), other)
    assert cache.stats().models[0].name == "large"


def test_a_cache_cleared_by_another_process_goes_on(tmp_path):
    ours, theirs = (ResponseCache(tmp_path / "r.sqlite") for _ in range(2))
    ours.put(b"1" * 32, completion(), MODEL)
    theirs.clear()
    assert ours.get(b"1" * 32) is None
    ours.put(b"2" * 32, completion(), MODEL)
    assert theirs.stats().models[0].entries == 1
    ours.close()
    theirs.close()


@pytest.mark.parametrize("content", [b"not a database, " * 300, b"{}"])
def test_a_damaged_file_names_the_remedy(tmp_path, content):
    path = tmp_path / "responses.sqlite"
    path.write_bytes(content)
    with pytest.raises(UnreadableCacheError, match="llm-planning cache clear") as caught:
        ResponseCache(path)
    assert str(path) in str(caught.value)
    assert path.read_bytes() == content
    remove_cache_file(path)
    ResponseCache(path).close()


def test_another_programs_database_is_refused_untouched(tmp_path):
    path = tmp_path / "responses.sqlite"
    with sqlite3.connect(path) as connection:
        connection.execute("CREATE TABLE bookmarks (url TEXT)")
    connection.close()
    before = path.read_bytes()
    with pytest.raises(UnreadableCacheError, match="another program's SQLite database"):
        ResponseCache(path)
    assert path.read_bytes() == before


def test_a_later_version_is_refused(tmp_path):
    path = tmp_path / "responses.sqlite"
    ResponseCache(path).close()
    with sqlite3.connect(path) as connection:
        connection.execute("PRAGMA user_version = 7")
    connection.close()
    with pytest.raises(UnreadableCacheError, match="has version 7, and this program reads 1"):
        ResponseCache(path)


def test_damage_found_while_reading_is_reported(tmp_path):
    path = tmp_path / "responses.sqlite"
    cache = ResponseCache(path)
    cache.put(b"k" * 32, completion(), MODEL)
    cache.put(b"z" * 32, completion(text="mine " * 500), MODEL)
    with sqlite3.connect(path) as connection:
        connection.execute("UPDATE responses SET value = substr(value, 1, length(value) - 4)")
    connection.close()
    for key in (b"k" * 32, b"z" * 32):
        with pytest.raises(UnreadableCacheError, match="holds a damaged answer"):
            cache.get(key)
    cache.close()


def test_a_folder_in_the_files_place_is_no_cache(tmp_path):
    with pytest.raises(CacheError, match="LLM_PLANNING_CACHE") as caught:
        ResponseCache(tmp_path)
    assert not isinstance(caught.value, UnreadableCacheError)


def test_the_default_path_is_in_the_cache_folder(tmp_path, monkeypatch):
    monkeypatch.setenv("LLM_PLANNING_CACHE", str(tmp_path))
    assert response_cache_path() == tmp_path / "responses.sqlite"


def test_many_threads_share_one_object(cache):
    keys = [number.to_bytes(32, "big") for number in range(400)]
    wrong = []

    def work(start):
        for key in keys[start:] + keys[:start]:
            text = key.hex()
            stands = cache.put(key, completion(text=text), MODEL)
            if stands.text != text or cache.get(key).text != text:
                wrong.append(key)

    threads = [threading.Thread(target=work, args=(start,)) for start in range(0, 400, 100)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert wrong == []
    assert cache.stats().entries == 400


# --- several processes ---------------------------------------------------------------------------

WRITER = """
import sys
from pathlib import Path
from llm_serving.cache import ResponseCache
from llm_serving.request import Completion, ModelIdentity, Usage

path, name, first, last = Path(sys.argv[1]), sys.argv[2], int(sys.argv[3]), int(sys.argv[4])
sys.stdin.readline()
cache = ResponseCache(path)
model = ModelIdentity(name=name, revision="r", dtype="float32")
for number in range(first, last):
    key = number.to_bytes(32, "big")
    text = key.hex() * (1 + number % 20)
    answer = Completion(text=text, token_ids=(number,), finish="stop", usage=Usage(calls=1))
    stands = cache.put(key, answer, model)
    assert stands.text == text, number
    assert cache.get(key).text == text, number
    print(number, flush=True)
"""


def start_writer(path, name, first, last):
    return subprocess.Popen(
        [sys.executable, "-c", WRITER, str(path), name, str(first), str(last)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )


def assert_holds(path, numbers):
    cache = ResponseCache(path)
    for number in numbers:
        key = number.to_bytes(32, "big")
        assert cache.get(key).text == key.hex() * (1 + number % 20)
    entries = cache.stats().entries
    cache.close()
    with sqlite3.connect(path) as connection:
        assert connection.execute("PRAGMA integrity_check").fetchone() == ("ok",)
        assert connection.execute("PRAGMA journal_mode").fetchone() == ("wal",)
    connection.close()
    return entries


def test_processes_create_and_fill_one_file_together(tmp_path):
    path = tmp_path / "responses.sqlite"
    ranges = [(0, 900), (600, 1500), (300, 1200)]
    writers = [start_writer(path, f"m{i}", *r) for i, r in enumerate(ranges)]
    # All have imported what they need before any creates the file.
    for writer in writers:
        writer.stdin.write("go\n")
        writer.stdin.flush()
    for writer in writers:
        writer.communicate(timeout=60)
    assert [writer.returncode for writer in writers] == [0, 0, 0]
    assert assert_holds(path, range(1500)) == 1500


def test_a_killed_writer_loses_nothing_that_it_had_put(tmp_path):
    path = tmp_path / "responses.sqlite"
    writer = start_writer(path, "tiny", 0, 1_000_000)
    writer.stdin.write("go\n")
    writer.stdin.flush()
    put = [int(writer.stdout.readline()) for _ in range(700)]
    writer.kill()
    with writer:
        put += [int(line) for line in writer.stdout]
    assert writer.returncode == -9
    # The one under way when the kill came may be there too.
    assert assert_holds(path, put) in {len(put), len(put) + 1}


def test_a_forked_child_is_told_to_open_its_own(cache, monkeypatch):
    monkeypatch.setattr("llm_serving.cache_file.os.getpid", lambda: -1)
    with pytest.raises(CacheError, match="open it in the child process"):
        cache.get(b"k" * 32)


def test_a_warm_read_is_quick(cache):
    answer = replace(completion(), token_ids=tuple(range(1000, 1030)))
    for number in range(300):
        cache.put(number.to_bytes(32, "big"), answer, MODEL)
    times = []
    for number in range(300):
        started = time.perf_counter()
        cache.get(number.to_bytes(32, "big"))
        times.append(time.perf_counter() - started)
    # 20 to 50 microseconds on two slow cores; the bound leaves room for a busy machine.
    assert sorted(times)[150] < 500e-6
