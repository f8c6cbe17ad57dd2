"""From the values of pilot rows to a calibration: fit, centres, inflation."""

from dataclasses import replace
from typing import NamedTuple

from torch import Tensor

from shearshap.gaussian.calibration import Calibration
from shearshap.gaussian.effort import PLAIN, effort, shares_kernels
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
    rows, pairs = parts.odd.shape
    pilots = parts.take(evenly_spaced(rows, MOST_PILOTS))
    unit, _ = pilots.normalised()
    features = relevance_features(unit)
    calibration = fit(unit, features)
    relevance = relevances_at(features, calibration)

    if not shares_kernels(rows, pairs):
        return _with_own_kernels(unit, relevance, calibration)
    if effort(*unit.signs.shape) is PLAIN:
        return _with_one_kernel(unit, relevance, calibration)
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

    moved = parts.odd[_informative_rows(parts, MOST_MOVED)]
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
    rows = _informative_rows(parts, max(LEAST_MOVED, min(affordable, MOST_MOVED)))
    factors = factorised(parts.signs, relevance[rows], nugget)
    return inflation(factors, parts.odd[rows][:, None])


def _informative_rows(parts: OddEven, count: int) -> Tensor:
    """Return the numbers of some rows, evenly spaced, less those whose odd part is linear."""
    rows = evenly_spaced(len(parts.odd), count)
    return rows[detrended(parts.signs, parts.odd[rows]).informative.cpu()]
