"""Asks an engine on a tiny model all kinds of questions; prints what was seen as one JSON object.

    python on_cpu.py V2 async observe.py async sync other

What is asked for is seen in this order: one engine scheduled so, and `other` engines: with little
memory, with an adapter, and two at once.
"""

import asyncio
import gc
import json
import logging
import os
import random
import re
import sys
import tempfile
import weakref
from pathlib import Path

import torch
from on_cpu import SCHEDULING
from tiny_llama import build

from llm_serving.config import EngineConfig
from llm_serving.errors import AdapterError
from llm_serving.models import merge_adapter, read_adapter, resolve
from llm_serving.request import EncodedPrompt, Message, Request, Sampling, ScoreRequest
from llm_serving.scoring import tail_scores, trie_scores
from llm_serving.vllm_adapter import VllmJob, sampling_params
from llm_serving.vllm_engine import VllmEngine

SHORT = (Message("user", "hi"),)
LONG = (Message("user", "once upon a time there was a prompt of several blocks, " * 2 + "and"),)
OTHER = (Message("user", "another prompt that fills more than one block of the cache"),)
ACTIONS = ("go n", "go", "go s", "open", "take it")
MANY = 3
ANSWER = r'\{"act": "(go north|go south|open)", "why": "[a-z ]{1,6}"\}'


class Reference:
    """What transformers computes in float32."""

    def __init__(self, model):
        self.model = model

    @torch.inference_mode()
    def next_logprobs(self, token_ids):
        return torch.log_softmax(self.model(torch.tensor([token_ids])).logits[0].double(), -1)

    def scores(self, engine, prompt, choices):
        begun = engine.encode(prompt).token_ids
        totals = []
        for choice in choices:
            tokens = engine.choice_tokens(choice)
            rows = self.next_logprobs(begun + tokens)[len(begun) - 1 :]
            totals.append(sum(rows[i, token].item() for i, token in enumerate(tokens)))
        return totals

    def gap(self, engine, prompt, choices, scores):
        """Nats between scores and the right ones, at most."""
        right = self.scores(engine, prompt, choices)
        return max(abs(a - b) for a, b in zip(right, scores, strict=True))


class NoEncoder:
    """Nothing is embedded here."""

    def close(self):
        pass


def opened(folder, **options):
    settings = {"context": 512, "kv_cache_gib": 0.05, "max_batch": 16, "max_batch_tokens": 1024}
    config = EngineConfig(model=str(folder), dtype="float32", block_size=32, **settings | options)
    return VllmEngine(config, encoder=NoEncoder())


def first_blocks(text, tokens):
    """A prompt of so many tokens: the tokenizer writes bytes."""
    return (text * (1 + tokens // len(text)))[:tokens]


async def scoring(engine, reference):
    """The short prompt comes first: it has no cached tokens, so it must decide nothing."""
    seen = {"ways": [], "gaps": {}}
    for name, prompt in (("short", SHORT), ("long", LONG), ("other", OTHER), ("long", LONG)):
        scores = (await engine.score(ScoreRequest(prompt, ACTIONS))).logprobs
        seen["gaps"][name] = reference.gap(engine, prompt, ACTIONS, scores)
        seen["ways"].append(engine._scoring)
    fast = engine.fast_scores
    seen["fast"] = fast.__name__
    sequences = [engine.own_tokens(action) for action in ACTIONS]
    for length in (32, 33, 63):
        prompt = first_blocks(f"{length} steps in the cave, ", length)
        right = reference.scores(engine, prompt, ACTIONS)
        await engine.forget_prefixes()
        for temperature in ("cold", "warm"):
            for way in dict.fromkeys((fast, tail_scores, trie_scores)):
                scored = await way(
                    engine.submit, engine.encode(prompt), sequences, ends=engine.ends
                )
                key = f"{way.__name__} {length} {temperature}"
                seen["gaps"][key] = max(
                    abs(a - b) for a, b in zip(right, scored.logprobs, strict=True)
                )
    return seen


async def computed(engine):
    """Tokens that are computed to score 15 actions in 8 states, over one forward of each prompt.

    The lengths are those of `benchmarks/action_logprobs.py`: prompts of 283 tokens that differ in
    the last 23, and actions one of which begins another one.
    """
    rng = random.Random(5)
    shared = rng.choices(range(200), k=260)
    prompts = [EncodedPrompt((*shared, *rng.choices(range(200), k=23))) for _ in range(8)]
    lengths = (4, 4, 4, 2, 2, 2, 4, 5, 9, 7, 9, 7, 4, 7)
    actions = [tuple(rng.choices(range(200), k=length)) for length in lengths]
    actions.append(actions[0][:3])
    await engine.forget_prefixes()
    scored = await asyncio.gather(
        *(
            engine.fast_scores(engine.submit, prompt, actions, ends=engine.ends)
            for prompt in prompts
        )
    )
    spent = sum(
        result.prompt_tokens - result.cached_tokens
        for scores in scored
        for result in scores.results
    )
    return spent / sum(len(prompt.token_ids) for prompt in prompts)


async def beside_others(engine, reference):
    """Scores of many prompts at once, beside answers that are being written."""
    prompts = [f"{i}: " + "a long way through the cave, " * (1 + i % 3) for i in range(MANY)]
    writing = [
        asyncio.ensure_future(
            engine.generate(
                Request(prompt=f"tell {i}", sampling=Sampling(temperature=1, max_tokens=16, seed=i))
            )
        )
        for i in range(MANY)
    ]
    scored = await asyncio.gather(
        *(engine.score(ScoreRequest(prompt, ACTIONS)) for prompt in prompts)
    )
    await asyncio.gather(*writing)
    return max(
        reference.gap(engine, prompt, ACTIONS, scores.logprobs)
        for prompt, scores in zip(prompts, scored, strict=True)
    )


async def in_any_order(engine):
    """Nats by which scores depend on the order of prompts and choices, at most."""
    prompts = [f"{i} of the stories about a prompt of two blocks, or three" for i in range(MANY)]
    rng = random.Random(3)
    seen = {}
    apart = 0.0
    for _ in range(MANY // 2 + 1):
        await engine.forget_prefixes()
        asked = [(prompt, tuple(rng.sample(ACTIONS, len(ACTIONS)))) for prompt in prompts]
        rng.shuffle(asked)
        scored = await asyncio.gather(*(engine.score(ScoreRequest(*parts)) for parts in asked))
        for (prompt, choices), scores in zip(asked, scored, strict=True):
            for choice, score in zip(choices, scores.logprobs, strict=True):
                apart = max(apart, abs(seen.setdefault((prompt, choice), score) - score))
    return apart


async def labels(engine, reference):
    """Nats between the log-probabilities of 200 labels and the right ones, at most."""
    names = [engine.decode([token]) for token in range(200)]
    names = [name for name in names if engine.own_tokens(name) != () and name.isprintable()]
    names = [name for name in names if len(engine.own_tokens(name)) == 1]
    right = reference.next_logprobs(engine.encode(LONG).token_ids)[-1]
    mixed = await asyncio.gather(
        engine.score(ScoreRequest(LONG, names, kind="labels")),
        engine.score(ScoreRequest(LONG, names[:3], kind="labels")),
    )
    gaps = [
        abs(right[engine.own_tokens(name)[0]].item() - logprob)
        for scores, asked in zip(mixed, (names, names[:3]), strict=True)
        for name, logprob in zip(asked, scores.logprobs, strict=True)
    ]
    return {"count": len(names), "gap": max(gaps)}


async def constrained(engine):
    """Drawn answers of a pattern, the tokens of each before its end."""
    encoded = engine.encode(LONG)

    def job(seed):
        params = sampling_params(
            temperature=1.0,
            top_p=1.0,
            max_tokens=48,
            seed=seed,
            stop=(),
            regex=ANSWER,
            ends=engine.ends,
        )
        return VllmJob(encoded.token_ids, (), params)

    results = await asyncio.gather(*(engine.submit(job(seed)) for seed in range(4)))
    texts = [engine.decode(result.token_ids[:-1]) for result in results]
    return {"match": [bool(re.fullmatch(ANSWER, text)) for text in texts], "kinds": len(set(texts))}


async def unfinished(engine):
    """Requests that vLLM still holds."""
    return await engine._dispatcher.call(lambda core: core.engine.get_num_unfinished_requests())


async def cancelled(engine):
    """Half of the callers go; what the others get, alone and now."""

    def request(i):
        sampling = Sampling(temperature=1, max_tokens=12, seed=i)
        return Request(prompt=f"story {i}", sampling=sampling)

    alone = [(await engine.generate(request(i))).token_ids for i in range(0, 8, 2)]
    tasks = [asyncio.ensure_future(engine.generate(request(i))) for i in range(8)]
    while await unfinished(engine) < 8:
        # On a busy machine the first answer may end before the last request comes.
        if any(task.done() for task in tasks):
            break
        await asyncio.sleep(0)
    for task in tasks[1::2]:
        task.cancel()
    together = [(await task).token_ids for task in tasks[::2]]
    await asyncio.gather(*tasks, return_exceptions=True)
    return {"same": together == alone, "unfinished": await unfinished(engine)}


async def stopped(engine):
    """An answer that a text ends, beside the same answer without it."""

    async def written(*stop):
        sampling = Sampling(temperature=1, max_tokens=24, seed=1, stop=stop)
        return await engine.generate(Request(prompt="once", sampling=sampling))

    whole = (await written()).text
    stop = next(letter for letter in whole[2:] if letter.isascii() and letter.isprintable())
    short = await written(stop)
    return {"right": short.text == whole[: whole.index(stop)], "finish": short.finish}


async def prefixes(engine):
    """Cached tokens of a question that is asked again, and after the cache is emptied."""
    request = Request(prompt=LONG, sampling=Sampling(max_tokens=1))
    await engine.generate(request)
    again = (await engine.generate(request)).usage.cached_tokens
    forgotten = await engine.forget_prefixes()
    return {
        "again": again,
        "forgotten": forgotten,
        "after": (await engine.generate(request)).usage.cached_tokens,
    }


async def preempted(folder, reference):
    """Scores while answers are written in a cache that holds a few of them."""
    engine = opened(folder, context=256, kv_cache_gib=0.00018, max_batch=12)
    writing = [
        asyncio.ensure_future(
            engine.generate(
                Request(prompt=f"tell {i}", sampling=Sampling(temperature=1, max_tokens=40, seed=i))
            )
        )
        for i in range(12)
    ]
    prompts = [f"{i}: " + "a long way through the cave, " * 5 for i in range(5)]
    scored = await asyncio.gather(
        *(engine.score(ScoreRequest(prompt, ACTIONS)) for prompt in prompts)
    )
    await asyncio.gather(*writing)
    gap = max(
        reference.gap(engine, prompt, ACTIONS, scores.logprobs)
        for prompt, scores in zip(prompts, scored, strict=True)
    )
    seen = {"preempted": engine.load().preempted, "gap": gap}
    await engine.aclose()
    return seen


async def two_at_once(engine, other):
    """Greedy answers of two engines alone and while both run; then one of them is closed."""

    async def answers(engine):
        requests = (Request(prompt=f"story {i}", sampling=Sampling(max_tokens=8)) for i in range(4))
        return [
            answer.token_ids
            for answer in await asyncio.gather(*(engine.generate(each) for each in requests))
        ]

    alone = await answers(engine)
    both = await asyncio.gather(answers(engine), answers(other))
    await engine.aclose()
    after = await answers(other)
    await other.aclose()
    return {"same": both == [alone, alone], "after closing one": after == alone}


async def adapted(folder, model, reference_of):
    """Scores with an adapter beside what PEFT's formula gives, and what is refused on a CPU."""
    sys.path.insert(0, str(Path(__file__).parents[1]))
    from lora import with_adapter, write_adapter

    adapter = write_adapter(folder, folder.parent / "adapter", size=0.05)
    engine = opened(folder, adapters={"one": str(adapter)})
    scores = (await engine.score(ScoreRequest(LONG, ACTIONS, adapter="one"))).logprobs
    reference = reference_of(with_adapter(model, adapter))
    identity = engine.identity.answering("one")
    merged = merge_adapter(resolve(str(folder)), read_adapter(adapter), name="merged")
    seen = {
        "gap": reference.gap(engine, LONG, ACTIONS, scores),
        "same revision": identity.revision == merged.revision,
        "refused": [],
    }
    for plain in (
        engine.generate(Request(prompt=LONG)),
        engine.score(ScoreRequest(LONG, ACTIONS)),
        engine.score(ScoreRequest(LONG, ("a",), kind="labels")),
    ):
        try:
            await plain
        except AdapterError as error:
            seen["refused"].append(str(error))
    await engine.aclose()
    return seen


async def released(engine):
    """Whether closing lets go of vLLM's engine."""
    vllm = weakref.ref(engine._dispatcher.core.engine)
    await engine.aclose()
    gc.collect()
    return vllm() is None


def describe(engine):
    """The runner that vLLM took, and how it steps."""
    core = engine._dispatcher.core
    return {
        "runner": core.runner,
        "module": type(core.engine.model_executor.driver_worker.worker.model_runner).__module__,
        "step": core.engine.engine_core.engine_core.step_fn.__name__,
    }


async def of_one_engine(folder, model, scheduling):
    """Answers and scores of one engine, whatever stands beside them in a batch."""
    os.environ[SCHEDULING] = scheduling
    warnings = []
    handler = logging.Handler()
    handler.emit = lambda record: warnings.append(record.getMessage())
    logging.getLogger("llm_serving.vllm_engine").addHandler(handler)
    reference, engine = Reference(model), opened(folder)
    return describe(engine) | {
        "scoring": await scoring(engine, reference),
        "beside_others": await beside_others(engine, reference),
        "in_any_order": await in_any_order(engine),
        "labels": await labels(engine, reference),
        "constrained": await constrained(engine),
        "cancelled": await cancelled(engine),
        "stopped": await stopped(engine),
        "prefixes": await prefixes(engine),
        "released": await released(engine),
        "warnings": warnings,
    }


async def of_other_engines(folder, model):
    """What two engines say at once, and one with little memory and one with an adapter."""
    engine, other = opened(folder), opened(folder)
    return {
        "computed": await computed(engine),
        "two_at_once": await two_at_once(engine, other),
        "preempted": await preempted(folder, Reference(model)),
        "adapted": await adapted(folder, model, Reference),
    }


async def observed(parts):
    """What is seen of each part."""
    folder = Path(tempfile.mkdtemp()) / "model"
    model = build(folder)
    return {
        part: await (
            of_other_engines(folder, model)
            if part == "other"
            else of_one_engine(folder, model, part)
        )
        for part in parts
    }


if __name__ == "__main__":
    logging.basicConfig(level=logging.ERROR)
    print(json.dumps(asyncio.run(observed(sys.argv[1:]))))
