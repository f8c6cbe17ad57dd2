"""The calibration that makes the values of a few rows most likely, shrunk to the defaults."""

import math
from dataclasses import dataclass

import torch
from torch import Tensor

from shearshap.methods.kriging.kernels import NUGGET_FLOOR
from shearshap.methods.kriging.likelihood import Detrended, detrended, minus_log_likelihood
from shearshap.methods.kriging.minimising import minimise
from shearshap.methods.kriging.odd_even import OddEven, thinned_pairs
from shearshap.methods.kriging.relevances import relevances_of_features, slopes_of_relevances
from shearshap.result.calibration import Calibration

# What the likelihood sees. More rows, pairs or steps changed errors by less than 1 %.
FIT_ROWS = 32
FEWEST_PAIRS = 64
MOST_PAIRS = 96
PART_OF_PAIRS = 0.6  #: between these
FREEDOM = 48  #: pairs beyond those that the linear part takes
FIT_STEPS = 5
FIT_WORK = 2 * 10**7  #: rows times cubed pairs that computing the likelihood once may cost

# The even part says less about the odd one than the odd part itself. So it counts for a tenth, and
# every fourth row is enough.
EVEN_WEIGHT = 0.1
EVEN_EVERY = 4

NUGGET_CEILING = 1e3  #: beyond, all that is not linear is white anyway


def fit(parts: OddEven, features: Tensor) -> Calibration:
    """Return the calibration of the largest penalised likelihood.

    The likelihood is that of the odd and even parts of a few rows at a few pairs, where each row
    has scales of its own. The penalty is a Gaussian prior around the default calibration. The
    features are those of the relevances, (r, p, 4).
    """
    players = parts.signs.shape[1]
    centre = Parameters.prior_centre(players, parts.signs).to_vector()
    deviations = Parameters.prior_deviations(players, parts.signs).to_vector()
    sample = FitSample.of(parts, features)

    def loss(x: Tensor) -> tuple[float, Tensor]:
        value, slope = sample.minus_log_likelihood(centre + deviations * x)
        penalty = 0.5 * x.square().sum()
        return float(value + penalty), deviations * slope + x

    best = minimise(loss, torch.zeros_like(centre), FIT_STEPS)
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
    def nugget(self) -> float:
        """The nugget within its bounds."""
        return math.exp(min(self.log_nugget.item(), math.log(NUGGET_CEILING))) + NUGGET_FLOOR


@dataclass(frozen=True)
class FitSample:
    """The rows and pairs that the likelihood sees."""

    signs: Tensor  #: (m, p)
    features: Tensor  #: (r, p, 4) of the relevances, computed from all pairs
    odd: Detrended  #: without its linear trend
    even: Detrended  #: of every few rows, without its mean

    @classmethod
    def of(cls, parts: OddEven, features: Tensor) -> "FitSample":
        """Return a sample of rows and pairs, evenly spaced."""
        players = parts.signs.shape[1]
        part = int(PART_OF_PAIRS * len(parts.signs))
        few = min(max(part, FEWEST_PAIRS), MOST_PAIRS)
        pairs = thinned_pairs(parts.signs, max(few, players + 1 + FREEDOM))
        affordable = max(2, min(FIT_ROWS, FIT_WORK // len(pairs) ** 3))
        games = parts.spread_games(affordable)

        seen = parts.take(games, pairs)
        return cls(
            signs=seen.signs,
            features=features[games // parts.outputs],
            odd=detrended(seen.signs, seen.odd),
            even=detrended(torch.ones_like(seen.signs[:, :1]), seen.even[::EVEN_EVERY]),
        )

    def minus_log_likelihood(self, vector: Tensor) -> tuple[Tensor, Tensor]:
        """Return minus the log likelihood of both parts, weighted, and its slope (5 + p,)."""
        parameters = Parameters.from_vector(vector)
        nugget = parameters.nugget
        relevance = relevances_of_features(
            self.features, parameters.coefficients, parameters.players
        )
        odd = minus_log_likelihood("odd", self.signs, relevance, nugget, self.odd)
        some = slice(None, None, EVEN_EVERY)
        even = minus_log_likelihood("even", self.signs, relevance[some], nugget, self.even)

        weight = EVEN_WEIGHT * EVEN_EVERY
        in_relevances = odd.in_relevances
        in_relevances[some] += weight * even.in_relevances
        in_logits = in_relevances * slopes_of_relevances(relevance)

        in_coefficients = torch.einsum("rp,rpf->f", in_logits, self.features)
        in_log_nugget = nugget * (odd.in_nugget + weight * even.in_nugget)
        slope = torch.cat([in_coefficients, in_log_nugget[None], in_logits.sum(0)])
        return odd.value + weight * even.value, slope
