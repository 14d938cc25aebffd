import asyncio
import logging
import socket
import subprocess
import sys
import threading

import numpy as np
import pytest

from llm_serving import encoder as encoder_module
from llm_serving.encoder import TextEncoder
from llm_serving.errors import EncoderError, EngineStoppedError, TextError, UnknownModelError
from llm_serving.models import resolve

PHRASES = (
    "a cup of tea",
    "a mug of coffee",
    "the stock market fell sharply on Monday after the bank had raised its rates once more",
    "fridge",
    "put one apple on the kitchen table and one plate inside the dishwasher",
    "KitchenTable",
    "naïve café, 東京, 🍎",
)


@pytest.fixture(scope="module")
def plain():
    """The real encoder without a cache: every vector is computed."""
    opened = TextEncoder(cache=None)
    yield opened
    opened.close()


@pytest.fixture
def forwarded(plain, monkeypatch):
    """The batches that the model was given."""
    batches = []
    compute = plain._forward

    def spy(texts):
        batches.append(list(texts))
        return compute(texts)

    monkeypatch.setattr(plain, "_forward", spy)
    return batches


# --- vectors -------------------------------------------------------------------------------------


def test_texts_that_spell_special_tokens_hold_none(plain):
    tokenizer = plain._loaded().tokenizer
    (spelled,) = tokenizer(["iron [SEP] [MASK] [PAD]"])["input_ids"]
    assert [token for token in spelled if token in tokenizer.all_special_ids] == [
        spelled[0],
        spelled[-1],
    ]
    padded, masked = plain.encode(["iron [PAD]", "iron [MASK]"])
    assert padded @ masked < 0.99


def test_vectors_are_unit_rows_of_meaning(plain):
    vectors = plain.encode(PHRASES)
    assert vectors.shape == (len(PHRASES), 384)
    assert vectors.dtype == np.float32
    assert plain.dimension == 384
    assert np.abs(np.linalg.norm(vectors.astype(np.float64), axis=1) - 1).max() < 1e-6
    tea, coffee, market = vectors[:3]
    assert tea @ coffee > 0.5
    assert tea @ market < 0.2


def test_vectors_are_those_of_sentence_transformers(plain):
    plain.encode(["load"])
    expected = plain._model.encode(list(PHRASES), normalize_embeddings=True)
    assert np.abs(plain.encode(PHRASES) - expected).max() < 1e-6


def test_equal_texts_are_encoded_once(plain, forwarded):
    vectors = plain.encode(["fridge", "oven", "fridge", "fridge", "oven"])
    assert sorted(text for batch in forwarded for text in batch) == ["fridge", "oven"]
    assert (vectors[0] == vectors[2]).all()
    assert (vectors[1] == vectors[4]).all()
    assert not (vectors[0] == vectors[1]).all()


def test_a_vector_depends_on_its_batch_by_float_noise_alone(plain):
    together = plain.encode(PHRASES)
    alone = np.concatenate([plain.encode([text]) for text in PHRASES])
    reversed_order = plain.encode(PHRASES[::-1])[::-1]
    assert np.abs(together - alone).max() < 1e-6
    assert np.abs(together - reversed_order).max() < 1e-6
    # The same call gives the same bits.
    assert (plain.encode(PHRASES) == together).all()


def test_no_texts_are_no_rows(tmp_path):
    opened = TextEncoder(cache=tmp_path / "vectors.sqlite")
    assert opened.encode([]).shape == (0, 384)
    assert opened.dimension == 384
    opened.close()


def test_batches_are_sorted_by_tokens_and_bounded(plain):
    # Sorted by characters, long words would lie between rows of letters that have more tokens.
    texts = [f"{'a b c d e f g h i j k l'[: 9 + 2 * (i % 8)]} {i}" for i in range(400)]
    words = ("international", "responsibilities", "administration", "understanding")
    texts += [f"{words[i % 4]} {i}" for i in range(400)]
    batches = list(plain._batches(texts))
    assert sorted(text for batch in batches for text in batch) == sorted(texts)
    lengths = [tokens_of(plain, batch) for batch in batches]
    flat = [length for batch in lengths for length in batch]
    assert flat == sorted(flat, reverse=True)
    padded = [max(batch) * len(batch) for batch in lengths]
    assert max(padded) <= 1024
    assert max(len(batch) for batch in batches) > 100
    assert sum(padded) < 1.1 * sum(flat)
    by_characters = tokens_of(plain, sorted(texts, key=len, reverse=True))
    thirty_twos = [by_characters[start : start + 32] for start in range(0, len(texts), 32)]
    assert sum(max(batch) * len(batch) for batch in thirty_twos) > 1.2 * sum(flat)


def tokens_of(encoder, texts):
    return [len(ids) for ids in encoder._model.tokenizer(texts)["input_ids"]]


def test_progress_counts_distinct_texts(plain):
    counts = []
    plain.encode(
        [f"thing {i} of many words to fill a batch {i}" for i in range(100)] * 2,
        report=counts.append,
    )
    assert counts[0] == 0
    assert counts[-1] == 100
    assert len(counts) > 2
    assert counts == sorted(counts)


def test_what_is_too_long_is_said(plain, caplog):
    words = "apple " * 300
    with caplog.at_level(logging.WARNING):
        cut, other = plain.encode([words + "banana", words + "a stock market"])
    assert (cut == other).all()
    assert "2 of 2 texts have more tokens than the 256" in caplog.text
    caplog.clear()
    plain.encode(["apple " * 250])
    assert caplog.text == ""


def test_words_that_the_model_does_not_know_are_said(plain, caplog):
    with caplog.at_level(logging.WARNING):
        fish, stone, _ = plain.encode(["ត្រី", "ថ្ម", "a fish"])
    assert fish @ stone == pytest.approx(1.0)
    assert "2 of 3 texts have words that all-minilm-l6-v2 does not know" in caplog.text
    caplog.clear()
    plain.encode(["São Paulo, naïve café — 5 €"])
    assert caplog.text == ""


@pytest.mark.parametrize(
    ("texts", "message"),
    [
        (["apple", ""], "text 1 is empty"),
        ([" \n\t"], "text 0 is empty"),
        (["apple", 3], "text 1 is a int, not a string: 3"),
        (["\ud800"], "text 0 is not valid Unicode"),
        ("apple", "a list of strings, not the string 'apple'"),
    ],
)
async def test_texts_without_a_vector_are_refused(plain, forwarded, texts, message):
    with pytest.raises(TextError, match=message):
        plain.encode(texts)
    with pytest.raises(ValueError, match=message):
        await plain.embed(texts)
    assert forwarded == []


def test_vectors_that_are_no_numbers_are_refused(plain, monkeypatch):
    plain.encode(["load"])
    monkeypatch.setattr(plain._model, "encode", lambda texts, **_: np.full((1, 384), np.nan))
    with pytest.raises(EncoderError, match="gives NaN or Inf"):
        plain.encode(["apple"])


# --- many callers --------------------------------------------------------------------------------


async def test_callers_who_wait_together_share_batches(plain, forwarded):
    texts = [f"thing {i % 40}" for i in range(80)]
    answers = await asyncio.gather(*(plain.embed([text]) for text in texts), plain.embed([]))
    assert answers.pop().shape == (0, 384)
    # The first caller may go alone; the others wait for it together.
    assert len(forwarded) <= 4
    assert {text for batch in forwarded for text in batch} == set(texts)
    expected = plain.encode(texts)
    for answer, row in zip(answers, expected, strict=True):
        assert answer.shape == (1, 384)
        assert np.abs(answer[0] - row).max() < 1e-6


async def test_a_cancelled_caller_leaves_the_others_their_answer(plain):
    callers = [asyncio.create_task(plain.embed([f"thing {i}"])) for i in range(5)]
    await asyncio.sleep(0)
    callers[0].cancel()
    callers[3].cancel()
    answers = await asyncio.gather(*callers, return_exceptions=True)
    assert [isinstance(answer, np.ndarray) for answer in answers] == [
        False,
        True,
        True,
        False,
        True,
    ]


async def test_an_error_reaches_everybody_who_waits(plain, monkeypatch):
    def fail(texts):
        raise MemoryError(f"no room for {len(texts)} texts")

    with monkeypatch.context() as patched:
        patched.setattr(plain, "_forward", fail)
        answers = await asyncio.gather(
            *(plain.embed([f"thing {i}"]) for i in range(3)), return_exceptions=True
        )
    assert [type(answer) for answer in answers] == [MemoryError] * 3
    assert (await plain.embed(["apple"])).shape == (1, 384)


def test_many_threads_share_one_encoder(plain):
    expected = plain.encode(PHRASES)
    wrong = []

    def work(start):
        order = [*range(start, len(PHRASES)), *range(start)]
        vectors = plain.encode([PHRASES[i] for i in order])
        if np.abs(vectors - expected[order]).max() > 1e-6:
            wrong.append(start)

    threads = [threading.Thread(target=work, args=(start,)) for start in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert wrong == []


async def test_a_closed_encoder_says_so(tmp_path):
    closed = TextEncoder(cache=tmp_path / "v.sqlite")
    closed.close()
    closed.close()
    with pytest.raises(EngineStoppedError, match="was closed"):
        closed.encode(["apple"])
    with pytest.raises(EngineStoppedError, match="was closed"):
        await closed.embed(["apple"])


async def test_closing_waits_for_those_who_wait(plain, monkeypatch):
    opened = TextEncoder(cache=None)
    monkeypatch.setattr(opened, "_model", plain._model or plain._loaded())
    waiting = [asyncio.create_task(opened.embed([f"thing {i}"])) for i in range(4)]
    await asyncio.sleep(0)
    await asyncio.to_thread(opened.close)
    assert [answer.shape for answer in await asyncio.gather(*waiting)] == [(1, 384)] * 4


# --- loading -------------------------------------------------------------------------------------


def test_loading_touches_no_network(monkeypatch):
    def refuse(*_, **__):
        raise AssertionError("the network was asked")

    opened = TextEncoder(cache=None)
    identity = opened.identity
    monkeypatch.setattr(socket, "getaddrinfo", refuse)
    monkeypatch.setattr(socket.socket, "connect", refuse)
    assert opened.encode(["apple"]).shape == (1, 384)
    assert identity.name == "all-minilm-l6-v2"
    opened.close()


def test_a_folder_is_an_encoder_by_its_absolute_path(monkeypatch):
    folder = resolve("all-minilm-l6-v2").path
    monkeypatch.chdir(folder.parent)
    opened = TextEncoder(folder.name, cache=None)
    assert opened.identity.name == str(folder.resolve())
    assert len(opened.identity.revision) == 64
    assert opened._loaded().device.type in {"cpu", "cuda"}
    opened.close()


def test_a_model_that_is_no_sentence_encoder_is_refused(tmp_path):
    (tmp_path / "config.json").write_text('{"model_type": "bert"}')
    (tmp_path / "model.safetensors").write_bytes((2).to_bytes(8, "little") + b"{}")
    opened = TextEncoder(str(tmp_path), cache=None)
    with pytest.raises(EncoderError, match=r"has no modules\.json"):
        opened.encode(["apple"])
    (tmp_path / "modules.json").write_text("[{]")
    with pytest.raises(UnknownModelError, match=r"modules\.json is damaged: it is not JSON"):
        opened.encode(["apple"])
    (tmp_path / "modules.json").write_text("[]")
    with pytest.raises(EncoderError, match="cannot be used as a sentence encoder"):
        opened.encode(["apple"])
    opened.close()


def test_an_unknown_encoder_is_named():
    opened = TextEncoder("all-minilm", cache=None)
    with pytest.raises(UnknownModelError, match="did you mean all-minilm-l6-v2"):
        opened.encode(["apple"])
    opened.close()


def test_importing_the_encoder_is_quick():
    code = (
        "import sys, llm_serving.encoder, llm_serving.name_matcher\n"
        "print({'torch', 'transformers', 'sentence_transformers'} & set(sys.modules))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "set()"


def test_weights_in_half_precision_are_computed_in_single(monkeypatch):
    import torch
    from sentence_transformers import SentenceTransformer

    half = SentenceTransformer(str(resolve("all-minilm-l6-v2").path), local_files_only=True).half()
    monkeypatch.setattr("sentence_transformers.SentenceTransformer", lambda *_, **__: half)
    loaded = encoder_module._load(resolve("all-minilm-l6-v2"))
    assert {parameter.dtype for parameter in loaded.parameters()} == {torch.float32}
