"""The Shapley chain rule: what a share loses when a cooperator is left out.

Everything lives in player space. A `surface` g is called on points z (n, p), float64 on the CPU,
and answers (n,): g(z) = f(reference + z * (row - reference)), each player's z scaling all the
inputs it owns. The game is v(S) = g(1_S), so H_ij = d2g / dz_i dz_j already carries the paper's
(x_i - xbar_i)(x_j - xbar_j). A surface on another device, or in another precision, casts inside
itself.

Exact, for every game: with D_ij(S) = v(S+ij) - v(S+i) - v(S+j) + v(S) and w_s the weights of
Theorem 1,

    phi_i(U) - phi_i(U - j) = sum_S w_|S| D_ij(S),    so    |phi_i(U) - phi_i(U - j)| <= max_S
    |D_ij(S)| / 2,

because the weights sum to 1/2. `cross_differences` holds these D_ij.

To leading order only: the paper writes H_ij at the corner S+ij (`cross_derivatives`) for D_ij(S),
which is the *mean* of H_ij over the square face of the cube between S and S+ij.

- The two agree, and Theorems 1 and 2 and Remark 2 hold as printed, when no H_ij with i != j depends
  on z_i or z_j, that is when g(z) = sum_i a_i(z_i) + a polynomial affine in each z_i, of any order.
  Every f of degree <= 2 is such, whatever its groups; so is an f affine in each input, if no
  product joins two inputs of one player; so is the multilinear extension of any game.
- Else the remainder of Theorem 1 is at most (max |d3g / dz_i^2 dz_j| + max |d3g / dz_i dz_j^2|) / 4
  over the cube: shrinking row - reference by t shrinks the remainder as t^3, the terms as t^2. (The
  remainder as printed, o(x_i - xbar_i) + o(x_j - xbar_j), would absorb the terms themselves.)
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

from shearshap.coalitions import subsets
from shearshap.errors import InputError
from shearshap.methods.exact import shapley_transform

Surface = Callable[[Tensor], Tensor]  #: (n, p) -> (n,), each row on its own

MOST_PLAYERS = 16  #: a (2^p, p, p) table then takes 134 MB


def subgame_shapley(surface: Surface, members: Tensor, *, chunk: int = 4096) -> Tensor:
    """Shapley values of the game among `members` only, everybody else absent.

    members: (p,) bool. Returns (p,), 0 for the others. Evaluates 2^|members| coalitions.
    """
    size = int(members.sum())
    points = torch.zeros(1 << size, len(members), dtype=torch.float64)
    points[:, members] = _corners(size).double()
    shares = torch.zeros(len(members), dtype=torch.float64)
    if size:
        table = _values(surface, points, chunk=chunk)
        shares[members] = shapley_transform(table[None, :, None])[0, :, 0]
    return shares


def cross_derivatives(surface: Surface, players: int, *, chunk: int = 1024) -> Tensor:
    """The paper's cross terms: (H_ij + H_ji) / 2 at every corner that holds both i and j, else 0.

    Returns (2^p, p, p); bit b of the corner's index tells whether player b is in. `chunk` corners
    are differentiated at once. A piecewise linear surface has no second derivative to find: all is
    0.
    """
    corners = _corners(players)
    # backward twice: the forward mode of torch.func.hessian warns that torch.jit.script is
    # deprecated
    hessian = torch.func.jacrev(torch.func.jacrev(lambda z: _evaluate(surface, z[None])[0]))
    hessians: Tensor = torch.func.vmap(hessian, chunk_size=chunk)(corners.double()).detach()
    return torch.where(_together(corners), (hessians + hessians.mT) / 2, 0.0)


def cross_differences(surface: Surface, players: int, *, chunk: int = 4096) -> Tensor:
    """The exact cross terms: D_ij(S) at the corner S+ij, laid out as in `cross_derivatives`.

    Returns (2^p, p, p). Needs 2^p values and no derivative.
    """
    corners = _corners(players)
    values = _values(surface, corners.double(), chunk=chunk)
    index, bit = torch.arange(2**players), 2 ** torch.arange(players)
    without_one = values[index[:, None] & ~bit]
    without_both = values[index[:, None, None] & ~(bit[:, None] | bit)]
    cross = values[:, None, None] - without_one[:, :, None] - without_one[:, None, :] + without_both
    return torch.where(_together(corners), cross, 0.0)


def chain_rule_weights(players: int) -> Tensor:
    """Theorem 1's weight of a coalition S without i and j, by |S| = 0..p-2. Returns (p - 1,)."""
    # w_s = 1 / ((p - s - 1) binom(p, s + 1)); sum_s binom(p - 2, s) w_s = 1/2
    weights = [
        1 / ((players - size - 1) * math.comb(players, size + 1)) for size in range(players - 1)
    ]
    return torch.tensor(weights, dtype=torch.float64)


def chain_rule_errors(cross: Tensor) -> Tensor:
    """Delta_ij of Theorem 1: what leaving j out takes from player i's share.

    cross: (2^p, p, p), from `cross_derivatives` (the paper's Delta) or `cross_differences` (the
    exact gap phi_i(U) - phi_i(U - j)). Returns (p, p), symmetric, 0 on the diagonal.
    """
    # Delta_ij = sum_{S without i, j} w_|S| cross_ij(S+ij)
    players = cross.shape[-1]
    by_size = torch.cat([torch.zeros(2, dtype=torch.float64), chain_rule_weights(players)])
    return torch.einsum("c,cij->ij", by_size[_corners(players).sum(1)], cross)


def removal_bounds(cross: Tensor) -> Tensor:
    """Theorem 2's bound on |phi_i(U) - phi_i(U - j)|: the paper's epsilon_ij |x_i - xbar_i| |x_j -
    xbar_j|.

    cross: (2^p, p, p), from `cross_derivatives` (eq. 6 as printed) or `cross_differences` (always
    true). Returns (p, p), symmetric, 0 on the diagonal.
    """
    # eq. (6): epsilon_ij = max_V |H_ij(U - V) + H_ji(U - V)| / 4, V without i and j
    return cross.abs().amax(0) / 2


def selection_bounds(removal: Tensor, cooperators: Tensor) -> Tensor:
    """Remark 2's bound on |phi_i(U) - phi_i(S_i + i)|, for every player at once.

    removal: (p, p), from `removal_bounds`. cooperators: (p, p) bool, row i marks S_i. Returns (p,).
    """
    # eq. (7): sum over j outside S_i, j != i; the diagonal of `removal` is 0
    return (removal * ~cooperators).sum(1)


def coalitions_needed(cooperators: int) -> int:
    """Remark 1: evaluations for one player's share among that many cooperators, N = 2^(|S_i| + 1)."""
    if cooperators < 0:
        raise InputError(f"wanted 0 or more cooperators, got {cooperators}")
    return 1 << (cooperators + 1)


def _corners(players: int) -> Tensor:
    """Every coalition, (2^p, p) bool: bit b of the row's index says whether player b is in."""
    if players > MOST_PLAYERS:
        raise InputError(
            f"all coalitions are listed: wanted at most {MOST_PLAYERS} players, got {players}"
        )
    return torch.from_numpy(subsets(players))


def _together(corners: Tensor) -> Tensor:
    """Whether a corner (c, p) holds both i and j, i != j. Returns (c, p, p) bool."""
    apart = ~torch.eye(corners.shape[1], dtype=torch.bool)
    return corners[:, :, None] & corners[:, None, :] & apart


def _values(surface: Surface, points: Tensor, *, chunk: int) -> Tensor:
    """g at points (n, p), `chunk` at a time. Returns (n,) float64 on the CPU."""
    with torch.no_grad():
        return torch.cat([_evaluate(surface, part).to(part) for part in torch.split(points, chunk)])


def _evaluate(surface: Surface, points: Tensor) -> Tensor:
    values = surface(points)
    if values.shape != points.shape[:1]:
        raise InputError(
            f"surface: wanted one value a point, ({len(points)},), got {tuple(values.shape)} "
            f"for points {tuple(points.shape)}"
        )
    return values
