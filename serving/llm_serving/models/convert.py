"""GGUF to an ordinary Hugging Face folder: weights dequantised once, metadata taken from the file.

transformers reads the weights and the architecture. What it guesses instead of reading is taken
from the file's own metadata here: the special tokens, the context and the way text is split
before byte-pair merges (it always takes GPT-2's, so that digits and the blanks before them came
out as other tokens than the model was trained on).

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
from llm_serving.models.reading import quiet_transformers

if TYPE_CHECKING:
    from pathlib import Path

    from tokenizers import Tokenizer

_CONTROL = 3  # a GGUF's token type for tokens that text cannot spell


@dataclass(frozen=True, slots=True, kw_only=True)
class GgufHeader:
    """What a GGUF file says about its model, as far as a Hugging Face folder repeats it.

    Attributes:
        context: longest sequence, in tokens.
        tied: whether the output projection is the embedding matrix.
        split: name of the rule that splits text before merging.
        tokens: the vocabulary; a token's position is its id.
        token_types: GGUF's type of each token, shape [tokens].
        merges: byte-pair merges in the order of their rank, two pieces each.
        begin: id of the token that begins a sequence.
        end: id of the token that ends an answer.
        pad: id of the token that fills a batch.
        unknown: id of the token that stands for what the vocabulary lacks.
        chat_template: Jinja source.
    """

    context: int
    tied: bool
    split: str
    tokens: tuple[str, ...]
    token_types: tuple[int, ...]
    merges: tuple[tuple[str, str], ...]
    begin: int
    end: int
    pad: int
    unknown: int
    chat_template: str


def read_header(gguf: Path) -> GgufHeader:
    """Reads a GGUF file's metadata.

    Raises:
        ModelFetchError: it lacks a key that is needed here.
    """
    from gguf import GGUFReader

    reader = GGUFReader(gguf)

    def value(key: str) -> Any:  # noqa: ANN401 - a GGUF value has any type
        if key not in reader.fields:
            raise ModelFetchError(f"{gguf.name} has no metadata key {key}: it cannot be converted")
        return reader.fields[key].contents()

    if (kind := value("tokenizer.ggml.model")) != "gpt2":
        raise ModelFetchError(f"{gguf.name} has a `{kind}` vocabulary; only byte-pair ones convert")
    return GgufHeader(
        context=value(f"{value('general.architecture')}.context_length"),
        tied=all(tensor.name != "output.weight" for tensor in reader.tensors),
        split=value("tokenizer.ggml.pre"),
        tokens=tuple(value("tokenizer.ggml.tokens")),
        token_types=tuple(value("tokenizer.ggml.token_type")),
        merges=tuple(_pair(merge) for merge in value("tokenizer.ggml.merges")),
        begin=value("tokenizer.ggml.bos_token_id"),
        end=value("tokenizer.ggml.eos_token_id"),
        pad=value("tokenizer.ggml.padding_token_id"),
        unknown=value("tokenizer.ggml.unknown_token_id"),
        chat_template=value("tokenizer.chat_template"),
    )


def _pair(merge: str) -> tuple[str, str]:
    left, right = merge.split(" ")
    return left, right


def build_tokenizer(header: GgufHeader) -> Tokenizer:
    """The tokenizer that a GGUF's vocabulary describes.

    Raises:
        ModelFetchError: its splitting rule is not known here.
    """
    from tokenizers import AddedToken, Tokenizer, decoders, models, pre_tokenizers

    if header.split != "smollm":
        raise ModelFetchError(f"text splitting rule `{header.split}` is not known; known: smollm")
    vocabulary = {token: index for index, token in enumerate(header.tokens)}
    tokenizer = Tokenizer(models.BPE(vocab=vocabulary, merges=list(header.merges)))
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence(
        [pre_tokenizers.Digits(individual_digits=True), pre_tokenizers.ByteLevel(False)]
    )
    tokenizer.decoder = decoders.ByteLevel()
    tokenizer.add_special_tokens(
        [
            AddedToken(token, special=True, normalized=False)
            for token, kind in zip(header.tokens, header.token_types, strict=True)
            if kind == _CONTROL
        ]
    )
    return tokenizer


def convert(gguf: Path, folder: Path) -> None:
    """Writes a GGUF model as a Hugging Face folder in bfloat16.

    Args:
        gguf: the file; its parent must hold no `config.json`.
        folder: must exist and be empty.

    Raises:
        ModelFetchError: the file is of a kind that cannot be converted, or torch is missing.
        OSError: the disk is full or not writable.
    """
    try:
        import torch
        from safetensors.torch import save
        from transformers import AutoModelForCausalLM
    except ImportError as error:
        raise ModelFetchError(
            f"converting {gguf.name} needs torch and transformers ({error}): install the project "
            "with its `cpu` or `cuda` extra"
        ) from error
    header = read_header(gguf)
    _write_tokenizer(header, folder)
    with quiet_transformers():
        model = AutoModelForCausalLM.from_pretrained(
            str(gguf.parent),
            gguf_file=gguf.name,
            dtype=torch.float32,
            trust_remote_code=False,
            local_files_only=True,
        )
    _write_config(model, header, folder)
    weights = {
        name: tensor.to(torch.bfloat16).contiguous()
        for name, tensor in model.state_dict().items()
        if not (header.tied and name == "lm_head.weight")
    }
    # As bytes, so that a full disk is an OSError and not one of the writer's own exceptions.
    (folder / "model.safetensors").write_bytes(save(weights, metadata={"format": "pt"}))


def _write_tokenizer(header: GgufHeader, folder: Path) -> None:
    (folder / "tokenizer.json").write_text(build_tokenizer(header).to_str(), encoding="utf-8")
    (folder / "chat_template.jinja").write_text(header.chat_template, encoding="utf-8")
    _write_json(
        folder / "tokenizer_config.json",
        {
            "tokenizer_class": "PreTrainedTokenizerFast",
            "bos_token": header.tokens[header.begin],
            "eos_token": header.tokens[header.end],
            "pad_token": header.tokens[header.pad],
            "unk_token": header.tokens[header.unknown],
            "clean_up_tokenization_spaces": False,
            "model_max_length": header.context,
        },
    )


def _write_config(model: Any, header: GgufHeader, folder: Path) -> None:  # noqa: ANN401
    ids = {
        "bos_token_id": header.begin,
        "eos_token_id": header.end,
        "pad_token_id": header.pad,
    }
    derived = model.config.to_diff_dict()
    derived.pop("quantization_config", None)
    rope = model.config.rope_parameters
    _write_json(
        folder / "config.json",
        {name: value for name, value in derived.items() if not name.startswith("_")}
        | ids
        | {
            "architectures": [type(model).__name__],
            "dtype": "bfloat16",
            "max_position_embeddings": header.context,
            # Releases of transformers before 5 read this key and not `rope_parameters`.
            "rope_theta": rope["rope_theta"],
            "tie_word_embeddings": header.tied,
            "vocab_size": len(header.tokens),
        },
    )
    _write_json(folder / "generation_config.json", ids)


def _write_json(path: Path, content: dict[str, Any]) -> None:
    path.write_text(json.dumps(content, indent=2, sort_keys=True) + "\n", encoding="utf-8")
