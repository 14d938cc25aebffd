"""What a sweep will cost, from a few of its trials."""

from collections import Counter
from contextlib import contextmanager

import pytest

from llm_planning.experiments.forecast import by_kind, choose_samples, forecast
from llm_planning.experiments.pool import PoolLoad
from llm_planning.experiments.trial import Trial, TrialResult
from llm_serving.request import Usage

TASKS = ("a", "b", "c", "d")


def trials_of(planners=("cot",), *, ds=(1,), tasks=TASKS, seeds=2):
    return [
        Trial(
            planner=planner,
            domain="e",
            task=task,
            model="m",
            engines={"m": {"model": "m"}},
            seed=seed,
            settings={"d": d, "layout": "cached"},
        )
        for planner in planners
        for d in ds
        for task in tasks
        for seed in range(seeds)
    ]


class PricedPool:
    """Each trial costs what its planner and d say; `free` ones come from a cache."""

    limit = 2

    def __init__(self, *, broken=(), free=False):
        self.written = 0
        self.broken = broken
        self.free = free

    def load(self):
        return PoolLoad(written_tokens=self.written)

    async def run(self, trial):
        tokens = (10 if trial.planner == "cot" else 100) * trial.settings["d"]
        self.written += 0 if self.free else tokens
        broken = trial.planner in self.broken
        return TrialResult(
            trial=trial,
            status="failed" if broken else "done",
            usage={
                "one": Usage(calls=1, prompt_tokens=7),
                "other": Usage(calls=2, completion_tokens=tokens),
            },
            error="E: broken" if broken else None,
            started=0.0,
            seconds=0.0,
        )

    async def aclose(self):
        pass


class Executor:
    def __init__(self, pool):
        self.pool = pool

    @contextmanager
    def open(self, models):
        async def opened():
            return self.pool

        yield opened


def forecast_of(trials, count, **options):
    samples = choose_samples(trials, count)
    executor = Executor(PricedPool(**options))
    return forecast(trials, samples=samples, executor=executor, watch=lambda _: None)


def test_kinds_differ_in_more_than_task_and_seed():
    trials = trials_of(("cot", "too"), ds=(1, 2))
    assert [len(kind) for kind in by_kind(trials).values()] == [8, 8, 8, 8]


@pytest.mark.parametrize("count", [1, 3, 7, 12, 100])
def test_samples_are_spread_over_kinds_and_tasks(count):
    trials = trials_of(("cot", "too"), ds=(1, 2))
    chosen = choose_samples(trials, count)
    assert len({trial.key for trial in chosen}) == len(chosen) == min(count, 32)
    kinds = Counter((trial.planner, trial.settings["d"]) for trial in chosen)
    assert len(kinds) == min(count, 4)
    assert max(kinds.values()) - min(kinds.values()) <= 1
    if count >= 12:
        assert len({trial.task for trial in chosen}) == 4


def test_a_sweep_costs_what_its_kinds_cost():
    # 8 trials each of 10, 20, 100 and 200 tokens.
    expected = forecast_of(trials_of(("cot", "too"), ds=(1, 2)), 4)
    assert expected.cost.completion_tokens == 8 * 330
    assert expected.cost.calls == 32 * 3
    assert expected.cost.prompt_tokens == 32 * 7
    assert expected.samples == 4
    assert expected.seconds > 0


def test_a_kind_without_a_sample_costs_what_its_planner_s_others_cost():
    trials = trials_of(("cot", "too"), ds=(1, 3))
    chosen = [trials[0], *[trial for trial in trials if trial.planner == "too"][:1]]
    executor = Executor(PricedPool())
    expected = forecast(trials, samples=chosen, executor=executor, watch=lambda _: None)
    assert expected.cost.completion_tokens == 16 * 10 + 16 * 100


def test_failed_samples_are_told_and_not_counted():
    expected = forecast_of(trials_of(("cot", "too")), 2, broken=("too",))
    assert expected.failed == {"E: broken": 1}
    assert expected.cost.completion_tokens == 16 * 10
    nothing = forecast_of(trials_of(("too",)), 2, broken=("too",))
    assert nothing.cost is None
    assert nothing.seconds is None


def test_answers_from_the_cache_tell_nothing_of_the_time():
    expected = forecast_of(trials_of(), 2, free=True)
    assert expected.cost.completion_tokens == 80
    assert expected.seconds is None
