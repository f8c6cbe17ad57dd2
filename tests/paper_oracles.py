"""Slow oracles for the numbers that are made of the paper's records."""

import math
import statistics
from typing import Any

import pyarrow as pa

from paper_records import CENSUS
from shearshap.paper.experiments.records import where
from shearshap.paper.experiments.spec import ABLATED


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


def slow_seconds(method: str, n: int) -> float:
    """Return the median time of a method on census."""
    seconds = where(CENSUS["timings"], method=method, n=n)["seconds"]
    return float(statistics.median(seconds.to_pylist()))


def slow_selected(records: pa.Table) -> dict[tuple[int, int], list[tuple[float, float]]]:
    """Network and row -> cross-contribution and error of its random cooperators at N = 16."""
    targets: dict[tuple[int, int], list[tuple[float, float]]] = {}
    for row in records.to_pylist():
        if row["selection"] == "random" and row["n"] == ABLATED:
            pair = (row["cross_contribution"], row["error"])
            targets.setdefault((row["seed"], row["row"]), []).append(pair)
    return targets
