"""Models of the hub: cached snapshots first, so that a model keeps its revision until fetched."""

from __future__ import annotations

import hashlib
import re
from pathlib import Path

from llm_serving.errors import ModelFetchError, UnfetchedModelError, UnknownModelError
from llm_serving.models.folders import sha256
from llm_serving.models.local import check_folder

_HUB_ID = re.compile(r"(?!.*(--|\.\.))[A-Za-z0-9_][\w.-]*/[\w.-]*\w", re.ASCII)
_LONGEST_ID = 96
_HOW_TO_FETCH = (
    "Fetch it once with network access (unset HF_HUB_OFFLINE for it). Afterwards it is read from "
    "the disk, offline with HF_HUB_OFFLINE=1"
)
_REVISION = re.compile(r"(?!.*\.\.)\w[\w.-]*(/\w[\w.-]*){0,4}", re.ASCII)
_LONGEST_REVISION = 96
_NEWEST = "main"
"""The branch that is meant where no revision is named."""

# Copies of the weights in formats that are not read here.
_SKIPPED = ["original/*", "*.gguf", "*.onnx", "*.h5", "*.msgpack"]


def is_hub_id(name: str) -> bool:
    """Whether a name is written like a model of the hub.

    Args:
        name: such as `organisation/name`, or `organisation/name@revision`, which is a branch, a tag
            or a commit.
    """
    repository, revision = _parts(name)
    if len(repository) > _LONGEST_ID or len(revision) > _LONGEST_REVISION:
        return False
    return bool(_HUB_ID.fullmatch(repository) and _REVISION.fullmatch(revision))


def _parts(hub_id: str) -> tuple[str, str]:
    """The repository and the revision of a hub id."""
    repository, sign, revision = hub_id.partition("@")
    return repository, revision if sign else _NEWEST


def cached_snapshot(hub_id: str) -> Path:
    """The snapshot on this machine; does not use the network.

    Returns:
        The snapshot's folder, whose name is the commit's hash.

    Raises:
        UnknownModelError: the machine has no snapshot of it, or not the whole one.
    """
    from huggingface_hub import snapshot_download
    from huggingface_hub.errors import LocalEntryNotFoundError

    repository, revision = _parts(hub_id)
    try:
        found = snapshot_download(
            repository, revision=revision, local_files_only=True, ignore_patterns=_SKIPPED
        )
    except LocalEntryNotFoundError as error:
        raise UnfetchedModelError(
            f"{hub_id} is not on this machine. {_HOW_TO_FETCH}", hub_id
        ) from error
    except (OSError, ValueError) as error:
        raise UnknownModelError(
            f"{hub_id} cannot be read from the hub's cache on this machine: {error}"
        ) from error
    folder = Path(found)
    check_folder(folder, remedy=_HOW_TO_FETCH)
    return folder


def download_snapshot(hub_id: str) -> Path:
    """The newest snapshot, or that of the revision, downloaded where it is missing.

    What has arrived before is kept.

    Returns:
        The snapshot's folder, whose name is the commit's hash.

    Raises:
        UnknownModelError: the hub does not know the model, keeps it from this user, or cannot
            be asked (offline) and the model is not on this machine.
        ModelFetchError: the download failed.
    """
    folder = _downloaded(hub_id)
    check_folder(folder, remedy=_HOW_TO_FETCH)
    return folder


def verified_snapshot(hub_id: str) -> Path:
    """Like `download_snapshot`, with every file checked and downloaded anew if it was damaged.

    Raises:
        UnknownModelError: as `download_snapshot`.
        ModelFetchError: as `download_snapshot`.
    """
    discard_damaged(_downloaded(hub_id))
    return download_snapshot(hub_id)


def _downloaded(hub_id: str) -> Path:
    from huggingface_hub import snapshot_download
    from huggingface_hub.errors import (
        LocalEntryNotFoundError,
        RepositoryNotFoundError,
        RevisionNotFoundError,
    )

    repository, revision = _parts(hub_id)
    try:
        return Path(snapshot_download(repository, revision=revision, ignore_patterns=_SKIPPED))
    except LocalEntryNotFoundError as error:
        raise UnfetchedModelError(
            f"{hub_id} is not, or not wholly, on this machine, and the hub cannot be asked "
            f"(no network, or HF_HUB_OFFLINE is set). {_HOW_TO_FETCH}",
            hub_id,
        ) from error
    except RepositoryNotFoundError as error:  # gated ones are of this type too
        raise UnknownModelError(
            f"the hub has no {hub_id}, or keeps it from you: check the spelling, accept its "
            "licence on its page, and log in with `hf auth login`"
        ) from error
    except RevisionNotFoundError as error:
        raise UnknownModelError(
            f"{repository} has no revision {revision} on the hub: name a branch, a tag or a commit"
        ) from error
    except Exception as error:  # its HTTP client changed between releases, and its errors with it
        raise ModelFetchError(
            f"{hub_id} could not be downloaded: {error}. What has arrived is kept: fetch it again"
        ) from error


def discard_damaged(folder: Path) -> None:
    """Removes the files of a snapshot whose content does not match their name.

    The hub's cache names a file after its content: SHA-256 for weights, Git's SHA-1 of a blob
    for the rest. The next download brings removed files back.

    Args:
        folder: a snapshot, of links into the cache.
    """
    for link in sorted(folder.rglob("*")):
        blob = link.resolve()
        if link.is_symlink() and blob.is_file() and _content_name(blob) != blob.name:
            blob.unlink()
            link.unlink()


def _content_name(blob: Path) -> str:
    if len(blob.name) == 64:
        return sha256(blob)
    if len(blob.name) == 40:
        content = blob.read_bytes()
        header = b"blob %d\0" % len(content)
        return hashlib.sha1(header + content, usedforsecurity=False).hexdigest()
    return blob.name
