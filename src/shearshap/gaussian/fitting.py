"""The calibration that makes the values of a few rows most likely, shrunk to the defaults."""

import math
from collections.abc import Callable
from dataclasses import dataclass, replace

import torch
from torch import Tensor

from shearshap.gaussian.calibration import Calibration
from shearshap.gaussian.inflation import inflation
from shearshap.gaussian.kernels import NUGGET_FLOOR, odd_even_kernels
from shearshap.gaussian.likelihood import Detrended, detrended, minus_log_likelihood
from shearshap.gaussian.odd_even import OddEven, evenly_spaced, thinned_pairs
from shearshap.gaussian.relevances import relevance_features, relevances_of_features

# What the likelihood sees. More rows, pairs or steps changed errors by less than 1 %.
FIT_ROWS = 32
FIT_PAIRS = 96
FIT_STEPS = 15
FIT_WORK = 10**8  #: rows times cubed pairs that computing the likelihood once may cost
NUGGET_CEILING = 1e3  #: beyond, all that is not linear is white anyway


def calibrate(parts: OddEven) -> Calibration:
    """Return the calibration fitted to these rows: by likelihood, then its inflation."""
    unit, _ = parts.normalised()
    fitted = fit(unit)
    return replace(fitted, inflation=inflation(unit, fitted))


def fit(parts: OddEven) -> Calibration:
    """Return the calibration of the largest penalised likelihood.

    The likelihood is that of the odd and even parts of a few rows at a few pairs, where each row
    has scales of its own. The penalty is a Gaussian prior around the default calibration.
    """
    players = parts.signs.shape[1]
    centre = Parameters.prior_centre(players, parts.signs).to_vector()
    deviations = Parameters.prior_deviations(players, parts.signs).to_vector()
    sample = FitSample.of(parts)

    def loss(x: Tensor) -> Tensor:
        penalty = 0.5 * x.square().sum()
        odd, even = sample.minus_log_likelihoods(Parameters.from_vector(centre + deviations * x))
        return penalty + odd + even

    best = minimise(loss, torch.zeros_like(centre))
    return Parameters.from_vector(centre + deviations * best).to_calibration()


@dataclass(frozen=True)
class Parameters:
    """The numbers of a calibration that are fitted together.

    As one vector (5 + p,), for the optimiser:

        level | linear | pairwise | ratio | log nugget | player 0 | ... | player p - 1
    """

    level: Tensor  #: ()
    linear: Tensor  #: ()
    pairwise: Tensor  #: ()
    ratio: Tensor  #: ()
    log_nugget: Tensor  #: ()
    players: Tensor  #: (p,)

    @classmethod
    def prior_centre(cls, players: int, like: Tensor) -> "Parameters":
        """Return the default calibration's numbers."""
        default = Calibration.default(players)
        return cls(
            level=like.new_tensor(default.level),
            linear=like.new_tensor(default.linear),
            pairwise=like.new_tensor(default.pairwise),
            ratio=like.new_tensor(default.ratio),
            log_nugget=like.new_tensor(math.log(default.nugget)),
            players=like.new_tensor(default.players),
        )

    @classmethod
    def prior_deviations(cls, players: int, like: Tensor) -> "Parameters":
        """Return the standard deviations of the prior around its centre."""
        return cls(
            level=like.new_tensor(1.5),
            linear=like.new_tensor(0.2),
            pairwise=like.new_tensor(0.3),
            ratio=like.new_tensor(0.3),
            log_nugget=like.new_tensor(4.0),
            players=like.new_full((players,), 0.3),
        )

    @classmethod
    def from_vector(cls, vector: Tensor) -> "Parameters":
        """Return the parameters by name."""
        level, linear, pairwise, ratio, log_nugget = vector[:5].unbind()
        return cls(level, linear, pairwise, ratio, log_nugget, vector[5:])

    def to_vector(self) -> Tensor:
        """Return the parameters as one vector (5 + p,)."""
        scalars = torch.stack([*self.coefficients.unbind(), self.log_nugget])
        return torch.cat([scalars, self.players])

    def to_calibration(self) -> Calibration:
        """Return the calibration with these numbers, its inflation not known yet."""
        log_nugget = min(self.log_nugget.item(), math.log(NUGGET_CEILING))
        return Calibration(
            level=self.level.item(),
            linear=self.linear.item(),
            pairwise=self.pairwise.item(),
            ratio=self.ratio.item(),
            nugget=math.exp(log_nugget),
            players=tuple(self.players.tolist()),
        )

    @property
    def coefficients(self) -> Tensor:
        """The coefficients of the relevances' features, (4,)."""
        return torch.stack([self.level, self.linear, self.pairwise, self.ratio])

    @property
    def nugget(self) -> Tensor:
        """The nugget, (), within its bounds."""
        return self.log_nugget.clamp_max(math.log(NUGGET_CEILING)).exp() + NUGGET_FLOOR


@dataclass(frozen=True)
class FitSample:
    """The rows and pairs that the likelihood sees."""

    signs: Tensor  #: (m, p)
    features: Tensor  #: (r, p, 4) of the relevances, computed from all pairs
    odd: Detrended  #: without its linear trend
    even: Detrended  #: without its mean

    @classmethod
    def of(cls, parts: OddEven) -> "FitSample":
        """Return a sample of rows and pairs, evenly spaced."""
        pairs = thinned_pairs(parts.signs, max(FIT_PAIRS, 2 * parts.signs.shape[1]))
        affordable = max(2, min(FIT_ROWS, FIT_WORK // len(pairs) ** 3))
        rows = evenly_spaced(len(parts.odd), affordable)

        seen = parts.take(rows, pairs)
        return cls(
            signs=seen.signs,
            features=relevance_features(parts.take(rows)),
            odd=detrended(seen.signs, seen.odd),
            even=detrended(torch.ones_like(seen.signs[:, :1]), seen.even),
        )

    def minus_log_likelihoods(self, parameters: Parameters) -> tuple[Tensor, Tensor]:
        """Return minus the log likelihoods of the odd and of the even parts."""
        u = self.signs
        relevance = relevances_of_features(
            self.features, parameters.coefficients, parameters.players
        )
        kernels = odd_even_kernels(u, relevance)
        white = parameters.nugget * torch.eye(len(u), dtype=u.dtype, device=u.device)
        return (
            minus_log_likelihood(kernels.odd + white, self.odd),
            minus_log_likelihood(kernels.even + white, self.even),
        )


def minimise(loss: Callable[[Tensor], Tensor], start: Tensor) -> Tensor:
    """Return the point of the smallest loss that L-BFGS computed.

    Its last point may be another one, where a line search goes astray.
    """
    x = start.clone().requires_grad_()
    optimiser = torch.optim.LBFGS(
        [x], max_iter=FIT_STEPS, tolerance_change=1e-4, line_search_fn="strong_wolfe"
    )
    least = math.inf
    best = start

    def closure() -> float:
        nonlocal least, best
        optimiser.zero_grad()
        total = loss(x)
        total.backward()

        value = float(total.detach())
        if value < least:
            least = value
            best = x.detach().clone()
        return value

    with torch.enable_grad():
        optimiser.step(closure)
    return best
