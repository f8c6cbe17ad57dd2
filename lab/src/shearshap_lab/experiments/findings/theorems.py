"""Claims about the theory: efficiency, the chain rule, and the bounds made of it."""

from collections.abc import Sequence

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from shearshap.result.explanation import Floats
from shearshap_lab.experiments import bootstrap
from shearshap_lab.experiments.bootstrap import Interval, Sampled, grouped_mean, row_means
from shearshap_lab.experiments.findings.finding import (
    Counts,
    Finding,
    Number,
    Reading,
    counted,
    leading,
    leading_number,
    reading,
)
from shearshap_lab.experiments.records import column, where
from shearshap_lab.experiments.spec import ABLATED
from shearshap_lab.experiments.summaries import Networks, values_of

NEGLIGIBLE = 1e-9  #: a loss or a bound that is rounding alone
SMALL = 0.1  #: the part of a row's losses that a negligible remainder may be
PRINTED = 0.0005  #: half of the last decimal that the paper prints
PAPER_SUMS = (3.609, 3.604)  #: of the paper's illustration: by SHEAR, and exactly


# Efficiency


def efficiency(every: Sequence[Networks]) -> Finding | None:
    """Compare the sums of the illustrated values with what they should add up to."""
    able = [networks for networks in every if len(networks.records["illustration"])]
    if not able:
        return None
    readings = []
    for networks in able:
        gaps = np.array(list(gaps_of(networks.records["illustration"]).values()))
        misses = int((abs(gaps) >= PRINTED).sum())
        counts = Counts(len(gaps) - misses, 0, misses)
        words = "between the sum and what it should be (geometric mean)"
        number = Number(bootstrap.over_networks(abs(gaps)), words, ".4f")
        readings.append(reading(networks, "three decimals", counts, number))
    by_shear, exact = PAPER_SUMS
    return Finding(
        "The values of a row add up to prediction minus base value",
        "networks, one row each; at the three decimals that the paper prints",
        tuple(readings),
        leading_number(readings, able),
        f"The paper's own add up to {by_shear} by SHEAR, where the exact ones make {exact}.",
        notes=(
            "SHEAR does not enforce it; `explanation.gap` reports the gap, and `corrected()` "
            "spreads it over the features.",
        ),
    )


def gaps_of(illustration: pa.Table) -> dict[int, float]:
    """Return what SHEAR's values of each network's row leave over, by seed."""
    gaps = {}
    for seed in values_of(illustration, "seed"):
        features = where(illustration, seed=seed).to_pylist()
        total = features[0]["prediction"] - features[0]["base_value"]
        gaps[seed] = total - sum(feature["shear"] for feature in features)
    return gaps


# Theorem 1


def theorem_1(every: Sequence[Networks]) -> Finding | None:
    """Measure the remainder of the chain rule beside the losses that it explains."""
    able = [networks for networks in every if len(networks.records["chain"])]
    if not able:
        return None
    readings = []
    for networks in able:
        parts, seeds = remainder_parts(networks.records["chain"])
        counts = Counts(int((parts <= SMALL).sum()), 0, int((parts > SMALL).sum()))
        words = "of a row's losses remain (mean over rows)"
        number = Number(grouped_mean(parts, seeds).interval(), words, ".1%")
        readings.append(reading(networks, "as printed", counts, number))
    own = leading(able)
    chain = own.records["chain"]
    signs = np.sign(column(chain, "loss")) == np.sign(column(chain, "chain"))
    return Finding(
        "Theorem 1: the chain rule leaves a negligible remainder",
        f"rows; the remainders add up to at most {SMALL:.0%} of the losses",
        tuple(readings),
        leading_number(readings, able),
        f"The chain rule has the sign of the loss for {signs.mean():.0%} of {len(chain)} pairs.",
        notes=(
            "The loss φᵢ(U) - φᵢ(U - j) is a mean of second differences. The theorem has second "
            "derivatives at corners in their place, and leaves the rest to its remainder.",
        ),
    )


def remainder_parts(chain: pa.Table) -> tuple[Floats, NDArray[np.int64]]:
    """Return sum |remainder| over sum |loss| of each row that loses anything, and its network."""
    ordered = chain.sort_by([("seed", "ascending"), ("row", "ascending")])
    keys = np.column_stack([column(ordered, "seed"), column(ordered, "row")])
    every, place = np.unique(keys, axis=0, return_inverse=True)
    losses = np.bincount(place.ravel(), abs(column(ordered, "loss")))
    remainders = np.bincount(place.ravel(), abs(column(ordered, "remainder")))
    lossy = losses > NEGLIGIBLE
    return remainders[lossy] / losses[lossy], every[lossy, 0]


# Theorem 2


def theorem_2(every: Sequence[Networks]) -> Finding | None:
    """Measure how tight Theorem 2's bound is, and how often it fails."""
    able = [networks for networks in every if len(networks.records["bounds"])]
    if not able:
        return None
    readings: list[Reading] = []
    for networks in able:
        readings.append(_bounded(networks, "printed", "as printed"))
        readings.append(_bounded(networks, "sure", "by differences"))
    own = leading(able)
    median, most = loss_over_bound(own.records["bounds"])
    return Finding(
        "Theorem 2 bounds what one feature loses without another",
        "pairs of features",
        tuple(readings),
        leading_number(readings, able),
        f"The median loss is {median:.0%} of the printed bound, the largest {most:.2f} times it.",
        notes=(
            "Its proof drops the remainder of Theorem 1: second derivatives at corners are not the "
            "differences between them. With differences the bound always holds.",
        ),
    )


def _bounded(networks: Networks, name: str, words: str) -> Reading:
    bounds = networks.records["bounds"]
    beyond = exceeding(bounds, name)
    return _kept(networks, words, bounds, beyond, f"of pairs exceed it ({words})")


def exceeding(records: pa.Table, bound: str, bounded: str = "loss") -> Floats:
    """Return for each record whether it exceeds its bound, rounding allowed for: 1 or 0."""
    beyond = column(records, bounded) > column(records, bound) * (1 + 1e-4) + NEGLIGIBLE
    return np.asarray(beyond, dtype=np.float64)


def _kept(networks: Networks, words: str, records: pa.Table, beyond: Floats, what: str) -> Reading:
    """Return how many records keep to their bound, and the part that does not."""
    part = row_means(beyond, column(records, "seed"), column(records, "row")).interval()
    counts = Counts(int((beyond == 0).sum()), 0, int(beyond.sum()))
    return reading(networks, words, counts, Number(part, what, ".1%"))


def loss_over_bound(bounds: pa.Table) -> tuple[float, float]:
    """Return the median and the maximum of loss over the printed bound.

    Pairs with a bound of 0 are not in the median; a loss there makes the maximum infinite.
    """
    loss = column(bounds, "loss")
    bound = column(bounds, "printed")
    bounded = bound > NEGLIGIBLE
    ratio = loss[bounded] / bound[bounded]
    median = float(np.median(ratio)) if len(ratio) else 0.0
    if (loss[~bounded] > NEGLIGIBLE).any():
        return median, float("inf")
    most = float(ratio.max()) if len(ratio) else 0.0
    return median, most


# Remark 2


def remark_2(every: Sequence[Networks]) -> Finding | None:
    """Measure whether Remark 2's bound holds, and how near SHEAR's selection comes to its least."""
    able = [networks for networks in every if len(networks.records["selection_bound"])]
    if not able:
        return None
    readings: list[Reading] = []
    for networks in able:
        readings.append(_holds(networks))
        readings.append(_below_random(networks))
    own = leading(able)
    least = bound_ratio(own, ABLATED, "shear", "bound", "bound")
    error = bound_ratio(own, ABLATED, "shear", "bound", "error")
    return Finding(
        "Remark 2: selection minimises a bound of the error",
        "features that it bounds; N for its size among random choices",
        tuple(readings),
        Number(least, "SHEAR's bound over the smallest there is"),
        f"Cooperators that minimise the bound have an error {1 / error.value:.2f} times that of "
        "SHEAR's.",
    )


def _holds(networks: Networks) -> Reading:
    """Return for how many features, rows and choices the printed bound holds."""
    records = networks.records["selection_bound"]
    beyond = exceeding(records, "bound", "error")
    return _kept(networks, "it holds", records, beyond, "of errors exceed it")


def _below_random(networks: Networks) -> Reading:
    """Return whether SHEAR's choice has a smaller bound than random ones, by N."""
    every_n = sorted(values_of(networks.records["selection_bound"], "n"))
    ratios = {n: bound_ratio(networks, n, "shear", "random", "bound") for n in every_n}
    counts = counted(bootstrap.judged_ratio(each) for each in ratios.values())
    words = "SHEAR's bound over that of random choices"
    return reading(networks, "it is small", counts, Number(ratios[ABLATED], words))


def bound_ratio(networks: Networks, n: int, first: str, second: str, name: str) -> Interval:
    """Return the mean bound, or error, of one selection over that of another at n."""
    records = where(networks.records["selection_bound"], n=n)
    return bootstrap.ratio(_row_mean(records, first, name), _row_mean(records, second, name))


def _row_mean(records: pa.Table, selection: str, name: str) -> Sampled:
    """Return the mean of a column for a selection: over features and draws first, then rows."""
    own = where(records, selection=selection)
    return row_means(column(own, name), column(own, "seed"), column(own, "row"))
