"""Records to numbers: curves over evaluations, throughput, correlations; what figures and tables
share.
"""

from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.csv
from numpy.typing import NDArray

from shearshap.explanation import Floats
from shearshap.paper.experiments.records import Records, column, where
from shearshap.paper.experiments.spec import ABLATED, PROTOCOLS, Protocol
from shearshap.paper.experiments.studies import DERIVATIVES, FORWARD
from shearshap.paper.metrics import throughput

Ints = NDArray[np.int64]

METRICS: dict[str, str] = {
    "absolute_error": "absolute error",
    "ranking_accuracy": "ranking accuracy",
    "faithfulness": "faithfulness",
    "monotonicity": "monotonicity",
}  #: the columns of estimates that hold a metric, and what to call them

PUBLISHED = {
    "shear-authors": "SHEAR", "shear": "SHEAR", "kernel-authors": "KS", "kernel-welford": "KS-WF",
    "kernel-paired-authors": "KS-Pair", "permutation-authors": "PS", "permutation-antithetic-authors": "APS",
}  # fmt: skip
"""The name in the authors' released numbers of the method that was run as they ran it."""


@dataclass(frozen=True)
class Curve:
    """A metric of one method against evaluations a feature."""

    n: Ints
    mean: Floats  #: over rows, rounds and networks
    deviation: Floats  #: standard deviation over rounds of the mean over rows, pooled over networks


def values_of(records: pa.Table, name: str) -> list[Any]:
    """Return the different values of a column, in their order of appearance."""
    return list(dict.fromkeys(records[name].to_pylist()))


def by_dataset(records: Records) -> dict[str, dict[str, pa.Table]]:
    """Return the records of each data set by its name."""
    names = values_of(records["models"], "dataset")
    return {
        name: {study: where(found, dataset=name) for study, found in records.items()}
        for name in names
    }


def sizes_of(models: pa.Table) -> dict[int, float]:
    """Return the mean |phi|_1 of each network of one data set, by its seed."""
    return {row["seed"]: row["size"] for row in models.to_pylist()}


def illustrated(illustration: pa.Table) -> list[dict[str, Any]]:
    """Return the features of the row of one data set that is shown: the first network's, or none."""
    rows = illustration.to_pylist()
    return [row for row in rows if row["seed"] == rows[0]["seed"]]


def methods_of(records: pa.Table, protocol: tuple[str, ...]) -> list[str]:
    """Return those methods of a protocol that were measured."""
    measured = set(values_of(records, "method"))
    return [method for method in protocol if method in measured]


def protocols_of(records: pa.Table) -> dict[Protocol, list[str]]:
    """Return the protocols that were run, each with its methods; those that all share tell nothing
    of one.
    """
    shared = set.intersection(*map(set, PROTOCOLS.values()))
    found = {protocol: methods_of(records, methods) for protocol, methods in PROTOCOLS.items()}
    return {protocol: methods for protocol, methods in found.items() if set(methods) - shared}


def curve(estimates: pa.Table, metric: str) -> Curve:
    """Return the curve of one method's estimates on one data set."""
    runs = estimates.group_by(["n", "seed", "round"], use_threads=False).aggregate(
        [(metric, "mean")]
    )
    n, seed, mean = column(runs, "n"), column(runs, "seed"), column(runs, f"{metric}_mean")
    every = np.unique(n)
    deviation = [
        _pooled([mean[(n == one) & (seed == s)] for s in np.unique(seed)]) for one in every
    ]
    return Curve(every, np.array([mean[n == one].mean() for one in every]), np.array(deviation))


def _pooled(groups: list[Floats]) -> float:
    """Return the standard deviation within groups; 0 where no group has two."""
    variances = [group.var(ddof=1) for group in groups if len(group) > 1]
    return float(np.sqrt(np.mean(variances))) if variances else 0.0


def median(estimates: pa.Table, metric: str, n: int) -> float:
    """Return the median over rows, rounds and networks."""
    return float(np.median(column(where(estimates, n=n), metric)))


def speeds(timings: pa.Table) -> tuple[Ints, Floats]:
    """Return n and rows a second of one method on one data set: the median of the times it was
    timed.
    """
    n, rows, seconds = (column(timings, name) for name in ("n", "rows", "seconds"))
    every = np.unique(n)
    return every, np.array(
        [throughput(int(rows[0]), float(np.median(seconds[n == one]))) for one in every]
    )


@dataclass(frozen=True)
class Cost:
    """Seconds that SHEAR takes for one row, measured and by the paper's t_backward + N t_forward."""

    n: Ints
    measured: Floats
    backward: float  #: derivatives
    forward: Floats  #: the bare forward passes of n evaluations a feature

    @property
    def predicted(self) -> Floats:
        """The cost model."""
        return self.backward + self.forward


def cost(timings: pa.Table) -> Cost:
    """Return what SHEAR's explanations of one data set cost."""
    n, measured = speeds(where(timings, method="shear"))
    _, derivatives = speeds(where(timings, method=DERIVATIVES))
    _, forward = speeds(where(timings, method=FORWARD))
    return Cost(n, 1 / measured, float(1 / derivatives[0]), 1 / forward)


def ranks(values: Floats) -> Floats:
    """Return the ranks of values, ties in the middle."""
    _, place, counts = np.unique(values, return_inverse=True, return_counts=True)
    return np.asarray((np.cumsum(counts) - (counts - 1) / 2)[place])


def correlation(x: Floats, y: Floats) -> float:
    """Return Spearman's rank correlation; 0 where one is constant."""
    a, b = ranks(x) - ranks(x).mean(), ranks(y) - ranks(y).mean()
    size = float(np.sqrt((a**2).sum() * (b**2).sum()))
    return float((a * b).sum() / size) if size else 0.0


@dataclass(frozen=True)
class Selected:
    """Error and cross-contribution of random cooperators at N = 16, of one target feature a row."""

    cross_contribution: Floats  #: (targets, draws) sum over S of eta_ij
    error: Floats  #: (targets, draws)

    @property
    def between(self) -> float:
        """The rank correlation over all targets and draws."""
        return correlation(self.cross_contribution.ravel(), self.error.ravel())

    @property
    def within(self) -> float:
        """The mean over targets of the rank correlation over one target's draws."""
        pairs = zip(self.cross_contribution, self.error, strict=True)
        return float(np.mean([correlation(eta, error) for eta, error in pairs]))


def selected(cooperators: pa.Table) -> Selected:
    """Return the random cooperators' numbers at N = 16 of one data set."""
    random = where(cooperators, selection="random", n=ABLATED)
    draws = len(np.unique(column(random, "draw")))
    order = np.lexsort((column(random, "draw"), column(random, "row"), column(random, "seed")))
    eta, error = (
        column(random, name)[order].reshape(-1, draws) for name in ("cross_contribution", "error")
    )
    return Selected(eta, error)


@cache
def published() -> pa.Table:
    """Return the authors' released numbers, as they ship inside the package."""
    with (files("shearshap.paper.experiments") / "published.csv").open("rb") as file:
        return pyarrow.csv.read_csv(file)


def published_curve(dataset: str, method: str, name: str) -> dict[int, float]:
    """Return a column of the released numbers of a method, by evaluations a feature; empty where
    there are none.

    Stale files, whose values are scaled wrongly, are left out.
    """
    rows = where(published(), dataset=dataset, method=PUBLISHED.get(method, "")).to_pylist()
    sound = [row for row in rows if row[name] is not None and not row["note"].startswith("stale")]
    return {int(row["evaluations_per_feature"]): float(row[name]) for row in sound}


def published_size(dataset: str) -> float | None:
    """Return the authors' mean of sum |phi_i|: the error of an estimate that is zero throughout.

    Every regression of KS-Pair at N = 8 is singular, and their values for it are all zero.
    """
    return published_curve(dataset, "kernel-paired-authors", "ae_mean").get(8)
