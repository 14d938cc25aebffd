"""How a model is served: one validated record, usually read from a YAML file."""

from __future__ import annotations

import difflib
from typing import TYPE_CHECKING, Annotated, Any, Literal, Self, TypeAlias

from pydantic import (
    BaseModel,
    ConfigDict,
    Field,
    SerializerFunctionWrapHandler,
    ValidationError,
    model_serializer,
    model_validator,
)

from llm_kernels.quoting import shown
from llm_serving.errors import AdapterError, EngineConfigError
from llm_serving.yaml_file import YamlError, read_mapping

if TYPE_CHECKING:
    from pathlib import Path

StructuredBackend: TypeAlias = Literal["outlines", "xgrammar", "guidance"]
_AdapterName: TypeAlias = Annotated[str, Field(min_length=1, max_length=4096)]
"""Often the path of a folder, whose length Linux limits so."""


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
        adapters: name -> folder of a LoRA adapter in PEFT's format, or a bundled model that is made
            of one; requests ask for it by its name. On a GPU all of them are served at once, beside
            the base model. On a CPU there may be one, and every request must name it.
        adapters_sha256: name -> hash of the adapter's files, so that a changed adapter makes
            another trial. It is computed; a given value must match the files.
        taught_sha256: hash of the adapter that `model` is made of, likewise; "" for other models.

    Raises:
        pydantic.ValidationError: a key is unknown, or a value impossible.
        AdapterError: an adapter cannot be read, or has changed.

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
    adapters: dict[_AdapterName, str] = Field(default_factory=dict)
    adapters_sha256: dict[str, str] = Field(default_factory=dict)
    taught_sha256: str = ""

    def __hash__(self) -> int:
        return hash(self.model_dump_json())

    @model_validator(mode="after")
    def _identify_adapters(self) -> Self:
        from llm_serving.models import adapter_folder, taught_revision
        from llm_serving.models.adapters import adapter_revision

        taught = taught_revision(self.model)
        if self.taught_sha256 not in {"", taught}:
            raise AdapterError(
                f"the model {self.model} is not the one of `taught_sha256`: restore it, or leave "
                "that key out"
            )
        found = {
            name: adapter_revision(adapter_folder(folder)) for name, folder in self.adapters.items()
        }
        for name, given in self.adapters_sha256.items():
            if found.get(name) != given:
                raise AdapterError(
                    f"the adapter {shown(name)} of {self.model} is not the one of `adapters_sha256`"
                    ": restore it, or leave that key out"
                )
        # The model is frozen for its users, not while it is made.
        self.__dict__.update(adapters_sha256=found, taught_sha256=taught)
        return self

    @model_serializer(mode="wrap")
    def _without_no_adapters(self, write: SerializerFunctionWrapHandler) -> dict[str, Any]:
        """Keys of trials without adapters are those of before there were any."""
        written: dict[str, Any] = write(self)
        if not self.adapters:
            written.pop("adapters", None)
            written.pop("adapters_sha256", None)
        if not self.taught_sha256:
            written.pop("taught_sha256", None)
        return written


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
    return f"`{key[:80]}` = {shown(first.get('input'))}: {first['msg']}"
