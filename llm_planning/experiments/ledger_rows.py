"""Results as the rows of a ledger: what is kept of them, how it is written and read again."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any, Literal

from llm_planning.experiments.ledger_file import LedgerError
from llm_planning.experiments.traces import encode_trace
from llm_planning.experiments.trial import Trial
from llm_serving.request import Usage

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

    from llm_planning.experiments.traces import Trace, TraceFolder
    from llm_planning.experiments.trial import TrialResult

SELECT_ROWS = """
    SELECT trials.content, trials.key, status, success, plan, metrics, usage, error, attempts,
           started, seconds, provenance, trace_sha256
    FROM results JOIN trials ON trials.number = results.trial ORDER BY trials.number
"""
"""What `decode_row` reads."""


class UnkeepableResultError(LedgerError):
    """A result holds what JSON has no form for: the planner is to blame, the ledger is unharmed."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LedgerRow:
    """A trial that has ended for good.

    Attributes:
        trial: what was run.
        status: `done` or `failed`.
        success: whether the goal was reached; None where nobody judged it.
        plan: the options or actions, in order.
        metrics: numbers and words that describe the run.
        usage: what the last attempt asked, by role.
        error: of a failed trial's last attempt.
        attempts: how many there were.
        started: of the last attempt, in seconds since the epoch.
        seconds: that it took.
        provenance: id of what it was run with, for `Ledger.provenance`.
        trace: its file; None if the planner left no trace.
        trace_sha256: of the trace's lines, uncompressed.
    """

    trial: Trial
    status: Literal["done", "failed"]
    success: bool | None
    plan: tuple[str, ...]
    metrics: Mapping[str, Any]
    usage: Mapping[str, Usage]
    error: str | None
    attempts: int
    started: float
    seconds: float
    provenance: str
    trace: Path | None
    trace_sha256: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class KeptResult:
    """The parts of a result that are kept as text, and its trace if it has one."""

    plan: str
    metrics: str
    usage: str
    error: str | None
    trace: Trace | None


def encode_result(result: TrialResult) -> KeptResult:
    """A result as it is kept.

    Raises:
        UnkeepableResultError: it holds something that is no JSON value.
    """
    try:
        return KeptResult(
            plan=json.dumps(result.plan),
            metrics=json.dumps(dict(result.metrics)),
            usage=json.dumps({role: asdict(usage) for role, usage in result.usage.items()}),
            # A text with lone surrogates has no UTF-8.
            error=result.error and result.error.encode("utf-8", "backslashreplace").decode(),
            trace=encode_trace(result.trace) if result.trace else None,
        )
    except (TypeError, ValueError, RecursionError) as error:
        raise UnkeepableResultError(
            f"the planner {result.trial.planner} left a result that is not JSON ({error}): its "
            "plan, metrics and trace must be"
        ) from error


def decode_row(values: Sequence[Any], traces: TraceFolder) -> LedgerRow:
    """The row that `SELECT_ROWS` found.

    Raises:
        ValueError: it does not hold what was once written to it.
    """
    content, key, status, success, plan, metrics, usage, *rest, sha256 = values
    error, attempts, started, seconds, provenance = rest
    return LedgerRow(
        trial=Trial(**json.loads(content)),
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


def repeatable(row: LedgerRow) -> list[Any]:
    """What another run of the trial, given the same answers, has in common with a row."""
    usage = {
        role: [spent.calls, spent.prompt_tokens, spent.completion_tokens]
        for role, spent in row.usage.items()
    }
    came_out = [row.status, row.success, row.plan, row.metrics, usage, row.error]
    return [row.trial.key, *came_out, row.attempts, row.trace_sha256]


def canonical(value: object) -> str:
    """JSON whose bytes are the same for equal values."""
    return json.dumps(value, sort_keys=True, separators=(",", ":"))
