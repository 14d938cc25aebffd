"""PEFT's format: an adapter that `peft` and vLLM read, and a card that says how it was taught."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import torch

from llm_base.files import make_folder, write_durably, write_json
from llm_planning.distill.architecture import PARTS
from llm_serving.models.local import CARD

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from llm_planning.distill.adapters import LowRank

_WEIGHTS = "adapter_model.safetensors"


def write_adapter(
    folder: Path,
    learned: LowRank,
    *,
    base: str,
    card: Mapping[str, Any],
    dtype: torch.dtype = torch.bfloat16,
) -> None:
    """Writes an adapter's folder, the configuration last.

    Args:
        folder: is made if it is missing.
        base: name of the model that it changes.
        card: how it was taught, JSON-able; written as `taught.json`.

    Raises:
        OSError: the folder cannot be written.
    """
    from safetensors.torch import save

    make_folder(folder)
    tensors = {
        name: tensor.detach().to("cpu", dtype).contiguous()
        for name, tensor in learned.tensors().items()
    }
    write_durably(folder / _WEIGHTS, save(tensors, metadata={"format": "pt"}))
    write_durably(folder / CARD, json.dumps(card, indent=2).encode())
    write_json(
        folder / "adapter_config.json",
        {
            "peft_type": "LORA",
            "task_type": "CAUSAL_LM",
            "base_model_name_or_path": base,
            "r": learned.rank,
            "lora_alpha": learned.alpha,
            "lora_dropout": 0.0,
            "bias": "none",
            "use_rslora": False,
            "use_dora": False,
            "fan_in_fan_out": False,
            "inference_mode": True,
            "target_modules": [
                part.rpartition(".")[2] for parts in PARTS.values() for part in parts
            ],
        },
    )


def read_weights(folder: Path, learned: LowRank) -> None:
    """Replaces what is learned by the weights of an adapter of the same matrices and rank.

    Raises:
        OSError: they cannot be read.
        ValueError: the adapter changes other matrices.
    """
    from safetensors.torch import load_file

    read, masters = load_file(folder / _WEIGHTS), learned.tensors()
    if other := sorted(read.keys() ^ masters.keys()):
        raise ValueError(f"it does not change the same matrices: see {other[0]}")
    for name, tensor in read.items():
        masters[name].copy_(tensor)
    learned.refresh()
