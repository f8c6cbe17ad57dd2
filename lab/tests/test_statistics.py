"""Intervals cover what they say, and verdicts tell better, equal, worse and not known apart."""

import numpy as np
import pytest
from scipy.stats import binom, spearmanr, t

from shearshap_lab.statistics import (
    Estimate,
    Floats,
    Interval,
    average,
    combined,
    count_interval,
    deviation_ratio,
    judged_difference,
    judged_ratio,
    mean_over,
    rank_correlation,
    ratio,
    row_mean,
)

TRUE_RATIO = float(np.exp(-0.3))


def errors(seed: int, *, shared: bool, networks: int = 5, rounds: int = 3) -> list[Floats]:
    """Errors of two methods, (networks, rounds, rows) each, whose means have the ratio TRUE_RATIO.

    They differ by network, by row, by what a row is to a method, and by draw. `shared`: rows are
    the same for all networks.
    """
    rng = np.random.default_rng(seed)
    row_sets = 1 if shared else networks
    common = 0.6 * rng.normal(size=(row_sets, 1, 40)) + 0.1 * rng.normal(size=(networks, 1, 1))
    logs = [
        common
        + 0.3 * rng.normal(size=(row_sets, 1, 40))
        + 0.1 * rng.normal(size=(networks, 1, 1))
        + 0.3 * rng.normal(size=(networks, rounds, 40))
        for _ in range(2)
    ]
    return [np.exp(logs[0]) * TRUE_RATIO, np.exp(logs[1])]


def contains(interval: Interval, number: float) -> bool:
    return interval.low <= number <= interval.high


@pytest.mark.parametrize("shared", [False, True])
def test_nominal_95_percent_intervals_cover_90_to_99_percent(shared: bool) -> None:
    """A simulation, for rows nested in networks and crossed with them."""
    true_mean = float(np.exp((0.36 + 0.01 + 0.09 + 0.01 + 0.09) / 2))
    covered = np.zeros(3)
    times = 400
    for seed in range(times):
        first, second = (
            mean_over(each.mean(axis=1), crossed=shared) for each in errors(seed, shared=shared)
        )
        covered += [
            contains(ratio(first, second), TRUE_RATIO),
            contains(second.positive_interval(), true_mean),
            contains((first - second).interval(), (TRUE_RATIO - 1) * true_mean),
        ]
    assert (covered >= 0.9 * times).all(), covered
    assert (covered <= 0.99 * times).all(), covered


def test_rows_that_networks_share_widen_the_interval() -> None:
    """Taken for independent, shared rows would make intervals too narrow."""
    _, values = errors(0, shared=True)
    crossed = mean_over(values.mean(axis=1), crossed=True).interval()
    nested = mean_over(values.mean(axis=1)).interval()
    assert crossed.value == nested.value == pytest.approx(values.mean())
    assert crossed.high - crossed.low > 1.5 * (nested.high - nested.low)


def test_nested_rows_have_students_interval_over_networks() -> None:
    _, values = errors(3, shared=False)
    own = values.mean(axis=(1, 2))
    width = t.ppf(0.975, 4) * own.std(ddof=1) / np.sqrt(5)
    found = mean_over(values.mean(axis=1)).interval()
    assert (found.low, found.high) == pytest.approx((own.mean() - width, own.mean() + width))


def test_one_network_has_the_interval_of_its_rows() -> None:
    values = errors(1, shared=False, networks=1)[0]
    rows = values[0].mean(axis=0)
    width = t.ppf(0.975, 39) * rows.std(ddof=1) / np.sqrt(40)
    found = mean_over(values.mean(axis=1)).interval()
    assert found.high - found.value == pytest.approx(width)


def test_the_crossed_variance_is_that_of_two_ways() -> None:
    """By hand: V = V_s + V_r - V_sr, of a table of networks and rows."""
    table = np.array([[1.0, 2.0, 6.0], [2.0, 5.0, 9.0]])
    by_network, by_row = table.mean(axis=1), table.mean(axis=0)
    rest = table - by_network[:, None] - by_row + table.mean()
    variance = (
        by_network.var(ddof=1) / 2 + by_row.var(ddof=1) / 3 - (rest**2).sum() / (1 * 2) / (2 * 3)
    )
    found, _ = Estimate(float(table.mean()), tuple(table), crossed=True)._deviation()
    assert found == pytest.approx(np.sqrt(variance))


def test_a_ratio_is_paired() -> None:
    """What makes a row hard for both methods cancels."""
    _, values = errors(4, shared=True)
    first = mean_over(values.mean(axis=1), crossed=True)
    second = mean_over(2 * values.mean(axis=1), crossed=True)
    found = ratio(first, second)
    assert (found.value, found.low, found.high) == pytest.approx((0.5, 0.5, 0.5))
    assert judged_ratio(found) == "better"
    assert judged_ratio(ratio(second, first)) == "worse"
    assert judged_ratio(ratio(first, second, floor=1e9)) == "equal"


def test_deviations_are_over_rounds_of_the_mean_over_rows() -> None:
    first, second = (each.mean(axis=2) for each in errors(2, shared=False))
    logs = [np.log(a.std() / b.std()) for a, b in zip(first, second, strict=True)]
    assert deviation_ratio(first, second).value == pytest.approx(np.exp(np.mean(logs)))
    assert not deviation_ratio(first[:1], second[:1]).known


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
    found = mean_over([np.ones(rows)])
    assert found.mean == 1
    assert not found.interval().known
    assert judged_ratio(ratio(found, found)) == "not known"


def test_intervals_of_bounded_numbers_stay_within_bounds() -> None:
    shares = row_mean(np.array([0, 0, 0, 1.0]), np.array([0, 0, 1, 1]), np.array([0, 1, 2, 3]))
    assert shares.interval().low < 0
    bounded = shares.bounded_interval()
    assert 0 < bounded.low < 0.25 < bounded.high < 1
    errors_near_0 = mean_over(np.array([[0.1], [1.9]]))
    assert errors_near_0.interval().low < 0 < errors_near_0.positive_interval().low
    assert not mean_over([np.ones(5)]).bounded_interval().known


@pytest.mark.parametrize(("successes", "trials"), [(5, 5), (0, 4), (3, 8)])
def test_counts_have_an_exact_interval(successes: int, trials: int) -> None:
    found = count_interval(successes, trials)
    assert 0 <= found.low <= found.value <= found.high <= 1
    if successes:  # as many successes or more would be as improbable as this
        assert binom.sf(successes - 1, trials, found.low) == pytest.approx(0.025)
    if successes < trials:
        assert binom.cdf(successes, trials, found.high) == pytest.approx(0.025)


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
    one = mean_over(errors(5, shared=True)[0].mean(axis=1), crossed=True)
    both = average([one, one])
    assert both.interval() == one.interval()
    found = combined([Interval(1.0, 0.7, 1.4), Interval(3.0, 2.6, 3.3)])
    assert found.value == 2
    assert (found.low, found.high) == pytest.approx((2 - 0.25, 2 + 0.25))
