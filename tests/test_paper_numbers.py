"""Numbers made of the paper's records, against slow oracles; and the authors' released numbers."""

import math
import statistics
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import spearmanr

from paper_oracles import slow_curve, slow_selected
from paper_records import (
    AUTHORS,
    CENSUS,
    DRAWS,
    EVALUATIONS,
    SEEDS,
    TARGETS,
    constant,
    error,
    estimates,
    revised,
    shuffled,
    synthetic,
)
from shearshap.paper.experiments.records import Records, where
from shearshap.paper.experiments.spec import PROTOCOLS
from shearshap.paper.experiments.studies import TRUTH
from shearshap.paper.experiments.summaries import (
    METRICS,
    PUBLISHED,
    correlation,
    curve,
    methods_of,
    published,
    published_curve,
    published_size,
    selected,
    values_of,
)


@pytest.mark.parametrize("metric", METRICS)
@pytest.mark.parametrize("method", ["shear", "kernel-paper", "kriging"])
def test_a_curve_is_a_mean_and_its_deviation_over_rounds(method: str, metric: str) -> None:
    own = where(CENSUS["estimates"], method=method)
    measured = curve(shuffled(own), metric)
    slow = slow_curve(own, metric)
    assert measured.n.tolist() == list(EVALUATIONS) == list(slow)
    np.testing.assert_allclose(measured.mean, [mean for mean, _ in slow.values()], rtol=1e-12)
    np.testing.assert_allclose(
        measured.deviation, [deviation for _, deviation in slow.values()], rtol=1e-9
    )


def test_networks_that_differ_do_not_make_a_deviation() -> None:
    """Two networks whose errors are 1 and 3, with rounds that differ by 2 d: the deviation is d sqrt(2)."""
    records: Records = synthetic(methods=["shear"], rounds=2)
    for seed, level in enumerate((1.0, 3.0)):
        for number, shift in enumerate((0.1, -0.1)):
            records = error(records, constant(level + shift), seed=seed, round=number)
    measured = curve(where(records["estimates"], method="shear"), "absolute_error")
    assert measured.mean.tolist() == pytest.approx([2] * 3)
    assert measured.deviation.tolist() == pytest.approx([0.1 * math.sqrt(2)] * 3)


def test_a_single_round_has_no_deviation() -> None:
    own = where(CENSUS["estimates"], method="shear", round=1)
    assert curve(own, "absolute_error").deviation.tolist() == [0, 0, 0]


def test_methods_of_a_protocol_are_those_measured() -> None:
    records = estimates("census", ["kriging", "shear", "kernel"], rounds=1)
    assert methods_of(records, PROTOCOLS["fair"]) == ["shear", "kernel", "kriging"]
    assert values_of(records, "method") == [TRUTH, "kriging", "shear", "kernel"]


TIED = st.lists(
    st.sampled_from([-1.5, -1.0, 0.0, 0.5, 2.0]) | st.floats(-1e3, 1e3), min_size=2, max_size=12
)


@settings(max_examples=60, deadline=None)
@given(TIED, st.randoms(use_true_random=False))
def test_the_correlation_is_spearmans(values: list[float], random: Any) -> None:
    others = [random.choice([*values[:2], random.random()]) for _ in values]
    if min(values) == max(values) or min(others) == max(others):
        assert correlation(np.array(values), np.array(others)) == 0
    else:
        wanted = spearmanr(values, others).statistic
        assert correlation(np.array(values), np.array(others)) == pytest.approx(wanted, abs=1e-12)


def test_correlations_between_and_within_targets() -> None:
    rng = np.random.default_rng(6)
    own = revised(
        CENSUS, "cooperators", "error", lambda error: error + rng.uniform(0, 0.2, len(error))
    )["cooperators"]
    random = selected(shuffled(own))
    targets = slow_selected(own)
    assert random.error.shape == random.cross_contribution.shape == (len(SEEDS) * TARGETS, DRAWS)
    everything = [pair for pairs in targets.values() for pair in pairs]
    assert random.between == pytest.approx(spearmanr(everything).statistic)
    assert random.within == pytest.approx(
        statistics.mean(spearmanr(pairs).statistic for pairs in targets.values())
    )
    assert -1 < random.between < 0
    by_target = {tuple(sorted(pairs)) for pairs in targets.values()}
    stacked = zip(random.cross_contribution.tolist(), random.error.tolist(), strict=True)
    assert {tuple(sorted(zip(eta, error, strict=True))) for eta, error in stacked} == by_target


# The authors' released numbers


def test_released_numbers_are_what_they_are() -> None:
    census = published_curve("census", "shear-authors", "ae_mean")
    assert census == {8: 0.0185299, 16: 0.0127495, 32: 0.00868435, 64: 0.005902, 128: 0.00411034}
    assert published_curve("census", "shear", "ae_mean") == census
    assert published_curve("census", "shear", "acc")[16] == 0.988718
    assert published_curve("bank", "permutation-antithetic-authors", "ae_median")[16] == 0.0561247
    assert (
        published_curve("bank", "kernel-paired-authors", "ae_mean")[8]
        == published_size("bank")
        == 3.19449
    )
    assert published_size("census") == 2.34738


def test_stale_and_missing_numbers_are_left_out() -> None:
    stale = [row for row in published().to_pylist() if row["note"].startswith("stale")]
    assert {(row["dataset"], row["method"], row["evaluations_per_feature"]) for row in stale} == {
        ("census", "SHEAR", 4), ("census", "SHEAR", 256),
    }  # fmt: skip
    for name in ("ae_mean", "ae_median", "acc", "rows_per_s"):
        assert not {4, 256} & set(published_curve("census", "shear", name))
        for method, theirs in PUBLISHED.items():
            for dataset in ("census", "bank"):
                wanted = {
                    row["evaluations_per_feature"]: row[name]
                    for row in published().to_pylist()
                    if (row["dataset"], row["method"]) == (dataset, theirs)
                    and row[name] is not None
                    and row not in stale
                }
                assert published_curve(dataset, method, name) == wanted
    assert set(published_curve("census", "kernel-authors", "ae_mean")) == {32, 64, 128}
    assert set(published_curve("census", "kernel-authors", "ae_median")) == {8, 16, 32, 64, 128}


def test_nothing_was_released_of_others() -> None:
    assert published_curve("german", "shear", "ae_mean") == {}
    assert published_curve("census", "kriging", "ae_mean") == {}
    assert published_curve("census", "kernel-paper", "ae_mean") == {}
    assert published_size("german") is None
    assert set(PUBLISHED) - {"shear", "kernel-welford"} == {
        name for name in AUTHORS if name.endswith("-authors")
    }
