"""The records of a run by network, numbers made of them, and the authors' released numbers."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cache, cached_property
from importlib.resources import files
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv
from numpy.typing import NDArray

from shearshap.apps.report import Series
from shearshap_lab.experiments.spec import ABLATION_N, READINGS, Reading, Records, baselines
from shearshap_lab.runner import column, values_of, where
from shearshap_lab.statistics import (
    Estimate,
    Floats,
    Interval,
    count_interval,
    mean_over,
    rank_correlation,
    ratio,
    row_mean,
)

METRICS: dict[str, str] = {
    "absolute_error": "absolute error",
    "ranking_accuracy": "ranking accuracy",
    "faithfulness": "faithfulness",
    "monotonicity": "monotonicity",
}  #: the columns of estimates that hold a metric, and what to call them

RECIPE_WORDS = {
    "authors": "networks by the authors' recipe",
    "ours": "networks by our recipe",
}

READING_WORDS: dict[Reading, str] = {
    "authors": "as the authors ran them",
    "paper": "as the appendix describes them, PS and APS by prefixes of permutations",
    "paper-coin": "as the appendix describes them, PS and APS by fair coins",
    "fair": "fair, each method at its best",
}

WAYS = ("one by one", "batch")  #: how rows are timed: as the paper does it, and all in a call


# Methods

SERIES: dict[str, Series] = {
    series.name: series
    for series in (
        # the colours of Okabe and Ito, which most colour-blind people can tell apart
        Series("shear", "SHEAR", "#D55E00", marker="o"),
        Series("shear-block", "SHEAR block maximum", "#D55E00", marker="X"),
        Series("shear-unbiased", "SHEAR unbiased", "#CC79A7", marker="P"),
        Series("kernel", "KS", "#56B4E9", marker="s"),
        Series("kernel-welford", "KS-WF", "#0072B2", marker="D"),
        Series("kernel-paired", "KS-Pair", "#009E73", marker="^"),
        Series("permutation", "PS", "#E69F00", marker="v"),
        Series("permutation-antithetic", "APS", "#7A4B00", marker="<"),
        Series("permutation-coin", "PS by coins", "#E69F00", marker=">"),
        Series("permutation-antithetic-coin", "APS by coins", "#7A4B00", marker="X"),
        Series("leverage", "Leverage", "#707070", marker=">"),
        Series("kriging", "Kriging", "#000000", marker="*"),
        Series("truth", "Exact values", "#333333", "1 2"),
        Series("with-ccs", "with CCS", "#D55E00", marker="o"),
        Series("without-ccs", "without CCS", "#0072B2", marker="s"),
    )
}
"""What lines look like, by the names of methods without the reading."""

ABLATION_LABELS = {
    "shear-without-ccs": "SHEAR without CCS",
    "shear-unpaired": "SHEAR without AS, V unpaired",
    "shear-unpaired-without-ccs": "SHEAR without AS and CCS, V unpaired",
    "shear-empty": "SHEAR without AS, V empty",
    "shear-empty-without-ccs": "SHEAR without AS and CCS, V empty",
}


def series_of(method: str) -> Series:
    """Return the look of a method; a baseline looks the same in every reading."""
    if method == "shear-authors":
        return SERIES["shear-block"]
    return SERIES[method.removesuffix("-paper").removesuffix("-authors")]


def label_of(method: str) -> str:
    """Return the name of a method in tables and sentences, such as KS-Pair."""
    if method in ABLATION_LABELS:
        return ABLATION_LABELS[method]
    return series_of(method).label.removesuffix(" by coins")


# Networks


@dataclass(frozen=True, eq=False)
class Networks:
    """The networks of one data set that one recipe trained, and their records."""

    dataset: str
    recipe: str
    records: Records  #: timings are the data set's, whatever the recipe

    @property
    def title(self) -> str:
        """Their name in headings: "census, networks by the authors' recipe"."""
        return f"{self.dataset}, {RECIPE_WORDS[self.recipe]}"

    @property
    def count(self) -> int:
        """How many networks there are."""
        return len(self.records["models"])

    @property
    def truth_error(self) -> float:
        """The absolute error of the truth itself, a mean over networks; 0 if it is exact."""
        return float(column(self.records["models"], "truth_error").mean())

    @cached_property
    def _cells(self) -> dict[tuple[str, int], pd.DataFrame]:
        """The estimates of each method and N, by network and row."""
        return _by_method(self.records["estimates"], "row")

    @cached_property
    def _rounds(self) -> dict[tuple[str, int], pd.DataFrame]:
        """The mean estimates of each method and N, by network and round."""
        return _by_method(self.records["rounds"], "round")

    @cached_property
    def _known(self) -> dict[tuple[str, int, str], Estimate]:
        return {}

    def n(self, method: str = "shear") -> list[int]:
        """Return the numbers of evaluations a feature at which a method was measured."""
        return sorted(n for name, n in self._cells if name == method)

    def mean(self, method: str, n: int, metric: str) -> Estimate:
        """Return the mean of a metric over networks, rounds and rows."""
        key = (method, n, metric)
        if key not in self._known:
            rows = _by_network(self._cells[method, n], metric)
            self._known[key] = mean_over(list(rows), crossed=self.crossed)
        return self._known[key]

    def spread(self, method: str, n: int, metric: str) -> Estimate:
        """Return the variance of a metric over rows, of means over rounds."""
        rows = _by_network(self._cells[method, n], metric)
        squares = (rows - rows.mean(axis=1, keepdims=True)) ** 2
        return mean_over(list(squares), crossed=self.crossed)

    def by_round(self, method: str, n: int, metric: str) -> Floats:
        """Return the mean over rows of a metric, (networks, rounds)."""
        return _by_network(self._rounds[method, n], metric)

    def row_seconds(self, way: str, method: str) -> dict[int, Floats]:
        """Return the seconds that a row took, by N, one for each round of timings."""
        own = self._timings.get((way, method), pd.DataFrame({"n": []}))
        return {int(n): each["each"].to_numpy() for n, each in own.groupby("n")}

    @cached_property
    def _timings(self) -> dict[tuple[str, str], pd.DataFrame]:
        frame = self.records["timings"].to_pandas().sort_values("round")
        frame["each"] = frame["seconds"] / frame["rows"]
        return dict(iter(frame.groupby(["way", "method"])))

    @cached_property
    def crossed(self) -> bool:
        """Whether all networks explain the same rows: by the authors' recipe they do."""
        rows = self.records["estimates"].to_pandas().groupby("seed")["row"].agg(frozenset)
        return bool(rows.nunique() == 1)

    def rivals(self, reading: Reading) -> list[str]:
        """Return the five baselines of a reading that were measured."""
        measured = {method for method, _ in self._cells}
        return [method for method in baselines(reading) if method in measured]

    def methods(self, reading: Reading) -> list[str]:
        """Return the methods of a reading that were measured."""
        measured = {method for method, _ in self._cells}
        return [method for method in READINGS[reading] if method in measured]


def _by_method(records: pa.Table, order: str) -> dict[tuple[str, int], pd.DataFrame]:
    frame = records.to_pandas().sort_values(["seed", order])
    return dict(iter(frame.groupby(["method", "n"])))


def _by_network(cell: pd.DataFrame, metric: str) -> Floats:
    """Return a metric of one method at one N, (networks, rows or rounds)."""
    return np.asarray(cell[metric], dtype=np.float64).reshape(cell["seed"].nunique(), -1)


def every_network(records: Records) -> list[Networks]:
    """Return the networks of each data set and recipe."""
    models = records["models"]
    pairs = zip(models["dataset"].to_pylist(), models["recipe"].to_pylist(), strict=True)
    return [
        Networks(
            dataset,
            recipe,
            {
                study: where(table, dataset=dataset)
                if study == "timings"
                else where(table, dataset=dataset, recipe=recipe)
                for study, table in records.items()
            },
        )
        for dataset, recipe in dict.fromkeys(pairs)
    ]


def leading(every: Sequence[Networks]) -> Networks:
    """Return the networks whose numbers stand for all: the first by the authors' recipe."""
    authors = [networks for networks in every if networks.recipe == "authors"]
    return (authors or list(every))[0]


def metric_interval(networks: Networks, method: str, n: int, metric: str) -> Interval:
    """Return the mean of a metric with its interval, which stays within the possible numbers."""
    mean = networks.mean(method, n, metric)
    if metric == "absolute_error":
        return mean.positive_interval()
    return mean.bounded_interval(-1 if metric == "faithfulness" else 0, 1)


def time_ratio(first: Floats, second: Floats) -> Interval:
    """Return how many times longer one took than the other, with its interval over rounds."""
    rounds = min(len(first), len(second))  # kriging is timed in the first rounds alone
    logs = np.log(first[:rounds] / second[:rounds])
    return mean_over([logs]).interval().map(np.exp)


def timed_ways(networks: Networks) -> list[str]:
    """Return the ways in which a data set was timed, the paper's first."""
    measured = values_of(networks.records["timings"], "way")
    return [way for way in WAYS if way in measured]


# Cooperators


def random_cooperators(networks: Networks) -> pa.Table:
    """Return the errors of random cooperators at N = 16, for every feature and several draws."""
    random = where(networks.records["cooperators"], selection="random", n=ABLATION_N)
    return random.filter(pc.greater(random["draw"], 0))


def correlation(random: pa.Table) -> Interval:
    """Return the rank correlation of error and cross-contribution over features, rows, draws."""
    names = ("cross_contribution", "error", "seed", "row")
    return rank_correlation(*(column(random, name) for name in names))


def feature_correlations(random: pa.Table) -> dict[int, Interval]:
    """Return the rank correlation across rows of each feature."""
    players = sorted(values_of(random, "player"))
    return {player: correlation(where(random, player=player)) for player in players}


def within_correlation(random: pa.Table) -> Interval:
    """Return the rank correlation over the draws of one feature of one row, a mean over all."""
    names = ("draw", "player", "row", "seed")
    order = np.lexsort([column(random, name) for name in names])
    draws = len(values_of(random, "draw"))
    ranks = [
        column(random, name)[order].reshape(-1, draws).argsort(axis=1).argsort(axis=1)
        for name in ("cross_contribution", "error")
    ]
    centred = [rank - (draws - 1) / 2 for rank in ranks]
    # ranks 0 ... d - 1 have the variance (d^2 - 1) / 12
    correlations = (centred[0] * centred[1]).mean(axis=1) * 12 / max(draws**2 - 1, 1)
    seeds, rows = (column(random, name)[order][::draws] for name in ("seed", "row"))
    return row_mean(correlations, seeds, rows).bounded_interval(-1, 1)


def selection_ratios(records: pa.Table) -> dict[int, Interval]:
    """Return the mean error among SHEAR's cooperators over that among random ones, by N.

    An N at which all features are cooperators, so that nothing is lost, is left out.
    """
    ratios = {}
    for n in sorted(values_of(records, "n")):
        own, random = (selected_mean(records, n, name, "error") for name in ("shear", "random"))
        if max(own.mean, random.mean) > 1e-6:
            ratios[n] = ratio(own, random)
    return ratios


def better_choices(records: pa.Table) -> Interval | None:
    """Return the fraction of random choices with a smaller error than SHEAR's."""
    order = [("seed", "ascending"), ("row", "ascending")]
    own = where(records, selection="shear").sort_by(order)
    random = where(records, selection="random").sort_by(order)
    if not len(own):
        return None
    return share_of(own, column(random, "error") < column(own, "error"))


def bound_ratio(networks: Networks, n: int, first: str, second: str, name: str) -> Interval:
    """Return the mean of Remark 2's bound, or error, of one selection over another's at n."""
    records = networks.records["selection_bound"]
    return ratio(selected_mean(records, n, first, name), selected_mean(records, n, second, name))


def selected_mean(records: pa.Table, n: int, selection: str, name: str) -> Estimate:
    """Return the mean of a column at n, of one selection of cooperators."""
    own = where(records, n=n, selection=selection)
    return mean_of(own, column(own, name))


def mean_of(records: pa.Table, values: Floats) -> Estimate:
    """Return the mean over networks and rows of values (n,), one for each record."""
    return row_mean(values, column(records, "seed"), column(records, "row"))


def share_of(records: pa.Table, is_so: NDArray[Any]) -> Interval:
    """Return the fraction of records (n,) of which something is so; of all or none, by rows."""
    mean = mean_of(records, np.asarray(is_so, dtype=np.float64))
    if 0 < mean.mean < 1:
        return mean.bounded_interval()
    rows = sum(len(part) for part in mean.parts)
    return count_interval(round(mean.mean * rows), rows)


# The authors' released numbers

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


@cache
def published() -> pa.Table:
    """Return the authors' released numbers, as they ship inside the package."""
    with (files("shearshap_lab.experiments") / "published.csv").open("rb") as file:
        return pyarrow.csv.read_csv(file)


def published_curve(dataset: str, method: str, name: str) -> dict[int, float]:
    """Return a column of the released numbers of a method, by evaluations a feature.

    It is empty if there are none. Stale files, whose values are scaled wrongly, are left out.
    """
    rows = where(published(), dataset=dataset, method=PUBLISHED.get(method, "")).to_pylist()
    return {
        int(row["evaluations_per_feature"]): float(row[name])
        for row in rows
        if row[name] is not None and not row["note"].startswith("stale")
    }


def listed(items: Iterable[Any]) -> str:
    """Return "a, b and c"."""
    *first, last = map(str, items)
    return f"{', '.join(first)} and {last}" if first else last
