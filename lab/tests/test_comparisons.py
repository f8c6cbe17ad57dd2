"""Paired comparisons, against slow transcriptions of the bootstrap."""

import numpy as np
import pytest

from shearshap.errors import InputError
from shearshap_lab.comparisons import Comparison, compared, interval, replicated_means

RNG = np.random.default_rng(7)


def slow_interval(
    mine: np.ndarray, theirs: np.ndarray, clusters: np.ndarray
) -> tuple[float, float]:
    """The same bootstrap, one replicate after the other, with other draws."""
    rng = np.random.default_rng(1)
    names = sorted(set(clusters.tolist()))
    ratios = []
    for _ in range(4000):
        units: list[int] = []
        for name in rng.choice(names, size=len(names)):
            members = np.flatnonzero(clusters == name)
            units += rng.choice(members, size=len(members)).tolist()
        draws = rng.integers(mine.shape[1], size=mine.shape[1])
        place = np.ix_(np.array(units), draws)
        ratios.append(mine[place].mean() / theirs[place].mean())
    low, high = np.quantile(ratios, [0.025, 0.975])
    return float(low), float(high)


@pytest.mark.parametrize("count", [1, 4])
def test_the_interval_is_that_of_a_slow_bootstrap(count: int) -> None:
    hardness = RNG.lognormal(size=(24, 1))
    mine = hardness * RNG.uniform(0.5, 1.0, size=(24, 5))
    theirs = hardness * RNG.uniform(0.6, 1.2, size=(24, 5))
    clusters = np.arange(24) % count
    comparison = compared(mine, theirs, clusters=clusters)
    assert comparison.ratio == pytest.approx(mine.mean() / theirs.mean())
    low, high = slow_interval(mine, theirs, clusters)
    assert comparison.low == pytest.approx(low, abs=0.01)
    assert comparison.high == pytest.approx(high, abs=0.01)
    assert comparison.verdict == "win"


def test_pairing_sees_a_small_difference_among_units_of_very_different_sizes() -> None:
    sizes = RNG.lognormal(sigma=2, size=(40, 1))
    noise = RNG.normal(1, 0.02, size=(2, 40, 3))
    comparison = compared(0.95 * sizes * noise[0], sizes * noise[1])
    assert comparison.verdict == "win"
    assert comparison.high - comparison.low < 0.05
    back = compared(sizes * noise[1], 0.95 * sizes * noise[0])
    assert back.verdict == "loss"
    assert back.ratio == pytest.approx(1 / comparison.ratio)


def test_equal_methods_tie_in_about_nineteen_of_twenty_cases() -> None:
    ties = 0
    for seed in range(200):
        errors = np.random.default_rng(seed).lognormal(sigma=0.5, size=(2, 30, 3))
        ties += compared(*errors, seed=seed, replicates=400).verdict == "tie"
    assert 180 <= ties <= 200


def test_two_exact_methods_tie_and_an_exact_one_wins() -> None:
    zeros = np.zeros((6, 2))
    assert compared(zeros, zeros) == Comparison(1.0, 1.0, 1.0)
    assert compared(zeros, zeros + 1).verdict == "win"
    loss = compared(zeros + 1, zeros)
    assert (loss.ratio, loss.verdict) == (np.inf, "loss")


def test_few_pairs_say_nothing() -> None:
    comparison = compared(np.ones((7, 1)), np.full((7, 1), 2.0))
    assert comparison == Comparison(0.5, 0.0, np.inf)
    assert comparison.verdict == "tie"
    assert compared(np.ones((8, 1)), np.full((8, 1), 2.0)).verdict == "win"


def test_replicates_are_paired_between_calls() -> None:
    errors = RNG.random((3, 9, 4))
    together = replicated_means(errors, seed=5)
    alone = replicated_means(errors[1], seed=5)
    np.testing.assert_allclose(together[1], alone)
    assert interval(alone)[0] < errors[1].mean() < interval(alone)[1]


def test_a_cluster_is_drawn_as_a_whole() -> None:
    errors = np.array([[0.0], [0.0], [1.0], [1.0]])
    means = replicated_means(errors, clusters=["a", "a", "b", "b"], seed=0)
    # two clusters drawn from two: both the first, one of each, both the second
    assert set(means.tolist()) == {0.0, 0.5, 1.0}


@pytest.mark.parametrize(
    ("mine", "theirs", "text"),
    [
        (np.ones((2, 3)), np.ones((3, 2)), r"got \(2, 3\) and \(3, 2\)"),
        (np.ones(3), np.ones(3), r"\(units, draws\) of one shape, got \(3,\)"),
        (np.full((2, 2), np.nan), np.ones((2, 2)), "wanted finite numbers"),
        (np.ones((0, 2)), np.ones((0, 2)), "at least one of each method"),
    ],
)
def test_errors_of_other_shapes_are_refused(
    mine: np.ndarray, theirs: np.ndarray, text: str
) -> None:
    with pytest.raises(InputError, match=text):
        compared(mine, theirs)
