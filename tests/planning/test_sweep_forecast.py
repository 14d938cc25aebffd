"""What the rest of a sweep will cost, by those of its trials that are done."""

from collections import Counter
from dataclasses import replace

import pytest
from command_line import answer, invoke, refused
from served_models import ONE_OPTION, serve

from llm_planning.experiments.forecast import (
    Amount,
    by_arm,
    by_kind,
    choose_samples,
    forecast,
)
from llm_planning.experiments.ledger import Ledger
from llm_planning.experiments.trial import Trial, TrialResult
from llm_serving.request import Usage

TASKS = ("a", "b", "c", "d")


def trials_of(planners=("cot",), *, ds=(1,), levels=(1,), tasks=TASKS, seeds=2, model="m"):
    return [
        Trial(
            planner=planner,
            domain="e",
            task=task,
            model=model,
            engines={"m": {"model": "m"}},
            seed=seed,
            settings={"d": d, "problem": level},
        )
        for planner in planners
        for d in ds
        for level in levels
        for task in tasks
        for seed in range(seeds)
    ]


def ended(trial, tokens, *, calls=3, started=0.0, seconds=2.0, error=None):
    return TrialResult(
        trial=trial,
        status="done" if error is None else "failed",
        error=error,
        usage={
            "one": Usage(calls=1, prompt_tokens=60, cached_tokens=7),
            "other": Usage(calls=calls - 1, prompt_tokens=10, completion_tokens=tokens),
            "similarity": Usage(calls=9),
        },
        started=started,
        seconds=seconds,
    )


def test_kinds_differ_in_more_than_task_and_seed_and_arms_in_more_than_the_problem():
    trials = trials_of(("cot", "too"), ds=(1, 2), levels=(1, 2, 3))
    assert [len(kind) for kind in by_kind(trials).values()] == [8] * 12
    assert [len(arm) for arm in by_arm(trials).values()] == [24] * 4
    # Which settings of a user's planner are the world's, nobody knows.
    own = trials_of(("mine.py:own",), ds=(1, 2), levels=(1, 2, 3))
    assert [len(arm) for arm in by_arm(own).values()] == [8] * 6


@pytest.mark.parametrize("count", [1, 3, 7, 12, 100])
def test_samples_are_spread_over_arms_and_tasks(count):
    trials = trials_of(("cot", "too"), ds=(1, 2))
    chosen = choose_samples(trials, count)
    assert len({trial.key for trial in chosen}) == len(chosen) == min(count, 32)
    arms = Counter((trial.planner, trial.settings["d"]) for trial in chosen)
    assert len(arms) == min(count, 4)
    assert max(arms.values()) - min(arms.values()) <= 1
    if count >= 12:
        assert len({trial.task for trial in chosen}) == 4


def test_two_of_each_arm_are_run_and_what_has_a_result_counts():
    trials = trials_of(("cot", "too"), levels=(1, 2, 3, 4))
    chosen = choose_samples(trials)
    assert Counter(trial.planner for trial in chosen) == {"cot": 2, "too": 2}
    assert len({trial.settings["problem"] for trial in chosen}) > 1
    assert choose_samples(trials, finished={trial.key for trial in chosen}) == []
    more = choose_samples(trials, 10, finished={trial.key for trial in chosen})
    assert len(more) == 6
    assert {trial.key for trial in more}.isdisjoint(trial.key for trial in chosen)
    assert len(choose_samples(trials_of(("cot",), ds=range(60)))) == 40


def test_a_sweep_costs_what_its_arms_cost():
    # Each arm has 8 trials, of 10, 20, 100 and 200 tokens each.
    trials = trials_of(("cot", "too"), ds=(1, 2))
    price = {"cot": 10, "too": 100}
    results = [ended(trial, price[trial.planner] * trial.settings["d"]) for trial in trials[::4]]
    expected = forecast(trials, results)
    assert (expected.total, expected.done, expected.left, expected.borrowed) == (32, 8, 24, 0)
    assert expected.completion_tokens == Amount(value=6 * 330, low=6 * 330, high=6 * 330)
    assert expected.questions.value == 24 * 3
    assert (expected.prompt_tokens.value, expected.cached_tokens.value) == (24 * 70, 24 * 7)
    assert [arm.fields for arm in expected.arms] == [
        {"planner": planner, "d": d} for planner in ("cot", "too") for d in (1, 2)
    ]


def test_the_interval_is_that_of_the_spread_between_trials_of_an_arm():
    trials = trials_of()
    results = [ended(trials[0], 10), ended(trials[1], 30)]
    expected = forecast(trials, results).completion_tokens
    # By hand: mean 20, standard deviation 14.142, t(1) = 12.706; 6 to come.
    half = 12.7062 * 14.14214 * 6 * (1 / 2 + 1 / 6) ** 0.5
    assert expected.value == 120
    assert expected.low == 0.0
    assert expected.high == pytest.approx(120 + half, rel=1e-5)
    more = [ended(trial, tokens) for trial, tokens in zip(trials, (18, 20, 22, 20), strict=False)]
    closer = forecast(trials, more).completion_tokens
    # Standard deviation 1.633, t(3) = 3.1824; 4 to come.
    assert closer.low == pytest.approx(80 - 3.18245 * 1.632993 * 4 * (1 / 4 + 1 / 4) ** 0.5)


def test_one_result_of_each_arm_says_nothing_of_the_spread():
    trials = trials_of(("cot", "too"))
    expected = forecast(trials, [ended(trials[0], 10), ended(trials[8], 100)])
    assert expected.completion_tokens == Amount(value=7 * 10 + 7 * 100)


def test_borrowed_results_say_nothing_of_the_spread_within_an_arm():
    trials = trials_of(("cot", "too"), ds=(1, 2))
    mine = [trial for trial in trials if trial.settings["d"] == 1]
    expected = forecast(trials, [ended(mine[0], 10), ended(mine[8], 100)])
    assert (expected.borrowed, expected.completion_tokens.low) == (2, None)


def test_an_arm_without_a_result_costs_what_its_planner_s_others_cost():
    trials = trials_of(("cot", "too"), ds=(1, 3))
    too = next(trial for trial in trials if trial.planner == "too")
    expected = forecast(trials, [ended(trials[0], 10), ended(too, 100)])
    assert expected.completion_tokens.value == 15 * 10 + 15 * 100
    assert expected.borrowed == 2
    rest = forecast(trials, [ended(trials[0], 10)])
    assert rest.completion_tokens.value == 31 * 10


def test_failed_trials_are_told_and_not_counted():
    trials = trials_of(("cot", "too"))
    failed = ended(trials[8], 0, error="E: broken")
    expected = forecast(trials, [ended(trials[0], 10), failed])
    assert expected.failed == {"E: broken": 1}
    assert expected.completion_tokens.value == 14 * 10
    nothing = forecast(trials, [failed])
    assert (nothing.done, nothing.left, nothing.seconds) == (0, 15, None)


def test_time_is_that_of_the_clock_where_trials_run_side_by_side():
    trials = trials_of()
    # Two at once for 10 s, a pause, one alone for 4 s: 24 s of trials in 14 s.
    spans = [(0.0, 10.0), (0.0, 10.0), (100.0, 4.0)]
    results = [
        ended(trial, 10, started=started, seconds=seconds)
        for trial, (started, seconds) in zip(trials, spans, strict=False)
    ]
    expected = forecast(trials, results)
    assert expected.at_once == pytest.approx(24 / 14)
    assert expected.seconds.value == pytest.approx(5 * 8 / (24 / 14))


def test_models_take_turns_so_each_has_its_own_number_at_once():
    asked, ruled = trials_of(), trials_of(("too",), model="none")
    results = [ended(trial, 10, seconds=10.0) for trial in asked[:2]]
    results += [ended(ruled[0], 0, calls=1, started=50.0, seconds=1.0)]
    expected = forecast([*asked, *ruled], results)
    assert expected.seconds.value == pytest.approx(6 * 10 / 2 + 7 * 1)


def test_answers_from_the_cache_tell_nothing_of_the_time():
    trials = trials_of()
    cached = replace(
        ended(trials[0], 10), usage={"one": Usage(calls=2, prompt_tokens=9, replayed=2)}
    )
    expected = forecast(trials, [cached])
    assert (expected.seconds, expected.replayed) == (None, 1.0)
    both = forecast(trials, [cached, ended(trials[1], 10, seconds=3.0)])
    assert both.seconds.value == pytest.approx(6 * 3)
    assert both.replayed == pytest.approx(2 / 5)


SWEEP = """
{name: small, planners: cot, tasks: [milk-a-cow, cook-meat], seeds: 3,
 retries: 0, settings: {d: [2, 3]}}
"""


@pytest.fixture
def served(monkeypatch, tmp_path):
    (tmp_path / "small.yaml").write_text(SWEEP)
    return serve(monkeypatch, tmp_path, {"decompose": ONE_OPTION})


def test_what_a_forecast_ran_is_done_and_the_sweep_goes_on(served, tmp_path):
    run = ("sweep", "run", "small.yaml", "--model", "qwen2.5-7b-instruct")
    told = answer(*run, "--forecast")
    assert (told["ran"], told["total"], told["done"], told["left"]) == (4, 12, 4, 8)
    assert told["questions"] == {"value": 8.0, "low": 8.0, "high": 8.0}
    assert told["completion_tokens"]["value"] == 8 * (len(ONE_OPTION) + 1)
    assert [arm["fields"] for arm in told["arms"]] == [
        {"planner": "cot", "d": 2},
        {"planner": "cot", "d": 3},
    ]
    assert served.asked == 4
    with Ledger.open(tmp_path / told["folder"]) as ledger:
        sampled = {row.result.trial.settings["d"]: row.key for row in ledger.rows()}
        assert len(ledger.finished()) == 4
    assert sampled.keys() == {2, 3}
    again = answer(*run, "--forecast")
    assert (again["ran"], again["done"], served.asked) == (0, 4, 4)
    assert answer(*run, "--forecast", "--samples", "6")["ran"] == 2
    ended = answer(*run)
    assert (ended["kept"], ended["done"], served.asked) == (6, 6, 12)
    everything = answer(*run, "--forecast")
    assert (everything["left"], everything["questions"]["value"]) == (0, 0)
    told = invoke(*run, "--forecast").stdout
    assert "All 12 trials have ended, so nothing is left to forecast.\n" in told
    assert told.endswith("sweep report sweeps/small-qwen2.5-7b-instruct\n")


def test_a_forecast_is_told_in_words(served):
    result = invoke("sweep", "run", "small.yaml", "--forecast")
    assert result.exit_code == 0, result.output
    assert "small: 4 trials were run for this, and count as done." in result.stdout
    assert "8 of 12 trials are left. By the 4 that are done" in result.stdout
    assert "questions       about 8 [8, 8]" in result.stdout
    assert result.stdout.endswith("Next: the same command without --forecast\n")
    state = answer("sweep", "status", "sweeps/small")
    assert (state["finished"], state["left"], state["process"]["state"]) == (4, 8, "absent")


def test_a_forecast_of_trials_that_fail_says_why(served):
    def fails(request):
        raise ValueError("no cow")

    served.script = fails
    result = invoke("sweep", "run", "small.yaml", "--forecast", "--samples", "1", "--no-cache")
    assert result.exit_code == 0, result.output
    assert "1 trials failed: ValueError: no cow" in result.stdout
    assert "No forecast: no trial has ended well." in result.stdout


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (("--samples", "2"), "--samples: only --forecast takes samples"),
        (("--dry-run", "--forecast"), "--dry-run runs nothing, and --forecast runs some trials"),
    ],
)
def test_a_forecast_is_asked_for_by_its_name(served, options, words):
    assert words in refused("sweep", "run", "small.yaml", *options)
    assert not served.configs
