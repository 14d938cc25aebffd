"""Results as the rows of a ledger: what is kept of them, how it is written and read again."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass, replace
from operator import index
from typing import TYPE_CHECKING, Any

from llm_planning.experiments import ledger_values as check
from llm_planning.experiments.ledger_file import LedgerError
from llm_planning.experiments.ledger_tables import LONGEST_ROW
from llm_planning.experiments.traces import LONGEST_TRACE
from llm_planning.experiments.trial import Ended
from llm_planning.trace_file import encode_trace

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Sequence
    from pathlib import Path

    from llm_planning.experiments.traces import TraceFolder
    from llm_planning.experiments.trial import Trial, TrialResult

SELECT_ROW = """
    SELECT trials.content, trials.key, status, success, plan, metrics, usage, error, attempts,
           started, seconds, provenance, trace_sha256
    FROM results LEFT JOIN trials ON trials.number = results.trial WHERE results.trial = ?
"""
"""What `decode_row` reads, of one trial."""

_UNREPEATABLE = "$unrepeatable"
"""Among the metrics in the file: names of those that another run may have different."""


class UnkeepableResultError(LedgerError):
    """A result is no JSON, or too large: the planner is to blame, the ledger is unharmed."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LedgerRow(Ended):
    """A trial that has ended for good, with the result of its last attempt.

    Attributes:
        key: of the trial, as this ledger has it.
        attempts: how many there were.
        provenance: id of what it was run with, for `Ledger.provenances`.
        trace: its file; None if the planner left no trace.
        trace_sha256: of the trace's lines, uncompressed.
    """

    key: str
    attempts: int
    provenance: str
    trace: Path | None
    trace_sha256: str | None


def encode_result(result: TrialResult) -> tuple[str, str, str, str | None, bytes | None]:
    """What is kept of a result: plan, metrics and usage as JSON, its error, and its trace's lines.

    Raises:
        UnkeepableResultError: it holds something that is no JSON value, or that no reader of a
            ledger takes, or more than a ledger keeps.
    """
    apart = {_UNREPEATABLE: sorted(result.unrepeatable)} if result.unrepeatable else {}
    try:
        plan = json.dumps(result.plan)
        metrics = json.dumps({**result.metrics, **apart})
        usage = json.dumps({role: asdict(spent) for role, spent in result.usage.items()})
        # A text with lone surrogates has no UTF-8.
        error = result.error and result.error.encode("utf-8", "backslashreplace").decode()
        trace = _encode_trace(result)
        success = None if result.success is None else index(result.success)
        _read_outcome((result.status, success, plan, metrics, usage, error))
        check.moment(result.started, "its start")
        check.seconds(result.seconds, "its time")
        texts = (plan, metrics, usage, error or "")
        if sum(len(text.encode()) for text in texts) > LONGEST_ROW // 2:
            raise check.TooLargeError(f"it has more than {LONGEST_ROW // 2} bytes")
        if trace is not None and len(trace) > LONGEST_TRACE:
            raise check.TooLargeError(f"its trace has more than {LONGEST_TRACE} bytes")
    except check.TooLargeError as refusal:
        raise UnkeepableResultError(
            f"the planner {result.trial.planner} left a result that is too large ({refusal}): let "
            "it run for fewer steps or simulations, or keep less in its plan, metrics and trace"
        ) from refusal
    except (TypeError, ValueError, RecursionError) as refusal:
        raise UnkeepableResultError(
            f"the planner {result.trial.planner} left a result that is not JSON ({refusal}): its "
            "plan, metrics and trace must be"
        ) from refusal
    return plan, metrics, usage, error, trace


def decode_row(
    values: Sequence[Any], traces: TraceFolder, *, version: int, provenances: Collection[str]
) -> LedgerRow:
    """The row that `SELECT_ROW` found.

    Args:
        values: of its columns.
        traces: where its trace lies.
        version: of the ledger.
        provenances: ids of those that the ledger has.

    Raises:
        ValueError: it does not hold what was once written to it.
    """
    content, key, *came_out, attempts, started, seconds, provenance, sha256 = values
    key = check.sha256(key, "the key of a trial")
    if provenance not in provenances:
        raise ValueError(f"the provenance of the trial {key} is missing")
    if sha256 is not None:
        check.sha256(sha256, "the hash of a trace")
    row = LedgerRow(
        key=key,
        trial=decode_trial(content, key=key, version=version),
        **_read_outcome(came_out),
        attempts=check.count(attempts, "the attempts of a trial", least=1),
        started=check.moment(started, "the start of a trial"),
        seconds=check.seconds(seconds, "the time of a trial"),
        provenance=provenance,
        trace=None if sha256 is None else traces.path(key),
        trace_sha256=sha256,
    )
    return of_version_1(row) if version == 1 else row


def encode_trial(trial: Trial) -> str:
    """A trial as `decode_trial` reads it.

    Raises:
        ValueError: it is larger than those that are read.
    """
    return check.within(json.dumps(trial.to_json()), "a trial", check.TRIAL)


def decode_trial(content: object, *, key: str, version: int) -> Trial:
    """A trial in the words of today; see `ledger_values.trial`."""
    said = check.read_object(content, "a trial", check.TRIAL)
    return check.trial(said, key=key, version=version)


def decode_provenances(
    rows: Iterable[Sequence[Any]], prompts: Iterable[Sequence[Any]]
) -> dict[str, dict[str, Any]]:
    """What results were run with, by id; see `Ledger.provenances`.

    Args:
        rows: id and content.
        prompts: the columns of their table; none in version 1.

    Raises:
        ValueError: they do not hold what was once written to them.
    """
    found = {
        check.text(id_, "the id of a provenance"): check.read_object(said, "a provenance")
        for id_, said in rows
    }
    for values in prompts:
        id_, planner, role, sha256, content = check.texts(list(values), "a prompt")
        if id_ not in found:
            raise ValueError(f"the provenance {id_} of a prompt is missing")
        planners = check.mapping(found[id_].setdefault("prompts", {}), "the prompts")
        roles = check.mapping(planners.setdefault(planner, {}), "the prompts of a planner")
        check.mapping(roles.setdefault(role, {}), "the prompts of a role")[sha256] = content
    return found


def of_version_1(row: LedgerRow) -> LedgerRow:
    """A row of a ledger of version 1, in which a model could judge its own plan a success."""
    if row.metrics.get("success_basis") != "predicted":
        return row
    metrics = {**row.metrics, "predicted_success": row.success}
    return replace(row, success=None, metrics=metrics)


def repeatable(row: LedgerRow, trace: str | None) -> list[Any]:
    """What another run of the trial, given the same answers, has in common with a row.

    Args:
        row: of the trial.
        trace: its `repeatable_digest`, if it left a trace.
    """
    usage = {
        role: [spent.calls, spent.prompt_tokens, spent.completion_tokens]
        for role, spent in row.usage.items()
    }
    metrics = {name: one for name, one in row.metrics.items() if name not in row.unrepeatable}
    came_out = [row.status, row.success, row.plan, metrics, usage, row.error]
    return [row.key, *came_out, row.attempts, trace]


def canonical(value: object) -> str:
    """JSON whose bytes are the same for equal values."""
    return json.dumps(value, sort_keys=True, separators=(",", ":"))


def _read_outcome(columns: Sequence[object]) -> dict[str, Any]:
    """The fields of `Ended` that say what came of a trial, of their columns, status to error."""
    status, success, plan, metrics, usage, error = columns
    if status not in {"done", "failed"}:
        raise ValueError(f"the status of a trial is {status!r}")
    measured = check.read_object(metrics, "the metrics of a trial")
    apart = check.texts(measured.pop(_UNREPEATABLE, []), "the unrepeatable metrics of a trial")
    return {
        "status": status,
        "success": check.truth_or_none(success, "the success of a trial"),
        "plan": check.texts(check.read_json(plan, "a plan"), "a plan"),
        "metrics": measured,
        "unrepeatable": frozenset(apart),
        "usage": check.usage(check.read_object(usage, "the usage of a trial")),
        "error": check.text_or_none(error, "the error of a trial"),
    }


def _encode_trace(result: TrialResult) -> bytes | None:
    if not (result.trace or result.events):
        return None
    return encode_trace(result.trace, events=result.events, header=result.trial.to_json())
