"""Kriging from few evaluations: fewer than one complement pair for each player.

Then linear coefficients cannot be told apart without a prior. So they have a Gaussian one, and the
process covers the odd and the even part together, since coalitions come without their complements.
For the signs u of two coalitions, all at unit scale,

    cov(v, v') = linear sum_j w_j u_j u'_j + k_odd + even (k_even + 5) + nugget [u = u'].

The weights w_j, which add up to 1, follow how far a player's inputs are from the background's:
w_j ~ d_j^(2 exponent). So do relevances. The five numbers are those that make a row's own values
most likely, with a prior around what is usual. Players that add nothing wherever one of them joins
are quiet: they have smaller weights, if that makes the values more likely. Shapley values depend on
the odd part alone.
"""

import math
from dataclasses import dataclass, replace

import torch
from torch import Tensor

from shearshap.methods.kriging.joins import Joins
from shearshap.methods.kriging.kernels import shapley_of_kernel, shapley_of_white
from shearshap.methods.kriging.minimising import minimise
from shearshap.methods.kriging.posterior import efficient

STEPS = 12  #: of the fit
CONSTANT = 5.0  #: variance of the constant, relative to the even part's
LARGEST_RELEVANCE = 0.95
HEREDITY = 0.5  #: how a relevance's logit follows the log of its player's weight
JITTER = 1e-9
LEAST_DISTANCE = 1e-3  #: of a player, relative to the mean
QUIET_WEIGHTS = (0.0, -5.0, -12.0)  #: logs of what quiet players' weights are multiplied by

# The usual process, and the deviations of: log linear, logit of the relevances, log nugget, log
# even, exponent
USUAL_LINEAR = 3.0
USUAL_NUGGET = 0.003
USUAL_EXPONENT = 0.5
DEVIATIONS = (1.5, 1.0, 2.0, 1.5, 0.3)


@dataclass(frozen=True)
class FewValues:
    """The values of one row at a few coalitions, of players that may matter."""

    signs: Tensor  #: (m, p), the empty and the full coalition first
    values: Tensor  #: (k, m), less the mean of these two
    log_distance: Tensor  #: (p,), of the players' inputs from the background's; 0: not known
    log_factor: Tensor  #: (p,), of the players' weights

    @classmethod
    def of(cls, signs: Tensor, values: Tensor, distance: Tensor) -> "FewValues":
        """Return the values (k, m) centred, for players at distances (p,)."""
        centred = values - values[:, :2].mean(1, keepdim=True)
        log_distance = (distance / distance.mean()).clamp_min(LEAST_DISTANCE).log()
        return cls(signs, centred, log_distance, torch.zeros_like(log_distance))


def krige_few(few: FewValues) -> Tensor:
    """Return the Shapley values, (k, p)."""
    size = few.values.abs().amax(1, keepdim=True)
    size = size.clamp_min(torch.finfo(size.dtype).tiny)
    unit = replace(few, values=few.values / size)

    quiet = Joins.of(few.signs).quiet_players(few.values).all(0).to(few.values.dtype)
    factors = QUIET_WEIGHTS if quiet.any() else QUIET_WEIGHTS[:1]
    choices = [fitted(replace(unit, log_factor=factor * quiet)) for factor in factors]
    _, process = min(choices, key=lambda choice: choice[0])
    return size * process.shapley_values(unit)


def fitted(few: FewValues) -> tuple[float, "Process"]:
    """Return the process under which a row's values are most likely, and minus the log of that."""
    players = few.signs.shape[1]
    relevance = min(3 / players, 0.4) / LARGEST_RELEVANCE
    usual = few.signs.new_tensor(
        [
            math.log(USUAL_LINEAR),
            math.log(relevance / (1 - relevance)),
            math.log(USUAL_NUGGET),
            0.0,
            USUAL_EXPONENT,
        ]
    )
    deviations = few.signs.new_tensor(DEVIATIONS)

    def loss(x: Tensor) -> tuple[float, Tensor]:
        with torch.enable_grad():
            point = x.detach().clone().requires_grad_()
            process = Process.of(usual + deviations * point, few)
            value = process.minus_log_likelihood(few) + 0.5 * point.square().sum()
            (slope,) = torch.autograd.grad(value, point)
        return float(value.detach()), slope

    best = minimise(loss, torch.zeros_like(usual), STEPS)
    process = Process.of(usual + deviations * best, few)
    return float(process.minus_log_likelihood(few)), process


@dataclass(frozen=True)
class Process:
    """The numbers of the process."""

    linear: Tensor  #: (p,), variances of the linear coefficients
    relevance: Tensor  #: (p,)
    nugget: Tensor  #: ()
    even: Tensor  #: ()

    @classmethod
    def of(cls, x: Tensor, few: FewValues) -> "Process":
        """Return the process of a vector (5,) for the players of some values."""
        log_linear, level, log_nugget, log_even, exponent = x.unbind()
        log_weight = 2 * exponent * few.log_distance + few.log_factor
        logit = level + HEREDITY * (log_weight - log_weight.mean())
        return cls(
            linear=log_linear.exp() * torch.softmax(log_weight, 0),
            relevance=LARGEST_RELEVANCE * torch.sigmoid(logit.clamp(-9, 4)),
            nugget=log_nugget.exp().clamp(1e-8, 1e3),
            even=log_even.exp(),
        )

    def covariance(self, u: Tensor) -> Tensor:
        """Return the covariances of values at coalitions of signs u (m, p), (m, m)."""
        r = self.relevance
        log_product = 0.5 * torch.log1p(-r.square()).sum()
        exponent = (u * torch.atanh(r)) @ u.mT
        above = (log_product + exponent).exp()
        below = (log_product - exponent).exp()
        odd = (above - below) / 2 - (u * r) @ u.mT
        even = (above + below) / 2 - 1

        of_linear = (u * self.linear) @ u.mT
        of_even = self.even * (even / even[0, 0] + CONSTANT)
        white = (self.nugget + JITTER) * torch.eye(len(u), dtype=u.dtype, device=u.device)
        return of_linear + odd / odd[0, 0] + of_even + white

    def minus_log_likelihood(self, few: FewValues) -> Tensor:
        """Return that of the values, each output with a scale of its own."""
        lower = torch.linalg.cholesky_ex(self.covariance(few.signs))[0]
        white = torch.linalg.solve_triangular(lower, few.values.mT, upper=False)
        outputs, count = few.values.shape
        squares = white.square().sum(0).clamp_min(torch.finfo(white.dtype).tiny)
        # Many outputs count as one: they are not independent.
        log_squares: Tensor = squares.log().sum() / outputs
        log_determinant: Tensor = lower.diagonal().log().sum()
        return log_determinant + count * log_squares / 2

    def shapley_values(self, few: FewValues) -> Tensor:
        """Return the posterior means, (k, p)."""
        u = few.signs
        r = self.relevance
        of_kernel, _ = shapley_of_kernel(u, r[None])
        of_white, _ = shapley_of_white(u)
        product = (0.5 * torch.log1p(-r.square()).sum()).exp()
        odd_scale = product * torch.atanh(r).sum().sinh() - r.sum()
        # The odd part of a white game has half of its variance.
        cross = of_kernel[0] / odd_scale + self.nugget * of_white / 2
        cross = cross + 2 * self.linear[:, None] * u.mT

        lower = torch.linalg.cholesky_ex(self.covariance(u))[0]
        solved = torch.cholesky_solve(few.values.mT, lower)
        # Half the difference of the full and the empty coalition is the odd part at the full one.
        full = (few.values[:, 1:2] - few.values[:, :1]) / 2
        return efficient((cross @ solved).mT, full)
