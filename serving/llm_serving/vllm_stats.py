"""What vLLM reports after every step: load, prefix cache, preemptions; what cards report."""

from __future__ import annotations

import multiprocessing
import os
import threading
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from llm_serving.vllm_arguments import GIB, on_gpu

if TYPE_CHECKING:
    from collections.abc import Iterator

MEBIBYTE = 1 << 20
EVERY = 0.1
"""Seconds between two looks at the cards; the driver sums up a sixth of a second and more."""


@dataclass(frozen=True, slots=True, kw_only=True)
class EngineLoad:
    """How full the engine is.

    Attributes:
        running: requests in the batch of the last step.
        waiting: requests that were not in it: new ones, and requests without room.
        capacity: requests that one step may advance.
        preempted: requests thrown out of a batch for want of KV cache, since the engine started.
        kv_usage: share of the KV cache in use.
        prompt_tokens: read by finished requests since the engine started, cached ones included.
        cached_tokens: of these, taken from the prefix cache.
        written_tokens: written by finished requests since then.
        cache_tokens: how many the KV cache holds; 0 if that is not known.
    """

    running: int
    waiting: int
    capacity: int
    preempted: int
    kv_usage: float
    prompt_tokens: int = 0
    cached_tokens: int = 0
    written_tokens: int = 0
    cache_tokens: int = 0


@dataclass(frozen=True, slots=True)
class PrefixCacheStats:
    """The prefix cache, as vLLM counts it since the engine started.

    Attributes:
        queries: prompt tokens looked up.
        hits: prompt tokens found.
    """

    queries: int
    hits: int


@dataclass(slots=True)
class StepStats:
    """Sums and last values over the steps so far; written by the stepping thread alone."""

    prefix_queries: int = 0
    prefix_hits: int = 0
    running: int = 0
    preempted: int = 0
    kv_usage: float = 0.0
    prompt_tokens: int = 0
    cached_tokens: int = 0
    written_tokens: int = 0

    def logger(self) -> type:
        """A class of vLLM's own loggers whose instances write here.

        vLLM adds a `PrometheusStatLogger` unless one of those that it is given is one. Its own
        takes 57 µs of a step with 64 requests, and nobody reads what it counts.
        """
        from vllm.v1.metrics.loggers import PrometheusStatLogger

        stats = self

        class StepLogger(PrometheusStatLogger):  # type: ignore[misc]
            def __init__(self, *_: object, **__: object) -> None:
                pass  # no metrics are registered

            def record(
                self,
                scheduler_stats: Any,  # noqa: ANN401
                iteration_stats: Any,  # noqa: ANN401
                *_: object,
                **__: object,
            ) -> None:
                if iteration_stats is not None:
                    stats.preempted += iteration_stats.num_preempted_reqs
                if scheduler_stats is None:
                    return
                stats.running = scheduler_stats.num_running_reqs
                stats.kv_usage = scheduler_stats.kv_cache_usage
                if scheduler_stats.prefix_cache_stats is not None:
                    stats.prefix_queries += scheduler_stats.prefix_cache_stats.queries
                    stats.prefix_hits += scheduler_stats.prefix_cache_stats.hits

            def log(self) -> None:
                pass

            def log_engine_initialized(self) -> None:
                pass

        return StepLogger


class Cards:
    """All cards, as NVIDIA's driver tells by the copy of NVML that vLLM brings; none on a CPU."""

    def __init__(self) -> None:
        self._handles: list[Any] = []
        if on_gpu():
            from vllm.third_party import pynvml

            pynvml.nvmlInit()
            count = pynvml.nvmlDeviceGetCount()
            self._handles = [pynvml.nvmlDeviceGetHandleByIndex(number) for number in range(count)]
            self._nvml: Any = pynvml

    def held(self) -> tuple[float, float]:
        """MiB in use: by this process and its own, as far as the driver names them; by anybody."""
        ours = {os.getpid(), *(child.pid for child in multiprocessing.active_children())}
        own = sum(
            process.usedGpuMemory or 0
            for card in self._handles
            for process in self._nvml.nvmlDeviceGetComputeRunningProcesses(card)
            if process.pid in ours
        )
        everybody = sum(self._nvml.nvmlDeviceGetMemoryInfo(card).used for card in self._handles)
        return own / MEBIBYTE, everybody / MEBIBYTE

    def free_gib(self) -> float | None:
        """The least memory that is free on one of them; None without any."""
        free = [self._nvml.nvmlDeviceGetMemoryInfo(card).free for card in self._handles]
        return min(free) / GIB if free else None

    @contextmanager
    def watched(self) -> Iterator[list[float]]:
        """Shares of time in which the busiest worked, one for each look while this is open."""
        looks: list[float] = []
        over = threading.Event()

        def look() -> None:
            while self._handles and not over.wait(EVERY):
                rates = map(self._nvml.nvmlDeviceGetUtilizationRates, self._handles)
                looks.append(max(rate.gpu for rate in rates) / 100)

        watching = threading.Thread(target=look, daemon=True)
        watching.start()
        try:
            yield looks
        finally:
            over.set()
            watching.join()
