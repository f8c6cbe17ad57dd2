"""Slow oracles for the numbers that are made of the paper's records: plain loops, nothing shared
with what they check but the records.
"""

import math
import random
import statistics
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
from scipy.stats import t as student

from paper_records import CENSUS
from shearshap_lab.experiments.records import where

Values = dict[int, dict[int, dict[int, float]]]  #: network -> round -> row -> a number
REPLICATES = 400


def slow_curve(records: pa.Table, metric: str) -> dict[int, tuple[float, float]]:
    """N -> the mean over everything, and the deviation over rounds, pooled over networks."""
    rows = records.to_pylist()
    points = {}
    for n in sorted({row["n"] for row in rows}):
        here = [row for row in rows if row["n"] == n]
        variances = []
        for seed in {row["seed"] for row in here}:
            means = round_means([row for row in here if row["seed"] == seed], metric)
            variances.append(statistics.variance(means) if len(means) > 1 else 0.0)
        mean = statistics.mean(row[metric] for row in here)
        points[n] = (mean, math.sqrt(statistics.mean(variances)))
    return points


def round_means(rows: list[dict[str, Any]], metric: str) -> list[float]:
    rounds = {row["round"] for row in rows}
    return [
        statistics.mean(row[metric] for row in rows if row["round"] == number) for number in rounds
    ]


def slow_mean(records: pa.Table, metric: str, **equal: Any) -> float:
    return float(statistics.mean(where(records, **equal)[metric].to_pylist()))


def slow_seconds(method: str, n: int, way: str = "batch") -> float:
    """Return the median time of a method on census."""
    seconds = where(CENSUS["timings"], method=method, n=n, way=way)["seconds"]
    return float(statistics.median(seconds.to_pylist()))


# The bootstrap


@dataclass(frozen=True)
class Slow:
    """A number, and the ends of its interval."""

    value: float
    low: float
    high: float


def values_at(estimates: pa.Table, metric: str, **equal: Any) -> Values:
    """Return a metric by network, round and row."""
    values: Values = {}
    for row in where(estimates, **equal).to_pylist():
        by_round = values.setdefault(row["seed"], {})
        by_round.setdefault(row["round"], {})[row["row"]] = row[metric]
    return values


def network_mean(by_round: dict[int, dict[int, float]]) -> float:
    return statistics.mean(value for rows in by_round.values() for value in rows.values())


def drawn_means(every: Sequence[Values], chance: random.Random) -> list[float]:
    """Return one replicate of the mean of each method, all with the same draws."""
    first = every[0]
    sums = [0.0] * len(every)
    networks = chance.choices(sorted(first), k=len(first))
    for network in networks:
        rounds = chance.choices(sorted(first[network]), k=len(first[network]))
        some_round = first[network][rounds[0]]
        rows = chance.choices(sorted(some_round), k=len(some_round))
        for place, values in enumerate(every):
            cells = [values[network][number][row] for number in rounds for row in rows]
            sums[place] += sum(cells) / len(cells)
    return [total / len(networks) for total in sums]


def interval_of(value: float, replicates: list[float], width: float) -> Slow:
    """Return the percentiles of replicates, and never less than the width on either side."""
    cuts = statistics.quantiles(replicates, n=40)
    return Slow(value, min(cuts[0], value - width), max(cuts[-1], value + width))


def student_width(values: Sequence[float]) -> float:
    if len(values) < 2:
        return 0.0
    return float(
        student.ppf(0.975, len(values) - 1) * statistics.stdev(values) / math.sqrt(len(values))
    )


def slow_difference(first: Values, second: Values) -> Slow:
    chance = random.Random(1)
    replicates = []
    for _ in range(REPLICATES):
        own, other = drawn_means((first, second), chance)
        replicates.append(own - other)
    by_network = [network_mean(first[key]) - network_mean(second[key]) for key in first]
    return interval_of(statistics.mean(by_network), replicates, student_width(by_network))


def slow_ratio(first: Values, second: Values) -> Slow:
    """Return a ratio of means; the interval's logarithm is Student's at least."""
    chance = random.Random(1)
    replicates = []
    for _ in range(REPLICATES):
        own, other = drawn_means((first, second), chance)
        replicates.append(math.log(own / other))
    own_means = {key: network_mean(first[key]) for key in first}
    other_means = {key: network_mean(second[key]) for key in second}
    own_mean = statistics.mean(own_means.values())
    other_mean = statistics.mean(other_means.values())
    slopes = [own_means[key] / own_mean - other_means[key] / other_mean for key in first]
    logs = interval_of(math.log(own_mean / other_mean), replicates, student_width(slopes))
    return Slow(math.exp(logs.value), math.exp(logs.low), math.exp(logs.high))


def slow_verdict(found: Slow, metric: str) -> str:
    """Return the verdict by the thresholds that the page states."""
    if metric == "absolute_error":
        if found.high < 1 and found.value <= 0.98:
            return "win"
        return "loss" if found.low > 1 and found.value >= 1 / 0.98 else "tie"
    if found.low > 0 and found.value >= 0.001:
        return "win"
    return "loss" if found.high < 0 and found.value <= -0.001 else "tie"


def slow_comparison(
    estimates: pa.Table, method: str, rival: str, n: int, metric: str, rival_n: int | None = None
) -> Slow:
    """Return a method beside another, at the same N or at others."""
    own = values_at(estimates, metric, method=method, n=n)
    other = values_at(estimates, metric, method=rival, n=rival_n or n)
    if metric == "absolute_error":
        return slow_ratio(own, other)
    return slow_difference(own, other)


def tally(verdicts: Sequence[str]) -> str:
    return "-".join(str(verdicts.count(each)) for each in ("win", "tie", "loss"))
