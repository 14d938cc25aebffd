"""The rows of a ledger: which values of a result are kept, and how they are encoded and decoded.

A stranger may have written a ledger, so every value is checked when it is read. The functions
`decode_*` raise a `ValueError` whose message says in one line what is wrong.
"""

from __future__ import annotations

import hashlib
import json
from dataclasses import asdict, dataclass
from operator import index
from typing import TYPE_CHECKING, Any, NamedTuple

from llm_base.files import LONGEST_NAME
from llm_base.quoting import quote
from llm_planning.experiments.ledger_checks import (
    Bounds,
    JsonObject,
    TooLargeError,
    check_count,
    check_integer,
    check_mapping,
    check_moment,
    check_seconds,
    check_sha256,
    check_text,
    check_text_or_none,
    check_texts,
    check_truth_or_none,
    read_json,
    read_object,
    within,
    wrong_value,
)
from llm_planning.experiments.ledger_file import LedgerError
from llm_planning.experiments.ledger_schema import LONGEST_ROW
from llm_planning.experiments.traces import LONGEST_TRACE
from llm_planning.experiments.trial import Trial, TrialResult
from llm_planning.trace_file import encode_trace, outcome_json
from llm_serving.request import Usage

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
    from pathlib import Path

    from llm_planning.experiments.traces import TraceFolder

SELECT_ROW = """
    SELECT trials.content, trials.key, attempts, started, seconds, provenance, trace_sha256,
           status, success, plan, metrics, usage, error
    FROM results LEFT JOIN trials ON trials.number = results.trial WHERE results.trial = ?
"""
"""Selects the columns that `decode_row` reads, of one trial."""

_UNREPEATABLE = "$unrepeatable"
"""Key among the stored metrics: the names of the metrics that another run may have different."""

SWEEP = Bounds(characters=2**23, values=300_000)
"""Bounds of a resolved sweep, which may list the values of a large grid."""

_TRIAL = Bounds(characters=2**20, values=10_000)
"""Bounds of a trial: hundreds of characters are usual, and a ledger may hold a million trials."""

_MOST_RETRIES = 100
_COUNTS = frozenset({"calls", "prompt_tokens", "cached_tokens", "completion_tokens", "replayed"})


class UnkeepableResultError(LedgerError):
    """A planner left a result that is not JSON or is too large; the ledger is unharmed."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LedgerRow:
    """A trial that has ended for good.

    Attributes:
        key: the trial's key in this ledger.
        result: of the last attempt, without its trace, events and prompts.
        attempts: number of attempts.
        provenance: a key of `Ledger.provenances`.
        trace: the trace's file; None if the planner left no trace.
        trace_sha256: SHA-256 of the trace's uncompressed lines.
    """

    key: str
    result: TrialResult
    attempts: int
    provenance: str
    trace: Path | None
    trace_sha256: str | None


class ResultColumns(NamedTuple):
    """The result of a trial as SQLite stores it: plan, metrics and usage are JSON."""

    status: str
    success: int | None
    plan: str
    metrics: str
    usage: str
    error: str | None


def encode_result(result: TrialResult) -> tuple[ResultColumns, bytes | None]:
    """Encodes a result as its columns and, if it has a trace, the trace's lines.

    Raises:
        UnkeepableResultError: the result holds a value that is not JSON or that `decode_result`
            refuses, or it is too large.
    """
    apart = {_UNREPEATABLE: sorted(result.unrepeatable)} if result.unrepeatable else {}
    try:
        columns = ResultColumns(
            status=result.status,
            success=None if result.success is None else index(result.success),
            plan=json.dumps(result.plan),
            metrics=json.dumps({**result.metrics, **apart}),
            usage=json.dumps({role: asdict(spent) for role, spent in result.usage.items()}),
            # A text with lone surrogates cannot be encoded as UTF-8.
            error=result.error and result.error.encode("utf-8", "backslashreplace").decode(),
        )
        trace = _encode_trace(result)
        decode_result(columns, trial=result.trial, started=result.started, seconds=result.seconds)
        texts = (columns.plan, columns.metrics, columns.usage, columns.error or "")
        if sum(len(text.encode()) for text in texts) > LONGEST_ROW // 2:
            raise TooLargeError(f"it has more than {LONGEST_ROW // 2} bytes")
        if trace is not None and len(trace) > LONGEST_TRACE:
            raise TooLargeError(f"its trace has more than {LONGEST_TRACE} bytes")
    except TooLargeError as refusal:
        raise UnkeepableResultError(
            f"the planner {result.trial.planner} left a result that is too large ({refusal}): let "
            "it run for fewer steps or simulations, or keep less in its plan, metrics and trace"
        ) from refusal
    except (TypeError, ValueError, RecursionError) as refusal:
        raise UnkeepableResultError(
            f"the planner {result.trial.planner} left a result that is not JSON ({refusal}): its "
            "plan, metrics and trace must be"
        ) from refusal
    return columns, trace


def decode_result(
    columns: Sequence[object], *, trial: Trial, started: object, seconds: object
) -> TrialResult:
    """Decodes the result of a row, without its trace.

    Args:
        columns: the fields of `ResultColumns`.
        trial: the trial that was run.
        started: start of the last attempt, in seconds since the epoch.
        seconds: duration of the last attempt.
    """
    status, success, plan, metrics, usage, error = columns
    if status not in {"done", "failed"}:
        raise ValueError(f"the status of a trial is {status!r}")
    measured = read_object(metrics, "the metrics of a trial")
    apart = check_texts(measured.pop(_UNREPEATABLE, []), "the unrepeatable metrics of a trial")
    return TrialResult(
        trial=trial,
        status="done" if status == "done" else "failed",
        success=check_truth_or_none(success, "the success of a trial"),
        plan=check_texts(read_json(plan, "a plan"), "a plan"),
        metrics=measured,
        unrepeatable=frozenset(apart),
        usage={
            role: _usage(spent, f"the usage of {quote(role)}")
            for role, spent in read_object(usage, "the usage of a trial").items()
        },
        error=check_text_or_none(error, "the error of a trial"),
        started=check_moment(started, "the start of a trial"),
        seconds=check_seconds(seconds, "the time of a trial"),
    )


def decode_row(
    values: Sequence[Any], traces: TraceFolder, *, provenances: Collection[str]
) -> LedgerRow:
    """Decodes a row that `SELECT_ROW` found.

    Args:
        values: the row's columns.
        traces: the folder of the ledger's traces.
        provenances: ids of the provenances in the ledger.
    """
    content, key, attempts, started, seconds, provenance, sha256, *columns = values
    key = check_sha256(key, "the key of a trial")
    if provenance not in provenances:
        raise ValueError(f"the provenance of the trial {key} is missing")
    if sha256 is not None:
        check_sha256(sha256, "the hash of a trace")
    trial = decode_trial(content, key=key)
    return LedgerRow(
        key=key,
        result=decode_result(columns, trial=trial, started=started, seconds=seconds),
        attempts=check_count(attempts, "the attempts of a trial", least=1),
        provenance=provenance,
        trace=None if sha256 is None else traces.path(key),
        trace_sha256=sha256,
    )


def encode_sweep(sweep: Mapping[str, Any]) -> tuple[str, list[tuple[int, str, str]]]:
    """Encodes a resolved sweep: what it holds beside its trials, and number, key and JSON of each.

    Raises:
        TooLargeError: the sweep or a trial is too large to be read again.
        ValueError: two trials are the same.
    """
    rest = {key: value for key, value in sweep.items() if key != "trials"}
    content = within(json.dumps(rest), "the sweep", SWEEP)
    trials = [Trial(**trial) for trial in sweep["trials"]]
    rows = [
        (number, trial.key, within(json.dumps(trial.to_json()), "a trial", _TRIAL))
        for number, trial in enumerate(trials)
    ]
    if len({trial.key for trial in trials}) < len(trials):
        raise ValueError("a sweep has each of its trials once")
    return content, rows


def decode_trial(content: object, *, key: str) -> Trial:
    """Decodes the JSON text of a trial that has this key."""
    fields = read_object(content, "a trial", _TRIAL)
    try:
        read = Trial(**fields)
    except TypeError as error:
        raise ValueError(f"a trial has missing or unknown fields: {error}") from error
    for name in ("planner", "domain", "task", "model", "source"):
        check_text(getattr(read, name), f"the {name} of a trial")
    check_integer(read.seed, "the seed of a trial")
    for name in ("role_models", "settings", "engines"):
        check_mapping(getattr(read, name), f"the {name} of a trial")
    for other in read.role_models.values():
        check_text(other, "a role's model of a trial")
    for configuration in read.engines.values():
        check_mapping(configuration, "an engine's configuration of a trial")
    if read.key != key:
        raise ValueError(f"the key {key} is not that of its trial")
    return read


def encode_prompts(result: TrialResult) -> Iterator[tuple[str, str, str, str]]:
    """Planner, role, SHA-256 and text of each fixed text that a trial's prompts began with."""
    for role, texts in result.prompts.items():
        for text in texts:
            content = text.encode("utf-8", "backslashreplace")
            sha256 = hashlib.sha256(content).hexdigest()
            yield result.trial.planner, role, sha256, content.decode()


def decode_attempt(key: object, error: object) -> tuple[str, str | None]:
    """Decodes the key and the error of a trial's failed attempt."""
    return (
        check_sha256(key, "the key of a trial"),
        check_text_or_none(error, "the error of an attempt"),
    )


def decode_provenances(
    rows: Iterable[Sequence[Any]], prompts: Iterable[Sequence[Any]]
) -> dict[str, dict[str, Any]]:
    """Decodes the provenances of a ledger, by id; see `Ledger.provenances`.

    Args:
        rows: id and content of each provenance.
        prompts: the rows of the table `prompts`.
    """
    found = {
        check_text(id_, "the id of a provenance"): read_object(content, "a provenance")
        for id_, content in rows
    }
    for values in prompts:
        id_, planner, role, sha256, content = check_texts(list(values), "a prompt")
        if id_ not in found:
            raise ValueError(f"the provenance {id_} of a prompt is missing")
        planners = check_mapping(found[id_].setdefault("prompts", {}), "the prompts")
        roles = check_mapping(planners.setdefault(planner, {}), "the prompts of a planner")
        check_mapping(roles.setdefault(role, {}), "the prompts of a role")[sha256] = content
    return found


def check_sweep(sweep: JsonObject) -> JsonObject:
    """Returns a resolved sweep, given without its trials, if its fields are right."""
    name = check_text(sweep.get("name"), "the name of the sweep")
    if not name.isprintable() or len(name) > LONGEST_NAME:
        raise wrong_value("the name of the sweep", name, "not a name for a folder")
    check_count(sweep.get("retries"), "the retries of the sweep", most=_MOST_RETRIES)
    return sweep


def repeatable(row: LedgerRow, trace: str | None) -> list[Any]:
    """The values of a row that another run of the trial with the same answers would repeat.

    Args:
        row: of the trial.
        trace: the trace's `repeatable_digest`; None if the trial left no trace.
    """
    result = row.result
    usage = {
        role: [spent.calls, spent.prompt_tokens, spent.completion_tokens]
        for role, spent in result.usage.items()
    }
    metrics = {key: one for key, one in result.metrics.items() if key not in result.unrepeatable}
    columns = [result.status, result.success, result.plan, metrics, usage, result.error]
    return [row.key, *columns, row.attempts, trace]


def canonical(value: object) -> str:
    """JSON whose bytes are the same for equal values."""
    return json.dumps(value, sort_keys=True, separators=(",", ":"))


def _encode_trace(result: TrialResult) -> bytes | None:
    if not (result.trace or result.events):
        return None
    ended = outcome_json(
        success=result.success,
        plan=result.plan,
        metrics=result.metrics,
        unrepeatable=result.unrepeatable,
        seconds=result.seconds,
    )
    return encode_trace(
        result.trace,
        events=result.events,
        header=result.trial.to_json(),
        outcome=ended if result.status == "done" else None,
    )


def _usage(spent: object, what: str) -> Usage:
    fields: Mapping[str, Any] = check_mapping(spent, what)
    for name, value in fields.items():
        if name == "seconds":
            check_seconds(value, f"seconds in {what}")
        elif name in _COUNTS:
            check_count(value, f"{name} in {what}")
        else:
            raise wrong_value(what, name, "not one of its fields")
    return Usage(**fields)
