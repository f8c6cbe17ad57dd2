"""Universal kriging: the Shapley values given the odd part of a game at some pairs.

The odd part is o = u beta + a Gaussian process of covariance scale * K. The coefficients beta of
the trend have a flat prior, or some a Gaussian one of variance scale / D_jj. With
b = cov(phi, o) / scale,

    E[phi | o] = 2 beta + b K^-1 (o - u beta) = W o,
    beta       = (u' K^-1 u + D)^-1 u' K^-1 o.

One factorisation of K gives all of it, the likelihood of o, and what pairs show when they are left
out, one at a time: with

    P = K^-1 - K^-1 u (u' K^-1 u + D)^-1 u' K^-1,

the value that all other pairs predict for pair n is off by e_n = (P o)_n / P_nn. Under the process
these residuals are as large as it says. When a game jumps, they are much larger for some pairs, and
no longer follow from their neighbours. If they are independent errors, the Shapley values have a
variance of their own, sum_n W_in^2 e_n^2. A game of few levels, such as a vote, jumps wherever it
is not constant. There the residuals always count, and none is smaller than a jump that has not been
seen may be (`shearshap.methods.standard_errors`).

A kernel may be one row's, or one that many rows share: k kernels, n games at each.
"""

from dataclasses import dataclass, replace
from functools import cached_property
from typing import NamedTuple

import torch
from torch import Tensor

from shearshap.methods.kriging.kernel import Covariance
from shearshap.methods.kriging.pairs import OddEven, inner_pairs
from shearshap.methods.standard_errors import possible_jumps, unseen_sizes_variance, unseen_variance

# The largest residual, as a part of the range of a game's values: errors count from the first
# number on, and in full from the second on.
MIN_RESIDUAL = 0.02
MAX_RESIDUAL = 0.18

MIN_PRECISION = 1e-5
"""Below this leave-one-out precision P_nn a pair cannot be predicted from the others.

An example is a pair without which two players cannot be told apart: its residual is 0 / 0.
"""


class Regression(NamedTuple):
    """What the trend explains of the values, and what it leaves."""

    beta: Tensor  #: (k, h, n)
    residual: Tensor  #: (k, m, n), L^-1 (y - H beta)
    squares: Tensor  #: (k, n), y' P y


@dataclass(frozen=True)
class Factors:
    """Kernels K = L L' (k, m, m) and a trend H (m, h), factorised.

    The same kernels may have several priors of the trend: precisions (c, k, h). The Gram matrices
    and all that follows from them then have c as their first axis too.
    """

    lower: Tensor  #: (k, m, m), L
    trend: Tensor  #: (k, m, h), L^-1 H
    precision: Tensor  #: (k, h), the diagonals of D; 0: flat
    gram: Tensor  #: (k, h, h), the Cholesky factors of H' K^-1 H + D

    @classmethod
    def from_kernel(
        cls, kernel: Tensor, trend: Tensor, precision: Tensor | None = None
    ) -> "Factors":
        """Return the factors of kernels (k, m, m); the trend is flat without a precision (k, h)."""
        lower = _cholesky(kernel)
        same = trend.expand(len(kernel), *trend.shape)
        white = torch.linalg.solve_triangular(lower, same, upper=False)
        if precision is None:
            precision = trend.new_zeros(len(kernel), trend.shape[1])
        return cls.from_lower(lower, white, precision)

    @classmethod
    def from_lower(cls, lower: Tensor, white: Tensor, precision: Tensor) -> "Factors":
        """Return the factors of kernels L L', with L^-1 H (k, m, h) and a precision (k, h)."""
        gram = white.mT @ white + torch.diag_embed(precision)
        return cls(lower, white, precision, torch.linalg.cholesky_ex(gram)[0])

    def regress(self, y: Tensor) -> Regression:
        """Return the regression of values (k, n, m) on the trend, by generalised least squares."""
        white = torch.linalg.solve_triangular(self.lower, y.mT, upper=False)
        beta = torch.cholesky_solve(self.trend.mT @ white, self.gram)
        residual = white - self.trend @ beta
        shrunk = self.precision[..., None] * beta.square()
        return Regression(beta, residual, residual.square().sum(-2) + shrunk.sum(-2))

    def dual(self, residual: Tensor) -> Tensor:
        """Return P y, (k, n, m), of a regression's residual (k, m, n)."""
        dual: Tensor = torch.linalg.solve_triangular(self.lower.mT, residual, upper=True)
        return dual.mT

    @cached_property
    def projection(self) -> Tensor:
        """P, (k, m, m)."""
        precision = torch.cholesky_inverse(self.lower)
        weighted = torch.linalg.solve_triangular(self.lower.mT, self.trend, upper=True)
        span = torch.linalg.solve_triangular(self.gram, weighted.mT, upper=False)
        return precision.baddbmm_(span.mT, span, alpha=-1)

    def projection_diagonal(self) -> Tensor:
        """Return the diagonals of P = L^-T (I - Q Q') L^-1, (k, m), for Q = L^-1 H G^-T.

        On a GPU it is many times as fast as P itself.
        """
        span = torch.linalg.solve_triangular(self.gram, self.trend.mT, upper=False)
        eye = torch.eye(self.lower.shape[1], dtype=self.lower.dtype, device=self.lower.device)
        same = eye.expand_as(self.lower)
        inverse = torch.linalg.solve_triangular(self.lower, same, upper=False)
        diagonal: Tensor = inverse.square().sum(1) - (span @ inverse).square().sum(1)
        return diagonal

    def log_likelihood(self, squares: Tensor) -> Tensor:
        """Return the log likelihoods, (k, n), of values with these squares y' P y (k, n).

        They are restricted to what has no flat prior, their scale is profiled out, and a constant
        is left out. With q coefficients of a Gaussian prior and G G' = H' K^-1 H + D they are

            - log|L| - log|G| + sum log(D_jj) / 2 - (m - h + q) log(y' P y) / 2.
        """
        m, h = self.trend.shape[-2:]
        proper = self.precision > 0
        log_precision = torch.where(proper, self.precision, 1.0).log().sum(-1, keepdim=True)
        freedom = m - h + proper.sum(-1, keepdim=True)
        log_squares = squares.clamp_min(torch.finfo(squares.dtype).tiny).log()
        log_lower = self.lower.diagonal(dim1=-2, dim2=-1).log().sum(-1, keepdim=True)
        log_gram = self.gram.diagonal(dim1=-2, dim2=-1).log().sum(-1, keepdim=True)
        return (log_precision - freedom * log_squares) / 2 - (log_lower + log_gram)


def _cholesky(kernel: Tensor) -> Tensor:
    """Return the Cholesky factors of kernels (k, m, m), of unit size on the diagonal, about.

    If rounding errors make one fail, a little is added to its diagonal, and more until it works.
    """
    lower: Tensor
    lower, failed = torch.linalg.cholesky_ex(kernel)
    jitter = 1e-8
    while failed.any() and jitter < 1:
        eye = torch.eye(kernel.shape[1], dtype=kernel.dtype, device=kernel.device)
        wrong = failed > 0
        lower[wrong], failed[wrong] = torch.linalg.cholesky_ex(kernel[wrong] + jitter * eye)
        jitter *= 10
    return lower


class Posterior(NamedTuple):
    """The distribution of the Shapley values of n games at each of k kernels."""

    mean: Tensor  #: (k, n, p)
    variance: Tensor  #: (k, 1, p) at unit scale
    scale: Tensor  #: (k, n, 1)
    residual: Tensor  #: (k, m, n), that of the regression


class Answer(NamedTuple):
    """The Shapley values of n games at each of k kernels, and all that their errors are made of."""

    mean: Tensor  #: (k, n, p)
    variance: Tensor  #: (k, 1, p) at unit scale
    scale: Tensor  #: (k, n, 1)
    max_residual: Tensor  #: (k, n, 1), the largest residual of a pair that is left out
    rough_variance: Tensor  #: (k, n, p), were these residuals independent errors
    unit_variance: Tensor  #: (k, 1, p), were all of them 1

    def with_errors_of(self, other: "Answer", players: Tensor) -> "Answer":
        """Return the answer with the errors that another has for some players, (k, p) of bool."""
        those = players[:, None]
        return self._replace(
            variance=torch.where(those, other.variance, self.variance),
            rough_variance=torch.where(those, other.rough_variance, self.rough_variance),
            unit_variance=torch.where(those, other.unit_variance, self.unit_variance),
        )


def joined(answers: list[Answer]) -> Answer:
    """Return the answers of several groups of kernels as one."""
    return Answer(*(torch.cat(fields) for fields in zip(*answers, strict=True)))


@dataclass(frozen=True)
class Process:
    """A Gaussian process at some pairs, ready to be conditioned on values: k kernels."""

    signs: Tensor  #: (m, p), u, which is the trend of an odd part
    factors: Factors
    cross: Tensor  #: (k, m, p), L^-1 b'
    shapley_variance: Tensor  #: (k, p), of phi before anything is observed, at unit scale
    #: (h, p), phi of the trend's columns if it is another index; None: Shapley values, 2 I
    of_trend: Tensor | None = None

    @classmethod
    def from_covariance(
        cls,
        u: Tensor,
        covariance: Covariance,
        precision: Tensor | None = None,
        *,
        trend: Tensor | None = None,
    ) -> "Process":
        """Return the process; the trend (m, h), else u, is flat without a precision (k, h)."""
        trend = u if trend is None else trend
        factors = Factors.from_kernel(covariance.observed, trend, precision)
        cross = torch.linalg.solve_triangular(factors.lower, covariance.cross.mT, upper=False)
        return cls(u, factors, cross, covariance.shapley, covariance.of_trend)

    def first(self, pairs: int) -> "Process":
        """Return the process at the first pairs alone.

        L is triangular, so that its first rows do not know the later pairs.
        """
        f = self.factors
        first = Factors.from_lower(f.lower[:, :pairs, :pairs], f.trend[:, :pairs], f.precision)
        return replace(self, signs=self.signs[:pairs], factors=first, cross=self.cross[:, :pairs])

    def with_flat_trend(self) -> "Process":
        """Return the process whose linear part has a flat prior."""
        f = self.factors
        flat = Factors.from_lower(f.lower, f.trend, torch.zeros_like(f.precision))
        return replace(self, factors=flat)

    def condition(self, odd: Tensor) -> Posterior:
        """Return the posterior given odd parts (k, n, m)."""
        beta, residual, squares = self.factors.regress(odd)
        explained_by_trend = 2 * beta if self.of_trend is None else self.of_trend.mT @ beta
        phi = (explained_by_trend + self.cross.mT @ residual).mT

        # What the observations explain of the prior variance, and what the unknown trend adds.
        gram = self.factors.gram
        from_trend = torch.linalg.solve_triangular(gram, self._unexplained, upper=False)
        explained = self.cross.square().sum(1)
        variance = self.shapley_variance - explained + from_trend.square().sum(1)
        return Posterior(
            mean=efficient(phi, odd) if self.of_trend is None else phi,
            variance=variance.clamp_min(0)[:, None],
            scale=scale_of_squares(squares, *self.factors.trend.shape[1:])[..., None],
            residual=residual,
        )

    def answer(self, odd: Tensor) -> Answer:
        """Return the Shapley values and what their errors are made of."""
        mean, variance, scale, residual = self.condition(odd)
        dual = self.factors.dual(residual)
        errors = left_out(dual, self._diagonal, self._weights, inner_pairs(self.signs))
        return Answer(mean, variance, scale, *errors)

    @cached_property
    def _weights(self) -> Tensor:
        """W', (k, m, p)."""
        white = self.white_weights
        weights: Tensor = torch.linalg.solve_triangular(self.factors.lower.mT, white, upper=True)
        return weights

    @property
    def white_weights(self) -> Tensor:
        """L' W', (k, m, p)."""
        beta = torch.cholesky_solve(self._unexplained, self.factors.gram)
        return self.cross + self.factors.trend @ beta

    @cached_property
    def _diagonal(self) -> Tensor:
        """The diagonals of P, (k, 1, m)."""
        diagonal = self.factors.projection_diagonal()[:, None]
        return diagonal.clamp_min(torch.finfo(diagonal.dtype).tiny)

    @property
    def _unexplained(self) -> Tensor:
        """What of phi = 2 beta + ... the process takes from the trend, (k, h, p)."""
        of_trend = self.of_trend
        if of_trend is None:
            p = self.signs.shape[1]
            of_trend = 2 * torch.eye(p, dtype=self.cross.dtype, device=self.cross.device)
        return of_trend - self.factors.trend.mT @ self.cross


def scale_of_squares(squares: Tensor, pairs: int, players: int) -> Tensor:
    """Return the scale of rows whose squares o' P o are given.

    As the scale is unknown, phi has a Student posterior of m - p degrees of freedom, whose variance
    has the divisor m - p - 2.
    """
    return squares / max(pairs - players - 2, 1)


def efficient(phi: Tensor, odd: Tensor) -> Tensor:
    """Return phi (..., p) with sum_i phi_i = 2 o(all), which holds but for rounding errors."""
    missing = 2 * odd[..., :1] - phi.sum(-1, keepdim=True)
    return phi + missing / phi.shape[-1]


# Pairs left out


def left_out(
    dual: Tensor, diagonal: Tensor, weights: Tensor, inner: Tensor
) -> tuple[Tensor, Tensor, Tensor]:
    """Return max_residual, rough and unit variance, as of `Answer`.

    They are those of P o (k, n, m), the diagonals of P (k, 1, m) and W' (k, m, p). The first is
    that of inner pairs, (m,) of bool: the full coalition and single players are at the edge of what
    is known, and the errors of the process are always larger there.
    """
    foreseen = diagonal > MIN_PRECISION
    residuals = torch.where(foreseen, dual / diagonal, 0.0)
    # those that are not known may be as large as any other
    largest = residuals.abs().amax(-1, keepdim=True)
    residuals = torch.where(foreseen, residuals, largest)
    if inner.any():
        max_residual = residuals[..., inner].abs().amax(-1, keepdim=True)
    else:
        max_residual = torch.full_like(residuals[..., :1], torch.inf)
    squares = weights.square()
    return max_residual, residuals.square() @ squares, squares.sum(-2, keepdim=True)


def standard_errors(parts: OddEven, answer: Answer, inflation: float) -> Tensor:
    """Return the standard errors of the Shapley values of r rows, (r, k, p).

    If a game jumps, they count what the process does not expect: values at other coalitions of the
    sizes that were seen, and at other sizes.

        error^2 = (inflation deviation)^2 + rough variance.
    """
    values = torch.cat([parts.even + parts.odd, parts.even - parts.odd], 1)
    shape = answer.max_residual.shape
    rough = _roughness(values, answer.max_residual).square() * answer.rough_variance

    players = parts.signs.shape[1]
    jumps = possible_jumps(values[..., None], players)
    if jumps.any():
        sizes = (parts.signs > 0).sum(1)
        sizes = torch.cat([sizes, players - sizes])
        between = unseen_sizes_variance(values, sizes, jumps.flatten(), players).reshape(shape)
        # one side of a pair may jump
        half = jumps.reshape(shape) / 2
        pairs = int(inner_pairs(parts.signs).sum())
        unseen = unseen_variance(pairs) * half.square() * answer.unit_variance
        jumping = torch.maximum(answer.rough_variance, torch.maximum(unseen, between))
        rough = torch.where(half > 0, jumping, rough)
    return (inflation**2 * answer.scale * answer.variance + rough).sqrt()


def _roughness(values: Tensor, max_residual: Tensor) -> Tensor:
    """Return how much independent errors count, (r, k, 1), from 0 to 1, by values (r k, 2 m)."""
    size = (values.amax(1) - values.amin(1)).clamp_min(torch.finfo(values.dtype).tiny)
    part = max_residual / size.reshape(max_residual.shape)
    known = part.nan_to_num(nan=1.0, posinf=1.0)
    return ((known - MIN_RESIDUAL) / (MAX_RESIDUAL - MIN_RESIDUAL)).clamp(0, 1)
