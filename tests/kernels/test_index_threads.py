"""Readers in threads and one writer: every answer is that of one published state."""

import contextlib
import math
import sys
import threading
from concurrent.futures import ThreadPoolExecutor

import pytest

from llm_kernels.errors import EntryError
from llm_kernels.index import EmbeddingIndex
from llm_kernels.searcher import DeviceMirror

BASE = tuple(f"base{number}" for number in range(12))
GUESTS = tuple(f"guest{number}" for number in range(7))
VERSIONS = 150


def angle(key, version):
    """The angle of a key's vector, different for every key and version."""
    number = (*BASE, *GUESTS).index(key)
    return 0.01 + 1.5 * (number * (VERSIONS + 1) + version) / (20 * (VERSIONS + 1))


def entries(keys, version):
    vectors = [[math.cos(angle(key, version)), math.sin(angle(key, version))] for key in keys]
    return keys, vectors, [{"key": key, "version": version} for key in keys]


def check_answer(answer, query):
    """The version of all matches, whose key, payload, vector and order fit together."""
    versions = {match.payload["version"] for match in answer}
    assert len(versions) == 1
    (version,) = versions
    for match in answer:
        assert match.payload["key"] == match.key
        assert match.score == pytest.approx(math.cos(angle(match.key, version) - query), abs=3e-7)
    keys = [match.key for match in answer]
    assert sorted(keys) in (sorted(BASE), sorted(BASE + GUESTS))
    assert [match.score for match in answer] == sorted((m.score for m in answer), reverse=True)
    return version, len(answer)


def write(index, stop):
    try:
        for version in range(1, VERSIONS + 1):
            if version % 3 == 1:
                index.add(*entries(GUESTS, version - 1))
                index.update(*entries(BASE + GUESTS, version))
            elif version % 3 == 2:
                index.update(*entries(GUESTS + BASE, version))
                index.remove(GUESTS)
            else:
                index.update(*entries(BASE, version))
    finally:
        stop.set()


def search_often(index, stop):
    newest, sizes, answers = 0, set(), 0
    while not stop.is_set() or answers < 3:
        one = check_answer(index.search([1, 0], 99), 0)
        batch = index.search_batch([[1, 0], [0, 1], [1, 1]], 99)
        states = {
            check_answer(answer, query)
            for answer, query in zip(batch, (0, math.pi / 2, math.pi / 4), strict=True)
        }
        assert len(states) == 1
        (state,) = states
        assert newest <= one[0] <= state[0]
        newest = state[0]
        sizes |= {one[1], state[1]}
        answers += 1
    return newest, sizes


def look_up_often(index, stop):
    newest = 0
    while not stop.is_set():
        for key in BASE:
            assert key in index
            payload = index.payload(key)
            assert payload["key"] == key
            assert payload["version"] >= newest
            newest = payload["version"]
            turned = math.atan2(*index.vector(key)[::-1])
            assert angle(key, newest) - 1e-6 < turned < angle(key, VERSIONS) + 1e-6
        assert set(index.keys) in (set(BASE), set(BASE + GUESTS))
        assert len(index) in (len(BASE), len(BASE + GUESTS))
        with contextlib.suppress(EntryError):
            assert index.payload(GUESTS[3])["key"] == GUESTS[3]
    return newest


@pytest.fixture
def eager_switching():
    """Threads take turns a hundred times as often."""
    interval = sys.getswitchinterval()
    sys.setswitchinterval(5e-5)
    yield
    sys.setswitchinterval(interval)


@pytest.mark.parametrize("backend", ["numpy", "torch", "mirror"])
def test_every_answer_is_of_one_state(eager_switching, backend):
    index = EmbeddingIndex(2, backend="torch" if backend == "mirror" else backend)
    if backend == "mirror":
        index._searcher._mirror = DeviceMirror("cpu")
    index.add(*entries(BASE, 0))
    stop = threading.Event()
    with ThreadPoolExecutor() as pool:
        readers = [pool.submit(search_often, index, stop) for _ in range(2)]
        readers.append(pool.submit(look_up_often, index, stop))
        write(index, stop)
        results = [reader.result() for reader in readers]
    assert index._table.snapshot.generation > 10  # rows were moved under the readers
    for newest, sizes in results[:2]:
        assert newest > 0
        assert sizes == {len(BASE), len(BASE + GUESTS)}


def test_writers_in_threads_lose_nothing(eager_switching):
    index = EmbeddingIndex(2)

    def writer(name):
        for number in range(60):
            index.add([f"{name}{number}", f"{name}{number}x"], [[1, number], [number + 1, 1]])
            if number % 2:
                index.remove([f"{name}{number}x"])
            index.update([f"{name}{number}"], [[number + 1, 1]], [name])

    with ThreadPoolExecutor(4) as pool:
        list(pool.map(writer, "abcd"))
    assert len(index) == 4 * 90
    assert len(set(index.keys)) == 4 * 90
    assert all(index.payload(f"{name}7") == name for name in "abcd")


def test_one_of_two_writers_of_a_key_is_refused(eager_switching):
    index = EmbeddingIndex(2)

    def writer(number):
        refused = 0
        for key in range(100):
            try:
                index.add([str(key)], [[1, key]], [number])
            except EntryError:
                refused += 1
        return refused

    with ThreadPoolExecutor(3) as pool:
        assert sum(pool.map(writer, range(3))) == 200
    assert len(index) == 100
