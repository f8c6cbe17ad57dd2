"""Records to numbers, for figures and tables: curves over evaluations, throughput, correlations."""

from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.csv
from numpy.typing import NDArray
from scipy.stats import spearmanr

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
    "shear-authors": "SHEAR",
    "shear": "SHEAR",
    "kernel-authors": "KS",
    "kernel-welford": "KS-WF",
    "kernel-paired-authors": "KS-Pair",
    "permutation-authors": "PS",
    "permutation-antithetic-authors": "APS",
}
"""The names in the authors' released numbers, by the method that was run as they ran theirs."""


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
    return {
        name: {study: where(table, dataset=name) for study, table in records.items()}
        for name in values_of(records["models"], "dataset")
    }


def sizes_of(models: pa.Table) -> dict[int, float]:
    """Return the mean |phi|_1 of each network of one data set, by its seed."""
    return {row["seed"]: row["size"] for row in models.to_pylist()}


def illustrated(illustration: pa.Table) -> list[dict[str, Any]]:
    """Return the features of the illustrated row of one data set: the first network's, or none."""
    rows = illustration.to_pylist()
    return [row for row in rows if row["seed"] == rows[0]["seed"]]


def methods_of(records: pa.Table, protocol: tuple[str, ...]) -> list[str]:
    """Return the methods of a protocol that were measured."""
    measured = set(values_of(records, "method"))
    return [method for method in protocol if method in measured]


def protocols_of(records: pa.Table) -> dict[Protocol, list[str]]:
    """Return the protocols that were run, each with its methods.

    A method that all protocols have in common does not show which of them was run.
    """
    common = set.intersection(*map(set, PROTOCOLS.values()))
    measured = {protocol: methods_of(records, names) for protocol, names in PROTOCOLS.items()}
    return {protocol: names for protocol, names in measured.items() if set(names) - common}


def curve(estimates: pa.Table, metric: str) -> Curve:
    """Return the curve of one method's estimates on one data set."""
    runs = estimates.group_by(["n", "seed", "round"], use_threads=False).aggregate(
        [(metric, "mean")]
    )
    n = column(runs, "n")
    seed = column(runs, "seed")
    mean = column(runs, f"{metric}_mean")

    every_n = np.unique(n)
    every_seed = np.unique(seed)
    means = [mean[n == each].mean() for each in every_n]
    deviations = [
        _pooled([mean[(n == each) & (seed == network)] for network in every_seed])
        for each in every_n
    ]
    return Curve(every_n, np.array(means), np.array(deviations))


def _pooled(groups: list[Floats]) -> float:
    """Return the standard deviation within groups; 0 where no group has two members."""
    variances = [group.var(ddof=1) for group in groups if len(group) > 1]
    return float(np.sqrt(np.mean(variances))) if variances else 0.0


def median(estimates: pa.Table, metric: str, n: int) -> float:
    """Return the median over rows, rounds and networks."""
    return float(np.median(column(where(estimates, n=n), metric)))


def speeds(timings: pa.Table) -> tuple[Ints, Floats]:
    """Return n and rows a second of one method on one data set: the median over its timings.

    Both are empty where it was not timed.
    """
    n = column(timings, "n")
    rows = column(timings, "rows")
    seconds = column(timings, "seconds")
    every_n = np.unique(n)
    medians = [float(np.median(seconds[n == each])) for each in every_n]
    return every_n, np.array([throughput(int(rows[0]), each) for each in medians])


@dataclass(frozen=True)
class Cost:
    """Seconds that SHEAR takes for one row: measured, and by t_backward + N t_forward."""

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


def correlation(x: Floats, y: Floats) -> float:
    """Return Spearman's rank correlation; 0 where one is constant."""
    if np.ptp(x) == 0 or np.ptp(y) == 0:
        return 0.0
    return float(spearmanr(x, y).statistic)


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
    draw = column(random, "draw")
    draws = len(np.unique(draw))
    order = np.lexsort((draw, column(random, "row"), column(random, "seed")))
    eta = column(random, "cross_contribution")[order]
    error = column(random, "error")[order]
    return Selected(eta.reshape(-1, draws), error.reshape(-1, draws))


@cache
def published() -> pa.Table:
    """Return the authors' released numbers, as they ship inside the package."""
    with (files("shearshap.paper.experiments") / "published.csv").open("rb") as file:
        return pyarrow.csv.read_csv(file)


def published_curve(dataset: str, method: str, name: str) -> dict[int, float]:
    """Return a column of the released numbers of a method, by evaluations a feature.

    It is empty where there are none. Stale files, whose values are scaled wrongly, are left out.
    """
    rows = where(published(), dataset=dataset, method=PUBLISHED.get(method, "")).to_pylist()
    curve: dict[int, float] = {}
    for row in rows:
        stale = row["note"].startswith("stale")
        if row[name] is not None and not stale:
            curve[int(row["evaluations_per_feature"])] = float(row[name])
    return curve


def published_size(dataset: str) -> float | None:
    """Return the authors' mean of sum |phi_i|: the error of an estimate that is zero throughout.

    Every regression of KS-Pair at N = 8 is singular, and their values for it are all zero.
    """
    return published_curve(dataset, "kernel-paired-authors", "ae_mean").get(8)
