"""Files that are there whole or not at all."""

from __future__ import annotations

import json
import os
from secrets import token_hex
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pathlib import Path


def write_json(path: Path, value: object) -> None:
    """Writes a JSON file, whole or not at all; one that exists is replaced.

    Its permissions are those of any file that the process makes.

    Args:
        path: of the file; its folder must exist.
        value: JSON-able.

    Raises:
        OSError: it cannot be written. What was there before still is.
        TypeError: the value is not JSON-able; likewise.
    """
    text = json.dumps(value)
    part = path.with_name(f".{path.name}.{token_hex(8)}.part")
    try:
        with part.open("x", encoding="utf-8") as file:
            file.write(text)
            file.flush()
            os.fsync(file.fileno())
        part.replace(path)
    except BaseException:
        part.unlink(missing_ok=True)
        raise
