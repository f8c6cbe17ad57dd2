"""The Shapley chain rule: what a player's value loses when a cooperator is left out.

Everything lives in player space. A `surface` g is called on points z (n, p), float64 on the CPU,
and returns (n,): g(z) = f(xbar + z * (x - xbar)) for the row x and its background xbar. Each
player's z scales all the inputs it owns. The game is v(S) = g(1_S), so H_ij = d2g / dz_i dz_j
already carries the paper's (x_i - xbar_i)(x_j - xbar_j). A surface on another device, or in another
precision, casts inside itself.

Tables of all coalitions are in binary counting order: bit b of the index tells whether player b is
in.

    index       0      1    2    3       4    ...
    coalition   empty  {0}  {1}  {0, 1}  {2}  ...

Exact, for every game: with D_ij(S) = v(S+ij) - v(S+i) - v(S+j) + v(S) and w_s the weights of
Theorem 1,

    phi_i(U) - phi_i(U - j) = sum_S w_|S| D_ij(S),
    so |phi_i(U) - phi_i(U - j)| <= max_S |D_ij(S)| / 2,

because the weights sum to 1/2. `cross_differences` holds these D_ij.

To leading order only: the paper writes H_ij at the corner S+ij (`cross_derivatives`) for D_ij(S),
which is the *mean* of H_ij over the square face of the cube between S and S+ij.

- The two agree, and Theorems 1 and 2 and Remark 2 hold as printed, when no H_ij with i != j depends
  on z_i or z_j. Then g(z) = sum_i a_i(z_i) + a polynomial affine in each z_i, of any order. Every f
  of degree <= 2 is such, whatever its groups. So is an f affine in each input, if no product joins
  two inputs of one player, and so is the multilinear extension of any game.
- Otherwise the remainder of Theorem 1 is at most
  (max |d3g / dz_i^2 dz_j| + max |d3g / dz_i dz_j^2|) / 4 over the cube: shrinking x - xbar by t
  shrinks the remainder as t^3, the terms as t^2. (The remainder as printed, o(x_i - xbar_i) +
  o(x_j - xbar_j), would absorb the terms themselves.)
- So the printed bound can fail, by any factor: (2 z_1 - z_1^2) z_2 has H_12 = 0 at the corner but
  loses 1/2, one unit tanh(3 z_1 + 3 z_2) loses 2000 times its bound, and a ReLU network has the
  bound 0.

Wang et al., "Accelerating Shapley Explanation via Contributive Cooperator Selection", ICML 2022,
Section 3.
"""

import math
from collections.abc import Callable

import torch
from torch import Tensor

from shearshap.errors import InputError
from shearshap.games.coalitions import subsets

Surface = Callable[[Tensor], Tensor]  #: (n, p) -> (n,), each row on its own

MAX_PLAYERS = 16  #: a (2^p, p, p) table then takes 134 MB


def cross_derivatives(surface: Surface, players: int, *, chunk: int = 1024) -> Tensor:
    """Return the paper's cross terms (2^p, p, p).

    They are (H_ij + H_ji) / 2 at every corner that holds both i and j, else 0. `chunk` corners are
    differentiated at once. A piecewise linear surface has no second derivative: all terms are 0.
    """
    corners = _corners(players)
    # backward twice, as the forward mode of torch.func.hessian warns that torch.jit.script is
    # deprecated
    hessian = torch.func.jacrev(torch.func.jacrev(lambda z: surface(z[None])[0]))
    hessians: Tensor = torch.func.vmap(hessian, chunk_size=chunk)(corners.double()).detach()
    return torch.where(_together(corners), (hessians + hessians.mT) / 2, 0.0)


def cross_differences(surface: Surface, players: int, *, chunk: int = 4096) -> Tensor:
    """Return the exact cross terms (2^p, p, p): D_ij(S) at the corner S+ij.

    Needs 2^p values and no derivative.
    """
    corners = _corners(players)
    points = torch.split(corners.double(), chunk)
    with torch.no_grad():
        values = torch.cat([surface(part).to(part) for part in points])
    index = torch.arange(2**players)
    bit = 2 ** torch.arange(players)
    without_one = values[index[:, None] & ~bit]
    without_both = values[index[:, None, None] & ~(bit[:, None] | bit)]
    cross = values[:, None, None] - without_one[:, :, None] - without_one[:, None, :] + without_both
    return torch.where(_together(corners), cross, 0.0)


def chain_rule_weights(players: int) -> Tensor:
    """Return Theorem 1's weights of coalitions S without i and j, by |S| = 0..p-2: (p - 1,).

    w_s = 1 / ((p - s - 1) binom(p, s + 1)), and sum_s binom(p - 2, s) w_s = 1/2.
    """
    weights = [
        1 / ((players - size - 1) * math.comb(players, size + 1)) for size in range(players - 1)
    ]
    return torch.tensor(weights, dtype=torch.float64)


def chain_rule_errors(cross: Tensor) -> Tensor:
    """Return Delta_ij of Theorem 1, what player i's value loses without j: (p, p).

    Delta_ij = sum_{S without i, j} w_|S| cross_ij(S+ij)

    The cross terms (2^p, p, p) are from `cross_derivatives` (the paper's Delta) or from
    `cross_differences` (the exact gap phi_i(U) - phi_i(U - j)). Delta is symmetric, and 0 on the
    diagonal.
    """
    players = cross.shape[-1]
    # the corner S+ij has two members more than S, so its weight lies two places further on
    by_size = torch.cat([torch.zeros(2, dtype=torch.float64), chain_rule_weights(players)])
    weights = by_size[_corners(players).sum(1)]
    return torch.einsum("c,cij->ij", weights, cross)


def removal_bounds(cross: Tensor) -> Tensor:
    """Return Theorem 2's bounds on |phi_i(U) - phi_i(U - j)|: (p, p).

    They are the paper's epsilon_ij |x_i - xbar_i| |x_j - xbar_j| of eq. (6), with epsilon_ij = max
    over V without i and j of |H_ij(U - V) + H_ji(U - V)| / 4.

    The cross terms (2^p, p, p) are from `cross_derivatives` (eq. 6 as printed) or from
    `cross_differences` (which always bounds). Symmetric, and 0 on the diagonal.
    """
    return cross.abs().amax(0) / 2


def selection_bounds(removal: Tensor, cooperators: Tensor) -> Tensor:
    """Return Remark 2's bounds on |phi_i(U) - phi_i(S_i + i)|, one for each player: (p,).

    `removal` (p, p) is from `removal_bounds`; row i of `cooperators` (p, p) of bool marks S_i.
    """
    # eq. (7) sums over j outside S_i, j != i: the diagonal of `removal` is 0
    return (removal * ~cooperators).sum(1)


def coalitions_needed(cooperators: int) -> int:
    """Return Remark 1's N = 2^(|S_i| + 1): evaluations for one player's value among cooperators."""
    return 1 << (cooperators + 1)


def _corners(players: int) -> Tensor:
    """Return every coalition in binary counting order, (2^p, p) of bool."""
    if players > MAX_PLAYERS:
        raise InputError(
            f"all coalitions are listed: expected at most {MAX_PLAYERS} players, got {players}"
        )
    return torch.from_numpy(subsets(players))


def _together(corners: Tensor) -> Tensor:
    """Return whether a corner (c, p) holds both i and j, i != j: (c, p, p) of bool."""
    apart = ~torch.eye(corners.shape[1], dtype=torch.bool)
    return corners[:, :, None] & corners[:, None, :] & apart
