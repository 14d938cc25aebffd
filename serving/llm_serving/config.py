"""How a model is served: one validated record, usually read from a YAML file."""

from __future__ import annotations

import difflib
from pathlib import Path
from typing import Annotated, Literal, Self, TypeAlias

from pydantic import (
    BaseModel,
    ConfigDict,
    Field,
    JsonValue,
    ValidationError,
    ValidationInfo,
    field_validator,
    model_validator,
)

from llm_base.files import at_home, read_regular
from llm_base.quoting import quote
from llm_base.yaml_file import MOST_BYTES, YamlError, read_mapping
from llm_serving.errors import AdapterError, EngineConfigError

StructuredBackend: TypeAlias = Literal["outlines", "xgrammar", "guidance"]
_AdapterName: TypeAlias = Annotated[str, Field(min_length=1, max_length=4096)]
"""Often the path of a folder, whose length Linux limits so."""


class EngineConfig(BaseModel):
    """Everything that decides how a model is served.

    Attributes:
        model: a bundled name, a local folder or a hub id, with @REVISION or without.
        dtype: of the weights as served; "auto" keeps the checkpoint's own, except on a CPU that
            only emulates bfloat16, which computes in float32.
        context: longest prompt plus answer, in tokens; None takes the model's own limit, or what
            the memory of the KV cache holds if that is less.
        kv_cache_gib: memory of the KV cache, in GiB, on each GPU. None takes 2 on a CPU, and what
            `memory_share` leaves on a GPU. A fixed one lets engines start while others come and go:
            nothing is measured of the card.
        kv_dtype: of the KV cache; "fp8" holds twice the tokens on a GPU, and changes
            log-probabilities.
        devices: the GPUs that hold the model, by their numbers in `CUDA_VISIBLE_DEVICES`. Several
            hold a part of every layer each (tensor parallel).
        memory_share: share of a GPU's memory for weights and KV cache together, which must be free
            at the start; beside a `kv_cache_gib` it says no more than that. The environment
            variable `LLM_PLANNING_MEMORY_SHARE` lowers it, and so do other models of the same run
            (`gpu_sharing`).
        block_size: tokens per block of the prefix cache; a prompt is shared in whole blocks. None
            takes 32 on a CPU and 16 on a GPU, where only multiples of 16 are served.
        max_batch: sequences that one step may advance.
        max_batch_tokens: tokens that one step may compute; on a CPU at least `context`, since a
            prompt is computed in one step there.
        images_per_prompt: images that one prompt may hold; 0 serves text alone.
        max_pixels: of an image; larger ones are scaled down to it. None takes the model's own
            limit, for which vLLM keeps memory free: 12.8 million with Qwen2.5-VL.
        chat_template: how the model's chats are written, in Jinja, in the place of the model's own:
            the template itself, or the path of a file, whose content is taken. "" takes the model's
            own.
        chat_template_kwargs: variables that the template reads, such as `enable_thinking`.
            `strftime_now`, such as 2026-11-25, is the date that it writes as today's; without it
            that is 2024-07-26.
        structured_backend: what enforces constrained answers; one backend per engine. The default
            is what `benchmarks/structured.py` measured fastest on a CPU; no GPU was measured.
        scoring: how exact log-probabilities of action strings are computed; "auto" takes the
            faster, "tail", if it agrees with "trie" on the first prompt that is scored.
        eager: run without compiled graphs: always so on a CPU; on a GPU, for a quick start.
        process: whether vLLM's engine core has a process of its own, so that it steps while this
            one plans. "auto" gives it one on a GPU where `gpu-check` has passed with this version
            of vLLM, to a model that has its one GPU for itself; never on a CPU.
        seed: of the engine's own random numbers.
        adapters: name -> folder of a LoRA adapter in PEFT's format, or a bundled model that is made
            of one; requests ask for it by its name. On a GPU all of them are served at once, beside
            the base model. On a CPU there may be one, and every request must name it.
        adapters_sha256: name -> hash of the adapter's files, so that a changed adapter makes
            another trial. It is computed; a given value must match the files.
        taught_sha256: hash of the adapter that `model` is made of, or of the folder that it names,
            likewise; "" for other models.

    Raises:
        pydantic.ValidationError: a key is unknown, or a value impossible.
        AdapterError: an adapter cannot be read, or it or the model's folder has changed.
        UnknownModelError: a file of the model's folder cannot be read.

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
    kv_cache_gib: Annotated[float, Field(gt=0)] | None = None
    kv_dtype: Literal["auto", "fp8"] = "auto"
    devices: Annotated[tuple[Annotated[int, Field(ge=0)], ...], Field(min_length=1)] = (0,)
    memory_share: Annotated[float, Field(gt=0, le=1)] = 0.9
    block_size: Annotated[int, Field(ge=8)] | None = None
    max_batch: Annotated[int, Field(ge=1)] = 64
    max_batch_tokens: Annotated[int, Field(ge=64)] = 2048
    images_per_prompt: Annotated[int, Field(ge=0)] = 0
    max_pixels: Annotated[int, Field(ge=28 * 28)] | None = None
    chat_template: str = ""
    chat_template_kwargs: dict[str, JsonValue] = Field(default_factory=dict)
    structured_backend: StructuredBackend = "outlines"
    scoring: Literal["auto", "tail", "trie"] = "auto"
    eager: bool = False
    process: Literal["auto", True, False] = "auto"
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
                f"the model {self.model} is not the one of `taught_sha256`: its files have changed "
                "since. Restore them, or begin anew without that key"
            )
        hashes = {
            name: adapter_revision(adapter_folder(folder)) for name, folder in self.adapters.items()
        }
        for name, expected in self.adapters_sha256.items():
            if hashes.get(name) != expected:
                raise AdapterError(
                    f"the adapter {quote(name)} of {self.model} is not the one of `adapters_sha256`"
                    ": restore it, or leave that key out"
                )
        # The model is frozen for its users, not while it is made.
        self.__dict__.update(adapters_sha256=hashes, taught_sha256=taught)
        return self

    @field_validator("model")
    @classmethod
    def _is_a_model(cls, model: str) -> str:
        from llm_serving.encoder_engine import NO_MODEL

        if model.lower() == NO_MODEL:
            raise ValueError(f"for no model, give {NO_MODEL} in the place of a configuration")
        return model

    @field_validator("devices")
    @classmethod
    def _are_distinct(cls, devices: tuple[int, ...]) -> tuple[int, ...]:
        if len(set(devices)) < len(devices):
            raise ValueError("a GPU is named twice")
        return devices

    @field_validator("chat_template")
    @classmethod
    def _is_content(cls, given: str) -> str:
        if not given or _is_template(given):
            return given
        try:
            content = read_regular(Path(at_home(given)), most=MOST_BYTES).decode("utf-8-sig")
        except (OSError, ValueError) as error:
            raise ValueError(
                "it is no template, since it has neither {{ nor {%, and no file that can be read: "
                "write a template of Jinja, or the path of a file with one"
            ) from error
        if not _is_template(content):
            raise ValueError("the file holds no template: it has neither {{ nor {%")
        return content

    @field_validator("max_pixels")
    @classmethod
    def _are_of_images(cls, pixels: int | None, others: ValidationInfo) -> int | None:
        if pixels is not None and not others.data.get("images_per_prompt"):
            raise ValueError("no images are read: raise `images_per_prompt`, or leave it out")
        return pixels


def _is_template(text: str) -> bool:
    return "{{" in text or "{%" in text


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
        return f"unknown key {quote(key)}; {hint}"
    return f"`{key[:80]}` = {quote(first.get('input'))}: {first['msg']}"
