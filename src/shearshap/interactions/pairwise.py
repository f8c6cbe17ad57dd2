"""Pairwise Shapley interactions, from the values that the shares were computed from.

With u = 2z - 1 and v = sum_T c_T prod_{j in T} u_j, the Shapley interaction index (Grabisch &
Roubens 1999) is

    SII_ij = 4 * sum over even T containing i and j of c_T / (|T| - 1),

so only the even part e(S) = (v(S) + v(S^c)) / 2 counts, which every pair of complements shows. The
k-SII of order 2, or n-Shapley values (Bordt & von Luxburg 2023), share phi_i out to the player
alone and to its pairs:

    Phi_ij = SII_ij,   Phi_i = phi_i - 1/2 sum_j SII_ij,   sum_i Phi_i + sum_{i<j} Phi_ij = sum_i
    phi_i.

Where not all coalitions are known, e is a Gaussian process: a constant of flat prior, and for the
other even T c_T ~ N(0, scale * prod_{j in T} r_j). The relevances r_j are those of kriging's rule,
their level chosen for each row by restricted likelihood. A flat prior for pairs of players too, as
in a regression on the products u_i u_j, had on trained networks about the same error at best and
one several times as large at worst; and pairwise games, which choose the lowest level, are exact
without, once the pairs of complements determine them.

The same process tells the second differences where all players are present, which is
cross-contribution (`interaction.py`) for a model without derivatives, at no evaluations of its own.

Letters: r rows, c coalitions, m pairs of complements, p players, k outputs.
"""

from collections.abc import Callable
from functools import partial

import numpy as np
import torch
from torch import Tensor

from shearshap.errors import MethodError
from shearshap.gaussian.process import (
    ENTRIES,
    LARGEST,
    LOGIT,
    NODES,
    Calibration,
    Parts,
    _nodes,
    factor,
    kernels,
    relevances_of,
    thinned,
)

LEVELS = range(
    -6, 3
)  #: added to the logits of a row's relevances; the lowest leaves pairwise interactions alone
LEVEL_PAIRS = 200  #: pairs on which the level is chosen; all of them lowered errors by about 2 %
MOST_PAIRS = 2048  #: unknowns of the largest system of equations; of more pairs, that many are used


def has_pairs(coalitions: Tensor) -> bool:
    """Return whether coalitions (r or 1, c, p) come with all their complements, in every row."""
    return all(_are_paired(sets) for sets in coalitions)


def interactions(
    coalitions: Tensor, values: Tensor, shares: Tensor, *, calibration: Calibration | None = None
) -> Tensor:
    """Return the k-SII of order 2, (r, p, p, k): Phi_ij on both sides of the diagonal, Phi_i on it.

    Exact where the coalitions are all 2^p; else the posterior mean under the Gaussian process.

    Parameters
    ----------
    coalitions
        (r or 1, c, p) of bool: in complement pairs, see `has_pairs`, in any order, repeats allowed.
    values
        (r, c, k): what was computed of them.
    shares
        (r, p, k): the Shapley values phi, whose sum is shared out.
    calibration
        The rule for relevances, where a fitted one is known; else the default.
    """
    if not has_pairs(coalitions):
        raise MethodError(
            "interactions: wanted coalitions in complement pairs, got some without their "
            "complement; "
            "try method='kriging', 'leverage', 'kernel-paired', 'permutation-antithetic' or 'exact'"
        )
    if len(coalitions) > 1:
        rows = zip(coalitions.split(1), values.split(1), shares.split(1), strict=True)
        return torch.cat([interactions(*row, calibration=calibration) for row in rows])
    flat = values.mT.flatten(0, 1).double()
    between = _interaction_index(coalitions[0], flat, calibration)
    between = (between + between.mT) / 2
    between.diagonal(dim1=1, dim2=2).copy_(shares.mT.flatten(0, 1) - between.sum(2) / 2)
    return between.reshape(len(values), -1, *between.shape[1:]).permute(0, 2, 3, 1)


def _interaction_index(sets: Tensor, values: Tensor, calibration: Calibration | None) -> Tensor:
    """Return SII, (r, p, p), zero on the diagonal, of sets (c, p) and values (r, c)."""
    players = sets.shape[1]
    distinct, complements = _complements(sets)
    if len(distinct) == 1 << players:
        tables = values[:, distinct].split(max(1, ENTRIES >> players))
        return torch.cat([exact_interactions(table) for table in tables])
    parts = _paired_parts(sets, values, distinct, complements)
    return kriged_interactions(parts, calibration or Calibration(players=(0.0,) * players))


# The pairs


def _paired_parts(sets: Tensor, values: Tensor, distinct: Tensor, complements: Tensor) -> Parts:
    """Return the odd and even parts of values (r, c), in the design's order, which has the full
    coalition first.
    """
    inside, order = distinct[sets[distinct, 0]].sort()
    outside = complements[sets[distinct, 0]][order]
    return Parts.of(sets[inside], values[:, inside], values[:, outside])


def _are_paired(sets: Tensor) -> bool:
    distinct, complements = _complements(sets)
    return torch.equal(sets[distinct], ~sets[complements])


def _complements(sets: Tensor) -> tuple[Tensor, Tensor]:
    """Return where sets (c, p) are found, each once, and where their complements are, if anywhere.

    In binary counting order, while there are fewer than 63 players.
    """
    found, order = codes(sets).sort(stable=True)
    fresh = torch.ones_like(found, dtype=torch.bool)
    fresh[1:] = found[1:] != found[:-1]
    distinct = order[fresh]
    place = torch.searchsorted(found[fresh], codes(~sets[distinct]))
    return distinct, distinct[place.clamp_max(len(distinct) - 1)]


def codes(sets: Tensor) -> Tensor:
    """Return a number for each set, (c,): its members' bits or, where those are too many, random
    numbers, added up.
    """
    players = sets.shape[1]
    if players < 63:
        bits = 1 << torch.arange(players, device=sets.device)
    else:
        bits = torch.from_numpy(np.random.default_rng(0).integers(1 << 62, size=players)).to(
            sets.device
        )
    return torch.cat([(some * bits).sum(1) for some in sets.split(1 << 16)])


# All coalitions


def exact_interactions(table: Tensor) -> Tensor:
    """Return SII, (r, p, p), zero on the diagonal, of tables (r, 2^p) in binary counting order (bit
    i: player i).
    """
    coefficients = _walsh_transform(table)
    size = _walsh_sizes(table)
    weight = torch.where((size % 2 == 0) & (size > 0), 4 / (size - 1), 0.0)
    upper = _pair_sums(weight * coefficients)
    return upper + upper.mT


def _players(table: Tensor) -> int:
    return table.shape[1].bit_length() - 1


def _walsh_transform(table: Tensor) -> Tensor:
    """Return the coefficients c_T, (r, 2^p), of tables (r, 2^p)."""
    for _ in range(_players(table)):  # each turn takes the lowest bit and makes it the highest
        absent, present = table[:, ::2], table[:, 1::2]
        table = torch.cat(((absent + present) / 2, (present - absent) / 2), dim=1)
    return table


def _walsh_sizes(table: Tensor) -> Tensor:
    """Return |T| of every T, (2^p,)."""
    sizes = table.new_zeros(1)
    for _ in range(_players(table)):
        sizes = torch.cat((sizes, sizes + 1))
    return sizes


def _pair_sums(table: Tensor) -> Tensor:
    """Return the sums over all T that contain i and j > i, (r, p, p), of tables (r, 2^p); elsewhere
    0.
    """
    players = _players(table)
    sums = table.new_zeros(len(table), players, players)
    for i in range(players):
        absent, present = table[:, ::2], table[:, 1::2]
        sums[:, i, i + 1 :] = _member_sums(present)
        table = absent + present
    return sums


def _member_sums(table: Tensor) -> Tensor:
    """Return the sums over all T that contain i, (r, p), folding the table in half, one player at a
    time.
    """
    sums = table.new_zeros(len(table), _players(table))
    for i in range(_players(table)):
        absent, present = table[:, ::2], table[:, 1::2]
        sums[:, i] = present.sum(1)
        table = absent + present
    return sums


# Some pairs


def kriged_interactions(parts: Parts, calibration: Calibration) -> Tensor:
    """Return the posterior mean of SII, (r, p, p), zero on the diagonal."""
    return _by_rows(parts, calibration, lambda u, even, _odd, r: _posterior(u, even, r))


def _by_rows(parts: Parts, calibration: Calibration, posterior: Callable[..., Tensor]) -> Tensor:
    """Return posterior(u, even, odd, r), (r, p, p), of all rows in chunks, with their relevances r,
    at their size.
    """
    if len(parts.signs) > MOST_PAIRS:
        parts = parts.take(slice(None), thinned(parts.signs, MOST_PAIRS))
    unit, size = parts.normalised()
    m, p = parts.signs.shape
    rows = max(1, ENTRIES // (m * max(m, p)))
    pieces = (unit.even, unit.odd, relevances_of(unit, calibration))
    chunks = zip(*(piece.split(rows) for piece in pieces), strict=True)
    return size[..., None] * torch.cat([posterior(parts.signs, *chunk) for chunk in chunks])


def _posterior(u: Tensor, even: Tensor, r: Tensor) -> Tensor:
    """Return ordinary kriging's answer: SII = b K^-1 (e - mean), with b_ij = SII_ij[k(., u')]."""
    r = _at_likeliest_level(u, even, r)
    dual, _ = _solve(kernels(u, r)[1], torch.ones_like(u[:, :1]), even)
    return interactions_of_kernel(u, r, dual / _even_scale(r))


def _at_likeliest_level(u: Tensor, even: Tensor, r: Tensor) -> Tensor:
    """Return the relevances (r, p), shifted on the scale of logits to where the likelihood of each
    row is largest.
    """
    some = thinned(u, LEVEL_PAIRS) if len(u) > LEVEL_PAIRS else slice(None)
    levels, one = r.new_tensor(LEVELS), torch.ones_like(u[some, :1])
    losses = [
        _solve(kernels(u[some], _shifted(r, level))[1], one, even[:, some])[1] for level in levels
    ]
    return _shifted(r, levels[torch.stack(losses).argmin(0)][:, None])


def _shifted(r: Tensor, level: Tensor) -> Tensor:
    return LARGEST * torch.sigmoid((torch.logit(r / LARGEST) + level).clamp(-LOGIT, LOGIT))


def _solve(kernel: Tensor, trend: Tensor, y: Tensor, nugget: float = 0.0) -> tuple[Tensor, Tensor]:
    """Return P y, (r, m), and minus the log restricted likelihood, scale profiled out, (r,), with a
    trend H (m, h).

    P = K^-1 - K^-1 H (H' K^-1 H)^-1 H' K^-1; the likelihood: [log|K| + log|H' K^-1 H| + (m - h)
    log(y' P y)] / 2.
    """
    lower, _ = factor(kernel, nugget)
    right = torch.cat([trend.expand(len(y), -1, -1), y[..., None]], 2)
    white, values = torch.linalg.solve_triangular(lower, right, upper=False).split(
        [trend.shape[1], 1], 2
    )
    gram = torch.linalg.cholesky_ex(white.mT @ white)[0]
    residual = values - white @ torch.cholesky_solve(white.mT @ values, gram)
    dual = torch.linalg.solve_triangular(lower.mT, residual, upper=True)[..., 0]
    left = residual.square().sum((1, 2)).clamp_min(1e-300)
    logs = sum(triangle.diagonal(dim1=1, dim2=2).log().sum(1) for triangle in (lower, gram))
    return dual, logs + (y.shape[1] - trend.shape[1]) / 2 * left.log()


def _even_scale(r: Tensor) -> Tensor:
    """Return the even kernel at u = u', (r, 1): A cosh(sum_j atanh(r_j)) - 1 with A = prod_j sqrt(1
    - r_j^2).
    """
    log_a = 0.5 * torch.log1p(-r.square()).sum(1, keepdim=True)
    half = torch.sinh(0.5 * torch.atanh(r).sum(1, keepdim=True))
    return 2 * log_a.exp() * half.square() + torch.expm1(log_a)


def interactions_of_kernel(u: Tensor, r: Tensor, dual: Tensor) -> Tensor:
    """Return sum over u' of dual(u') SII_ij[k(., u')], (r, p, p), zero on the diagonal, for duals
    (r, m).

    Under the even kernel, not scaled, SII_ij[k(., u')] = 4 * sum over even T with i and j of r_T
    u'_T / (|T| - 1), the integral over t in [0, 1] of `pairs_of_kernel` for both signs, of degree p
    - 2 in t.
    """
    nodes, weights = _nodes(min(max(u.shape[1] // 2, 1), NODES), u)
    signed = zip(
        torch.cat([nodes, -nodes]).tolist(), torch.cat([weights, weights]).tolist(), strict=True
    )
    return pairs_of_kernel(u, r, dual, list(signed))


def differences_of_kernel(u: Tensor, r: Tensor, dual: Tensor, *, odd: bool) -> Tensor:
    """Return the same for the second difference where all players are present, under the odd or the
    even kernel.

    It is 4 * sum over odd, or even, T with i and j of r_T u'_T: `pairs_of_kernel` at t = 1, less or
    plus at t = -1.
    """
    return pairs_of_kernel(u, r, dual, [(1.0, 1.0), (-1.0, -1.0 if odd else 1.0)])


def pairs_of_kernel(
    u: Tensor, r: Tensor, dual: Tensor, signed: list[tuple[float, float]]
) -> Tensor:
    """Return 2 sum_{t, w} w sum_u' dual r_i u'_i r_j u'_j prod_{k != i, j} (1 + t r_k u'_k), (r, p,
    p), 0 for i = j.
    """
    ru, total = r[:, None] * u, u.new_zeros(len(r), u.shape[1], u.shape[1])
    for t, weight in signed:
        factors = 1 + t * ru
        others = ru / factors
        total += 2 * (others * (weight * dual * factors.prod(2))[..., None]).mT @ others
    return total - torch.diag_embed(total.diagonal(dim1=1, dim2=2))


# Cross-contribution, from the same values


def second_differences(
    coalitions: Tensor, values: Tensor, *, calibration: Calibration | None = None
) -> Tensor:
    """Return |v(U) - v(U-i) - v(U-j) + v(U-ij)|, (r, p, p), over outputs: cross-contribution
    without derivatives.

    Exact where the coalitions are all 2^p; else the posterior mean of the odd and the even part.
    See `interactions` for the parameters.
    """
    if len(coalitions) > 1:
        rows = zip(coalitions.split(1), values.split(1), strict=True)
        return torch.cat([second_differences(*row, calibration=calibration) for row in rows])
    sets, flat = coalitions[0], values.mT.flatten(0, 1).double()
    players = sets.shape[1]
    distinct, complements = _complements(sets)
    if len(distinct) == 1 << players:
        found = _table_differences(flat[:, distinct])
    else:
        parts = _paired_parts(sets, flat, distinct, complements)
        found = kriged_differences(parts, calibration or Calibration(players=(0.0,) * players))
    return found.abs().reshape(len(values), -1, players, players).sum(1)


def _table_differences(table: Tensor) -> Tensor:
    """Return the second differences where all players are present, (r, p, p), of tables (r, 2^p)."""
    players = _players(table)
    bit = 1 << torch.arange(players, device=table.device)
    every, single = (1 << players) - 1, table[:, ((1 << players) - 1) - bit]
    both = table[:, every - (bit[:, None] | bit)]
    found = table[:, every, None, None] - single[:, :, None] - single[:, None] + both
    return found - torch.diag_embed(found.diagonal(dim1=1, dim2=2))


def kriged_differences(parts: Parts, calibration: Calibration) -> Tensor:
    """Return the posterior mean of the second differences where all players are present, (r, p, p)."""
    return _by_rows(parts, calibration, partial(_differences, nugget=calibration.nugget))


def _differences(u: Tensor, even: Tensor, odd: Tensor, r: Tensor, nugget: float) -> Tensor:
    level = _at_likeliest_level(u, even, r)
    dual, _ = _solve(kernels(u, level)[1], torch.ones_like(u[:, :1]), even)
    found = differences_of_kernel(u, level, dual / _even_scale(level), odd=False)
    kernel, _, scale = kernels(u, r)
    dual, _ = _solve(kernel, u, odd, nugget)
    return found + differences_of_kernel(u, r, dual / scale[:, 0], odd=True)
