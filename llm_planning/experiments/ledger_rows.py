"""Results as the rows of a ledger: what is kept of them, how it is written and read again."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass, replace
from typing import TYPE_CHECKING, Any

from llm_planning.experiments.ledger_file import LedgerError
from llm_planning.experiments.trial import Ended
from llm_planning.trace_file import encode_trace
from llm_serving.request import Usage

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from pathlib import Path

    from llm_planning.experiments.traces import TraceFolder
    from llm_planning.experiments.trial import Trial, TrialResult

SELECT_ROWS = """
    SELECT trials.content, trials.key, status, success, plan, metrics, usage, error, attempts,
           started, seconds, provenance, trace_sha256
    FROM results JOIN trials ON trials.number = results.trial ORDER BY trials.number
"""
"""What `decode_row` reads."""


class UnkeepableResultError(LedgerError):
    """A result holds what JSON has no form for: the planner is to blame, the ledger is unharmed."""


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
        UnkeepableResultError: it holds something that is no JSON value.
    """
    try:
        return (
            json.dumps(result.plan),
            json.dumps(dict(result.metrics)),
            json.dumps({role: asdict(usage) for role, usage in result.usage.items()}),
            # A text with lone surrogates has no UTF-8.
            result.error and result.error.encode("utf-8", "backslashreplace").decode(),
            _encode_trace(result),
        )
    except (TypeError, ValueError, RecursionError) as error:
        raise UnkeepableResultError(
            f"the planner {result.trial.planner} left a result that is not JSON ({error}): its "
            "plan, metrics and trace must be"
        ) from error


def decode_row(
    values: Sequence[Any], traces: TraceFolder, read_trial: Callable[[Any], Trial]
) -> LedgerRow:
    """The row that `SELECT_ROWS` found.

    Args:
        values: of its columns.
        traces: where its trace lies.
        read_trial: makes a trial of the JSON that the ledger has of it.

    Raises:
        ValueError: it does not hold what was once written to it.
    """
    content, key, status, success, plan, metrics, usage, *rest, sha256 = values
    error, attempts, started, seconds, provenance = rest
    return LedgerRow(
        key=key,
        trial=read_trial(json.loads(content)),
        status=status,
        success=None if success is None else bool(success),
        plan=tuple(json.loads(plan)),
        metrics=json.loads(metrics),
        usage={role: Usage(**spent) for role, spent in json.loads(usage).items()},
        error=error,
        attempts=attempts,
        started=started,
        seconds=seconds,
        provenance=provenance,
        trace=None if sha256 is None else traces.path(key),
        trace_sha256=sha256,
    )


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
    came_out = [row.status, row.success, row.plan, row.metrics, usage, row.error]
    return [row.key, *came_out, row.attempts, trace]


def canonical(value: object) -> str:
    """JSON whose bytes are the same for equal values."""
    return json.dumps(value, sort_keys=True, separators=(",", ":"))


def _encode_trace(result: TrialResult) -> bytes | None:
    if not (result.trace or result.events):
        return None
    return encode_trace(result.trace, events=result.events, header=result.trial.to_json())
