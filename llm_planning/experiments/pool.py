"""Where trials run: the contract between the scheduler of a sweep and whoever runs a trial."""

from __future__ import annotations

from dataclasses import dataclass, fields, replace
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from llm_planning.experiments.trial import Trial, TrialResult


@dataclass(frozen=True, slots=True, kw_only=True)
class PoolLoad:
    """What the engines of a pool are doing, for the display and for the choice of `limit`.

    Attributes:
        running: requests in the engines' batches now.
        waiting: requests that wait for room in a batch.
        written_tokens: tokens written since the pool was opened.
        prompt_tokens: prompt tokens since then.
        cached_tokens: those of them that the prefix caches had.
        preempted: requests that were thrown out of a batch for want of memory, since then.
        stepping_seconds: time that the engines spent in steps, since then.
        waiting_seconds: time that they had nothing to step, since then.
    """

    running: int = 0
    waiting: int = 0
    written_tokens: int = 0
    prompt_tokens: int = 0
    cached_tokens: int = 0
    preempted: int = 0
    stepping_seconds: float = 0.0
    waiting_seconds: float = 0.0

    def __add__(self, other: PoolLoad) -> PoolLoad:
        """Two pools as one."""
        sums = {
            one.name: getattr(self, one.name) + getattr(other, one.name) for one in fields(self)
        }
        return PoolLoad(**sums)

    @property
    def past(self) -> PoolLoad:
        """What was done, with nothing under way any more."""
        return replace(self, running=0, waiting=0)


class TrialPool(Protocol):
    """Runs trials, many at once."""

    @property
    def limit(self) -> int:
        """Trials that should be in flight now; may change from one question to the next."""
        ...

    def load(self) -> PoolLoad:
        """What the engines are doing."""
        ...

    async def run(self, trial: Trial) -> TrialResult:
        """Runs one trial; what the planner raises becomes a failed result.

        Raises:
            WorkerLostError: the worker died; the trial may be run again elsewhere.
            EngineStoppedError: nothing can run any more.
        """
        ...

    async def aclose(self) -> None:
        """Gives the engines back."""
        ...
