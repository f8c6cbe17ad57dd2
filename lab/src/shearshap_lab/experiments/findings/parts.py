"""Claims about the parts of SHEAR: ablations, and the selection of cooperators."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray
from scipy.stats import rankdata

from shearshap.result.explanation import Floats
from shearshap_lab.comparisons import Verdict
from shearshap_lab.experiments import bootstrap
from shearshap_lab.experiments.bootstrap import TOO_FEW, Interval, Sampled, grouped_mean
from shearshap_lab.experiments.findings.comparing import compare
from shearshap_lab.experiments.findings.finding import (
    Finding,
    Number,
    Reading,
    counted,
    leading,
    leading_number,
    reading,
    written,
)
from shearshap_lab.experiments.records import column, where
from shearshap_lab.experiments.spec import ABLATED, ABLATIONS
from shearshap_lab.experiments.summaries import (
    METRICS,
    Networks,
    correlation,
    methods_of,
    random_cooperators,
    values_of,
)

GRID: dict[str, tuple[str, str]] = {
    "paired": ("shear", "shear-without-ccs"),
    "unpaired": ("shear-unpaired", "shear-unpaired-without-ccs"),
    "empty": ("shear-empty", "shear-empty-without-ccs"),
}
"""The ablations by how background coalitions are drawn: with CCS, and without."""

NOTHING_LOST = Interval(1.0, 1.0, 1.0)  #: SHEAR's errors over random ones, where none has any
RARE = 0.01  #: the fraction of random choices that may do better than SHEAR's


def ablated(every: Sequence[Networks]) -> list[Networks]:
    """Return the networks on which all ablations were run."""
    return [
        networks
        for networks in every
        if len(methods_of(networks.records["estimates"], tuple(ABLATIONS))) == len(ABLATIONS)
    ]


# Ablations


def selection_dominates(every: Sequence[Networks]) -> Finding | None:
    """Compare what leaving out CCS costs with what leaving out AS costs, in its two readings."""
    able = ablated(every)
    if not able:
        return None
    readings = [_costs(networks, name) for networks in able for name in ("unpaired", "empty")]
    own = leading(able)
    unpaired = _cost_number(own, "unpaired")
    empty = _cost_number(own, "empty")
    return Finding(
        "Selection (CCS) matters more than antithetical sampling (AS)",
        "four metrics; leaving out CCS costs more than leaving out AS",
        tuple(readings),
        unpaired,
        f"Where leaving out AS means an empty V, it is {empty} times.",
    )


def _costs(networks: Networks, name: str) -> Reading:
    """Return whether leaving out CCS costs more than leaving out AS, by all four metrics."""
    without_as, _ = GRID[name]
    verdicts = [
        compare(networks, without_as, "shear-without-ccs", ABLATED, metric).verdict
        for metric in METRICS
    ]
    number = _cost_number(networks, name)
    return reading(networks, f"V {name}", counted(verdicts), number)


def _cost_number(networks: Networks, name: str) -> Number:
    without_as, _ = GRID[name]
    found = compare(networks, without_as, "shear-without-ccs", ABLATED, "absolute_error")
    words = f"error without AS, V {name}, over that without CCS"
    return Number(found.interval, words)


def pairing(every: Sequence[Networks]) -> Finding | None:
    """Measure what selection is worth where background coalitions are paired, and where not."""
    able = ablated(every)
    if not able:
        return None
    readings = [_worth(networks, name) for networks in able for name in GRID]
    own = leading(able)
    paired, unpaired, empty = (selection_worth(own, name) for name in GRID)
    return Finding(
        "Not in the paper: selection helps, with and without pairs",
        "four metrics; selection helps",
        tuple(readings),
        Number(paired, "error without CCS over that with it, V paired"),
        f"Without CCS errors are {written(paired.value)} times as large with V paired, "
        f"{written(unpaired.value)} unpaired, {written(empty.value)} empty.",
        notes=(
            "With antithetical sampling SHEAR is exact for interactions of two features, whichever "
            "cooperators are selected; that leaves less for the selection to do.",
        ),
    )


def selection_worth(networks: Networks, name: str) -> Interval:
    """Return how many times larger the error is without CCS, for one way to draw V."""
    with_selection, without = GRID[name]
    return compare(networks, without, with_selection, ABLATED, "absolute_error").interval


def _worth(networks: Networks, name: str) -> Reading:
    with_selection, without = GRID[name]
    verdicts = [
        compare(networks, with_selection, without, ABLATED, metric).verdict for metric in METRICS
    ]
    words = f"error without CCS over that with it, V {name}"
    number = Number(selection_worth(networks, name), words)
    return reading(networks, f"V {name}", counted(verdicts), number)


# Cross-contribution and error: Figure 4 e


def cross_contribution(every: Sequence[Networks]) -> Finding | None:
    """Correlate errors with the cross-contribution of random cooperators, in three readings."""
    able = [each for each in every if len(random_cooperators(each.records["cooperators"]))]
    if not able:
        return None
    readings: list[Reading] = []
    for networks in able:
        readings += _correlation_readings(networks)
    own = [each for each in readings if each.recipe == leading(able).recipe]
    return Finding(
        "The error falls as cross-contribution rises",
        "data sets; features in the third reading",
        tuple(readings),
        own[0].number,
        f"{own[1].number.interval.value:+.2f} within a feature of a row; for one feature across "
        f"rows {_across_rows(leading(able))}.",
    )


def _across_rows(networks: Networks) -> str:
    """Return "from -0.85 to +0.10": the correlations of single features across rows."""
    values = [each.value for each in feature_correlations(networks).values()]
    if not values:
        return f"there are {TOO_FEW}"
    return f"from {min(values):+.2f} to {max(values):+.2f}"


def _correlation_readings(networks: Networks) -> list[Reading]:
    together = overall_correlation(networks)
    within = within_correlation(networks)
    features = list(feature_correlations(networks).values())
    return [
        reading(
            networks,
            "all features",
            counted([_falls(together)]),
            Number(together, "rank correlation over all features", "+.2f"),
        ),
        reading(
            networks,
            "within a feature",
            counted([_falls(within)]),
            Number(within, "rank correlation within a feature of a row", "+.2f"),
        ),
        reading(
            networks,
            "one feature across rows",
            counted(_falls(each) for each in features),
            _middle_number(features),
        ),
    ]


def _middle_number(features: Sequence[Interval]) -> Number:
    """Return the correlation of the feature in the middle, if any has enough rows for one."""
    words = "rank correlation of the middle feature across rows"
    if not features:
        return Number(bootstrap.NOTHING, f"{words}: {TOO_FEW}")
    middle = float(np.median([each.value for each in features]))
    nearest = min(features, key=lambda each: abs(each.value - middle))
    return Number(nearest, words, "+.2f")


def _falls(interval: Interval) -> Verdict:
    """Return whether a correlation is negative."""
    if interval.high < 0:
        return "win"
    return "loss" if interval.low > 0 else "tie"


def overall_correlation(networks: Networks) -> Interval:
    """Return the rank correlation over all features, rows and draws: its mean over networks."""
    return _rank_correlation(random_cooperators(networks.records["cooperators"]))


def feature_correlations(networks: Networks) -> dict[int, Interval]:
    """Return the rank correlation across rows of each feature that has enough of them."""
    random = random_cooperators(networks.records["cooperators"])
    found = {}
    for player in sorted(values_of(random, "player")):
        own = where(random, player=player)
        if min(_rows_of_networks(own)) > 2:
            found[player] = _rank_correlation(own)
    return found


def _rows_of_networks(cooperators: pa.Table) -> list[int]:
    seeds = column(cooperators, "seed")
    rows = column(cooperators, "row")
    return [len(np.unique(rows[seeds == seed])) for seed in np.unique(seeds)]


def _rank_correlation(cooperators: pa.Table) -> Interval:
    """Return the rank correlation of error and cross-contribution, with its interval.

    Rows are drawn within networks. Ranks are those among all rows of a network.
    """
    seeds = column(cooperators, "seed")
    eta = column(cooperators, "cross_contribution")
    error = column(cooperators, "error")
    rows = column(cooperators, "row")
    rng = np.random.default_rng(bootstrap.SEED)
    own: list[float] = []
    replicates = []
    for seed in np.unique(seeds):
        here = seeds == seed
        sums = _row_sums(rankdata(eta[here]), rankdata(error[here]), rows[here])
        own.append(float(_pearson(sums.sum(axis=0)[None])[0]))
        even = np.full(len(sums), 1 / len(sums))
        drawn = rng.multinomial(len(sums), even, size=bootstrap.REPLICATES)
        replicates.append(_pearson(drawn @ sums))
    chosen = rng.integers(len(own), size=(bootstrap.REPLICATES, len(own)))
    over = bootstrap.over_drawn(np.array(replicates), chosen)
    over = bootstrap.spread(over, len(own), len(np.unique(rows)))
    return Sampled(float(np.mean(own)), over, np.array(own)).interval()


def _row_sums(x: Floats, y: Floats, rows: NDArray[np.int64]) -> Floats:
    """Return the sums of 1, x, y, x^2, y^2 and x y over the records of each row, (r, 6)."""
    x = x - x.mean()
    y = y - y.mean()
    _, place = np.unique(rows, return_inverse=True)
    parts = np.column_stack([np.ones_like(x), x, y, x**2, y**2, x * y])
    sums = np.zeros((place.max() + 1, parts.shape[1]))
    np.add.at(sums, place, parts)
    return sums


def _pearson(sums: Floats) -> Floats:
    """Return correlations from sums (b, 6); 0 where one of the two is constant."""
    count, x, y, xx, yy, xy = sums.T
    covariance = xy - x * y / count
    scale = np.sqrt(np.maximum(xx - x**2 / count, 0) * np.maximum(yy - y**2 / count, 0))
    correlations = np.divide(covariance, scale, out=np.zeros_like(scale), where=scale > 1e-9)
    return np.asarray(correlations)


def within_correlation(networks: Networks) -> Interval:
    """Return the rank correlation over the draws of one feature of one row, a mean over all."""
    random = random_cooperators(networks.records["cooperators"])
    targets = by_target(random)
    pairs = zip(targets.cross_contribution, targets.error, strict=True)
    correlations = np.array([correlation(eta, error) for eta, error in pairs])
    return grouped_mean(correlations, targets.seed).interval()


@dataclass(frozen=True)
class Targets:
    """A feature of a row each: error and cross-contribution of its random cooperators."""

    cross_contribution: Floats  #: (targets, draws)
    error: Floats  #: (targets, draws)
    seed: NDArray[np.int64]  #: (targets,) the network


def by_target(random: pa.Table) -> Targets:
    """Return random cooperators' numbers by feature, row and network."""
    names = ("draw", "player", "row", "seed")
    order = np.lexsort([column(random, name) for name in names])
    draws = len(np.unique(column(random, "draw")))
    eta = column(random, "cross_contribution")[order].reshape(-1, draws)
    error = column(random, "error")[order].reshape(-1, draws)
    return Targets(eta, error, column(random, "seed")[order][::draws])


# The lower bound: Figure 4 f


def lower_bound(every: Sequence[Networks]) -> Finding | None:
    """Compare the errors among SHEAR's cooperators with those among random ones."""
    able = [each for each in every if len(where(each.records["cooperators"], selection="shear"))]
    if not able:
        return None
    readings: list[Reading] = []
    for networks in able:
        ratios = selection_ratios(networks)
        verdicts = [bootstrap.judged_ratio(each) for each in ratios.values()]
        words = "SHEAR's error over that of random choices"
        number = Number(ratios.get(ABLATED, NOTHING_LOST), words)
        readings.append(reading(networks, "mean", counted(verdicts), number))
        rare = better_choices(networks)
        words = "of random choices do better"
        judged = bootstrap.judged_within(rare, 0, RARE)
        number = Number(rare, words, ".1%")
        readings.append(reading(networks, "every choice", counted([judged]), number))
    own = leading(able)
    return Finding(
        "SHEAR's cooperators reach the lower bound of the error",
        f"N for the mean; at most {RARE:.0%} of random choices better for every choice",
        tuple(readings),
        leading_number(readings, able),
        f"{better_choices(own).value:.0%} of random choices do better than SHEAR's.",
    )


def selection_ratios(networks: Networks) -> dict[int, Interval]:
    """Return the mean error among SHEAR's cooperators over that among random ones, by N.

    An N at which all features are cooperators, so that nothing is lost, is left out.
    """
    records = where(networks.records["cooperators"], draw=0)
    ratios = {}
    for n in sorted(values_of(records, "n")):
        own = _mean_error(where(records, n=n, selection="shear"))
        random = _mean_error(where(records, n=n, selection="random"))
        if max(own.mean, random.mean) > 1e-6:
            ratios[n] = bootstrap.ratio(own, random)
    return ratios


def _mean_error(cooperators: pa.Table) -> Sampled:
    ordered = cooperators.sort_by([("seed", "ascending"), ("row", "ascending")])
    return grouped_mean(column(ordered, "error"), column(ordered, "seed"))


def better_choices(networks: Networks) -> Interval:
    """Return the fraction of random choices at N = 16 with a smaller error than SHEAR's."""
    records = where(networks.records["cooperators"], draw=0, n=ABLATED)
    order = [("seed", "ascending"), ("row", "ascending")]
    own = where(records, selection="shear").sort_by(order)
    random = where(records, selection="random").sort_by(order)
    better = (column(random, "error") < column(own, "error")).astype(np.float64)
    return grouped_mean(better, column(own, "seed")).interval()
