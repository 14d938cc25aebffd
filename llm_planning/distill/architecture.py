"""Decoders of the Llama and Qwen2 families: their sizes and weights, read from a folder."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from llm_serving.errors import EngineConfigError, UnknownModelError
from llm_serving.models.local import check_folder
from llm_serving.models.reading import quiet_transformers, reading_model

if TYPE_CHECKING:
    from pathlib import Path

    import torch
    from torch import Tensor

FAMILIES = ("llama", "qwen2")

PARTS = {
    "qkv": ("self_attn.q_proj", "self_attn.k_proj", "self_attn.v_proj"),
    "out": ("self_attn.o_proj",),
    "gate_up": ("mlp.gate_proj", "mlp.up_proj"),
    "down": ("mlp.down_proj",),
}
"""Matrix -> the published matrices that it is made of, one below the other.

Those that read the same input are one: fewer and larger products.
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Architecture:
    """The sizes of a decoder.

    Attributes:
        layers: of attention and feed-forward network.
        kv_heads: of the keys and values.
        inner: width of the feed-forward network.
        frequencies: of the rotary positions, radians a token; half a head's width of them.
    """

    layers: int
    width: int
    heads: int
    kv_heads: int
    head_width: int
    inner: int
    epsilon: float
    frequencies: tuple[float, ...]

    def sizes(self, matrix: str) -> tuple[tuple[int, ...], int]:
        """Outputs of each part of a matrix of `PARTS`, and its inputs."""
        queries, keys = self.heads * self.head_width, self.kv_heads * self.head_width
        return {
            "qkv": ((queries, keys, keys), self.width),
            "out": ((self.width,), queries),
            "gate_up": ((self.inner, self.inner), self.width),
            "down": ((self.width,), self.inner),
        }[matrix]


@dataclass(frozen=True, slots=True, kw_only=True)
class Layer:
    """The weights of one layer.

    Attributes:
        norm: scale before the attention.
        inner_norm: scale before the feed-forward network.
        matrices: by the names of `PARTS`, each [outputs, inputs].
        bias: of `qkv`, if the family has one.
    """

    norm: Tensor
    inner_norm: Tensor
    matrices: dict[str, Tensor]
    bias: Tensor | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Model:
    """A model as it was published.

    Attributes:
        embedding: of the tokens, [words, width].
        head: scores of the words; the embedding itself where they are tied.
        norm: scale before the head.
    """

    architecture: Architecture
    embedding: Tensor
    head: Tensor
    norm: Tensor
    layers: tuple[Layer, ...]

    @property
    def dtype(self) -> torch.dtype:
        """Type of the matrices."""
        return self.embedding.dtype

    @property
    def device(self) -> torch.device:
        """Where the weights are."""
        return self.embedding.device


def read_model(folder: Path, *, dtype: torch.dtype, device: str) -> Model:
    """Reads a model's folder.

    Args:
        folder: of a Hugging Face model of one of `FAMILIES`, with weights in safetensors.
        dtype: of the matrices; norms and biases are kept in float32.
        device: where the weights go.

    Raises:
        UnknownModelError: the folder holds no model, or not all of its weights.
        EngineConfigError: the model is of another family, or has a feature that is not known here.
    """
    check_folder(folder)
    config = _config(folder)
    tensors = _tensors(folder)
    import torch

    def take(name: str, as_type: torch.dtype = dtype) -> Tensor:
        if name not in tensors:
            raise UnknownModelError(
                f"the model in {folder} has no weights {name}: copy or download it again"
            )
        return tensors[name].to(device=device, dtype=as_type)

    def layer(number: int) -> Layer:
        start = f"model.layers.{number}."
        biases = [f"{start}{part}.bias" for part in PARTS["qkv"]]
        return Layer(
            norm=take(f"{start}input_layernorm.weight", torch.float32),
            inner_norm=take(f"{start}post_attention_layernorm.weight", torch.float32),
            matrices={
                matrix: torch.cat([take(f"{start}{part}.weight") for part in parts])
                for matrix, parts in PARTS.items()
            },
            bias=torch.cat([take(name) for name in biases]) if biases[0] in tensors else None,
        )

    embedding = take("model.embed_tokens.weight")
    return Model(
        architecture=_architecture(config, folder),
        embedding=embedding,
        head=embedding if config.tie_word_embeddings else take("lm_head.weight"),
        norm=take("model.norm.weight", torch.float32),
        layers=tuple(layer(number) for number in range(config.num_hidden_layers)),
    )


def _config(folder: Path) -> Any:  # noqa: ANN401 - a transformers class
    from transformers import AutoConfig

    def failed(reason: str) -> EngineConfigError:
        return EngineConfigError(f"{folder / 'config.json'} cannot be read: {reason}")

    with reading_model(failed), quiet_transformers():
        config = AutoConfig.from_pretrained(
            str(folder), trust_remote_code=False, local_files_only=True
        )
    if config.model_type not in FAMILIES:
        raise EngineConfigError(
            f"the model in {folder} is of the family {config.model_type}, and only "
            f"{' and '.join(FAMILIES)} can be taught: take another model"
        )
    return config


def _architecture(config: Any, folder: Path) -> Architecture:  # noqa: ANN401 - a transformers class
    rope = config.rope_parameters
    unknown = {
        f"hidden_act {config.hidden_act}": config.hidden_act != "silu",
        f"rope_type {rope['rope_type']}": rope["rope_type"] not in {"default", "llama3"},
        "mlp_bias": getattr(config, "mlp_bias", False),
        "attention_bias": config.model_type == "llama" and config.attention_bias,
        "use_sliding_window": getattr(config, "use_sliding_window", False),
    }
    for feature, present in unknown.items():
        if present:
            raise EngineConfigError(
                f"the model in {folder} has {feature}, which cannot be taught: take another model"
            )
    head_width = getattr(config, "head_dim", None) or (
        config.hidden_size // config.num_attention_heads
    )
    return Architecture(
        layers=config.num_hidden_layers,
        width=config.hidden_size,
        heads=config.num_attention_heads,
        kv_heads=config.num_key_value_heads,
        head_width=head_width,
        inner=config.intermediate_size,
        epsilon=config.rms_norm_eps,
        frequencies=_frequencies(rope, head_width),
    )


def _frequencies(rope: dict[str, Any], head_width: int) -> tuple[float, ...]:
    """The rotary frequencies; those of Llama 3.1 and later slow the long waves down."""
    plain = [rope["rope_theta"] ** (-pair / head_width) for pair in range(0, head_width, 2)]
    if rope["rope_type"] == "default":
        return tuple(plain)
    low, high = float(rope["low_freq_factor"]), float(rope["high_freq_factor"])
    span = float(rope["original_max_position_embeddings"])

    def slowed(frequency: float) -> float:
        waves = span * frequency / (2 * math.pi)
        kept = min(max((waves - low) / (high - low), 0.0), 1.0)
        return frequency * (kept + (1 - kept) / float(rope["factor"]))

    return tuple(map(slowed, plain))


def _tensors(folder: Path) -> dict[str, Tensor]:
    from safetensors.torch import load_file

    def failed(reason: str) -> UnknownModelError:
        return UnknownModelError(f"the weights in {folder} cannot be read: {reason}")

    tensors: dict[str, Tensor] = {}
    with reading_model(failed):
        for path in sorted(folder.glob("*.safetensors")):
            tensors.update(load_file(path))
    if not tensors:
        raise failed("it has no *.safetensors")
    return tensors
