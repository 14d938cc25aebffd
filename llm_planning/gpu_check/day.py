"""Engines of real sizes with random weights: each is opened once, for all that it is asked."""

from __future__ import annotations

import asyncio
import io
import os
import tarfile
import time
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from llm_base.files import write_durably
from llm_planning.gpu_check.asked import (
    answers_match,
    bare,
    pictures_are_read,
    planned,
    prefix_cache_changes_nothing,
    scores_agree,
    scoring_speed,
    states,
    tokens_differ,
)
from llm_planning.gpu_check.finding import Finding, NoEncoder, set_vllm_arguments
from llm_planning.gpu_check.unweighted import (
    SEVEN_BILLION,
    SMOLLM2,
    TINY,
    folder_of,
    spread_weights,
)
from llm_planning.model_configs import find_config
from llm_serving.errors import KvCacheMemoryError
from llm_serving.vllm_arguments import GIB, on_gpu
from llm_serving.vllm_engine import VllmEngine
from llm_serving.vllm_stats import Cards

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine, Iterator

    from llm_planning.gpu_check.unweighted import Sizes
    from llm_serving.config import EngineConfig
    from llm_serving.request import Request

_LARGEST_CACHE_GIB = 24.0
_SEVEN_B, _SMALL = "qwen2.5-vl-7b-instruct", "smollm2-135m-instruct"
_BESIDE_CACHE_GIB = {_SEVEN_B: 20.0, _SMALL: 4.0}
"""Weights, activations, graphs and libraries (estimates)."""

_ON_A_GPU = {"max_batch": 256, "max_batch_tokens": 8192}
_ON_A_CPU = {
    "dtype": "float32",
    "context": 4096,
    "kv_cache_gib": 0.1,
    "max_batch": 8,
    "max_batch_tokens": 4096,
    "block_size": None,
}
_FEW = 2
_CACHES = {
    "vllm-torch-compile-cache": ("VLLM_CACHE_ROOT", "~/.cache/vllm", "torch_compile_cache"),
    "triton-cache": ("TRITON_CACHE_DIR", "~/.triton/cache", ""),
}
"""Name of the archive -> variable of the environment, folder without it, folder below that."""


def engine_7b(model: str) -> Iterator[Finding]:  # noqa: ARG001 - another one
    """Qwen2.5-VL-7B as it is configured, in this process; a tiny one on a CPU."""
    sizes = SEVEN_BILLION if on_gpu() else TINY
    try:
        config = _configured(_SEVEN_B, sizes)
    except ImportError as error:
        reason = f"the image processor cannot be made: {str(error).strip().partition('. ')[0]}"
        yield Finding(None, reason=reason, about="pictures")
        sizes = sizes.without_images()
        config = _configured(_SEVEN_B, sizes, images_per_prompt=0, max_pixels=None)
    yield from _everything(config)


def engine_135m(model: str, *, process: bool = False) -> Iterator[Finding]:  # noqa: ARG001
    """SmolLM2-135M's sizes, its core in this process or in one of its own; a tiny one on a CPU."""
    sizes = SMOLLM2 if on_gpu() else TINY.without_images()
    yield from _everything(_configured(_SMALL, sizes, process=process))


def scores_7b(model: str) -> Iterator[Finding]:  # noqa: ARG001
    """Exact scores of the text layers of 7B, eager for a quick start; a tiny one on a CPU.

    The process that starts this one says on which of vLLM's model runners.
    """
    sizes = (SEVEN_BILLION if on_gpu() else TINY).without_images()
    config = _configured(_SEVEN_B, sizes, images_per_prompt=0, max_pixels=None, eager=True)
    with closing(_opened(config)) as engine:
        cards = Cards()
        yield _found("scores", lambda: scores_agree(engine))
        yield _found("scoring speed", lambda: scoring_speed(engine, cards, repeats=_repeats()))


def _configured(name: str, sizes: Sizes, **changes: Any) -> EngineConfig:  # noqa: ANN401
    """A configuration of this project, of a model without weights.

    The KV cache is fixed, so that nothing is measured of a card that others may use meanwhile.

    Raises:
        ImportError: as `folder_of`.
    """
    config = find_config(name)
    update: dict[str, Any] = {"model": str(folder_of(sizes)), "process": False}
    if on_gpu():
        import torch

        total = torch.cuda.get_device_properties(0).total_memory / GIB
        room = config.memory_share * total - _BESIDE_CACHE_GIB[name]
        update |= _ON_A_GPU | {"kv_cache_gib": max(1.0, min(_LARGEST_CACHE_GIB, room // 1))}
    else:
        update |= _ON_A_CPU
        if config.max_pixels is not None:
            update["max_pixels"] = TINY.largest_image // 4
    return config.model_copy(update=update | changes)


def _opened(config: EngineConfig) -> VllmEngine:
    if not on_gpu():
        return VllmEngine(config, encoder=NoEncoder())  # type: ignore[arg-type]
    set_vllm_arguments(load_format="dummy")
    os.environ["VLLM_ALLOW_INSECURE_SERIALIZATION"] = "1"  # a function goes to the engine's core
    engine = VllmEngine(config, encoder=NoEncoder())  # type: ignore[arg-type]
    spread = engine._dispatcher.call(lambda core: core.engine.collective_rpc(spread_weights))
    asyncio.run(spread)
    return engine


def _everything(config: EngineConfig) -> Iterator[Finding]:
    """Opens one engine and asks it everything: what is right first."""
    begun = time.perf_counter()
    try:
        engine = _opened(config)
    except KvCacheMemoryError as error:
        yield Finding(None, reason=str(error), about="opened")
        return
    seconds = time.perf_counter() - begun
    with closing(engine):
        cards = Cards()
        asked: list[Request] = []
        figures = {"seconds": seconds, "gib_free": cards.free_gib()}
        yield _found("opened", lambda: tokens_differ(engine, figures))

        async def plans() -> Finding:
            finding, requests = await planned(engine, cards, plans=64 if on_gpu() else _FEW)
            asked.extend(requests)
            return finding

        async def speeds() -> Finding:
            figures = {}
            for limit in (256, 64, 1) if on_gpu() else (_FEW,):
                some = (asked * 4)[: 4 * limit]
                figures[f"{limit} at most"] = await bare(engine, cards, some, limit=limit)
            return Finding(None, figures)

        parts: dict[str, Callable[[], Coroutine[Any, Any, Finding]]] = {
            "scores": lambda: scores_agree(engine),
            "constrained JSON": lambda: answers_match(engine),
            "Tree of Options": plans,
            "prefix cache": lambda: prefix_cache_changes_nothing(
                engine, [request.prompt for request in asked] or states()
            ),
            "scoring speed": lambda: scoring_speed(engine, cards, repeats=_repeats()),
            "requests in flight": speeds,
        }
        if config.images_per_prompt:
            parts["pictures"] = lambda: pictures_are_read(engine)
        for about, part in parts.items():
            yield _found(about, part)
    yield Finding(None, {"gib_free": cards.free_gib()}, about="closed")


def _found(about: str, part: Callable[[], Coroutine[Any, Any, Finding]]) -> Finding:
    """What a part finds; one that fails ends no other."""
    try:
        return replace(asyncio.run(part()), about=about)
    except Exception as error:  # the engine, a planner or a check of answers
        return Finding(False, reason=f"{type(error).__name__}: {error}", about=about)


def _repeats() -> int:
    return 4 if on_gpu() else 1


def pack_caches(out: Path) -> Iterator[Finding]:
    """Packs what vLLM and Triton have compiled, so that it can be carried to the next machine.

    Unpacked into the same home folder, with models at the same paths, nothing is compiled again.
    """
    for name, (variable, usual, below) in _CACHES.items():
        folder = Path(os.environ.get(variable) or os.path.expanduser(usual)) / below
        if not folder.is_dir():
            yield Finding(None, reason=f"nothing was compiled in {folder}", about=name)
            continue
        begun = time.perf_counter()
        packed = io.BytesIO()
        with tarfile.open(fileobj=packed, mode="w:gz", compresslevel=1) as archive:
            archive.add(folder, arcname=folder.name)
        write_durably(out / f"{name}.tar.gz", packed.getvalue())
        figures = {
            "of": str(folder),
            "bytes": packed.tell(),
            "seconds": time.perf_counter() - begun,
        }
        yield Finding(True, figures, about=name)
