"""Standard errors: how far draws lie apart, and what games that jump may hide.

Games of few levels, such as votes and labels, are constant but for jumps. Values of such a game
that happen to be equal say little about how far others may be off: a player may add nothing in
everything seen, and decide elsewhere. So a jump that was not seen in n observations still has a
chance of 1 / (n + 2), by Laplace's rule of succession.
"""

from math import erfc, sqrt

import torch
from torch import Tensor, nn

MIN_DRAWS = 4
"""The smallest number of draws that have standard errors.

Fewer lie close together by chance too often, even with Student's t.
"""

PRIOR_DRAWS = 4
"""Draws that the mean variance of all players counts for, beside a player's own."""

CHANCE = erfc(sqrt(2))  #: that a normal number is off by more than two standard errors: 4.6 %
MAX_FREEDOM = 1e9  #: degrees of freedom beyond which Student's t is normal

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


# Rows that may stop


def within(errors: Tensor, freedom: float | Tensor, tol: float) -> Tensor:
    """Return which rows have standard errors (r, ...) small enough for a tolerance, (r,) of bool.

    The chances that a value is off by more than twice the tolerance, by Student's t of some freedom
    (r,), add up to at most the chance that a single normal one has whose error is the tolerance:

        sum_i P(|t| > 2 tol / se_i)  <=  P(|z| > 2)

    By how much all errors are below the tolerance then depends on how many come close to it.
    """
    freedom = torch.as_tensor(freedom, device=errors.device).clamp_max(MAX_FREEDOM).reshape(-1, 1)
    t = 2 * tol / errors.flatten(1)
    # Wallace (1959): this z has about the same chance as t
    z = (freedom * (t.square() / freedom).log1p()).sqrt() * (8 * freedom + 1) / (8 * freedom + 3)
    chances: Tensor = torch.special.erfc(z / sqrt(2))
    return chances.sum(dim=1) <= CHANCE


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


def unseen_sizes_variance(values: Tensor, sizes: Tensor, jumps: Tensor, players: int) -> Tensor:
    """Return the variance of Shapley values that sizes without a coalition leave, (n,).

    The values (n, c) are those of coalitions of sizes (c,), and the games jump by (n,). If the mean
    value rises between two sizes that were seen, d steps apart, the players that join at one of
    these d steps get it, and nothing tells which. A rise is at most one jump here:

        sum over neighbouring sizes of  rise^2 (d^2 - 1) / (12 p^2)
    """
    seen, places = sizes.unique(return_inverse=True)
    of_size = nn.functional.one_hot(places, len(seen)).to(values.dtype)
    rises = (values @ (of_size / of_size.sum(0))).diff(dim=1).abs()
    steps = seen.diff().to(values.dtype)
    hidden = torch.minimum(rises, jumps[:, None]) / players
    variance: Tensor = hidden.square() @ (steps.square() - 1) / 12
    return variance


def all_alike(low: Tensor, high: Tensor) -> Tensor:
    """Return which games show one value alone, by their smallest and largest.

    Nothing then says how far values that were not seen may be off.
    """
    return high - low <= ROUNDING * torch.maximum(low.abs(), high.abs())


def least_errors(low: Tensor, high: Tensor, coalitions: int, players: int) -> Tensor:
    """Return the standard errors of games that look additive, by their smallest and largest value.

    What was not seen has the chance 1 / (c + 2), and adds as much as a player does in the mean.
    """
    return (high - low) / (players * (coalitions + 2))


def unseen_variance(observations: int) -> float:
    """Return the variance of a jump of size 1 that was in none of n observations."""
    chance = 1 / (observations + 2)
    return chance * (1 - chance)


def _levels(values: Tensor) -> Tensor:
    """Return how many levels the values of each game have, (n,)."""
    ordered = values.sort(1).values
    size = (ordered[:, -1:] - ordered[:, :1]).clamp_min(torch.finfo(values.dtype).tiny)
    return 1 + (ordered.diff(dim=1) > TIED * size).sum(1)
