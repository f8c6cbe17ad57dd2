"""Whether the standard errors are too small, judged by how far more pairs move the values."""

import math

import torch

from shearshap.gaussian.calibration import Calibration
from shearshap.gaussian.likelihood import detrended
from shearshap.gaussian.odd_even import OddEven, evenly_spaced
from shearshap.gaussian.posterior import Posterior, condition
from shearshap.gaussian.relevances import relevances

MOST_ROWS = 32  #: rows whose moves are measured
WORK = 10**10  #: rows times cubed pairs that finding the inflation may cost
SMALLEST = 0.75  #: factor
LARGEST = 3.0  #: factor
QUANTILE = 0.95  #: of the moves
NORMAL_QUANTILE = 1.96  #: of the absolute value of a standard normal
SHRINKAGE = 10  #: number of moves at which the log of the factor counts for half


def inflation(parts: OddEven, calibration: Calibration) -> float:
    """Return the factor by which to multiply the standard errors, between SMALLEST and LARGEST.

    Under the model the posterior mean moves, from a part of the pairs to all of them, by a Gaussian
    of variance variance_part - variance_all. Moves are measured in its standard deviations and
    pooled over rows and players. Their 95 % quantile, divided by the 1.96 of a Gaussian, is the
    factor. The fewer moves there are, the more it is shrunk to 1.

    That is done for the last half, quarter and eighth of the pairs, and the largest factor counts:
    how rough a game is shows only when much is known of it.
    """
    sample = _sample(parts)
    counts = _part_sizes(*parts.signs.shape)
    if not counts or not len(sample.odd):
        return 1.0

    relevance = relevances(sample, calibration)
    whole = condition(sample, relevance, calibration.nugget)
    factors = []
    for count in counts:
        first_pairs = sample.take(pairs=slice(count))
        part = condition(first_pairs, relevance, calibration.nugget)
        factors.append(_move_factor(part, whole))
    return float(min(max(*factors, SMALLEST), LARGEST))


def _sample(parts: OddEven) -> OddEven:
    """Return some rows, evenly spaced, less those whose odd part is linear."""
    affordable = max(2, min(MOST_ROWS, WORK // len(parts.signs) ** 3))
    rows = evenly_spaced(len(parts.odd), affordable)
    sample = parts.take(rows)
    return sample.take(detrended(sample.signs, sample.odd).informative)


def _part_sizes(m: int, p: int) -> list[int]:
    """Return numbers of pairs that leave about a half, a quarter and an eighth of m for later.

    They count from p, below which the linear trend is not known.
    """
    sizes = [(m + p) // 2, (3 * m + p) // 4, (7 * m + p) // 8]
    return [size for size in sizes if p + 2 < size < m]


def _move_factor(part: Posterior, whole: Posterior) -> float:
    """Return how many times further than expected the mean moved between two posteriors."""
    expected_variance = (part.variance - whole.variance).clamp_min(0)
    moves = (whole.mean - part.mean) / (part.scale * expected_variance).sqrt()
    moves = moves[torch.isfinite(moves)].abs()
    if not len(moves):
        return 1.0

    factor = float(torch.quantile(moves, QUANTILE)) / NORMAL_QUANTILE
    weight = len(moves) / (len(moves) + SHRINKAGE)
    return math.exp(weight * math.log(max(factor, 1e-9)))
