"""Folders that a command is going to write."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from llm_kernels.files import LONGEST_NAME
from llm_planning.endings import UsageError

if TYPE_CHECKING:
    from pathlib import Path


def check_writable_folder(out: Path) -> None:
    """Finds out before minutes of work whether a folder can be made and written.

    Raises:
        UsageError: it cannot; says why.
    """
    existing = next(path for path in (out, *out.absolute().parents) if os.path.lexists(path))
    if not (os.path.isdir(existing) and os.access(existing, os.W_OK | os.X_OK)):
        raise UsageError(f"--out {out}: {existing} is not a folder that can be written")
    if any(len(os.fsencode(name)) > LONGEST_NAME for name in out.parts):
        raise UsageError(f"--out {out}: a name in it is longer than {LONGEST_NAME} bytes")
