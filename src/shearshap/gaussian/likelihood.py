"""Restricted likelihood: how well a kernel explains what a trend leaves of the values.

For kernels K (r, m, m), a trend H (m, h) and values y (r, m), minus the log restricted likelihood
with the scale profiled out is, summed over rows,

    [log|K| + log|H' K^-1 H| + (m - h) log(y' P y)] / 2,
    P = K^-1 - K^-1 H (H' K^-1 H)^-1 H' K^-1,

and its derivative in K is [P - (m - h) P y y' P / (y' P y)] / 2.
"""

from typing import Any, NamedTuple

import torch
from torch import Tensor

from shearshap.gaussian.kernels import cholesky_with_nugget

SMALLEST_SQUARE = 1e-300  #: of y' P y, whose log is taken


class Detrended(NamedTuple):
    """What a trend leaves of the values of each row, at unit size."""

    trend: Tensor  #: (m, h)
    residuals: Tensor  #: (r, m)
    informative: Tensor  #: (r,) of bool: whether a row's residuals are more than rounding


def detrended(trend: Tensor, values: Tensor) -> Detrended:
    """Return the residuals of values (r, m) from their regression on the trend (m, h)."""
    residuals = values - values @ torch.linalg.pinv(trend).mT @ trend.mT
    size = residuals.square().mean(1).sqrt()
    informative = size > 1e-12 * values.square().mean(1).sqrt()
    unit = residuals / torch.where(informative, size, 1.0)[:, None]
    return Detrended(trend, unit, informative)


def minus_log_likelihood(kernel: Tensor, seen: Detrended) -> Tensor:
    """Return minus the log restricted likelihood of the informative rows, differentiable in K."""
    value: Tensor = RestrictedLikelihood.apply(  # type: ignore[no-untyped-call]
        kernel, seen.trend, seen.residuals, seen.informative
    )
    return value


class RestrictedLikelihood(torch.autograd.Function):
    """Minus the log restricted likelihood, with its derivative written out.

    One inverse gives both, in a third of the time that differentiating through the Cholesky factor
    takes.
    """

    @staticmethod
    def forward(ctx: Any, kernel: Tensor, trend: Tensor, y: Tensor, informative: Tensor) -> Tensor:
        """Return the value, and keep the derivative for `backward`."""
        projection, log_determinants = _projection(kernel, trend)
        solved = projection @ y[..., None]
        square = (y[..., None] * solved).sum((1, 2)).clamp_min(SMALLEST_SQUARE)

        freedom = trend.shape[0] - trend.shape[1]
        outer = freedom * solved @ solved.mT / square[:, None, None]
        slope = (projection - outer) / 2
        ctx.save_for_backward(informative[:, None, None] * slope)

        by_row = log_determinants + freedom * square.log()
        return torch.where(informative, by_row, 0.0).sum() / 2

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor, None, None, None]:
        """Return the derivative in K alone."""
        (slope,) = ctx.saved_tensors
        return grads[0] * slope, None, None, None


def _projection(kernel: Tensor, trend: Tensor) -> tuple[Tensor, Tensor]:
    """Return P (r, m, m) and log|K| + log|H' K^-1 H| (r,)."""
    lower, _ = cholesky_with_nugget(kernel, 0.0)
    precision = torch.cholesky_inverse(lower)
    weighted = precision @ trend
    gram = torch.linalg.cholesky_ex(trend.mT @ weighted)[0]
    projection = precision - weighted @ torch.cholesky_solve(weighted.mT, gram)
    return projection, 2 * log_diagonal(lower) + 2 * log_diagonal(gram)


def log_diagonal(triangle: Tensor) -> Tensor:
    """Return the sum of the logs of the diagonals of triangular matrices (r, m, m), (r,)."""
    return triangle.diagonal(dim1=1, dim2=2).log().sum(1)
