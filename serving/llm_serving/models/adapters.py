"""LoRA adapters in PEFT's folders: which ones are served, and the card of one that was taught.

A folder may come from any source, so all of it is checked here before a library reads it.
"""

from __future__ import annotations

import hashlib
import os
import re
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from llm_base.files import at_home, read_json
from llm_base.quoting import quote
from llm_serving.errors import AdapterError, UnknownModelError
from llm_serving.models.folders import sha256
from llm_serving.models.local import CARD, tensor_shapes
from llm_serving.request import Taught

if TYPE_CHECKING:
    from collections.abc import Mapping

CONFIG, WEIGHTS = "adapter_config.json", "adapter_model.safetensors"
FAMILIES = ("llama", "qwen2")
"""Types of base models, as their `config.json` has them."""
PROJECTIONS = ("q_proj", "k_proj", "v_proj", "o_proj", "gate_proj", "up_proj", "down_proj")
"""Layers that an adapter may change."""

_MOST_RANK = 512
"""The largest rank that vLLM serves."""
_MOST_ALPHA = 1 << 20
_MOST_TEXT = 1 << 20
_MOST_WEIGHTS = 4 << 30
_NAME = re.compile(r"base_model\.model\.(.+)\.lora_([AB])\.weight")
_FLOATS = frozenset({"F16", "BF16", "F32"})
_FORMAT = 1

_IGNORED = frozenset(
    {
        *("auto_mapping", "base_model_name_or_path", "exclude_modules", "inference_mode"),
        *("layers_pattern", "layers_to_transform", "lora_dropout", "megatron_core"),
        *("peft_version", "qalora_group_size", "revision", "runtime_config", "task_type"),
    }
)
"""Keys of PEFT's file that say how an adapter was trained, or what its weights show anyway."""
_PLAIN_INITS = (True, False, "gaussian")
"""Values of `init_lora_weights` with which the base model stays as it is."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Card:
    """What an adapter was taught: the file `taught.json` in its folder.

    Attributes:
        base: name of the model that the adapter changes.
        base_revision: of that model's weights.
        domain: whose simulator taught it.
        roles: the questions that it was taught.
        words_sha256: hashes of the words in which it was asked, in hexadecimal: one for each
            set of rules of the domain that it was taught.
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
        >>> Card.read(card.to_json()) == card
        True
    """

    base: str
    base_revision: str
    domain: str
    roles: tuple[str, ...]
    words_sha256: tuple[str, ...]
    recipe: Mapping[str, Any] = field(default_factory=dict)

    @property
    def taught(self) -> Taught:
        """What a planner has to know of it."""
        return Taught(roles=self.roles, words_sha256=self.words_sha256)

    def to_json(self) -> dict[str, Any]:
        """The file's content."""
        return {
            "format": _FORMAT,
            "base": self.base,
            "base_revision": self.base_revision,
            "domain": self.domain,
            "roles": list(self.roles),
            "words_sha256": list(self.words_sha256),
            "recipe": dict(self.recipe),
        }

    @classmethod
    def read(cls, content: object) -> Card:
        """Reads the file's content.

        Raises:
            ValueError: a key is missing, unknown or has an impossible value.
        """
        if not isinstance(content, dict):
            raise ValueError(f"{quote(content)} is not a JSON object")
        keys = ("format", "base", "base_revision", "domain", "roles", "words_sha256", "recipe")
        for key in content:
            if key not in keys:
                raise ValueError(f"unknown key {quote(key)}; known keys: {', '.join(keys)}")
        for key in keys:
            if key not in content:
                raise ValueError(f"the key `{key}` is missing")
        if content["format"] != _FORMAT or isinstance(content["format"], bool):
            raise ValueError(f"`format` = {quote(content['format'])}: this program reads {_FORMAT}")
        for key in ("base", "base_revision", "domain"):
            if not (isinstance(content[key], str) and content[key] and content[key].isprintable()):
                raise ValueError(f"`{key}` = {quote(content[key])}: write a name")
        roles, words, recipe = content["roles"], content["words_sha256"], content["recipe"]
        if not (isinstance(roles, list) and roles and all(isinstance(one, str) for one in roles)):
            raise ValueError(f"`roles` = {quote(roles)}: write a list of names")
        hashes = words if isinstance(words, list) and words else [None]
        if not all(isinstance(one, str) and re.fullmatch("[0-9a-f]{64}", one) for one in hashes):
            raise ValueError(f"`words_sha256` = {quote(words)}: list SHA-256 in hexadecimal")
        if not isinstance(recipe, dict):
            raise ValueError(f"`recipe` = {quote(recipe)}: write a JSON object")
        return cls(
            base=content["base"],
            base_revision=content["base_revision"],
            domain=content["domain"],
            roles=tuple(roles),
            words_sha256=tuple(words),
            recipe=recipe,
        )


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
    shapes: Mapping[str, tuple[tuple[int, ...], tuple[int, ...]]]
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
    rank, alpha = _settings(folder / CONFIG)
    return Adapter(
        path=Path(os.path.realpath(folder)),
        revision=revision,
        rank=rank,
        alpha=alpha,
        shapes=_pairs(folder / WEIGHTS, rank),
        card=read_card(folder),
    )


def adapter_revision(folder: Path) -> str:
    """SHA-256 of an adapter's files, whole, in hexadecimal.

    Raises:
        AdapterError: a file cannot be read.
    """
    _check_is_folder(folder)
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
    if not os.path.lexists(path):
        return None
    try:
        return Card.read(_json(path))
    except ValueError as error:
        raise AdapterError(f"{path}: {error}. Teach the adapter again, or remove it") from error


def check_fit(adapter: Adapter, base: Path, *, base_revision: str) -> None:
    """Refuses an adapter that was made for another base model.

    Args:
        adapter: any.
        base: folder of the base model's weights.
        base_revision: of these weights.

    Raises:
        AdapterError: the base is of another family, or its weights are not those that the adapter
            was taught on, or have other shapes.
        UnknownModelError: the base's files are damaged.
    """
    family = _json(base / "config.json")
    kind = family.get("model_type") if isinstance(family, dict) else None
    if kind not in FAMILIES:
        raise AdapterError(
            f"{base} is a model of type {quote(kind)}: adapters are served on {_listed(FAMILIES)}"
        )
    card = adapter.card
    if card is not None and card.base_revision != base_revision:
        raise AdapterError(
            f"the adapter {adapter.path} was taught on {card.base[:200]} with the revision "
            f"{card.base_revision[:80]}, but the weights here have {base_revision[:80]}: serve it "
            "on the model that it was taught on, or teach it again"
        )
    found: dict[str, tuple[int, ...]] = {}
    for path in sorted(base.glob("*.safetensors")):
        found.update({name: shape for name, (shape, _) in tensor_shapes(path).items()})
    for layer, ((_, inner), (outer, _)) in adapter.shapes.items():
        shape = found.get(f"{layer}.weight")
        if shape != (outer, inner):
            has = "no such weight" if shape is None else f"one of shape {list(shape)}"
            raise AdapterError(
                f"the adapter {adapter.path} does not fit the model in {base}: it changes a "
                f"weight {quote(layer)} of shape {[outer, inner]}, and the model has {has}"
            )


def _settings(path: Path) -> tuple[int, float]:
    """Rank and alpha of PEFT's file, whose other keys must change nothing.

    Raises:
        AdapterError: one of them does.
    """
    content = _json(path)
    if not isinstance(content, dict):
        raise AdapterError(f"{path} is damaged: it is not a JSON object")
    if content.get("peft_type") != "LORA":
        raise AdapterError(
            f"{path}: `peft_type` = {quote(content.get('peft_type'))}: only LORA is served"
        )
    rank, alpha, targets = (content.get(key) for key in ("r", "lora_alpha", "target_modules"))
    if type(rank) is not int or not 1 <= rank <= _MOST_RANK:
        raise AdapterError(f"{path}: `r` = {quote(rank)}: write a rank from 1 to {_MOST_RANK}")
    # Not a number compares false, and an integer may be larger than any float.
    if not isinstance(alpha, int | float) or alpha is True or not abs(alpha) <= _MOST_ALPHA:
        raise AdapterError(f"{path}: `lora_alpha` = {quote(alpha)}: write a number")
    if not _are_targets(targets):
        raise AdapterError(
            f"{path}: `target_modules` = {quote(targets)}: write a list of some of "
            f"{', '.join(PROJECTIONS)}, alone or at the end of a path, or a regular expression; "
            "other layers are not served"
        )
    for key, value in content.items():
        if key in {"peft_type", "r", "lora_alpha", "target_modules"} | _IGNORED:
            continue
        plain = value in _PLAIN_INITS if key == "init_lora_weights" else value in (None, "none", "")
        if not (plain or value is False or value in ([], {})):
            raise AdapterError(
                f"{path}: {quote(key)} = {quote(value)}: only plain LoRA is served, without it"
            )
    return rank, float(alpha)


def _are_targets(targets: object) -> bool:
    """Whether PEFT's `target_modules` names layers that are served.

    A regular expression of other people is not run: its match may take for ever, and the weights
    show which layers it meant.
    """
    if isinstance(targets, str):
        return targets not in {"", "all-linear"}  # PEFT saves the names that all-linear stands for
    paths = targets if isinstance(targets, list) else []
    return bool(paths) and all(str(path).rpartition(".")[2] in PROJECTIONS for path in paths)


def _pairs(path: Path, rank: int) -> dict[str, tuple[tuple[int, ...], tuple[int, ...]]]:
    """Layer -> shapes of its matrices A and B.

    Raises:
        AdapterError: the file is damaged; a tensor is of another kind, has no partner or another
            rank.
    """
    try:
        tensors = tensor_shapes(path)
    except UnknownModelError as error:
        raise AdapterError(str(error)) from error
    halves: dict[str, dict[str, tuple[int, ...]]] = {}
    for name, (shape, dtype) in tensors.items():
        match = _NAME.fullmatch(name)
        if match is None or match[1].rpartition(".")[2] not in PROJECTIONS:
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


def _check_is_folder(folder: Path) -> None:
    if not os.path.isdir(folder):
        raise AdapterError(f"there is no adapter {folder}: name a folder in PEFT's format")


def _json(path: Path) -> Any:  # noqa: ANN401 - any JSON
    try:
        return read_json(path, most=_MOST_TEXT)
    except OSError as error:
        raise _unreadable(path, error) from error
    except ValueError as error:
        raise AdapterError(f"{path} is damaged: it is not JSON ({error})") from error


def _unreadable(path: Path, error: OSError) -> AdapterError:
    return AdapterError(f"{path} cannot be read: {error.strerror}")


def _listed(names: tuple[str, ...]) -> str:
    return " and ".join(names)
