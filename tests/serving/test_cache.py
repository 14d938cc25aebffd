import asyncio
import json
import math
import sqlite3
import subprocess
import sys
import threading
import time
from dataclasses import dataclass, replace

import pytest

from llm_serving.cache import (
    CachedEngine,
    CacheError,
    ResponseCache,
    UnreadableCacheError,
    generate_key,
    remove_cache_file,
    response_cache_path,
    score_key,
)
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
    Scores,
    Usage,
)
from llm_serving.scripted import ScriptedEngine

MODEL = ModelIdentity(name="tiny", revision="r1", dtype="float32")
WARM = Sampling(temperature=0.7, seed=5)


@dataclass(frozen=True)
class Language:
    regex: str
    max_tokens: int = 8


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


# --- keys ----------------------------------------------------------------------------------------

PROMPT = EncodedPrompt((1, 2, 3))


def key_of(identity=MODEL, prompt=PROMPT, **request):
    return generate_key(identity, prompt, Request(prompt=prompt, **request))


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
        key_of(sampling=WARM, sample=1),
        key_of(sampling=replace(WARM, seed=None), sample=1),
        score_key(MODEL, PROMPT, ["a", "b"], method="score"),
        score_key(MODEL, PROMPT, ["b", "a"], method="score"),
        score_key(MODEL, PROMPT, ["ab"], method="score"),
        score_key(MODEL, PROMPT, ["a", "b"], method="labels"),
    ]
    assert len(set(keys)) == len(keys)


def test_a_key_is_the_same_in_every_process():
    # Worked out by hand: two lengths, the header's JSON, the tokens as 32-bit integers.
    head = json.dumps(
        [1, "generate", "r1", "float32", [[0.7, 1.0, 5, 0], [256], []]], separators=(",", ":")
    )
    import hashlib

    raw = len(head).to_bytes(8, "little") + (3).to_bytes(8, "little") + head.encode()
    raw += b"".join(token.to_bytes(4, "little") for token in (1, 2, 3))
    assert key_of(sampling=WARM) == hashlib.sha256(raw).digest()


# --- the engine ----------------------------------------------------------------------------------


def count_up():
    answers = iter(range(1000))
    return lambda _: str(next(answers))


async def test_a_repeated_question_is_replayed(cache):
    engine = ScriptedEngine(count_up(), delay=lambda _: 0.03)
    cached = CachedEngine(engine, cache)
    request = Request(prompt="What now?", sampling=WARM, role="propose")
    first = await cached.generate(request)
    again = await cached.generate(replace(request, role="repair"))
    other = await cached.generate(replace(request, sample=1))
    assert (first.text, again.text, other.text) == ("0", "0", "1")
    assert len(engine.requests) == 2
    assert (first.usage.replayed, again.usage.replayed) == (0, 1)
    assert again.usage.seconds < 0.02 < first.usage.seconds
    assert first.usage.prompt_tokens == len("What now?")
    assert replace(again.usage, replayed=0, seconds=0) == replace(first.usage, seconds=0)
    assert list(cached.counters.roles) == ["propose", "repair"]
    total = cached.counters.total
    assert (total.calls, total.replayed, total.prompt_tokens) == (3, 1, 27)
    assert engine.counters.total.calls == 2


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
        scores = await metered.score(chat, ["a", "b"])
        labels = await metered.score_labels(chat, ["a", "b"])
        cache.close()
        asked = len(engine.requests) + len(engine.scored)
        return texts, scores.logprobs, labels.logprobs, metered.counters.roles, asked

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
    await cached.score("hello", ["a"])
    await cached.score_labels("hello", ["a"])
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
    engine = ScriptedEngine(count_up(), delay=lambda _: 0.03)
    cached = CachedEngine(engine, cache)
    first, second, third = (
        asyncio.create_task(cached.generate(Request(prompt="x"))) for _ in range(3)
    )
    await asyncio.sleep(0.005)
    first.cancel()
    third.cancel()
    answer = await second
    assert answer.text == "0"
    # The call was made for the first one; the second is the one who pays.
    assert answer.usage.replayed == 0
    assert first.cancelled()
    assert third.cancelled()
    assert cached.counters.total.calls == 1
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
    assert cached.counters.total.calls == 0
    assert (
        await CachedEngine(ScriptedEngine(lambda _: "good"), cache).generate(Request(prompt="x"))
    ).text == "good"
    # What is kept is answered even by an engine that has stopped.
    assert (await cached.generate(Request(prompt="x"))).text == "good"


async def test_the_answer_of_another_process_is_the_one_that_stands(cache):
    request = Request(prompt="x", sampling=WARM)
    key = generate_key(MODEL, EncodedPrompt(tuple(b"x")), request)

    def meanwhile(_):
        cache.put(key, completion(text="theirs"), MODEL)
        return "ours"

    cached = CachedEngine(ScriptedEngine(meanwhile, identity=MODEL), cache)
    first, again = await cached.generate(request), await cached.generate(request)
    assert (first.text, again.text) == ("theirs", "theirs")
    assert (first.usage.replayed, again.usage.replayed) == (0, 1)


async def test_embeddings_pass_through(cache):
    engine = ScriptedEngine(lambda _: "")
    cached = CachedEngine(engine, cache)
    vectors = await cached.embed(["a", "b"], role="match")
    assert vectors.shape == (2, 64)
    assert engine.embedded == [("a", "b")]
    assert cached.counters.roles["match"].calls == 1
    assert cached.identity is engine.identity


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
