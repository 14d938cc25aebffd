"""Models of the hub: cached snapshots first, so that a model keeps its revision until fetched."""

from __future__ import annotations

import hashlib
import re
from pathlib import Path

from llm_serving.errors import ModelFetchError, UnknownModelError
from llm_serving.models.folders import sha256
from llm_serving.models.local import check_weights
from llm_serving.models.progress import quiet_hub

_HUB_ID = re.compile(r"[A-Za-z0-9_][\w.-]*/[\w.-]+")

# Copies of the weights in formats that nothing here reads.
_SKIPPED = ["original/*", "*.gguf", "*.onnx", "*.h5", "*.msgpack"]


def is_hub_id(name: str) -> bool:
    """Whether a name is written like a model of the hub: `organisation/name`."""
    return _HUB_ID.fullmatch(name) is not None


def cached_snapshot(hub_id: str) -> Path:
    """The snapshot on this machine; asks no one.

    Returns:
        The snapshot's folder, whose name is the commit's hash.

    Raises:
        UnknownModelError: there is none, or it is not whole.
    """
    from huggingface_hub import snapshot_download
    from huggingface_hub.errors import LocalEntryNotFoundError

    try:
        folder = Path(snapshot_download(hub_id, local_files_only=True, ignore_patterns=_SKIPPED))
    except LocalEntryNotFoundError as error:
        raise UnknownModelError(
            f"{hub_id} is not on this machine. {_how_to_fetch(hub_id)}"
        ) from error
    check_weights(folder, remedy=_how_to_fetch(hub_id))
    return folder


def download_snapshot(hub_id: str) -> Path:
    """The newest snapshot, downloaded where it is missing; what has arrived before is kept.

    Returns:
        The snapshot's folder, whose name is the commit's hash.

    Raises:
        UnknownModelError: the hub does not know the model, keeps it from this user, or cannot
            be asked (offline) and the model is not on this machine.
        ModelFetchError: the download failed.
    """
    from huggingface_hub import snapshot_download
    from huggingface_hub.errors import LocalEntryNotFoundError, RepositoryNotFoundError

    try:
        with quiet_hub():
            folder = Path(snapshot_download(hub_id, ignore_patterns=_SKIPPED))
    except LocalEntryNotFoundError as error:
        raise UnknownModelError(
            f"{hub_id} is not, or not wholly, on this machine, and the hub cannot be asked "
            f"(no network, or HF_HUB_OFFLINE is set). {_how_to_fetch(hub_id)}"
        ) from error
    except RepositoryNotFoundError as error:  # gated ones are of this type too
        raise UnknownModelError(
            f"the hub has no {hub_id}, or keeps it from you: check the spelling, accept its "
            "licence on its page, and log in with `hf auth login`"
        ) from error
    except Exception as error:  # its HTTP client changed between releases, and its errors with it
        raise ModelFetchError(
            f"{hub_id} could not be downloaded: {error}. What has arrived is kept; run "
            f"`llm-planning models fetch {hub_id}` again"
        ) from error
    check_weights(folder, remedy=_how_to_fetch(hub_id))
    return folder


def discard_damaged(folder: Path) -> None:
    """Removes those files of a snapshot whose content is not what their name promises.

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


def _how_to_fetch(hub_id: str) -> str:
    return (
        f"Fetch it once with network access: `llm-planning models fetch {hub_id}` (unset "
        "HF_HUB_OFFLINE for it). Afterwards it is read from the disk, offline with HF_HUB_OFFLINE=1"
    )
