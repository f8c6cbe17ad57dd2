"""Pairwise interactions and second differences as posterior means of a Gaussian process.

The even part e of a game is a constant of flat prior, and for the other even T

    c_T ~ N(0, scale * prod_{j in T} r_j).

The relevances r_j are those of kriging's rule, but their level is chosen for each row by restricted
likelihood. A flat prior for pairs of players too, as in a regression on the products u_i u_j, was
tried: its error was about the same at best, on trained networks, and several times as large at
worst. Pairwise games are exact without it, once the complement pairs determine them: they choose
the lowest level.

From pairs to interactions, for each row:

    even part e (m,)       at the complement pairs u'
    dual (m,)              K^-1 (e - mean): how much each pair counts
    SII (p, p)             sum over u' of dual(u') SII[k(., u')]

What one pair u' adds for the players i and j is a sum over all T with i and j. A quadrature over t
makes products of it, in which the other players' factors do not depend on i and j:

    r_i u'_i  r_j u'_j  prod_{k != i, j} (1 + t r_k u'_k)
      = prod_k (1 + t r_k u'_k)  a_i  a_j,     a_i = r_i u'_i / (1 + t r_i u'_i)

So one matrix product a' a, weighted by pair, gives all i and j at once (`weighted_pairs`).

Letters: r rows, m complement pairs, p players. Kernels are in `shearshap.methods.kriging.kernel`.
"""

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial

import torch
from torch import Tensor

from shearshap.games.indices import Index
from shearshap.methods.kriging import Calibration
from shearshap.methods.kriging.calibration import (
    relevance_features,
    relevances,
    row_priors,
    rule_logits,
)
from shearshap.methods.kriging.kernel import (
    NUGGET_FLOOR,
    VARIANCE_NODES,
    Part,
    chunk_entries,
    gauss_legendre,
    index_covariance,
    odd_even_kernels,
)
from shearshap.methods.kriging.pairs import OddEven, thinned_pairs
from shearshap.methods.kriging.posterior import (
    Answer,
    Factors,
    Process,
    joined,
    standard_errors,
)
from shearshap.methods.kriging.shared import own_answers

#: Shifts of the logits of a row's relevances. The lowest leaves only pairwise interactions.
LEVELS = range(-6, 3)

#: Pairs on which the level is chosen. All of them lowered errors by about 2 %.
LEVEL_PAIRS = 200

#: How much wider errors are than those of values, by the order of the index. Chosen on 25 games of
#: models, losses, rules and selections, so that 95 % intervals hold in 90 % for the worst kind.
WIDENING = {1: 1.0, 2: 1.15}
MAX_WIDENING = 1.25

#: Pairs that are used at most, since each is an unknown in a system of equations.
MAX_PAIRS = 2048


def kriged_interactions(parts: OddEven, calibration: Calibration) -> Tensor:
    """Return the posterior mean of SII, (r, p, p), zero on the diagonal."""

    def mean(chunk: OddEven, logit: Tensor) -> Tensor:
        # ordinary kriging's answer: SII = b K^-1 (e - mean), with b_ij = SII_ij[k(., u')]
        return interactions_of_kernel(chunk.signs, *_even_dual(chunk, logit))

    return _in_chunks(parts, calibration, mean)


def kriged_index(
    parts: OddEven, calibration: Calibration, index: Index, which: Sequence[Part] = ("odd", "even")
) -> tuple[Tensor, Tensor]:
    """Return the posterior means and the standard errors of an index, (r k, q) each.

    They are those of the whole game, or of one part of it. Both parts are independent. Errors are
    made as those of Shapley values are, and widened: large sets depend on more of the prior.
    """
    if len(parts.signs) > MAX_PAIRS:
        parts = parts.take(pairs=thinned_pairs(parts.signs, MAX_PAIRS))
    unit, size = replace(parts, outputs=1).normalised()
    mean = torch.zeros_like(size)
    variance = torch.zeros_like(size)
    for part in which:
        answer = _odd_answer if part == "odd" else _even_answer
        found = answer(unit, calibration, index)
        errors = standard_errors(unit, found, calibration.inflation)
        mean = mean + found.mean[:, 0]
        variance = variance + errors[:, 0].square()
    widening = WIDENING.get(index.order, MAX_WIDENING)
    return size * mean, size * widening * variance.sqrt()


def _odd_answer(unit: OddEven, calibration: Calibration, index: Index) -> Answer:
    prior = row_priors(unit, calibration)
    return own_answers(unit.signs, unit.odd_by_row, prior, calibration, index)


def _even_answer(unit: OddEven, calibration: Calibration, index: Index) -> Answer:
    u = unit.signs
    constant = torch.ones_like(u[:, :1])
    logit = rule_logits(calibration, relevance_features(unit))
    rows = max(1, chunk_entries(u) // (len(u) * max(len(u), index.sets)))
    answers = []
    for even, own in zip(unit.even.split(rows), logit.split(rows), strict=True):
        r = relevances(at_likeliest_level(u, even, own))
        covariance = index_covariance("even", u, r, index, nugget=0.0)
        process = Process.from_covariance(u, covariance, trend=constant)
        answers.append(process.answer(even[:, None]))
    return joined(answers)


def kriged_second_differences(parts: OddEven, calibration: Calibration) -> Tensor:
    """Return the posterior mean of the second differences at U, (r, p, p), zero on the diagonal."""
    mean = partial(_mean_differences, nugget=calibration.nugget)
    return _in_chunks(parts, calibration, mean)


def _in_chunks(
    parts: OddEven, calibration: Calibration, mean: Callable[[OddEven, Tensor], Tensor]
) -> Tensor:
    """Return mean(parts, logits of relevances), (r, p, p), in chunks of rows at unit size."""
    if len(parts.signs) > MAX_PAIRS:
        parts = parts.take(pairs=thinned_pairs(parts.signs, MAX_PAIRS))
    unit, size = parts.normalised()
    logit = rule_logits(calibration, relevance_features(unit))

    m, p = parts.signs.shape
    chunk_rows = max(1, chunk_entries(parts.signs) // (m * max(m, p)))
    by_row = (unit.odd, unit.even, logit)
    chunks = zip(*(tensor.split(chunk_rows) for tensor in by_row), strict=True)
    means = [mean(OddEven(unit.signs, odd, even), own) for odd, even, own in chunks]
    return size[..., None] * torch.cat(means)


def _mean_differences(parts: OddEven, logit: Tensor, nugget: float) -> Tensor:
    """Return the second differences of the even part, plus those of the odd part."""
    u = parts.signs
    even_r, even_dual = _even_dual(parts, logit)
    even = differences_of_kernel(u, even_r, even_dual, odd=False)

    r = relevances(logit)
    kernels = odd_even_kernels(u, r)
    odd_dual, _ = _solve(kernels.odd, u, parts.odd, nugget)
    odd = differences_of_kernel(u, r, odd_dual / kernels.odd_scale[:, 0], odd=True)
    return even + odd


# The posterior of the even part


def _even_dual(parts: OddEven, logit: Tensor) -> tuple[Tensor, Tensor]:
    """Return each row's likeliest relevances, (r, p), and K^-1 (e - mean) / scale, (r, m)."""
    u = parts.signs
    r = relevances(at_likeliest_level(u, parts.even, logit))
    kernels = odd_even_kernels(u, r)
    constant = torch.ones_like(u[:, :1])
    dual, _ = _solve(kernels.even, constant, parts.even)
    return r, dual / kernels.even_scale[:, 0]


def at_likeliest_level(u: Tensor, even: Tensor, logit: Tensor) -> Tensor:
    """Return logits (r, p) shifted to the level at which each row is likeliest."""
    if len(u) > LEVEL_PAIRS:
        pairs = thinned_pairs(u, LEVEL_PAIRS)
        u = u[pairs]
        even = even[:, pairs]

    constant = torch.ones_like(u[:, :1])
    levels = logit.new_tensor(LEVELS)
    likelihoods = []
    for level in levels:
        kernel = odd_even_kernels(u, relevances(logit + level)).even
        _, log_likelihood = _solve(kernel, constant, even)
        likelihoods.append(log_likelihood)
    return logit + levels[torch.stack(likelihoods).argmax(0)][:, None]


def _solve(
    kernel: Tensor, trend: Tensor, y: Tensor, nugget: float = NUGGET_FLOOR
) -> tuple[Tensor, Tensor]:
    """Return P y, (r, m), and the log likelihoods (r,), as of `posterior`, for values y (r, m)."""
    kernel.diagonal(dim1=1, dim2=2).add_(nugget)
    factors = Factors.from_kernel(kernel, trend)
    _, residual, squares = factors.regress(y[:, None])
    return factors.dual(residual)[:, 0], factors.log_likelihood(squares)[:, 0]


# Functionals of the kernels


def interactions_of_kernel(u: Tensor, r: Tensor, dual: Tensor) -> Tensor:
    """Return sum over u' of dual(u') SII_ij[k(., u')], (r, p, p), zero on the diagonal.

    Under the unscaled even kernel

        SII_ij[k(., u')] = 4 * sum over even T with i and j of r_T u'_T / (|T| - 1)

    is the integral over t in [0, 1] of `weighted_pairs` for both signs, of degree p - 2 in t.
    """
    count = max(u.shape[1] // 2, 1)
    nodes, weights = gauss_legendre(min(count, VARIANCE_NODES), u)
    both_signs = torch.cat([nodes, -nodes]).tolist()
    both_weights = torch.cat([weights, weights]).tolist()
    return weighted_pairs(u, r, dual, list(zip(both_signs, both_weights, strict=True)))


def differences_of_kernel(u: Tensor, r: Tensor, dual: Tensor, *, odd: bool) -> Tensor:
    """Return the same for second differences, with all other players present.

    Under the unscaled odd or even kernel it is 4 * sum over odd, or even, T with i and j of
    r_T u'_T: that is `weighted_pairs` at t = 1, minus or plus that at t = -1.
    """
    negative_weight = -1.0 if odd else 1.0
    return weighted_pairs(u, r, dual, [(1.0, 1.0), (-1.0, negative_weight)])


def weighted_pairs(u: Tensor, r: Tensor, dual: Tensor, nodes: list[tuple[float, float]]) -> Tensor:
    """Return a weighted sum over nodes (t, w), (r, p, p), zero on the diagonal:

    2 sum_{t, w} w sum_u' dual(u') r_i u'_i r_j u'_j prod_{k != i, j} (1 + t r_k u'_k).
    """
    players = u.shape[1]
    ru = r[:, None] * u
    total = u.new_zeros(len(r), players, players)
    for t, weight in nodes:
        factors = 1 + t * ru
        a = ru / factors  # (r, m, p), see above
        weights = weight * dual * factors.prod(2)
        total += 2 * (a * weights[..., None]).mT @ a
    return total - torch.diag_embed(total.diagonal(dim1=1, dim2=2))
