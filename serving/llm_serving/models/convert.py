"""GGUF to an ordinary Hugging Face folder: weights dequantised once, all else as the file says.

transformers reads GGUF files too, and is not asked: it parses the vocabulary once more for the
configuration and once more for the weights, which takes three times as long as all that is done
here, and it guesses the special tokens, the context and the way text is split before byte-pair
merges (it always takes GPT-2's, so that digits and the blanks before them came out as other tokens
than the model was trained on).

Weights are stored in bfloat16, the type SmolLM2 was published in and the one vLLM serves. Over
1,000 tokens of English prose, rounding the dequantised weights moved the next-token distribution
by 5e-5 nats (mean KL divergence; largest 5e-4; perplexity equal to five digits), a twentieth of
what computing in bfloat16 does. An engine asked for float32 widens the same weights exactly.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from llm_serving.errors import ModelFetchError

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    import torch
    from gguf import GGUFReader
    from tokenizers import Tokenizer

_CONTROL = 3  # a GGUF's token type for tokens that text cannot spell

_WHOLE = {"token_embd": "model.embed_tokens", "output_norm": "model.norm", "output": "lm_head"}
_OF_A_LAYER = {
    "attn_norm": "input_layernorm",
    "attn_q": "self_attn.q_proj",
    "attn_k": "self_attn.k_proj",
    "attn_v": "self_attn.v_proj",
    "attn_output": "self_attn.o_proj",
    "ffn_norm": "post_attention_layernorm",
    "ffn_gate": "mlp.gate_proj",
    "ffn_up": "mlp.up_proj",
    "ffn_down": "mlp.down_proj",
}
"""GGUF's names of Llama's weights -> Hugging Face's."""


@dataclass(frozen=True, slots=True)
class GgufFile:
    """A GGUF file that was parsed, which takes seconds: a vocabulary has 50,000 tokens.

    Attributes:
        name: of the file, for messages.
    """

    name: str
    reader: GGUFReader

    def value(self, key: str) -> Any:  # noqa: ANN401 - a GGUF value has any type
        """What the file's metadata say of a key.

        Raises:
            ModelFetchError: nothing.
        """
        if key not in self.reader.fields:
            raise ModelFetchError(f"{self.name} has no metadata key {key}: it cannot be converted")
        return self.reader.fields[key].contents()

    def token_id(self, kind: str) -> int:
        """The id of a special token: `bos`, `eos`, `padding` or `unknown`."""
        return int(self.value(f"tokenizer.ggml.{kind}_token_id"))

    @property
    def tied(self) -> bool:
        """Whether the output projection is the embedding matrix."""
        return all(tensor.name != "output.weight" for tensor in self.reader.tensors)


def build_tokenizer(file: GgufFile) -> Tokenizer:
    """The tokenizer that a GGUF's vocabulary describes.

    Raises:
        ModelFetchError: its kind or its splitting rule is not known here.
    """
    from tokenizers import AddedToken, Tokenizer, decoders, models, pre_tokenizers

    if (kind := file.value("tokenizer.ggml.model")) != "gpt2":
        raise ModelFetchError(f"{file.name} has a `{kind}` vocabulary; only byte-pair ones convert")
    if (split := file.value("tokenizer.ggml.pre")) != "smollm":
        raise ModelFetchError(f"text splitting rule `{split}` is not known; known: smollm")
    tokens = file.value("tokenizer.ggml.tokens")
    vocabulary = {token: index for index, token in enumerate(tokens)}
    merges = [tuple(merge.split(" ")) for merge in file.value("tokenizer.ggml.merges")]
    tokenizer = Tokenizer(models.BPE(vocab=vocabulary, merges=merges))
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence(
        [pre_tokenizers.Digits(individual_digits=True), pre_tokenizers.ByteLevel(False)]
    )
    tokenizer.decoder = decoders.ByteLevel()
    tokenizer.add_special_tokens(
        [
            AddedToken(token, special=True, normalized=False)
            for token, kind in zip(tokens, file.value("tokenizer.ggml.token_type"), strict=True)
            if kind == _CONTROL
        ]
    )
    return tokenizer


def convert(gguf: Path, folder: Path, *, report: Callable[[float], None] = lambda _: None) -> None:
    """Writes a GGUF model as a Hugging Face folder in bfloat16.

    Args:
        folder: must exist and be empty.
        report: is given the share of the weights that are dequantised.

    Raises:
        ModelFetchError: the file is of a kind that cannot be converted, or torch is missing.
        OSError: the disk is full or not writable.
    """
    try:
        from gguf import GGUFReader
        from safetensors.torch import save
    except ImportError as error:
        raise ModelFetchError(
            f"converting {gguf.name} needs gguf and torch ({error}): install the project "
            "with its `cpu` or `cuda` extra"
        ) from error
    file = GgufFile(gguf.name, GGUFReader(gguf))
    _write_tokenizer(file, folder)
    _write_config(file, folder)
    # As bytes, so that a full disk is an OSError and not one of the writer's own exceptions.
    written = save(_weights(file, report), metadata={"format": "pt"})
    (folder / "model.safetensors").write_bytes(written)


def _weights(file: GgufFile, report: Callable[[float], None]) -> dict[str, torch.Tensor]:
    import torch
    from gguf import dequantize

    heads = {
        "attn_q": file.value("llama.attention.head_count"),
        "attn_k": file.value("llama.attention.head_count_kv"),
    }
    weights = {}
    for tensor in file.reader.tensors:
        *layer, name, _ = tensor.name.split(".")
        weight = dequantize(tensor.data, tensor.tensor_type)
        if name in heads:
            # A GGUF interleaves the two halves that rotate together; Hugging Face keeps them apart.
            pairs = weight.reshape(heads[name], -1, 2, weight.shape[1])
            weight = pairs.swapaxes(1, 2).reshape(weight.shape)
        known = f"model.layers.{layer[1]}.{_OF_A_LAYER[name]}" if layer else _WHOLE[name]
        weights[f"{known}.weight"] = torch.tensor(weight).to(torch.bfloat16)
        report(len(weights) / len(file.reader.tensors))
    return weights


def _write_tokenizer(file: GgufFile, folder: Path) -> None:
    (folder / "tokenizer.json").write_text(build_tokenizer(file).to_str(), encoding="utf-8")
    template = file.value("tokenizer.chat_template")
    (folder / "chat_template.jinja").write_text(template, encoding="utf-8")
    tokens = file.value("tokenizer.ggml.tokens")
    _write_json(
        folder / "tokenizer_config.json",
        {
            "tokenizer_class": "PreTrainedTokenizerFast",
            "bos_token": tokens[file.token_id("bos")],
            "eos_token": tokens[file.token_id("eos")],
            "pad_token": tokens[file.token_id("padding")],
            "unk_token": tokens[file.token_id("unknown")],
            "clean_up_tokenization_spaces": False,
            "model_max_length": file.value("llama.context_length"),
        },
    )


def _write_config(file: GgufFile, folder: Path) -> None:
    ids = {
        "bos_token_id": file.token_id("bos"),
        "eos_token_id": file.token_id("eos"),
        "pad_token_id": file.token_id("padding"),
    }
    rope_theta = file.value("llama.rope.freq_base")
    _write_json(
        folder / "config.json",
        ids
        | {
            "architectures": ["LlamaForCausalLM"],
            "dtype": "bfloat16",
            "head_dim": file.value("llama.rope.dimension_count"),
            "hidden_act": "silu",
            "hidden_size": file.value("llama.embedding_length"),
            "intermediate_size": file.value("llama.feed_forward_length"),
            "max_position_embeddings": file.value("llama.context_length"),
            "model_type": "llama",
            "num_attention_heads": file.value("llama.attention.head_count"),
            "num_hidden_layers": file.value("llama.block_count"),
            "num_key_value_heads": file.value("llama.attention.head_count_kv"),
            "rms_norm_eps": file.value("llama.attention.layer_norm_rms_epsilon"),
            "rope_parameters": {"rope_type": "default", "rope_theta": rope_theta},
            # Releases of transformers before 5 read this key and not `rope_parameters`.
            "rope_theta": rope_theta,
            "tie_word_embeddings": file.tied,
            "unk_token_id": file.token_id("unknown"),
            "vocab_size": len(file.value("tokenizer.ggml.tokens")),
        },
    )
    _write_json(folder / "generation_config.json", ids)


def _write_json(path: Path, content: dict[str, Any]) -> None:
    path.write_text(json.dumps(content, indent=2, sort_keys=True) + "\n", encoding="utf-8")
