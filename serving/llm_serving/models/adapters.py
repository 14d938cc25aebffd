"""LoRA adapters in PEFT's folders: which ones are served, and the card of one that was taught.

A folder may come from any source: what would be served otherwise than it was made is refused.
"""

from __future__ import annotations

import hashlib
import os
import re
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal, TypeAlias, TypeVar

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from llm_base.files import at_home, read_json
from llm_base.quoting import quote
from llm_serving.errors import AdapterError
from llm_serving.models.folders import sha256
from llm_serving.models.local import CARD, is_pointer
from llm_serving.models.reading import reading_model
from llm_serving.request import Taught

if TYPE_CHECKING:
    from collections.abc import Mapping

CONFIG, WEIGHTS = "adapter_config.json", "adapter_model.safetensors"
FAMILIES = ("llama", "qwen2")
"""Types of base models, as their `config.json` has them."""
PROJECTIONS = ("q_proj", "k_proj", "v_proj", "o_proj", "gate_proj", "up_proj", "down_proj")
"""Layers that an adapter may change."""

_MOST_TEXT = 1 << 20
_MOST_WEIGHTS = 4 << 30
_WEIGHT = re.compile(
    rf"base_model\.model\.((?:.+\.)?(?:{'|'.join(PROJECTIONS)}))\.lora_([AB])\.weight"
)
_FLOATS = frozenset({"F16", "BF16", "F32"})

_IGNORED = frozenset(
    {
        *("auto_mapping", "base_model_name_or_path", "exclude_modules", "inference_mode"),
        *("layers_pattern", "layers_to_transform", "lora_dropout", "megatron_core"),
        *("peft_version", "qalora_group_size", "revision", "runtime_config", "target_modules"),
        "task_type",
    }
)
"""Keys of PEFT's file that say how an adapter was trained, or what its weights show anyway."""
_NOTHING: tuple[object, ...] = (None, False, "none", "", [], {})
"""Values of any other key that change nothing."""
_PLAIN_INITS: tuple[object, ...] = (True, False, "gaussian")
"""Values of `init_lora_weights` with which the base model stays as it is."""

_Name: TypeAlias = Annotated[str, Field(max_length=4096, pattern=r"^\P{C}+$")]  # printable
_Sha256: TypeAlias = Annotated[str, Field(pattern="^[0-9a-f]{64}$")]
_Shapes: TypeAlias = "Mapping[str, tuple[tuple[int, ...], tuple[int, ...]]]"
_Model = TypeVar("_Model", bound=BaseModel)


class Card(BaseModel):
    """What an adapter was taught: the file `taught.json` in its folder.

    Attributes:
        base: name of the model that the adapter changes.
        base_revision: of that model's weights.
        domain: whose simulator taught it.
        roles: the questions that it was taught.
        words_sha256: hashes of the words in which it was asked, in hexadecimal: one for each
            set of rules of the domain that it was taught.
        parts: role -> of what the prompts of its lessons were made (`Message.parts`); empty on a
            card of before this was recorded.
        recipe: how it was taught; any JSON object.

    Example:
        >>> from llm_serving.models import Card
        >>> card = Card(
        ...     base="smollm2-135m-instruct",
        ...     base_revision="1",
        ...     domain="minecraft",
        ...     roles=("dynamics",),
        ...     words_sha256=("0" * 64,),
        ... )
        >>> Card.model_validate(card.to_json()) == card
        True
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    format: Literal[1] = 1
    base: _Name
    base_revision: _Name
    domain: _Name
    roles: Annotated[tuple[_Name, ...], Field(min_length=1)]
    words_sha256: Annotated[tuple[_Sha256, ...], Field(min_length=1)]
    parts: dict[_Name, tuple[_Name, ...]] = {}
    recipe: dict[str, Any] = {}

    @property
    def taught(self) -> Taught:
        """What a planner has to know of it."""
        return Taught(roles=self.roles, words_sha256=self.words_sha256, parts=self.parts)

    def to_json(self) -> dict[str, Any]:
        """The file's content."""
        return self.model_dump(mode="json")


class _Lora(BaseModel):
    """PEFT's file: rank and alpha. Whatever else it says must change nothing."""

    model_config = ConfigDict(extra="allow", strict=True)

    peft_type: Literal["LORA"]
    r: Annotated[int, Field(ge=1, le=512)]  # the largest rank that vLLM serves
    lora_alpha: Annotated[float, Field(ge=-(1 << 20), le=1 << 20, allow_inf_nan=False)]


@dataclass(frozen=True, slots=True, kw_only=True)
class Adapter:
    """A folder that was checked, but not yet against a base model.

    Attributes:
        revision: SHA-256 of its files, card included, in hexadecimal.
        rank: r of every pair of matrices.
        alpha: of PEFT; W + (alpha / r) B A is the changed weight.
        shapes: name of the changed layer -> shapes of A, [r, in], and B, [out, r].
        card: what it was taught; None if its folder has no card.
    """

    path: Path
    revision: str
    rank: int
    alpha: float
    shapes: _Shapes
    card: Card | None

    @property
    def taught(self) -> Taught | None:
        """What it was taught; None without a card."""
        return None if self.card is None else self.card.taught


def is_adapter(folder: Path) -> bool:
    """Whether a folder holds an adapter, and no model of its own."""
    return os.path.lexists(folder / CONFIG) and not os.path.lexists(folder / "config.json")


def read_adapter(folder: Path) -> Adapter:
    """Reads and checks an adapter's folder in PEFT's format.

    Args:
        folder: holds `adapter_config.json` and `adapter_model.safetensors`; `~` is the home.

    Raises:
        AdapterError: it is not an adapter that is served here, or one of its files is damaged.
    """
    folder = Path(at_home(str(folder)))
    # First of all: who finds this hash again later has read the rest from the same files.
    revision = adapter_revision(folder)
    lora = _read_lora(folder / CONFIG)
    return Adapter(
        path=Path(os.path.realpath(folder)),
        revision=revision,
        rank=lora.r,
        alpha=lora.lora_alpha,
        shapes=_pairs(folder / WEIGHTS, lora.r),
        card=read_card(folder),
    )


def adapter_revision(folder: Path) -> str:
    """SHA-256 of an adapter's files, whole, in hexadecimal.

    Raises:
        AdapterError: a file cannot be read.
    """
    if not os.path.isdir(folder):
        raise AdapterError(
            f"there is no adapter {folder}: name a folder in PEFT's format, as "
            "seen from the working directory"
        )
    digest = hashlib.sha256()
    for name in (CONFIG, WEIGHTS, CARD):
        path = folder / name
        if name == CARD and not os.path.lexists(path):
            continue
        try:
            if os.path.getsize(path) > _MOST_WEIGHTS:
                raise AdapterError(
                    f"{path} is larger than {_MOST_WEIGHTS >> 30} GiB: no adapter is"
                )
            digest.update(f"{name}\0{sha256(path)}\n".encode())
        except OSError as error:
            raise _unreadable(path, error) from error
    return digest.hexdigest()


def read_card(folder: Path) -> Card | None:
    """Reads the card of an adapter, or of the folder that it was merged into.

    Returns:
        The card; None if the folder has none.

    Raises:
        AdapterError: it is damaged.
    """
    path = folder / CARD
    return _read(Card, path) if os.path.lexists(path) else None


def check_fit(adapter: Adapter, base: Path, *, base_revision: str) -> None:
    """Refuses an adapter that was made for another base model.

    Args:
        base: folder of the base model's weights.
        base_revision: of these weights.

    Raises:
        AdapterError: the base is of another family, or its weights are not those that the adapter
            was taught on, have other shapes, or cannot be read.
    """
    family = _json(base / "config.json")
    kind = family.get("model_type") if isinstance(family, dict) else None
    if kind not in FAMILIES:
        raise AdapterError(
            f"{base} is a model of type {quote(kind)}: adapters are served on "
            f"{' and '.join(FAMILIES)}"
        )
    card = adapter.card
    if card is not None and card.base_revision != base_revision:
        raise AdapterError(
            f"the adapter {adapter.path} was taught on {card.base[:200]} with the revision "
            f"{card.base_revision[:80]}, but the weights here have {base_revision[:80]}: serve it "
            "on the model that it was taught on, or teach it again"
        )
    shapes: dict[str, tuple[int, ...]] = {}
    for path in sorted(base.glob("*.safetensors")):
        shapes.update({name: shape for name, (shape, _) in _tensors(path).items()})
    for layer, ((_, inner), (outer, _)) in adapter.shapes.items():
        shape = shapes.get(f"{layer}.weight")
        if shape != (outer, inner):
            has = "no such weight" if shape is None else f"one of shape {list(shape)}"
            raise AdapterError(
                f"the adapter {adapter.path} does not fit the model in {base}: it changes a "
                f"weight {quote(layer)} of shape {[outer, inner]}, and the model has {has}"
            )


def _read_lora(path: Path) -> _Lora:
    lora = _read(_Lora, path)
    for key, value in (lora.model_extra or {}).items():
        plain = _PLAIN_INITS if key == "init_lora_weights" else _NOTHING
        if key not in _IGNORED and value not in plain:
            raise AdapterError(
                f"{path}: {quote(key)} = {quote(value)}: only plain LoRA is served, without it"
            )
    return lora


def _read(model: type[_Model], path: Path) -> _Model:
    try:
        return model.model_validate(_json(path))
    except ValidationError as error:
        first = error.errors(include_url=False)[0]
        key = ".".join(map(str, first["loc"]))
        raise AdapterError(
            f"{path}: {quote(key)} = {quote(first['input'])} will not do: {first['msg']}"
        ) from error


def _tensors(path: Path) -> dict[str, tuple[tuple[int, ...], str]]:
    """The shape and the type of each tensor of a safetensors file, by its name."""
    from safetensors import safe_open

    with reading_model(lambda reason: AdapterError(f"{path} is damaged: {reason}")):
        if is_pointer(path):
            raise AdapterError(
                f"{path} is a pointer of Git LFS, not what it points to. Run `git lfs pull` there"
            )
        with safe_open(path, framework="np") as file:
            slices = {name: file.get_slice(name) for name in file.keys()}  # noqa: SIM118 - no dict
            return {
                name: (tuple(part.get_shape()), part.get_dtype()) for name, part in slices.items()
            }


def _pairs(path: Path, rank: int) -> _Shapes:
    """Layer -> shapes of its matrices A and B.

    Raises:
        AdapterError: the file is damaged; a tensor is of another kind, has no partner or another
            rank.
    """
    halves: dict[str, dict[str, tuple[int, ...]]] = {}
    for name, (shape, dtype) in _tensors(path).items():
        match = _WEIGHT.fullmatch(name)
        if match is None:
            raise AdapterError(
                f"{path} holds {quote(name)}: only matrices lora_A and lora_B of "
                f"{', '.join(PROJECTIONS)} are served"
            )
        if dtype not in _FLOATS or len(shape) != 2 or shape["AB".index(match[2])] != rank:
            raise AdapterError(
                f"{path}: {quote(name)} has the type {quote(dtype)} and the shape {list(shape)}, "
                f"which is no matrix of rank {rank} in float32, float16 or bfloat16"
            )
        halves.setdefault(match[1], {})[match[2]] = shape
    if not halves:
        raise AdapterError(f"{path} holds no matrices")
    for layer, found in halves.items():
        if len(found) != 2:
            raise AdapterError(f"{path} has only lora_{min(found)} of {quote(layer)}, not both")
    return {layer: (found["A"], found["B"]) for layer, found in halves.items()}


def _json(path: Path) -> Any:  # noqa: ANN401 - any JSON
    try:
        return read_json(path, most=_MOST_TEXT)
    except OSError as error:
        raise _unreadable(path, error) from error
    except ValueError as error:
        raise AdapterError(f"{path} is damaged: it is not JSON ({error})") from error


def _unreadable(path: Path, error: OSError) -> AdapterError:
    return AdapterError(f"{path} cannot be read: {error.strerror}")
