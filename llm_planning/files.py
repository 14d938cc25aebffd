"""Files that are there whole or not at all."""

from __future__ import annotations

import json
import os
from contextlib import suppress
from secrets import token_hex
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pathlib import Path


def write_durably(path: Path, content: bytes, *, temporary: Path | None = None) -> None:
    """Writes a file that is there whole or not at all, and survives the loss of power.

    Its permissions are those of any file that the process makes.

    Args:
        path: of the file, whose folder must exist; a file that exists is replaced.
        content: of the file.
        temporary: where it is written first, in the same folder; by default a hidden name that
            nobody else uses.

    Raises:
        OSError: it cannot be written. What was there before still is.
    """
    part = temporary or path.with_name(f".{path.name}.{token_hex(8)}.part")
    try:
        with part.open("wb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        part.replace(path)
    except BaseException:
        with suppress(OSError):
            part.unlink(missing_ok=True)
        raise
    sync_folder(path.parent)


def write_json(path: Path, value: object) -> None:
    """Writes a JSON file, as `write_durably` does.

    Raises:
        OSError: it cannot be written.
        TypeError: the value is not JSON-able.
    """
    write_durably(path, json.dumps(value).encode())


def make_folder(path: Path) -> None:
    """Makes a folder and those above it, on the disk when this returns."""
    if path.is_dir():
        return
    make_folder(path.parent)
    path.mkdir(exist_ok=True)
    sync_folder(path.parent)


def sync_folder(path: Path) -> None:
    """Puts the names in a folder on the disk."""
    descriptor = os.open(path, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
