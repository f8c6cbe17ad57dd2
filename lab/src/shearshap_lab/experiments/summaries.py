"""Records to numbers, for figures and tables: curves over evaluations, throughput, correlations."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache, cached_property
from importlib.resources import files
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv
from numpy.typing import NDArray
from scipy.stats import spearmanr

from shearshap.result.explanation import Floats
from shearshap_lab.experiments.bootstrap import Resampled
from shearshap_lab.experiments.records import Records, column, where
from shearshap_lab.experiments.spec import ABLATED, PROTOCOLS, Protocol
from shearshap_lab.experiments.studies import DERIVATIVES, FORWARD

Ints = NDArray[np.int64]

METRICS: dict[str, str] = {
    "absolute_error": "absolute error",
    "ranking_accuracy": "ranking accuracy",
    "faithfulness": "faithfulness",
    "monotonicity": "monotonicity",
}  #: the columns of estimates that hold a metric, and what to call them

RECIPE_WORDS = {
    "authors": "the authors' networks",
    "ours": "our networks",
    "authors-mean": "the authors' networks against the true mean",
}
MEASURED = ("authors", "ours")  #: the recipes whose networks all methods explain

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


@dataclass(frozen=True)
class Networks:
    """The networks of one data set that one recipe trained, and their records."""

    dataset: str
    recipe: str
    records: Records  #: timings and sensitivity are the data set's, whatever the recipe

    @property
    def title(self) -> str:
        """Their name in headings: "census, the authors' networks"."""
        return f"{self.dataset}, {RECIPE_WORDS[self.recipe]}"

    @property
    def salt(self) -> str:
        """Their name in the markup of figures."""
        return f"{self.dataset}-{self.recipe}"

    @cached_property
    def resampled(self) -> Resampled:
        """The replicates of their estimates."""
        return Resampled(self.records["estimates"])

    @property
    def truth_error(self) -> float:
        """The absolute error of the truth itself, a mean over networks; 0 where it is exact."""
        return float(column(self.records["models"], "truth_absolute_error").mean())


def every_network(records: Records, *, recipes: Sequence[str] = MEASURED) -> list[Networks]:
    """Return the networks of each data set and recipe, the recipes in the order given."""
    every = []
    for name, own in by_dataset(records).items():
        trained = values_of(own["models"], "recipe")
        every += [
            Networks(name, recipe, _of_recipe(own, recipe))
            for recipe in recipes
            if recipe in trained
        ]
    return every


def _of_recipe(records: Records, recipe: str) -> dict[str, pa.Table]:
    shared = ("timings", "sensitivity")
    return {
        study: table if study in shared else where(table, recipe=recipe)
        for study, table in records.items()
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

    A protocol was run where a method was that no other family of protocols has.
    """
    measured = {protocol: methods_of(records, names) for protocol, names in PROTOCOLS.items()}
    return {
        protocol: names
        for protocol, names in measured.items()
        if set(names) & _own_methods(protocol)
    }


def _own_methods(protocol: Protocol) -> set[str]:
    """Return the methods that no other protocol has."""
    own = set(PROTOCOLS[protocol])
    for other, names in PROTOCOLS.items():
        if other != protocol:
            own -= set(names)
    return own


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


WAYS = ("one by one", "batch")  #: how rows are timed: as the paper does it, and all in a call


def speeds(timings: pa.Table) -> tuple[Ints, Floats]:
    """Return n and rows a second of one method and way: the median over its timings.

    Both are empty where it was not timed.
    """
    n, tenths = speed_tenths(timings)
    return n, tenths[:, 1]


def speed_tenths(timings: pa.Table) -> tuple[Ints, Floats]:
    """Return n and rows a second (n, 3) of one method and way.

    They are the first tenth, the median and the last tenth of its timings.
    """
    n = column(timings, "n")
    rows = column(timings, "rows")
    seconds = column(timings, "seconds")
    every_n = np.unique(n)
    tenths = [
        np.quantile(rows[n == each] / seconds[n == each], (0.1, 0.5, 0.9)) for each in every_n
    ]
    return every_n, np.reshape(tenths, (-1, 3))


def speed_at(timings: pa.Table, way: str, method: str, n: int) -> float | None:
    """Return the rows a second of a method at one N, None where it was not timed."""
    numbers, rows_per_second = speeds(where(timings, way=way, method=method))
    return dict(zip(numbers.tolist(), rows_per_second.tolist(), strict=True)).get(n)


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
    """Return what SHEAR's explanations of one data set cost, timed in one way."""
    n, measured = speeds(where(timings, method="shear"))
    _, derivatives = speeds(where(timings, method=DERIVATIVES))
    _, forward = speeds(where(timings, method=FORWARD))
    return Cost(n, 1 / measured, float(1 / derivatives[0]), 1 / forward)


def timed_ways(timings: pa.Table) -> list[str]:
    """Return the ways in which one data set was timed, the paper's first."""
    measured = values_of(timings, "way")
    return [way for way in WAYS if way in measured]


def correlation(x: Floats, y: Floats) -> float:
    """Return Spearman's rank correlation; 0 where one is constant."""
    if np.ptp(x) == 0 or np.ptp(y) == 0:
        return 0.0
    return float(spearmanr(x, y).statistic)


def random_cooperators(cooperators: pa.Table) -> pa.Table:
    """Return the errors of random cooperators at N = 16, for every feature and several draws."""
    random = where(cooperators, selection="random", n=ABLATED)
    return random.filter(pc.greater(random["draw"], 0))


@cache
def published() -> pa.Table:
    """Return the authors' released numbers, as they ship inside the package."""
    with (files("shearshap_lab.experiments") / "published.csv").open("rb") as file:
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
