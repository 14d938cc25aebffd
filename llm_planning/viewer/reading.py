"""Reads a trace as far as it goes: what is damaged or missing is told, not refused."""

from __future__ import annotations

import json
import zlib
from dataclasses import dataclass
from io import BytesIO
from typing import TYPE_CHECKING, Any

from llm_base.files import parse_json, read_regular
from llm_base.lines import lines_in
from llm_base.quoting import quote
from llm_planning.trace_file import FORMAT, VERSION, TraceError

if TYPE_CHECKING:
    from pathlib import Path

    from llm_planning.events import Event

LONGEST = 2**30
"""Bytes that a trace's lines have at most."""

_GZIP = b"\x1f\x8b"
_FRAMED = 16 + zlib.MAX_WBITS
_MOST_NUMBERS = 8


@dataclass(frozen=True, kw_only=True)
class ReadTrace:
    """A trace as far as it could be read.

    Attributes:
        header: its first line; empty if that is missing.
        events: its lines without header and end, each with a `type`.
        damage: sentences about what is missing.
    """

    name: str
    header: Event
    events: list[Event]
    damage: tuple[str, ...]


def read_trace(path: Path) -> ReadTrace:
    """Reads a trace, whole or not.

    Args:
        path: holds JSON lines, plain or in gzip, or one JSON list of such lines.

    Raises:
        TraceError: the file cannot be read, or there is nothing of a trace in it.
    """
    try:
        content = read_regular(path, most=LONGEST)
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or error
        raise TraceError(f"the trace {path} cannot be read: {reason}") from error
    damage: list[str] = []
    if content.startswith(_GZIP):
        content = _unpacked(content, damage)
    lines, ends = _lines(content, damage)
    if not lines:
        raise TraceError(
            f"{path} is not a trace: no line of it is one; `llm-planning run … --trace FILE` "
            "writes traces"
        )
    header: Event = {}
    if "format" in lines[0]:
        header = lines.pop(0)
        if (header["format"], header.get("version")) != (FORMAT, VERSION):
            damage.append(
                f"It says that it is a {quote(header['format'])} of version "
                f"{quote(header.get('version'))}. This program knows version {VERSION} of "
                f"{FORMAT!r}: what is shown may be wrong."
            )
    else:
        damage.append("Its header is missing: what was run is not known.")
    if header and not ends:
        damage.append("It is cut off: its last line is missing, and perhaps others before it.")
    return ReadTrace(name=path.name, header=header, events=lines, damage=tuple(damage))


def _unpacked(content: bytes, damage: list[str]) -> bytes:
    """What gzip packed, up to where it is damaged."""
    unpacking = zlib.decompressobj(_FRAMED)
    parts: list[bytes] = []
    left = LONGEST
    try:
        # In pieces: those before a damaged one are kept.
        for place in range(0, len(content), 1 << 16):
            piece = content[place : place + (1 << 16)]
            while piece and left > 0 and not unpacking.eof:
                parts.append(unpacking.decompress(piece, left))
                left -= len(parts[-1])
                piece = unpacking.unconsumed_tail
    except zlib.error as error:
        damage.append(f"Its compressed bytes are damaged ({error}): what comes after is lost.")
    else:
        if left <= 0:
            damage.append(f"Only its first {LONGEST} bytes are shown.")
        elif not unpacking.eof:
            damage.append("Its compressed bytes are cut off.")
    return b"".join(parts)


def _lines(content: bytes, damage: list[str]) -> tuple[list[Event], bool]:
    """The lines that can be read, without the last one; and whether that is there and right."""
    if content[:64].lstrip().startswith(b"["):
        try:
            values = list(enumerate(parse_json(content), 1))
        except ValueError as error:
            damage.append(f"It is not JSON: {error}.")
            return [], False
    else:
        values = _values(content, damage)
    lines: list[Event] = []
    ends, others = False, 0
    for number, value in values:
        kind = value.get("type") if isinstance(value, dict) else None
        if kind == "end":
            ends = value.get("lines") == number
        elif isinstance(kind, str):
            lines.append(value)
        else:
            others += 1
    if others:
        damage.append(f"{others} of its lines are no objects with a type: they are left out.")
    return lines, ends


def _values(content: bytes, damage: list[str]) -> list[tuple[int, Any]]:
    """The values of the lines that can be read, with their numbers."""
    values: list[tuple[int, Any]] = []
    wrong: list[int] = []
    for number, line in enumerate(lines_in(BytesIO(content)), 1):
        if not line.strip():
            continue
        try:
            values.append((number, json.loads(line)))
        except (ValueError, RecursionError):
            wrong.append(number)
    if wrong:
        numbers = ", ".join(map(str, wrong[:_MOST_NUMBERS]))
        more = " …" if len(wrong) > _MOST_NUMBERS else ""
        damage.append(
            f"{len(wrong)} of its lines cannot be read and are left out: {numbers}{more}."
        )
    return values
