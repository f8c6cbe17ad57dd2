"""Games of few levels: votes, labels and the like, which are constant but for jumps.

Of such a game, values that happen to be equal say little about how far others may be off: a player
may add nothing in everything seen, and decide elsewhere. So a jump that was not seen in n
observations still has a chance of 1 / (n + 2), by Laplace's rule of succession.
"""

import torch
from torch import Tensor

TIED = 1e-9  #: of the range: values closer than this are of one level
ROUNDING = 8 * torch.finfo(torch.float64).eps  #: of the largest value: what sums may be off


def has_few_levels(values: Tensor, players: int) -> Tensor:
    """Return which games show no more levels than there are players, (n,), in values (n, c)."""
    # Most games show more levels in a few values, so that few games are sorted whole.
    few = _levels(values[:, : 2 * players + 4]) <= players
    if few.any():
        few[few.clone()] = _levels(values[few]) <= players
    return few


def possible_jumps(values: Tensor, players: int) -> Tensor:
    """Return how far games of values (r, c, k) may jump where it was not seen, (r, 1, k).

    That is the largest distance between neighbouring levels, and 0 where levels are many.
    """
    rows, _, outputs = values.shape
    by_game = values.mT.flatten(0, 1)
    few = has_few_levels(by_game, players)
    jumps = torch.zeros_like(by_game[:, 0])
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
