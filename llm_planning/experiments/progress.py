"""How far a sweep is."""

from __future__ import annotations

from dataclasses import dataclass, field

from llm_planning.experiments.pool import PoolLoad


@dataclass(frozen=True, slots=True, kw_only=True)
class Progress:
    """Where a sweep stands.

    Attributes:
        total: trials of the sweep.
        kept: those of them that an earlier run had finished.
        done: trials whose planner ran to its end in this run.
        failed: trials that failed for good in this run.
        running: trials in flight.
        retried: failed attempts of this run whose trial gets another one.
        lost: trials that were started again because their worker was gone.
        seconds: since this run began.
        load: what the engines are doing.
    """

    total: int
    kept: int = 0
    done: int = 0
    failed: int = 0
    running: int = 0
    retried: int = 0
    lost: int = 0
    seconds: float = 0.0
    load: PoolLoad = field(default_factory=PoolLoad)

    @property
    def finished(self) -> int:
        """Trials that have their row in the ledger."""
        return self.kept + self.done + self.failed

    @property
    def left(self) -> int:
        """Trials that have none yet."""
        return self.total - self.finished

    @property
    def remaining_seconds(self) -> float | None:
        """Time to the end at the pace of this run so far; None before the first trial's end."""
        here = self.done + self.failed
        return self.seconds / here * self.left if here else None

    def after(self, earlier: Progress) -> Progress:
        """This progress as a part of a larger sweep.

        Args:
            earlier: of the whole sweep, before this part of it began.
        """
        return Progress(
            total=earlier.total,
            kept=earlier.kept,
            done=earlier.done + self.done,
            failed=earlier.failed + self.failed,
            running=self.running,
            retried=earlier.retried + self.retried,
            lost=earlier.lost + self.lost,
            seconds=earlier.seconds + self.seconds,
            load=_joined(earlier.load, self.load),
        )


def _joined(earlier: PoolLoad, now: PoolLoad) -> PoolLoad:
    """Counts since the first engine was opened, and the load of the last."""
    return PoolLoad(
        running=now.running,
        waiting=now.waiting,
        written_tokens=earlier.written_tokens + now.written_tokens,
        prompt_tokens=earlier.prompt_tokens + now.prompt_tokens,
        cached_tokens=earlier.cached_tokens + now.cached_tokens,
        preempted=earlier.preempted + now.preempted,
        stepping_seconds=earlier.stepping_seconds + now.stepping_seconds,
        waiting_seconds=earlier.waiting_seconds + now.waiting_seconds,
    )
