import hashlib
import shutil
import subprocess
import sys
import tempfile
from contextlib import closing
from pathlib import Path
from types import SimpleNamespace
from unittest.mock import Mock

import numpy as np
import pytest
from killing import apart, at_call, in_memory, kill_everywhere
from safetensors.numpy import save_file

from llm_planning.model_configs import open_engine, open_engines, open_uncached_engine
from llm_serving import encoder as encoder_module
from llm_serving.cache_file import UnreadableCacheError
from llm_serving.encoder import TextEncoder
from llm_serving.errors import EncoderError
from llm_serving.request import ModelIdentity
from llm_serving.stores import VectorCache

TEXTS = ("fridge", "kitchen table", "on the kitchen table", "東京 🍎", "fridge ")


def tokenizer_of(tokens):
    """Takes every text for so many known tokens."""
    known = SimpleNamespace(unk_token_id=None)
    return Mock(known, side_effect=lambda texts, **_: {"input_ids": [[0] * tokens for _ in texts]})


@pytest.fixture
def embedded(text_encoder):
    """The vectors of `TEXTS`, in the cache from now on."""
    return text_encoder.encode(TEXTS)


@pytest.fixture
def unloadable(monkeypatch):
    """No model can be loaded: every vector comes from the cache."""

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
    counts = []
    text_encoder.encode(["known one", "new", "known two", "new"], report=counts.append)
    assert computed == ["new"]
    assert counts == [2, 3]


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
    path = tmp_path / "vectors-2.sqlite"
    path.write_bytes(b"no database at all" * 100)
    opened = TextEncoder(cache=path)
    with pytest.raises(UnreadableCacheError, match=r"not an SQLite database.*: remove it"):
        opened.encode(["fridge"])
    assert path.stat().st_size == 1800
    opened.close()


def test_the_shared_cache_is_opened_at_the_first_text(tmp_path, monkeypatch, unloadable):
    monkeypatch.setenv("LLM_PLANNING_CACHE", str(tmp_path))
    shared, none = TextEncoder(), TextEncoder(cache=None)
    assert shared._cache_path == tmp_path / "vectors-2.sqlite"
    assert none._cache_path is None
    shared.close()
    none.close()
    assert list(tmp_path.iterdir()) == []


def test_what_was_computed_before_an_error_is_kept(tmp_path):
    opened = TextEncoder(cache=tmp_path / "vectors-2.sqlite")
    opened._model = SimpleNamespace(
        tokenizer=tokenizer_of(256),
        max_seq_length=256,
        device=SimpleNamespace(type="cpu"),
        encode=lambda texts, **_: 1 / 0 if "thing 9" in texts else np.full((4, 4), 0.5),
    )
    with pytest.raises(EncoderError, match="division by zero"):
        opened.encode([f"thing {i}" for i in range(12)])
    # Batches of four: those before the one that failed.
    assert opened._opened().stats().entries == 8
    opened.close()


def test_an_engine_embeds_through_the_shared_cache(tmp_path, monkeypatch):
    encoders = []

    class Engine:
        identity = ModelIdentity(name="m", revision="1", dtype="none")
        abilities = frozenset()

        def __init__(self, config, *, encoder, beside):
            encoders.append(encoder)

        def close(self):
            pass

    monkeypatch.setenv("LLM_PLANNING_CACHE", str(tmp_path))
    monkeypatch.setattr("llm_serving.vllm_engine.VllmEngine", Engine)
    with open_engine("smollm2-135m-instruct"):
        assert encoders[0]._cache_path == tmp_path / "vectors-2.sqlite"
        assert not encoders[0]._closed
    assert encoders[0]._closed
    with open_uncached_engine("smollm2-135m-instruct"):
        assert encoders[1]._cache_path is None
        assert not encoders[1]._closed
    assert encoders[1]._closed
    with open_engines(["smollm2-135m-instruct", "smollm2-135m-planner"], cached=False):
        assert encoders[2] is encoders[3] is not encoders[1]


# --- killed --------------------------------------------------------------------------------------

THINGS = [f"thing {i}" for i in range(40)]


def vector_of(text):
    numbers = np.frombuffer(hashlib.sha512(text.encode()).digest(), np.uint8) - 127.5
    return (numbers / np.linalg.norm(numbers)).astype(np.float32)


def embed(folder, weights, report_new):
    """Embeds all things, eight of 128 tokens in a batch, and says each that is reported."""
    encoder = TextEncoder(str(weights), cache=folder / "vectors-2.sqlite")
    encoder._model = SimpleNamespace(
        tokenizer=tokenizer_of(128),
        max_seq_length=256,
        device=SimpleNamespace(type="cpu"),
        encode=lambda texts, **_: np.stack([vector_of(text) for text in texts]),
    )
    reported = [0]

    def report(done):
        report_new(done - reported[-1])
        reported.append(done)

    encoder.encode(THINGS, report=report)
    encoder.close()


def kill_at_every_call(place):
    """How often it was killed; an error if a kill lost more than the batch under way."""
    place = Path(place)
    weights = place / "weights"
    weights.mkdir()
    (weights / "config.json").write_text("{}")
    save_file({}, weights / "model.safetensors")
    with closing(TextEncoder(str(weights), cache=None)) as encoder:
        identity = encoder.identity

    def look(number, reported):
        folder = place / str(number)
        with closing(VectorCache(folder / "vectors-2.sqlite")) as cache:
            kept = cache.get(identity, THINGS)
        assert len(kept) - reported in {0, 8}, (number, len(kept), reported)
        assert kept.keys() == set(THINGS[: len(kept)])
        assert all((kept[text] == vector_of(text)).all() for text in kept)
        shutil.rmtree(folder)

    return kill_everywhere(
        at_call, lambda number, report: embed(place / str(number), weights, report), look
    )


@pytest.mark.kills
def test_a_killed_process_loses_at_most_the_batch_under_way():
    with tempfile.TemporaryDirectory(dir=in_memory()) as place:
        assert apart(kill_at_every_call, place) > 20
