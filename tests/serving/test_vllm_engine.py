"""The real engine on the bundled model; all tests share one."""

import asyncio
import math
from dataclasses import replace
from types import SimpleNamespace

import psutil
import pytest
import pytest_asyncio
from pydantic import BaseModel, Field

from llm_serving import outlines_backend, vllm_adapter
from llm_serving.answers import constraint_of, parse
from llm_serving.config import EngineConfig
from llm_serving.engine import draw
from llm_serving.errors import (
    EngineConfigError,
    EngineStoppedError,
    KvCacheMemoryError,
    PromptTooLongError,
    RequestFailedError,
    TooManyImagesError,
    UnknownModelError,
)
from llm_serving.request import (
    EncodedPrompt,
    Image,
    Message,
    Request,
    Sampling,
    ScoreRequest,
)
from llm_serving.scoring import Scored, next_token_logprobs, plain_scores
from llm_serving.vllm_arguments import on_gpu
from llm_serving.vllm_engine import VllmEngine

APART = "in a process of its own"


@pytest_asyncio.fixture(
    scope="module",
    params=["in this process", pytest.param(APART, marks=pytest.mark.slow)],
)
async def served(request, engine):
    """The engine, and then one whose core steps in a process of its own."""
    if request.param == "in this process":
        yield engine
        return
    apart = VllmEngine(engine.config.model_copy(update={"process": True}))
    yield apart
    await apart.aclose()


def ask(text):
    return (Message("user", text),)


async def test_it_answers_in_chat_and_continues_plain_text(served):
    chat = await served.generate(Request(prompt=ask("What is the capital of France?")))
    assert "Paris" in chat.text
    assert chat.finish == "stop"
    assert "<|im_end|>" not in chat.text
    plain = await served.generate(
        Request(prompt="The capital of France is", sampling=Sampling(max_tokens=4))
    )
    assert "Paris" in plain.text
    assert plain.finish == "length"
    assert plain.usage.completion_tokens == 4
    assert plain.usage.prompt_tokens == 5


async def test_the_answer_is_what_transformers_computes(served):
    """Greedy, float32: token for token."""
    import torch
    from transformers import AutoModelForCausalLM

    from llm_serving.models import resolve

    prompt = served.encode(ask("Name three colours."))
    ours = await served.generate(Request(prompt=prompt, sampling=Sampling(max_tokens=12)))
    model = AutoModelForCausalLM.from_pretrained(
        str(resolve("smollm2-135m-instruct").path), dtype=torch.float32
    )
    with torch.inference_mode():
        theirs = model.generate(
            torch.tensor([prompt.token_ids]), max_new_tokens=12, do_sample=False
        )[0, len(prompt.token_ids) :]
    assert list(ours.token_ids) == theirs.tolist()


async def test_scoring_counts_no_ranks_in_a_prompt(engine, monkeypatch):
    from vllm.v1.sample import sampler

    from llm_serving.scoring import tail_scores

    count, rows = sampler.batched_count_greater_than, []
    monkeypatch.setattr(
        sampler,
        "batched_count_greater_than",
        lambda logprobs, own: rows.append(len(logprobs)) or count(logprobs, own),
    )
    prompt, way = engine.encode(ask("Which way?")), engine.own_tokens("up the winding stairs")
    scored = await tail_scores(engine.submit, prompt, [way], ends=engine.ends)
    assert scored.logprobs[0] < 0
    assert set(rows) <= {1}  # the token after it


@pytest.mark.slow
async def test_seeded_draws_after_long_prompts_repeat(served):
    """More prompt tokens at once than a step takes: vLLM's CPU build dies of a split prompt."""
    requests = [
        Request(
            prompt=ask(f"{i} " + "a long story about ores and caves " * 60),
            sampling=Sampling(temperature=1.0, max_tokens=3, seed=3),
        )
        for i in range(12)
    ]
    first = await asyncio.gather(*(served.generate(request) for request in requests))
    again = await asyncio.gather(*(served.generate(request) for request in requests))
    assert sum(completion.usage.prompt_tokens for completion in first) > served.context
    assert [completion.token_ids for completion in first] == [
        completion.token_ids for completion in again
    ]


async def test_stop_texts_end_an_answer_and_are_left_out(served):
    request = Request(prompt="1 2 3 4 5 6 7 8", sampling=Sampling(max_tokens=24, stop=("12",)))
    completion = await served.generate(request)
    assert "10" in completion.text
    assert "12" not in completion.text
    assert completion.finish == "stop"
    first = completion.text.split()[0]
    request = replace(request, sampling=Sampling(max_tokens=24, stop=(first,)))
    completion = await served.generate(request)
    assert (completion.text.strip(), completion.finish) == ("", "stop")


class Step(BaseModel):
    verb: str = Field(pattern="mine|craft|smelt", max_length=5)
    quantity: int = Field(ge=1, le=64)
    why: str = Field(max_length=30)


class Steps(BaseModel):
    steps: list[Step] = Field(min_length=1, max_length=6)


async def test_a_step_without_work_waits(engine, monkeypatch):
    """Else it would keep Python's lock from the thread that compiles a constraint."""
    naps = []
    monkeypatch.setattr(vllm_adapter, "time", SimpleNamespace(sleep=naps.append))
    steps = engine.activity.steps
    request = Request(prompt="Next:", constraint=constraint_of(Steps))
    completion = await engine.generate(request)
    assert len(naps) >= 1
    assert engine.activity.steps - steps <= len(completion.token_ids) + len(naps) + 2


@pytest.mark.slow
async def test_hot_answers_all_parse(served):
    """Temperature 1, 40 draws: not one is invalid or cut off."""
    constraint = constraint_of(Step)
    request = Request(
        prompt=ask("Next step in Minecraft, as JSON."),
        sampling=Sampling(temperature=1.0, seed=1),
        constraint=constraint,
    )
    drawn = await draw(served, request, 40)
    steps = [parse(Step, completion.text) for completion in drawn]
    assert all(1 <= step.quantity <= 64 for step in steps)
    assert len({step.verb for step in steps}) == 3
    assert {completion.finish for completion in drawn} == {"stop"}


PLACES = "You are in a cellar with a lamp, a trap door and a sandwich. "
ACTIONS = ("open trap", "open trap door", "take lamp", "eat the sandwich", "go north", "go north")


async def plain_prompt_logprobs(engine, prompt, choices):
    """The reference: vLLM's own prompt_logprobs, which reads nothing from the prefix cache."""
    sequences = [engine.own_tokens(choice) for choice in choices]
    scored = await plain_scores(engine.submit, engine.encode(prompt), sequences, ends=engine.ends)
    assert {result.cached_tokens for result in scored.results} == {0}
    return scored.logprobs


@pytest.mark.parametrize("words", [0, 37])
async def test_both_ways_of_scoring_equal_prompt_logprobs(served, words):
    from llm_serving.scoring import tail_scores, trie_scores

    prompt = ask(PLACES + "look " * words + "What now?")
    expected = await plain_prompt_logprobs(served, prompt, ACTIONS)
    encoded = served.encode(prompt)
    sequences = [served.own_tokens(choice) for choice in ACTIONS[:5]]
    for way in (tail_scores, trie_scores, tail_scores):  # the last with everything cached
        scored = await way(served.submit, encoded, sequences, ends=served.ends)
        assert scored.logprobs == pytest.approx(expected[:5], abs=2e-3)
        assert scored.gap < 2e-3
    scores = await served.score(ScoreRequest(prompt, ACTIONS))
    assert scores.logprobs == pytest.approx(expected, abs=2e-3)
    assert scores.logprobs[4] == scores.logprobs[5]
    assert scores.usage.calls == 1


@pytest.mark.slow
async def test_scores_that_are_no_numbers_are_refused(engine, monkeypatch):
    async def broken(submit, prompt, sequences):
        return Scored([math.nan] * len(sequences), [])

    monkeypatch.setattr(VllmEngine, "_sequence_scores", staticmethod(broken))
    with pytest.raises(RequestFailedError, match="gives NaN: weights are damaged or too large"):
        await engine.score(ScoreRequest("Rare words:", ("quokka", "numbat")))


@pytest.mark.parametrize("wrong", ["zeros", "rows of another token"])
async def test_scores_from_wrong_rows_are_computed_again(engine, monkeypatch, caplog, wrong):
    """What a runner that numbers its rows otherwise would give."""
    prompt = ask(PLACES + f"look and see {wrong}. " * 6)
    expected = await plain_prompt_logprobs(engine, prompt, ACTIONS[:4])
    submit = VllmEngine.submit

    async def misread(self, job):
        result = await submit(self, job)
        if not result.tail_logprobs:
            return result
        tail = list(result.tail_logprobs)
        if wrong == "zeros":
            next_logprobs = dict.fromkeys(result.next_logprobs, 0.0)
            return replace(result, tail_logprobs=[0.0] * len(tail), next_logprobs=next_logprobs)
        return replace(result, tail_logprobs=[tail[0], *tail[:-1]])

    monkeypatch.setattr(VllmEngine, "submit", misread)
    monkeypatch.setattr(engine, "_scoring", "tail" if wrong == "zeros" else "auto")
    for _ in range(2):
        scores = await engine.score(ScoreRequest(prompt, ACTIONS[:4]))
        assert scores.logprobs == pytest.approx(expected, abs=2e-3)
    assert engine._scoring == "trie"
    assert len([record for record in caplog.records if "trie is used" in record.message]) == 1


async def test_a_way_of_scoring_that_was_found_wrong_stays_so(engine, monkeypatch):
    """Several first scorings run at once: one finds a fault, another that began before does not."""
    prompt = engine.encode(ask(PLACES + "look and listen. " * 6))
    sequences = [engine.own_tokens(choice) for choice in ACTIONS[:4]]
    for before, after in {"auto": "tail", "trie": "trie"}.items():
        monkeypatch.setattr(engine, "_scoring", before)
        await engine._choose_scoring(engine.submit, prompt, sequences)
        assert engine._scoring == after


def test_what_changes_answers_makes_other_ones(engine, monkeypatch):
    """Else one cache would answer for both."""
    assert engine._deciding("V1") == engine.identity.engine.replace("V2", "V1")
    for other in ({"kv_dtype": "fp8"}, {"max_pixels": 28 * 28}):
        with monkeypatch.context() as patch:
            patch.setattr(engine, "config", engine.config.model_copy(update=other))
            ((key, value),) = other.items()
            assert engine._deciding("V1").endswith(f" {key}={value}")


async def test_scores_are_exact_wherever_a_block_ends(served):
    """Prompts that fill blocks of the prefix cache, and one, half and nearly all of the next."""
    whole = served.block_size * 2
    for length in (whole, whole + 1, whole + served.block_size // 2, whole + served.block_size - 1):
        text = served._chat.tokenizer.decode(
            served._chat.tokenizer.encode("the lamp is lit and " * 60)[:length]
        )
        choices = ("go north", "open trap door")
        scores = await served.score(ScoreRequest(text, (*choices, "go south")))
        expected = await plain_prompt_logprobs(served, text, choices)
        assert scores.logprobs[:2] == pytest.approx(expected, abs=2e-3), length


async def test_labels_are_next_token_logprobs(served):
    prompt = ask("Is the sky blue? Answer Yes or No.")
    labels = [" a", "Yes", "No", "Yes"]
    scores = await served.score(ScoreRequest(prompt, labels, kind="labels"))
    assert scores.logprobs[1] == scores.logprobs[3]
    answered = EncodedPrompt(served.encode(prompt).token_ids + served.own_tokens("Yes"))
    end = served._chat.tokenizer.eos_token_id
    ended, _ = await next_token_logprobs(served.submit, answered, [end])
    trie = await served.score(ScoreRequest(prompt, ("Yes",)))
    assert trie.logprobs[0] == pytest.approx(scores.logprobs[1] + ended[end], abs=2e-3)
    # The second is one token of the template's, but seven of a text.
    for label in ("antidisestablishmentarianism", served._chat.tokenizer.eos_token):
        with pytest.raises(ValueError, match="not one"):
            await served.score(ScoreRequest(prompt, (label,), kind="labels"))


async def test_more_labels_than_one_request_may_ask(served):
    vocabulary = [served._chat.tokenizer.decode([token]) for token in range(400, 700)]
    labels = [
        text
        for text in vocabulary
        if len(served._chat.tokenizer.encode(text, add_special_tokens=False)) == 1
    ]
    assert len(labels) > 128
    scores = await served.score(ScoreRequest("The", labels, kind="labels"))
    assert len(scores.logprobs) == len(labels)
    assert sum(math.exp(logprob) for logprob in scores.logprobs) < 1


async def test_a_shared_prompt_is_read_from_the_prefix_cache(served):
    head = "A long preamble about caves, ores and furnaces. " * 20
    await served.generate(Request(prompt=ask(head + "One?"), sampling=Sampling(max_tokens=1)))
    before = served.prefix_cache
    second = await served.generate(
        Request(prompt=ask(head + "Two?"), sampling=Sampling(max_tokens=1))
    )
    usage, after = second.usage, served.prefix_cache
    assert usage.cached_tokens >= usage.prompt_tokens - 2 * served.block_size
    assert usage.cached_tokens % served.block_size == 0
    assert after.hits - before.hits == usage.cached_tokens
    assert after.queries - before.queries == usage.prompt_tokens
    assert await served.forget_prefixes()
    third = await served.generate(
        Request(prompt=ask(head + "Two?"), sampling=Sampling(max_tokens=1))
    )
    assert third.usage.cached_tokens == 0
    assert third.text == second.text


@pytest.mark.parametrize("scoring", ["tail", "trie"])
async def test_what_the_requests_of_a_scoring_share(served, monkeypatch, scoring):
    monkeypatch.setattr(served, "_scoring", scoring)
    prompt = served.encode(ask("A preamble about cows and pigs. " * 20 + f"By {scoring}: which?"))
    choices = ("a cow", "a pig", "two cows")
    assert await served.forget_prefixes()
    for again in (False, True):
        scores = await served.score(ScoreRequest(prompt, choices))
        shared, usage = scores.shared, scores.usage
        assert shared.tokens == len(prompt.token_ids)
        assert shared.requests >= 3
        assert usage.prompt_tokens >= shared.requests * shared.tokens
        if again:
            assert shared.cached_tokens >= shared.tokens - 2 * served.block_size
        else:
            assert shared.cached_tokens == 0
            # Only the first of its requests has to read the prompt.
            assert usage.cached_tokens >= (shared.requests - 1) * (shared.tokens // 2)
    labels = await served.score(ScoreRequest(prompt, ("A", "B"), kind="labels"))
    assert labels.shared.requests == 1
    assert labels.shared.cached_tokens == labels.usage.cached_tokens > 0


async def test_the_load_follows_the_batch(served):
    prompts = [f"Count to {number}: one," for number in range(2, 8)]
    tasks = [
        asyncio.create_task(
            served.generate(Request(prompt=prompt, sampling=Sampling(max_tokens=12)))
        )
        for prompt in prompts
    ]
    most = 0
    while not all(task.done() for task in tasks):
        load = served.load()
        assert load.running + load.waiting <= len(prompts)
        most = max(most, load.running)
        await asyncio.sleep(0.01)
    assert most == len(prompts)
    load = served.load()
    assert (load.running, load.waiting, load.preempted) == (0, 0, 0)
    assert load.capacity == served.config.max_batch


def test_vllm_counts_for_nobody_else(engine):
    """It adds a logger of its own, with the metrics of a server, where none of ours is one."""
    from vllm.v1.metrics.loggers import PrometheusStatLogger

    (logger,) = engine._dispatcher.core.engine.logger_manager.stat_loggers
    assert isinstance(logger, PrometheusStatLogger)
    assert not hasattr(logger, "gauge_scheduler_running")


async def test_cancelling_a_caller_frees_its_request_in_vllm(served):
    def unfinished():
        return served._dispatcher.call(lambda core: core.engine.get_num_unfinished_requests())

    request = Request(prompt="Once upon a time", sampling=Sampling(max_tokens=2000))
    task = asyncio.create_task(served.generate(request))
    async with asyncio.timeout(60):
        while await unfinished() == 0:  # noqa: ASYNC110 - vLLM has no event to wait for
            await asyncio.sleep(0.01)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert await unfinished() == 0
    short = await served.generate(Request(prompt="One, two,", sampling=Sampling(max_tokens=2)))
    assert short.usage.completion_tokens == 2


async def test_a_prompt_beyond_the_context_says_both_lengths(served):
    prompt = "word " * 5000
    with pytest.raises(PromptTooLongError) as caught:
        await served.generate(Request(prompt=prompt))
    assert caught.value.prompt_tokens == len(served.encode(prompt).token_ids)
    assert str(caught.value.prompt_tokens) in str(caught.value)
    assert str(served.context) in str(caught.value)
    with pytest.raises(PromptTooLongError):
        await served.score(ScoreRequest(prompt, ("go",)))


async def test_a_text_model_refuses_images(engine):
    with pytest.raises(TooManyImagesError, match="allows 0"):
        engine.encode((Message("user", "What is this?", (Image(b""),)),))


@pytest.mark.usefixtures("served")
def test_nothing_listens_beyond_this_machine():
    this = psutil.Process()
    listening = {
        connection.laddr.ip
        for process in (this, *this.children())
        for connection in process.net_connections(kind="inet")
        if connection.status == psutil.CONN_LISTEN
    }
    assert listening <= {"127.0.0.1", "::1"}


@pytest.mark.slow
def test_start_errors_say_what_to_do():
    """Other configurations, none of which becomes a second engine."""
    with pytest.raises(UnknownModelError, match="smollm2-135m-instruct"):
        VllmEngine("smollm2-135m-instuct")
    too_little = {"kv_cache_gib": 0.01, "memory_share": 0.001}
    with pytest.raises(KvCacheMemoryError, match="memory_share" if on_gpu() else "kv_cache_gib"):
        VllmEngine(EngineConfig(model="smollm2-135m-instruct", context=8192, **too_little))
    with pytest.raises(EngineConfigError, match="images_per_prompt=1"):
        VllmEngine(EngineConfig(model="smollm2-135m-instruct", images_per_prompt=1))
    with pytest.raises(EngineConfigError, match="max_model_len"):
        VllmEngine(EngineConfig(model="smollm2-135m-instruct", context=1_000_000))


@pytest.mark.slow
def test_an_engine_that_fails_late_holds_nothing(monkeypatch):
    def refuse(tokenizer, size, ends):
        raise ValueError("an unknown kind of tokenizer")

    monkeypatch.setattr(outlines_backend, "token_vocabulary", refuse)
    before = set(vllm_adapter._LIVE)
    with pytest.raises(EngineConfigError, match="an unknown kind of tokenizer"):
        VllmEngine(EngineConfig(model="smollm2-135m-instruct", context=512, kv_cache_gib=0.1))
    assert before == vllm_adapter._LIVE


@pytest.mark.slow
@pytest.mark.parametrize("served", [APART], indirect=True)
async def test_everybody_hears_of_a_core_that_is_killed(served):
    """The last test of this file: the engine does not answer any more."""
    core = served._dispatcher.core
    prompt = served.encode("Once upon a time")
    endless = vllm_adapter.sampling_params(
        temperature=1.0, top_p=1.0, max_tokens=3000, seed=None, stop=(), regex=None, ends=()
    )
    endless.ignore_eos = True
    job = vllm_adapter.VllmJob(prompt.token_ids, (), endless)
    waiting = [asyncio.create_task(served.submit(job)) for _ in range(3)]
    async with asyncio.timeout(60):
        while served.load().running < 3:  # noqa: ASYNC110 - vLLM has no event to wait for
            await asyncio.sleep(0.01)
        core._process.kill()
        heard = await asyncio.gather(*waiting, return_exceptions=True)
        for late in (served.submit(job), served.forget_prefixes()):
            heard += await asyncio.gather(late, return_exceptions=True)
    assert {type(error) for error in heard} == {EngineStoppedError}
    assert {str(error) for error in heard} == {
        f"the engine died: its process {core._process.pid} ended by SIGKILL, as the system ends "
        "one where memory runs out"
    }
