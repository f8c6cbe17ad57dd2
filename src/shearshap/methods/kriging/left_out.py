"""Pairs left out, one at a time: where a game jumps, the others do not foresee them.

With P = K^-1 - K^-1 u (u' K^-1 u)^-1 u' K^-1, the value that all other pairs predict for pair n is
off by

    e_n = (P o)_n / P_nn,

without solving anything again. Under the process these residuals are as large as it says. Where a
game jumps, they are much larger for some pairs, and no longer follow from their neighbours. If they
are independent errors, the Shapley values W o have a variance of their own:

    sum_n W_in^2 e_n^2.

A game of few levels, such as a vote, jumps wherever it is not constant. There the residuals always
count, and none is smaller than a jump that has not been seen may be (`shearshap.methods.levels`).
"""

from dataclasses import dataclass
from typing import NamedTuple

import torch
from torch import Tensor

from shearshap.methods.kriging.odd_even import OddEven, inner_pairs
from shearshap.methods.kriging.posterior import Factors
from shearshap.methods.levels import possible_jumps, unseen_variance

# The largest residual, as a part of the range of a game's values: where its errors begin to count,
# and where they count in full.
QUIET = 0.02
LOUD = 0.18

UNFORESEEN = 1e-5
"""P_nn, the inverse of the variance of what others predict, below which they predict nothing.

A pair without which some player cannot be told from another is such: its residual is 0 / 0.
"""


class LeftOut(NamedTuple):
    """What n games at each of k kernels show when pairs are left out."""

    surprise: Tensor  #: (k, n, 1), the largest residual of a pair
    variance: Tensor  #: (k, n, p) of the Shapley values, were the residuals independent errors
    unit_variance: Tensor  #: (k, 1, p), were all residuals 1

    @classmethod
    def of(cls, solved: Tensor, diagonal: Tensor, weights: Tensor, inner: Tensor) -> "LeftOut":
        """Return it for P o (k, n, m), the diagonals of P (k, 1, m) and W' (k, m, p).

        The surprise is that of inner pairs (m,) of bool. The full coalition and single players are
        at the edge of what is known, where the process always errs more.
        """
        foreseen = diagonal > UNFORESEEN
        residuals = torch.where(foreseen, solved / diagonal, 0.0)
        # those that are not known may be as large as any other
        largest = residuals.abs().amax(-1, keepdim=True)
        residuals = torch.where(foreseen, residuals, largest)
        if inner.any():
            surprise = residuals[..., inner].abs().amax(-1, keepdim=True)
        else:
            surprise = torch.full_like(residuals[..., :1], torch.inf)
        squares = weights.square()
        return cls(surprise, residuals.square() @ squares, squares.sum(-2, keepdim=True))


@dataclass(frozen=True)
class LeaveOneOut:
    """What leaving pairs out takes, whatever the values: made once for each kernel."""

    lower: Tensor  #: (k, m, m), L
    diagonal: Tensor  #: (k, 1, m) of P
    weights: Tensor  #: (k, m, p), W'
    inner: Tensor  #: (m,) of bool, the pairs that tell of surprises

    @classmethod
    def of(cls, u: Tensor, factors: Factors) -> "LeaveOneOut":
        """Return it for pairs u (m, p)."""
        lower = factors.lower
        return cls(
            lower=lower,
            diagonal=_precision_diagonal(factors),
            weights=torch.linalg.solve_triangular(lower.mT, white_weights(factors), upper=True),
            inner=inner_pairs(u),
        )

    def given(self, residual: Tensor) -> LeftOut:
        """Return what odd parts show whose posteriors have these residuals (k, m, n)."""
        # P o = L^-T L^-1 (o - u beta)
        solved = torch.linalg.solve_triangular(self.lower.mT, residual, upper=True)
        return LeftOut.of(solved.mT, self.diagonal, self.weights, self.inner)


def _precision_diagonal(factors: Factors) -> Tensor:
    """Return the diagonals of P = L^-T (I - Q Q') L^-1, (k, 1, m)."""
    lower = factors.lower
    # Q = L^-1 u G^-T for u' K^-1 u + D = G G'
    span = torch.linalg.solve_triangular(factors.gram(), factors.trend.mT, upper=False)
    eye = torch.eye(lower.shape[1], dtype=lower.dtype, device=lower.device)
    inverse = torch.linalg.solve_triangular(lower, eye.expand_as(lower), upper=False)
    diagonal: Tensor = inverse.square().sum(1) - (span @ inverse).square().sum(1)
    return diagonal.clamp_min(torch.finfo(lower.dtype).tiny)[:, None]


def white_weights(factors: Factors) -> Tensor:
    """Return L' W', (k, m, p), where W o are the Shapley values."""
    trend = factors.trend
    cross = factors.cross
    eye = torch.eye(trend.shape[2], dtype=trend.dtype, device=trend.device)
    unexplained = 2 * eye - trend.mT @ cross
    return cross + trend @ torch.cholesky_solve(unexplained, factors.gram())


def rough_variance(parts: OddEven, without: LeftOut) -> Tensor:
    """Return what the process does not expect of the Shapley values' variance, (r, k, p)."""
    values = torch.cat([parts.even + parts.odd, parts.even - parts.odd], 1)
    shape = without.surprise.shape
    variance = _roughness(values, without.surprise).square() * without.variance

    # One side of a pair may jump.
    players = parts.signs.shape[1]
    jumps = possible_jumps(values[..., None], players).reshape(shape) / 2
    pairs = int(inner_pairs(parts.signs).sum())
    unseen = unseen_variance(pairs) * jumps.square() * without.unit_variance
    jumping = torch.maximum(without.variance, unseen)
    return torch.where(jumps > 0, jumping, variance)


def _roughness(values: Tensor, surprise: Tensor) -> Tensor:
    """Return how much independent errors count, (r, k, 1), from 0 to 1, by values (r k, 2 m)."""
    size = (values.amax(1) - values.amin(1)).clamp_min(torch.finfo(values.dtype).tiny)
    part = surprise / size.reshape(surprise.shape)
    weight = (part.nan_to_num(nan=1.0, posinf=1.0) - QUIET) / (LOUD - QUIET)
    return weight.clamp(0, 1)
