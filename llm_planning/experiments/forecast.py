"""Forecasts the cost of a sweep from a few of its trials."""

from __future__ import annotations

import json
from collections import Counter
from dataclasses import dataclass
from statistics import fmean
from typing import TYPE_CHECKING, TypeAlias

from llm_planning.experiments.executors import run_groups
from llm_serving.request import Usage

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from llm_planning.experiments.executors import Executor
    from llm_planning.experiments.scheduler import Progress
    from llm_planning.experiments.trial import Trial, TrialResult

Kinds: TypeAlias = "Mapping[str, list[Trial]]"


@dataclass(frozen=True, slots=True, kw_only=True)
class Cost:
    """The work of the model: calls, tokens read and tokens written."""

    calls: float
    prompt_tokens: float
    completion_tokens: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Forecast:
    """The likely cost of all trials of a sweep.

    Attributes:
        samples: number of trials that were run for the forecast.
        failed: error -> number of samples that failed with it.
        cost: of the whole sweep; None if every sample failed.
        seconds: of the whole sweep at the samples' speed, usually too many, as a fuller batch is
            faster; None if no sample asked the model.
    """

    samples: int
    failed: Mapping[str, int]
    cost: Cost | None
    seconds: float | None


class _Samples:
    """A ledger that records nothing: of a sample, only answers in the response cache are kept."""

    def __init__(self) -> None:
        self.results: list[TrialResult] = []

    def record(self, result: TrialResult, *, attempt: int, final: bool) -> None:  # noqa: ARG002
        self.results.append(result)

    def finished(self) -> frozenset[str]:
        return frozenset()

    def attempts(self) -> Mapping[str, int]:
        return {}


def by_kind(trials: Iterable[Trial]) -> Kinds:
    """Trials that differ in task and seed alone, in the order of the sweep."""
    kinds: dict[str, list[Trial]] = {}
    for trial in trials:
        fields = trial.to_json()
        kind = json.dumps([value for key, value in fields.items() if key not in {"task", "seed"}])
        kinds.setdefault(kind, []).append(trial)
    return kinds


def choose_samples(trials: Sequence[Trial], count: int) -> list[Trial]:
    """A few trials, spread evenly over the kinds and over the tasks and seeds of each.

    Args:
        count: of the samples; fewer are chosen if a kind has fewer trials than its share.
    """
    kinds = list(by_kind(trials).values())
    chosen: list[Trial] = []
    for place, kind in enumerate(kinds):
        share = (place + 1) * count // len(kinds) - place * count // len(kinds)
        share = min(share, len(kind))
        # Kinds start at different places, so that few samples of many kinds cover several tasks.
        chosen.extend(
            kind[(turn * len(kinds) + place) * len(kind) // (share * len(kinds))]
            for turn in range(share)
        )
    return chosen


def forecast(
    trials: Sequence[Trial],
    *,
    samples: Sequence[Trial],
    executor: Executor,
    watch: Callable[[Progress], None],
) -> Forecast:
    """Runs a few trials and forecasts the cost of all of them.

    A kind of trials without a sample takes the mean of its planner's samples, or the mean of all
    samples if its planner has none.

    Args:
        watch: receives the progress of the samples.

    Raises:
        ServingError: a model cannot be served, or its engine stopped.
    """
    ledger = _Samples()
    progress = run_groups(samples, executor=executor, ledger=ledger, retries=0, watch=watch)
    done = [result for result in ledger.results if result.status == "done"]
    failed = Counter(result.error for result in ledger.results if result.error is not None)
    cost = _extrapolated(trials, done) if done else None
    written = progress.load.written_tokens
    seconds = None
    if cost is not None and written:
        seconds = cost.completion_tokens * progress.seconds / written
    return Forecast(samples=len(ledger.results), failed=failed, cost=cost, seconds=seconds)


def _extrapolated(trials: Sequence[Trial], done: Sequence[TrialResult]) -> Cost:
    by_sampled_kind: dict[str, list[Usage]] = {}
    by_planner: dict[str, list[Usage]] = {}
    for result in done:
        spent = sum(result.usage.values(), start=Usage())
        (kind,) = by_kind([result.trial])
        by_sampled_kind.setdefault(kind, []).append(spent)
        by_planner.setdefault(result.trial.planner, []).append(spent)
    everything = [usage for some in by_planner.values() for usage in some]
    calls = read = written = 0.0
    for kind, same in by_kind(trials).items():
        like = by_sampled_kind.get(kind) or by_planner.get(same[0].planner) or everything
        calls += len(same) * fmean(usage.calls for usage in like)
        read += len(same) * fmean(usage.prompt_tokens for usage in like)
        written += len(same) * fmean(usage.completion_tokens for usage in like)
    return Cost(calls=calls, prompt_tokens=read, completion_tokens=written)
