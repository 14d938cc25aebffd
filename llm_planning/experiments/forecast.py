"""Forecasts the rest of a sweep from those of its trials that are done."""

from __future__ import annotations

import json
import math
from collections import Counter
from dataclasses import dataclass
from statistics import fmean
from typing import TYPE_CHECKING, TypeAlias

from llm_planning.experiments.runs import trial_record, varying
from llm_planning.experiments.statistics import student
from llm_planning.registry import defaults_of
from llm_serving.request import Usage

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Mapping, Sequence

    from llm_planning.experiments.trial import Trial, TrialResult

MOST_SAMPLES = 40
"""Trials that a forecast runs at most if nobody says how many."""

SAMPLES_PER_ARM = 2
"""Trials of each arm that a forecast runs if nobody says how many: fewer show no spread."""

Groups: TypeAlias = "Mapping[str, list[Trial]]"


@dataclass(frozen=True, slots=True, kw_only=True)
class Amount:
    """A number that is expected, with a 95% interval; without one if no arm has two results."""

    value: float
    low: float | None = None
    high: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Arm:
    """Trials that differ in task, problem and seed alone.

    Attributes:
        fields: those in which arms differ: planner, models, the planner's own settings.
        trials: number of them in the sweep.
        questions: of each trial that is done.
        seconds: likewise, without those whose answers all came from the response cache.
    """

    fields: Mapping[str, object]
    trials: int
    questions: tuple[int, ...]
    seconds: tuple[float, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Forecast:
    """What the trials without a result will probably cost.

    Attributes:
        total: trials of the sweep.
        done: those that ended well; the forecast is made of them.
        failed: error -> number of trials that failed with it; they count as ended.
        borrowed: arms without a done trial, judged by the others of their planner, or by all.
        replayed: the share of the questions so far that the response cache answered.
        at_once: trials that ran side by side so far, in the mean.
        seconds: of the clock, if as many run at once; None if no result took a model any time.
    """

    total: int
    done: int
    failed: Mapping[str, int]
    arms: tuple[Arm, ...]
    borrowed: int
    replayed: float
    at_once: float
    questions: Amount
    prompt_tokens: Amount
    cached_tokens: Amount
    completion_tokens: Amount
    seconds: Amount | None

    @property
    def left(self) -> int:
        """Trials without a result."""
        return self.total - self.done - sum(self.failed.values())


def by_kind(trials: Iterable[Trial]) -> Groups:
    """Trials that differ in task and seed alone, in the order of the sweep."""
    kinds: dict[str, list[Trial]] = {}
    for trial in trials:
        fields = trial.to_json()
        kind = json.dumps([value for key, value in fields.items() if key not in {"task", "seed"}])
        kinds.setdefault(kind, []).append(trial)
    return kinds


def by_arm(trials: Iterable[Trial]) -> Groups:
    """Trials that differ in task, seed and settings of the world alone, in the order of the sweep.

    Settings of the world often name the problem. Of a planner that is not of this project it is not
    known which settings are the world's.
    """
    arms: dict[str, list[Trial]] = {}
    for trial in trials:
        arms.setdefault(_arm(trial), []).append(trial)
    return arms


def _arm(trial: Trial) -> str:
    own = defaults_of(trial.planner)
    settings = {key: value for key, value in trial.settings.items() if not own or key in own}
    models = [trial.model, *sorted(trial.role_models.items())]
    return json.dumps([trial.planner, trial.domain, models, settings], sort_keys=True)


def choose_samples(
    trials: Sequence[Trial], count: int | None = None, *, finished: Collection[str] = ()
) -> list[Trial]:
    """A few trials, spread evenly over the arms and over the tasks, problems and seeds of each.

    Args:
        count: of results that there should be; by default `SAMPLES_PER_ARM` of each arm, and at
            most `MOST_SAMPLES`. Fewer are chosen if an arm has fewer trials than its share.
        finished: keys of the trials that have a result, which count.
    """
    arms = list(by_arm(trials).values())
    count = min(SAMPLES_PER_ARM * len(arms), MOST_SAMPLES) if count is None else count
    chosen: list[Trial] = []
    for place, arm in enumerate(arms):
        left = [trial for trial in arm if trial.key not in finished]
        share = (place + 1) * count // len(arms) - place * count // len(arms)
        share = min(max(0, share - (len(arm) - len(left))), len(left))
        # Arms start at different places, so that few samples of many arms cover several tasks.
        chosen.extend(
            left[(turn * len(arms) + place) * len(left) // (share * len(arms))]
            for turn in range(share)
        )
    return chosen


def forecast(trials: Sequence[Trial], results: Sequence[TrialResult]) -> Forecast:
    """Forecasts the cost of the trials of a sweep that have no result yet.

    An arm without a result takes those of its planner, or all if its planner has none. An arm's
    trials are taken to spread about its mean as those of all arms do about theirs, in proportion:
    from that the intervals follow.
    """
    done = [result for result in results if result.status == "done"]
    arms = by_arm(trials)
    known = {result.trial.key for result in results}
    of_arm: dict[str, list[TrialResult]] = {}
    for result in done:
        of_arm.setdefault(_arm(result.trial), []).append(result)
    left = {name: sum(trial.key not in known for trial in same) for name, same in arms.items()}
    spent = {id(result): _asked(result) for result in done}
    timed = [result for result in done if _took_time(spent[id(result)])]
    of_time = {id(result) for result in timed}
    at_once = {models: _at_once(some) for models, some in _by_models(timed).items()}
    overall = _at_once(timed)

    def amount(value: Callable[[TrialResult], float], some: Collection[int]) -> Amount:
        groups = []
        for name, same in arms.items():
            like, own = _alike(same[0], of_arm.get(name, ()), done, usable=some)
            if left[name] and like:
                groups.append(_Group(left[name], [value(one) for one in like], own=own))
        return _total(groups)

    def of_clock(result: TrialResult) -> float:
        return result.seconds / at_once.get(_models(result.trial), overall)

    named = dict(zip(arms, _fields([same[0] for same in arms.values()]), strict=True))
    calls = sum(usage.calls for usage in spent.values())
    return Forecast(
        total=len(trials),
        done=len(done),
        failed=Counter(result.error for result in results if result.error is not None),
        arms=tuple(
            Arm(
                fields=named[name],
                trials=len(same),
                questions=tuple(spent[id(result)].calls for result in of_arm.get(name, ())),
                seconds=tuple(one.seconds for one in of_arm.get(name, ()) if id(one) in of_time),
            )
            for name, same in arms.items()
        ),
        borrowed=sum(name not in of_arm for name in arms if left[name]),
        replayed=sum(usage.replayed for usage in spent.values()) / calls if calls else 0.0,
        at_once=overall,
        questions=amount(lambda result: spent[id(result)].calls, spent),
        prompt_tokens=amount(lambda result: spent[id(result)].prompt_tokens, spent),
        cached_tokens=amount(lambda result: spent[id(result)].cached_tokens, spent),
        completion_tokens=amount(lambda result: spent[id(result)].completion_tokens, spent),
        seconds=amount(of_clock, of_time) if timed else None,
    )


def _asked(result: TrialResult) -> Usage:
    """What a model was asked; texts that are only compared have no prompt."""
    return sum((usage for usage in result.usage.values() if usage.prompt_tokens), start=Usage())


def _took_time(spent: Usage) -> bool:
    """Whether a run tells how long one takes: not if the response cache gave all of its answers."""
    return not spent.calls or spent.replayed < spent.calls


def _alike(
    trial: Trial,
    of_arm: Sequence[TrialResult],
    done: Sequence[TrialResult],
    *,
    usable: Collection[int],
) -> tuple[list[TrialResult], bool]:
    """The usable results by which the arm of a trial is judged, and whether they are its own."""
    of_planner = [result for result in done if result.trial.planner == trial.planner]
    for some in (of_arm, of_planner, done):
        if like := [result for result in some if id(result) in usable]:
            return like, some is of_arm
    return [], False


@dataclass(frozen=True, slots=True)
class _Group:
    """An arm's trials to come, and the values of trials like them.

    Attributes:
        own: whether these are of the arm itself.
    """

    count: int
    values: Sequence[float]
    own: bool

    @property
    def mean(self) -> float:
        return fmean(self.values)


def _total(groups: Sequence[_Group]) -> Amount:
    """The sum over all trials to come."""
    total = sum(group.count * group.mean for group in groups)
    spread = [group for group in groups if group.own and group.mean > 0]
    freedom = sum(len(group.values) - 1 for group in spread)
    if not total:
        return Amount(value=0.0, low=0.0, high=0.0)
    if not freedom:
        return Amount(value=total)
    squares = sum((value / group.mean - 1) ** 2 for group in spread for value in group.values)
    variance = sum(
        (group.count * group.mean) ** 2 * (1 / len(group.values) + 1 / group.count)
        for group in groups
    )
    half = student(freedom) * math.sqrt(variance * squares / freedom)
    return Amount(value=total, low=max(0.0, total - half), high=total + half)


def _models(trial: Trial) -> tuple[str, ...]:
    """The models that are loaded for a trial."""
    return tuple(sorted({trial.model, *trial.role_models.values()}))


def _by_models(results: Iterable[TrialResult]) -> dict[tuple[str, ...], list[TrialResult]]:
    found: dict[tuple[str, ...], list[TrialResult]] = {}
    for result in results:
        found.setdefault(_models(result.trial), []).append(result)
    return found


def _at_once(results: Iterable[TrialResult]) -> float:
    """How many trials ran side by side, in the mean over the time in which any of them ran."""
    spans = sorted((result.started, result.started + result.seconds) for result in results)
    busy, until = 0.0, -math.inf
    for begun, ended in spans:
        busy += max(0.0, ended - max(begun, until))
        until = max(until, ended)
    return sum(ended - begun for begun, ended in spans) / busy if busy else 1.0


def _fields(trials: Sequence[Trial]) -> list[dict[str, object]]:
    """What tells the first trials of arms apart, by names without `settings.`."""
    records = []
    for trial in trials:
        own = defaults_of(trial.planner)
        records.append(
            {
                field: value
                for field, value in trial_record(trial).items()
                if not own
                or not field.startswith("settings.")
                or field.removeprefix("settings.") in own
            }
        )
    names = varying(records)
    return [
        {name.removeprefix("settings."): record[name] for name in names if name in record}
        for record in records
    ]
