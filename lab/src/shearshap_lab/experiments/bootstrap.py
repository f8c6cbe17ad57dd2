"""Paired, hierarchical bootstrap: how far means over networks, rounds and rows can be trusted.

One replicate draws as many networks as there are, with replacement, and within each of them as
many rows and as many rounds. The draws of a round are shared by all rows, so rows and rounds are
drawn apart from one another:

    mean of a replicate = mean over drawn networks of sum_rounds sum_rows u_round w_row x_round,row

The draws depend on the numbers of networks, rounds and rows alone. So all methods have the same
draws, and a ratio or a difference of two methods' replicates is paired.

Percentiles of replicates are too narrow where a few networks differ much. Student's interval over
the networks' own numbers is right there, but blind to rows and rounds. The interval of this module
covers both. With one network there is no Student's interval: what is said is said of that network.
"""

from dataclasses import dataclass
from functools import cache, cached_property

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray
from scipy.stats import t as student

from shearshap.result.explanation import Floats
from shearshap_lab.comparisons import Verdict
from shearshap_lab.experiments.records import column

REPLICATES = 2000
SEED = 2022
LEVEL = 0.95

RATIO_MARGIN = 0.02  #: errors that differ by less are tied, however narrow their interval
SCORE_MARGIN = 0.001  #: likewise for scores near 1, by their difference
TINY = 1e-12  #: an error below this is rounding alone

_STRIDE = 997  #: so that a network drawn twice has other rows and rounds the second time


@dataclass(frozen=True)
class Interval:
    """A number and the ends of its 95 % interval."""

    value: float
    low: float
    high: float

    @property
    def known(self) -> bool:
        """Whether there is an interval: one network alone has no spread over networks."""
        return bool(np.isfinite(self.low) and np.isfinite(self.high))


NOTHING = Interval(np.nan, np.nan, np.nan)  #: a number that the records do not give
TOO_FEW = "too few rows"  #: what stands in its place


@dataclass(frozen=True)
class Sampled:
    """A mean over networks, rounds and rows, and what shows how far it can be trusted."""

    mean: float
    replicates: Floats  #: (b,)
    by_network: Floats  #: (s,), whose mean it is

    def interval(self) -> Interval:
        """Return the mean with its interval."""
        width = student_width(self.by_network)
        low, high = _percentiles(self.replicates)
        return Interval(self.mean, min(low, self.mean - width), max(high, self.mean + width))


# Comparisons


def ratio(first: Sampled, second: Sampled, *, floor: float = 0.0) -> Interval:
    """Return how many times larger the first error is than the second, with its interval.

    No error counts as smaller than `floor`, the error of the truth that both are measured against.
    """
    least = max(floor, TINY)
    value = max(first.mean, least) / max(second.mean, least)
    replicates = np.maximum(first.replicates, least) / np.maximum(second.replicates, least)

    # d log(mean a / mean b) of each network
    relative_first = np.maximum(first.by_network, least) / max(first.mean, least)
    relative_second = np.maximum(second.by_network, least) / max(second.mean, least)
    factor = float(np.exp(student_width(relative_first - relative_second)))
    low, high = _percentiles(replicates)
    return Interval(value, min(low, value / factor), max(high, value * factor))


def root(interval: Interval) -> Interval:
    """Return the square root of a number and of its ends: of variances, the deviations."""
    value, low, high = np.sqrt([interval.value, interval.low, interval.high]).tolist()
    return Interval(value, low, high)


def difference(first: Sampled, second: Sampled) -> Interval:
    """Return how much larger the first score is than the second, with its interval."""
    between = Sampled(
        first.mean - second.mean,
        first.replicates - second.replicates,
        first.by_network - second.by_network,
    )
    return between.interval()


def judged_ratio(interval: Interval) -> Verdict:
    """Return the verdict on the method whose error is the numerator: smaller is better."""
    if interval.high < 1 and interval.value <= 1 - RATIO_MARGIN:
        return "win"
    if interval.low > 1 and interval.value >= 1 / (1 - RATIO_MARGIN):
        return "loss"
    return "tie"


def judged_difference(interval: Interval) -> Verdict:
    """Return the verdict on the method whose score comes first: larger is better."""
    if interval.low > 0 and interval.value >= SCORE_MARGIN:
        return "win"
    if interval.high < 0 and interval.value <= -SCORE_MARGIN:
        return "loss"
    return "tie"


def judged_within(interval: Interval, low: float, high: float) -> Verdict:
    """Return whether a number lies between two others: a tie where its interval leaves it open."""
    if not interval.known:
        return "tie"
    if low <= interval.low and interval.high <= high:
        return "win"
    if interval.high < low or interval.low > high:
        return "loss"
    return "tie"


# Intervals


def _percentiles(replicates: Floats) -> tuple[float, float]:
    low, high = np.quantile(replicates, ((1 - LEVEL) / 2, (1 + LEVEL) / 2))
    return float(low), float(high)


def student_width(values: Floats) -> float:
    """Return half the width of Student's interval of a mean over networks; 0 where there is one."""
    count = len(values)
    if count < 2:
        return 0.0
    quantile = student.ppf((1 + LEVEL) / 2, count - 1)
    return float(quantile * values.std(ddof=1) / np.sqrt(count))


def over_networks(values: Floats) -> Interval:
    """Return the geometric mean of positive numbers, one a network, and Student's interval."""
    logs = np.log(np.maximum(values, TINY))
    mean = float(logs.mean())
    if len(logs) < 2:
        return Interval(float(np.exp(mean)), float("nan"), float("nan"))
    width = student_width(logs)
    return Interval(float(np.exp(mean)), float(np.exp(mean - width)), float(np.exp(mean + width)))


def next_network(values: Floats) -> tuple[float, float]:
    """Return where the number of one more network lies, in 95 of 100 cases, by those of others."""
    logs = np.log(np.maximum(values, TINY))
    if len(logs) < 2:
        return 0.0, float("inf")
    # a mean varies by 1 / n of the variance, one more network by 1 + 1 / n of it
    width = student_width(logs) * np.sqrt(1 + len(logs))
    return float(np.exp(logs.mean() - width)), float(np.exp(logs.mean() + width))


# Replicates


@dataclass(frozen=True)
class Draws:
    """What the replicates draw, for so many networks, rounds and rows."""

    networks: NDArray[np.int64]  #: (b, s) the networks of a replicate
    rounds: Floats  #: (s, b, t) weights of a network's rounds, which sum to 1
    rows: Floats  #: (s, b, r) weights of its rows, likewise

    def means(self, values: Floats) -> Floats:
        """Return the replicates (b,) of the mean of values (s, t, r)."""
        by_round = values @ self.rows.transpose(0, 2, 1)  # (s, t, b)
        inner = np.einsum("stb,sbt->sb", by_round, self.rounds)
        return over_drawn(inner, self.networks)

    def variances(self, values: Floats) -> Floats:
        """Return the replicates (b,) of the variance over rounds of the mean over rows."""
        by_round = values @ self.rows.transpose(0, 2, 1)
        mean = np.einsum("stb,sbt->sb", by_round, self.rounds)
        square = np.einsum("stb,sbt->sb", by_round**2, self.rounds)
        return over_drawn(np.maximum(square - mean**2, 0.0), self.networks)


def over_drawn(inner: Floats, chosen: NDArray[np.int64]) -> Floats:
    """Return the mean over the chosen networks (b, s) of their replicates (s, b)."""
    replicate = np.arange(inner.shape[1])[:, None]
    slot = np.arange(chosen.shape[1])
    drawn = (replicate + _STRIDE * slot) % inner.shape[1]
    return np.asarray(inner[chosen, drawn].mean(axis=1))


@cache
def draws(networks: int, rounds: int, rows: int) -> Draws:
    """Return the draws for a shape; each level has a generator of its own.

    So methods with fewer rounds, as the truth is, still have the rows and networks of the others.
    """
    of_networks, of_rounds, of_rows = np.random.default_rng(SEED).spawn(3)
    return Draws(
        of_networks.integers(networks, size=(REPLICATES, networks)),
        _weights(of_rounds, networks, rounds),
        _weights(of_rows, networks, rows),
    )


def _weights(rng: np.random.Generator, networks: int, items: int) -> Floats:
    """Return how often each item is drawn with replacement, over their number: (s, b, items)."""
    even = np.full(items, 1 / items)
    return rng.multinomial(items, even, size=(networks, REPLICATES)) / items


class Resampled:
    """The replicates of every method and N of one data set and recipe, each computed once."""

    def __init__(self, estimates: pa.Table) -> None:
        self._columns = {
            name: column(estimates, name) for name in ("method", "n", "seed", "round", "row")
        }
        self._estimates = estimates
        self._known: dict[tuple[str, int, str, str], Sampled] = {}

    @cached_property
    def _places(self) -> dict[tuple[str, int], NDArray[np.int64]]:
        """The records of each method and N, by network, round and row."""
        names = self._columns
        order = np.lexsort((names["row"], names["round"], names["seed"]))
        keys = list(zip(names["method"][order].tolist(), names["n"][order].tolist(), strict=True))
        places: dict[tuple[str, int], list[int]] = {}
        for key, place in zip(keys, order.tolist(), strict=True):
            places.setdefault(key, []).append(place)
        return {key: np.array(each) for key, each in places.items()}

    def n(self, method: str) -> list[int]:
        """Return the numbers of evaluations at which a method was measured."""
        return sorted(n for name, n in self._places if name == method)

    def has(self, method: str, n: int) -> bool:
        """Return whether a method was measured at n."""
        return (method, n) in self._places

    def cube(self, method: str, n: int, metric: str) -> Floats:
        """Return a metric of a method at n, (networks, rounds, rows)."""
        places = self._places[method, n]
        values = column(self._estimates, metric)[places]
        networks = len(np.unique(self._columns["seed"][places]))
        rounds = len(np.unique(self._columns["round"][places]))
        return np.asarray(values.reshape(networks, rounds, -1), dtype=np.float64)

    def mean(self, method: str, n: int, metric: str) -> Sampled:
        """Return the mean of a metric over networks, rounds and rows."""
        return self._sampled(method, n, metric, "mean")

    def variance(self, method: str, n: int, metric: str) -> Sampled:
        """Return the variance over rounds of the mean over rows, its mean over networks."""
        return self._sampled(method, n, metric, "variance")

    def _sampled(self, method: str, n: int, metric: str, kind: str) -> Sampled:
        key = (method, n, metric, kind)
        if key not in self._known:
            sample = _mean_of if kind == "mean" else _variance_of
            self._known[key] = sample(self.cube(method, n, metric))
        return self._known[key]


def _mean_of(cube: Floats) -> Sampled:
    replicates = spread(draws(*cube.shape).means(cube), len(cube), cube.shape[2])
    return Sampled(float(cube.mean()), replicates, cube.mean(axis=(1, 2)))


def _variance_of(cube: Floats) -> Sampled:
    variances = cube.mean(axis=2).var(axis=1)
    replicates = spread(draws(*cube.shape).variances(cube), len(cube), cube.shape[2])
    return Sampled(float(variances.mean()), replicates, variances)


def spread(replicates: Floats, networks: int, rows: int) -> Floats:
    """Return the replicates (b,); all NaN for one row of one network, which has no spread."""
    return np.full_like(replicates, np.nan) if networks == rows == 1 else replicates


def grouped_mean(values: Floats, seeds: NDArray[np.int64]) -> Sampled:
    """Return the mean over networks of values (r,) that have no rounds, by their networks (r,).

    Networks may have different numbers of rows, as a feature has where it is not always chosen.
    """
    of_networks, of_rows = np.random.default_rng(SEED).spawn(2)
    groups = [values[seeds == seed] for seed in np.unique(seeds)]
    inner = np.array([_row_replicates(group, of_rows) for group in groups])  # (s, b)
    chosen = of_networks.integers(len(groups), size=(REPLICATES, len(groups)))
    by_network = np.array([group.mean() for group in groups])
    replicates = spread(over_drawn(inner, chosen), len(groups), len(values))
    return Sampled(float(by_network.mean()), replicates, by_network)


def _row_replicates(values: Floats, rng: np.random.Generator) -> Floats:
    places = rng.integers(len(values), size=(REPLICATES, len(values)))
    return np.asarray(values[places].mean(axis=1))


def row_means(values: Floats, seeds: NDArray[np.int64], rows: NDArray[np.int64]) -> Sampled:
    """Return the mean over networks of values that several records of a row have, row by row.

    The records of a row are not independent, so rows are drawn, and not records.
    """
    keys, place = np.unique(np.column_stack([seeds, rows]), axis=0, return_inverse=True)
    sums = np.bincount(place.ravel(), values)
    return grouped_mean(sums / np.bincount(place.ravel()), keys[:, 0])
