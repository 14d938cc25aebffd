"""A folder of this process's own, where what interpreters in C read cannot be changed by others."""

from __future__ import annotations

from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory


def own_folder() -> Path:
    """The folder, made at the first call and gone with the process.

    Raises:
        OSError: there is no room for it.
    """
    return Path(_made().name)


@cache
def _made() -> TemporaryDirectory[str]:
    return TemporaryDirectory(prefix="llm-planning-", ignore_cleanup_errors=True)
