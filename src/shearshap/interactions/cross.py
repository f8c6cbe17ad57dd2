"""Cross-contribution: how strongly two players act together (the paper's Definition 1).

It is computed in player space. With g(z) = f(xbar + z (x - xbar)) and z (p,) in [0, 1], the row is
z = 1 and its background z = 0. The second derivatives of g contain the factors (x_i - xbar_i) and
(x_j - xbar_j) already, for whole one-hot blocks too, so

    eta_ij = |x_i - xbar_i| |d2_ij f + d2_ji f| |x_j - xbar_j|

becomes |d2_ij g + d2_ji g| at z = 1. There are three ways to compute it, and the authors' own way
with one-hot blocks, for the reproduction:

    hessian               d2 g itself: a forward pass, a backward pass, and one more backward pass
                          for each player, p + 2 passes
    gradient-differences  |d_i g(1) - d_i g(1 - e_j)|: p + 1 gradients, 2 (p + 1) passes; sees the
                          kinks of ReLU networks, whose Hessian is zero almost everywhere
    second-differences    |v(U) - v(U-i) - v(U-j) + v(U-ij)|: 1 + p + p (p-1)/2 evaluations, for
                          any game
    block-maximum         the largest |d2_ab f| |x_a - xbar_a| |x_b - xbar_b| over the inputs a of
                          player i and b of player j: d + 2 passes

Backward passes count for each output, and all passes for each background row.
"""

import warnings
from collections.abc import Callable
from dataclasses import replace
from typing import Literal

import torch
from torch import Tensor

from shearshap.errors import MethodError, ShearWarning, level_of_caller
from shearshap.games.active import ActiveGame
from shearshap.games.game import Game, GameInfo, ModelGame
from shearshap.interactions.derivatives import (
    WITHOUT_DERIVATIVES,
    floating_type,
    gradients,
    hessians,
)

CrossKind = Literal[
    "auto", "hessian", "gradient-differences", "second-differences", "block-maximum"
]
"""The way in which cross-contribution is computed."""

RANK_ONE_TOLERANCE = 1e-4  #: relative to a matrix' largest entry


def cross_contribution(game: Game, kind: CrossKind = "auto") -> Tensor:
    """Return eta (r, p, p), summed over outputs, with a zero diagonal.

    What it costs is counted in the game's usage. "auto" takes second differences of a game that
    cannot be differentiated, else the Hessian. A row whose Hessian cannot rank cooperators (it is
    zero, or of rank one, which gives every player the same ranking) gets gradient differences.
    """
    if takes_evaluations(game, kind):
        coalitions = second_difference_coalitions(game.players, game.device)
        return second_differences(game(coalitions), game.players)
    return derivative_contribution(game, kind)


def takes_evaluations(game: GameInfo, kind: CrossKind) -> bool:
    """Return whether this kind takes evaluations from the budget, as second differences do."""
    return kind == "second-differences" or (kind == "auto" and not game.differentiable)


# Second differences


def second_difference_evaluations(players: int) -> int:
    """Return the number of coalitions that second differences need."""
    return 1 + players + players * (players - 1) // 2


def second_difference_coalitions(players: int, device: torch.device) -> Tensor:
    """Return the coalitions of second differences, (1, 1 + p + p (p-1)/2, p).

    The full coalition, then each player left out, then each pair i < j left out. For p = 3:

        111 | 011 101 110 | 001 010 100
    """
    i, j = torch.triu_indices(players, players, offset=1, device=device)
    own = torch.eye(players, dtype=torch.bool, device=device)
    nobody = torch.zeros_like(own[:1])
    absent = torch.cat((nobody, own, own[i] | own[j]))
    return ~absent[None]


def second_differences(values: Tensor, players: int) -> Tensor:
    """Return |v(U) - v(U-i) - v(U-j) + v(U-ij)| summed over outputs, (r, p, p).

    `values` (r, c, k) are those of `second_difference_coalitions`.
    """
    i, j = torch.triu_indices(players, players, offset=1, device=values.device)
    full, without_one, without_both = values.split((1, players, len(i)), dim=1)

    differences = full - without_one[:, i] - without_one[:, j] + without_both
    upper = differences.abs().sum(dim=2)
    eta: Tensor = upper.new_zeros((len(values), players, players))
    eta[:, i, j] = upper
    eta[:, j, i] = upper
    return eta


# Derivatives


def derivative_contribution(game: Game, kind: CrossKind = "auto") -> Tensor:
    """Return eta (r, p, p) by derivatives; "auto" is the Hessian, or gradient differences."""
    ways: dict[str, Callable[[ModelGame], Tensor]] = {
        "auto": hessian_or_differences,
        "hessian": hessian,
        "gradient-differences": gradient_differences,
        "block-maximum": block_maximum,
    }
    if kind not in ways:
        raise MethodError(f"interaction: wanted one of {', '.join(ways)}, got {kind!r}")
    if isinstance(game, ActiveGame):
        return game.pairs_of(derivative_contribution(game.game, kind))
    if not isinstance(game, ModelGame) or not game.differentiable:
        raise MethodError(
            f"interaction={kind!r} needs a model that can be differentiated; try "
            "'second-differences'"
        )
    return ways[kind](game)


def hessian_or_differences(game: ModelGame) -> Tensor:
    """Return eta (r, p, p) by `by_derivatives`, with a warning where all gradients are zero."""
    eta, flat = by_derivatives(game)
    _warn_if_flat(game, flat)
    return eta


def by_derivatives(game: ModelGame) -> tuple[Tensor, Tensor]:
    """Return eta (r, p, p), and the rows whose derivatives are all zero, (r,) of bool.

    It is the Hessian's, and gradient differences for the rows whose Hessian cannot rank
    cooperators.
    """
    curvature = hessians(game)
    eta = _contribution(curvature)
    flat = degenerate(curvature).all(dim=1)
    if flat.any():
        # The usage is that of the whole game, so that these passes count too.
        smaller_game = replace(game.take(flat.nonzero()[:, 0]), usage=game.usage)
        eta[flat], still_flat = _gradient_differences(smaller_game)
        flat[flat.clone()] = still_flat
    return eta, flat


def degenerate(curvature: Tensor) -> Tensor:
    """Return which matrices (..., p, p) rank no cooperators: zero, or c a a' up to rounding.

    A symmetric matrix of rank one equals h h' / h_j for its column h at the largest diagonal entry
    j.
    """
    size = curvature.abs().amax(dim=(-2, -1))
    diagonal = curvature.diagonal(dim1=-2, dim2=-1)
    largest = diagonal.abs().argmax(dim=-1, keepdim=True)

    peak = diagonal.gather(-1, largest)
    divisor = torch.where(peak == 0, 1.0, peak)[..., None]
    index = largest[..., None, :].expand(*curvature.shape[:-1], 1)
    column = curvature.gather(-1, index)[..., 0]

    rank_one = column[..., :, None] * column[..., None, :] / divisor
    distance = (curvature - rank_one).abs().amax(dim=(-2, -1))
    return distance <= RANK_ONE_TOLERANCE * size


def hessian(game: ModelGame) -> Tensor:
    """Return |d2_ij g + d2_ji g| at z = 1, summed over outputs, (r, p, p)."""
    return _contribution(hessians(game))


def gradient_differences(game: ModelGame) -> Tensor:
    """Return |d_i g(1) - d_i g(1 - e_j)|, summed over outputs, (r, p, p)."""
    eta, flat = _gradient_differences(game)
    _warn_if_flat(game, flat)
    return eta


def _gradient_differences(game: ModelGame) -> tuple[Tensor, Tensor]:
    """Return gradient differences, and the rows whose gradients are all zero, (r,) of bool."""
    players = game.players
    device = game.inputs.device
    dtype = floating_type(game)

    # The row itself, then the row with each player left out.
    points = torch.ones((players + 1, players), device=device, dtype=dtype)
    points[1:] -= torch.eye(players, device=device, dtype=dtype)

    slopes = gradients(game, points)
    change = slopes[:, :, :1] - slopes[:, :, 1:]  # (r, k, j, i)
    eta = _off_diagonal(change.abs().sum(dim=1).mT)
    return eta, ~slopes.flatten(1).any(dim=1)


def block_maximum(game: ModelGame) -> Tensor:
    """Return the authors' eta of one-hot blocks, (r, p, p): the largest of any two inputs'."""
    inputs = game.inputs.shape[1]
    every_input = torch.arange(inputs, device=game.inputs.device)
    # The same game with every input a player of its own.
    by_input = replace(game, owner=every_input, players=inputs, usage=game.usage)
    eta = hessian(by_input)

    blocks = [game.owner.to(eta.device) == player for player in range(game.players)]
    rows = torch.stack([eta[:, block].amax(dim=1) for block in blocks], dim=1)
    maxima = torch.stack([rows[:, :, block].amax(dim=2) for block in blocks], dim=2)
    return _off_diagonal(maxima)


def _warn_if_flat(game: ModelGame, flat: Tensor) -> None:
    """Warn where derivatives are zero in every row, apart from rows equal to their background."""
    differs = (game.inputs[:, None] != game.background).flatten(1).any(dim=1).to(flat.device)
    if differs.any() and flat[differs].all():
        warnings.warn(
            "the model's gradient is zero: cooperators cannot be ranked by derivatives; try "
            f"{WITHOUT_DERIVATIVES}",
            ShearWarning,
            stacklevel=level_of_caller(),
        )


def _contribution(curvature: Tensor) -> Tensor:
    """Return eta (r, p, p) of Hessians (r, k, p, p)."""
    return _off_diagonal((curvature + curvature.mT).abs().sum(dim=1))


def _off_diagonal(eta: Tensor) -> Tensor:
    return eta - torch.diag_embed(eta.diagonal(dim1=1, dim2=2))
