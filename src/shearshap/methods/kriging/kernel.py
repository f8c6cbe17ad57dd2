"""The prior covariance of a game's odd and even parts, and of its Shapley values.

Kernels are functions of two coalitions, written as signs u and u' (m, p), and of a row's
relevances r_j. Both parts have the covariance sum_T prod_{j in T} r_j u_j u'_j over their own T:

    odd part   |T| = 3, 5, ...   (order 1 is the trend, which has a flat prior)
    even part  |T| = 2, 4, ...   (order 0 is the trend)

For p = 3 players, the coalitions {0, 1} and {0, 2}, and equal relevances r:

    u        +  +  -
    u'       +  -  +
    u u'     +  -  -

             odd part     even part
    T        {0, 1, 2}    {0, 1}    {0, 2}    {1, 2}
    adds     + r^3        - r^2     - r^2     + r^2

No sum runs over all T: that of all is the product over players prod_j (1 + r_j u_j u'_j).

The odd part may also have a component that depends on the coalition's size alone, as the accuracy
of an ensemble does on the number of its members. It is 0 at both ends, and so has no Shapley value:
it says only which values are not the doing of single players.
"""

import math
from collections.abc import Callable, Sequence
from functools import cache
from typing import Literal, NamedTuple

import numpy as np
import torch
from torch import Tensor

from shearshap.games.batches import free_memory
from shearshap.games.coalitions import members_of_all_sets
from shearshap.games.indices import Index, size_weights

CHUNK_ENTRIES = {"cpu": 1 << 19, "other": 1 << 27}
"""Entries of kernels (r, m, m) made at once: what fits a cache; what keeps an accelerator busy."""

BYTES_AN_ENTRY = 1 << 9
"""Free memory that an accelerator needs for each entry: a few dozen doubles, and room beside."""

NUGGET_FLOOR = 1e-8  #: keeps the kernels of smooth games positive definite in float64
SIZE_RANGE = 2.0  #: players by which sizes differ that still have much in common
NEGLIGIBLE = 1e-15  #: part of a sum over sets of players
VARIANCE_NODES = 24  #: most quadrature nodes when less precision suffices than for the mean


Part = Literal["odd", "even"]


class Covariance(NamedTuple):
    """The prior of what is observed and of the Shapley values phi, for k kernels."""

    observed: Tensor  #: (k, m, m)
    cross: Tensor  #: (k, p, m), with the Shapley values
    shapley: Tensor  #: (k, p), their variances
    #: (h, q), an index of the columns of the trend, if it is not the Shapley values that are wanted
    of_trend: Tensor | None = None


class Kernels(NamedTuple):
    """The odd and even kernels between pairs, divided by their scales so that k(u, u) = 1."""

    odd: Tensor  #: (r, m, m)
    even: Tensor  #: (r, m, m)
    odd_scale: Tensor  #: (r, 1, 1)
    even_scale: Tensor  #: (r, 1, 1)


def chunk_entries(like: Tensor) -> int:
    """Return how many kernel entries to make at once on a tensor's device."""
    entries = CHUNK_ENTRIES["cpu" if like.device.type == "cpu" else "other"]
    free = free_memory(like.device)
    return entries if free is None else min(entries, free // BYTES_AN_ENTRY)


def odd_even_kernels(u: Tensor, r: Tensor) -> Kernels:
    """Return the kernels between pairs u (m, p) at relevances r (r, p).

    prod_j (1 + r_j u_j u'_j) = A exp(s) with s = sum_j atanh(r_j) u_j u'_j and
    A = prod_j sqrt(1 - r_j^2). Hence

        k_odd = A sinh(s) - sum_j r_j u_j u'_j   and   k_even = A cosh(s) - 1.
    """
    sinh, cosh, constant = _hyperbolic(u, r)
    odd, odd_scale = _unit_diagonal(_without_linear(sinh, u, r))
    even, even_scale = _unit_diagonal(cosh.add_(constant))
    return Kernels(odd, even, odd_scale, even_scale)


def odd_kernel(u: Tensor, r: Tensor) -> tuple[Tensor, Tensor]:
    """Return the odd kernel alone, (r, m, m), and its scale, (r, 1, 1); see `odd_even_kernels`."""
    sinh, _, _ = _hyperbolic(u, r)
    return _unit_diagonal(_without_linear(sinh, u, r))


def _hyperbolic(u: Tensor, r: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Return A sinh(s) and A (cosh(s) - 1), (r, m, m), and A - 1, (r, 1, 1).

    With h = sinh(s / 2), sinh(s) = 2 h sqrt(1 + h^2) and cosh(s) = 1 + 2 h^2. That loses no digits
    when the relevances are tiny and sinh(s) is almost linear. Most is done in place: at these
    sizes new memory takes longer than the arithmetic.
    """
    log_a = 0.5 * torch.log1p(-r.square()).sum(1)[:, None, None]
    twice_a = 2 * log_a.exp()
    half = ((u * (0.5 * torch.atanh(r))[:, None]) @ u.mT).sinh_()
    square = half.square()
    sinh = torch.sqrt(square + 1).mul_(half).mul_(twice_a)
    return sinh, square.mul_(twice_a), torch.expm1(log_a)


def _without_linear(sinh: Tensor, u: Tensor, r: Tensor) -> Tensor:
    """Return A sinh(s) - sum_j r_j u_j u'_j, in a new tensor."""
    linear = (u * r[:, None]) @ u.mT
    return torch.sub(sinh, linear, out=linear)


def _unit_diagonal(kernel: Tensor) -> tuple[Tensor, Tensor]:
    """Divide kernels (r, m, m) by their scales (r, 1, 1) in place, and return both."""
    # all entries of the diagonal are equal, since u_j^2 = 1
    scale = kernel[:, :1, :1].clone()
    return kernel.div_(scale), scale


def kernel_and_slopes(
    part: Part, u: Tensor, r: Tensor
) -> tuple[Tensor, Callable[[Tensor], Tensor]]:
    """Return the kernel of a part between pairs u (m, p) at relevances r (r, p), and its slopes.

    The kernel K (r, m, m) has a unit diagonal. The slopes are a function from d f / d K (r, m, m)
    to d f / d r (r, p). With S = A sinh(s) and C = A cosh(s) as above, k_odd = S - linear and
    k_even = C - 1,

        d S / d r_j = (C u_j u'_j - r_j S) / (1 - r_j^2)
        d C / d r_j = (S u_j u'_j - r_j C) / (1 - r_j^2).
    """
    sinh, cosh_less, constant = _hyperbolic(u, r)
    unscaled = _without_linear(sinh, u, r) if part == "odd" else cosh_less + constant
    kernel, scale = _unit_diagonal(unscaled)
    cosh = cosh_less.add_(constant + 1)
    own, other = (sinh, cosh) if part == "odd" else (cosh, sinh)

    def by_player(matrix: Tensor) -> Tensor:
        """Return u_j' X u_j of matrices X (r, m, m) for each player, (r, p)."""
        return ((matrix @ u) * u).sum(1)

    def derivative(of_own: Tensor, of_other: Tensor, linear: Tensor) -> Tensor:
        """Return d S / d r or d C / d r, (r, p), less what the linear part takes from S."""
        slope = (of_other - r * of_own) / (1 - r.square())
        return slope - linear if part == "odd" else slope

    def in_relevances(slope: Tensor) -> Tensor:
        of_own = (slope * own).sum((1, 2))[:, None]
        of_entries = derivative(of_own, by_player(slope * other), by_player(slope))
        # The kernel is divided by its own first entry, where u = u'.
        of_scale = derivative(own[:, 0, :1], other[:, 0, :1], torch.ones_like(r))
        total = (slope * kernel).sum((1, 2))[:, None]
        return (of_entries - total * of_scale) / scale[:, 0]

    return kernel, in_relevances


def odd_covariance(u: Tensor, r: Tensor, nugget: float, size_variance: float = 0.0) -> Covariance:
    """Return the prior of the odd part at pairs u (m, p), at relevances r (k, p).

    It is the kernel of unit diagonal, the nugget and the component of the size.
    """
    kernel, scale = odd_kernel(u, r)
    kernel += nugget_and_size(u, nugget, size_variance)
    cross, variance = shapley_of_kernel(u, r)
    white_cross, white_variance = shapley_of_white(u)
    return Covariance(
        observed=kernel,
        cross=cross / scale + nugget * white_cross,
        shapley=variance / scale[:, 0] + nugget * white_variance,
    )


def nugget_and_size(u: Tensor, nugget: float, size_variance: float) -> Tensor:
    """Return what the covariance of the odd part has beside the kernel, (m, m)."""
    added = max(nugget, NUGGET_FLOOR) * torch.eye(len(u), dtype=u.dtype, device=u.device)
    if size_variance:
        size = (u > 0).sum(1)
        table = size_covariance(u.shape[1]).to(u.device)
        added += size_variance * table[size][:, size]
    return added


def size_covariance(players: int) -> Tensor:
    """Return the covariances of f(s) and f(s') for sizes of 0 to p players, (p + 1, p + 1).

    An odd part has f(p - s) = -f(s), so that for g of covariance exp(-|s - s'| / SIZE_RANGE)

        f(s) = (g(s) - g(p - s)) / sqrt(2)   but   f(0) = f(p) = 0.
    """
    size = torch.arange(players + 1, dtype=torch.float64, device="cpu")
    inner = (size > 0) & (size < players)
    near = torch.exp(-(size[:, None] - size).abs() / SIZE_RANGE)
    return (near - near.flip(1)) * inner * inner[:, None]


def size_factor(u: Tensor) -> Tensor:
    """Return F (m, q) with F F' the covariance of the component of the size at pairs u (m, p).

    As f(p - s) = -f(s), the sizes of more than half the players determine the others.
    """
    players = u.shape[1]
    above = slice(players // 2 + 1, players)
    lower: Tensor = torch.linalg.cholesky(size_covariance(players)[above, above])
    factor = lower.new_zeros(players + 1, len(lower))
    factor[above] = lower
    factor -= factor.flip(0)
    return factor[(u > 0).sum(1).cpu()].to(u)


# Shapley values under the kernels


def shapley_of_kernel(u: Tensor, r: Tensor) -> tuple[Tensor, Tensor]:
    """Return cov(phi_i, o(u')) (r, p, m) and var(phi_i) (r, p) under the odd kernel, unscaled.

    phi_i[k(., u')] = sum over both signs of int_0^1 r_i u'_i prod_{j != i} (1 +- t r_j u'_j) dt
                      - 2 r_i u'_i

    The integrand is a polynomial of degree p - 1 in t, so the quadrature is exact. The factor of
    player i is divided out of the product of all players: as u'^2 = 1,

        r_i u'_i / (1 + t r_i u'_i) = (r_i u'_i - t r_i^2) / (1 - t^2 r_i^2).
    """
    # both signs: t runs over the nodes q of [0, 1] and of [-1, 0]
    nodes, weights = gauss_legendre(u.shape[1] // 2 + 1, u)
    t = torch.cat([nodes, -nodes])
    weight = torch.cat([weights, weights])

    # prod_j (1 + t r_j u'_j) of all players, (r, q, m), as in `odd_even_kernels`
    tr = t[:, None] * r[:, None]
    log_product = 0.5 * torch.log1p(-tr.square()).sum(2, keepdim=True) + torch.atanh(tr) @ u.mT
    product = log_product.exp() * weight[:, None]

    # without the factor of player i, (r, p, m)
    inverse = 1 / (1 - tr.square())
    ru = r[..., None] * u.mT
    first_order = ru * (inverse.mT @ product)
    second_order = (r[:, None] * tr * inverse).mT @ product
    return first_order - second_order - 2 * ru, _prior_variance(r)


def _prior_variance(r: Tensor) -> Tensor:
    """Return var(phi_i) = 4 * sum over odd T containing i, |T| >= 3, of r_T / |T|^2, (r, p).

    It is 2 r_i * sum over both signs of int int prod_{j != i} (1 +- s t r_j) ds dt - 4 r_i.
    """
    # s t at every two nodes, with both signs, (q,)
    t, t_weights = gauss_legendre(min(r.shape[1] // 2 + 1, VARIANCE_NODES), r)
    st = torch.outer(t, t).flatten()
    st_weights = torch.outer(t_weights, t_weights).flatten()
    nodes = torch.cat([st, -st])
    weights = torch.cat([st_weights, st_weights])

    # the product of all players' factors, without that of player i, (r, q, p)
    factors = 1 + nodes[:, None] * r[:, None]
    others = factors.log().sum(2, keepdim=True).exp() / factors
    return 2 * r * (weights[:, None] * others).sum(1) - 4 * r


def gauss_legendre(count: int, like: Tensor) -> tuple[Tensor, Tensor]:
    """Return Gauss-Legendre nodes and weights on [0, 1], exact up to degree 2 * count - 1."""
    nodes, weights = _gauss_legendre(count)
    return like.new_tensor(nodes), like.new_tensor(weights)


@cache
def _gauss_legendre(count: int) -> tuple[list[float], list[float]]:
    # Kept, since NumPy finds the nodes by linear algebra, whose threads then take cores from torch.
    nodes, weights = np.polynomial.legendre.leggauss(count)
    return ((nodes + 1) / 2).tolist(), (weights / 2).tolist()


def shapley_of_white(u: Tensor) -> tuple[Tensor, float]:
    """Return cov(phi_i, o(u')) (p, m) and var(phi_i), the same for all i, under the nugget.

    There o is independent from pair to pair, and

        phi_i = sum over pairs of   2 o(S) / (|S| C(p, |S|))         if i is in S,
                                   -2 o(S) / ((p - |S|) C(p, |S|))   elsewhere.

    The nugget is part of the game, not noise. That keeps efficiency, and makes the answer exact
    once every pair is known.
    """
    players = u.shape[1]
    size = (players + u.sum(1)).div(2).round()
    inverse = u.new_tensor([2 / math.comb(players, int(s)) for s in size.tolist()])

    # The full coalition has no outsider. Its second branch is never taken, but must be finite.
    outside = (players - size).clamp_min(1)
    cross = torch.where(u.mT > 0, inverse / size, -inverse / outside)
    variance = sum(4 / (s * players * math.comb(players, s)) for s in range(1, players + 1))
    return cross, variance


# Any index under the kernels


def index_covariance(
    part: Part, u: Tensor, r: Tensor, index: Index, nugget: float, size_variance: float = 0.0
) -> Covariance:
    """Return the prior of the odd or even part at pairs u (m, p), and of an index of q sets.

    That of the odd part is `odd_covariance`, the even part has no component of the size.
    """
    if part == "odd":
        kernel, scale = odd_kernel(u, r)
        kernel += nugget_and_size(u, nugget, size_variance)
    else:
        _, kernel, _, scale = odd_even_kernels(u, r)
        kernel.diagonal(dim1=1, dim2=2).add_(max(nugget, NUGGET_FLOOR))
    cross, variance = _index_of_products(part, u, r, index, smallest=2)
    cross = cross / scale
    variance = variance / scale[:, 0]
    if nugget:
        # of a white game of variance 1 at each pair, every c_T has the variance 2 / 2^p
        share = nugget * 2.0 ** (1 - u.shape[1])
        of_white = _index_of_products(part, u, torch.ones_like(r[:1]), index, smallest=0)
        cross = cross + share * of_white[0]
        variance = variance + share * of_white[1]
    if part == "odd" and size_variance:
        size_cross, of_size = _index_of_size(u, index)
        cross = cross + size_variance * size_cross
        variance = variance + size_variance * of_size

    trend = u.new_zeros(u.shape[1] if part == "odd" else 1, cross.shape[1])
    if part == "odd":
        trend.diagonal().fill_(2 * float(index.moments[0][0]))  # single players come first
    return Covariance(kernel, cross, variance, trend)


def _index_of_products(
    part: Part, u: Tensor, r: Tensor, index: Index, *, smallest: int
) -> tuple[Tensor, Tensor]:
    """Return cov(I_S, v(u')) (r, q, m) and var(I_S) (r, q) for c_T of variances r_T.

    T runs over odd or even sets of a minimum size. As I_S is linear in c_T,

        cov = 2^s sum over T containing S of r_T u'_T M(|T| - s),   var = 4^s sum of r_T M^2.
    """
    crosses = []
    variances = []
    for size, every in enumerate(index.moments, start=1):
        is_odd = part == "odd"
        counts = [
            float(moment) if (size + n) % 2 == is_odd and size + n >= smallest else 0.0
            for n, moment in enumerate(every)
        ]
        members = torch.from_numpy(members_of_all_sets(index.players, size)).to(u.device)
        crosses.append(set_sums(r[:, None] * u, members, counts))
        variances.append(2**size * set_sums(r, members, [count**2 for count in counts]))
    return torch.cat(crosses, -1).mT, torch.cat(variances, -1)


def set_sums(a: Tensor, members: Tensor, moments: Sequence[float]) -> Tensor:
    """Return 2^s prod_{j in S} a_j sum_n M(n) e_n(a without S), (..., q), of a (..., p).

    The sets have the members (q, s). e_n is the sum of the products of n numbers. That of all
    numbers comes one number after the other, and without a number it is

        e_n(a without a_j) = e_n(a) - a_j e_{n-1}(a without a_j),

    whose errors do not grow, since |a_j| <= 1.
    """
    every = [torch.ones_like(a[..., :1])]
    every += [torch.zeros_like(every[0])] * a.shape[-1]
    for place, number in enumerate(a.split(1, -1)):
        for n in range(place + 1, 0, -1):
            every[n] = every[n] + number * every[n - 1]

    # of larger T, nothing is left but rounding
    sizes = torch.stack([count.abs().amax() for count in every])
    most = int((sizes > NEGLIGIBLE * sizes.max()).nonzero().max())
    own = [a[..., player] for player in members.unbind(1)]
    left = [torch.zeros_like(own[0])] * len(own)
    total = torch.zeros_like(own[0])
    for moment, count in zip(moments[: most + 1], every, strict=False):
        for place, number in enumerate(own):
            count = left[place] = count - number * left[place]
        if moment:
            total.add_(count, alpha=moment)
    for number in own:
        total.mul_(2 * number)
    return total


def _index_of_size(u: Tensor, index: Index) -> tuple[Tensor, Tensor]:
    """Return cov(I_S, o(u')) (q, m) and var(I_S) (q,) under the component of the size."""
    table = size_covariance(index.players).to(u.device)
    size = (u > 0).sum(1)
    crosses = []
    variances = []
    for number, weights in enumerate(size_weights(index), start=1):
        sets = math.comb(index.players, number)
        of_size = u.new_tensor(weights) @ table
        crosses.append(of_size[size].expand(sets, -1))
        variances.append((of_size @ u.new_tensor(weights)).expand(sets))
    return torch.cat(crosses), torch.cat(variances)
