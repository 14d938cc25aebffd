"""The checks, each in a process of its own, which writes what it finds, a line of JSON each."""

from __future__ import annotations

import asyncio
import gc
import json
import os
import re
import sys
import time
import weakref
from contextlib import closing
from dataclasses import asdict, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from llm_planning.gpu_check.asked import (
    ACTIONS,
    LONG,
    PATTERN,
    SHORT,
    answers_match,
    apart,
    scores_agree,
)
from llm_planning.gpu_check.card import kernel, machine
from llm_planning.gpu_check.day import engine_7b, engine_135m, pack_caches, scores_7b
from llm_planning.gpu_check.finding import (
    Finding,
    describe,
    open_engine,
    open_engines,
    set_vllm_arguments,
)
from llm_planning.gpu_check.unweighted import SMOLLM2, folder_of
from llm_serving.answers import Constraint
from llm_serving.errors import EngineConfigError
from llm_serving.request import Request, Sampling, ScoreRequest
from llm_serving.vllm_arguments import on_gpu
from llm_serving.vllm_engine import AGREEMENT
from llm_serving.vllm_stats import Cards

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from llm_serving.vllm_engine import VllmEngine

RANDOM = "random"
"""The model that is made on the spot."""

PROCESS = "process"
"""A check that `process: auto` waits for."""


def main() -> None:
    """Runs one check, and prints what it finds as it finds it.

    What libraries print goes to standard error.
    """
    name, model, out = sys.argv[1:4]
    lines = os.fdopen(os.dup(sys.stdout.fileno()), "w", encoding="utf-8", errors="replace")
    os.dup2(sys.stderr.fileno(), sys.stdout.fileno())
    found = pack_caches(Path(out)) if name == PACKING else CHECKS[name](made(model))
    for finding in [found] if isinstance(found, Finding) else found:
        lines.write(json.dumps(asdict(finding)) + "\n")
        lines.flush()


def made(model: str) -> str:
    """The model, or the folder of the one that is made on the spot."""
    return str(folder_of(replace(SMOLLM2, written=True))) if model == RANDOM else model


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
        return asyncio.run(scores_agree(engine, written=written))


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
    closed, alive = [Cards().held()], []
    for _ in range(3):
        engine = open_engine(model)
        vllm = weakref.ref(engine._dispatcher.core.engine)
        asyncio.run(engine.generate(Request(prompt=SHORT, sampling=Sampling(max_tokens=4))))
        opened = Cards().held()
        engine.close()
        del engine
        gc.collect()
        alive.append(vllm() is not None)
        closed.append(Cards().held())
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
    """Drawn answers match their pattern; what masks cost."""
    with closing(open_engine(model, structured_backend=backend)) as engine:
        masks = _time_masks(engine)
        finding = asyncio.run(answers_match(engine))
    finding.figures["ms_of_masks_per_step"] = sum(masks) / max(1, len(masks)) * 1e3
    finding.figures["ms_of_masks_at_most"] = max(masks, default=0.0) * 1e3
    return finding


def process(model: str) -> Finding:
    """What an engine core in a process of its own answers, beside one in this process.

    Greedy answers in float32, exact scores, drawn constrained answers; a request is cancelled, and
    the prefix cache is emptied. What the cards hold before and after are figures alone.
    """
    asked = [
        Request(prompt=LONG[0], sampling=Sampling(max_tokens=16)),
        Request(
            prompt=LONG[1],
            sampling=Sampling(temperature=1.0, seed=3),
            constraint=Constraint(regex=PATTERN, max_bytes=79),
        ),
    ]

    async def look(engine: VllmEngine) -> tuple[list[str], tuple[float, ...], bool]:
        gone = asyncio.ensure_future(engine.generate(replace(asked[0], prompt=SHORT)))
        await asyncio.sleep(0.01)
        gone.cancel()
        answers = await asyncio.gather(*map(engine.generate, asked))
        scored = (await engine.score(ScoreRequest(LONG[0], ACTIONS))).logprobs
        return [answer.text for answer in answers], scored, await engine.forget_prefixes()

    seen, opened, held = [], [], [Cards().held()[1]]
    for own in (False, True):
        begun = time.perf_counter()
        with closing(open_engine(model, dtype="float32", process=own)) as engine:
            opened.append(time.perf_counter() - begun)
            seen.append(asyncio.run(look(engine)))
            figures = describe(engine)
        held.append(Cards().held()[1])
    (answers, scored, emptied), (others, scored_apart, emptied_apart) = seen
    gap = apart(scored, scored_apart)
    figures |= {"seconds_to_open": opened, "nats_apart": gap, "mib_of_everybody_closed": held}
    near = gap is not None and gap <= AGREEMENT["float32"]
    matches = re.fullmatch(PATTERN, answers[1]) is not None
    right = near and answers == others and matches and emptied and emptied_apart
    reason = "" if right else f"answers, scores, and whether the cache was emptied: {seen}"
    return Finding(right, figures, reason)


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


PACKING = "caches"

CHECKS: Mapping[str, Callable[[str], Finding | Iterable[Finding]]] = {
    "machine": machine,
    "kernel": kernel,
    "engine-7b": engine_7b,
    "scores-7b": scores_7b,
    "engine-135m-process": partial(engine_135m, process=True),
    "engine-135m": engine_135m,
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
}
"""In the order of their worth."""

if __name__ == "__main__":
    main()
