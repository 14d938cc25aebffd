"""Traces of finished trials: one compressed file each, on the disk whole or not at all."""

from __future__ import annotations

import gzip
import hashlib
import json
import os
import re
import zlib
from contextlib import suppress
from typing import TYPE_CHECKING

from llm_kernels.files import make_folder, write_durably
from llm_planning.trace_file import TraceError, decode_trace

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable
    from pathlib import Path

    from llm_planning.trace import Event

# Deflate's fastest level: a trace repeats itself so much that the others save little and take
# several times as long.
_LEVEL = 1
_TEMPORARY = ".tmp"
_OURS = re.compile(r"([0-9a-f]{64})\.jsonl\.gz(\.tmp)?")

# What two runs with the same answers may have different: when, how fast, from which cache and
# beside what. The text of a state may depend on the process, as the order of a set does.
_TYPES_APART = frozenset({"load", "end"})
_FIELDS_APART = frozenset({"at", "seconds", "cached_tokens", "replayed", "observation"})


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

        Killed at any moment, or on a full disk, this leaves no file that is not whole under the
        name of a trace.

        Returns:
            SHA-256 of the lines, in hexadecimal: the same whatever library compresses them; and the
            size of the file in bytes.

        Raises:
            OSError: it could not be written; what was begun is removed.
        """
        content = gzip.compress(lines, _LEVEL, mtime=0)
        path = self.path(key)
        make_folder(self._path)
        write_durably(path, content, temporary=path.with_name(path.name + _TEMPORARY))
        return hashlib.sha256(lines).hexdigest(), len(content)

    def read(self, key: str, sha256: str) -> list[Event]:
        """The lines of a trial's trace.

        Raises:
            TraceError: the file is missing, damaged, or holds something else.
        """
        path = self.path(key)
        try:
            lines = gzip.decompress(path.read_bytes())
        except (OSError, EOFError, zlib.error) as error:
            raise TraceError(f"the trace {path} cannot be read ({error})") from error
        if hashlib.sha256(lines).hexdigest() != sha256:
            raise TraceError(f"the trace {path} is not the one that its trial left: restore it")
        return decode_trace(lines)

    def clean(self, kept: Collection[str]) -> None:
        """Removes what a killed run left: temporary files, and traces that have no row.

        Files with other names are not touched.

        Args:
            kept: keys of the trials whose trace the ledger knows.
        """
        with suppress(FileNotFoundError), os.scandir(self._path) as files:
            for file in files:
                ours = _OURS.fullmatch(file.name)
                if ours and (ours[2] or ours[1] not in kept):
                    os.unlink(file.path)

    def holds_any(self) -> bool:
        """Whether there are traces, of whichever ledger."""
        with suppress(FileNotFoundError, NotADirectoryError), os.scandir(self._path) as files:
            return any(_OURS.fullmatch(file.name) for file in files)
        return False


def repeatable_digest(lines: Iterable[Event]) -> str:
    """SHA-256 of what two runs of a trial with the same answers have in common in their traces.

    Trees are numbered, and questions answered, in an order that depends on how long answers take:
    only the lines of one tree have theirs.
    """
    trees: dict[int, list[str]] = {}
    others: list[str] = []
    for line in lines:
        if line["type"] in _TYPES_APART:
            continue
        kept = {key: value for key, value in line.items() if key not in _FIELDS_APART}
        tree = kept.pop("tree", None)
        text = json.dumps(kept, sort_keys=True)
        (others if tree is None else trees.setdefault(tree, [])).append(text)
    parts = sorted([*others, *map("\n".join, trees.values())])
    return hashlib.sha256("\n".join(parts).encode()).hexdigest()
