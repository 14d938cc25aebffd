"""The checks, each in a process of its own, whose last line is what it found as JSON."""

from __future__ import annotations

import asyncio
import gc
import json
import math
import os
import re
import sys
import time
import weakref
from contextlib import closing
from dataclasses import asdict, replace
from functools import partial
from typing import TYPE_CHECKING, Any

from llm_planning.gpu_check.card import kernel, machine, vision_7b
from llm_planning.gpu_check.finding import (
    Finding,
    describe,
    many,
    open_engine,
    open_engines,
    set_vllm_arguments,
)
from llm_serving.answers import Constraint
from llm_serving.errors import EngineConfigError
from llm_serving.request import Message, Request, Sampling, ScoreRequest
from llm_serving.scoring import plain_scores, tail_scores, trie_scores
from llm_serving.vllm_adapter import VllmJob, sampling_params
from llm_serving.vllm_arguments import on_gpu
from llm_serving.vllm_engine import AGREEMENT
from llm_serving.vllm_stats import memory_held

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from llm_serving.request import Prompt
    from llm_serving.vllm_engine import VllmEngine

SHORT = (Message("user", "hi"),)
LONG = tuple(
    (Message("user", f"{i}. You walk through the cave and find a lamp. " * 6 + "What now?"),)
    for i in range(2)
)
ACTIONS = ("go north", "go", "go south", "open the door", "take the lamp")
PATTERN = r'\{"act": "(go north|go south|open)", "why": "[a-z ]{1,20}"\}'

PROCESS = "process"
"""The check that `process: auto` waits for."""

_CERTAIN = 1e-3
"""Nats below which no answer of several tokens comes."""


def main() -> None:
    """Runs one check, and prints what it found."""
    name, model = sys.argv[1:3]
    print(json.dumps(asdict(CHECKS[name](model))))


def opens(model: str, *, eager: bool = False) -> Finding:
    """The engine opens and answers, eager without compiled graphs; seconds of each."""
    begun = time.perf_counter()
    with closing(open_engine(model, eager=eager)) as engine:
        opened = time.perf_counter()
        answer = asyncio.run(
            engine.generate(Request(prompt=SHORT, sampling=Sampling(max_tokens=8)))
        )
        figures = describe(engine) | {
            "seconds_to_open": opened - begun,
            "seconds_to_answer": time.perf_counter() - opened,
        }
    answered = bool(answer.token_ids)
    return Finding(answered, figures, "" if answered else "the answer is empty")


async def _plain(engine: VllmEngine, prompt: Prompt) -> list[float]:
    """Log-probabilities of the actions by uncached `prompt_logprobs`."""
    encoded = engine.encode(prompt)
    sequences = [engine.own_tokens(action, behind=encoded.token_ids) for action in ACTIONS]
    scored = await plain_scores(engine.submit, encoded, sequences, ends=engine.ends)
    return scored.logprobs


def _apart(some: Sequence[float], others: Sequence[float]) -> float | None:
    """Nats by which scores of the same actions differ, at most; None where one is no number."""
    gaps = [abs(a - b) for a, b in zip(some, others, strict=True)]
    return max(gaps) if all(map(math.isfinite, gaps)) else None


async def _written(engine: VllmEngine, seed: int, tokens: int) -> None:
    """Draws so many tokens, ends of a turn among them."""
    params = sampling_params(
        temperature=1.0, top_p=1.0, max_tokens=tokens, seed=seed, stop=(), regex=None, ends=()
    )
    params.ignore_eos = True
    prompt = engine.encode(f"story {seed}")
    result = await engine.submit(VllmJob(prompt.token_ids, (), params))
    assert len(result.token_ids) == tokens


async def _scores(engine: VllmEngine, *, written: int) -> Finding:
    """A short prompt first, then long ones, alone and beside answers of so many tokens."""
    gaps: dict[str, float | None] = {}

    async def look(name: str, prompt: Prompt) -> None:
        scored = (await engine.score(ScoreRequest(prompt, ACTIONS))).logprobs
        gaps[name] = _apart(scored, await _plain(engine, prompt))

    await look("short prompt first", SHORT)
    for i, prompt in enumerate(LONG):
        await look(f"long prompt {i}", prompt)
    encoded = engine.encode(LONG[0])
    sequences = [engine.own_tokens(action, behind=encoded.token_ids) for action in ACTIONS]
    plain = await _plain(engine, LONG[0])
    for way in {engine.fast_scores, tail_scores, trie_scores}:
        scored = await way(engine.submit, encoded, sequences, ends=engine.ends)
        gaps[getattr(way, "__name__", "way")] = _apart(scored.logprobs, plain)
    writing = [asyncio.ensure_future(_written(engine, i, written)) for i in range(many())]
    beside = await asyncio.gather(*(engine.score(ScoreRequest(prompt, ACTIONS)) for prompt in LONG))
    await asyncio.gather(*writing)
    for i, scores in enumerate(beside):
        name = f"beside {len(writing)} requests {i}"
        gaps[name] = _apart(scores.logprobs, await _plain(engine, LONG[i]))
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


def scores(model: str, *, written: int = 32, **options: Any) -> Finding:  # noqa: ANN401
    """Exact scores against vLLM's own uncached ones, on the model runner that is asked for."""
    try:
        engine = open_engine(model, **options)
    except EngineConfigError as error:
        if on_gpu():
            raise
        return Finding(None, reason=str(error))  # a CPU's Triton has no second model runner
    with closing(engine):
        taken = describe(engine)["runner"]
        asked = {"0": "V1", "1": "V2"}.get(os.environ.get("VLLM_USE_V2_MODEL_RUNNER", ""), taken)
        if taken != asked:
            return Finding(None, reason=f"vLLM takes the model runner {taken} for this model")
        return asyncio.run(_scores(engine, written=written))


def scores_of_preempted_requests(model: str) -> Finding:
    """The same in a KV cache of a few blocks, so that requests are thrown out of the batch."""
    # 384 tokens are 12 blocks, and one is never used.
    set_vllm_arguments(num_gpu_blocks_override=13)
    finding = scores(model, written=40, context=384, block_size=32, max_batch_tokens=128)
    if finding.right and not finding.figures["preempted"]:
        return Finding(None, finding.figures, "no request was preempted")
    return finding


def closes(model: str) -> Finding:
    """Memory comes back, and the engine opens again, twice.

    Others may use the card meanwhile, unless a container hides this process from the driver.
    """
    import torch

    if on_gpu():
        torch.cuda.mem_get_info()  # makes CUDA's context, which stays as long as the process
    closed, alive = [memory_held()], []
    for _ in range(3):
        engine = open_engine(model)
        vllm = weakref.ref(engine._dispatcher.core.engine)
        asyncio.run(engine.generate(Request(prompt=SHORT, sampling=Sampling(max_tokens=4))))
        opened = memory_held()
        engine.close()
        del engine
        gc.collect()
        alive.append(vllm() is not None)
        closed.append(memory_held())
    whose = 0 if opened[0] else 1
    figures = {
        "mib_of": ("this process", "everybody")[whose],
        "mib_open": opened[whose],
        "mib_closed": [held[whose] for held in closed],
    }
    kept = closed[-1][whose] - closed[0][whose]
    right = not any(alive) and kept < 1024
    return Finding(right, figures, "" if right else f"alive: {alive}, {kept:.0f} MiB are kept")


def two_engines(model: str) -> Finding:
    """Greedy answers of two engines: each alone, both at once, one after the other is closed."""

    async def answers(engine: VllmEngine) -> list[tuple[int, ...]]:
        requests = [
            Request(prompt=f"story {i}", sampling=Sampling(max_tokens=16)) for i in range(8)
        ]
        return [
            answer.token_ids for answer in await asyncio.gather(*(map(engine.generate, requests)))
        ]

    async def look() -> Finding:
        first, second = open_engines(model, model, dtype="float32")
        alone = [await answers(first), await answers(second)]
        both = list(await asyncio.gather(answers(first), answers(second)))
        await first.aclose()
        after = await answers(second)
        await second.aclose()
        same_as_alone = {"both": both == alone, "after one is closed": after == alone[1]}
        wrong = [name for name, same in same_as_alone.items() if not same]
        return Finding(not wrong, same_as_alone, f"other answers: {wrong}" if wrong else "")

    return asyncio.run(look())


def _time_masks(engine: VllmEngine) -> list[float]:
    """Seconds in which vLLM fills the masks of a step, one entry for each step from now on."""
    manager = engine._dispatcher.core.engine.engine_core.engine_core.structured_output_manager
    fill = manager.grammar_bitmask
    seconds: list[float] = []

    def timed(*args: Any, **kwargs: Any) -> Any:  # noqa: ANN401
        begun = time.perf_counter()
        masks = fill(*args, **kwargs)
        if masks is not None:
            seconds.append(time.perf_counter() - begun)
        return masks

    manager.grammar_bitmask = timed
    return seconds


def constrained(model: str, *, backend: str = "outlines") -> Finding:
    """Drawn answers match their pattern; tokens a second, and what masks cost."""
    with closing(open_engine(model, structured_backend=backend)) as engine:
        tokens = engine.encode(LONG[0]).token_ids

        async def draw() -> list[tuple[int, ...]]:
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
            return [result.token_ids for result in await asyncio.gather(*map(engine.submit, jobs))]

        masks = _time_masks(engine)
        begun = time.perf_counter()
        drawn = asyncio.run(draw())
        seconds = time.perf_counter() - begun
        texts = [engine.decode(token_ids[:-1]) for token_ids in drawn]
        activity = engine.activity
        figures = describe(engine) | {
            "tokens_per_second": sum(map(len, drawn)) / seconds,
            "ms_per_step": activity.stepping_seconds / max(1, activity.steps) * 1e3,
            "ms_of_masks_per_step": sum(masks) / max(1, len(masks)) * 1e3,
            "ms_of_masks_at_most": max(masks, default=0.0) * 1e3,
        }
    wrong = [text for text in texts if re.fullmatch(PATTERN, text) is None]
    return Finding(not wrong, figures, f"{len(wrong)} do not match: {wrong[:2]}" if wrong else "")


def process(model: str) -> Finding:
    """What an engine core in a process of its own answers, beside one in this process.

    Greedy answers in float32, exact scores, drawn constrained answers; memory comes back.
    """
    asked = [
        Request(prompt=LONG[0], sampling=Sampling(max_tokens=16)),
        Request(
            prompt=LONG[1],
            sampling=Sampling(temperature=1.0, seed=3),
            constraint=Constraint(regex=PATTERN, max_bytes=79),
        ),
    ]

    async def look(engine: VllmEngine) -> tuple[list[str], tuple[float, ...]]:
        gone = asyncio.ensure_future(engine.generate(replace(asked[0], prompt=SHORT)))
        await asyncio.sleep(0.01)
        gone.cancel()
        answers = await asyncio.gather(*map(engine.generate, asked))
        scored = (await engine.score(ScoreRequest(LONG[0], ACTIONS))).logprobs
        await engine.forget_prefixes()
        return [answer.text for answer in answers], scored

    seen, opened, held = [], [], [memory_held()[1]]
    for apart in (False, True):
        begun = time.perf_counter()
        with closing(open_engine(model, dtype="float32", process=apart)) as engine:
            opened.append(time.perf_counter() - begun)
            seen.append(asyncio.run(look(engine)))
            figures = describe(engine)
        held.append(memory_held()[1])
    (answers, scored), (others, scored_apart) = seen
    gap = _apart(scored, scored_apart)
    figures |= {"seconds_to_open": opened, "nats_apart": gap, "mib_of_everybody_closed": held}
    near = gap is not None and gap <= AGREEMENT["float32"]
    right = near and answers == others and re.fullmatch(PATTERN, answers[1]) is not None
    return Finding(right, figures, "" if right else f"answers and scores: {seen}")


def adapters(model: str) -> Finding:
    """Scores of the base model alone, and beside requests for an adapter."""
    if not on_gpu():
        return Finding(None, reason="a CPU merges an adapter into the weights")
    if model != "smollm2-135m-instruct":
        return Finding(None, reason="the bundled adapter is for smollm2-135m-instruct")

    async def look(engine: VllmEngine) -> Finding:
        alone = (await engine.score(ScoreRequest(LONG[0], ACTIONS))).logprobs
        await engine.forget_prefixes()
        beside, taught = await asyncio.gather(
            engine.score(ScoreRequest(LONG[0], ACTIONS)),
            engine.score(ScoreRequest(LONG[0], ACTIONS, adapter="planner")),
        )
        gap = max(abs(a - b) for a, b in zip(alone, beside.logprobs, strict=True))
        moved = max(abs(a - b) for a, b in zip(alone, taught.logprobs, strict=True))
        right = gap <= AGREEMENT[engine.identity.dtype] and moved > 0.01
        figures = {"nats_apart": gap, "nats_moved_by_adapter": moved}
        return Finding(right, figures, "" if right else f"alone, beside and adapted: {figures}")

    with closing(open_engine(model, adapters={"planner": "smollm2-135m-planner"})) as engine:
        return asyncio.run(look(engine))


def alone_and_together(model: str) -> Finding:
    """Greedy answers alone and in a batch; in float32 they are equal."""

    async def look(engine: VllmEngine) -> Finding:
        requests = [
            Request(prompt=prompt, sampling=Sampling(max_tokens=16)) for prompt in (SHORT, *LONG)
        ]
        alone = [(await engine.generate(request)).token_ids for request in requests]
        together = await asyncio.gather(*map(engine.generate, requests))
        same = [a == b.token_ids for a, b in zip(alone, together, strict=True)]
        wrong = f"answers alone and together that are the same: {same}"
        return Finding(all(same), {"same": sum(same), "of": len(same)}, "" if all(same) else wrong)

    with closing(open_engine(model, dtype="float32")) as engine:
        return asyncio.run(look(engine))


CHECKS: Mapping[str, Callable[[str], Finding]] = {
    "machine": machine,
    "opens-eagerly": partial(opens, eager=True),
    "opens": opens,
    "scores": scores,
    "scores-preempted": scores_of_preempted_requests,
    "closes": closes,
    "two-engines": two_engines,
    "constrained": constrained,
    "constrained-guidance": partial(constrained, backend="guidance"),
    PROCESS: process,
    "adapters": adapters,
    "alone-and-together": alone_and_together,
    "kernel": kernel,
    "vision-7b": vision_7b,
}
"""In the order in which they are made: what is right before what is fast."""

if __name__ == "__main__":
    main()
