"""Whether the standard errors are too small, judged by how far more pairs move the values."""

import math

import torch
from torch import Tensor

from shearshap.methods.kriging.posterior import Factors, Posterior, condition

LARGEST = 3.0  #: factor
QUANTILE = 0.95  #: of the moves
NORMAL_QUANTILE = 1.96  #: of the absolute value of a standard normal
SHRINKAGE = 10  #: number of moves at which the log of the factor counts for half


def inflation(factors: Factors, odd: Tensor) -> float:
    """Return the factor by which to multiply the standard errors, between 1 and LARGEST.

    Under the model the posterior mean moves, from a part of the pairs to all of them, by a Gaussian
    of variance variance_part - variance_all. Moves are measured in its standard deviations and
    pooled over rows and players. Their 95 % quantile, divided by the 1.96 of a Gaussian, is the
    factor. The fewer moves there are, the more it is shrunk to 1.

    That is done for the last half, quarter and eighth of the pairs, and the largest factor counts:
    how rough a game is shows only when much is known of it.

    The odd parts are (k, n, m), n rows at each of k kernels. Rows whose odd part is linear say
    nothing, and must not be among them.
    """
    if not odd.numel():
        return 1.0
    _, m, p = factors.trend.shape
    whole = condition(factors, odd)
    moves = [
        _move_factor(condition(factors.first(size), odd[..., :size]), whole)
        for size in _part_sizes(m, p)
    ]
    return min(max(1.0, *moves), LARGEST) if moves else 1.0


def _part_sizes(m: int, p: int) -> list[int]:
    """Return numbers of pairs that leave about a half, a quarter and an eighth of m for later.

    They count from p, below which the linear trend is not known.
    """
    sizes = [(m + p) // 2, (3 * m + p) // 4, (7 * m + p) // 8]
    return [size for size in sizes if p + 2 < size < m]


def _move_factor(part: Posterior, whole: Posterior) -> float:
    """Return how many times further than expected the means moved between two posteriors."""
    expected_variance = (part.variance - whole.variance).clamp_min(0)
    moves = (whole.mean - part.mean) / (part.scale * expected_variance).sqrt()
    moves = moves[torch.isfinite(moves)].abs()
    if not len(moves):
        return 1.0

    factor = float(torch.quantile(moves, QUANTILE)) / NORMAL_QUANTILE
    weight = len(moves) / (len(moves) + SHRINKAGE)
    return math.exp(weight * math.log(max(factor, 1e-9)))
