"""What a check finds, and the engine that it opens."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from llm_serving import vllm_adapter
from llm_serving.config import EngineConfig
from llm_serving.gpu_sharing import share_gpus
from llm_serving.vllm_arguments import on_gpu
from llm_serving.vllm_engine import VllmEngine


@dataclass(frozen=True, slots=True)
class Finding:
    """What a check found.

    Attributes:
        right: None where it could not be looked at here, or where only its speed was.
        figures: by name.
        reason: why it is not right, or was not looked at.
        about: what was asked, of a check that asks several things; "" otherwise.
    """

    right: bool | None
    figures: dict[str, Any] = field(default_factory=dict)
    reason: str = ""
    about: str = ""


class NoEncoder:
    """Nothing is embedded here."""

    def close(self) -> None:
        """There is nothing to close."""


def open_engine(model: str, **options: Any) -> VllmEngine:  # noqa: ANN401 - of a configuration
    """A small engine; options are keys of `EngineConfig`."""
    (engine,) = open_engines(model, **options)
    return engine


def open_engines(*models: str, **options: Any) -> list[VllmEngine]:  # noqa: ANN401
    """Small engines that share the GPU, as those of a run do."""
    # A fixed cache: nothing is measured of the card, which others may use meanwhile.
    cache_gib = 2 if on_gpu() else 0.1
    settings: dict[str, Any] = {
        "context": 512,
        "kv_cache_gib": cache_gib,
        "max_batch": 80,
        "process": False,  # the checks look into the engine's core
    }
    return [
        VllmEngine(place.config, encoder=NoEncoder(), beside=place.beside)  # type: ignore[arg-type]
        for place in share_gpus(
            [EngineConfig(model=model, **settings | options) for model in models]
        )
    ]


def many() -> int:
    """Requests at once: a CPU takes its time."""
    return 64 if on_gpu() else 8


def describe(engine: VllmEngine) -> dict[str, Any]:
    """How vLLM runs the model."""
    core = engine._dispatcher.core
    vllm = core.engine.vllm_config
    return {
        "runner": core.runner,
        "scheduling": "asynchronous" if vllm.scheduler_config.async_scheduling else "synchronous",
        "process": "this one" if core.takes_turns else "its own",
        "dtype": core.dtype,
        "block_size": core.block_size,
        "blocks": core.cache_tokens // core.block_size,
    }


def set_vllm_arguments(**arguments: Any) -> None:  # noqa: ANN401 - fields of `EngineArgs`
    """Gives all engines of this process arguments that no configuration has."""
    module: Any = vllm_adapter
    configured = module.engine_arguments

    def with_arguments(*args: Any, **kwargs: Any) -> dict[str, Any]:  # noqa: ANN401
        return {**configured(*args, **kwargs), **arguments}

    module.engine_arguments = with_arguments
