"""From the values of pilot rows to a calibration: fit, centres, inflation."""

from dataclasses import replace
from typing import NamedTuple

from shearshap.methods.kriging.effort import FEW_ROWS, PLAIN, effort, shares_kernels
from shearshap.methods.kriging.fitting import fit
from shearshap.methods.kriging.inflation import inflation
from shearshap.methods.kriging.likelihood import informative_games
from shearshap.methods.kriging.odd_even import OddEven, evenly_spaced
from shearshap.methods.kriging.posterior import factorised
from shearshap.methods.kriging.quiet import Likelihood, Prior, row_priors
from shearshap.methods.kriging.relevances import mean_relevances, relevance_features
from shearshap.methods.kriging.shared import SharedKernels, central_rows
from shearshap.result.calibration import Calibration

MOST_PILOTS = 256  #: rows that a calibration is fitted to

# Rows whose moves give the inflation
MOST_MOVED = 32
LEAST_MOVED = 8
MOVE_WORK = 1e9  #: rows times cubed pairs that they may cost, but for the least


class Calibrated(NamedTuple):
    """A calibration, and the kernels that rows share under it, if any."""

    calibration: Calibration
    shared: SharedKernels | None


def calibrate(parts: OddEven) -> Calibrated:
    """Return the calibration fitted to these rows."""
    most = max(FEW_ROWS, MOST_PILOTS // parts.outputs)
    pilots = parts.take_rows(evenly_spaced(parts.rows, most))
    unit, _ = pilots.normalised()
    features = relevance_features(unit)
    likelihood = Likelihood.of(unit, features)
    calibration = likelihood.with_best_nugget(fit(unit, features))

    shares = shares_kernels(parts.rows, len(unit.signs))
    if shares and effort(*unit.signs.shape) is PLAIN:
        return _with_one_kernel(unit, row_priors(unit, features, calibration), calibration)

    calibration = likelihood.with_best_quiet(calibration)
    prior = row_priors(unit, features, calibration)
    if shares and parts.outputs == 1:
        return _with_centres(unit, prior, calibration)
    # One exact solution serves all outputs of a row. A refinement would be needed for each.
    return _with_own_kernels(unit, prior, calibration)


def _with_own_kernels(parts: OddEven, prior: Prior, calibration: Calibration) -> Calibrated:
    """Return the calibration without centres: every row's equations are solved exactly."""
    factor = _own_inflation(parts, prior, calibration.nugget)
    return Calibrated(replace(calibration, inflation=factor), None)


def _with_one_kernel(parts: OddEven, prior: Prior, calibration: Calibration) -> Calibrated:
    """Return the calibration whose only centre is the mean of all rows."""
    centre = mean_relevances(prior.relevance)
    calibration = replace(calibration, centres=(tuple(centre.tolist()),))
    shared = SharedKernels.of(parts.signs, calibration)

    moved = parts.odd[informative_games(parts, MOST_MOVED)]
    factor = inflation(shared.factors, moved[None])
    return Calibrated(replace(calibration, inflation=factor), shared)


def _with_centres(parts: OddEven, prior: Prior, calibration: Calibration) -> Calibrated:
    """Return the calibration whose centres are some of the rows."""
    central = central_rows(prior.relevance, effort(*parts.signs.shape).centres)
    centres = tuple(tuple(row) for row in prior.relevance[central].tolist())
    calibration = replace(calibration, centres=centres)
    shared = SharedKernels.of(parts.signs, calibration)

    factor = _own_inflation(parts, prior, shared.nugget)
    return Calibrated(replace(calibration, inflation=factor), shared)


def _own_inflation(parts: OddEven, prior: Prior, nugget: float) -> float:
    """Return the inflation of rows that have kernels of their own."""
    affordable = int(MOVE_WORK / len(parts.signs) ** 3)
    games = informative_games(parts, max(LEAST_MOVED, min(affordable, MOST_MOVED)))
    rows = games // parts.outputs
    factors = factorised(parts.signs, prior.relevance[rows], nugget, prior.precision[rows])
    return inflation(factors, parts.odd[games][:, None])
