"""The bootstrap over networks, rounds and rows: on made-up numbers whose answers are known."""

import statistics

import numpy as np
import pyarrow as pa
import pytest
from scipy.stats import t as student

from shearshap.result.explanation import Floats
from shearshap_lab.experiments import bootstrap
from shearshap_lab.experiments.bootstrap import Interval, Resampled, Sampled, draws
from shearshap_lab.experiments.records import joined, table


def sampled(cube: Floats) -> Sampled:
    """Return the mean of values (networks, rounds, rows) with its replicates."""
    return Sampled(float(cube.mean()), draws(*cube.shape).means(cube), cube.mean(axis=(1, 2)))


def pair(
    rng: np.random.Generator, shape: tuple[int, int, int], tau: float
) -> tuple[Floats, Floats]:
    """Return two methods' errors, whose ratio is exp(tau^2 / 2) on average over networks.

    Networks and rows are hard or easy to both methods alike; rounds and the rest are each one's.
    """
    networks, rounds, rows = shape
    level = np.exp(rng.normal(0, 0.4, (networks, 1, 1)) + rng.normal(0, 0.8, (networks, 1, rows)))
    both = []
    for spread in (tau, 0.0):
        network = rng.normal(0, spread, (networks, 1, 1))
        noise = rng.normal(0, 0.1, (networks, rounds, 1)) + rng.normal(0, 0.3, shape)
        both.append(level * np.exp(network + noise))
    return both[0], both[1]


@pytest.mark.parametrize(
    ("shape", "tau"),
    [((5, 5, 60), 0.0), ((5, 5, 60), 0.1), ((5, 5, 20), 0.3), ((1, 5, 100), 0.0)],
    ids=["networks alike", "networks differ", "networks differ much", "one network"],
)
def test_an_interval_holds_the_true_ratio_in_95_of_100_cases(
    shape: tuple[int, int, int], tau: float
) -> None:
    rng = np.random.default_rng(7)
    covered = 0
    runs = 200
    for _ in range(runs):
        first, second = pair(rng, shape, tau)
        found = bootstrap.ratio(sampled(first), sampled(second))
        covered += found.low <= np.exp(tau**2 / 2) <= found.high
    # 200 runs at 95 % have a standard deviation of 1.5 %
    assert covered / runs > 0.92


def test_intervals_are_not_needlessly_wide() -> None:
    """Rows that are hard to both methods cancel: unpaired, the interval would be twice as wide."""
    rng = np.random.default_rng(8)
    widths = []
    for _ in range(40):
        first, second = pair(rng, (5, 5, 60), 0.0)
        found = bootstrap.ratio(sampled(first), sampled(second))
        widths.append(found.high / found.low)
    assert statistics.median(widths) < 1.4
    unpaired = sampled(first).interval()
    assert unpaired.high / unpaired.low > 1.7


def test_the_answer_is_the_same_every_time() -> None:
    first, second = pair(np.random.default_rng(9), (3, 4, 10), 0.1)
    found = bootstrap.ratio(sampled(first), sampled(second))
    draws.cache_clear()
    assert bootstrap.ratio(sampled(first), sampled(second)) == found


def test_replicates_draw_networks_then_rows_and_rounds() -> None:
    """Their variance is that of drawing networks, and within them rows and rounds, by hand."""
    rng = np.random.default_rng(10)
    cube = pair(rng, (4, 3, 6), 0.2)[0]
    slow = []
    for _ in range(4000):
        means = []
        for network in rng.integers(4, size=4):
            rounds = rng.integers(3, size=3)
            rows = rng.integers(6, size=6)
            means.append(cube[network][np.ix_(rounds, rows)].mean())
        slow.append(np.mean(means))
    fast = draws(4, 3, 6).means(cube)
    assert fast.mean() == pytest.approx(np.mean(slow), rel=0.02)
    assert fast.std() == pytest.approx(np.std(slow), rel=0.08)


def test_variances_over_rounds_are_drawn_too() -> None:
    rng = np.random.default_rng(11)
    cube = pair(rng, (3, 5, 8), 0.0)[0]
    slow = []
    for _ in range(4000):
        parts = []
        for network in rng.integers(3, size=3):
            rounds = rng.integers(5, size=5)
            rows = rng.integers(8, size=8)
            parts.append(cube[network][np.ix_(rounds, rows)].mean(axis=1).var())
        slow.append(np.mean(parts))
    fast = draws(3, 5, 8).variances(cube)
    assert fast.mean() == pytest.approx(np.mean(slow), rel=0.05)
    assert fast.std() == pytest.approx(np.std(slow), rel=0.1)


def test_an_interval_is_never_narrower_than_students_over_networks() -> None:
    """Three networks, no rows and no rounds to speak of: the textbook's interval of a mean."""
    cube = np.array([1.0, 2.0, 4.0]).reshape(3, 1, 1)
    found = sampled(cube).interval()
    width = student.ppf(0.975, 2) * statistics.stdev([1, 2, 4]) / 3**0.5
    assert found.low == pytest.approx(7 / 3 - width)
    assert found.high == pytest.approx(7 / 3 + width)
    alike = bootstrap.difference(sampled(cube), sampled(cube + 0.5))
    assert (alike.value, alike.low, alike.high) == pytest.approx((-0.5, -0.5, -0.5))
    twice = bootstrap.ratio(sampled(2 * cube), sampled(cube))
    assert (twice.value, twice.low, twice.high) == pytest.approx((2, 2, 2))


@pytest.mark.parametrize(
    ("interval", "verdict"),
    [
        (Interval(0.5, 0.4, 0.9), "win"),
        (Interval(0.5, 0.4, 1.0), "tie"),
        (Interval(0.985, 0.98, 0.99), "tie"),  # surely smaller, but by less than 2 %
        (Interval(0.98, 0.97, 0.99), "win"),
        (Interval(1.0, 1.0, 1.0), "tie"),
        (Interval(1.015, 1.01, 1.02), "tie"),
        (Interval(1.5, 1.1, 1.9), "loss"),
        (Interval(1.5, 0.9, 1.9), "tie"),
        (Interval(0.5, float("nan"), float("nan")), "tie"),
    ],
)
def test_a_ratio_of_errors_is_judged_by_its_interval_and_its_size(
    interval: Interval, verdict: str
) -> None:
    assert bootstrap.judged_ratio(interval) == verdict


@pytest.mark.parametrize(
    ("interval", "verdict"),
    [
        (Interval(0.01, 0.005, 0.02), "win"),
        (Interval(0.0004, 0.0002, 0.0006), "tie"),  # the fourth decimal
        (Interval(0.01, -0.001, 0.02), "tie"),
        (Interval(-0.01, -0.02, -0.005), "loss"),
        (Interval(-0.0009, -0.001, -0.0008), "tie"),
    ],
)
def test_scores_are_not_ranked_by_their_fourth_decimal(interval: Interval, verdict: str) -> None:
    assert bootstrap.judged_difference(interval) == verdict


@pytest.mark.parametrize(
    ("interval", "verdict"),
    [
        (Interval(1.0, 0.9, 1.2), "win"),
        (Interval(1.0, 0.7, 1.2), "tie"),
        (Interval(1.5, 1.4, 1.6), "loss"),
        (Interval(1.0, float("nan"), float("nan")), "tie"),
    ],
)
def test_a_number_lies_within_limits_with_its_whole_interval(
    interval: Interval, verdict: str
) -> None:
    assert bootstrap.judged_within(interval, 0.8, 1.3) == verdict


def test_no_error_counts_as_smaller_than_that_of_the_truth() -> None:
    rng = np.random.default_rng(12)
    small = sampled(1e-4 * rng.uniform(0.9, 1.1, (3, 2, 5)))
    smaller = sampled(1e-5 * rng.uniform(0.9, 1.1, (3, 2, 5)))
    assert bootstrap.judged_ratio(bootstrap.ratio(smaller, small)) == "win"
    tied = bootstrap.ratio(smaller, small, floor=1e-3)
    assert (tied.value, tied.low, tied.high) == (1, 1, 1)
    assert bootstrap.judged_ratio(tied) == "tie"
    large = sampled(rng.uniform(0.9, 1.1, (3, 2, 5)))
    assert bootstrap.judged_ratio(bootstrap.ratio(smaller, large, floor=1e-3)) == "win"


def test_a_mean_over_networks_is_geometric_and_students() -> None:
    found = bootstrap.over_networks(np.array([0.5, 1.0, 2.0]))
    width = student.ppf(0.975, 2) * np.log(2) / 3**0.5
    assert found.value == pytest.approx(1)
    assert np.log([found.low, found.high]) == pytest.approx([-width, width])
    low, high = bootstrap.next_network(np.array([0.5, 1.0, 2.0]))
    one_more = student.ppf(0.975, 2) * np.log(2) * (1 + 1 / 3) ** 0.5
    assert np.log([low, high]) == pytest.approx([-one_more, one_more])


def test_one_network_alone_has_no_spread() -> None:
    assert not bootstrap.over_networks(np.array([3.0])).known
    assert bootstrap.next_network(np.array([3.0])) == (0, np.inf)
    one_row = bootstrap.grouped_mean(np.array([3.0]), np.array([0])).interval()
    assert one_row.value == 3
    assert not one_row.known


def test_rows_are_drawn_and_not_their_records() -> None:
    """Ten equal records of a row tell no more than one."""
    rng = np.random.default_rng(13)
    values = rng.normal(size=12)
    seeds = np.repeat([0, 1], 6)
    rows = np.tile(np.arange(6), 2)
    once = bootstrap.grouped_mean(values, seeds).interval()
    often = bootstrap.row_means(np.repeat(values, 10), np.repeat(seeds, 10), np.repeat(rows, 10))
    found = often.interval()
    assert (found.low, found.high) == pytest.approx((once.low, once.high))


def records(order: int) -> pa.Table:
    """Return estimates of two networks, two rounds and three rows, in some order."""
    parts = []
    for seed in (3, 1):
        for number in (1, 0):
            columns = {
                "dataset": "census",
                "recipe": "ours",
                "seed": seed,
                "method": "shear",
                "n": 8,
                "round": number,
                "row": np.array([5, 9, 7]),
                "absolute_error": 100.0 * seed + 10 * number + np.array([5, 9, 7]),
                "ranking_accuracy": 1.0,
                "faithfulness": 1.0,
                "monotonicity": 1.0,
                "evaluations": 1,
                "derivative_passes": 0,
            }
            parts.append(table("estimates", columns))
    whole = joined("estimates", parts)
    return whole.take(np.random.default_rng(order).permutation(len(whole)))


@pytest.mark.parametrize("order", [0, 1])
def test_records_are_put_in_order_first(order: int) -> None:
    resampled = Resampled(records(order))
    cube = resampled.cube("shear", 8, "absolute_error")
    assert cube.tolist() == [
        [[105, 107, 109], [115, 117, 119]],
        [[305, 307, 309], [315, 317, 319]],
    ]
    assert resampled.n("shear") == [8]
    assert resampled.has("shear", 8)
    assert not resampled.has("shear", 16)
    assert resampled.mean("shear", 8, "absolute_error").by_network.tolist() == [112, 312]
