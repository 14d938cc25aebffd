"""Writing a file so that it is there as a whole or not at all."""

from __future__ import annotations

import json
import os
from pathlib import Path
from tempfile import NamedTemporaryFile


def write_json(path: Path, value: object) -> None:
    """Writes a JSON file: all of it or nothing, whatever happens meanwhile.

    Args:
        path: of the file; its folder must exist.
        value: JSON-able.

    Raises:
        OSError: it cannot be written; what was there is still there.
        TypeError: the value is not JSON-able; likewise.
    """
    mask = os.umask(0)
    os.umask(mask)
    with NamedTemporaryFile(
        "w", dir=path.absolute().parent, prefix=f".{path.name}.", delete=False, encoding="utf-8"
    ) as file:
        try:
            json.dump(value, file)
            file.flush()
            os.fsync(file.fileno())
            Path(file.name).chmod(0o666 & ~mask)
            Path(file.name).replace(path)
        except BaseException:
            Path(file.name).unlink(missing_ok=True)
            raise
