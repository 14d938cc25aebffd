"""How far a running sweep is, in a small file of its folder, for whoever watches from outside.

The ledger says what has ended. What runs now, and what the engines do, only the process of the
sweep knows: it writes that down every two seconds, and removes the file when it ends.
"""

from __future__ import annotations

import json
import math
import time
from contextlib import suppress
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

from pydantic import ConfigDict, TypeAdapter, ValidationError

from llm_base.files import new_file, read_regular
from llm_base.quoting import first_fault
from llm_planning.experiments.scheduler import Progress  # noqa: TC001 (a field that is read)
from llm_planning.experiments.trial import Moment  # noqa: TC001 (a field that is read)

if TYPE_CHECKING:
    from pathlib import Path
    from typing import Self

PROGRESS_FILE = "progress.json"
"""The file's name in the sweep's folder."""

WRITE_EVERY = 2.0
"""Seconds between two writings, at least."""

STALE_AFTER = 30.0
"""Seconds after which a file without news is that of a process that was killed, or hangs."""

_LARGEST = 2**16
"""Bytes of the file, at most."""


class ProgressFile:
    """Writes progress to a sweep's folder while it is entered.

    Args:
        folder: of the sweep; it exists when the first progress comes.
    """

    def __init__(self, folder: Path) -> None:
        self._path = folder / PROGRESS_FILE
        self._written = -math.inf

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        with suppress(OSError):
            self._path.unlink(missing_ok=True)

    def __call__(self, progress: Progress) -> None:
        """Takes the newest progress; writes it if the last writing is old enough."""
        now = time.monotonic()
        if now - self._written < WRITE_EVERY:
            return
        self._written = now
        content = json.dumps(asdict(Noted(progress, time.time())))
        part = self._path.with_name(f"{PROGRESS_FILE}.part")
        # A full disk ends the sweep by the ledger's own error, not by that of a display.
        with suppress(OSError):
            with new_file(part) as file:
                file.write(content.encode())
            part.replace(self._path)


@dataclass(frozen=True, slots=True)
class Noted:
    """What a progress file said.

    Attributes:
        written: when it was written, in seconds since the epoch.
    """

    __pydantic_config__ = ConfigDict(extra="forbid", strict=True)

    progress: Progress
    written: Moment

    def is_fresh(self, now: float) -> bool:
        """Whether the process that wrote it still runs, as far as its file tells."""
        return abs(now - self.written) < STALE_AFTER


def read_progress(folder: Path) -> Noted | None:
    """What the process that runs a sweep last said; None if there is none.

    Raises:
        OSError: the file cannot be read; `strerror` says it in words.
        ValueError: the file holds something else; a stranger may have written it.
    """
    try:
        content = read_regular(folder / PROGRESS_FILE, most=_LARGEST)
    except FileNotFoundError:
        return None
    try:
        return TypeAdapter(Noted).validate_json(content)
    except ValidationError as error:
        raise ValueError(first_fault(error)) from error


def process_state(folder: Path, now: float) -> dict[str, Any]:
    """What the process of a sweep says of itself, as JSON values.

    Args:
        now: seconds since the epoch.

    Returns:
        `state`: "running", "silent" (it hangs or was killed), "absent" or "unreadable"; and, of the
        first two, what it last wrote.
    """
    try:
        noted = read_progress(folder)
    except (OSError, ValueError) as error:
        reason = (error.strerror if isinstance(error, OSError) else None) or str(error)
        return {"state": "unreadable", "said": f"{PROGRESS_FILE} cannot be read: {reason}"}
    if noted is None:
        return {"state": "absent"}
    progress = noted.progress
    return {
        "state": "running" if noted.is_fresh(now) else "silent",
        "written": noted.written,
        "running": progress.running,
        "retried": progress.retried,
        "lost": progress.lost,
        "seconds": progress.seconds,
        "left": progress.remaining_seconds,
        "load": asdict(progress.load),
    }
