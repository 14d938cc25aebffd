"""Questions that were answered before: their keys, and the engine that replays the answers."""

import asyncio
import hashlib
import json
from dataclasses import dataclass, replace
from types import SimpleNamespace

import pytest

from llm_serving.cache import CachedEngine, request_key
from llm_serving.engine import MeteredEngine, draw
from llm_serving.errors import EngineStoppedError
from llm_serving.request import (
    Completion,
    EncodedPrompt,
    Image,
    Message,
    ModelIdentity,
    Request,
    Sampling,
    ScoreRequest,
    Usage,
)
from llm_serving.scripted import ScriptedEngine
from llm_serving.stores import ResponseCache

MODEL = ModelIdentity(name="tiny", revision="r1", dtype="float32")
WARM = Sampling(temperature=0.7, seed=5)


@dataclass(frozen=True)
class Language:
    regex: str
    max_tokens: int = 8


@pytest.fixture
def cache(tmp_path):
    cache = ResponseCache(tmp_path / "deep" / "responses.sqlite")
    yield cache
    cache.close()


# --- keys ----------------------------------------------------------------------------------------

PROMPT = EncodedPrompt((1, 2, 3))


def key_of(identity=MODEL, prompt=PROMPT, **request):
    return request_key(identity, prompt, Request(prompt=prompt, **request))


def test_a_key_leaves_out_what_cannot_change_the_answer():
    greedy = key_of()
    assert len(greedy) == 32
    assert greedy == key_of(role="another")
    assert greedy == key_of(sample=3)
    assert greedy == key_of(sampling=Sampling(seed=9, top_p=0.5))
    assert greedy == key_of(identity=replace(MODEL, name="the same weights by another name"))
    warm = key_of(sampling=WARM)
    assert warm == key_of(sampling=WARM, role="another")
    held = Language("a|b")
    assert key_of(constraint=held) == key_of(constraint=held, sampling=Sampling(max_tokens=7))


def test_a_key_holds_whatever_can_change_the_answer():
    image, other = Image(b"png"), Image(b"jpeg")
    keys = [
        key_of(),
        key_of(identity=replace(MODEL, revision="r2")),
        key_of(identity=replace(MODEL, dtype="bfloat16")),
        key_of(identity=replace(MODEL, engine="V2")),
        key_of(prompt=EncodedPrompt((1, 2, 4))),
        key_of(prompt=EncodedPrompt((1, 2, 3, 0))),
        key_of(prompt=EncodedPrompt((1, 2, 3), (image,))),
        key_of(prompt=EncodedPrompt((1, 2, 3), (other,))),
        key_of(prompt=EncodedPrompt((1, 2, 3), (image, other))),
        key_of(prompt=EncodedPrompt((1, 2, 3), (other, image))),
        key_of(sampling=Sampling(max_tokens=7)),
        key_of(sampling=Sampling(stop=("a",))),
        key_of(sampling=Sampling(stop=("a", "b"))),
        key_of(constraint=Language("a|b")),
        key_of(constraint=Language("a|c")),
        key_of(sampling=WARM),
        key_of(sampling=replace(WARM, seed=6)),
        key_of(sampling=replace(WARM, seed=None)),
        key_of(sampling=replace(WARM, temperature=0.8)),
        key_of(sampling=replace(WARM, top_p=0.9)),
        key_of(sampling=Sampling(presence_penalty=0.5)),
        key_of(sampling=Sampling(frequency_penalty=0.5)),
        key_of(sampling=replace(WARM, frequency_penalty=0.5)),
        key_of(sampling=WARM, sample=1),
        key_of(sampling=replace(WARM, seed=None), sample=1),
        request_key(MODEL, PROMPT, ScoreRequest(PROMPT, ("a", "b"))),
        request_key(MODEL, PROMPT, ScoreRequest(PROMPT, ("b", "a"))),
        request_key(MODEL, PROMPT, ScoreRequest(PROMPT, ("ab",))),
        request_key(replace(MODEL, engine="V2"), PROMPT, ScoreRequest(PROMPT, ("ab",))),
        request_key(MODEL, PROMPT, ScoreRequest(PROMPT, ("a", "b"), kind="labels")),
    ]
    assert len(set(keys)) == len(keys)


def test_a_key_is_the_same_in_every_process():
    # Worked out by hand: two lengths, the header's JSON, the tokens as 32-bit integers.
    head = json.dumps(
        [2, "generate", ["r1", "float32", "V1"], [[0.7, 1.0, 5, 0], [256], []]],
        separators=(",", ":"),
    )
    raw = len(head).to_bytes(8, "little") + (3).to_bytes(8, "little") + head.encode()
    raw += b"".join(token.to_bytes(4, "little") for token in (1, 2, 3))
    identity = replace(MODEL, engine="V1")
    assert key_of(identity=identity, sampling=WARM) == hashlib.sha256(raw).digest()


# --- the engine ----------------------------------------------------------------------------------


def count_up():
    answers = iter(range(1000))
    return lambda _: str(next(answers))


async def test_a_repeated_question_is_replayed(cache, monkeypatch):
    clock, answers = [0.0], count_up()
    monkeypatch.setattr("llm_serving.cache.time", SimpleNamespace(perf_counter=lambda: clock[0]))

    def slow(request):
        clock[0] += 3.0
        return answers(request)

    engine = ScriptedEngine(slow)
    cached = CachedEngine(engine, cache)
    request = Request(prompt="What now?", sampling=WARM, role="propose")
    first = await cached.generate(request)
    again = await cached.generate(replace(request, role="repair"))
    other = await cached.generate(replace(request, sample=1))
    assert (first.text, again.text, other.text) == ("0", "0", "1")
    assert len(engine.requests) == 2
    assert (first.usage.replayed, again.usage.replayed) == (0, 1)
    assert (first.usage.seconds, again.usage.seconds) == (3.0, 0.0)
    assert first.usage.prompt_tokens == len("What now?")
    assert replace(again.usage, replayed=0, seconds=0) == replace(first.usage, seconds=0)
    total = first.usage + again.usage + other.usage
    assert (total.calls, total.replayed, total.prompt_tokens) == (3, 1, 27)


async def test_the_ledgers_of_two_runs_agree(tmp_path):
    async def one_run():
        cache = ResponseCache(tmp_path / "responses.sqlite")
        engine = ScriptedEngine(count_up(), score=lambda _, c: [-1.0] * len(c))
        cached = CachedEngine(engine, cache)
        metered = MeteredEngine(cached)
        chat = (Message("system", "Rules."), Message("user", "State.", (Image(b"png"),)))
        texts = [
            answer.text for answer in await draw(metered, Request(prompt=chat, sampling=WARM), 4)
        ]
        scores = await metered.score(ScoreRequest(chat, ("a", "b")))
        labels = await metered.score(ScoreRequest(chat, ("a", "b"), kind="labels"))
        cache.close()
        asked = len(engine.requests) + len(engine.scored)
        return texts, scores.logprobs, labels.logprobs, metered.usage, asked

    first, second = await one_run(), await one_run()
    assert first[:3] == second[:3]
    assert (first[4], second[4]) == (6, 0)
    for role, usage in second[3].items():
        expected = replace(first[3][role], replayed=usage.calls, seconds=usage.seconds)
        assert usage == expected


async def test_a_prompt_is_tokenised_once(cache):
    class Counting(ScriptedEngine):
        encoded = 0

        def encode(self, prompt):
            self.encoded += not isinstance(prompt, EncodedPrompt)
            return super().encode(prompt)

    engine = Counting(lambda _: "ok", score=lambda _, c: [0.0] * len(c))
    cached = CachedEngine(engine, cache)
    await cached.generate(Request(prompt="hello"))
    await cached.score(ScoreRequest("hello", ("a",)))
    await cached.score(ScoreRequest("hello", ("a",), kind="labels"))
    assert engine.encoded == 3
    assert engine.requests[0].prompt == EncodedPrompt(tuple(b"hello"))


async def test_identical_questions_in_flight_are_one_call(cache):
    engine = ScriptedEngine(count_up(), delay=lambda _: 0.02)
    cached = CachedEngine(engine, cache)
    request = Request(prompt="x", sampling=replace(WARM, seed=None))
    answers = await asyncio.gather(*(cached.generate(request) for _ in range(5)))
    assert {answer.text for answer in answers} == {"0"}
    assert len(engine.requests) == 1
    assert [answer.usage.replayed for answer in answers] == [0, 1, 1, 1, 1]
    assert all(answer.usage.seconds > 0.01 for answer in answers)


async def test_a_cancelled_waiter_leaves_the_others_their_answer(cache):
    engine = ScriptedEngine(count_up(), delay=lambda _: 0.2)
    cached = CachedEngine(engine, cache)
    first, second, third = (
        asyncio.create_task(cached.generate(Request(prompt="x"))) for _ in range(3)
    )
    await asyncio.sleep(0.005)
    first.cancel()
    third.cancel()
    answer = await second
    assert answer.text == "0"
    # The call was made for the first caller; the second one pays.
    assert answer.usage.replayed == 0
    assert first.cancelled()
    assert third.cancelled()
    assert cache.stats().entries == 1


async def test_the_last_cancelled_waiter_ends_the_call(cache):
    ended = []

    class Watched(ScriptedEngine):
        async def generate(self, request):
            try:
                return await super().generate(request)
            except asyncio.CancelledError:
                await asyncio.sleep(0.005)
                ended.append(request)
                raise

    engine = Watched(count_up(), delay=lambda _: 5)
    cached = CachedEngine(engine, cache)
    waiters = [asyncio.create_task(cached.generate(Request(prompt="x"))) for _ in range(2)]
    await asyncio.sleep(0.005)
    waiters[0].cancel()
    await asyncio.sleep(0.005)
    assert ended == []
    waiters[1].cancel()
    await asyncio.sleep(0.002)
    # While the call ends, the same question is a new one.
    engine._delay = None
    assert (await cached.generate(Request(prompt="x"))).text == "1"
    with pytest.raises(asyncio.CancelledError):
        await waiters[1]
    assert len(ended) == 1
    assert cached._flights == {}


async def test_errors_reach_every_waiter_and_are_not_kept(cache):
    engine = ScriptedEngine({"default": ["late"]}, delay=lambda _: 0.02)
    cached = CachedEngine(engine, cache)
    waiters = [asyncio.create_task(cached.generate(Request(prompt="x"))) for _ in range(3)]
    await asyncio.sleep(0.005)
    await cached.aclose()
    errors = await asyncio.gather(*waiters, return_exceptions=True)
    assert [type(error) for error in errors] == [EngineStoppedError] * 3
    assert cache.stats().entries == 0
    assert (
        await CachedEngine(ScriptedEngine(lambda _: "good"), cache).generate(Request(prompt="x"))
    ).text == "good"
    # What is kept is answered even by an engine that has stopped.
    assert (await cached.generate(Request(prompt="x"))).text == "good"


async def test_the_answer_of_another_process_is_the_one_that_stands(cache):
    request = Request(prompt="x", sampling=WARM)
    key = request_key(MODEL, EncodedPrompt(tuple(b"x")), request)

    def meanwhile(_):
        cache.put(
            key,
            Completion(text="theirs", token_ids=(1,), finish="stop", usage=Usage(calls=1)),
            MODEL,
        )
        return "ours"

    cached = CachedEngine(ScriptedEngine(meanwhile, identity=MODEL), cache)
    first, again = await cached.generate(request), await cached.generate(request)
    assert (first.text, again.text) == ("theirs", "theirs")
    assert (first.usage.replayed, again.usage.replayed) == (0, 1)


async def test_several_texts_are_embedded_by_one_call(cache):
    engine = ScriptedEngine(lambda _: "")
    cached = CachedEngine(engine, cache)
    await cached.embed(["a", "b"], role="match")
    assert engine.embedded == [("a", "b")]
    assert cached.identity is engine.identity
