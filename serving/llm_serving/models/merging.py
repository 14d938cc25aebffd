"""Merging an adapter into its base model: a folder of its own, which any program can serve.

Every changed weight is W + (alpha / r) B A, computed in float32 and written in the type of W.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import tempfile
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from llm_base.files import write_json
from llm_serving.errors import AdapterError, ModelFetchError
from llm_serving.models.adapters import (
    WEIGHTS,
    Adapter,
    adapter_revision,
    check_fit,
    read_adapter,
)
from llm_serving.models.folders import CACHE_VARIABLE, MANIFEST, building, is_complete, publish
from llm_serving.models.local import CARD, MARKS, MERGED, check_folder
from llm_serving.models.reading import reading_model, reason_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

_RECIPE = "merged-1"
"""Named anew when the same base and adapter yield other bytes."""
_WEIGHTS = frozenset({".bin", ".gguf", ".pt", ".pth", ".safetensors"})


def merged_revision(base_revision: str, adapter_revision: str) -> str:
    """The revision of an adapter on a base model: what both depend on, merged or not.

    It names the recipe of merging, so that other bytes have other cached answers.
    """
    return f"{base_revision}+{adapter_revision}-{_RECIPE}"


def merged_name(revision: str) -> str:
    """The name of a merged model's folder in the cache, from its `merged_revision`."""
    return f"{_RECIPE}-{hashlib.sha256(revision.encode()).hexdigest()[:24]}"


def merge_once(
    base: Path,
    adapter: Adapter,
    *,
    base_revision: str,
    cache: Path,
    is_good: Callable[[Path, str], bool] = is_complete,
) -> Path:
    """Returns the folder of a merged model, making it first if it is missing or damaged.

    May be killed at any moment and called by several processes at once: one of them merges, and
    the others wait.

    Args:
        base: folder of the base model.
        adapter: made for this base.
        base_revision: of the base's weights.
        is_good: as in `fetch_bundled`.

    Raises:
        AdapterError: the adapter does not fit the base, or is damaged.
        ModelFetchError: the folder cannot be written.
    """
    revision = merged_revision(base_revision, adapter.revision)
    folder = cache / "models" / merged_name(revision)
    if not is_good(folder, revision):
        check_fit(adapter, base, base_revision=base_revision)
        remedy = f"Free some space, or set {CACHE_VARIABLE} to a folder that can be written"
        with _written(folder, remedy), building(folder) as workshop:
            if not is_good(folder, revision):
                built = workshop / "built"
                _build(base, adapter, built, revision=revision)
                publish(built, folder, revision=revision)
    return folder


def merge(base: Path, adapter: Path, target: Path, *, base_revision: str) -> None:
    """Writes a merged model into a new folder, whole or not at all.

    Args:
        base: folder of the base model.
        adapter: folder of an adapter that was made for it.
        target: the new folder.
        base_revision: of the base's weights, as `resolve` gives it.

    Raises:
        AdapterError: the adapter does not fit the base or is damaged, or the target exists.
        UnknownModelError: the base is damaged.
        ModelFetchError: the folder cannot be written.
    """
    read = read_adapter(adapter)
    check_folder(base)
    check_fit(read, base, base_revision=base_revision)
    if os.path.lexists(target):
        raise AdapterError(f"{target} exists already: name a new folder for the merged model")
    with _written(target, "Name a folder that can be written"):
        target.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(
            prefix=f".{target.name}.", suffix=".part", dir=target.parent
        ) as workshop:
            built = Path(workshop) / "built"
            _build(base, read, built, revision=merged_revision(base_revision, read.revision))
            built.rename(target)


@contextmanager
def _written(folder: Path, remedy: str) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise ModelFetchError(
            f"cannot write the merged model {folder}: {error}. {remedy}"
        ) from error


def _build(base: Path, adapter: Adapter, built: Path, *, revision: str) -> None:
    """Writes everything but a manifest into a new folder.

    Raises:
        AdapterError: the adapter cannot be merged, or is not the one that was read any more.
        OSError: a file cannot be written.
    """
    built.mkdir()
    for path in sorted(base.iterdir()):
        if path.suffix not in _WEIGHTS and path.name not in {MANIFEST, *MARKS} and path.is_file():
            shutil.copyfile(path, built / path.name)
    if adapter.card is not None:
        write_json(built / CARD, adapter.card.to_json())
    write_json(built / MERGED, {"revision": revision})
    for path in sorted(base.glob("*.safetensors")):
        _build_weights(path, adapter, built / path.name)
    # The files were read anew, and the folder bears the name of what was read before.
    if adapter_revision(adapter.path) != adapter.revision:
        raise AdapterError(
            f"the adapter {adapter.path} changed while it was merged: merge it again"
        )


def _build_weights(source: Path, adapter: Adapter, target: Path) -> None:
    """Writes one file of weights with the adapter's changes; raises as `_build`."""
    import torch
    from safetensors import SafetensorError, safe_open
    from safetensors.torch import save_file

    def failed(reason: str) -> AdapterError:
        return AdapterError(f"{source} and {adapter.path / WEIGHTS} cannot be merged: {reason}")

    tensors = {}
    with (
        reading_model(failed),
        safe_open(source, framework="pt") as weights,
        safe_open(adapter.path / WEIGHTS, framework="pt") as changes,
    ):
        for name in weights.keys():  # noqa: SIM118 - not a mapping
            weight = weights.get_tensor(name)
            layer = name.removesuffix(".weight")
            if layer in adapter.shapes:
                a, b = (
                    changes.get_tensor(f"base_model.model.{layer}.lora_{half}.weight").float()
                    for half in "AB"
                )
                changed = weight.float() + (adapter.alpha / adapter.rank) * (b @ a)
                if not bool(torch.isfinite(changed).all()):
                    raise failed(f"{layer} would hold numbers that are not finite")
                weight = changed.to(weight.dtype)
            tensors[name] = weight
        metadata = weights.metadata()
    try:
        save_file(tensors, target, metadata=metadata or {"format": "pt"})
    except SafetensorError as error:
        # A full disk has this class here.
        raise OSError(reason_of(error)) from error
