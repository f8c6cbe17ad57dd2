"""Kriging: Shapley values and standard errors of rows, by their own kernels or by shared ones."""

from torch import Tensor

from shearshap.methods.kriging.left_out import rough_variance
from shearshap.methods.kriging.odd_even import OddEven
from shearshap.methods.kriging.quiet import row_priors
from shearshap.methods.kriging.relevances import relevance_features
from shearshap.methods.kriging.row_answers import exactly_kriged
from shearshap.methods.kriging.shared import SharedKernels
from shearshap.result.calibration import Calibration


def krige(
    parts: OddEven, calibration: Calibration, shared: SharedKernels | None
) -> tuple[Tensor, Tensor]:
    """Return the Shapley values and their standard errors, (r, k, p).

    Without shared kernels, each row's own equations are solved. Standard errors have the
    `degrees_of_freedom`. Where a game jumps, they count what the process does not expect:

        error^2 = (inflation deviation)^2 + rough variance.
    """
    unit, size = parts.normalised()
    if shared is None:
        prior = row_priors(unit, relevance_features(unit), calibration)
        answers = exactly_kriged(unit.signs, unit.odd_by_row, prior, calibration.nugget)
    else:
        answers = shared.kriged(unit)

    smooth = calibration.inflation**2 * answers.scale * answers.variance
    rough = rough_variance(unit, answers.without)
    size = size.unflatten(0, (-1, parts.outputs))
    return size * answers.mean, size * (smooth + rough).sqrt()


def degrees_of_freedom(pairs: int, players: int) -> float:
    """Return the degrees of freedom of the standard errors, m - p.

    The pairs include that of the full and the empty coalition.
    """
    return pairs - players
