"""How a model is served: one validated record, usually read from a YAML file."""

from __future__ import annotations

import difflib
from typing import TYPE_CHECKING, Annotated, Literal, TypeAlias

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from llm_kernels.quoting import shown
from llm_serving.errors import EngineConfigError
from llm_serving.yaml_file import YamlError, read_mapping

if TYPE_CHECKING:
    from pathlib import Path

StructuredBackend: TypeAlias = Literal["outlines", "xgrammar", "guidance"]


class EngineConfig(BaseModel):
    """Everything that decides how a model is served.

    Attributes:
        model: a bundled name, a local folder or a hub id.
        dtype: of the weights as served; "auto" keeps the checkpoint's own, except on a CPU that
            only emulates bfloat16, which computes in float32.
        context: longest prompt plus answer, in tokens; None takes the model's own limit.
        kv_cache_gib: memory of the KV cache on a CPU, in GiB.
        memory_share: share of the GPU's memory for weights and KV cache together.
        block_size: tokens per block of the prefix cache; a prompt is shared in whole blocks.
            None takes vLLM's own, which is 128 on a CPU and 16 on most GPUs.
        max_batch: sequences that one step may advance.
        max_batch_tokens: tokens that one step may compute; on a CPU at least `context`, since a
            prompt is computed in one step there.
        images_per_prompt: images that one prompt may hold; 0 serves text alone.
        structured_backend: what enforces constrained answers; one backend per engine. "auto" is
            the one that `benchmarks/structured.py` measured fastest on the device's kind.
        scoring: how exact log-probabilities of action strings are computed; "auto" takes the
            faster, "tail", if it agrees with "trie" on the first prompt that is scored.
        eager: run without compiled graphs: always so on a CPU; on a GPU, for a quick start.
        seed: of the engine's own random numbers.

    Raises:
        pydantic.ValidationError: a key is unknown, or a value impossible.

    Example:
        >>> from llm_serving import EngineConfig
        >>> config = EngineConfig(model="smollm2-135m-instruct", context=4096, kv_cache_gib=1)
        >>> config.max_batch
        64
    """

    model_config = ConfigDict(extra="forbid", frozen=True)

    model: str
    dtype: Literal["auto", "bfloat16", "float16", "float32"] = "auto"
    context: Annotated[int, Field(ge=64)] | None = None
    kv_cache_gib: Annotated[float, Field(gt=0)] = 2.0
    memory_share: Annotated[float, Field(gt=0, le=1)] = 0.9
    block_size: Annotated[int, Field(ge=8)] | None = 32
    max_batch: Annotated[int, Field(ge=1)] = 64
    max_batch_tokens: Annotated[int, Field(ge=64)] = 2048
    images_per_prompt: Annotated[int, Field(ge=0)] = 0
    structured_backend: StructuredBackend | Literal["auto"] = "outlines"
    scoring: Literal["auto", "tail", "trie"] = "auto"
    eager: bool = False
    seed: int = 0


def load_config(path: Path) -> EngineConfig:
    """Reads a model configuration.

    Args:
        path: a YAML file whose keys are those of `EngineConfig`.

    Raises:
        EngineConfigError: the file is missing or not a mapping, or a key is unknown or has an
            impossible value.
    """
    try:
        raw = read_mapping(path)
    except YamlError as error:
        raise EngineConfigError(f"the model configuration {error}") from error
    try:
        return EngineConfig.model_validate(raw)
    except ValidationError as error:
        raise EngineConfigError(f"{path}: {explain(error, EngineConfig)}") from error


def explain(error: ValidationError, model: type[BaseModel]) -> str:
    """Says in one line which key is wrong, how, and which known key is nearest."""
    first = error.errors()[0]
    key = ".".join(str(part) for part in first["loc"]) or "(whole)"
    if first["type"] == "extra_forbidden":
        known = [field.alias or name for name, field in model.model_fields.items()]
        nearest = difflib.get_close_matches(key, known, n=1)
        hint = f"did you mean `{nearest[0]}`?" if nearest else f"known keys: {', '.join(known)}"
        return f"unknown key {shown(key)}; {hint}"
    return f"`{key}` = {shown(first.get('input'))}: {first['msg']}"
