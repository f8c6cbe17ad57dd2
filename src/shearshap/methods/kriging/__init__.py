"""A Gaussian process over coalitions, and the Shapley values it expects.

With u = 2z - 1 a game is v = sum_T c_T prod_{j in T} u_j, and its Shapley values are

    phi_i = 2 * sum over odd T containing i of c_T / |T|.

So they depend on the odd part o(S) = (v(S) - v(S^c)) / 2 alone. The linear coefficients of o have a
flat prior, which makes games of order <= 2 exact. The others have the prior

    c_T ~ N(0, scale * (prod_{j in T} r_j / k(u, u) + nugget / 2^(p-1))).

The relevances r_j of a row follow from its own values by a rule of a few numbers, the calibration,
which restricted likelihood fits. Rows share kernels: that of a row near them, a centre, is
factorised once, and a few steps of conjugate gradients lead to the answer of the row's own kernel.

The prior, and what follows from values:

    odd_even     complement pairs as signs, and a game's odd and even parts at them
    calibration  the few numbers of the rule, and how to store them
    relevances   the rule
    kernels      the prior covariance of both parts, and of the Shapley values
    posterior    the Shapley values given the odd part at some pairs

From pilot rows to a calibration:

    calibrating  all of it: fit, centres, inflation
    fitting      the calibration of the largest likelihood
    likelihood   restricted likelihood and its derivative
    minimising   the optimiser
    inflation    whether standard errors are too small

From rows to Shapley values:

    krige        all of it, by rows' own kernels or by shared ones
    effort       which of them, and how much work a row is worth
    shared       the kernels at the centres, and which rows use which
    products     the products of players that make most of a row's kernel
    refinement   from a centre's answer to that of a row's own kernel
    variances    a rule for the variances of such rows

Letters: r rows, m complement pairs (the first is the full and the empty coalition), p players.

Calibrations are in `shearshap.result.calibration`: reading those of a saved explanation needs no
torch.
"""

from shearshap.result.calibration import (
    AnyCalibration,
    Calibration,
    CalibrationByPlayers,
    StagedCalibration,
    calibration_from_dict,
)

__all__ = [
    "AnyCalibration",
    "Calibration",
    "CalibrationByPlayers",
    "StagedCalibration",
    "calibration_from_dict",
]
