"""Estimates and their intervals, against SciPy and against numbers computed by hand."""

import math
from dataclasses import replace

import numpy as np
import pytest
import scipy.stats
from hypothesis import given, settings
from hypothesis import strategies as st

from llm_planning.experiments.statistics import (
    EMPTY_CELL,
    NO_RUNS,
    Counts,
    fisher,
    mean,
    mean_of_groups,
    mean_of_units,
    median,
    odds_ratio,
    paired_by_unit,
    paired_difference,
    paired_proportions,
    portion,
    proportion,
    share_of_units,
    within,
)

SHARES = st.lists(st.floats(0.0, 1.0), min_size=2, max_size=30)
VALUES = st.lists(st.floats(-1e6, 1e6), min_size=2, max_size=30)


def ends(estimate):
    return estimate.low, estimate.high


def pairs_of(both, first, second, neither):
    return (
        [(True, True)] * both
        + [(True, False)] * first
        + [(False, True)] * second
        + [(False, False)] * neither
    )


@pytest.mark.parametrize(("k", "n"), [(0, 3), (1, 2), (3, 3), (7, 10), (0, 50), (499, 500)])
def test_wilson_agrees_with_scipy(k, n):
    known = scipy.stats.binomtest(k, n).proportion_ci(0.95, method="wilson")
    estimate = proportion(k, n)
    assert estimate.value == k / n
    assert ends(estimate) == pytest.approx((known.low, known.high), abs=1e-12)


def test_wilson_by_hand():
    # (p + z²/2n ± z √(p(1-p)/n + z²/4n²)) / (1 + z²/n) with p = 2/3, n = 3, z = 1.959964
    assert ends(proportion(2, 3)) == pytest.approx((0.20766, 0.93851), abs=1e-5)


@settings(max_examples=50)
@given(st.integers(2, 200).flatmap(lambda n: st.tuples(st.integers(0, n), st.just(n))))
def test_a_proportion_lies_within_its_interval_and_that_within_0_and_1(counts):
    k, n = counts
    estimate = proportion(k, n)
    assert 0.0 <= estimate.low <= k / n <= estimate.high <= 1.0


def test_impossible_counts_are_refused():
    with pytest.raises(ValueError, match="4 successes in 3 runs"):
        proportion(4, 3)


@settings(max_examples=50)
@given(VALUES.filter(lambda values: np.std(values) > 1.0))
def test_mean_agrees_with_scipy(values):
    estimate = mean(values)
    known = scipy.stats.ttest_1samp(values, 0.0).confidence_interval(0.95)
    assert ends(estimate) == pytest.approx((known.low, known.high), rel=1e-6, abs=1e-6)
    assert estimate.value == pytest.approx(np.mean(values), rel=1e-9, abs=1e-9)


@settings(max_examples=50)
@given(SHARES)
def test_a_portion_lies_within_its_interval_and_that_within_0_and_1(values):
    estimate = portion(values)
    assert 0.0 <= estimate.low <= estimate.value + 1e-12
    assert estimate.value - 1e-12 <= estimate.high <= 1.0


def test_a_portion_of_thirds_has_the_interval_of_the_successes_with_its_mean():
    # Four plans, of which 3, 3, 2 and 1 of 3 executions were won: as 3 successes in 4.
    thirds = portion([1.0, 1.0, 2 / 3, 1 / 3])
    assert thirds.value == pytest.approx(0.75)
    assert ends(thirds) == pytest.approx(ends(proportion(3, 4)))
    with pytest.raises(ValueError, match=r"from 0\.5 to 1\.5"):
        portion([0.5, 1.5])


def test_mean_by_hand():
    # s = 1, t_{0.975, 2} = 4.302653: 2 ± 4.302653 / √3
    assert ends(mean([1, 2, 3])) == pytest.approx((2 - 2.484138, 2 + 2.484138), abs=1e-6)


def test_mean_of_two_groups_is_half_of_welchs_sum():
    first, second = [1.0, 2.0, 4.0], [10.0, 30.0, 20.0, 44.0]
    known = scipy.stats.ttest_ind(first, np.negative(second), equal_var=False)
    interval = known.confidence_interval(0.95)
    estimate = mean_of_groups([first, second])
    assert estimate.value == pytest.approx((7 / 3 + 26) / 2)
    assert ends(estimate) == pytest.approx((interval.low / 2, interval.high / 2))
    assert estimate.n == 7


def test_groups_weigh_alike_whatever_their_number_of_runs():
    assert mean_of_groups([[0.0, 0.0, 0.0, 0.0], [10.0, 10.0]]).value == 5.0


def test_groups_that_differ_widely_leave_the_interval_of_their_repeats():
    estimate = mean_of_groups([[1.0, 1.2], [1000.0, 1000.2]])
    assert estimate.high - estimate.low < 1.0


def test_the_interval_of_a_cost_begins_at_zero_and_keeps_its_upper_end():
    whole = mean([0.0, 0.0, 3.0])
    assert whole.low < 0
    assert within(whole, 0.0) == replace(whole, low=0.0)
    assert within(mean([4.0, 5.0]), 0.0) == replace(mean([4.0, 5.0]), low=0.0)
    for already in (mean([4.0, 4.1]), mean([4.0]), mean([])):
        assert within(already, 0.0) == already


@pytest.mark.parametrize(
    "estimate",
    [mean([4.0, 4.0]), mean_of_groups([[3.0, 3.0], [5.0, 5.0]]), mean_of_units([4.0] * 5)],
)
def test_equal_values_have_no_interval(estimate):
    """One of no width would say that nothing else can come out."""
    assert (estimate.value, *ends(estimate), estimate.reason) == (4.0, None, None, "equal")


def test_a_group_of_one_leaves_no_interval_and_says_so():
    estimate = mean_of_groups([[1.0, 2.0], [5.0]])
    assert (estimate.value, *ends(estimate)) == (3.25, None, None)
    assert estimate.reason == "one run only in 1 of 2 groups"


def test_one_group_is_a_plain_mean():
    assert mean_of_groups([[1.0, 2.0, 3.0], []]) == mean([1.0, 2.0, 3.0])


@pytest.mark.parametrize("n", [6, 7, 8, 9, 20, 33])
def test_median_agrees_with_scipy(n):
    values = np.random.default_rng(n).normal(size=n)
    known = scipy.stats.quantile_test(values, p=0.5).confidence_interval(0.95)
    estimate = median(values.tolist())
    assert estimate.value == np.median(values)
    assert ends(estimate) == (known.low, known.high)


def test_median_by_hand():
    # Six values: P(all on one side) = 2/64 = 3.1% < 5%, so the ends are the extremes.
    assert ends(median([6, 1, 2, 3, 5, 4])) == (1, 6)


def test_five_values_are_too_few_for_a_median_at_95_percent():
    estimate = median([1, 2, 3, 4, 5])
    assert (estimate.value, *ends(estimate)) == (3, None, None)
    assert estimate.reason == "5 runs, fewer than 6"


def test_paired_difference_is_the_mean_of_the_differences():
    known = scipy.stats.ttest_rel([5, 7, 9], [1, 4, 7]).confidence_interval(0.95)
    estimate = paired_difference([(5, 1), (7, 4), (9, 7)])
    assert estimate.value == 3.0
    assert ends(estimate) == pytest.approx((known.low, known.high))


def test_pairs_of_one_unit_count_as_one():
    units = [[(1, 0), (1, 0), (0, 0), (1, 1)], [(1, 0)] * 4, [(0, 0), (1, 0), (0, 1), (1, 0)]]
    known = scipy.stats.ttest_1samp([0.5, 1.0, 0.25], 0).confidence_interval(0.95)
    estimate = paired_by_unit([*units, []])
    assert (estimate.value, estimate.n) == (pytest.approx(1.75 / 3), 3)
    assert ends(estimate) == pytest.approx((known.low, known.high))
    assert ends(paired_by_unit([unit * 9 for unit in units])) == pytest.approx(ends(estimate))


def test_shares_of_units_stay_within_0_and_1_and_alike_ones_keep_a_width():
    known = scipy.stats.ttest_1samp([0.5, 0.75, 1.0], 0).confidence_interval(0.95)
    assert ends(mean_of_units([0.5, 0.75, 1.0])) == pytest.approx((known.low, known.high))
    estimate = share_of_units([0.5, 0.75, 1.0])
    assert (estimate.value, estimate.n) == (0.75, 3)
    assert ends(estimate) == (pytest.approx(known.low), 1.0)
    assert known.high > 1.0
    assert ends(share_of_units([0.0] * 10)) == ends(proportion(0, 10))


def test_paired_proportions_agree_with_newcombes_example():
    # Newcombe (1998), the table 36, 12, 2, 0, method 10: 0.0569 to 0.3404.
    estimate = paired_proportions(pairs_of(36, 12, 2, 0))
    assert estimate.value == pytest.approx(0.2)
    assert ends(estimate) == pytest.approx((0.0569, 0.3404), abs=5e-5)


def test_paired_proportions_turn_around_with_their_sides():
    forth = paired_proportions(pairs_of(5, 3, 1, 4))
    back = paired_proportions(pairs_of(5, 1, 3, 4))
    assert (forth.value, *ends(forth)) == pytest.approx(
        (-back.value, -back.high, -back.low), abs=1e-12
    )


@settings(max_examples=50)
@given(st.tuples(*[st.integers(0, 12)] * 4).filter(lambda counts: sum(counts) > 1))
def test_a_paired_difference_lies_within_its_interval(counts):
    estimate = paired_proportions(pairs_of(*counts))
    assert -1.0 - 1e-9 <= estimate.low <= estimate.value + 1e-12
    assert estimate.value - 1e-12 <= estimate.high <= 1.0 + 1e-9
    assert math.isfinite(estimate.low)


@pytest.mark.parametrize(
    "estimate",
    [
        proportion(1, 1),
        portion([1.0]),
        mean([3.0]),
        mean_of_groups([[3.0]]),
        median([3.0]),
        paired_difference([(4.0, 1.0)]),
        paired_by_unit([[(4.0, 1.0)] * 7]),
        paired_proportions([(True, False)]),
    ],
)
def test_one_run_has_no_interval_and_says_so(estimate):
    assert estimate.value in {1.0, 3.0}
    assert (estimate.n, estimate.low, estimate.high, estimate.reason) == (1, None, None, "one run")


@pytest.mark.parametrize(
    "estimate",
    [
        proportion(0, 0),
        portion([]),
        mean([]),
        mean_of_groups([]),
        mean_of_groups([[]]),
        median([]),
        paired_difference([]),
        paired_by_unit([[]]),
        paired_proportions([]),
    ],
)
def test_no_runs_have_no_value(estimate):
    assert (estimate.value, estimate.n, estimate.reason) == (None, 0, "no runs")


def test_wald_by_hand():
    # p ± z √(p(1-p)/n) with p = 45/110: 0.40909 ± 1.959964 · 0.046879
    estimate = proportion(45, 110, interval="wald")
    assert ends(estimate) == pytest.approx((0.31721, 0.50097), abs=1e-5)
    # 2/110 reaches below 0, where it is cut; at 0 the interval has no width.
    assert ends(proportion(2, 110, interval="wald")) == pytest.approx((0.0, 0.04315), abs=1e-5)
    assert ends(proportion(0, 110, interval="wald")) == (0.0, 0.0)


@pytest.mark.parametrize(
    ("first", "second"), [((45, 110), (26, 110)), ((3, 4), (1, 9)), ((1, 50), (49, 50))]
)
def test_odds_ratio_agrees_with_scipy(first, second):
    (a, n), (c, m) = first, second
    known = scipy.stats.contingency.odds_ratio([[a, n - a], [c, m - c]], kind="sample")
    interval = known.confidence_interval(0.95)
    estimate = odds_ratio(Counts(a, n), Counts(c, m))
    assert estimate.value == pytest.approx(known.statistic)
    assert ends(estimate) == pytest.approx((interval.low, interval.high))
    assert estimate.n == n + m


def test_odds_ratio_with_an_empty_count():
    never_fails = odds_ratio(Counts(9, 9), Counts(3, 9))
    never_succeeds = odds_ratio(Counts(0, 9), Counts(3, 9))
    assert (never_fails.value, never_fails.reason) == (None, EMPTY_CELL)
    assert (never_succeeds.value, never_succeeds.low) == (0.0, None)


def test_fisher_by_hand():
    # 3 of 3 against 0 of 3: the two extreme tables of C(6, 3) = 20.
    assert fisher(Counts(3, 3), Counts(0, 3)).value == pytest.approx(2 / 20)
    # 2 of 3 against 1 of 3: every table is at most as likely.
    assert fisher(Counts(2, 3), Counts(1, 3)).value == pytest.approx(1.0)


@pytest.mark.parametrize("compare", [odds_ratio, fisher])
def test_nothing_is_compared_without_runs(compare):
    estimate = compare(Counts(0, 0), Counts(3, 9))
    assert (estimate.value, estimate.reason) == (None, NO_RUNS)
