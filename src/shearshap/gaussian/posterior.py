"""Universal kriging: the Shapley values given the odd part of a game at some pairs.

The odd part is o = u beta + a Gaussian process of covariance scale * K, where the trend u beta has
a flat prior. With b = cov(phi, o) / scale,

    E[phi | o] = 2 beta + b K^-1 (o - u beta),
    beta       = (u' K^-1 u)^-1 u' K^-1 o.
"""

import math
from typing import NamedTuple

import torch
from torch import Tensor

from shearshap.gaussian.calibration import Calibration
from shearshap.gaussian.kernels import (
    VARIANCE_NODES,
    cholesky_with_nugget,
    chunk_entries,
    odd_kernel,
    shapley_of_kernel,
    shapley_of_white,
)
from shearshap.gaussian.odd_even import OddEven
from shearshap.gaussian.relevances import relevances

FEW_DEGREES = 7  #: degrees of freedom below which Student's t makes the intervals


class Posterior(NamedTuple):
    """The distribution of the Shapley values given the odd part at some pairs."""

    mean: Tensor  #: (r, p)
    variance: Tensor  #: (r, p) at unit scale
    scale: Tensor  #: (r, 1)


def krige(parts: OddEven, calibration: Calibration) -> tuple[Tensor, Tensor]:
    """Return the Shapley values and their standard errors, (r, p).

    See `degrees_of_freedom` for those of the standard errors.
    """
    unit, size = parts.normalised()
    posterior = condition(unit, relevances(unit, calibration), calibration.nugget)

    m, p = parts.signs.shape
    variance = posterior.variance
    if math.isfinite(degrees_of_freedom(m, p)):
        # Student's t brings its own m - p - 2, which the scale holds already.
        variance = variance * max(m - p - 2, 1) / (m - p)

    deviation = (posterior.scale * variance).sqrt()
    return size * posterior.mean, size * calibration.inflation * deviation


def degrees_of_freedom(pairs: int, players: int) -> float:
    """Return the degrees of freedom of the standard errors: m - p, or infinity where it is large.

    The pairs include that of the full and the empty coalition.
    """
    degrees = pairs - players
    return degrees if degrees < FEW_DEGREES else math.inf


def condition(parts: OddEven, relevance: Tensor, nugget: float) -> Posterior:
    """Return the posterior given the odd part of every row, at relevances (r, p)."""
    m, p = parts.signs.shape
    nodes = min(p // 2 + 1, VARIANCE_NODES)
    chunk_rows = max(1, chunk_entries(parts.signs) // max(m**2, 2 * nodes**2 * p))

    chunks = zip(parts.odd.split(chunk_rows), relevance.split(chunk_rows), strict=True)
    posteriors = [_condition(parts.signs, odd, r, nugget) for odd, r in chunks]
    return Posterior(
        mean=torch.cat([posterior.mean for posterior in posteriors]),
        variance=torch.cat([posterior.variance for posterior in posteriors]),
        scale=torch.cat([posterior.scale for posterior in posteriors]),
    )


def _condition(u: Tensor, odd: Tensor, r: Tensor, nugget: float) -> Posterior:
    """Return the posterior of one chunk of rows."""
    m, p = u.shape
    kernel, scale = odd_kernel(u, r)
    lower, nuggets = cholesky_with_nugget(kernel, nugget)
    cross, prior_variance = _shapley_covariance(u, r, scale, nuggets)
    white = _whiten(lower, u, odd, cross)

    # The trend by generalised least squares.
    gram = torch.linalg.cholesky_ex(white.trend.mT @ white.trend)[0]
    beta = torch.cholesky_solve(white.trend.mT @ white.odd, gram)
    residual = white.odd - white.trend @ beta

    phi = (2 * beta + white.cross.mT @ residual)[..., 0]

    # What the observations explain of the prior variance, and what the unknown trend adds.
    eye = torch.eye(p, dtype=u.dtype, device=u.device)
    unexplained = 2 * eye - white.trend.mT @ white.cross
    from_trend = torch.linalg.solve_triangular(gram, unexplained, upper=False).square().sum(1)
    variance = prior_variance - white.cross.square().sum(1) + from_trend

    # As the scale is unknown, phi has a Student posterior of m - p degrees of freedom, whose
    # variance has the divisor m - p - 2.
    size = residual.square().sum(1) / max(m - p - 2, 1)
    return Posterior(_efficient(phi, odd), variance.clamp_min(0), size)


def _shapley_covariance(
    u: Tensor, r: Tensor, scale: Tensor, nuggets: Tensor
) -> tuple[Tensor, Tensor]:
    """Return cov(phi, o) (r, p, m) and var(phi) (r, p) under the scaled kernel and its nugget."""
    cross, variance = shapley_of_kernel(u, r)
    white_cross, white_variance = shapley_of_white(u)
    return (
        cross / scale + nuggets * white_cross,
        variance / scale[:, 0] + nuggets[:, 0] * white_variance,
    )


class _Whitened(NamedTuple):
    """L^-1 times what the equations need, for K = L L'."""

    trend: Tensor  #: (r, m, p)
    odd: Tensor  #: (r, m, 1)
    cross: Tensor  #: (r, m, p)


def _whiten(lower: Tensor, u: Tensor, odd: Tensor, cross: Tensor) -> _Whitened:
    """Return L^-1 times the trend, the odd part and its covariance with phi."""
    m, p = u.shape
    columns = torch.cat([u.expand(len(odd), m, p), odd[..., None], cross.mT], 2)
    solved = torch.linalg.solve_triangular(lower, columns, upper=False)
    return _Whitened(*solved.split([p, 1, p], 2))


def _efficient(phi: Tensor, odd: Tensor) -> Tensor:
    """Return phi (r, p) with sum_i phi_i = 2 o(all), which holds but for rounding errors."""
    missing = 2 * odd[:, :1] - phi.sum(1, keepdim=True)
    return phi + missing / phi.shape[1]
