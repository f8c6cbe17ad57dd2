"""Restricted likelihood: how well a kernel explains what a trend leaves of the values.

For kernels K (r, m, m), a trend H (m, h) and values y (r, m), minus the log restricted likelihood
with the scale profiled out is, summed over rows,

    [log|K| + log|H' K^-1 H| + (m - h) log(y' P y)] / 2,
    P = K^-1 - K^-1 H (H' K^-1 H)^-1 H' K^-1,

and its derivative in K is [P - (m - h) P y y' P / (y' P y)] / 2.

From there to the relevances it goes on by the kernels' own derivatives (`KernelSlopes`). Written
out, both take a third of the time of differentiating through a Cholesky factor and a kernel.
"""

from typing import NamedTuple

import torch
from torch import Tensor

from shearshap.methods.kriging.kernels import KernelSlopes, Part, cholesky_with_nugget
from shearshap.methods.kriging.odd_even import OddEven

SMALLEST_SQUARE = 1e-300  #: of y' P y, whose log is taken


class Detrended(NamedTuple):
    """What a trend leaves of the values of each row, at unit size."""

    trend: Tensor  #: (m, h)
    residuals: Tensor  #: (r, m)
    informative: Tensor  #: (r,) of bool: whether a row's residuals are more than rounding


def detrended(trend: Tensor, values: Tensor) -> Detrended:
    """Return the residuals of values (r, m) from their regression on the trend (m, h)."""
    basis = torch.linalg.qr(trend)[0]
    residuals = values - values @ basis @ basis.mT
    size = residuals.square().mean(1).sqrt()
    informative = size > 1e-12 * values.square().mean(1).sqrt()
    unit = residuals / torch.where(informative, size, 1.0)[:, None]
    return Detrended(trend, unit, informative)


def informative_games(parts: OddEven, count: int) -> Tensor:
    """Return the numbers of at most `count` games, less those whose odd part is linear."""
    games = parts.spread_games(count)
    return games[detrended(parts.signs, parts.odd[games]).informative.cpu()]


class MinusLogLikelihood(NamedTuple):
    """Minus the log restricted likelihood of all rows, and its derivatives."""

    value: Tensor  #: ()
    in_relevances: Tensor  #: (r, p)
    in_nugget: Tensor  #: ()


def minus_log_likelihood(
    part: Part, u: Tensor, relevance: Tensor, nugget: float, seen: Detrended
) -> MinusLogLikelihood:
    """Return that of the odd or even part at pairs u (m, p), of the rows that are informative."""
    slopes = KernelSlopes.of(part, u, relevance)
    values, in_kernel = _values_and_slopes(slopes.kernel, nugget, seen)
    in_kernel.mul_(seen.informative[:, None, None])
    return MinusLogLikelihood(
        value=torch.where(seen.informative, values, 0.0).sum(),
        in_relevances=slopes.in_relevances(in_kernel),
        in_nugget=in_kernel.diagonal(dim1=1, dim2=2).sum(),
    )


def _values_and_slopes(kernel: Tensor, nugget: float, seen: Detrended) -> tuple[Tensor, Tensor]:
    """Return each row's minus log likelihood, (r,), and its derivative in K, (r, m, m)."""
    projection, log_determinants = _projection(kernel, nugget, seen.trend)
    y = seen.residuals[..., None]
    solved = projection @ y
    square = (y * solved).sum((1, 2)).clamp_min(SMALLEST_SQUARE)

    freedom = seen.trend.shape[0] - seen.trend.shape[1]
    values = (log_determinants + freedom * square.log()) / 2
    scaled = solved * (freedom / square)[:, None, None]
    return values, torch.baddbmm(projection, solved, scaled.mT, beta=0.5, alpha=-0.5)


def _projection(kernel: Tensor, nugget: float, trend: Tensor) -> tuple[Tensor, Tensor]:
    """Return P (r, m, m) and log|K| + log|H' K^-1 H| (r,)."""
    lower, _ = cholesky_with_nugget(kernel, nugget)
    precision = torch.cholesky_inverse(lower)
    weighted = precision @ trend
    gram = torch.linalg.cholesky_ex(trend.mT @ weighted)[0]
    white = torch.linalg.solve_triangular(gram, weighted.mT, upper=False)
    projection = precision.baddbmm_(white.mT, white, alpha=-1)
    return projection, 2 * log_diagonal(lower) + 2 * log_diagonal(gram)


def log_diagonal(triangle: Tensor) -> Tensor:
    """Return the sum of the logs of the diagonals of triangular matrices (r, m, m), (r,)."""
    return triangle.diagonal(dim1=1, dim2=2).log().sum(1)
