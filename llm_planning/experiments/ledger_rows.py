"""The rows of a ledger: what is kept of a result, how it is written, read again and checked.

A stranger may have written a ledger, so every value is checked where it is read. The functions
`read_*`, `check_*` and `decode_*` raise a `ValueError` that says, in one line, what is wrong.
"""

from __future__ import annotations

import json
import re
from dataclasses import asdict, dataclass, replace
from itertools import islice
from operator import index
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias

from llm_kernels.files import LONGEST_NAME
from llm_kernels.quoting import shown
from llm_planning.experiments.ledger_file import LONGEST_ROW, LedgerError
from llm_planning.experiments.traces import LONGEST_TRACE
from llm_planning.experiments.trial import Trial, TrialResult
from llm_planning.trace_file import encode_trace
from llm_serving.request import Usage

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Mapping, Sequence
    from pathlib import Path

    from llm_planning.experiments.traces import TraceFolder

SELECT_ROW = """
    SELECT trials.content, trials.key, attempts, started, seconds, provenance, trace_sha256,
           status, success, plan, metrics, usage, error
    FROM results LEFT JOIN trials ON trials.number = results.trial WHERE results.trial = ?
"""
"""What `decode_row` reads, of one trial."""

_UNREPEATABLE = "$unrepeatable"
"""Among the metrics in the file: names of those that another run may have different."""

_MOST_DEPTH = 100
"""Lists and objects inside each other, of a setting, a metric or a provenance."""

_MOST_COUNT = 2**53
"""Of calls, tokens and attempts: the largest that is exact as a float."""

_LONGEST = 1e10
"""Seconds that something takes, at most: three centuries."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Bounds:
    """How much a JSON text may hold: a short one can take 30 times its length when it is read.

    Attributes:
        characters: of the text, at most.
        values: numbers, texts, lists, objects and so on, those inside others included, at most.
    """

    characters: int
    values: int


SWEEP = Bounds(characters=2**23, values=300_000)
"""Of a resolved sweep, which may list what a large grid consists of."""

_TRIAL = Bounds(characters=2**20, values=10_000)
"""Of a trial: hundreds of characters are usual, and a ledger may hold a million trials."""

_OTHERS = Bounds(characters=2**23, values=100_000)
"""Of a plan, the metrics, the usage or a provenance."""

_YEAR_10000 = 253_402_300_800.0
_MOST_RETRIES = 100
_SHA256 = re.compile(r"[0-9a-f]{64}")
_COUNTS = frozenset({"calls", "prompt_tokens", "cached_tokens", "completion_tokens", "replayed"})

# A text that has no end takes all that is left, so that nothing is looked at twice.
_TOKEN = re.compile(r'"(?:[^"\\]++|\\.)*+(?:"|\\?\Z)|([,\[{])', re.DOTALL)

JsonObject: TypeAlias = "dict[str, Any]"
"""A JSON object."""


class TooLargeError(ValueError):
    """Something is JSON, and more than a ledger takes."""


class UnkeepableResultError(LedgerError):
    """A result is no JSON, or too large: the planner is to blame, the ledger is unharmed."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LedgerRow:
    """A trial that has ended for good.

    Attributes:
        key: of the trial, as this ledger has it.
        result: of its last attempt; trace, events and prompts are left where they lie.
        attempts: how many there were.
        provenance: id of what it was run with, for `Ledger.provenances`.
        trace: its file; None if the planner left no trace.
        trace_sha256: of the trace's lines, uncompressed.
    """

    key: str
    result: TrialResult
    attempts: int
    provenance: str
    trace: Path | None
    trace_sha256: str | None


class ResultColumns(NamedTuple):
    """What came of a trial, as SQLite keeps it: plan, metrics and usage as JSON."""

    status: str
    success: int | None
    plan: str
    metrics: str
    usage: str
    error: str | None


def encode_result(result: TrialResult) -> tuple[ResultColumns, bytes | None]:
    """What is kept of a result: its columns, and its trace's lines if it has a trace.

    Raises:
        UnkeepableResultError: it holds something that is no JSON value, or that no reader of a
            ledger takes, or more than a ledger keeps.
    """
    apart = {_UNREPEATABLE: sorted(result.unrepeatable)} if result.unrepeatable else {}
    try:
        columns = ResultColumns(
            status=result.status,
            success=None if result.success is None else index(result.success),
            plan=json.dumps(result.plan),
            metrics=json.dumps({**result.metrics, **apart}),
            usage=json.dumps({role: asdict(spent) for role, spent in result.usage.items()}),
            # A text with lone surrogates has no UTF-8.
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
    """The result in a row, without its trace.

    Args:
        columns: those of `ResultColumns`.
        trial: what was run.
        started: when, in seconds since the epoch.
        seconds: how long its last attempt took.
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
            role: _usage(spent, f"the usage of {shown(role)}")
            for role, spent in read_object(usage, "the usage of a trial").items()
        },
        error=check_text_or_none(error, "the error of a trial"),
        started=check_moment(started, "the start of a trial"),
        seconds=check_seconds(seconds, "the time of a trial"),
    )


def decode_row(
    values: Sequence[Any], traces: TraceFolder, *, version: int, provenances: Collection[str]
) -> LedgerRow:
    """The row that `SELECT_ROW` found.

    Args:
        values: of its columns.
        traces: where its trace lies.
        version: of the ledger.
        provenances: ids of those that the ledger has.
    """
    content, key, attempts, started, seconds, provenance, sha256, *columns = values
    key = check_sha256(key, "the key of a trial")
    if provenance not in provenances:
        raise ValueError(f"the provenance of the trial {key} is missing")
    if sha256 is not None:
        check_sha256(sha256, "the hash of a trace")
    trial = decode_trial(content, key=key, version=version)
    result = decode_result(columns, trial=trial, started=started, seconds=seconds)
    return LedgerRow(
        key=key,
        result=_of_version_1(result) if version == 1 else result,
        attempts=check_count(attempts, "the attempts of a trial", least=1),
        provenance=provenance,
        trace=None if sha256 is None else traces.path(key),
        trace_sha256=sha256,
    )


def encode_trial(trial: Trial) -> str:
    """A trial as `decode_trial` reads it.

    Raises:
        TooLargeError: it is larger than those that are read.
    """
    return within(json.dumps(trial.to_json()), "a trial", _TRIAL)


def decode_trial(content: object, *, key: str, version: int) -> Trial:
    """A trial in the words of today.

    Args:
        content: its JSON text.
        key: under which the ledger has it; in version 1 another one than today's.
        version: of the ledger.
    """
    fields = read_object(content, "a trial", _TRIAL)
    try:
        read = Trial(**fields) if version > 1 else Trial.of_version_1(fields)
    except (TypeError, KeyError) as error:
        raise ValueError(f"a trial has not the fields of one: {error}") from error
    for name in ("planner", "domain", "task", "model", "source"):
        check_text(getattr(read, name), f"the {name} of a trial")
    check_integer(read.seed, "the seed of a trial")
    for name in ("role_models", "settings", "engines"):
        check_mapping(getattr(read, name), f"the {name} of a trial")
    for other in read.role_models.values():
        check_text(other, "a role's model of a trial")
    for configuration in read.engines.values():
        check_mapping(configuration, "an engine's configuration of a trial")
    if version > 1 and read.key != key:
        raise ValueError(f"the key {key} is not that of its trial")
    return read


def decode_provenances(
    rows: Iterable[Sequence[Any]], prompts: Iterable[Sequence[Any]]
) -> dict[str, dict[str, Any]]:
    """What results were run with, by id; see `Ledger.provenances`.

    Args:
        rows: id and content.
        prompts: the columns of their table; none in version 1.
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
    """A resolved sweep without its trials."""
    name = check_text(sweep.get("name"), "the name of the sweep")
    if not name.isprintable() or len(name) > LONGEST_NAME:
        raise _wrong("the name of the sweep", name, "no name of a folder")
    check_count(sweep.get("retries"), "the retries of the sweep", most=_MOST_RETRIES)
    return sweep


def repeatable(row: LedgerRow, trace: str | None) -> list[Any]:
    """What another run of the trial, given the same answers, has in common with a row.

    Args:
        row: of the trial.
        trace: its `repeatable_digest`, if it left a trace.
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


def within(text: str, what: str, bounds: Bounds) -> str:
    """The same JSON text, which is known to be small enough to be read.

    Raises:
        TooLargeError: it is not.
    """
    if len(text) > bounds.characters:
        raise TooLargeError(f"{what} has more than {bounds.characters} characters")
    # Every value but the outermost follows one of these.
    if sum(map(text.count, ",[{")) >= bounds.values:
        # Slower, and right: what stands inside texts begins no value.
        begun = (1 for token in _TOKEN.finditer(text) if token[1])
        if sum(islice(begun, bounds.values)) == bounds.values:
            raise TooLargeError(f"{what} has more than {bounds.values} values")
    return text


def read_json(value: object, what: str, bounds: Bounds = _OTHERS) -> Any:  # noqa: ANN401 - any JSON value
    """The value of a JSON text, neither too large nor too deep for whoever goes through it."""
    text = within(check_text(value, what), what, bounds)
    try:
        read = json.loads(text)
    except RecursionError as error:
        raise ValueError(f"{what} is nested too deeply") from error
    except json.JSONDecodeError as error:
        raise ValueError(f"{what} is no JSON: {error}") from error
    level = [read]
    for _ in range(_MOST_DEPTH):
        level = [
            inner
            for one in level
            if isinstance(one, dict | list)
            for inner in (one.values() if isinstance(one, dict) else one)
        ]
        if not level:
            return read
    raise ValueError(f"{what} is nested more than {_MOST_DEPTH} deep")


def read_object(value: object, what: str, bounds: Bounds = _OTHERS) -> JsonObject:
    """The value of the JSON text of an object."""
    return check_mapping(read_json(value, what, bounds), what)


def check_text(value: object, what: str) -> str:
    """A text."""
    if not isinstance(value, str):
        raise _wrong(what, value, "no text")
    return value


def check_text_or_none(value: object, what: str) -> str | None:
    """A text, or nothing."""
    return None if value is None else check_text(value, what)


def check_texts(value: object, what: str) -> tuple[str, ...]:
    """A list of texts."""
    if not isinstance(value, list):
        raise _wrong(what, value, "no list")
    return tuple(check_text(one, f"an item of {what}") for one in value)


def check_mapping(value: object, what: str) -> JsonObject:
    """A JSON object."""
    if not isinstance(value, dict):
        raise _wrong(what, value, "no object")
    return value


def check_sha256(value: object, what: str) -> str:
    """A SHA-256 in hexadecimal; files are named after it."""
    if not isinstance(value, str) or not _SHA256.fullmatch(value):
        raise _wrong(what, value, "no SHA-256")
    return value


def check_integer(value: object, what: str) -> int:
    """An integer of any size."""
    if not isinstance(value, int) or isinstance(value, bool):
        raise _wrong(what, value, "no integer")
    return value


def check_count(value: object, what: str, *, least: int = 0, most: int = _MOST_COUNT) -> int:
    """How many there are of something."""
    number = check_integer(value, what)
    if not least <= number <= most:
        raise _wrong(what, value, f"not between {least} and {most}")
    return number


def check_seconds(value: object, what: str, *, most: float = _LONGEST) -> float:
    """How long something took."""
    if not isinstance(value, int | float) or isinstance(value, bool):
        raise _wrong(what, value, "no number")
    if not 0 <= value < most:
        raise _wrong(what, value, f"not between 0 and {most:g}")
    return float(value)


def check_moment(value: object, what: str) -> float:
    """Seconds since the epoch, of a year that has four digits."""
    return check_seconds(value, what, most=_YEAR_10000)


def check_truth_or_none(value: object, what: str) -> bool | None:
    """A truth as SQLite keeps it, or nothing."""
    return None if value is None else bool(check_count(value, what, most=1))


def _of_version_1(result: TrialResult) -> TrialResult:
    """A result of a ledger of version 1, in which a model could judge its own plan a success."""
    if result.metrics.get("success_basis") != "predicted":
        return result
    metrics = {**result.metrics, "predicted_success": result.success}
    return replace(result, success=None, metrics=metrics)


def _encode_trace(result: TrialResult) -> bytes | None:
    if not (result.trace or result.events):
        return None
    return encode_trace(result.trace, events=result.events, header=result.trial.to_json())


def _usage(spent: object, what: str) -> Usage:
    fields: Mapping[str, Any] = check_mapping(spent, what)
    for name, value in fields.items():
        if name == "seconds":
            check_seconds(value, f"seconds in {what}")
        elif name in _COUNTS:
            check_count(value, f"{name} in {what}")
        else:
            raise _wrong(what, name, "no field of it")
    return Usage(**fields)


def _wrong(what: str, value: object, why: str) -> ValueError:
    return ValueError(f"{what} is {shown(value)}, {why}")
