"""The standard streams of the command: closed, full, without a reader, or of another encoding.

Standard output carries the answer: if it cannot be written, the command has failed. Standard error
only tells: what it cannot take is lost.
"""

from __future__ import annotations

import io
import os
import sys
from contextlib import suppress
from typing import TextIO


class _Telling(io.TextIOWrapper):
    """Standard output, which remembers that it could not be written.

    Attributes:
        lost: what the first write or flush that failed has raised.
    """

    lost: OSError | None = None

    def write(self, text: str) -> int:
        try:
            return super().write(text)
        except OSError as error:
            self.lost = self.lost or error
            raise

    def flush(self) -> None:
        try:
            super().flush()
        except OSError as error:
            self.lost = self.lost or error
            raise


class _Forgiving(io.TextIOWrapper):
    """Standard error, on which nothing fails: what cannot be written is dropped."""

    def write(self, text: str) -> int:
        try:
            return super().write(text)
        except (OSError, ValueError):
            return len(text)

    def flush(self) -> None:
        with suppress(OSError, ValueError):
            super().flush()

    def close(self) -> None:
        with suppress(OSError, ValueError):
            super().close()


def take_streams() -> bool:
    """Makes the process's streams fit to be used, once, at its beginning.

    A closed standard input is empty, a closed standard error goes nowhere. Otherwise the first file
    that is opened would get their place, and whatever a library says there.

    Returns:
        False where standard output is closed: nothing that is done could be told.
    """
    closed = sys.stdout is None
    for descriptor in range(3):
        _fill(descriptor)
    if sys.stdin is None:
        sys.stdin = os.fdopen(0, encoding="utf-8", closefd=False)
    if sys.stderr is None:
        sys.stderr = _Forgiving(os.fdopen(2, "wb", closefd=False), encoding="utf-8")
    else:
        sys.stderr = _rewrapped(sys.stderr, _Forgiving)
    if not closed:
        sys.stdout = _rewrapped(sys.stdout, _Telling)
    return not closed


def lost_output() -> OSError | None:
    """Why what was written to standard output so far did not arrive; None if it did."""
    try:
        sys.stdout.flush()
    except OSError as error:
        return error
    return sys.stdout.lost if isinstance(sys.stdout, _Telling) else None


def give_output_up() -> None:
    """Drops what standard output does not take, or Python says so once more when it ends."""
    with suppress(OSError, ValueError):
        nowhere = os.open(os.devnull, os.O_WRONLY)
        os.dup2(nowhere, sys.stdout.fileno())
        os.close(nowhere)


def _rewrapped(stream: TextIO, kind: type[io.TextIOWrapper]) -> TextIO:
    """The same stream with other manners; what its encoding lacks is written as an escape."""
    if not isinstance(stream, io.TextIOWrapper):
        return stream
    return kind(
        stream.buffer,
        encoding=stream.encoding,
        errors="backslashreplace",
        line_buffering=stream.line_buffering,
        write_through=stream.write_through,
    )


def _fill(descriptor: int) -> None:
    try:
        os.fstat(descriptor)
    except OSError:
        # The lowest number that is free is taken, and all below are in use.
        os.set_inheritable(os.open(os.devnull, os.O_RDWR), True)
