"""Kriging: Shapley values and standard errors of rows, by their own kernels or by shared ones."""

import math

from torch import Tensor

from shearshap.gaussian.calibration import Calibration
from shearshap.gaussian.odd_even import OddEven
from shearshap.gaussian.posterior import exact_posterior
from shearshap.gaussian.relevances import relevances
from shearshap.gaussian.shared import SharedKernels

FEW_DEGREES = 7  #: degrees of freedom below which Student's t makes the intervals


def krige(
    parts: OddEven, calibration: Calibration, shared: SharedKernels | None
) -> tuple[Tensor, Tensor]:
    """Return the Shapley values and their standard errors, (r, k, p).

    Without shared kernels, each row's own equations are solved. See `degrees_of_freedom` for those
    of the standard errors.
    """
    unit, size = parts.normalised()
    size = size.unflatten(0, (-1, parts.outputs))
    if shared is None:
        relevance = relevances(unit, calibration)
        posterior = exact_posterior(unit.signs, unit.odd_by_row, relevance, calibration.nugget)
    else:
        posterior = shared.posterior(unit)

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
