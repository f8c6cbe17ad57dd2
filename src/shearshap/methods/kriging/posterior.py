"""Universal kriging: the Shapley values given the odd part of a game at some pairs.

The odd part is o = u beta + a Gaussian process of covariance scale * K. The coefficients beta of
the trend have a flat prior, or some a Gaussian one of variance scale / D_jj. With
b = cov(phi, o) / scale,

    E[phi | o] = 2 beta + b K^-1 (o - u beta),
    beta       = (u' K^-1 u + D)^-1 u' K^-1 o.

All that does not depend on o is in `Factors`, for K = L L'. A kernel may be one row's, or one that
many rows share.
"""

from collections.abc import Iterator
from typing import NamedTuple

import torch
from torch import Tensor

from shearshap.methods.kriging.kernels import (
    VARIANCE_NODES,
    cholesky_with_nugget,
    chunk_entries,
    odd_kernel,
    shapley_of_kernel,
    shapley_of_white,
)


class Factors(NamedTuple):
    """Factorised kernels at some relevances, k of them."""

    lower: Tensor  #: (k, m, m), L
    trend: Tensor  #: (k, m, p), L^-1 u
    cross: Tensor  #: (k, m, p), L^-1 b'
    prior_variance: Tensor  #: (k, p), of phi at unit scale
    precision: Tensor  #: (k, p), the diagonals of D; 0: flat

    def gram(self) -> Tensor:
        """Return the Cholesky factors of u' K^-1 u + D, (k, p, p)."""
        gram = self.trend.mT @ self.trend + torch.diag_embed(self.precision)
        factor: Tensor = torch.linalg.cholesky_ex(gram)[0]
        return factor

    def first(self, pairs: int) -> "Factors":
        """Return the factors for the first pairs alone.

        L is triangular, so that its first rows do not know the later pairs.
        """
        return Factors(
            lower=self.lower[:, :pairs, :pairs],
            trend=self.trend[:, :pairs],
            cross=self.cross[:, :pairs],
            prior_variance=self.prior_variance,
            precision=self.precision,
        )

    def each(self) -> Iterator["Factors"]:
        """Yield the factors of one kernel after the other."""
        for kernel in range(len(self.lower)):
            yield Factors(*(part[kernel : kernel + 1] for part in self))


class Posterior(NamedTuple):
    """The distribution of the Shapley values of n rows at each of k kernels."""

    mean: Tensor  #: (k, n, p)
    variance: Tensor  #: (k, 1, p) at unit scale
    scale: Tensor  #: (k, n, 1)
    residual: Tensor  #: (k, m, n), L^-1 (o - u beta)


def factorised(u: Tensor, r: Tensor, nugget: float, precision: Tensor | None = None) -> Factors:
    """Return the factors of the kernels at relevances r (k, p) for pairs u (m, p).

    The precision (k, p) is that of the trend's prior; None: flat.
    """
    kernel, scale = odd_kernel(u, r)
    lower, nuggets = cholesky_with_nugget(kernel, nugget)
    cross, prior_variance = _shapley_covariance(u, r, scale, nuggets)

    columns = torch.cat([u.expand(len(r), *u.shape), cross.mT], 2)
    white = torch.linalg.solve_triangular(lower, columns, upper=False)
    white_trend, white_cross = white.split(u.shape[1], 2)
    precision = torch.zeros_like(r) if precision is None else precision
    return Factors(lower, white_trend, white_cross, prior_variance, precision)


def rows_at_once(u: Tensor) -> int:
    """Return how many kernels for pairs u (m, p) to factorise at once."""
    m, p = u.shape
    nodes = min(p // 2 + 1, VARIANCE_NODES)
    return max(1, chunk_entries(u) // max(m**2, 2 * nodes**2 * p))


def condition(factors: Factors, odd: Tensor) -> Posterior:
    """Return the posterior given odd parts (k, n, m), n rows at each of the kernels."""
    _, m, p = factors.trend.shape
    gram = factors.gram()

    # The trend by generalised least squares.
    white_odd = torch.linalg.solve_triangular(factors.lower, odd.mT, upper=False)
    beta = torch.cholesky_solve(factors.trend.mT @ white_odd, gram)
    residual = white_odd - factors.trend @ beta
    phi = (2 * beta + factors.cross.mT @ residual).mT

    shrunk = factors.precision[..., None] * beta.square()
    squares = residual.square().sum(1) + shrunk.sum(1)

    # What the observations explain of the prior variance, and what the unknown trend adds.
    eye = torch.eye(p, dtype=odd.dtype, device=odd.device)
    unexplained = 2 * eye - factors.trend.mT @ factors.cross
    from_trend = torch.linalg.solve_triangular(gram, unexplained, upper=False).square().sum(1)
    variance = factors.prior_variance - factors.cross.square().sum(1) + from_trend

    return Posterior(
        mean=efficient(phi, odd),
        variance=variance.clamp_min(0)[:, None],
        scale=scale_of_squares(squares, m, p)[..., None],
        residual=residual,
    )


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


def _shapley_covariance(
    u: Tensor, r: Tensor, scale: Tensor, nuggets: Tensor
) -> tuple[Tensor, Tensor]:
    """Return cov(phi, o) (k, p, m) and var(phi) (k, p) under the scaled kernel and its nugget."""
    cross, variance = shapley_of_kernel(u, r)
    white_cross, white_variance = shapley_of_white(u)
    return (
        cross / scale + nuggets * white_cross,
        variance / scale[:, 0] + nuggets[:, 0] * white_variance,
    )
