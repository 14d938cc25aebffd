"""Folders of the cache: built beside their place and renamed into it whole."""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import tempfile
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from filelock import FileLock
from platformdirs import user_cache_dir

from llm_base.files import at_home, open_regular, read_json
from llm_serving.errors import ServingError

if TYPE_CHECKING:
    from collections.abc import Iterator

MANIFEST = "manifest.json"
CACHE_VARIABLE = "LLM_PLANNING_CACHE"
_LONGEST_MANIFEST = 1 << 20


class CacheFolderError(ServingError):
    """The variable of the cache folder names no folder."""


def cache_folder() -> Path:
    """Where models and cached answers are kept.

    Returns:
        The folder that the environment variable `LLM_PLANNING_CACHE` names, otherwise the
        platform's own cache folder of the user. It may not exist yet.

    Raises:
        CacheFolderError: the variable names the home of a user that does not exist.
    """
    chosen = os.environ.get(CACHE_VARIABLE)
    if not chosen:
        return Path(user_cache_dir("llm-planning"))
    folder = at_home(chosen)
    if folder.startswith("~"):
        raise CacheFolderError(
            f"{CACHE_VARIABLE}={chosen} names the home of a user that does not exist: set it to "
            "a folder"
        )
    return Path(folder)


@contextmanager
def building(folder: Path) -> Iterator[Path]:
    """Gives one process at a time an empty folder to build another one in.

    Other processes wait until it is done. The lock ends with its process, so a partial folder that
    is found under the lock was left by a process that was killed, and is removed.

    Args:
        folder: the one to be built; only its parent is touched.

    Yields:
        A hidden sibling of `folder`, on the same file system; it is removed at the end.
    """
    folder.parent.mkdir(parents=True, exist_ok=True)
    with FileLock(folder.with_name(f".{folder.name}.lock")):
        for leftover in _leftovers(folder):
            shutil.rmtree(leftover, ignore_errors=True)
        with tempfile.TemporaryDirectory(
            prefix=f".{folder.name}.", suffix=".part", dir=folder.parent, ignore_cleanup_errors=True
        ) as workshop:
            yield Path(workshop)


def has_leftovers(folder: Path) -> bool:
    """Whether a process is building this folder now, or was killed while it did."""
    return any(_leftovers(folder))


def _leftovers(folder: Path) -> Iterator[Path]:
    return folder.parent.glob(f".{folder.name}.*.part")


def publish(built: Path, folder: Path, *, revision: str) -> None:
    """Lists a built folder's files and renames it into its place.

    Args:
        built: inside the workshop that `building` gave; holds everything but the manifest.
        folder: its place; an older folder there is replaced.
        revision: recorded in the manifest.
    """
    files = {
        path.relative_to(built).as_posix(): {
            "bytes": path.stat().st_size,
            "sha256": _sync_and_hash(path),
        }
        for path in sorted(built.rglob("*"))
        if path.is_file()
    }
    manifest = built / MANIFEST
    manifest.write_text(json.dumps({"revision": revision, "files": files}, indent=2) + "\n")
    _sync_and_hash(manifest)
    if folder.exists():
        folder.rename(built.with_name("replaced"))
    built.rename(folder)


def _sync_and_hash(path: Path) -> str:
    """Forces a file to the disk, so that the rename cannot outlive its content.

    Returns:
        Its SHA-256 in hexadecimal.
    """
    with path.open("rb") as file:
        os.fsync(file.fileno())
        return hashlib.file_digest(file, "sha256").hexdigest()


def is_complete(folder: Path, revision: str) -> bool:
    """Whether a folder was published with this revision and its files have their sizes.

    Reads the manifest and no other file: cheap enough for every use.
    """
    listed, files = _manifest(folder)
    return listed == revision and all(
        _size(folder / name) == entry["bytes"] for name, entry in files.items()
    )


def is_intact(folder: Path, revision: str) -> bool:
    """Whether a folder is complete and every byte of it has its SHA-256."""
    try:
        return is_complete(folder, revision) and all(
            sha256(folder / name) == entry["sha256"] for name, entry in _manifest(folder)[1].items()
        )
    except OSError:
        return False


def sha256(path: Path) -> str:
    """SHA-256 of a regular file, in hexadecimal."""
    with open_regular(path) as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _manifest(folder: Path) -> tuple[str, dict[Any, Any]]:
    """A manifest's revision and files, name -> `bytes` and `sha256`; ("", {}) if it is damaged."""
    try:
        listed = read_json(folder / MANIFEST, most=_LONGEST_MANIFEST)
    except (OSError, ValueError):
        return "", {}
    match listed:
        case {"revision": str(revision), "files": {**files}} if all(
            isinstance(file, dict) and file.keys() == {"bytes", "sha256"} for file in files.values()
        ):
            return revision, files
    return "", {}


def _size(path: Path) -> int:
    try:
        return path.stat().st_size if path.is_file() else -1
    except (OSError, ValueError):
        return -1
