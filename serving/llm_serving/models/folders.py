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

if TYPE_CHECKING:
    from collections.abc import Iterator

MANIFEST = "manifest.json"
CACHE_VARIABLE = "LLM_PLANNING_CACHE"


def cache_folder() -> Path:
    """Where models and cached answers are kept.

    Returns:
        The folder that the environment variable `LLM_PLANNING_CACHE` names, otherwise the
        platform's own cache folder of the user. It may not exist yet.
    """
    chosen = os.environ.get(CACHE_VARIABLE)
    return Path(chosen).expanduser() if chosen else Path(user_cache_dir("llm-planning"))


@contextmanager
def building(folder: Path) -> Iterator[Path]:
    """Gives one process at a time an empty folder to build another one in.

    Others wait until it is done. The lock dies with its process, so whatever lies around once the
    lock is held was left by a process that was killed, and is removed.

    Args:
        folder: what is going to be built; only its parent is touched.

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
        folder: its place; whatever is there is replaced.
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
    """Forces a file to the disk, so that the rename cannot outlive its content; its SHA-256."""
    with path.open("rb") as file:
        os.fsync(file.fileno())
        return hashlib.file_digest(file, "sha256").hexdigest()


def is_complete(folder: Path, revision: str) -> bool:
    """Whether a folder was published with this revision and its files have their sizes.

    Reads the manifest and no other file: cheap enough for every use.
    """
    listed = _manifest(folder)
    return listed.get("revision") == revision and not any(
        _size(folder / name) != entry["bytes"] for name, entry in listed["files"].items()
    )


def is_intact(folder: Path, revision: str) -> bool:
    """Whether a folder is complete and every byte of it has its SHA-256."""
    return is_complete(folder, revision) and all(
        sha256(folder / name) == entry["sha256"]
        for name, entry in _manifest(folder)["files"].items()
    )


def sha256(path: Path) -> str:
    """SHA-256 of a file, in hexadecimal."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _manifest(folder: Path) -> dict[str, Any]:
    try:
        listed = json.loads((folder / MANIFEST).read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return {}
    return listed if isinstance(listed, dict) else {}


def _size(path: Path) -> int:
    try:
        return path.stat().st_size
    except OSError:
        return -1
