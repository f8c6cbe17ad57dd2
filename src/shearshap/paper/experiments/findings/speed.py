"""Claims about speed: accuracy at a throughput, and the cost model."""

from collections.abc import Sequence

import numpy as np
import pyarrow as pa

from shearshap.paper.experiments.findings.finding import (
    TOLERANCE,
    Finding,
    by_n,
    rivals,
    verdict,
)
from shearshap.paper.experiments.records import Records, column, where
from shearshap.paper.experiments.style import label_of
from shearshap.paper.experiments.summaries import cost, curve, speeds

#: how many times as many rows a second count as faster, since timings vary
FASTER = 1.1


def fastest(records: Records) -> list[Finding]:
    """Find the baselines that are both faster and more accurate than SHEAR."""
    estimates = records["estimates"]
    wins: list[bool] = []
    evidence = []
    for words, methods in rivals(estimates).items():
        ahead = _ahead(estimates, records["timings"], methods)
        wins += [not names for names in ahead.values()]
        labels = {
            n: " and ".join(label_of(name) for name in names) for n, names in ahead.items() if names
        }
        evidence.append(f"{words}: {by_n(labels) or 'none'}")
    return [
        Finding(
            "SHEAR has the best accuracy at any throughput",
            verdict(wins),
            f"both faster and more accurate than SHEAR at N; {'; '.join(evidence)}",
            "A design that all rows share is one matrix product. SHEAR's design differs from row "
            "to row, and needs derivatives first.",
        )
    ]


def _ahead(estimates: pa.Table, timings: pa.Table, methods: Sequence[str]) -> dict[int, list[str]]:
    """Return, for each of SHEAR's N, which methods are faster and more accurate at any N."""
    shear = curve(where(estimates, method="shear"), "ranking_accuracy")
    _, shear_speed = speeds(where(timings, method="shear"))
    ahead: dict[int, list[str]] = {n: [] for n in shear.n.tolist()}
    for method in methods:
        accuracy = curve(where(estimates, method=method), "ranking_accuracy").mean
        _, speed = speeds(where(timings, method=method))
        for n, least_speed, least_accuracy in zip(ahead, shear_speed, shear.mean, strict=True):
            faster = speed >= FASTER * least_speed
            if np.any(faster & (accuracy > least_accuracy)):
                ahead[n].append(method)
    return ahead


def cost_model(records: Records) -> list[Finding]:
    """Compare SHEAR's measured time with the cost model."""
    seconds = cost(records["timings"])
    ratios = dict(zip(seconds.n.tolist(), seconds.measured / seconds.predicted, strict=True))
    first = records["models"].to_pylist()[0]
    features = first["continuous"] + first["categorical"]
    passes = column(where(records["estimates"], method="shear"), "derivative_passes").max()
    return [
        Finding(
            "SHEAR takes M times (t_backward + N t_forward)",
            verdict([abs(each - 1) <= TOLERANCE for each in ratios.values()]),
            f"{passes} derivative passes for {features} features; measured over predicted time: "
            f"{by_n({n: f'{each:.2f}' for n, each in ratios.items()})}",
            "Selecting, planning and adding up take time as well. The authors' timings leave the "
            "derivatives out.",
        )
    ]
