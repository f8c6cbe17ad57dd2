"""From the values of pilot rows to a calibration: fit, centres, inflation."""

from dataclasses import replace
from typing import NamedTuple

from torch import Tensor

from shearshap.gaussian.calibration import Calibration
from shearshap.gaussian.effort import FEW_ROWS, PLAIN, effort, shares_kernels
from shearshap.gaussian.fitting import fit
from shearshap.gaussian.inflation import inflation
from shearshap.gaussian.likelihood import detrended
from shearshap.gaussian.odd_even import OddEven, evenly_spaced
from shearshap.gaussian.posterior import factorised
from shearshap.gaussian.relevances import mean_relevances, relevance_features, relevances_at
from shearshap.gaussian.shared import SharedKernels, central_rows

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
    calibration = fit(unit, features)
    relevance = relevances_at(features, calibration)

    if not shares_kernels(parts.rows, len(unit.signs)):
        return _with_own_kernels(unit, relevance, calibration)
    if effort(*unit.signs.shape) is PLAIN:
        return _with_one_kernel(unit, relevance, calibration)
    if parts.outputs > 1:
        # One exact solution serves all outputs. A refinement would be needed for each.
        return _with_own_kernels(unit, relevance, calibration)
    return _with_centres(unit, relevance, calibration)


def _with_own_kernels(parts: OddEven, relevance: Tensor, calibration: Calibration) -> Calibrated:
    """Return the calibration without centres: every row's equations are solved exactly."""
    factor = _own_inflation(parts, relevance, calibration.nugget)
    return Calibrated(replace(calibration, inflation=factor), None)


def _with_one_kernel(parts: OddEven, relevance: Tensor, calibration: Calibration) -> Calibrated:
    """Return the calibration whose only centre is the mean of all rows."""
    centre = mean_relevances(relevance)
    calibration = replace(calibration, centres=(tuple(centre.tolist()),))
    shared = SharedKernels.of(parts.signs, calibration)

    moved = parts.odd[_informative_games(parts, MOST_MOVED)]
    factor = inflation(shared.factors, moved[None])
    return Calibrated(replace(calibration, inflation=factor), shared)


def _with_centres(parts: OddEven, relevance: Tensor, calibration: Calibration) -> Calibrated:
    """Return the calibration whose centres are some of the rows."""
    central = central_rows(relevance, effort(*parts.signs.shape).centres)
    centres = tuple(tuple(row) for row in relevance[central].tolist())
    calibration = replace(calibration, centres=centres)
    shared = SharedKernels.of(parts.signs, calibration)

    factor = _own_inflation(parts, relevance, shared.nugget)
    return Calibrated(replace(calibration, inflation=factor), shared)


def _own_inflation(parts: OddEven, relevance: Tensor, nugget: float) -> float:
    """Return the inflation of rows that have kernels of their own."""
    affordable = int(MOVE_WORK / len(parts.signs) ** 3)
    games = _informative_games(parts, max(LEAST_MOVED, min(affordable, MOST_MOVED)))
    factors = factorised(parts.signs, relevance[games // parts.outputs], nugget)
    return inflation(factors, parts.odd[games][:, None])


def _informative_games(parts: OddEven, count: int) -> Tensor:
    """Return the numbers of some games, less those whose odd part is linear."""
    games = parts.spread_games(count)
    return games[detrended(parts.signs, parts.odd[games]).informative.cpu()]
