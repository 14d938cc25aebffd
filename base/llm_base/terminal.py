"""Output to a terminal, which texts from foreign files cannot control.

A key of an index or the name of a sweep may hold escape sequences, which move the cursor, retitle
the window or worse. Here every control character becomes a visible escape; line breaks and tabs
stay where a text has lines. Square brackets are not markup.
"""

from __future__ import annotations

import json
import logging
import sys
from contextlib import contextmanager
from typing import TYPE_CHECKING, Final

from rich.console import Console, ConsoleOptions, RenderableType
from rich.segment import Segment
from rich.text import Text

from llm_base.quoting import printable

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from types import TracebackType
    from typing import Self, TextIO

    from rich.progress import Progress
    from rich.status import Status

_LONGEST_LINE = 4000
"""Characters of a line that `complain` writes."""


class SafeConsole(Console):
    """Rich's console, whose texts hold no control characters but its own, and no markup.

    Args:
        file: where it writes; by default standard output, or standard error.
        stderr: write to standard error.
        width: columns; by default the terminal's.
        force_terminal: whether it is a terminal; by default what the file says.
    """

    def __init__(
        self,
        *,
        file: TextIO | None = None,
        stderr: bool = False,
        width: int | None = None,
        force_terminal: bool | None = None,
    ) -> None:
        super().__init__(
            file=file,
            stderr=stderr,
            width=width,
            force_terminal=force_terminal,
            markup=False,
            emoji=False,
            highlight=False,
        )

    def render(
        self, renderable: RenderableType, options: ConsoleOptions | None = None
    ) -> Iterable[Segment]:
        """The segments of a renderable, with control characters in texts written as escapes."""
        for segment in super().render(renderable, options):
            if segment.control:
                yield segment
            else:
                yield Segment(harmless(segment.text), segment.style)

    def waiting(self, activity: str) -> Waiting:
        """Shows what goes on while it is entered."""
        return Waiting(self, activity)

    def on_broken_pipe(self) -> None:
        """Raises the error again: the caller handles a reader that has left."""
        raise  # noqa: PLE0704 - called while BrokenPipeError is handled


class Waiting:
    """Says what goes on while it is entered: a live line on a terminal, nothing elsewhere.

    Args:
        activity: in words of one line.
    """

    def __init__(self, console: SafeConsole, activity: str) -> None:
        self._line = console.status(literal(activity)) if console.is_terminal else None

    def __enter__(self) -> Self:
        if self._line is not None:
            self._line.start()
            _drawn.append(self._line)
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        if self._line is not None:
            _drawn.remove(self._line)
            self._line.stop()

    def update(self, activity: str) -> None:
        """Says something else from now on."""
        if self._line is not None:
            self._line.update(literal(activity))


_drawn: list[Status] = []
"""The lines of those who wait now."""


@contextmanager
def progress() -> Iterator[Progress]:
    """Progress bars on standard error, in the place of lines that are drawn; none elsewhere."""
    from rich.progress import BarColumn, Progress, TaskProgressColumn, TextColumn, TimeElapsedColumn

    # Bound to the stream of this moment: conversion redirects `sys.stderr` while the bar lives.
    console = SafeConsole(file=sys.stderr)
    bars = Progress(
        TextColumn("{task.description}", markup=False),
        BarColumn(),
        TaskProgressColumn(),
        TimeElapsedColumn(),
        console=console,
        transient=True,
        disable=not console.is_terminal,
    )
    lines = [*_drawn]
    for line in lines:
        line.stop()
    try:
        with bars:
            yield bars
    finally:
        for line in lines:
            line.start()


MOST_NOTES: Final = 1_000
"""So many different notes are remembered; a command has a handful."""


class LineHandler(logging.Handler):
    """Writes a line to standard error for each message that is logged, the same one only once.

    In a sweep every trial would say again what holds for its model.
    """

    def __init__(self, level: int = logging.NOTSET) -> None:
        super().__init__(level)
        self._noted: set[str] = set()

    def emit(self, record: logging.LogRecord) -> None:
        """Writes the message, with the type and the text of its error."""
        try:
            text = record.getMessage()
        except (TypeError, ValueError):  # arguments that the message has no place for
            text = str(record.msg)
        error = record.exc_info[1] if record.exc_info else None
        if error is not None:
            text = f"{text}: {type(error).__name__}: {error}"
        if text not in self._noted:
            if len(self._noted) < MOST_NOTES:
                self._noted.add(text)
            complain(f"note: {text}")


def literal(text: str, style: str = "") -> Text:
    """A text of one line for Rich's tables and lines, with control characters as escapes.

    Line breaks become escapes too: otherwise a key could look like further lines of output.
    """
    return Text(printable(text), style)


def harmless(text: str) -> str:
    """A text of lines in which all other control characters are written as escapes."""
    if text.isprintable():
        return text
    return "".join(c if c in "\n\t" else printable(c) for c in text)


def say(text: str) -> None:
    """Writes lines to standard output, with a line break at the end."""
    sys.stdout.write(f"{harmless(text)}\n")


def say_json(value: object) -> None:
    """Writes a value to standard output, as JSON on a line."""
    say(json.dumps(value))


def complain(text: str) -> None:
    """Writes one line to standard error; line breaks become blanks, and a very long text is cut."""
    line = printable(" ".join(text.split()))
    sys.stderr.write(f"{line if len(line) <= _LONGEST_LINE else f'{line[:_LONGEST_LINE]}...'}\n")
