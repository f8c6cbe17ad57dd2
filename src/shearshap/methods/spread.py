"""How far draws lie apart: what standard errors are made of."""

from math import sqrt

import torch
from torch import Tensor

from shearshap.methods.levels import unseen_variance

FEWEST = 4
"""The smallest number of draws that have standard errors.

Fewer lie close together by chance too often, even with Student's t.
"""

PRIOR_DRAWS = 4
"""Draws that the mean variance of all players counts for, beside a player's own."""


def normalised(x: Tensor, dim: int) -> tuple[Tensor, Tensor]:
    """Return x divided by its largest size along an axis, and that size, with an axis of length 1.

    Squares of the result cannot overflow.
    """
    size = x.abs().amax(dim, keepdim=True).clamp_min(torch.finfo(x.dtype).tiny)
    return x / size, size


def moderated_errors(draws: Tensor, dim: int, players: int, jumps: Tensor) -> tuple[Tensor, float]:
    """Return the standard errors of the means of d draws over one axis, and degrees of freedom.

    Where a game jumps, a player may add the same in every draw, and more in others. So a variance
    is raised towards its mean over players (their axis in the result), as `moderated` has it. It is
    never below what jumps (r, 1, k) that were not seen may add, see `possible_jumps`.
    """
    count = draws.shape[dim]
    unseen = jumps * sqrt(unseen_variance(count))
    own = sample_deviation(draws, dim)
    largest = torch.maximum(own.amax(players, keepdim=True), unseen)
    size = largest.clamp_min(torch.finfo(own.dtype).tiny)
    variance = moderated((own / size).square(), count - 1, players)
    variance = torch.maximum(variance, (unseen / size).square())
    return size * (variance / count).sqrt(), count + 1


def moderated(variance: Tensor, freedom: int, players: int) -> Tensor:
    """Return variances s_i^2 of some degrees of freedom, those below their mean raised towards it.

    s_i^2 + 4 / (4 + freedom) max(0, mean s^2 - s_i^2)
    """
    missing = (variance.mean(players, keepdim=True) - variance).clamp_min(0)
    return variance + PRIOR_DRAWS / (PRIOR_DRAWS + freedom) * missing


def sample_deviation(draws: Tensor, dim: int) -> Tensor:
    """Return the root of the unbiased variance over one axis.

    Over an inner axis it is faster than `Tensor.std`.
    """
    apart, size = normalised(draws - draws.mean(dim, keepdim=True), dim)
    variance = apart.square().sum(dim) / (draws.shape[dim] - 1)
    return size.squeeze(dim) * variance.sqrt()
