"""Estimates with their intervals, from a handful of runs.

The kind of estimate decides its interval; all have one level of confidence (`CONFIDENCE`):

    proportion       Wilson's score interval: stays within [0, 1] and keeps its coverage where the
                     success rate is 0 or 1, as is common with three runs.
    mean             Student's t. A sweep repeats a trial three to ten times; there a bootstrap is
                     too narrow (it resamples the few values seen, and knows no fatter tails),
                     whereas t is exact for normal values and errs little for counts of calls.
    mean of groups   The groups (a paper's tasks) are fixed: another run of the same table has the
                     same ones. Each weighs alike, the interval is over repeats within groups, with
                     Welch's and Satterthwaite's degrees of freedom.
    median           Order statistics: exact whatever the distribution, and free of random draws.
    difference of paired proportions
                     Newcombe's hybrid score interval (method 10).

An estimate without an interval has a reason.

Sources: E. B. Wilson, JASA 22 (1927) 209-212; B. L. Welch, Biometrika 34 (1947) 28-35;
R. G. Newcombe, Statistics in Medicine 17 (1998) 2635-2650.
"""

from __future__ import annotations

import math
import statistics as descriptive
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

CONFIDENCE = 0.95
"""Coverage of every interval."""

WILSON = "Wilson score"
STUDENT = "Student's t"
STRATIFIED = "Student's t over repeats within groups that weigh alike"
ORDER = "order statistics"
NEWCOMBE = "Newcombe's hybrid score for pairs"

NO_RUNS = "no runs"
ONE_RUN = "one run"


@dataclass(frozen=True, slots=True, kw_only=True)
class Estimate:
    """A number from several runs.

    Attributes:
        value: the estimate; None without runs.
        low: lower end of the interval; None without an interval.
        high: upper end of the interval; None without an interval.
        n: number of values; for a mean of groups, of all groups together.
        method: of the interval.
        reason: why there is no interval; None if there is one.
    """

    value: float | None
    low: float | None = None
    high: float | None = None
    n: int
    method: str
    reason: str | None = None


def proportion(successes: int, n: int) -> Estimate:
    """Share of successes with Wilson's interval.

    Raises:
        ValueError: the successes are not between 0 and n.
    """
    if not 0 <= successes <= n:
        raise ValueError(f"{successes} successes in {n} runs")
    if n == 0:
        return Estimate(value=None, n=0, method=WILSON, reason=NO_RUNS)
    share = successes / n
    if n == 1:
        return Estimate(value=share, n=1, method=WILSON, reason=ONE_RUN)
    low, high = _wilson(share, n)
    return Estimate(value=share, low=low, high=high, n=n, method=WILSON)


def mean(values: Sequence[float]) -> Estimate:
    """Mean with Student's t.

    Args:
        values: shape [n], independent of each other.
    """
    n = len(values)
    if n == 0:
        return Estimate(value=None, n=0, method=STUDENT, reason=NO_RUNS)
    centre = descriptive.fmean(values)
    if n == 1:
        return Estimate(value=centre, n=1, method=STUDENT, reason=ONE_RUN)
    half = _student(n - 1) * descriptive.stdev(values) / math.sqrt(n)
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
        return Estimate(value=centre, low=centre, high=centre, n=n, method=STRATIFIED)
    freedom = total**2 / sum(
        part**2 / (len(group) - 1) for part, group in zip(parts, full, strict=True)
    )
    half = _student(freedom) * math.sqrt(total) / len(full)
    return Estimate(value=centre, low=centre - half, high=centre + half, n=n, method=STRATIFIED)


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


def _wilson(share: float, n: int) -> tuple[float, float]:
    z = descriptive.NormalDist().inv_cdf((1.0 + CONFIDENCE) / 2)
    scale = 1.0 + z * z / n
    centre = (share + z * z / (2 * n)) / scale
    half = z * math.sqrt(share * (1.0 - share) / n + z * z / (4 * n * n)) / scale
    # At shares of 0 and 1 an end is exactly 0 or 1, which rounding would miss.
    return (
        0.0 if share == 0.0 else centre - half,
        1.0 if share == 1.0 else centre + half,
    )


def _student(freedom: float) -> float:
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


def _joined(one: float, other: float, phi: float) -> float:
    # Rounding may make a sum of 0 slightly negative.
    return math.sqrt(max(0.0, one * one - 2 * phi * one * other + other * other))
