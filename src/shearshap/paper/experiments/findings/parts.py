"""Claims about the parts of SHEAR: ablations, and the selection of cooperators."""

import numpy as np
import pyarrow as pa

from shearshap.paper.experiments.findings.finding import (
    Finding,
    Verdict,
    ratio,
    verdict,
)
from shearshap.paper.experiments.records import Records, column, where
from shearshap.paper.experiments.spec import ABLATED
from shearshap.paper.experiments.summaries import METRICS, curve, selected


def selection_dominates(records: Records) -> list[Finding]:
    """Compare what the two ablations cost, by all four metrics."""
    estimates = where(records["estimates"], n=ABLATED)
    evidence = "; ".join(_ablated(estimates, metric) for metric in METRICS)
    return [
        Finding(
            "Cooperator selection (CCS) contributes most, antithetical sampling (AS) less, by all "
            "four metrics",
            verdict([_selection_costs_more(estimates, metric) for metric in METRICS]),
            f"at N = {ABLATED}: {evidence}",
            "With antithetical sampling SHEAR is exact for interactions of two features, "
            "whichever cooperators are selected.",
        )
    ]


def _selection_costs_more(estimates: pa.Table, metric: str) -> bool:
    without_selection = _mean(estimates, "shear-without-ccs", metric)
    without_antithetical = _mean(estimates, "shear-without-as", metric)
    if metric == "absolute_error":
        return without_selection > without_antithetical
    return without_selection < without_antithetical


def _ablated(estimates: pa.Table, metric: str) -> str:
    """Return a metric of SHEAR and of its two ablations, in words."""
    digits = 4 if metric == "absolute_error" else 3
    whole = f"{_mean(estimates, 'shear', metric):.{digits}f}"
    without_as = f"{_mean(estimates, 'shear-without-as', metric):.{digits}f}"
    without_ccs = f"{_mean(estimates, 'shear-without-ccs', metric):.{digits}f}"
    return f"{METRICS[metric]} {whole}, {without_as} without AS, {without_ccs} without CCS"


def _mean(estimates: pa.Table, method: str, metric: str) -> float:
    return float(curve(where(estimates, method=method), metric).mean[0])


def cross_contribution(records: Records) -> list[Finding]:
    """Correlate errors with the cross-contribution of random cooperators."""
    random = selected(records["cooperators"])
    return [
        Finding(
            "The error falls as cooperators' cross-contribution rises",
            _falls(random.between, random.within),
            f"rank correlation {random.between:+.2f} over all features, {random.within:+.2f} "
            "within a feature",
            "Features that interact strongly have both large sums and large errors. Taken "
            "together, they hide what holds within a feature.",
        )
    ]


def _falls(between: float, within: float) -> Verdict:
    if between < 0:
        return "agrees"
    return "partly" if within < 0 else "does not"


def lower_bound(records: Records) -> list[Finding]:
    """Compare the errors among SHEAR's cooperators with those among random ones."""
    cooperators = where(records["cooperators"], n=ABLATED)
    own = column(where(cooperators, selection="shear"), "error")
    random = column(where(cooperators, selection="random", draw=0), "error")
    better = float(np.mean(random < own))
    factor = ratio(random.mean(), own.mean())
    return [
        Finding(
            "SHEAR's cooperators reach the lower bound of the error",
            _reaches(better, factor),
            f"at N = {ABLATED} the mean error with random cooperators is {factor:.1f} times "
            f"theirs; {better:.0%} of the random choices do better",
            "Cross-contribution is measured with all features present; the loss is a mean over "
            "coalitions.",
        )
    ]


def _reaches(better: float, factor: float) -> Verdict:
    if better == 0:
        return "agrees"
    return "partly" if factor > 1 else "does not"
