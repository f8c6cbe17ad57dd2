"""Claims about the theory: efficiency, and the bound of Theorem 2."""

import numpy as np

from shearshap.explanation import Floats
from shearshap.paper.experiments.findings.finding import Finding
from shearshap.paper.experiments.records import Records, column
from shearshap.paper.experiments.summaries import illustrated

NEGLIGIBLE = 1e-9  #: a loss or a bound that is rounding alone


def efficiency(records: Records) -> list[Finding]:
    """Compare the sum of the illustrated values with what they should add up to."""
    features = illustrated(records["illustration"])
    if not features:
        return []
    total = features[0]["prediction"] - features[0]["base_value"]
    gap = total - sum(feature["shear"] for feature in features)
    return [
        Finding(
            "The illustrated values add up to the prediction minus the base value",
            "agrees" if abs(gap) < 1e-6 else "partly",
            f"they should add up to {total:+.4f}; SHEAR leaves a gap of {gap:+.4f}",
            "SHEAR does not enforce it; `explanation.gap` reports the gap, and `corrected()` "
            "spreads it over the features.",
        )
    ]


def theorem_2(records: Records) -> list[Finding]:
    """Measure how tight Theorem 2's bound is, and how often it fails."""
    bounds = records["bounds"]
    if not len(bounds):
        return []
    loss = column(bounds, "loss")
    printed = column(bounds, "printed")
    exceed = _exceeding(loss, printed)
    exceed_differences = _exceeding(loss, column(bounds, "sure"))
    median, most = _ratios(loss, printed)
    return [
        Finding(
            "Theorem 2 bounds how much leaving a feature out changes the value of another",
            "agrees" if exceed == 0 else "partly",
            f"the median loss is {median:.0%} of the printed bound; {exceed:.1%} of {len(loss)} "
            f"pairs exceed it, by {max(0.0, most - 1):.0%} at most; with differences in place of "
            f"derivatives, {exceed_differences:.1%} do",
            "Its proof leaves out a remainder: the second derivatives at the corners are not the "
            "differences between them.",
        )
    ]


def _exceeding(loss: Floats, bound: Floats) -> float:
    """Return the fraction of losses above their bound, rounding allowed for."""
    return float(np.mean(loss > bound * (1 + 1e-4) + NEGLIGIBLE))


def _ratios(loss: Floats, bound: Floats) -> tuple[float, float]:
    """Return the median and the maximum of loss over bound.

    Pairs with a bound of 0 are not in the median; a loss there makes the maximum infinite.
    """
    bounded = bound > NEGLIGIBLE
    unbounded_loss = loss[~bounded] > NEGLIGIBLE
    ratio = loss[bounded] / bound[bounded]
    median = float(np.median(ratio)) if len(ratio) else 0.0
    if unbounded_loss.any():
        return median, float("inf")
    most = float(ratio.max()) if len(ratio) else 1.0
    return median, most
