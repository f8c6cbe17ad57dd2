"""Claims about the metrics: faithfulness, monotonicity, their agreement and their deviations."""

from itertools import combinations

import numpy as np
import pyarrow as pa

from shearshap.paper.experiments.findings.finding import (
    Finding,
    Verdict,
    rivals,
    scores,
    verdict,
)
from shearshap.paper.experiments.records import Records, column, where
from shearshap.paper.experiments.studies import TRUTH
from shearshap.paper.experiments.summaries import METRICS, correlation, curve

ALIKE = 0.8  #: the rank correlation above which two rankings are alike
UNLIKE = 0.4  #: the rank correlation below which they are not


def perturbation(records: Records) -> list[Finding]:
    """Rank SHEAR by faithfulness and monotonicity."""
    estimates = records["estimates"]
    metrics = ("faithfulness", "monotonicity")
    places = {}
    for words, methods in rivals(estimates).items():
        for metric in metrics:
            places[f"{words}, {METRICS[metric]}"] = _places(estimates, methods, metric)

    every = [place for each in places.values() for place in each]
    evidence = "; ".join(f"{words}: {', '.join(map(str, each))}" for words, each in places.items())
    truth = where(estimates, method=TRUTH)
    exact = " and ".join(f"{mean:.4f}" for metric in metrics for mean in curve(truth, metric).mean)
    return [
        Finding(
            "SHEAR has the largest faithfulness and monotonicity",
            verdict([place == 1 for place in every]),
            f"its rank beside the five baselines, by N: {evidence}",
            f"The exact values score {exact}; a higher score is not better.",
        )
    ]


def _places(estimates: pa.Table, methods: list[str], metric: str) -> list[int]:
    """Return SHEAR's place among the methods by a metric, at each N."""
    every = scores(estimates, ["shear", *methods], metric)  # (methods, n)
    ahead = (every > every[0]).sum(axis=0)
    return [1 + count for count in ahead.tolist()]


def consistent(records: Records) -> list[Finding]:
    """Compare how the four metrics rank the methods."""
    estimates = records["estimates"]
    correlations: list[float] = []
    for methods in rivals(estimates).values():
        correlations += _metric_correlations(estimates, methods)
    low = min(correlations)
    high = max(correlations)
    return [
        Finding(
            "The four metrics rank the methods alike",
            _alike(low, high),
            f"rank correlations between two metrics, means over N: {low:+.2f} to {high:+.2f}",
            "Where methods are close to the exact values, faithfulness and monotonicity no longer "
            "tell them apart.",
        )
    ]


def _alike(low: float, high: float) -> Verdict:
    if low > ALIKE:
        return "agrees"
    return "does not" if high < UNLIKE else "partly"


def _metric_correlations(estimates: pa.Table, methods: list[str]) -> list[float]:
    """Return the rank correlation of each two metrics, its mean over N."""
    by_metric = {metric: scores(estimates, ["shear", *methods], metric) for metric in METRICS}
    means = []
    for first, second in combinations(by_metric.values(), 2):
        columns = zip(first.T, second.T, strict=True)  # (methods,) at each N
        means.append(float(np.mean([correlation(a, b) for a, b in columns])))
    return means


def least_deviation(records: Records) -> list[Finding]:
    """Compare how much SHEAR and its baselines vary from round to round."""
    estimates = records["estimates"]
    if len(np.unique(column(estimates, "round"))) == 1:
        return []

    wins = {words: _steadiest(estimates, methods) for words, methods in rivals(estimates).items()}
    evidence = [
        f"{words}: least in {sum(each)} of {len(each)} cases" for words, each in wins.items()
    ]
    return [
        Finding(
            "SHEAR's error and accuracy vary least",
            verdict([win for each in wins.values() for win in each]),
            "; ".join(evidence),
            "Its cooperators are not random, but its background coalitions are.",
        )
    ]


def _steadiest(estimates: pa.Table, methods: list[str]) -> list[bool]:
    """Return whether SHEAR's deviation is the smallest, for error and accuracy at each N."""
    wins: list[bool] = []
    for metric in ("absolute_error", "ranking_accuracy"):
        own = curve(where(estimates, method="shear"), metric).deviation
        others = [curve(where(estimates, method=name), metric).deviation for name in methods]
        wins += (own <= np.min(others, axis=0)).tolist()
    return wins
