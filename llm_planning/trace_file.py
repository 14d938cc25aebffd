"""Writes traces as JSON lines and reads them again; docs/trace-format.md describes the format."""

from __future__ import annotations

import json
import math
from io import BytesIO
from typing import TYPE_CHECKING, Any

from llm_base.files import write_durably
from llm_base.lines import lines_in
from llm_base.quoting import quote

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
    from pathlib import Path

    from llm_planning.events import Event
    from llm_planning.trace import Trace

FORMAT = "llm-planning trace"
VERSION = 1


class TraceError(ValueError):
    """A trace cannot be written as JSON, or lines are not a trace."""


def encode_trace(
    summary: Mapping[str, Any],
    *,
    events: Iterable[Event] = (),
    header: Mapping[str, Any] | None = None,
    outcome: Mapping[str, Any] | None = None,
) -> bytes:
    """Writes a trace as JSON lines in UTF-8: header, events, outcome, summary and end.

    Equal summaries have equal lines: the keys of nested objects are sorted. The summary's own keys
    keep their order.

    Args:
        summary: the planner's summary (`Outcome.trace`). A list of objects takes one line per
            object, so that a long run can be read step by step.
        events: `Trace.events`.
        header: what was run, such as the result of `Trial.to_json`.
        outcome: how it ended, as `outcome_json` writes it; None where it did not end.

    Raises:
        TraceError: JSON has no form for a value, or a value contains itself.
    """
    first = {"type": "header", "format": FORMAT, "version": VERSION, **(header or {})}
    try:
        lines = [_line(_EVENT, first)]
        lines.extend(_line(_EVENT, event) for event in events)
        if outcome is not None:
            lines.append(_line(_EVENT, {"type": "outcome", **outcome}))
        lines.extend(_line(_SUMMARY, line) for line in _summary_lines(summary))
    except (TypeError, ValueError, RecursionError) as error:
        raise TraceError(f"a trace must consist of JSON values: {error}") from error
    lines.append(_line(_EVENT, {"type": "end", "lines": len(lines) + 1}))
    return "".join(f"{line}\n" for line in lines).encode()


def decode_trace(content: bytes) -> list[Event]:
    """Reads the lines of a trace, header and end included.

    Raises:
        TraceError: the content is not a trace, is incomplete, or has another version.
    """
    lines = [_object(line) for line in lines_in(BytesIO(content))]
    if not lines:
        raise TraceError("it is empty")
    first, last = lines[0], lines[-1]
    if not {"format", "version"} <= first.keys():
        raise TraceError("its first line is not the header of a trace")
    if (first["format"], first["version"]) != (FORMAT, VERSION):
        raise TraceError(
            f"it is a {quote(first['format'])} of version {quote(first['version'])}, and this "
            f"program reads version {VERSION} of {FORMAT!r}: use the llm-planning that wrote it"
        )
    if (last.get("type"), last.get("lines")) != ("end", len(lines)):
        raise TraceError("some of its lines are missing: restore it")
    for line in lines:
        if not isinstance(line.get("type"), str):
            raise TraceError(f"{quote(line.get('type'))} is not the type of a line")
        if line["type"] == "summary":
            _refuse_partial(line)
    return lines


def summary_of(lines: Iterable[Event]) -> dict[str, Any]:
    """The planner's summary in a trace, with lists in place of its tuples.

    Raises:
        TraceError: a summary line lacks a field.
    """
    summary: dict[str, Any] = {}
    for line in lines:
        if line["type"] != "summary":
            continue
        _refuse_partial(line)
        key = line["key"]
        if "index" not in line:
            summary[key] = line["value"]
        elif isinstance(items := summary.setdefault(key, []), list):
            items.append(line["value"])
        else:
            raise TraceError(f"{quote(key)} is once a list and once a value")
    return summary


def outcome_json(
    *,
    success: bool | None,
    plan: Sequence[str],
    metrics: Mapping[str, Any],
    unrepeatable: Collection[str],
    seconds: float,
) -> Event:
    """The `outcome` line of a trace, without what another run with the same answers changes."""
    kept = {name: value for name, value in metrics.items() if name not in unrepeatable}
    return {"success": success, "plan": list(plan), "metrics": kept, "seconds": seconds}


def write_trace(
    path: Path,
    trace: Trace,
    *,
    header: Mapping[str, Any],
    summary: Mapping[str, Any],
    outcome: Mapping[str, Any] | None = None,
) -> None:
    """Writes a trace to a file, whole or not at all; see `encode_trace`.

    Args:
        path: of the file; see `write_durably`.
        header: see `encode_trace`.
        summary: see `encode_trace`.
        outcome: see `encode_trace`.

    Raises:
        TraceError: see `encode_trace`.
        OSError: the file cannot be written. An earlier file stays as it is.
    """
    write_durably(path, encode_trace(summary, events=trace.events, header=header, outcome=outcome))


def _object(line: bytes) -> Event:
    try:
        value = json.loads(line)
    except RecursionError as error:
        raise TraceError("a line of it is nested too deeply") from error
    except ValueError as error:
        raise TraceError(f"a line of it is not JSON: {error}") from error
    if not isinstance(value, dict):
        raise TraceError(f"a line of it is {quote(value)}, not an object")
    return value


def _refuse_partial(line: Event) -> None:
    """Raises a `TraceError` if a summary line lacks its key or its value."""
    if not isinstance(line.get("key"), str) or "value" not in line:
        raise TraceError("a summary line of it lacks its key or its value")


def _plain(value: object) -> object:
    """A JSON value for a value of another type: a float for a number, else its text."""
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
        return encoder.encode(finite(value))


def finite(value: Any) -> Any:  # noqa: ANN401 - a value of any kind
    """Replaces infinite numbers and NaN by texts, because JSON has no form for them."""
    if isinstance(value, float) and not math.isfinite(value):
        return str(value)
    if isinstance(value, dict):
        return {key: finite(inner) for key, inner in value.items()}
    if isinstance(value, list | tuple):
        return [finite(inner) for inner in value]
    return value


def _summary_lines(summary: Mapping[str, Any]) -> Iterator[Event]:
    for key, value in summary.items():
        line = {"type": "summary", "key": key}
        if isinstance(value, list | tuple) and value and all(isinstance(v, dict) for v in value):
            for index, item in enumerate(value):
                yield {**line, "index": index, "value": item}
        else:
            yield {**line, "value": value}
