"""How far means can be trusted, and which of two methods is better.

Errors are measured on *clusters* (networks, or origins of games), each with *rows* (rows of data,
or games) and *rounds* (draws of a method). The bootstrap draws clusters anew, with replacement, and
within them rows and rounds:

    mean of a replicate = mean over drawn clusters of sum_rounds sum_rows u_round w_row x_round,row

- If all clusters have the same rows, as networks with one split have, rows are *crossed* with
  clusters: one draw of rows serves all clusters. Otherwise each drawn cluster has its own.
- Draws depend on the numbers of clusters, rounds and rows alone, so all methods have the same
  ones, and a ratio or a difference of two methods is paired.
- Percentiles of replicates are too narrow if a few clusters differ much. Student's interval over
  the clusters' own numbers is right there, but blind to rows and rounds. `Estimate.interval` covers
  both. One cluster has no Student's interval: what is said is said of that cluster.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Literal

import numpy as np
from numpy.typing import NDArray
from scipy.stats import rankdata
from scipy.stats import t as student

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]
Verdict = Literal["better", "equal", "worse", "not known"]
Statistic = Callable[[Floats, Floats], Floats]  #: by round (t, b), weights of rounds (b, t) -> (b,)

REPLICATES = 2000
SEED = 2022
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

    def within(self, low: float, high: float) -> "Interval":
        """Return the interval without what lies outside the possible numbers."""
        ends = np.clip([self.low, self.high], low, high)
        return Interval(self.value, float(ends[0]), float(ends[1]))

    def exp(self) -> "Interval":
        """Return the interval of exp of the number."""
        value, low, high = np.exp([self.value, self.low, self.high])
        return Interval(float(value), float(low), float(high))


@dataclass(frozen=True)
class Estimate:
    """A mean over clusters, rounds and rows, and what shows how far it can be trusted."""

    mean: float
    replicates: Floats  #: (b,)
    by_cluster: Floats  #: (s,), whose mean it is

    def interval(self) -> Interval:
        """Return the mean with its interval: percentiles, and at least Student's over clusters."""
        if not np.isfinite(self.replicates).all():
            return Interval(self.mean)
        low, high = np.quantile(self.replicates, ((1 - LEVEL) / 2, (1 + LEVEL) / 2))
        width = student_width(self.by_cluster)
        return Interval(
            self.mean,
            float(min(low, self.mean - width)),
            float(max(high, self.mean + width)),
        )

    def positive_interval(self) -> Interval:
        """Return the interval of a number above 0, by its logarithm."""
        if self.mean <= TINY:
            return Interval(self.mean, 0.0, 0.0)
        return self.log().interval().exp()

    def log(self, floor: float = TINY) -> "Estimate":
        """Return log(mean); clusters by d log(mean) = d mean / mean. No mean is below `floor`."""
        mean = max(self.mean, floor)
        return Estimate(
            float(np.log(mean)),
            np.log(np.maximum(self.replicates, floor)),
            np.log(mean) + np.maximum(self.by_cluster, floor) / mean - 1,
        )

    def __sub__(self, other: "Estimate") -> "Estimate":
        """Return the paired difference of two means."""
        return Estimate(
            self.mean - other.mean,
            self.replicates - other.replicates,
            self.by_cluster - other.by_cluster,
        )


def student_width(values: Floats) -> float:
    """Return half the width of Student's interval of a mean; 0 of a single value."""
    count = len(values)
    if count < 2:
        return 0.0
    quantile = student.ppf((1 + LEVEL) / 2, count - 1)
    return float(quantile * values.std(ddof=1) / np.sqrt(count))


# Comparisons


def log_ratio(first: Estimate, second: Estimate, *, floor: float = 0.0) -> Estimate:
    """Return the log of how many times larger the first error is than the second.

    No error counts as smaller than `floor`, the error of the truth that both are measured against.
    """
    least = max(floor, TINY)
    return first.log(least) - second.log(least)


def ratio(first: Estimate, second: Estimate, *, floor: float = 0.0) -> Interval:
    """Return how many times larger the first error is than the second, with its interval."""
    return log_ratio(first, second, floor=floor).interval().exp()


def average(estimates: Sequence[Estimate]) -> Estimate:
    """Return the mean of estimates that have the same clusters."""
    return Estimate(
        float(np.mean([each.mean for each in estimates])),
        np.mean([each.replicates for each in estimates], axis=0),
        np.mean([each.by_cluster for each in estimates], axis=0),
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


# The bootstrap


def bootstrap(clusters: Sequence[Floats], *, crossed: bool = False) -> Estimate:
    """Return the mean of numbers by cluster, each (rounds, rows); `crossed`: with the same rows."""
    return _bootstrap(clusters, crossed, _mean)


def bootstrap_variance(clusters: Sequence[Floats], *, crossed: bool = False) -> Estimate:
    """Return the mean over clusters of the variance over rounds of the mean over rows."""
    return _bootstrap(clusters, crossed, _variance)


def _mean(by_round: Floats, rounds: Floats) -> Floats:
    """Return weighted means over rounds, of (t, b) by weights (b, t): (b,)."""
    return np.asarray(np.einsum("tb,bt->b", by_round, rounds))


def _variance(by_round: Floats, rounds: Floats) -> Floats:
    square = _mean(by_round**2, rounds) - _mean(by_round, rounds) ** 2
    return np.asarray(np.maximum(square, 0.0))


def _bootstrap(clusters: Sequence[Floats], crossed: bool, statistic: Statistic) -> Estimate:
    count = len(clusters)
    chosen = np.random.default_rng(SEED).integers(count, size=(REPLICATES, count))
    everything = np.arange(REPLICATES)
    total = np.zeros(REPLICATES)
    for slot in range(count):
        # a cluster that is drawn twice has other rounds, and if rows are its own, other rows
        replicates = [
            statistic(
                values @ _weights("rows", 0 if crossed else slot, values.shape[1]).T,
                _weights("rounds", slot, len(values)),
            )
            for values in clusters
        ]
        total += np.stack(replicates)[chosen[:, slot], everything]

    own = [
        statistic(values.mean(axis=1)[:, None], np.full((1, len(values)), 1 / len(values)))[0]
        for values in clusters
    ]
    if count == 1 and clusters[0].shape[1] < MIN_ROWS:
        total[:] = np.nan  # too few rows to know how they differ
    return Estimate(float(np.mean(own)), total / count, np.array(own))


@lru_cache(maxsize=128)
def _weights(level: str, slot: int, items: int) -> Floats:
    """Return how often each item is drawn with replacement, over their number: (b, items)."""
    rng = np.random.default_rng((SEED, len(level), slot, items))
    even = np.full(items, 1 / items)
    return np.asarray(rng.multinomial(items, even, size=REPLICATES) / items)


def row_mean(values: Floats, clusters: Ints, rows: Ints) -> Estimate:
    """Return the mean over clusters of values that have no rounds, by cluster and row (each (n,)).

    Several values of a row are averaged first: they are not independent, so rows are drawn.
    """
    by_cluster: list[Floats] = []
    row_sets: list[list[int]] = []
    for cluster in np.unique(clusters):
        here = clusters == cluster
        names, place = np.unique(rows[here], return_inverse=True)
        sums = np.bincount(place.ravel(), values[here])
        by_cluster.append((sums / np.bincount(place.ravel()))[None])
        row_sets.append(names.tolist())
    return bootstrap(by_cluster, crossed=all(each == row_sets[0] for each in row_sets))


def rank_correlation(x: Floats, y: Floats, clusters: Ints, rows: Ints) -> Interval:
    """Return the mean over clusters of Spearman's correlation of x and y, with its interval.

    Rows are drawn, with all their values; ranks are those among all values of a cluster.
    """
    own = []
    replicates = []
    for cluster in np.unique(clusters):
        here = clusters == cluster
        sums = _row_sums(rankdata(x[here]), rankdata(y[here]), rows[here])
        own.append(_pearson(sums.sum(axis=0)[None])[0])
        # one draw of rows for all clusters: most have the same rows, and the others lose nothing
        replicates.append(_pearson(_weights("rows", 0, len(sums)) @ sums))
    if len(own) == 1 and len(sums) < MIN_ROWS:
        return Interval(float(own[0]))
    estimate = Estimate(float(np.mean(own)), np.mean(replicates, axis=0), np.array(own))
    return estimate.interval().within(-1, 1)


def _row_sums(x: Floats, y: Floats, rows: Ints) -> Floats:
    """Return the sums of 1, x, y, x^2, y^2 and x y over the values of each row, (r, 6)."""
    x = x - x.mean()
    y = y - y.mean()
    _, place = np.unique(rows, return_inverse=True)
    parts = np.column_stack([np.ones_like(x), x, y, x**2, y**2, x * y])
    sums = np.zeros((place.max() + 1, parts.shape[1]))
    np.add.at(sums, place.ravel(), parts)
    return sums


def _pearson(sums: Floats) -> Floats:
    """Return correlations from sums (b, 6); 0 if one of the two is constant."""
    count, x, y, xx, yy, xy = sums.T
    covariance = xy - x * y / count
    scale = np.sqrt(np.maximum(xx - x**2 / count, 0) * np.maximum(yy - y**2 / count, 0))
    correlations = np.divide(covariance, scale, out=np.zeros_like(scale), where=scale > 1e-9)
    return np.asarray(correlations)
