"""Who leads in a domain, and how sure that is."""

from dataclasses import replace

import pytest
from report_ledgers import result_of, trial_of

from llm_planning.experiments.runs import result_record, runs_of, swept, trial_record, varying
from llm_planning.experiments.summary import leads


def runs_with(wins, **settings):
    """Runs of planners on the same seeds: planner -> whether each run succeeded."""
    return runs_of(
        result_record(result_of(trial_of(planner, seed=seed, **settings), success=won), attempts=1)
        for planner, some in wins.items()
        for seed, won in enumerate(some)
    )


def test_the_best_leads_by_the_paired_difference():
    runs = runs_with({"cot": [0, 0, 1, 0] * 5, "too": [1, 1, 1, 0] * 5, "react": [0] * 20})
    (lead,) = leads(runs, by=("planner",))
    assert (lead.domain, lead.first, lead.second, lead.reason) == (
        "minecraft",
        ("too",),
        ("cot",),
        None,
    )
    estimate = lead.difference.estimate
    assert (estimate.value, estimate.n, lead.difference.alone) == (0.5, 20, 0)
    assert 0 < estimate.low < 0.5 < estimate.high


def test_of_equals_the_cheaper_leads():
    results = [
        result_of(trial_of(planner, seed=seed), success=True, calls=calls)
        for planner, calls in (("dear", 9), ("cheap", 2))
        for seed in range(3)
    ]
    (lead,) = leads(
        runs_of(result_record(result, attempts=1) for result in results), by=("planner",)
    )
    assert (lead.first, lead.second) == (("cheap",), ("dear",))
    assert lead.difference.estimate.value == 0.0


def test_domains_have_their_own_leads():
    here = [result_of(trial_of("cot", seed=seed), success=True) for seed in range(2)]
    there = [
        result_of(replace(trial_of(name, seed=seed), domain="household"), success=name == "uct")
        for name in ("uct", "cot")
        for seed in range(2)
    ]
    runs = runs_of(result_record(result, attempts=1) for result in (*here, *there))
    alone, paired = leads(runs, by=("planner",))
    assert (alone.domain, alone.first, alone.second, alone.difference) == (
        "minecraft",
        ("cot",),
        None,
        None,
    )
    assert (paired.domain, paired.first, paired.second) == ("household", ("uct",), ("cot",))


def test_runs_that_cannot_be_paired_say_why():
    several = [
        result_of(trial_of("too", k=k, seed=seed), success=True)
        for k in (1, 3)
        for seed in range(2)
    ]
    other = [result_of(trial_of("cot", seed=seed), success=False) for seed in range(2)]
    runs = runs_of(result_record(result, attempts=1) for result in (*several, *other))
    (lead,) = leads(runs, by=("planner",))
    assert lead.difference is None
    assert "cannot pair too on mine, seed 0" in lead.reason
    listed = [
        result_of(trial_of("too", weights=weights), success=True) for weights in ([1], [1, 2])
    ]
    runs = runs_of(result_record(result, attempts=1) for result in listed)
    (lead,) = leads(runs, by=("planner", "settings.weights"))
    assert lead.reason == "they differ in a setting that is a list"


@pytest.mark.parametrize(("attempts", "pairs"), [(2, 4), (3, 0)])
def test_the_defaults_of_different_planners_leave_trials_alike(attempts, pairs):
    records = [
        result_record(result_of(trial, success=True), attempts=1)
        for seed in range(4)
        for trial in (
            trial_of("drip", seed=seed, attempts=1),
            trial_of("drip-plus", seed=seed, attempts=attempts),
        )
    ]
    (lead,) = leads(runs_of(records), by=("planner",))
    assert (lead.difference.estimate.n, lead.difference.alone) == (pairs, 8 - 2 * pairs)
    # What somebody has set is named; only a planner of the user's own has no known default.
    assert ("settings.attempts" in varying(records)) == (attempts == 3)
    own = [{**record, "planner": f"own.py:{record['planner'][:4]}"} for record in records]
    assert "settings.attempts" in varying(own)


def test_a_group_with_few_trials_does_not_lead():
    runs = runs_with({"cot": [1, 0, 1, 0], "too": [1], "react": [0, 1]})
    (lead,) = leads(runs, by=("planner",))
    assert {lead.first, lead.second} == {("react",), ("cot",)}
    assert lead.few == (("too",),)
    (lead,) = leads(runs_with({"cot": [0] * 4, "too": [1]}), by=("planner",))
    assert (lead.first, lead.second, lead.few) == (("cot",), None, (("too",),))


def test_nobody_leads_where_nothing_was_judged():
    runs = runs_of(
        [
            result_record(result_of(trial_of("too")), attempts=1),
            trial_record(trial_of("too", seed=1)),
        ]
    )
    assert leads(runs, by=("planner",)) == ()


@pytest.mark.parametrize(
    ("trials", "fields"),
    [
        ([trial_of("too", k=1), trial_of("cot", d=2)], ()),
        ([trial_of("too", k=1), trial_of("too", k=3, task="sky")], ()),
        ([trial_of("too", k=1), trial_of("too", k=3)], ("settings.k",)),
        ([trial_of("too"), trial_of("too", seed=1)], ()),
        ([trial_of("too"), replace(trial_of("too"), model="large")], ("model",)),
        ([trial_of("too", w=[1]), trial_of("too", w=[2])], ("settings.w",)),
    ],
)
def test_what_differs_only_between_planners_or_tasks_is_not_swept(trials, fields):
    assert swept(map(trial_record, trials)) == fields
