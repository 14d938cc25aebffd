"""What every engine promises."""

import asyncio
import math
from contextlib import closing
from dataclasses import dataclass

import numpy as np
import pytest

from llm_serving.cache import CachedEngine
from llm_serving.encoder_engine import EncoderEngine
from llm_serving.engine import BLOCK, MeteredEngine, draw, filled
from llm_serving.errors import EngineStoppedError, UnableError
from llm_serving.request import EncodedPrompt, Message, Request, Sampling, ScoreRequest, Usage
from llm_serving.scripted import ScriptedEngine
from llm_serving.stores import ResponseCache

CHAT = (Message("system", "Be brief."), Message("user", "Is the sky blue? Yes or No?"))
WARM = Sampling(temperature=1.0, max_tokens=6, seed=7)


@dataclass(frozen=True)
class YesOrNo:
    regex: str = "Yes|No"
    max_tokens: int = 4


def scripted():
    return ScriptedEngine(
        lambda request: "Yes" if request.constraint else f"draw {request.sample}",
        score=lambda _, choices: [-float(len(choice)) for choice in choices],
    )


@pytest.fixture(params=["vllm", "vllm, cached", "scripted", "scripted, cached"])
def asked(request, tmp_path):
    """An engine that answers questions."""
    kind, _, around = request.param.partition(", ")
    inner = request.getfixturevalue("engine") if kind == "vllm" else scripted()
    with closing(ResponseCache(tmp_path / "responses.sqlite")) as cache:
        yield CachedEngine(inner, cache) if around else inner


async def test_an_answer_tells_what_it_cost_and_is_counted_under_its_role(asked):
    meter = MeteredEngine(asked)
    request = Request(prompt=CHAT, role="ask", constraint=YesOrNo())
    answer, other = await asyncio.gather(
        meter.generate(request), meter.generate(Request(prompt="No?", role="another"))
    )
    assert answer.text in {"Yes", "No"}
    assert (answer.finish, answer.usage.calls) == ("stop", 1)
    assert answer.usage.prompt_tokens == len(asked.encode(CHAT).token_ids)
    assert answer.usage.completion_tokens == len(answer.token_ids) >= 1
    assert answer.usage.seconds > 0
    assert meter.usage == {"ask": answer.usage, "another": other.usage}
    assert other.usage.prompt_tokens == len(asked.encode("No?").token_ids)


def test_decoding_is_the_inverse_of_encoding(asked):
    for text in ("Is the sky blue?", "  Où? 🐄\n"):
        assert asked.decode(asked.encode(text).token_ids) == text
    decoded = asked.decode(asked.encode(CHAT).token_ids)
    places = [decoded.index(message.content) for message in CHAT]
    assert places == sorted(places)
    assert decoded.startswith(asked.decode(asked.encode(CHAT).token_ids[:6]))


async def test_an_encoded_prompt_is_the_same_question(asked):
    encoded = asked.encode(CHAT)
    assert isinstance(encoded, EncodedPrompt)
    assert asked.encode(encoded) is encoded
    texts = [
        (await asked.generate(Request(prompt=prompt, sampling=Sampling(max_tokens=4)))).text
        for prompt in (CHAT, encoded)
    ]
    assert texts[0] == texts[1]


async def test_seeded_draws_differ_and_repeat(asked):
    request = Request(prompt=CHAT, sampling=WARM)
    first, again = await draw(asked, request, 4), await draw(asked, request, 4)
    assert [completion.text for completion in first] == [completion.text for completion in again]
    assert len({completion.text for completion in first}) > 1


@pytest.mark.parametrize("kind", ["answers", "labels"])
async def test_choices_have_likelihoods_that_are_counted(asked, kind):
    meter = MeteredEngine(asked)
    scores = await meter.score(ScoreRequest(CHAT, ("Yes", "No", "Yes"), kind=kind, role="r"))
    assert len(scores.logprobs) == 3
    assert scores.logprobs[0] == scores.logprobs[2]
    assert sum(map(math.exp, scores.logprobs[:2])) <= 1
    assert scores.usage.calls == 1
    assert meter.usage == {"r": scores.usage}


async def test_embeddings_are_unit_vectors_of_the_texts_alone(asked):
    await embeds(asked)


async def test_an_encoder_embeds_and_refuses_every_question(text_encoder):
    engine = EncoderEngine(text_encoder)
    await embeds(engine)
    for question in (
        engine.generate(Request(prompt="What?")),
        engine.score(ScoreRequest("What?", ("yes", "no"))),
        engine.score(ScoreRequest("What?", ("1", "2"), kind="labels")),
    ):
        with pytest.raises(UnableError, match=r"'none' (answers no questions|gives no log-prob)"):
            await question
    with pytest.raises(UnableError):
        engine.encode("What?")
    await engine.aclose()
    assert text_encoder.encode(["iron"]).shape == (1, 384), "its owner closes it"
    owned = EncoderEngine()
    await owned.aclose()
    with pytest.raises(EngineStoppedError):
        await owned.embed(["iron"])


async def embeds(engine):
    engine = MeteredEngine(engine)
    vectors = await engine.embed(["iron", "gold", "iron"], role="match")
    assert vectors.dtype == np.float32
    assert vectors.shape[0] == 3
    assert np.allclose(np.linalg.norm(vectors, axis=1), 1, atol=1e-5)
    assert np.array_equal(vectors[0], vectors[2])
    assert float(vectors[0] @ vectors[1]) < 0.9
    assert (await engine.embed([], role="match")).shape == (0, vectors.shape[1])
    assert engine.usage == {"match": Usage(calls=2)}


@pytest.mark.parametrize("around", [None, CachedEngine])
async def test_closing_fails_those_who_wait_and_those_who_come(tmp_path, around):
    inner = ScriptedEngine(lambda _: "x", delay=lambda _: 30, score=lambda _, c: [0.0] * len(c))
    cache = ResponseCache(tmp_path / "responses.sqlite")
    engine = around(inner, cache) if around else inner
    waiting = asyncio.create_task(engine.generate(Request(prompt="x")))
    await asyncio.sleep(0.005)
    await engine.aclose()
    for late in (
        waiting,
        engine.generate(Request(prompt="x")),
        engine.score(ScoreRequest("x", ("a",))),
    ):
        with pytest.raises(EngineStoppedError):
            await late
    with pytest.raises(EngineStoppedError):
        await engine.embed([])
    cache.close()


async def test_a_metered_engine_leaves_the_shared_one_open():
    engine = scripted()
    metered = MeteredEngine(engine)
    await metered.aclose()
    await metered.generate(Request(prompt="x"))
    await engine.generate(Request(prompt="x"))
    assert metered.identity is engine.identity
    assert metered.usage["default"].calls == 1


# --- prompts that end where the prefix cache's blocks do -----------------------------------------


def test_a_filled_prompt_ends_one_token_into_a_block():
    engine = scripted()
    for size in range(2 * BLOCK):
        prompt = filled(engine, lambda length, size=size: "a" * size + "." * length)
        assert len(prompt.token_ids) % BLOCK == 1
        assert 1 <= len(prompt.token_ids) - size <= BLOCK


def test_where_filler_has_other_lengths_the_least_of_it_is_taken():
    engine = scripted()
    prompt = filled(engine, lambda length: "abc" + ".." * length)
    assert prompt == engine.encode("abc..")
