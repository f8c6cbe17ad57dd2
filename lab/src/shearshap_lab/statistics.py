"""How far means can be trusted, and which of two methods is better.

Errors are measured on *clusters* (networks, or origins of games), each with *rows* (rows of data,
or games) and *rounds* (draws of a method), which are averaged first. What a cluster and a row add
to a mean is kept, so that a ratio or a difference of two methods is paired:

    x_sr            the mean over rounds of cluster s and row r
    log of a mean   log m + (x_sr - m) / m, the first terms of its Taylor series

- If each cluster has rows of its own, rows are *nested*: the means of clusters are independent, and
  Student's interval over them has all there is, rows and rounds included.
- If all clusters have the same rows, as networks with one split have, rows are *crossed* with
  clusters. With V_s the variance of the mean by clusters, V_r by rows, and V_sr by what is left,

      V = V_s + V_r - V_sr,

  since V_s and V_r both contain V_sr; degrees of freedom are Satterthwaite's.
- One cluster has Student's interval over its rows: what is said is said of that cluster.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import NDArray
from scipy.special import stdtrit
from scipy.stats import beta, rankdata

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]
Verdict = Literal["better", "equal", "worse", "not known"]

LEVEL = 0.95
RATIO_MARGIN = 0.02  #: errors that differ by less are equal, however narrow their interval
SCORE_MARGIN = 0.001  #: likewise for scores near 1, by their difference
MIN_ROWS = 3  #: of a single cluster, for an interval
TINY = 1e-12  #: an error below this is rounding alone


@dataclass(frozen=True)
class Interval:
    """A number and the ends of its 95 % interval."""

    value: float
    low: float = float("nan")
    high: float = float("nan")

    @property
    def known(self) -> bool:
        """Whether there is an interval: one row of one cluster has none."""
        return bool(np.isfinite(self.low) and np.isfinite(self.high))

    def map(self, function: Callable[[Floats], Floats]) -> "Interval":
        """Return the interval of a rising function of the number."""
        value, low, high = function(np.array([self.value, self.low, self.high])).tolist()
        return Interval(value, low, high)


@dataclass(frozen=True)
class Estimate:
    """A mean over clusters and rows, and what each of them adds to it."""

    mean: float
    parts: tuple[Floats, ...]  #: for each cluster, the numbers of its rows (r,)
    crossed: bool = False  #: whether all clusters have the same rows

    @property
    def by_cluster(self) -> Floats:
        """The means of the clusters, (s,)."""
        return np.array([part.mean() for part in self.parts])

    def interval(self) -> Interval:
        """Return the mean with its interval."""
        deviation, freedom = self._deviation()
        if not np.isfinite(deviation):
            return Interval(self.mean)
        width = float(stdtrit(freedom, (1 + LEVEL) / 2)) * deviation if deviation else 0.0
        return Interval(self.mean, self.mean - width, self.mean + width)

    def _deviation(self) -> tuple[float, float]:
        """Return the standard deviation of the mean, NaN if it is not known, and its freedom."""
        if len(self.parts) == 1:
            rows = len(self.parts[0])
            return (_variance(self.parts[0]) ** 0.5, rows - 1) if rows >= MIN_ROWS else (np.nan, 1)
        clusters = len(self.parts)
        of_clusters = _variance(self.by_cluster)
        if not self.crossed or len(self.parts[0]) < 2:
            return of_clusters**0.5, clusters - 1

        table = np.stack(self.parts)
        rows = table.shape[1]
        of_rows = _variance(table.mean(axis=0))
        rest = table - table.mean(axis=0) - table.mean(axis=1, keepdims=True) + table.mean()
        left = (rest**2).sum() / ((clusters - 1) * (rows - 1)) / table.size
        variance = max(of_clusters + of_rows - left, of_clusters, of_rows)
        if variance == 0:
            return 0.0, 1
        freedom = variance**2 / (of_clusters**2 / (clusters - 1) + of_rows**2 / (rows - 1))
        return variance**0.5, freedom

    def log(self, floor: float = TINY) -> "Estimate":
        """Return the log of the mean; no mean is below `floor`."""
        mean = max(self.mean, floor)
        slope = 1 / mean if self.mean > floor else 0.0
        return self._transformed(float(np.log(mean)), slope)

    def positive_interval(self) -> Interval:
        """Return the interval of a number above 0, by its logarithm."""
        if self.mean <= TINY:
            return Interval(self.mean, 0.0, 0.0)
        return self.log().interval().map(np.exp)

    def bounded_interval(self, low: float = 0.0, high: float = 1.0) -> Interval:
        """Return the interval of a number between two bounds, by its log odds.

        A mean that is one of the bounds has none.
        """
        below, above = self.mean - low, high - self.mean
        if min(below, above) <= TINY:
            return Interval(self.mean)
        slope = (high - low) / (below * above)
        odds = self._transformed(float(np.log(below / above)), slope).interval()
        return odds.map(lambda x: low + (high - low) / (1 + np.exp(-x)))

    def _transformed(self, value: float, slope: float) -> "Estimate":
        """Return a function of the mean, by its value and derivative there."""
        parts = tuple(value + slope * (part - self.mean) for part in self.parts)
        return Estimate(value, parts, self.crossed)

    def __sub__(self, other: "Estimate") -> "Estimate":
        """Return the paired difference of two means over the same clusters and rows."""
        parts = tuple(a - b for a, b in zip(self.parts, other.parts, strict=True))
        return Estimate(self.mean - other.mean, parts, self.crossed)


def _variance(values: Floats) -> float:
    """Return the variance of the mean of independent values; NaN of a single one."""
    return float(values.var(ddof=1) / len(values)) if len(values) > 1 else float("nan")


# Means


def mean_over(clusters: Sequence[Floats] | Floats, *, crossed: bool = False) -> Estimate:
    """Return the mean of numbers of rows (r,) by cluster; `crossed`: with the same rows."""
    parts = tuple(np.asarray(values, dtype=np.float64) for values in clusters)
    return Estimate(float(np.mean([part.mean() for part in parts])), parts, crossed)


def row_mean(values: Floats, clusters: Ints, rows: Ints) -> Estimate:
    """Return the mean over clusters of values that have no rounds, by cluster and row (each (n,)).

    Several values of a row are averaged first: they are not independent.
    """
    by_cluster, crossed = _by_row(values, clusters, rows)
    return mean_over(by_cluster, crossed=crossed)


def _by_row(values: Floats, clusters: Ints, rows: Ints) -> tuple[list[Floats], bool]:
    """Return the means of each cluster's rows, and whether all clusters have the same rows."""
    parts: list[Floats] = []
    row_sets: list[list[int]] = []
    for cluster in np.unique(clusters):
        here = clusters == cluster
        names, place = np.unique(rows[here], return_inverse=True)
        sums = np.bincount(place.ravel(), values[here])
        parts.append(sums / np.bincount(place.ravel()))
        row_sets.append(names.tolist())
    return parts, all(each == row_sets[0] for each in row_sets)


def deviation_ratio(first: Floats, second: Floats) -> Interval:
    """Return the standard deviation over rounds of one method over another's.

    Both have means over rows, (clusters, rounds). Rounds of a cluster share its rows, so clusters
    alone are independent: the interval is Student's over the logs of their ratios.
    """
    variances = [np.maximum(each.var(axis=1), TINY**2) for each in (first, second)]
    logs = np.log(variances[0] / variances[1]) / 2
    return mean_over(logs[:, None]).interval().map(np.exp)


def rank_correlation(x: Floats, y: Floats, clusters: Ints, rows: Ints) -> Interval:
    """Return the mean over clusters of Spearman's correlation of x and y, with its interval.

    What a row adds is the influence of its values on Pearson's correlation of the ranks,

        u v - rho (u^2 + v^2) / 2,    u, v: the ranks, standardised.
    """
    influence = np.zeros(len(x))
    own = []
    for cluster in np.unique(clusters):
        here = clusters == cluster
        u, v = (_standardised(rankdata(each[here])) for each in (x, y))
        rho = float((u * v).mean())
        influence[here] = rho + u * v - rho * (u**2 + v**2) / 2
        own.append(rho)
    parts, crossed = _by_row(influence, clusters, rows)
    return Estimate(float(np.mean(own)), tuple(parts), crossed).bounded_interval(-1, 1)


def _standardised(values: Floats) -> Floats:
    deviation = values.std()
    centred = values - values.mean()
    return np.asarray(centred / deviation if deviation > 0 else centred)


def count_interval(successes: int, trials: int) -> Interval:
    """Return a share of independent trials with Clopper and Pearson's interval, which is exact."""
    tail = (1 - LEVEL) / 2
    low = beta.ppf(tail, successes, trials - successes + 1) if successes else 0.0
    high = beta.ppf(1 - tail, successes + 1, trials - successes) if successes < trials else 1.0
    return Interval(successes / trials, float(low), float(high))


# Comparisons


def log_ratio(first: Estimate, second: Estimate, *, floor: float = 0.0) -> Estimate:
    """Return the log of how many times larger the first error is than the second.

    No error counts as smaller than `floor`, the error of the truth that both are measured against.
    """
    least = max(floor, TINY)
    return first.log(least) - second.log(least)


def ratio(first: Estimate, second: Estimate, *, floor: float = 0.0) -> Interval:
    """Return how many times larger the first error is than the second, with its interval."""
    return log_ratio(first, second, floor=floor).interval().map(np.exp)


def average(estimates: Sequence[Estimate]) -> Estimate:
    """Return the mean of estimates that have the same clusters and rows."""
    parts = zip(*(each.parts for each in estimates), strict=True)
    return Estimate(
        float(np.mean([each.mean for each in estimates])),
        tuple(np.mean(of_cluster, axis=0) for of_cluster in parts),
        estimates[0].crossed,
    )


def combined(intervals: Sequence[Interval]) -> Interval:
    """Return the mean of independent numbers: the squares of their half-widths add up."""
    value = float(np.mean([each.value for each in intervals]))
    below = np.array([each.value - each.low for each in intervals])
    above = np.array([each.high - each.value for each in intervals])
    count = len(intervals)
    return Interval(
        value,
        value - float(np.sqrt((below**2).sum())) / count,
        value + float(np.sqrt((above**2).sum())) / count,
    )


def judged_ratio(interval: Interval) -> Verdict:
    """Return the verdict on the method whose error is the numerator: smaller is better."""
    if interval.value <= 0 or not np.isfinite(interval.value):
        return "not known"
    logs = Interval(*(-np.log([interval.value, interval.high, interval.low])))
    return _judged(logs, -float(np.log(1 - RATIO_MARGIN)))


def judged_difference(interval: Interval) -> Verdict:
    """Return the verdict on the method whose score comes first: larger is better."""
    return _judged(interval, SCORE_MARGIN)


def _judged(interval: Interval, margin: float) -> Verdict:
    """Return the verdict on a gain: equal if it is surely, or at best hardly, different from 0."""
    if not interval.known:
        return "not known"
    decided = interval.low > 0 or interval.high < 0
    if decided and abs(interval.value) >= margin:
        return "better" if interval.value > 0 else "worse"
    if decided or max(-interval.low, interval.high) < margin:
        return "equal"
    return "not known"
