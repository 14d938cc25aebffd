"""Lines of what others wrote: they end at a line feed, a carriage return, or both, nowhere else.

`str.splitlines` ends them at a form feed, NEL and U+2028, too, which stand inside texts, comments
and JSON. A binary file that is read line by line does not end them at a carriage return.
"""

from __future__ import annotations

from io import StringIO, TextIOWrapper
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import BinaryIO


def lines_of(text: str) -> Iterator[str]:
    r"""Yields the lines of a text with their ends.

    Example:
        >>> from llm_base.lines import lines_of
        >>> list(lines_of("one\x0c\r\ntwo\u2028\rthree"))
        ['one\x0c\r\n', 'two\u2028\r', 'three']
    """
    yield from StringIO(text, newline="")


def lines_in(file: BinaryIO, *, longest: int = -1) -> Iterator[bytes]:
    """Yields the lines of a binary file with their ends, whatever its encoding.

    Args:
        file: from where it stands. It is closed at the end.
        longest: bytes that come at once: a longer line comes in pieces. -1 for any number.
    """
    # Latin-1 has a character for every byte, and no other byte is one that ends a line.
    with TextIOWrapper(file, encoding="latin-1", newline="") as text:
        while line := text.readline(longest):
            yield line.encode("latin-1")
