"""What an open engine is asked: each function answers whether it is right, or how fast it is."""

from __future__ import annotations

import asyncio
import io
import math
import re
import statistics
import time
from dataclasses import replace
from itertools import pairwise, product
from typing import TYPE_CHECKING, Any

from llm_planning.gpu_check.finding import Finding, describe, many
from llm_serving.engine import MeteredEngine
from llm_serving.request import Image, Message, Request, Sampling, ScoreRequest
from llm_serving.scoring import plain_scores, tail_scores, trie_scores
from llm_serving.vllm_adapter import VllmJob, next_token_params, sampling_params
from llm_serving.vllm_engine import AGREEMENT

if TYPE_CHECKING:
    from collections.abc import Awaitable, Iterable, Mapping, Sequence

    from llm_serving.request import Completion, Prompt
    from llm_serving.vllm_adapter import VllmResult
    from llm_serving.vllm_engine import VllmEngine
    from llm_serving.vllm_stats import Cards

SHORT = (Message("user", "hi"),)
LONG = tuple(
    (Message("user", f"{i}. You walk through the cave and find a lamp. " * 6 + "What now?"),)
    for i in range(2)
)
ACTIONS = ("go north", "go", "go south", "open the door", "take the lamp")
PATTERN = r'\{"act": "(go north|go south|open)", "why": "[a-z ]{1,20}"\}'

ROOMS = ("cellar", "kitchen", "attic", "forest", "temple", "gallery", "canyon", "shore")
CHOICES = tuple(
    f"{verb} the {thing}"
    for verb, thing in product(
        ("take", "open", "examine", "drop", "light"), ("brass lamp", "trap door", "egg")
    )
)
"""What a state of a game offers."""

_CERTAIN = 1e-3
"""Nats below which no answer of several tokens comes."""


class Recorder(MeteredEngine):
    """The engine, remembering what it was asked and how much it wrote."""

    def __init__(self, engine: VllmEngine) -> None:
        super().__init__(engine)
        self.requests: list[Request] = []
        self.written = 0

    async def generate(self, request: Request) -> Completion:
        """Asks the engine, and checks the answer's language."""
        self.requests.append(request)
        completion = await super().generate(request)
        self.written += completion.usage.completion_tokens
        return completion


async def _empty(engine: VllmEngine) -> None:
    if not await engine.forget_prefixes():
        raise RuntimeError("requests in flight still hold the prefix cache")


async def tokens_differ(engine: VllmEngine, figures: Mapping[str, Any]) -> Finding:
    """Random weights tell tokens apart; where they do not, no score could be wrong."""
    ids = sorted({engine.own_tokens(choice)[0] for choice in (*ACTIONS, *CHOICES, *ROOMS)})
    job = VllmJob(engine.encode(SHORT).token_ids, (), next_token_params(ids))
    logprobs = ((await engine.submit(job)).next_logprobs or {}).values()
    nats = max(logprobs) - min(logprobs)
    found = describe(engine) | {"kv_tokens": engine.load().cache_tokens, "nats_of_tokens": nats}
    right = nats > 0.1
    reason = "" if right else f"all tokens are equally probable, within {nats:.2g} nats"
    return Finding(right, {**figures, **found}, reason)


async def _uncached(engine: VllmEngine, prompt: Prompt) -> list[float]:
    """Log-probabilities of the actions by uncached `prompt_logprobs`."""
    encoded = engine.encode(prompt)
    sequences = [engine.own_tokens(action, behind=encoded.token_ids) for action in ACTIONS]
    scored = await plain_scores(engine.submit, encoded, sequences, ends=engine.ends)
    return scored.logprobs


def apart(some: Sequence[float], others: Sequence[float]) -> float | None:
    """Nats by which scores of the same actions differ, at most; None where one is no number."""
    gaps = [abs(a - b) for a, b in zip(some, others, strict=True)]
    return max(gaps) if all(map(math.isfinite, gaps)) else None


async def _write(engine: VllmEngine, seed: int, tokens: int) -> None:
    """Draws so many tokens, ends of a turn among them."""
    params = sampling_params(
        temperature=1.0, top_p=1.0, max_tokens=tokens, seed=seed, stop=(), regex=None, ends=()
    )
    params.ignore_eos = True
    prompt = engine.encode(f"story {seed}")
    result = await engine.submit(VllmJob(prompt.token_ids, (), params))
    assert len(result.token_ids) == tokens


async def scores_agree(engine: VllmEngine, *, written: int = 32) -> Finding:
    """Exact scores against vLLM's own uncached ones.

    A short prompt first, then long ones, alone and beside answers of so many tokens.
    """
    gaps: dict[str, float | None] = {}

    async def look(name: str, prompt: Prompt) -> None:
        scored = (await engine.score(ScoreRequest(prompt, ACTIONS))).logprobs
        gaps[name] = apart(scored, await _uncached(engine, prompt))

    await look("short prompt first", SHORT)
    for i, prompt in enumerate(LONG):
        await look(f"long prompt {i}", prompt)
    encoded = engine.encode(LONG[0])
    sequences = [engine.own_tokens(action, behind=encoded.token_ids) for action in ACTIONS]
    plain = await _uncached(engine, LONG[0])
    for way in {engine.fast_scores, tail_scores, trie_scores}:
        scored = await way(engine.submit, encoded, sequences, ends=engine.ends)
        gaps[getattr(way, "__name__", "way")] = apart(scored.logprobs, plain)
    writing = [asyncio.ensure_future(_write(engine, i, written)) for i in range(many())]
    beside = await asyncio.gather(*(engine.score(ScoreRequest(prompt, ACTIONS)) for prompt in LONG))
    await asyncio.gather(*writing)
    for i, scores in enumerate(beside):
        name = f"beside {len(writing)} requests {i}"
        gaps[name] = apart(scores.logprobs, await _uncached(engine, LONG[i]))
    allowed = AGREEMENT[engine.identity.dtype]
    figures = describe(engine) | {
        "way": engine._scoring,
        "nats_apart": max((gap for gap in gaps.values() if gap is not None), default=None),
        "nats_allowed": allowed,
        "preempted": engine.load().preempted,
        "gaps": gaps,
        "uncached": dict(zip(ACTIONS, plain, strict=True)),
    }
    wrong = {name: gap for name, gap in gaps.items() if gap is None or gap > allowed}
    if wrong:
        return Finding(False, figures, f"scores differ from uncached prompt_logprobs: {wrong}")
    # Rows that are missing add up to 0, the same in every way.
    right = max(plain) < -_CERTAIN
    return Finding(right, figures, "" if right else "uncached prompt_logprobs call actions certain")


async def answers_match(engine: VllmEngine) -> Finding:
    """Drawn answers match their pattern; tokens a second, and what a step takes."""
    tokens = engine.encode(LONG[0]).token_ids
    jobs = (
        VllmJob(
            tokens,
            (),
            sampling_params(
                temperature=1.0,
                top_p=1.0,
                max_tokens=80,
                seed=i,
                stop=(),
                regex=PATTERN,
                ends=engine.ends,
            ),
        )
        for i in range(many())
    )
    before = replace(engine.activity)
    begun = time.perf_counter()
    drawn = await asyncio.gather(*map(engine.submit, jobs))
    seconds = time.perf_counter() - begun
    activity = engine.activity.since(before)
    texts = [engine.decode(result.token_ids[:-1]) for result in drawn]
    figures = describe(engine) | {
        "tokens_per_second": sum(len(result.token_ids) for result in drawn) / seconds,
        "ms_per_step": activity.stepping_seconds / max(1, activity.steps) * 1e3,
    }
    wrong = [text for text in texts if re.fullmatch(PATTERN, text) is None]
    return Finding(not wrong, figures, f"{len(wrong)} do not match: {wrong[:2]}" if wrong else "")


async def pictures_are_read(engine: VllmEngine) -> Finding:
    """Questions about none to all of the pictures that a prompt may hold: tokens, and seconds."""
    figures: dict[str, Any] = {}
    read: list[int] = []
    for count in range(engine.config.images_per_prompt + 1):
        images = tuple(_picture(i) for i in range(count))
        begun = time.perf_counter()
        answer = await engine.generate(
            Request(
                prompt=(Message("user", "What do you see?", images),),
                sampling=Sampling(max_tokens=8),
            )
        )
        figures[f"{count} images"] = {
            "seconds": time.perf_counter() - begun,
            "prompt_tokens": answer.usage.prompt_tokens,
        }
        read.append(answer.usage.prompt_tokens)
    right = all(more > less + 20 for less, more in pairwise(read))
    return Finding(right, figures, "" if right else f"images are not read: {read} tokens")


def _picture(shade: int) -> Image:
    from PIL import Image as Pillow

    file = io.BytesIO()
    Pillow.linear_gradient("L").resize((640, 480)).point(
        lambda value: (value + 40 * shade) % 256
    ).save(file, format="PNG")
    return Image(file.getvalue())


async def prefix_cache_changes_nothing(engine: VllmEngine, prompts: Sequence[Prompt]) -> Finding:
    """The same prompts with the prefix cache and without it: scores, tokens computed, seconds."""
    encoded = [engine.encode(prompt) for prompt in prompts]
    ids = sorted({engine.own_tokens(action)[0] for action in ACTIONS})

    async def ask(*, cached: bool) -> tuple[list[VllmResult], dict[str, float]]:
        await _empty(engine)
        jobs = []
        for prompt in encoded:
            params = next_token_params(ids)
            params.skip_reading_prefix_cache = not cached
            jobs.append(VllmJob(prompt.token_ids, prompt.images, params))
        begun = time.perf_counter()
        results = list(await asyncio.gather(*map(engine.submit, jobs)))
        seconds = time.perf_counter() - begun
        found = sum(result.cached_tokens for result in results)
        read = sum(result.prompt_tokens for result in results)
        return results, {"seconds": seconds, "hit_share": found / read, "computed": read - found}

    without, off = await ask(cached=False)
    with_, on = await ask(cached=True)
    gap = max(
        (_gap(some, other, ids) for some, other in zip(with_, without, strict=True)), default=0.0
    )
    allowed = AGREEMENT[engine.identity.dtype]
    figures = {"prompts": len(prompts), "on": on, "off": off, "nats_apart": gap}
    if not gap <= allowed:
        return Finding(False, figures, f"scores with the cache are {gap} nats from those without")
    if off["hit_share"] or not on["hit_share"]:
        return Finding(False, figures, "the cache was read where it is off, or not where it is on")
    return Finding(True, figures)


def _gap(some: VllmResult, other: VllmResult, ids: Sequence[int]) -> float:
    ours, theirs = some.next_logprobs or {}, other.next_logprobs or {}
    gap = apart([ours[i] for i in ids], [theirs[i] for i in ids])
    return math.inf if gap is None else gap


async def planned(engine: VllmEngine, cards: Cards, *, plans: int) -> tuple[Finding, list[Request]]:
    """Tree of Options expands so many first nodes at once; then the same requests without it.

    Returns:
        What was found, and what was asked, in order.
    """
    from llm_planning.environments.minecraft.options.tasks import TASKS
    from llm_planning.running import plan

    tasks = sorted(TASKS)

    async def expand(recorder: Recorder, number: int) -> None:
        settings = {"k": 1, "d": 1, "iter": 1}
        task = tasks[number % len(tasks)]
        await plan("too", task, engine=recorder, settings=settings, seed=number)

    for number in range(2):  # compiles every grammar
        await expand(Recorder(engine), number)
    await _empty(engine)
    recorder = Recorder(engine)
    work = [expand(recorder, number) for number in range(plans)]
    figures = {"plans": plans} | await _measured(engine, cards, work, recorder)
    requests = recorder.requests
    alike = await bare(engine, cards, requests, limit=max(1, round(figures["in_flight"])))
    figures |= {
        "questions": len(requests),
        "plans_per_minute": 60 * plans / figures["seconds"],
        "bare": alike,
        "over_bare": figures["tokens_per_second"] / alike["tokens_per_second"],
    }
    return Finding(True, figures), requests


async def bare(
    engine: VllmEngine, cards: Cards, requests: Sequence[Request], *, limit: int
) -> dict[str, Any]:
    """Sends requests as they are, so many of them at once, from an empty prefix cache."""
    await _empty(engine)
    recorder, room = Recorder(engine), asyncio.Semaphore(limit)

    async def ask(request: Request) -> None:
        async with room:
            await recorder.generate(request)

    return await _measured(engine, cards, map(ask, requests), recorder)


async def _measured(
    engine: VllmEngine, cards: Cards, work: Iterable[Awaitable[None]], recorder: Recorder
) -> dict[str, Any]:
    before = replace(engine.activity)
    with cards.watched() as busy:
        begun = time.perf_counter()
        await asyncio.gather(*work)
        seconds = time.perf_counter() - begun
    activity = engine.activity.since(before)
    return {
        "seconds": seconds,
        "tokens_per_second": recorder.written / seconds,
        "in_flight": activity.mean_in_flight,
        "ms_per_step": activity.stepping_seconds / max(1, activity.steps) * 1e3,
        "cards_busy": statistics.mean(busy) if busy else None,
    }


def states() -> list[tuple[Message, ...]]:
    """One state of a text game each, as long as a planner's prompts, most of it the same."""
    rules = "You play a text adventure. Choose the action that leads to more points. " * 4
    past = "You walked on, looked around, and found nothing of use so far. " * 12
    return [
        (Message("system", rules), Message("user", f"{past}You are in the {room}. What do you do?"))
        for room in ROOMS
    ]


async def scoring_speed(engine: VllmEngine, cards: Cards, *, repeats: int) -> Finding:
    """Exact scores of 15 actions in 8 states, beside bare prompts of as many tokens."""
    prompts = [engine.encode(state) for state in states()]
    sequences = [engine.own_tokens(choice) for choice in CHOICES]

    async def score() -> int:
        scored = await asyncio.gather(
            *(
                engine.fast_scores(engine.submit, prompt, sequences, ends=engine.ends)
                for prompt in prompts
            )
        )
        results = [result for scores in scored for result in scores.results]
        return sum(result.prompt_tokens - result.cached_tokens for result in results)

    async def read(tokens: int) -> int:
        """Prompts that begin with different tokens, and so share nothing."""
        long = prompts[0].token_ids
        jobs = [
            VllmJob((first, *long[1:]), (), next_token_params(long[:1]))
            for first in range(max(1, tokens // len(long)))
        ]
        results = await asyncio.gather(*map(engine.submit, jobs))
        return sum(result.prompt_tokens - result.cached_tokens for result in results)

    async def fastest(work: Any, *given: int) -> tuple[float, int]:  # noqa: ANN401
        taken = []
        for _ in range(repeats):
            await _empty(engine)
            begun = time.perf_counter()
            computed = await work(*given)
            taken.append(time.perf_counter() - begun)
        return min(taken), computed

    with cards.watched() as busy:
        seconds, computed = await fastest(score)
    reading, tokens = await fastest(read, computed)
    figures = {
        "way": getattr(engine.fast_scores, "__name__", "way"),
        "ms_per_state": 1e3 * seconds / len(prompts),
        "actions": len(CHOICES),
        "computed": computed,
        "forwards_per_prompt": computed / sum(len(prompt.token_ids) for prompt in prompts),
        "tokens_per_second": computed / seconds,
        "bare_tokens_per_second": tokens / reading,
        "share_of_bare": computed / seconds * reading / tokens,
        "cards_busy": statistics.mean(busy) if busy else None,
    }
    return Finding(None, figures)
