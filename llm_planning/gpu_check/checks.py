"""The checks, each in a process of its own, whose last line is what it found as JSON."""

from __future__ import annotations

import asyncio
import gc
import json
import re
import sys
import time
import weakref
from contextlib import closing
from dataclasses import asdict, dataclass, field
from typing import TYPE_CHECKING, Any

from llm_serving.config import EngineConfig
from llm_serving.errors import EngineConfigError, ServingError
from llm_serving.request import Message, Request, Sampling
from llm_serving.scoring import plain_scores, tail_scores, trie_scores
from llm_serving.vllm_adapter import VllmJob, sampling_params
from llm_serving.vllm_arguments import on_gpu
from llm_serving.vllm_engine import AGREEMENT, VllmEngine

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from llm_serving.request import Prompt

SHORT = (Message("user", "hi"),)
LONG = tuple(
    (Message("user", f"{i}. You walk through the cave and find a lamp. " * 6 + "What now?"),)
    for i in range(2)
)
ACTIONS = ["go north", "go", "go south", "open the door", "take the lamp"]
PATTERN = r'\{"act": "(go north|go south|open)", "why": "[a-z ]{1,20}"\}'
MEBIBYTE = 1 << 20


@dataclass(frozen=True, slots=True)
class Found:
    """What a check found.

    Attributes:
        right: None where it could not be looked at here.
        figures: by name.
        reason: why it is not right, or was not looked at.
    """

    right: bool | None
    figures: dict[str, Any] = field(default_factory=dict)
    reason: str = ""


def main() -> None:
    """Runs one check, and prints what it found."""
    name, model = sys.argv[1:3]
    print(json.dumps(asdict(CHECKS[name](model))))


def machine(model: str) -> Found:  # noqa: ARG001 - nothing is opened
    """Driver, card, compiler, torch, packages: what `doctor` says."""
    import torch

    from llm_planning.commands.doctor import examine

    found = {check.name: f"{check.status}: {check.detail}" for check in examine()}
    cuda = torch.version.cuda
    right = None if cuda is None else torch.cuda.is_available()
    reason = {None: "torch is built for the CPU", False: "torch finds no GPU", True: ""}[right]
    return Found(right, {"cuda": cuda, **found}, reason)


def _config(model: str, **options: Any) -> EngineConfig:  # noqa: ANN401 - fields of a configuration
    settings: dict[str, Any] = {"context": 512, "kv_cache_gib": 0.1, "max_batch": 80}
    return EngineConfig(model=model, **settings | options)


def _many() -> int:
    """Requests at once: a CPU takes its time."""
    return 64 if on_gpu() else 8


class _NoEncoder:
    """Nothing is embedded here."""

    def close(self) -> None:
        pass


def _open(model: str, **options: Any) -> VllmEngine:  # noqa: ANN401
    return VllmEngine(_config(model, **options), encoder=_NoEncoder())  # type: ignore[arg-type]


def _describe(engine: VllmEngine) -> dict[str, Any]:
    core = engine._dispatcher.core
    inner = core.engine.engine_core.engine_core
    return {
        "runner": core.runner,
        "step": inner.step_fn.__name__,
        "dtype": core.dtype,
        "block_size": core.block_size,
        "blocks": inner.vllm_config.cache_config.num_gpu_blocks,
    }


def opens(model: str, *, eager: bool = False) -> Found:
    """The engine opens and answers; seconds of each."""
    begun = time.perf_counter()
    with closing(_open(model, eager=eager)) as engine:
        opened = time.perf_counter()
        answer = asyncio.run(
            engine.generate(Request(prompt=SHORT, sampling=Sampling(max_tokens=8)))
        )
        figures = _describe(engine) | {
            "seconds_to_open": opened - begun,
            "seconds_to_answer": time.perf_counter() - opened,
        }
    return Found(bool(answer.token_ids), figures)


def opens_eagerly(model: str) -> Found:
    """As `opens`, without compiled graphs."""
    return opens(model, eager=True)


async def _plain(engine: VllmEngine, prompt: Prompt) -> list[float]:
    """Log-probabilities of the actions by uncached `prompt_logprobs`."""
    sequences = [engine.own_tokens(action) for action in ACTIONS]
    scored = await plain_scores(engine.submit, engine.encode(prompt), sequences, ends=engine.ends)
    return scored.logprobs


async def _scores(engine: VllmEngine) -> Found:
    """A short prompt first, then long ones, alone and beside other requests."""
    gaps: dict[str, float] = {}

    async def look(name: str, prompt: Prompt) -> None:
        scored = (await engine.score(prompt, ACTIONS)).logprobs
        plain = await _plain(engine, prompt)
        gaps[name] = max(abs(a - b) for a, b in zip(scored, plain, strict=True))

    await look("short prompt first", SHORT)
    for i, prompt in enumerate(LONG):
        await look(f"long prompt {i}", prompt)
    sequences = [engine.own_tokens(action) for action in ACTIONS]
    plain = await _plain(engine, LONG[0])
    for way in {engine.fast_scores, tail_scores, trie_scores}:
        scored = await way(engine.submit, engine.encode(LONG[0]), sequences, ends=engine.ends)
        name = getattr(way, "__name__", "way")
        gaps[name] = max(abs(a - b) for a, b in zip(scored.logprobs, plain, strict=True))
    writing = [
        asyncio.ensure_future(
            engine.generate(
                Request(
                    prompt=f"story {i}", sampling=Sampling(temperature=1, max_tokens=32, seed=i)
                )
            )
        )
        for i in range(_many())
    ]
    beside = await asyncio.gather(*(engine.score(prompt, ACTIONS) for prompt in LONG))
    await asyncio.gather(*writing)
    for i, scores in enumerate(beside):
        plain = await _plain(engine, LONG[i])
        gaps[f"beside {len(writing)} requests {i}"] = max(
            abs(a - b) for a, b in zip(scores.logprobs, plain, strict=True)
        )
    allowed = AGREEMENT[engine.identity.dtype]
    figures = _describe(engine) | {
        "way": engine._scoring,
        "nats_apart": max(gaps.values()),
        "nats_allowed": allowed,
        "preempted": engine.load().preempted,
        "gaps": gaps,
    }
    wrong = {name: gap for name, gap in gaps.items() if not gap <= allowed}
    reason = f"scores differ from uncached prompt_logprobs: {wrong}" if wrong else ""
    return Found(not wrong, figures, reason)


def scores(model: str, **options: Any) -> Found:  # noqa: ANN401
    """Exact scores against vLLM's own uncached ones."""
    try:
        engine = _open(model, **options)
    except EngineConfigError as error:
        if on_gpu():
            raise
        return Found(None, reason=str(error))  # a CPU's Triton has no second model runner
    with closing(engine):
        return asyncio.run(_scores(engine))


def scores_of_preempted_requests(model: str) -> Found:
    """The same in a KV cache of a few blocks, so that requests are thrown out of the batch."""
    if on_gpu():
        return Found(None, reason="on a GPU the cache's size follows from the memory's share")
    return scores(model, kv_cache_gib=_few_blocks(model))


def _few_blocks(model: str) -> float:
    """GiB of KV cache for the longest context and a little more."""
    from transformers import AutoConfig

    from llm_serving.models import resolve

    shape = AutoConfig.from_pretrained(str(resolve(model).path))
    heads = shape.num_key_value_heads * (
        shape.head_dim or shape.hidden_size // shape.num_attention_heads
    )
    return float(shape.num_hidden_layers * 2 * heads * 4 * 32 * 20 / 2**30)


def closes(model: str) -> Found:
    """Memory comes back, and the engine opens again, twice."""
    import torch

    def held() -> float:
        return torch.cuda.memory_reserved() / MEBIBYTE if torch.cuda.is_available() else 0.0

    figures: dict[str, Any] = {"mib_before": held()}
    alive = []
    for i in range(3):
        engine = _open(model)
        vllm = weakref.ref(engine._dispatcher.core.engine)
        asyncio.run(engine.generate(Request(prompt=SHORT, sampling=Sampling(max_tokens=4))))
        engine.close()
        del engine
        gc.collect()
        alive.append(vllm() is not None)
        figures[f"mib_after_{i + 1}"] = held()
    kept = figures["mib_after_3"] - figures["mib_before"]
    right = not any(alive) and kept < 1024
    return Found(right, figures, "" if right else f"alive: {alive}, {kept:.0f} MiB are kept")


def two_engines(model: str) -> Found:
    """Greedy answers of two engines: each alone, both at once, one after the other is closed."""

    async def answers(engine: VllmEngine) -> list[tuple[int, ...]]:
        requests = [
            Request(prompt=f"story {i}", sampling=Sampling(max_tokens=16)) for i in range(8)
        ]
        return [one.token_ids for one in await asyncio.gather(*(map(engine.generate, requests)))]

    async def look() -> Found:
        share = {"memory_share": 0.4, "dtype": "float32"}
        one, other = _open(model, **share), _open(model, **share)
        alone = [await answers(one), await answers(other)]
        both = list(await asyncio.gather(answers(one), answers(other)))
        await one.aclose()
        after = await answers(other)
        await other.aclose()
        said = {"both": both == alone, "after one is closed": after == alone[1]}
        wrong = [name for name, same in said.items() if not same]
        return Found(not wrong, said, f"other answers: {wrong}" if wrong else "")

    return asyncio.run(look())


def constrained(model: str, *, backend: str = "outlines") -> Found:
    """Drawn answers match their pattern; tokens a second."""
    with closing(_open(model, structured_backend=backend)) as engine:
        tokens = engine.encode(LONG[0]).token_ids

        async def draw() -> list[tuple[int, ...]]:
            jobs = (
                VllmJob(
                    tokens,
                    (),
                    sampling_params(
                        temperature=1.0, top_p=1.0, max_tokens=80, seed=i, stop=(), regex=PATTERN
                    ),
                )
                for i in range(_many())
            )
            return [one.token_ids for one in await asyncio.gather(*map(engine.submit, jobs))]

        begun = time.perf_counter()
        drawn = asyncio.run(draw())
        seconds = time.perf_counter() - begun
        texts = [engine.decode(token_ids[:-1]) for token_ids in drawn]
        activity = engine.activity
        figures = _describe(engine) | {
            "tokens_per_second": sum(map(len, drawn)) / seconds,
            "ms_per_step": activity.stepping_seconds / max(1, activity.steps) * 1e3,
        }
    wrong = [text for text in texts if re.fullmatch(PATTERN, text) is None]
    return Found(not wrong, figures, f"{len(wrong)} do not match: {wrong[:2]}" if wrong else "")


def constrained_by_guidance(model: str) -> Found:
    """The same by llguidance."""
    return constrained(model, backend="guidance")


def adapters(model: str) -> Found:
    """Scores of the base model alone, and beside requests for an adapter."""
    if not on_gpu():
        return Found(None, reason="a CPU merges an adapter into the weights")
    if model != "smollm2-135m-instruct":
        return Found(None, reason="the bundled adapter is for smollm2-135m-instruct")

    async def look(engine: VllmEngine) -> Found:
        alone = (await engine.score(LONG[0], ACTIONS)).logprobs
        await engine.forget_prefixes()
        beside, taught = await asyncio.gather(
            engine.score(LONG[0], ACTIONS), engine.score(LONG[0], ACTIONS, adapter="planner")
        )
        gap = max(abs(a - b) for a, b in zip(alone, beside.logprobs, strict=True))
        moved = max(abs(a - b) for a, b in zip(alone, taught.logprobs, strict=True))
        right = gap <= AGREEMENT[engine.identity.dtype] and moved > 0.01
        return Found(right, {"nats_apart": gap, "nats_moved_by_adapter": moved})

    with closing(_open(model, adapters={"planner": "smollm2-135m-planner"})) as engine:
        return asyncio.run(look(engine))


def alone_and_together(model: str) -> Found:
    """Greedy answers alone and in a batch; in float32 they are equal."""

    async def look(engine: VllmEngine) -> Found:
        requests = [
            Request(prompt=prompt, sampling=Sampling(max_tokens=16)) for prompt in (SHORT, *LONG)
        ]
        alone = [(await engine.generate(request)).token_ids for request in requests]
        together = await asyncio.gather(*map(engine.generate, requests))
        same = [a == b.token_ids for a, b in zip(alone, together, strict=True)]
        return Found(all(same), {"same": sum(same), "of": len(same)})

    with closing(_open(model, dtype="float32")) as engine:
        return asyncio.run(look(engine))


def kernel(model: str) -> Found:  # noqa: ARG001 - no model
    """The similarity kernel against float64, on every GPU."""
    import numpy as np
    import torch

    from llm_kernels import topk_cosine, topk_oracle

    if not torch.cuda.is_available():
        return Found(None, reason="Triton's kernels run on a GPU")
    rng = np.random.default_rng(0)
    rows, asked = (rng.standard_normal((count, 384)).astype(np.float32) for count in (20_000, 33))
    expected, _ = topk_oracle(asked, rows, 10)
    gaps: dict[str, float] = {}
    for number in range(torch.cuda.device_count()):
        device = f"cuda:{number}"
        found, _ = topk_cosine(
            torch.from_numpy(asked).to(device),
            torch.from_numpy(rows).to(device),
            10,
            backend="triton",
        )
        gaps[device] = float(np.abs(found.cpu().numpy() - expected).max())
    return Found(max(gaps.values()) < 1e-5, {"largest_error": gaps})


def vision_7b(model: str) -> Found:  # noqa: ARG001 - another one
    """Qwen2.5-VL-7B as it is configured: tokens of KV cache, seconds, an answer."""
    from llm_planning.model_configs import find_config

    if not on_gpu():
        return Found(None, reason="it takes a GPU of 24 GB")
    try:
        engine = VllmEngine(
            find_config("qwen2.5-vl-7b-instruct"),
            encoder=_NoEncoder(),  # type: ignore[arg-type]
        )
    except ServingError as error:
        return Found(None, reason=str(error))
    with closing(engine):
        figures = _describe(engine)
        figures["kv_tokens"] = figures["blocks"] * figures["block_size"]
        answer = asyncio.run(
            engine.generate(Request(prompt=SHORT, sampling=Sampling(max_tokens=8)))
        )
    return Found(bool(answer.text), figures)


CHECKS: Mapping[str, Callable[[str], Found]] = {
    "machine": machine,
    "opens-eagerly": opens_eagerly,
    "opens": opens,
    "scores": scores,
    "scores-preempted": scores_of_preempted_requests,
    "closes": closes,
    "two-engines": two_engines,
    "constrained": constrained,
    "constrained-guidance": constrained_by_guidance,
    "adapters": adapters,
    "alone-and-together": alone_and_together,
    "kernel": kernel,
    "vision-7b": vision_7b,
}
"""In the order in which they are made: what is right before what is fast."""

if __name__ == "__main__":
    main()
