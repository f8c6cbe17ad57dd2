"""A Gaussian process over coalitions, and the Shapley values it expects.

With u = 2z - 1 a game is v = sum_T c_T prod_{j in T} u_j, and its Shapley values are

    phi_i = 2 * sum over odd T containing i of c_T / |T|.

So they depend on the odd part o(S) = (v(S) - v(S^c)) / 2 alone. The linear coefficients of o have a
flat prior, which makes games of order <= 2 exact. The others have the prior

    c_T ~ N(0, scale * (prod_{j in T} r_j / k(u, u) + nugget / 2^(p-1))),

and o may have a component that depends on the coalition's size alone. The relevances r_j of a row
follow from its own values by a rule of a few numbers, the calibration, which restricted likelihood
fits. Rows share kernels: that of a row near them, a centre, is factorised once, and a few steps of
conjugate gradients lead to the answer of the row's own kernel.

    pairs        complement pairs: which to ask for, and a game's odd and even parts at them
    kernel       the prior covariance of both parts, and of the Shapley values
    posterior    one factorisation: Shapley values, likelihood, and pairs left out
    calibration  from values to a row's prior, and from pilot rows to the rule for it
    shared       kernels that many rows share
    few          fewer evaluations than a pair for each player takes
    method       the method and its design

What each mechanism is worth is measured by `benchmarks/ablation.py`.

Letters: r rows, m complement pairs (the first is the full and the empty coalition), p players.

`Calibration` is in `shearshap.result.calibration`: reading that of a saved explanation needs no
torch.
"""

from shearshap.result.calibration import Calibration

__all__ = ["Calibration"]
