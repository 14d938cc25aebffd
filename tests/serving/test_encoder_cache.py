import hashlib
import os
import sqlite3
import subprocess
import sys
from types import SimpleNamespace

import numpy as np
import pytest

from llm_planning.session import open_engine, open_uncached_engine
from llm_serving import encoder as encoder_module
from llm_serving.cache import ResponseCache
from llm_serving.cache_file import CacheError, UnreadableCacheError, remove_cache_file
from llm_serving.encoder import TextEncoder
from llm_serving.errors import EncoderError
from llm_serving.vector_store import EncoderIdentity, VectorCache, vector_cache_path

TINY = EncoderIdentity("tiny", "r1")
TEXTS = ("fridge", "kitchen table", "on the kitchen table", "東京 🍎", "fridge ")


def unit(*values):
    vector = np.array(values, np.float32)
    return vector / np.linalg.norm(vector)


@pytest.fixture
def path(tmp_path):
    return tmp_path / "deep" / "vectors.sqlite"


@pytest.fixture
def cache(path):
    opened = VectorCache(path)
    yield opened
    opened.close()


# --- the file ------------------------------------------------------------------------------------


def test_vectors_come_back_bit_for_bit(cache):
    vectors = {text: unit(1, i, -0.1, 1e-30) for i, text in enumerate(TEXTS)}
    assert cache.get(TINY, TEXTS) == {}
    assert cache.dimension(TINY) is None
    assert cache.put(TINY, vectors).keys() == vectors.keys()
    assert cache.put(TINY, {}) == {}
    kept = cache.get(TINY, [*TEXTS, "unknown"])
    assert kept.keys() == vectors.keys()
    for text, vector in vectors.items():
        assert kept[text].dtype == np.float32
        assert kept[text].tobytes() == vector.tobytes()
    assert cache.dimension(TINY) == 4


def test_the_key_is_the_revision_and_the_texts_sha256(cache, path):
    cache.put(TINY, {"fridge": unit(1, 2)})
    assert "fridge" in cache.get(EncoderIdentity("another name", "r1"), ["fridge"])
    assert cache.get(EncoderIdentity("tiny", "r2"), ["fridge"]) == {}
    with sqlite3.connect(path) as connection:
        ((digest, vector),) = connection.execute("SELECT text, vector FROM vectors").fetchall()
    connection.close()
    assert digest == hashlib.sha256(b"fridge").digest()
    assert vector[:8] == unit(1, 2).astype("<f4").tobytes()


def test_the_first_vector_of_a_text_stands(path):
    ours, theirs = VectorCache(path), VectorCache(path)
    first, second = unit(1, 2), unit(2, 1)
    assert (ours.put(TINY, {"a": first})["a"] == first).all()
    stands = theirs.put(TINY, {"b": second, "a": second})
    assert (stands["a"] == first).all()
    assert (stands["b"] == second).all()
    assert theirs.stats().entries == 2
    ours.close()
    theirs.close()


def test_more_texts_than_one_statement_takes(cache):
    vectors = {f"thing {i}": unit(1, i) for i in range(1234)}
    cache.put(TINY, vectors)
    kept = cache.get(TINY, vectors)
    assert len(kept) == 1234
    assert all((kept[text] == vector).all() for text, vector in vectors.items())


def test_stats_by_encoder_and_clear(cache):
    other = EncoderIdentity("large", "r2")
    cache.put(TINY, {f"thing {i}": unit(*range(1, 9)) for i in range(400)})
    cache.put(other, {"a": unit(1, 2)})
    before = cache.stats()
    assert [(e.name, e.revision, e.dimension, e.entries, e.bytes) for e in before.encoders] == [
        ("tiny", "r1", 8, 400, 400 * 36),
        ("large", "r2", 2, 1, 12),
    ]
    assert (before.entries, before.bytes) == (401, 400 * 36 + 12)
    assert before.file_bytes > before.bytes
    cache.clear()
    after = cache.stats()
    assert (after.entries, after.encoders) == (0, ())
    assert after.file_bytes < before.file_bytes
    cache.put(other, {"a": unit(1, 2)})
    assert cache.stats().encoders[0].name == "large"


@pytest.mark.parametrize(
    "damage",
    [
        "substr(vector, 1, 4)",
        "zeroblob(8)",
        "x'0000c07f0000c07f'",  # NaN
        "x'0000803f0000803f'",  # of length 1.41
    ],
)
def test_a_damaged_vector_names_the_remedy(cache, path, damage):
    cache.put(TINY, {"a": unit(1, 2), "b": unit(2, 1)})
    with sqlite3.connect(path) as connection:
        connection.execute(f"UPDATE vectors SET vector = {damage} WHERE id = 2")
    connection.close()
    assert cache.get(TINY, ["a"]).keys() == {"a"}
    with pytest.raises(UnreadableCacheError, match="clear --only vectors`, or run with") as caught:
        cache.get(TINY, ["a", "b"])
    assert f"the vector cache {path} holds a damaged vector" in str(caught.value)


def test_other_files_are_refused_untouched(tmp_path):
    garbage, responses = tmp_path / "garbage.sqlite", tmp_path / "responses.sqlite"
    garbage.write_bytes(b"not a database, " * 300)
    ResponseCache(responses).close()
    for file, said in ((garbage, "no SQLite database"), (responses, "another program's")):
        before = file.read_bytes()
        with pytest.raises(UnreadableCacheError, match=said):
            VectorCache(file)
        assert file.read_bytes() == before
    remove_cache_file(garbage)
    VectorCache(garbage).close()
    with pytest.raises(UnreadableCacheError, match=r"the response cache .* is another program's"):
        ResponseCache(garbage)


def test_a_failed_put_leaves_nothing(cache, path):
    with sqlite3.connect(path) as connection:
        connection.execute(
            "CREATE TRIGGER full BEFORE INSERT ON vectors "
            "WHEN (SELECT count(*) FROM vectors) >= 2 "
            "BEGIN SELECT RAISE(ABORT, 'no room'); END"
        )
    connection.close()
    with pytest.raises(CacheError, match="no room"):
        cache.put(TINY, {f"thing {i}": unit(1, i) for i in range(5)})
    assert cache.stats().entries == 0
    cache.put(TINY, {"a": unit(1, 2)})
    assert cache.stats().entries == 1


def test_the_default_path_is_in_the_cache_folder(tmp_path, monkeypatch):
    monkeypatch.setenv("LLM_PLANNING_CACHE", str(tmp_path))
    assert vector_cache_path() == tmp_path / "vectors.sqlite"


# --- the encoder ---------------------------------------------------------------------------------


@pytest.fixture
def embedded(text_encoder):
    """The vectors of `TEXTS`, in the cache from now on."""
    return text_encoder.encode(TEXTS)


@pytest.fixture
def unloadable(monkeypatch):
    """No model can be loaded: whatever has a vector has it from the cache."""

    def refuse(found):
        raise AssertionError(f"{found.name} was loaded")

    monkeypatch.setattr(encoder_module, "_load", refuse)


async def test_a_cached_vector_is_given_ever_after(text_encoder, embedded, unloadable):
    again = TextEncoder(cache=text_encoder._cache_path)
    assert again.dimension == 384
    assert again.encode([]).shape == (0, 384)
    assert again.encode(TEXTS[::-1])[::-1].tobytes() == embedded.tobytes()
    for text, vector in zip(TEXTS, embedded, strict=True):
        assert again.encode([text])[0].tobytes() == vector.tobytes()
    assert (await again.embed(TEXTS)).tobytes() == embedded.tobytes()
    with pytest.raises(AssertionError, match="was loaded"):
        again.encode(["a text that nobody has embedded"])
    again.close()


def test_only_what_is_missing_is_computed(text_encoder, monkeypatch):
    text_encoder.encode(["known one", "known two"])
    computed = []
    compute = text_encoder._forward
    monkeypatch.setattr(
        text_encoder, "_forward", lambda texts: computed.extend(texts) or compute(texts)
    )
    told = []
    text_encoder.encode(["known one", "new", "known two", "new"], report=told.append)
    assert computed == ["new"]
    assert told == [2, 3]


def test_another_process_reads_the_same_bits_without_torch(text_encoder, embedded):
    code = (
        "import sys\n"
        "from pathlib import Path\n"
        "from llm_serving.encoder import TextEncoder\n"
        "encoder = TextEncoder(cache=Path(sys.argv[1]))\n"
        "sys.stdout.buffer.write(encoder.encode(sys.argv[2:]).tobytes())\n"
        "encoder.close()\n"
        "assert 'torch' not in sys.modules\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", code, str(text_encoder._cache_path), *TEXTS],
        capture_output=True,
        check=True,
    )
    assert done.stdout == embedded.tobytes()


def test_a_damaged_cache_is_told_and_left(tmp_path):
    path = tmp_path / "vectors.sqlite"
    path.write_bytes(b"no database at all" * 100)
    opened = TextEncoder(cache=path)
    with pytest.raises(UnreadableCacheError, match="llm-planning cache clear --only vectors"):
        opened.encode(["fridge"])
    assert path.stat().st_size == 1800
    opened.close()


def test_the_shared_cache_is_opened_at_the_first_text(tmp_path, monkeypatch, unloadable):
    monkeypatch.setenv("LLM_PLANNING_CACHE", str(tmp_path))
    shared, none = TextEncoder(), TextEncoder(cache=None)
    assert shared._cache_path == tmp_path / "vectors.sqlite"
    assert none._cache_path is None
    shared.close()
    none.close()
    assert list(tmp_path.iterdir()) == []


def test_what_was_computed_before_an_error_is_kept(tmp_path):
    opened = TextEncoder(cache=tmp_path / "vectors.sqlite")
    opened._model = SimpleNamespace(
        tokenizer=lambda texts, **_: {"input_ids": [[0] * 256 for _ in texts]},
        max_seq_length=256,
        device=SimpleNamespace(type="cpu"),
        encode=lambda texts, **_: 1 / 0 if "thing 9" in texts else np.tile(unit(1, 2), (4, 1)),
    )
    with pytest.raises(EncoderError, match="division by zero"):
        opened.encode([f"thing {i}" for i in range(12)])
    # Batches of four: those before the one that failed.
    assert opened._opened().stats().entries == 8
    opened.close()


def test_an_engine_embeds_through_the_shared_cache(tmp_path, monkeypatch):
    made = []

    class Engine:
        def __init__(self, config, *, encoder=None):
            made.append(encoder)

        def close(self):
            pass

    monkeypatch.setenv("LLM_PLANNING_CACHE", str(tmp_path))
    monkeypatch.setattr("llm_serving.vllm_engine.VllmEngine", Engine)
    with open_engine("smollm2-135m-instruct"):
        assert made[0]._cache_path == tmp_path / "vectors.sqlite"
        assert not made[0]._closed
    assert made[0]._closed
    with open_uncached_engine("smollm2-135m-instruct"):
        assert made[1] is None


# --- several processes ---------------------------------------------------------------------------

WORKER = """
import hashlib, sys
from pathlib import Path
from types import SimpleNamespace
import numpy as np
from llm_serving.encoder import TextEncoder
from llm_serving.errors import EncoderError

def vector(text):
    numbers = np.frombuffer(hashlib.sha512(text.encode()).digest(), np.uint8) - 127.5
    return (numbers / np.linalg.norm(numbers)).astype(np.float32)

class Model:
    device, max_seq_length = SimpleNamespace(type="cpu"), 256
    def tokenizer(self, texts, **_):
        return {"input_ids": [[0] * 128 for _ in texts]}
    def encode(self, texts, **_):
        return np.stack([vector(text) for text in texts])

path, first, last = Path(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3])
encoder = TextEncoder(sys.argv[4], cache=path)
encoder._model = Model()
sys.stdin.readline()
for start in range(first, last, 100):
    texts = [f"thing {i}" for i in range(start, min(start + 100, last))]
    vectors = encoder.encode(texts, report=lambda number: print(start + number, flush=True))
    assert all((row == vector(text)).all() for row, text in zip(vectors, texts)), start
"""


@pytest.fixture
def weights(tmp_path):
    """A folder that passes for a model: its revision is all that is asked of it."""
    folder = tmp_path / "weights"
    folder.mkdir()
    (folder / "config.json").write_text("{}")
    return str(folder)


def start_worker(path, first, last, weights):
    return subprocess.Popen(
        [sys.executable, "-c", WORKER, str(path), str(first), str(last), weights],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )


def go(worker):
    worker.stdin.write("go\n")
    worker.stdin.flush()


def vector_of(text):
    numbers = np.frombuffer(hashlib.sha512(text.encode()).digest(), np.uint8) - 127.5
    return (numbers / np.linalg.norm(numbers)).astype(np.float32)


def kept_by_workers(path, weights, last):
    """Numbers of the texts that have a vector, each checked, in a file that is whole."""
    opened, reader = VectorCache(path), TextEncoder(weights, cache=None)
    kept = opened.get(reader.identity, [f"thing {i}" for i in range(last)])
    opened.close()
    reader.close()
    assert all((vector == vector_of(text)).all() for text, vector in kept.items())
    with sqlite3.connect(path) as connection:
        assert connection.execute("PRAGMA integrity_check").fetchone() == ("ok",)
        assert connection.execute("PRAGMA journal_mode").fetchone() == ("wal",)
    connection.close()
    return {int(text.split()[1]) for text in kept}


def test_processes_create_and_fill_one_file_together(path, weights):
    workers = [start_worker(path, first, last, weights) for first, last in ((0, 900), (300, 1200))]
    for worker in workers:
        go(worker)
    for worker in workers:
        worker.communicate(timeout=60)
    assert [worker.returncode for worker in workers] == [0, 0]
    assert kept_by_workers(path, weights, 1300) == set(range(1200))


def test_a_killed_process_loses_one_batch_and_disturbs_nobody(path, weights):
    killed = start_worker(path, 0, 1_000_000, weights)
    other = start_worker(path, 5_000, 6_000, weights)
    go(killed)
    done = [int(killed.stdout.readline()) for _ in range(60)]
    go(other)
    done += [int(killed.stdout.readline()) for _ in range(60)]
    killed.kill()
    with killed:
        done += [int(line) for line in killed.stdout.read().splitlines()]
    other.communicate(timeout=60)
    assert (killed.returncode, other.returncode) == (-9, 0)
    kept = kept_by_workers(path, weights, 7_000)
    assert set(range(5_000, 6_000)) <= kept
    # Batches are of eight texts; the one under way when the kill came may be there too.
    assert set(range(max(done))) <= kept
    assert len(kept - set(range(max(done))) - set(range(5_000, 6_000))) in {0, 4, 8}


def test_a_forked_child_is_told_to_open_its_own(cache, monkeypatch):
    monkeypatch.setattr(os, "getpid", lambda: -1)
    with pytest.raises(CacheError, match=r"the vector cache .* open it in the child process"):
        cache.get(TINY, ["a"])
