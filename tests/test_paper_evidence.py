"""The evidence for each claim of the paper: its numbers, against slow oracles."""

import statistics
from collections.abc import Sequence
from itertools import combinations
from typing import Any

from scipy.stats import spearmanr

from paper_claims import evidence, held
from paper_oracles import slow_mean, slow_seconds
from paper_records import (
    CENSUS,
    EVALUATIONS,
    FAIR,
    ROWS,
    SIZES,
    accurate,
    better,
    constant,
    lucky,
    only,
    revised,
    scored,
    shuffled,
    times,
    unsteady,
)
from shearshap.paper.experiments.findings import findings, findings_table
from shearshap.paper.experiments.records import Records, where
from shearshap.paper.experiments.spec import PROTOCOLS, baselines
from shearshap.paper.experiments.studies import DERIVATIVES, FORWARD
from shearshap.paper.experiments.style import label_of
from shearshap.paper.experiments.summaries import METRICS, published_curve


def test_evidence_of_errors() -> None:
    own = CENSUS["estimates"]
    size = 2.34738
    theirs = published_curve("census", "shear", "ae_mean")

    def mean(method: str, n: int, **equal: Any) -> float:
        return slow_mean(own, "absolute_error", method=method, n=n, **equal)

    scale = size / statistics.mean(SIZES.values())
    ratios = [
        f"N = {n}: {100 * (scale * mean('shear-authors', n) / theirs[n] - 1):+.0f}%"
        for n in EVALUATIONS
    ]
    each = [
        size / of * mean("shear-authors", 16, seed=seed) / theirs[16] - 1
        for seed, of in SIZES.items()
    ]
    assert evidence("released_error") == (
        f"SHEAR block maximum, mean over networks, rescaled to the authors' mean ‖φ‖₁: {', '.join(ratios)}. "
        f"Single networks at N = 16: {', '.join(f'{100 * difference:+.0f}%' for difference in each)}"
    )
    names = ("permutation-authors", "permutation-antithetic-authors", "shear")
    assert f"; N = 16: {', '.join(f'{mean(name, 16):.4f}' for name in names)};" in evidence(
        "released_order"
    )
    assert (
        evidence("least_error") == "Error: SHEAR first at every N. Ranking: SHEAR first at every N."
    )
    most = max(mean("shear", n) / mean("kernel", n) for n in (16, 32))
    assert evidence("least_error", better(better(CENSUS, "kernel", n=16), "kernel", n=32)) == (
        f"Error: SHEAR first at N = 8; KS at N = 16, 32 (error up to {100 * most:.2f} times smaller). "
        "Ranking: SHEAR first at every N."
    )
    ranked = scored(CENSUS, ("ranking_accuracy",), constant(0.999), method="kernel", n=16)
    distance = 1 - slow_mean(own, "ranking_accuracy", method="shear", n=16)
    assert evidence("least_error", ranked) == (
        "Error: SHEAR first at every N. Ranking: SHEAR first at N = 8, 32; "
        f"KS at N = 16 (accuracy up to {distance / 0.001:.2f} times closer to 1)."
    )
    ratio = 100 * mean("shear", 16) / mean("kriging", 16)
    rows = ", ".join(
        f"{label_of(name)} {ROWS / slow_seconds(name, 16):,.0f}" for name in ("shear", "kriging")
    )
    assert evidence("state_of_the_art", better(CENSUS, "kriging", n=16)) == (
        f"smallest error in the fair protocol: N = 8: SHEAR, N = 16: Kriging ({ratio:.1f} times smaller), N = 32: SHEAR. "
        f"Rows a second at N = 16: {rows}"
    )


def test_evidence_of_other_metrics() -> None:
    liked = only(scored(CENSUS, ("faithfulness",), constant(1), method="kernel", n=16), *FAIR)
    assert evidence("perturbation", liked) == (
        "its rank beside the five baselines, by N: each at its best, faithfulness: 1, 2, 1; "
        "each at its best, monotonicity: 1, 1, 1"
    )
    assert (
        held("perturbation")[0].why
        == "The exact values score 0.9000 and 0.6000; a higher score is not better."
    )
    assert (
        evidence("least_deviation", only(unsteady(CENSUS, n=8), *FAIR))
        == "each at its best: least in 4 of 6 cases"
    )


def ablated(records: Records, metric: str) -> str:
    names = ("shear", "shear-without-as", "shear-without-ccs")
    digits = 4 if metric == "absolute_error" else 3
    means = (
        f"{slow_mean(records['estimates'], metric, method=name, n=16):.{digits}f}" for name in names
    )
    return "{} {}, {} without AS, {} without CCS".format(METRICS[metric], *means)


def test_evidence_of_ablations() -> None:
    assert (
        evidence("selection_dominates")
        == f"at N = 16: {'; '.join(ablated(CENSUS, metric) for metric in METRICS)}"
    )


def test_evidence_of_ablations_keeps_the_sign_of_a_correlation() -> None:
    records = scored(CENSUS, ("faithfulness",), times(-1), method="shear-without-ccs")
    assert "-0." in ablated(records, "faithfulness")
    assert ablated(records, "faithfulness") in evidence("selection_dominates", records)


def test_metrics_agree_by_the_mean_over_n_of_rank_correlations() -> None:
    records = scored(CENSUS, ("faithfulness",), constant(0), method="shear", n=8)
    records = scored(records, ("monotonicity",), times(-1), n=32)

    def means(metric: str, methods: Sequence[str], n: int) -> list[float]:
        sign = -1 if metric == "absolute_error" else 1
        return [
            sign * slow_mean(records["estimates"], metric, method=method, n=n) for method in methods
        ]

    correlations = []
    for protocol in PROTOCOLS:
        methods = ("shear", *baselines(protocol))
        for pair in combinations(METRICS, 2):
            each = (
                spearmanr(*(means(metric, methods, n) for metric in pair)).statistic
                for n in EVALUATIONS
            )
            correlations.append(statistics.mean(each))
    ends = f"{min(correlations):+.2f} to {max(correlations):+.2f}"
    assert (
        evidence("consistent", records)
        == f"rank correlations between two metrics, means over N: {ends}"
    )


def test_evidence_of_cooperators_costs_and_bounds() -> None:
    assert (
        evidence("cross_contribution")
        == "rank correlation -1.00 over all features, -1.00 within a feature"
    )
    own = where(CENSUS["cooperators"], n=16, draw=0)
    ratio = slow_mean(own, "error", selection="random") / slow_mean(own, "error", selection="shear")
    assert f"with random cooperators is {ratio:.1f} times theirs; 0% of the random" in evidence(
        "lower_bound"
    )
    assert "; 4% of the random choices do better" in evidence(
        "lower_bound", lucky(CENSUS, draw=0, row=1)
    )  # 1 of 24
    assert evidence("fastest", only(accurate(CENSUS, "kernel"), *FAIR)) == (
        "both faster and more accurate than SHEAR at N; each at its best: N = 32: KS"
    )
    assert evidence("fastest").count(": none") == 3
    model = {n: slow_seconds(DERIVATIVES, 0) + slow_seconds(FORWARD, n) for n in EVALUATIONS}
    ratios = ", ".join(
        f"N = {n}: {slow_seconds('shear', n) / seconds:.2f}" for n, seconds in model.items()
    )
    assert (
        evidence("cost_model")
        == f"13 derivative passes for 13 features; measured over predicted time: {ratios}"
    )
    assert evidence("efficiency") == "they should add up to +1.1250; SHEAR leaves a gap of +0.0000"
    assert "0.0% of 60 pairs exceed it, by 0% at most" in evidence("theorem_2")
    broken = evidence("theorem_2", revised(CENSUS, "bounds", "loss", times(10), seed=1))
    assert "50.0% of 60 pairs exceed it" in broken
    assert broken.endswith("with differences in place of derivatives, 50.0% do")


def test_findings_do_not_depend_on_the_order_of_records() -> None:
    records = accurate(CENSUS, "kernel")
    mixed = {
        **records,
        "estimates": shuffled(records["estimates"]),
        "timings": shuffled(records["timings"]),
    }
    assert findings(mixed) == findings(records)


def test_the_findings_are_a_table() -> None:
    made = findings_table(CENSUS, "census")
    assert made.caption == "What the paper says, and what census shows"
    assert list(made.rows) == [
        (finding.claim, f"**{finding.verdict}**", finding.evidence, finding.why)
        for finding in findings(CENSUS)
    ]
    assert len(made.rows) == 17
    assert all(all(row) for row in made.rows)
