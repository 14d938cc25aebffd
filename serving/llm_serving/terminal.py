"""What is written to a terminal: texts of foreign files cannot give it orders.

A key of an index or the name of a sweep may hold escape sequences, which move the cursor, retitle
the window or worse. Here every control character becomes a visible escape; line breaks and tabs
stay where a text has lines.
"""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

from rich.console import Console, ConsoleOptions, RenderableType
from rich.segment import Segment

from llm_serving.errors import printable

if TYPE_CHECKING:
    from collections.abc import Iterable


class SafeConsole(Console):
    """Rich's console, whose texts hold no control characters but its own."""

    def render(
        self, renderable: RenderableType, options: ConsoleOptions | None = None
    ) -> Iterable[Segment]:
        """The segments of a renderable; those that are text are made harmless."""
        for segment in super().render(renderable, options):
            if segment.control:
                yield segment
            else:
                yield Segment(harmless(segment.text), segment.style)


def harmless(text: str) -> str:
    """A text of lines in which all other control characters are written as escapes."""
    if text.isprintable():
        return text
    return "".join(c if c in "\n\t" else printable(c) for c in text)


def say(text: str) -> None:
    """Writes lines to standard output, with a line break at the end."""
    sys.stdout.write(f"{harmless(text)}\n")


def complain(text: str) -> None:
    """Writes one line to standard error; the line breaks of a text become blanks."""
    sys.stderr.write(f"{printable(' '.join(text.split()))}\n")
