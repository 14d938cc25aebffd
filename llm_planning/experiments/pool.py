"""The contract between the scheduler of a sweep and the pool that runs its trials."""

from __future__ import annotations

import operator
from dataclasses import dataclass, fields, replace
from typing import TYPE_CHECKING, Any, Protocol

from llm_planning.experiments.trial import Count, Seconds  # noqa: TC001 (fields that are read)

if TYPE_CHECKING:
    from collections.abc import Callable

    from llm_planning.experiments.trial import Trial, TrialResult


@dataclass(frozen=True, slots=True, kw_only=True)
class PoolLoad:
    """What the engines of a pool are doing, for the display and for the choice of `limit`.

    Attributes:
        running: requests in the engines' batches now.
        waiting: requests that wait for room in a batch now.
        written_tokens: tokens written since the pool was opened.
        prompt_tokens: prompt tokens since then.
        cached_tokens: prompt tokens found in the prefix caches since then.
        preempted: requests removed from a batch for lack of memory since then.
        stepping_seconds: time that the engines spent in steps since then.
        waiting_seconds: time that the engines had nothing to do since then.
    """

    running: Count = 0
    waiting: Count = 0
    written_tokens: Count = 0
    prompt_tokens: Count = 0
    cached_tokens: Count = 0
    preempted: Count = 0
    stepping_seconds: Seconds = 0.0
    waiting_seconds: Seconds = 0.0

    def __add__(self, other: PoolLoad) -> PoolLoad:
        """The load of two pools together."""
        return self._combine(other, operator.add)

    def __sub__(self, other: PoolLoad) -> PoolLoad:
        """What was added to an earlier load."""
        return self._combine(other, operator.sub)

    def _combine(self, other: PoolLoad, how: Callable[[Any, Any], Any]) -> PoolLoad:
        names = (field.name for field in fields(self))
        return PoolLoad(**{name: how(getattr(self, name), getattr(other, name)) for name in names})

    @property
    def past(self) -> PoolLoad:
        """The same load with nothing running or waiting."""
        return replace(self, running=0, waiting=0)


class TrialPool(Protocol):
    """Runs trials, many at once."""

    @property
    def limit(self) -> int:
        """Trials that should be in flight now; changes with time."""
        ...

    def load(self) -> PoolLoad:
        """What the engines are doing."""
        ...

    async def run(self, trial: Trial) -> TrialResult:
        """Runs one trial; an error of the planner becomes a failed result.

        Raises:
            WorkerLostError: the worker died; the trial may be run again elsewhere.
            EngineStoppedError: no further trial can run.
        """
        ...

    async def aclose(self) -> None:
        """Releases the engines."""
        ...
