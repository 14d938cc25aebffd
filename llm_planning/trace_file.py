"""Traces as text: JSON lines, written and read again; docs/trace-format.md describes them."""

from __future__ import annotations

import json
import math
from typing import TYPE_CHECKING, Any

from llm_kernels.files import write_durably

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping
    from pathlib import Path

    from llm_planning.trace import Event, Trace

FORMAT = "llm-planning trace"
VERSION = 1


class TraceError(ValueError):
    """A trace that cannot be written as JSON, or lines that are no trace."""


def encode_trace(
    summary: Mapping[str, Any],
    *,
    events: Iterable[Event] = (),
    header: Mapping[str, Any] | None = None,
) -> bytes:
    """A trace as JSON lines in UTF-8: header, events, summary and end.

    Equal summaries have equal lines: the keys of their objects are sorted, only the summary's own
    stay in their order.

    Args:
        summary: what the planner says of its decisions (`Outcome.trace`). A list of objects takes
            one line per object, so that a reader of lines meets a long run step by step.
        events: `Trace.events`.
        header: what was run, such as `Trial.to_json` says.

    Raises:
        TraceError: JSON has no form for a value, or it contains itself.
    """
    first = {"type": "header", "format": FORMAT, "version": VERSION, **(header or {})}
    try:
        lines = [_line(_EVENT, first)]
        lines.extend(_line(_EVENT, event) for event in events)
        lines.extend(_line(_SUMMARY, line) for line in _summary_lines(summary))
    except (TypeError, ValueError, RecursionError) as error:
        raise TraceError(f"a trace must consist of JSON values: {error}") from error
    lines.append(_line(_EVENT, {"type": "end", "lines": len(lines) + 1}))
    return "".join(f"{line}\n" for line in lines).encode()


def decode_trace(content: bytes) -> list[Event]:
    """The lines of a trace, header and end included.

    The traces of ledgers of version 1 are summaries without a header; their lines get their type.

    Raises:
        TraceError: these are no lines of a trace, not all of them, or of another version.
    """
    try:
        lines = [json.loads(line) for line in content.splitlines()]
        if "type" not in lines[0]:
            return [{**line, "type": "summary", "value": line["value"]} for line in lines]
        found = lines[0]["format"], lines[0]["version"]
        types = [line["type"] for line in lines]
        count = lines[-1].get("lines")
    except (ValueError, TypeError, LookupError, AttributeError) as error:
        raise TraceError(f"its lines are no trace: {error!r}") from error
    if found != (FORMAT, VERSION):
        raise TraceError(
            f"it is a {found[0]!r} of version {found[1]!r}, and this program reads version "
            f"{VERSION} of {FORMAT!r}: use the llm-planning that wrote it"
        )
    if (types[-1], count) != ("end", len(lines)):
        raise TraceError("some of its lines are missing: restore it")
    return lines


def summary_of(lines: Iterable[Event]) -> dict[str, Any]:
    """The planner's own summary in a trace; its tuples have become lists.

    Raises:
        TraceError: a line of it lacks a part.
    """
    summary: dict[str, Any] = {}
    try:
        for line in lines:
            if line["type"] == "summary" and "index" in line:
                summary.setdefault(line["key"], []).append(line["value"])
            elif line["type"] == "summary":
                summary[line["key"]] = line["value"]
    except (KeyError, AttributeError) as error:
        raise TraceError(f"its lines are no trace: {error!r}") from error
    return summary


def write_trace(
    path: Path, trace: Trace, *, header: Mapping[str, Any], summary: Mapping[str, Any]
) -> None:
    """Writes a trace to a file, whole or not at all; see `encode_trace`.

    Args:
        path: of the file; see `write_durably`.
        trace: what happened.
        header: see `encode_trace`.
        summary: see `encode_trace`.

    Raises:
        TraceError: see `encode_trace`.
        OSError: it cannot be written. What was there before still is.
    """
    write_durably(path, encode_trace(summary, events=trace.events, header=header))


def _plain(value: object) -> object:
    """A number of another kind, such as NumPy's, as one of JSON's; anything else as text."""
    try:
        return float(value)  # type: ignore[arg-type]
    except (TypeError, ValueError):
        return str(value)


_EVENT = json.JSONEncoder(separators=(",", ":"), allow_nan=False, default=_plain)
_SUMMARY = json.JSONEncoder(separators=(",", ":"), allow_nan=False, sort_keys=True)


def _line(encoder: json.JSONEncoder, value: object) -> str:
    try:
        return encoder.encode(value)
    except ValueError:
        return encoder.encode(_finite(value))


def _finite(value: Any) -> Any:  # noqa: ANN401 - a value of any kind
    """The same with infinite numbers as texts, which JSON has no form for."""
    if isinstance(value, float) and not math.isfinite(value):
        return str(value)
    if isinstance(value, dict):
        return {key: _finite(inner) for key, inner in value.items()}
    if isinstance(value, list | tuple):
        return [_finite(inner) for inner in value]
    return value


def _summary_lines(summary: Mapping[str, Any]) -> Iterator[Event]:
    for key, value in summary.items():
        line = {"type": "summary", "key": key}
        if isinstance(value, list | tuple) and value and all(isinstance(v, dict) for v in value):
            for index, item in enumerate(value):
                yield {**line, "index": index, "value": item}
        else:
            yield {**line, "value": value}
