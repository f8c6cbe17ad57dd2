"""Standard errors: how far draws lie apart, and what games that jump may hide.

Games of few levels, such as votes and labels, are constant but for jumps. Values of such a game
that happen to be equal say little about how far others may be off: a player may add nothing in
everything seen, and decide elsewhere. So a jump that was not seen in n observations still has a
chance of 1 / (n + 2), by Laplace's rule of succession.
"""

from math import sqrt

import torch
from torch import Tensor

MIN_DRAWS = 4
"""The smallest number of draws that have standard errors.

Fewer lie close together by chance too often, even with Student's t.
"""

PRIOR_DRAWS = 4
"""Draws that the mean variance of all players counts for, beside a player's own."""

TIED = 1e-9  #: of the range: values closer than this are of one level
ROUNDING = 8 * torch.finfo(torch.float64).eps  #: of the largest value: what sums may be off


def normalised(x: Tensor, dim: int) -> tuple[Tensor, Tensor]:
    """Return x divided by its largest size along an axis, and that size, with an axis of length 1.

    Squares of the result cannot overflow.
    """
    size = x.abs().amax(dim, keepdim=True).clamp_min(torch.finfo(x.dtype).tiny)
    return x / size, size


def moderated_errors(draws: Tensor, jumps: Tensor) -> tuple[Tensor, float]:
    """Return the standard errors (r, p, k) of the means of draws (r, d, p, k), and freedom.

    If a game jumps, a player may add the same in every draw, and more in others. So a variance
    is raised towards its mean over players, as `moderated` has it. It is never below what jumps
    (r, 1, k) that were not seen may add, see `possible_jumps`.
    """
    count = draws.shape[1]
    unseen = jumps * sqrt(unseen_variance(count))
    # over an inner axis this is faster than `Tensor.std`
    apart, farthest = normalised(draws - draws.mean(1, keepdim=True), 1)
    own = farthest.squeeze(1) * (apart.square().sum(1) / (count - 1)).sqrt()

    largest = torch.maximum(own.amax(1, keepdim=True), unseen)
    size = largest.clamp_min(torch.finfo(own.dtype).tiny)
    variance = moderated((own / size).square(), count - 1)
    variance = torch.maximum(variance, (unseen / size).square())
    return size * (variance / count).sqrt(), count + 1


def moderated(variance: Tensor, freedom: int) -> Tensor:
    """Return variances s_i^2 (r, p, k) of some freedom, those below their mean raised towards it.

    s_i^2 + 4 / (4 + freedom) max(0, mean s^2 - s_i^2)
    """
    missing = (variance.mean(1, keepdim=True) - variance).clamp_min(0)
    return variance + PRIOR_DRAWS / (PRIOR_DRAWS + freedom) * missing


# Games that jump


def possible_jumps(values: Tensor, players: int) -> Tensor:
    """Return how far games of values (r, c, k) may jump unseen, (r, 1, k).

    That is the largest distance between neighbouring levels, and 0 if there are more levels than
    players.
    """
    rows, _, outputs = values.shape
    by_game = values.mT.flatten(0, 1)
    jumps = torch.zeros_like(by_game[:, 0])
    # Most games show more levels in a few values, so that few games are sorted whole.
    few = _levels(by_game[:, : 2 * players + 4]) <= players
    if few.any():
        few[few.clone()] = _levels(by_game[few]) <= players
    if few.any():
        jumps[few] = by_game[few].sort(1).values.diff(dim=1).amax(1)
    return jumps.reshape(rows, 1, outputs)


def all_alike(values: Tensor) -> Tensor:
    """Return which games of values (r, c, k) show one value alone, (r, k).

    Nothing then says how far values that were not seen may be off.
    """
    low, high = values.aminmax(dim=1)
    return high - low <= ROUNDING * torch.maximum(low.abs(), high.abs())


def unseen_variance(observations: int) -> float:
    """Return the variance of a jump of size 1 that was in none of n observations."""
    chance = 1 / (observations + 2)
    return chance * (1 - chance)


def _levels(values: Tensor) -> Tensor:
    """Return how many levels the values of each game have, (n,)."""
    ordered = values.sort(1).values
    size = (ordered[:, -1:] - ordered[:, :1]).clamp_min(torch.finfo(values.dtype).tiny)
    return 1 + (ordered.diff(dim=1) > TIED * size).sum(1)
