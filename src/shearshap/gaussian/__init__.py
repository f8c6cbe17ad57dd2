"""A Gaussian process over coalitions, and the Shapley values it expects.

With u = 2z - 1 a game is v = sum_T c_T prod_{j in T} u_j, and its Shapley values are

    phi_i = 2 * sum over odd T containing i of c_T / |T|.

So they depend on the odd part o(S) = (v(S) - v(S^c)) / 2 alone. The linear coefficients of o have a
flat prior, which makes games of order <= 2 exact. The others have the prior

    c_T ~ N(0, scale * (prod_{j in T} r_j / k(u, u) + nugget / 2^(p-1))).

The relevances r_j of a row follow from its own values by a rule of a few numbers, the calibration,
which restricted likelihood fits.

    odd_even     complement pairs as signs, and a game's odd and even parts at them
    calibration  the few numbers of the rule, and how to store them
    relevances   the rule
    kernels      the prior covariance of both parts, and of the Shapley values
    posterior    the Shapley values given the odd part at some pairs
    likelihood   restricted likelihood and its derivative
    fitting      the calibration of the largest likelihood
    inflation    whether its standard errors are too small

Letters: r rows, m complement pairs (the first is the full and the empty coalition), p players.
"""

from shearshap.gaussian.calibration import (
    Calibration,
    StagedCalibration,
    calibration_from_dict,
)
from shearshap.gaussian.fitting import calibrate
from shearshap.gaussian.odd_even import OddEven
from shearshap.gaussian.posterior import degrees_of_freedom, krige

__all__ = [
    "Calibration",
    "OddEven",
    "StagedCalibration",
    "calibrate",
    "calibration_from_dict",
    "degrees_of_freedom",
    "krige",
]
