"""What the live page of a sweep shows: read from the ledger, row by row as they come."""

from __future__ import annotations

import time
from collections import Counter, deque
from dataclasses import asdict, dataclass, field
from typing import TYPE_CHECKING, Any

from llm_planning.experiments.progress_file import process_state
from llm_planning.experiments.statistics import CONFIDENCE, proportion
from llm_serving.request import Usage

if TYPE_CHECKING:
    from llm_planning.experiments.ledger import Ledger, LedgerRow

_NEWEST = 40
"""Trials that the page lists."""

_MOST_ERRORS = 20
"""Distinct errors that the page lists; the rest is counted."""

BUCKETS = 60
"""Bars of the picture of the rate."""

_SPANS = (60.0, 600.0, 3600.0, 6 * 3600.0, 24 * 3600.0)
"""Seconds that the picture may span; the first in which the sweep fits, or the last."""


@dataclass(slots=True)
class _Tally:
    """What became of the trials of one planner in one domain."""

    done: int = 0
    failed: int = 0
    judged: int = 0
    won: int = 0


@dataclass(slots=True)
class _Seen:
    """What was read of the ledger so far."""

    places: set[int] = field(default_factory=set)
    tallies: dict[tuple[str, str], _Tally] = field(default_factory=dict)
    spent: Usage = field(default_factory=Usage)
    errors: Counter[str] = field(default_factory=Counter)
    newest: deque[dict[str, Any]] = field(default_factory=lambda: deque(maxlen=_NEWEST))
    begun: float = field(default_factory=time.time)
    ends: list[float] = field(default_factory=list)
    traces: dict[str, str] = field(default_factory=dict)


class LiveSweep:
    """The state of a sweep, which is read on from where the last call stopped."""

    def __init__(self, ledger: Ledger) -> None:
        self._ledger = ledger
        self._name = str(ledger.sweep["name"])
        self._total = len(ledger.trials)
        self._seen = _Seen()

    def read(self) -> dict[str, Any]:
        """Everything that the page shows, as JSON values.

        Raises:
            LedgerError: the ledger cannot be read.
        """
        seen = self._seen
        # By the time of their end: the first call reads many, in the order of the sweep.
        places = set(seen.places)
        rows = sorted(self._ledger.new_rows(places), key=_ended)
        # Only now: after an error the next call reads them again.
        seen.places = places
        for row in rows:
            self._take(row)
        now = time.time()
        tallies = seen.tallies.values()
        finished = sum(tally.done + tally.failed for tally in tallies)
        return {
            "name": self._name,
            "confidence": CONFIDENCE,
            "now": now,
            "total": self._total,
            "done": sum(tally.done for tally in tallies),
            "failed": sum(tally.failed for tally in tallies),
            "won": sum(tally.won for tally in tallies),
            "judged": sum(tally.judged for tally in tallies),
            "retrying": len(self._ledger.attempts()),
            "spent": asdict(seen.spent),
            "groups": [_group(*key, tally) for key, tally in seen.tallies.items()],
            "newest": list(reversed(seen.newest)),
            "errors": seen.errors.most_common(_MOST_ERRORS),
            "other_errors": len(seen.errors) - min(len(seen.errors), _MOST_ERRORS),
            # A sweep that has ended is looked at as it was then.
            "rate": _rate(seen, now if finished < self._total else max(seen.ends, default=now)),
            "process": process_state(self._ledger.folder, now),
        }

    def trace_of(self, key: str) -> str | None:
        """The SHA-256 of a trial's trace; None if no trial that was read left one."""
        return self._seen.traces.get(key)

    def _take(self, row: LedgerRow) -> None:
        seen, result, trial = self._seen, row.result, row.result.trial
        tally = seen.tallies.setdefault((trial.planner, trial.domain), _Tally())
        tally.done += result.status == "done"
        tally.failed += result.status == "failed"
        tally.judged += result.success is not None
        tally.won += result.success is True
        spent = sum(result.usage.values(), start=Usage())
        seen.spent += spent
        if result.error is not None:
            seen.errors[result.error] += 1
        seen.begun = min(seen.begun, result.started)
        seen.ends.append(_ended(row))
        if row.trace_sha256 is not None:
            seen.traces[row.key] = row.trace_sha256
        seen.newest.append(
            {
                "key": row.key,
                "planner": trial.planner,
                "domain": trial.domain,
                "task": trial.task,
                "model": trial.model,
                "seed": trial.seed,
                "status": result.status,
                "success": result.success,
                "seconds": result.seconds,
                "tokens": spent.prompt_tokens + spent.completion_tokens,
                "error": result.error,
                "ended": _ended(row),
                "traced": row.trace is not None,
            }
        )


def _ended(row: LedgerRow) -> float:
    return row.result.started + row.result.seconds


def _group(planner: str, domain: str, tally: _Tally) -> dict[str, Any]:
    estimate = proportion(tally.won, tally.judged)
    return {
        "planner": planner,
        "domain": domain,
        **asdict(tally),
        "value": estimate.value,
        "low": estimate.low,
        "high": estimate.high,
        "reason": estimate.reason,
    }


def _rate(seen: _Seen, now: float) -> dict[str, Any]:
    """How many trials ended in each of the last stretches of time, the newest last."""
    age = max(now - seen.begun, 1.0)
    span = next((span for span in _SPANS if age <= span), _SPANS[-1])
    counts = [0] * BUCKETS
    for end in seen.ends:
        place = BUCKETS - 1 - int((now - end) * BUCKETS / span)
        if 0 <= place < BUCKETS:
            counts[place] += 1
    return {"span": span, "over": min(age, span), "counts": counts}
