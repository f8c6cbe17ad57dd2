"""Kriging from few evaluations: fewer than one complement pair for each player.

Then linear coefficients cannot be told apart without a prior. So they have a Gaussian one, and the
process covers the odd and the even part together, since coalitions come without their complements.
For the signs u of two coalitions, all at unit scale,

    cov(v, v') = linear sum_j w_j u_j u'_j + k_odd + even (k_even + 5) + nugget [u = u'].

The weights w_j, which add up to 1, follow how far a player's inputs are from the background's:
w_j ~ d_j^(2 exponent). So do relevances. The five numbers are those that make some of a row's own
values most likely, with a prior around what is usual. Players that add nothing wherever one of them
joins are quiet: they have smaller weights, if that makes the values more likely. Shapley values
depend on the odd part alone.

All rows are fitted side by side, each by its own values: a batch costs little more than a row.
"""

import math
from dataclasses import dataclass, replace

import torch
from torch import Tensor

from shearshap.methods.kriging.joins import Joins
from shearshap.methods.kriging.kernels import chunk_entries, shapley_covariances, shapley_of_white
from shearshap.methods.kriging.minimising import minimise_each
from shearshap.methods.kriging.odd_even import evenly_spaced
from shearshap.methods.kriging.posterior import efficient

MIN_ROWS_AT_ONCE = 8  #: that are fitted side by side
STEPS = 8  #: of the fit
MAX_FITTED = 80  #: coalitions that a fit sees: five numbers need no more
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
    """The values of rows at a few coalitions, of players that may matter."""

    signs: Tensor  #: (m, p), the empty and the full coalition first
    values: Tensor  #: (r, k, m), less the mean of these two
    log_distance: Tensor  #: (r, p), of the players' inputs from the background's; 0: not known
    log_factor: Tensor  #: (r, p), of the players' weights

    @classmethod
    def of(cls, signs: Tensor, values: Tensor, distance: Tensor) -> "FewValues":
        """Return the values (r, k, m) centred, for players at distances (r, p)."""
        centred = values - values[..., :2].mean(-1, keepdim=True)
        relative = distance / distance.mean(1, keepdim=True)
        log_distance = relative.clamp_min(LEAST_DISTANCE).log()
        return cls(signs, centred, log_distance, torch.zeros_like(log_distance))

    def take(self, rows: slice) -> "FewValues":
        """Return the values of some rows."""
        own = (self.values[rows], self.log_distance[rows], self.log_factor[rows])
        return FewValues(self.signs, *own)

    def thinned(self, count: int) -> "FewValues":
        """Return the values at the two ends, and at some of the other coalitions."""
        others = 2 + evenly_spaced(len(self.signs) - 2, count - 2)
        places = torch.cat((torch.arange(2), others)).to(self.signs.device)
        return replace(self, signs=self.signs[places], values=self.values[..., places])


def krige_few(few: FewValues) -> Tensor:
    """Return the Shapley values, (r, k, p)."""
    at_once = max(MIN_ROWS_AT_ONCE, chunk_entries(few.signs) // len(few.signs) ** 2)
    starts = range(0, len(few.values), at_once)
    return torch.cat([_kriged(few.take(slice(start, start + at_once))) for start in starts])


def _kriged(few: FewValues) -> Tensor:
    """Return the Shapley values, (r, k, p), of rows side by side."""
    size = few.values.abs().amax(-1, keepdim=True)
    size = size.clamp_min(torch.finfo(size.dtype).tiny)
    unit = replace(few, values=few.values / size)
    unit = replace(unit, log_factor=likeliest_factors(unit))

    process = Process.of(fitted(unit.thinned(MAX_FITTED)), unit)
    return size * process.shapley_values(unit)


def likeliest_factors(few: FewValues) -> Tensor:
    """Return the logs of the factors of quiet players' weights, (r, p), 0 for other players.

    Of a few factors it is the one that makes a row's values most likely under the usual process.
    """
    rows, outputs, _ = few.values.shape
    adds_nothing = Joins.of(few.signs).quiet_players(few.values.flatten(0, 1))
    quiet: Tensor = adds_nothing.unflatten(0, (rows, outputs)).all(1).to(few.values.dtype)
    if not quiet.any():
        return few.log_factor

    some = few.thinned(MAX_FITTED)
    usual = usual_process(few).expand(rows, -1)
    losses = []
    for factor in QUIET_WEIGHTS:
        choice = replace(some, log_factor=factor * quiet)
        losses.append(Process.of(usual, choice).minus_log_likelihood(choice))
    best = quiet.new_tensor(QUIET_WEIGHTS)[torch.stack(losses).argmin(0), None]
    return best * quiet


def usual_process(few: FewValues) -> Tensor:
    """Return the numbers of the usual process for so many players, (5,)."""
    players = few.signs.shape[1]
    relevance = min(3 / players, 0.4) / LARGEST_RELEVANCE
    return few.signs.new_tensor(
        [
            math.log(USUAL_LINEAR),
            math.log(relevance / (1 - relevance)),
            math.log(USUAL_NUGGET),
            0.0,
            USUAL_EXPONENT,
        ]
    )


def fitted(few: FewValues) -> Tensor:
    """Return the numbers, (r, 5), of the processes under which rows' values are most likely."""
    usual = usual_process(few)
    deviations = few.signs.new_tensor(DEVIATIONS)

    def losses(x: Tensor) -> tuple[Tensor, Tensor]:
        with torch.enable_grad():
            point = x.detach().clone().requires_grad_()
            process = Process.of(usual + deviations * point, few)
            values = process.minus_log_likelihood(few) + 0.5 * point.square().sum(1)
            (slopes,) = torch.autograd.grad(values.sum(), point)
        return values.detach(), slopes

    start = usual.new_zeros(len(few.values), len(usual))
    return usual + deviations * minimise_each(losses, start, STEPS)


@dataclass(frozen=True)
class Process:
    """The numbers of each row's process."""

    linear: Tensor  #: (r, p), variances of the linear coefficients
    relevance: Tensor  #: (r, p)
    nugget: Tensor  #: (r, 1, 1)
    even: Tensor  #: (r, 1, 1)

    @classmethod
    def of(cls, x: Tensor, few: FewValues) -> "Process":
        """Return the processes of vectors (r, 5) for the players of some values."""
        log_linear, level, log_nugget, log_even, exponent = x[..., None].unbind(1)
        log_weight = 2 * exponent * few.log_distance + few.log_factor
        logit = level + HEREDITY * (log_weight - log_weight.mean(1, keepdim=True))
        return cls(
            linear=log_linear.exp() * torch.softmax(log_weight, 1),
            relevance=LARGEST_RELEVANCE * torch.sigmoid(logit.clamp(-9, 4)),
            nugget=log_nugget.exp().clamp(1e-8, 1e3)[..., None],
            even=log_even.exp()[..., None],
        )

    def covariance(self, u: Tensor) -> Tensor:
        """Return the covariances of values at coalitions of signs u (m, p), (r, m, m).

        With s = sum_j atanh(r_j) u_j u'_j and A = prod_j sqrt(1 - r_j^2), as in `kernels`,

            k_odd = A sinh(s) - sum_j r_j u_j u'_j   and   k_even = A cosh(s) - 1,

        each divided by what it is at u = u'.
        """
        r = self.relevance
        a = self._a
        odd = self._odd_scale
        even = a * torch.atanh(r).sum(1)[:, None, None].cosh() - 1

        of_linear = _weighted_products(u, self.linear - (r / odd[:, 0]))
        exponential = _weighted_products(u, torch.atanh(r)).exp()
        above = a / 2 * (self.even / even + 1 / odd)
        below = a / 2 * (self.even / even - 1 / odd)
        constant = self.even * (CONSTANT - 1 / even)
        covariance = of_linear + above * exponential + below / exponential + constant
        eye = torch.eye(len(u), dtype=u.dtype, device=u.device)
        return covariance + (self.nugget + JITTER) * eye

    @property
    def _a(self) -> Tensor:
        """A, (r, 1, 1)."""
        return (0.5 * torch.log1p(-self.relevance.square()).sum(1)).exp()[:, None, None]

    @property
    def _odd_scale(self) -> Tensor:
        """What k_odd is at u = u', (r, 1, 1)."""
        r = self.relevance
        return self._a * torch.atanh(r).sum(1)[:, None, None].sinh() - r.sum(1)[:, None, None]

    def minus_log_likelihood(self, few: FewValues) -> Tensor:
        """Return that of the values of each row, (r,), each output with a scale of its own."""
        lower = torch.linalg.cholesky_ex(self.covariance(few.signs))[0]
        white = torch.linalg.solve_triangular(lower, few.values.mT, upper=False)
        squares = white.square().sum(1).clamp_min(torch.finfo(white.dtype).tiny)
        # Many outputs count as one: they are not independent.
        log_squares: Tensor = squares.log().mean(1)
        log_determinant: Tensor = lower.diagonal(dim1=1, dim2=2).log().sum(1)
        return log_determinant + len(few.signs) * log_squares / 2

    def shapley_values(self, few: FewValues) -> Tensor:
        """Return the posterior means, (r, k, p)."""
        u = few.signs
        of_white, _ = shapley_of_white(u)
        cross = shapley_covariances(u, self.relevance) / self._odd_scale
        cross = cross + 2 * self.linear[..., None] * u.mT
        # The odd part of a white game has half of its variance.
        cross = cross + self.nugget * of_white / 2

        lower = torch.linalg.cholesky_ex(self.covariance(u))[0]
        solved = torch.cholesky_solve(few.values.mT, lower)
        # Half the difference of the full and the empty coalition is the odd part at the full one.
        full = (few.values[..., 1:2] - few.values[..., :1]) / 2
        return efficient((cross @ solved).mT, full)


def _weighted_products(u: Tensor, weights: Tensor) -> Tensor:
    """Return sum_j w_j u_j u'_j of signs u (m, p) and weights (r, p), (r, m, m)."""
    return (u * weights[:, None]) @ u.mT
