"""The models of one run on the same GPU: each gets a share of its memory, by its size.

vLLM takes a fixed share of a GPU at its start, and refuses to start if less is free. Two models
that are configured to be served alone, with 0.9 each, would never start together.
"""

from __future__ import annotations

import logging
import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

from llm_serving.errors import KvCacheMemoryError
from llm_serving.models import resolve
from llm_serving.vllm_arguments import GIB, check_devices, largest_share, memory_share, on_gpu

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from pathlib import Path

    from llm_serving.config import EngineConfig

logger = logging.getLogger(__name__)

TOGETHER = 0.9
"""Share of a GPU that its models and the encoder take together; CUDA itself needs some of the rest.
"""

ENCODER_BYTES = GIB
"""Most that the bundled encoder takes, on the first GPU: a tenth for its weights, the rest for a
batch of 32,768 tokens (computed)."""

WORKING_BYTES = 2 * GIB
"""What a model needs besides its weights, at the least: activations, graphs, KV cache (a guess)."""

_FLOATS: Mapping[str, int] = {"F32": 4, "F16": 2, "BF16": 2}
"""Bytes of the types that are converted when weights are loaded, by their names in files."""
_SERVED: Mapping[str, int] = {"float32": 4, "float16": 2, "bfloat16": 2}

_ENCODER = f"the encoder (at most {ENCODER_BYTES / GIB:.1f} GiB)"


@dataclass(frozen=True, slots=True)
class Place:
    """A model's place on the GPUs.

    Attributes:
        config: of the model, with its share; None for the engine without a model.
        beside: what else of this run holds memory of the same GPU, in words; empty for a model that
            has its GPU for itself.
    """

    config: EngineConfig | None
    beside: tuple[str, ...] = ()


def share_gpus(configs: Sequence[EngineConfig | None]) -> list[Place]:
    """Gives each of the models that are loaded at the same time its share of the GPUs; logs them.

    Args:
        configs: of the models of one run; None for the engine without a model.

    Raises:
        KvCacheMemoryError: the weights do not fit together.
        EngineConfigError: a model names a GPU that is not there.
        ServingError: a model cannot be found or fetched.
    """
    models = [config for config in configs if config is not None]
    if len(models) < 2 or not on_gpu():
        return [Place(config) for config in configs]
    for config in models:
        check_devices(config)
    weights = [weight_bytes(resolve(config.model).path, config.dtype) for config in models]
    placed = place(models, weights, gpu_bytes=_gpu_bytes)
    sharing = [_share_text(spot.config) for spot in placed if spot.config and spot.beside]
    if sharing:
        logger.warning("models share GPUs: %s, beside %s", ", ".join(sharing), _ENCODER)
    rest = iter(placed)
    return [Place(None) if config is None else next(rest) for config in configs]


def place(
    models: Sequence[EngineConfig], weights: Sequence[int], *, gpu_bytes: Callable[[int], int]
) -> list[Place]:
    """Divides each GPU that several models name.

    A model whose KV cache is fixed (`kv_cache_gib`) takes that, its weights and `WORKING_BYTES`,
    and so much becomes its share unless a smaller one was configured. Shares of the others that fit
    beside stay so. Otherwise each of them gets its weights, and of what is left a part in
    proportion to weights and `WORKING_BYTES`.

    Args:
        weights: of each, in bytes.
        gpu_bytes: memory of the GPU with a number.

    Raises:
        KvCacheMemoryError: weights and fixed KV caches of the models of a GPU exceed it together.
    """
    shares = [memory_share(config) for config in models]
    neighbours: list[set[int]] = [set() for _ in models]
    for gpu in sorted({device for config in models for device in config.devices}):
        here = [number for number, config in enumerate(models) if gpu in config.devices]
        if len(here) < 2:
            continue
        for number in here:
            neighbours[number] |= {*here} - {number}
        total = gpu_bytes(gpu)
        room = min(TOGETHER, largest_share()) * total - (ENCODER_BYTES if gpu == 0 else 0)
        held = {number: weights[number] / len(models[number].devices) for number in here}
        fixed = [number for number in here if models[number].kv_cache_gib is not None]
        for number in fixed:
            held[number] += (models[number].kv_cache_gib or 0) * GIB + WORKING_BYTES
            shares[number] = min(shares[number], math.ceil(1000 * held[number] / total) / 1000)
        growing = [number for number in here if number not in fixed]
        asked = sum(held[number] for number in fixed)  # whatever their shares are
        if asked + sum(shares[number] for number in growing) * total <= room:
            continue
        spare = room - sum(held.values())
        if spare <= 0:
            sizes = [f"{models[number].model} {held[number] / GIB:.1f} GiB" for number in here]
            raise KvCacheMemoryError(
                f"GPU {gpu} has {room / GIB:.1f} GiB for models, too little for the weights "
                f"{'and the fixed KV caches ' if fixed else ''}of {', '.join(sizes)} together: "
                "take smaller ones, or move one to another GPU (`devices`)"
            )
        whole = sum(held[number] + WORKING_BYTES for number in growing)
        for number in growing:
            part = held[number] + spare * (held[number] + WORKING_BYTES) / whole
            shares[number] = min(shares[number], math.floor(1000 * part / total) / 1000)
    shared = [
        config.model_copy(update={"memory_share": share})
        for config, share in zip(models, shares, strict=True)
    ]
    places = []
    for config, others in zip(shared, neighbours, strict=True):
        beside = [_share_text(shared[number]) for number in sorted(others)]
        if beside and 0 in config.devices:
            beside.append(_ENCODER)
        places.append(Place(config, tuple(beside)))
    return places


def weight_bytes(folder: Path, dtype: str) -> int:
    """Bytes of the weights in a model's folder, as they are held on the device.

    Args:
        folder: in Hugging Face's layout.
        dtype: as in `EngineConfig`; quantised weights keep their own, and so do files `*.bin`.
    """
    served = _SERVED.get(dtype)
    if found := list(folder.glob("*.safetensors")):
        converted = sum(_growth(file, served) for file in found) if served else 0
        return sum(file.stat().st_size for file in found) + converted
    return sum(file.stat().st_size for file in folder.glob("*.bin"))


def _growth(file: Path, served: int) -> int:
    """By how many bytes the floats of a file grow, or shrink, if each has so many."""
    from safetensors import safe_open

    grown = 0
    with safe_open(file, framework="np") as tensors:
        for name in tensors.keys():  # noqa: SIM118 - it is no mapping
            tensor = tensors.get_slice(name)
            own = _FLOATS.get(tensor.get_dtype(), served)
            grown += math.prod(tensor.get_shape()) * (served - own)
    return grown


def _share_text(config: EngineConfig) -> str:
    numbers = ", ".join(map(str, config.devices))
    return f"{config.model} ({config.memory_share:.2f} of GPU {numbers})"


def _gpu_bytes(gpu: int) -> int:
    import torch

    return int(torch.cuda.get_device_properties(gpu).total_memory)
