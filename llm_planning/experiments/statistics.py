"""Estimates with their intervals, from a handful of runs.

The kind of estimate decides its interval; all have one level of confidence (`CONFIDENCE`):

    proportion       Wilson's score interval: stays within [0, 1] and keeps its coverage where the
                     success rate is 0 or 1, as is common with three runs.
    portion          The mean of shares, such as the share of a plan's executions that were won:
                     Wilson's as well. Values within [0, 1] vary at most as much as successes and
                     failures with the same mean, and Student's t would leave [0, 1].
    mean             Student's t. A sweep repeats a trial three to ten times; there a bootstrap is
                     too narrow (it resamples the few values seen, and knows no fatter tails),
                     whereas t is exact for normal values and errs little for counts of calls.
    cost             The mean of what is never below zero, such as calls and seconds: Student's t,
                     cut at zero. The part that is cut off holds no possible mean, so the level of
                     confidence stays.
    mean of groups   The groups (a paper's tasks) are fixed: another run of the same table has the
                     same ones. Each weighs alike, the interval is over repeats within groups, with
                     Welch's and Satterthwaite's degrees of freedom.
    median           Order statistics: exact whatever the distribution, and free of random draws.
    difference of paired proportions
                     Newcombe's hybrid score interval (method 10).
    other differences
                     Student's t over pairs or units; that of shares is cut at -1 and 1.
    by units         Runs or pairs that share something that was drawn, such as an oracle's errors
                     or a learned graph, are not independent; the units that share nothing are.
                     Student's t over the units; a share's interval is cut at 0 and 1, and is
                     Wilson's where all units are alike.
    equal values     None, but for proportions and shares: a mean of them says nothing of chance.
    odds ratio       Woolf's: normal in the logarithm.

Papers that print Wald's interval of a proportion are shown beside Wald's; it is too narrow near 0
and 1, and of no width at them. Fisher's exact test is two-sided.

An estimate without an interval has a reason; a p-value needs none.

Sources: E. B. Wilson, JASA 22 (1927) 209-212; B. L. Welch, Biometrika 34 (1947) 28-35;
B. Woolf, Annals of Human Genetics 19 (1955) 251-253; R. G. Newcombe, Statistics in Medicine 17
(1998) 2635-2650.
"""

from __future__ import annotations

import math
import statistics as descriptive
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final, Literal, NamedTuple, TypeAlias

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

CONFIDENCE = 0.95
"""Coverage of every interval."""

Interval: TypeAlias = Literal["wilson", "wald"]
"""The intervals that a proportion may have."""

WILSON = "Wilson score"
WALD = "Wald"
STUDENT = "Student's t"
STRATIFIED = "Student's t over repeats within groups that weigh alike"
ORDER = "order statistics"
NEWCOMBE = "Newcombe's hybrid score for pairs"
UNITS = "Student's t over independent units"
WOOLF = "Woolf's for odds ratios"
FISHER = "Fisher's exact test, two-sided"

NO_RUNS = "no runs"
ONE_RUN = "one run"
ALL_EQUAL = "equal"
EMPTY_CELL = "a count is 0"

NOTHING = "–"
"""The text of a cell without a figure."""

Form: TypeAlias = Literal["number", "thousands", "percent"]
"""How a number is written."""

_DIGITS = 3
_SMALL = 1e-5
"""Numbers below are written with an exponent."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Estimate:
    """A number from several runs.

    Attributes:
        value: the estimate; None if there is none.
        low: lower end of the interval; None without an interval.
        high: upper end of the interval; None without an interval.
        n: number of values; for a mean of groups, of all groups together.
        reason: why there is no value or no interval; None if nothing is missing.
    """

    value: float | None
    low: float | None = None
    high: float | None = None
    n: int
    method: str
    reason: str | None = None


class Counts(NamedTuple):
    """How often something succeeded.

    Attributes:
        n: the runs.
    """

    successes: int
    n: int

    @property
    def failures(self) -> int:
        """The other runs."""
        return self.n - self.successes


def proportion(successes: int, n: int, *, interval: Interval = "wilson") -> Estimate:
    """Share of successes.

    Raises:
        ValueError: the successes are not between 0 and n.
    """
    if not 0 <= successes <= n:
        raise ValueError(f"{successes} successes in {n} runs")
    return _share(successes, n, interval)


def portion(values: Sequence[float]) -> Estimate:
    """Mean of shares with Wilson's score interval, which is as wide as any of that mean needs.

    Args:
        values: shape [n], each within [0, 1], independent of each other.

    Raises:
        ValueError: a value is outside [0, 1].
    """
    if not all(0.0 <= value <= 1.0 for value in values):
        raise ValueError(f"shares from {min(values)} to {max(values)} are not all within 0 and 1")
    return _share(math.fsum(values), len(values), "wilson")


def _share(total: float, n: int, interval: Interval) -> Estimate:
    """The mean of n values within [0, 1]."""
    method, ends = _INTERVALS[interval]
    if n == 0:
        return Estimate(value=None, n=0, method=method, reason=NO_RUNS)
    share = total / n
    if n == 1:
        return Estimate(value=share, n=1, method=method, reason=ONE_RUN)
    low, high = ends(share, n)
    return Estimate(value=share, low=low, high=high, n=n, method=method)


def odds_ratio(first: Counts, second: Counts) -> Estimate:
    """Odds of success of the first over those of the second, a·d / (b·c), in independent runs.

    It has no finite value if the first never fails or the second never succeeds.

    Args:
        first: a successes and b failures.
        second: c successes and d failures.

    Returns:
        The ratio; `n` counts the runs of both.
    """
    n = first.n + second.n
    if not (first.n and second.n):
        return Estimate(value=None, n=n, method=WOOLF, reason=NO_RUNS)
    above, below = first.successes * second.failures, first.failures * second.successes
    if below == 0:
        return Estimate(value=None, n=n, method=WOOLF, reason=EMPTY_CELL)
    if above == 0:
        return Estimate(value=0.0, n=n, method=WOOLF, reason=EMPTY_CELL)
    ratio = above / below
    counts = (first.successes, first.failures, second.successes, second.failures)
    factor = math.exp(_normal() * math.sqrt(sum(1 / count for count in counts)))
    return Estimate(value=ratio, low=ratio / factor, high=ratio * factor, n=n, method=WOOLF)


def fisher(first: Counts, second: Counts) -> Estimate:
    """p-value of Fisher's exact test that two rates of success are equal, in independent runs.

    Returns:
        The p-value; `n` counts the runs of both.
    """
    n = first.n + second.n
    if not (first.n and second.n):
        return Estimate(value=None, n=n, method=FISHER, reason=NO_RUNS)
    from scipy.stats import fisher_exact

    table = [[side.successes, side.failures] for side in (first, second)]
    return Estimate(value=float(fisher_exact(table).pvalue), n=n, method=FISHER)


def mean(values: Sequence[float]) -> Estimate:
    """Mean with Student's t.

    Equal values have no interval: that of Student would have no width, as if nothing else could
    come out, and seeds that change nothing are no repeats.

    Args:
        values: shape [n], independent of each other.
    """
    n = len(values)
    if n == 0:
        return Estimate(value=None, n=0, method=STUDENT, reason=NO_RUNS)
    centre = descriptive.fmean(values)
    if n == 1:
        return Estimate(value=centre, n=1, method=STUDENT, reason=ONE_RUN)
    if min(values) == max(values):
        return Estimate(value=centre, n=n, method=STUDENT, reason=ALL_EQUAL)
    half = student(n - 1) * descriptive.stdev(values) / math.sqrt(n)
    return Estimate(value=centre, low=centre - half, high=centre + half, n=n, method=STUDENT)


def mean_of_groups(groups: Sequence[Sequence[float]]) -> Estimate:
    """Mean of the groups' means; the interval is over repeats within the groups.

    With G groups of n_g values and variances v_g, the squared standard error is Σ v_g/n_g / G².

    Args:
        groups: shape [G][n_g]; groups without values are left out.
    """
    full = [group for group in groups if group]
    if len(full) <= 1:
        return mean(full[0] if full else ())
    n = sum(map(len, full))
    centre = descriptive.fmean(map(descriptive.fmean, full))
    if min(map(len, full)) == 1:
        alone = sum(len(group) == 1 for group in full)
        reason = f"one run only in {alone} of {len(full)} groups"
        return Estimate(value=centre, n=n, method=STRATIFIED, reason=reason)
    parts = [descriptive.variance(group) / len(group) for group in full]
    total = sum(parts)
    if total == 0.0:
        return Estimate(value=centre, n=n, method=STRATIFIED, reason=ALL_EQUAL)
    freedom = total**2 / sum(
        part**2 / (len(group) - 1) for part, group in zip(parts, full, strict=True)
    )
    half = student(freedom) * math.sqrt(total) / len(full)
    return Estimate(value=centre, low=centre - half, high=centre + half, n=n, method=STRATIFIED)


def within(estimate: Estimate, low: float, high: float = math.inf) -> Estimate:
    """The same with the part of its interval cut off that holds no possible value."""
    if estimate.low is None or estimate.high is None:
        return estimate
    return replace(estimate, low=max(low, estimate.low), high=min(high, estimate.high))


def median(values: Sequence[float]) -> Estimate:
    """Median with the narrowest symmetric pair of order statistics that covers it.

    Fewer than six values have no such pair at 95%.

    Args:
        values: shape [n], independent of each other.
    """
    n = len(values)
    if n == 0:
        return Estimate(value=None, n=0, method=ORDER, reason=NO_RUNS)
    centre = descriptive.median(values)
    if n == 1:
        return Estimate(value=centre, n=1, method=ORDER, reason=ONE_RUN)
    tail = (1.0 - CONFIDENCE) / 2
    # The largest r with P(Binomial(n, 1/2) < r) <= tail: the r-th value from either end.
    rank, below = 0, 0.0
    while (below := below + math.comb(n, rank) / 2**n) <= tail:
        rank += 1
    if rank == 0:
        return Estimate(value=centre, n=n, method=ORDER, reason=f"{n} runs, fewer than 6")
    ordered = sorted(values)
    return Estimate(value=centre, low=ordered[rank - 1], high=ordered[-rank], n=n, method=ORDER)


def paired_difference(pairs: Sequence[tuple[float, float]]) -> Estimate:
    """Mean of first minus second, over trials that differ in nothing else.

    Args:
        pairs: shape [n].
    """
    return mean([first - second for first, second in pairs])


def paired_by_unit(units: Sequence[Sequence[tuple[float, float]]]) -> Estimate:
    """Mean of first minus second, where only pairs of different units are independent.

    Each unit counts as one value, the mean difference of its pairs; units weigh alike.

    Args:
        units: shape [n][pairs of the unit]; units without pairs are left out.

    Returns:
        The difference; `n` counts the units.
    """
    full = [unit for unit in units if unit]
    return mean_of_units(
        [descriptive.fmean(first - second for first, second in unit) for unit in full]
    )


def paired_proportions(pairs: Sequence[tuple[bool, bool]]) -> Estimate:
    """Success rate of the first minus that of the second, over the same trials.

    Args:
        pairs: shape [n], whether the first and the second succeeded.
    """
    n = len(pairs)
    if n == 0:
        return Estimate(value=None, n=0, method=NEWCOMBE, reason=NO_RUNS)
    both = sum(first and second for first, second in pairs)
    only_first = sum(first and not second for first, second in pairs)
    only_second = sum(second and not first for first, second in pairs)
    p, q = (both + only_first) / n, (both + only_second) / n
    if n == 1:
        return Estimate(value=p - q, n=1, method=NEWCOMBE, reason=ONE_RUN)
    phi = _phi(both, only_first, only_second, n - both - only_first - only_second)
    p_low, p_high = _wilson(p, n)
    q_low, q_high = _wilson(q, n)
    low = p - q - _joined(p - p_low, q_high - q, phi)
    high = p - q + _joined(p_high - p, q - q_low, phi)
    return Estimate(value=p - q, low=low, high=high, n=n, method=NEWCOMBE)


def mean_of_units(values: Sequence[float]) -> Estimate:
    """Mean over independent units, each of which is a mean itself.

    Args:
        values: shape [n].
    """
    return replace(mean(values), method=UNITS)


def share_of_units(values: Sequence[float]) -> Estimate:
    """Mean over independent units, each of which is a share.

    Args:
        values: shape [n], each within [0, 1].
    """
    estimate = mean_of_units(values)
    if estimate.reason == ALL_EQUAL:
        return portion(values)
    return within(estimate, 0.0, 1.0)


def _normal() -> float:
    """Two-sided critical value of the normal distribution."""
    return descriptive.NormalDist().inv_cdf((1.0 + CONFIDENCE) / 2)


def _wilson(share: float, n: int) -> tuple[float, float]:
    z = _normal()
    scale = 1.0 + z * z / n
    centre = (share + z * z / (2 * n)) / scale
    half = z * math.sqrt(share * (1.0 - share) / n + z * z / (4 * n * n)) / scale
    # At shares of 0 and 1 an end is exactly 0 or 1, which rounding would miss.
    return (
        0.0 if share == 0.0 else max(0.0, centre - half),
        1.0 if share == 1.0 else min(1.0, centre + half),
    )


def _wald(share: float, n: int) -> tuple[float, float]:
    half = _normal() * math.sqrt(share * (1.0 - share) / n)
    return max(0.0, share - half), min(1.0, share + half)


_INTERVALS: Final[Mapping[Interval, tuple[str, Callable[[float, int], tuple[float, float]]]]] = {
    "wilson": (WILSON, _wilson),
    "wald": (WALD, _wald),
}
"""Interval -> its name in reports, and its ends around a share of n runs."""


def student(freedom: float) -> float:
    """Two-sided critical value of Student's t."""
    from scipy.special import stdtrit

    return float(stdtrit(freedom, (1.0 + CONFIDENCE) / 2))


def _phi(a: int, b: int, c: int, d: int) -> float:
    """Correlation of a 2 x 2 table, with Newcombe's continuity correction if positive."""
    margins = (a + b) * (c + d) * (a + c) * (b + d)
    if margins == 0:
        return 0.0
    cross = float(a * d - b * c)
    if cross > 0:
        cross = max(cross - (a + b + c + d) / 2, 0.0)
    return cross / math.sqrt(margins)


def _joined(first: float, second: float, phi: float) -> float:
    # Rounding may make a sum of 0 slightly negative.
    return math.sqrt(max(0.0, first * first - 2 * phi * first * second + second * second))


def write_number(value: float, form: Form) -> str:
    """Writes a whole percent, or three significant digits and all that stand before the point."""
    if form == "thousands":
        return f"{_significant(value / 1e3)}k"
    if form == "percent":
        return f"{100 * value:z.0f}%"
    return _significant(value)


def write_estimate(estimate: Estimate, form: Form) -> str:
    """A number and its interval, such as `74% [70, 78]` or `0.912k [0.85k, 0.974k]`."""
    if estimate.value is None:
        return NOTHING
    value = write_number(estimate.value, form)
    if estimate.low is None or estimate.high is None:
        return value
    low, high = (write_number(end, form).removesuffix("%") for end in (estimate.low, estimate.high))
    return f"{value} [{low}, {high}]"


def _significant(value: float) -> str:
    if value == 0 or not math.isfinite(value):
        return f"{value:g}"
    if abs(value) < _SMALL:
        return f"{value:.{_DIGITS}g}"
    places = _DIGITS - 1 - math.floor(math.log10(abs(value)))
    rounded = round(value, places)
    if places <= 0:
        return f"{round(value):,}"
    text = f"{rounded:.{places}f}"
    return text.rstrip("0").rstrip(".")
