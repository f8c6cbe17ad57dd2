"""Intervals cover what they say, and verdicts tell better, equal, worse and not known apart."""

import numpy as np
import pytest
from scipy.stats import spearmanr, t

from shearshap_lab.statistics import (
    Estimate,
    Floats,
    Interval,
    average,
    bootstrap,
    bootstrap_variance,
    combined,
    judged_difference,
    judged_ratio,
    rank_correlation,
    ratio,
    row_mean,
    student_width,
)


def cube(seed: int, *, shared: bool, networks: int = 5, rounds: int = 5, rows: int = 40) -> Floats:
    """Errors around 1 that differ by network, row and round; `shared`: rows are the same for all."""
    rng = np.random.default_rng(seed)
    of_rows = rng.normal(size=(1 if shared else networks, 1, rows))
    of_networks = 0.1 * rng.normal(size=(networks, 1, 1))
    noise = 0.2 * rng.normal(size=(networks, rounds, rows))
    return np.asarray(1 + 0.5 * of_rows + of_networks + noise)


@pytest.mark.parametrize("shared", [False, True])
def test_intervals_cover_the_mean(shared: bool) -> None:
    """Rows that all networks share are drawn once for all: drawn for each, 20 % would be missed."""
    covered = 0
    for seed in range(200):
        interval = bootstrap(list(cube(seed, shared=shared)), crossed=shared).interval()
        covered += interval.low <= 1 <= interval.high
    assert covered >= 180


def test_a_mean_is_that_of_everything_and_its_interval_at_least_students() -> None:
    values = cube(3, shared=False)
    found = bootstrap(list(values))
    assert found.mean == pytest.approx(values.mean())
    np.testing.assert_allclose(found.by_cluster, values.mean(axis=(1, 2)))
    own = values.mean(axis=(1, 2))
    width = t.ppf(0.975, 4) * own.std(ddof=1) / np.sqrt(5)
    assert student_width(own) == pytest.approx(width)
    interval = found.interval()
    assert interval.low <= values.mean() - width
    assert interval.high >= values.mean() + width


def test_replicates_are_those_of_a_slow_bootstrap() -> None:
    values = cube(1, shared=False, networks=3, rounds=2, rows=6)
    rng = np.random.default_rng(0)
    slow = []
    for _ in range(4000):
        drawn = []
        for network in rng.integers(3, size=3):
            rows = rng.integers(6, size=6)
            rounds = rng.integers(2, size=2)
            drawn.append(values[network][np.ix_(rounds, rows)].mean())
        slow.append(np.mean(drawn))
    found = bootstrap(list(values)).replicates
    assert found.mean() == pytest.approx(np.mean(slow), abs=0.02)
    assert found.std() == pytest.approx(np.std(slow), rel=0.1)


def test_variances_are_over_rounds_of_the_mean_over_rows() -> None:
    values = cube(2, shared=False)
    found = bootstrap_variance(list(values))
    assert found.mean == pytest.approx(values.mean(axis=2).var(axis=1).mean())


def test_a_ratio_is_paired() -> None:
    """What makes a row hard for both methods cancels."""
    values = np.exp(cube(4, shared=True))
    first = bootstrap(list(values), crossed=True)
    second = bootstrap(list(2 * values), crossed=True)
    found = ratio(first, second)
    assert found.value == pytest.approx(0.5)
    assert (found.low, found.high) == pytest.approx((0.5, 0.5))
    assert judged_ratio(found) == "better"
    assert judged_ratio(ratio(second, first)) == "worse"
    assert judged_ratio(ratio(first, second, floor=1e9)) == "equal"


@pytest.mark.parametrize(
    ("interval", "verdict"),
    [
        (Interval(0.5, 0.4, 0.6), "better"),
        (Interval(2.0, 1.5, 3.0), "worse"),
        (Interval(0.99, 0.985, 0.995), "equal"),  # surely smaller, by hardly anything
        (Interval(1.0, 0.995, 1.005), "equal"),
        (Interval(0.9, 0.5, 1.5), "not known"),
        (Interval(0.5), "not known"),
    ],
)
def test_verdicts_on_ratios_and_on_differences(interval: Interval, verdict: str) -> None:
    assert judged_ratio(interval) == verdict
    if interval.known and verdict != "equal":  # the margins differ
        logs = -np.log([interval.value, interval.high, interval.low])
        assert judged_difference(Interval(*logs.tolist())) == verdict


@pytest.mark.parametrize("rows", [1, 2])
def test_too_few_rows_of_one_cluster_have_no_interval(rows: int) -> None:
    found = bootstrap([np.ones((1, rows))])
    assert found.mean == 1
    assert not found.interval().known
    assert judged_ratio(ratio(found, found)) == "not known"


def test_intervals_of_bounded_numbers_stay_within_bounds() -> None:
    shares = row_mean(np.array([0, 0, 0, 1.0]), np.array([0, 0, 1, 1]), np.array([0, 1, 2, 3]))
    assert shares.interval().low < 0
    bounded = shares.interval().within(0, 1)
    assert (bounded.low, bounded.high <= 1) == (0, True)
    errors = Estimate(1.0, np.full(10, 1.0), np.array([0.1, 1.9]))
    assert errors.interval().low < 0 < errors.positive_interval().low


def test_values_of_a_row_are_averaged_first() -> None:
    values = np.array([1.0, 3.0, 5.0, 7.0])
    found = row_mean(values, np.array([0, 0, 0, 1]), np.array([0, 0, 1, 9]))
    np.testing.assert_allclose(found.by_cluster, [(2 + 5) / 2, 7])
    assert found.mean == pytest.approx((3.5 + 7) / 2)


def test_a_rank_correlation_is_spearmans() -> None:
    rng = np.random.default_rng(0)
    x = rng.normal(size=(3, 50))
    y = -x + rng.normal(size=(3, 50))
    clusters = np.repeat([0, 1, 2], 50)
    rows = np.tile(np.repeat(np.arange(10), 5), 3)
    found = rank_correlation(x.ravel(), y.ravel(), clusters, rows)
    wanted = [spearmanr(a, b).statistic for a, b in zip(x, y, strict=True)]
    assert found.value == pytest.approx(np.mean(wanted))
    assert -1 <= found.low < found.value < found.high < 0
    assert rank_correlation(np.ones(4), np.ones(4), np.zeros(4, dtype=int), np.arange(4)).value == 0


def test_averages_and_combinations() -> None:
    one = bootstrap(list(cube(5, shared=True)), crossed=True)
    both = average([one, one])
    assert both.mean == one.mean
    np.testing.assert_allclose(both.replicates, one.replicates)
    found = combined([Interval(1.0, 0.7, 1.4), Interval(3.0, 2.6, 3.3)])
    assert found.value == 2
    assert (found.low, found.high) == pytest.approx((2 - 0.25, 2 + 0.25))
