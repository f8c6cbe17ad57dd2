"""Numbers made of the paper's records, against slow oracles; and the authors' released numbers."""

import math
import statistics
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import spearmanr

from paper_oracles import slow_curve
from paper_records import (
    AUTHORS,
    BOTH,
    CENSUS,
    DRAWS,
    EVALUATIONS,
    PLAYERS,
    ROWS,
    SEEDS,
    TARGETS,
    constant,
    error,
    estimates,
    shuffled,
    synthetic,
)
from shearshap_lab.experiments.records import Records, where
from shearshap_lab.experiments.spec import PROTOCOLS
from shearshap_lab.experiments.studies import TRUTH
from shearshap_lab.experiments.summaries import (
    METRICS,
    PUBLISHED,
    correlation,
    curve,
    every_network,
    methods_of,
    published,
    published_curve,
    published_size,
    random_cooperators,
    speed_at,
    speed_tenths,
    timed_ways,
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
    """Networks whose errors are 1, 3 and 2, with rounds that differ by 2 d: the deviation is d sqrt(2)."""
    records: Records = synthetic(methods=["shear"], rounds=2)
    for seed, level in enumerate((1.0, 3.0, 2.0)):
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


def test_random_cooperators_are_those_of_later_draws() -> None:
    """Draw 0 is of one feature a row and every N; the others are of every feature."""
    own = where(CENSUS["cooperators"], recipe="ours")
    random = random_cooperators(shuffled(own))
    assert len(random) == len(SEEDS) * TARGETS * PLAYERS * DRAWS
    assert set(values_of(random, "n")) == {16}
    assert 0 not in values_of(random, "draw")


def test_networks_are_by_data_set_and_recipe() -> None:
    every = every_network(BOTH)
    assert [networks.title for networks in every] == [
        "census, the authors' networks",
        "census, our networks",
        "german, our networks",
    ]
    assert [networks.truth_error for networks in every] == [0, 0, 1e-5]
    (mean,) = every_network(BOTH, recipes=("authors-mean",))
    assert set(values_of(mean.records["estimates"], "method")) == {"shear", "shear-authors", TRUTH}
    assert set(values_of(every[0].records["estimates"], "recipe")) == {"authors"}
    # one network was timed, for all recipes of its data set
    assert len(every[0].records["timings"]) == len(CENSUS["timings"])


def test_speeds_are_medians_with_their_tenths() -> None:
    own = where(CENSUS["timings"], method="shear", way="one by one")
    n, tenths = speed_tenths(shuffled(own))
    assert n.tolist() == list(EVALUATIONS)
    for number, (low, median, high) in zip(EVALUATIONS, tenths, strict=True):
        each = [ROWS / seconds for seconds in where(own, n=number)["seconds"].to_pylist()]
        cuts = statistics.quantiles(each, n=10, method="inclusive")
        assert (low, median, high) == pytest.approx((cuts[0], statistics.median(each), cuts[-1]))
    assert speed_at(own, "one by one", "shear", 8) == pytest.approx(tenths[0, 1])
    assert speed_at(own, "batch", "shear", 8) is None
    assert timed_ways(CENSUS["timings"]) == ["one by one", "batch"]


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
