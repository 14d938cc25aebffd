"""Traces of finished trials: one compressed file each, on the disk whole or not at all."""

from __future__ import annotations

import errno
import gzip
import hashlib
import json
import os
import re
import zlib
from contextlib import suppress
from typing import TYPE_CHECKING

from llm_base.files import make_folder, read_regular, write_durably
from llm_planning.trace_file import TraceError, decode_trace
from llm_planning.trace_tree import OF_THE_ASKER

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable
    from pathlib import Path

    from llm_planning.events import Event

LONGEST_TRACE = 2**28
"""Bytes of a trace's lines, at most: a small file can unpack to more than the memory holds."""

# The fastest level: traces are so repetitive that the others save little and take several times as
# long.
_LEVEL = 1
_GZIP = 16
"""Added to the size of the window, it makes zlib expect the frame of gzip."""

_TEMPORARY = ".tmp"
_OURS = re.compile(r"([0-9a-f]{64})\.jsonl\.gz(\.tmp)?")

# Types and fields that may differ between runs with the same answers: times, speeds, shares of
# caches and loads. The text of a state may depend on the process, as the order of a set does.
_TYPES_APART = frozenset({"load", "end"})
_FIELDS_APART = frozenset(
    {"at", "seconds", "cached_tokens", "cached_end", "shared", "replayed", "observation"}
)


class TraceFolder:
    """The traces of a sweep, by the key of their trial.

    Args:
        path: of the folder; made when the first trace is written.
    """

    def __init__(self, path: Path) -> None:
        self._path = path

    def path(self, key: str) -> Path:
        """The file of a trial's trace."""
        return self._path / f"{key}.jsonl.gz"

    def write(self, key: str, lines: bytes) -> tuple[str, int]:
        """Puts a trace on the disk; it is there, under its name, when this returns.

        Killed at any moment, or on a full disk, this leaves no partial file under the name of a
        trace.

        Returns:
            SHA-256 of the uncompressed lines, in hexadecimal, and the size of the file in bytes.

        Raises:
            OSError: the file could not be written; its temporary file is removed.
        """
        content = gzip.compress(lines, _LEVEL, mtime=0)
        path = self.path(key)
        make_folder(self._path)
        if os.path.islink(path):
            # The target of a link is not replaced.
            path.unlink()
        write_durably(path, content, temporary=path.with_name(path.name + _TEMPORARY))
        return hashlib.sha256(lines).hexdigest(), len(content)

    def read(self, key: str, sha256: str) -> list[Event]:
        """The lines of a trial's trace.

        Raises:
            TraceError: the file is missing, damaged or not a regular file, holds something else, or
                holds more than `LONGEST_TRACE`.
        """
        path = self.path(key)
        unpacking = zlib.decompressobj(zlib.MAX_WBITS + _GZIP)
        try:
            # Compressed lines are never longer than `LONGEST_TRACE` if the lines are not.
            lines = unpacking.decompress(
                read_regular(path, most=LONGEST_TRACE), max_length=LONGEST_TRACE + 1
            )
        except OSError as error:
            raise TraceError(
                f"the trace {path} cannot be read ({error.strerror}): restore it"
            ) from error
        except zlib.error as error:
            raise TraceError(f"the trace {path} is damaged ({error}): restore it") from error
        if len(lines) > LONGEST_TRACE:
            raise TraceError(
                f"the trace {path} has more than {LONGEST_TRACE} bytes, more than a trace may "
                "have: restore it"
            )
        if not unpacking.eof or hashlib.sha256(lines).hexdigest() != sha256:
            raise TraceError(f"the trace {path} is not the one that its trial left: restore it")
        try:
            return decode_trace(lines)
        except TraceError as error:
            raise TraceError(f"the trace {path} cannot be used: {error}") from error

    def clean(self, kept: Collection[str]) -> None:
        """Removes what a killed run left: temporary files, and traces that have no row.

        Files with other names are not touched, nor are folders.

        Args:
            kept: keys of the trials whose trace the ledger knows.

        Raises:
            OSError: a file could not be removed, or the folder is a link, whose target may be
                another sweep's.
        """
        if os.path.islink(self._path):
            raise OSError(errno.ELOOP, "it is a link: put the folder itself there", str(self._path))
        with suppress(FileNotFoundError), os.scandir(self._path) as files:
            for file in files:
                ours = _OURS.fullmatch(file.name)
                left = ours and (ours[2] or ours[1] not in kept)
                if left and not file.is_dir(follow_symlinks=False):
                    os.unlink(file.path)

    def holds_any(self) -> bool:
        """Whether the folder holds traces of any ledger; False if it cannot be read."""
        with suppress(OSError), os.scandir(self._path) as files:
            return any(_OURS.fullmatch(file.name) for file in files)
        return False


def repeatable_digest(lines: Iterable[Event]) -> str:
    """SHA-256 of the part of a trace that another run with the same answers repeats.

    The order of trees and of answers depends on how long answers take. So only the order of lines
    within a tree counts.

    Raises:
        RecursionError: a line is nested too deeply.
    """
    trees: dict[str, list[str]] = {}
    others: list[str] = []
    for line in lines:
        if line["type"] in _TYPES_APART:
            continue
        apart = _FIELDS_APART | OF_THE_ASKER if line["type"] == "role" else _FIELDS_APART
        kept = {key: value for key, value in line.items() if key not in apart}
        tree = kept.pop("tree", None)
        text = json.dumps(kept, sort_keys=True)
        (others if tree is None else trees.setdefault(json.dumps(tree), [])).append(text)
    parts = sorted([*others, *map("\n".join, trees.values())])
    return hashlib.sha256("\n".join(parts).encode()).hexdigest()
