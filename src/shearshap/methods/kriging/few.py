"""Kriging from fewer evaluations than a complement pair for each player takes.

Coalitions are rows of a Hadamard matrix, which separate all players as well as so few can. From
about one evaluation per player on, the prefixes of a joining order come first: they show what every
player adds on joining once.

The process has both the odd and the even part, since coalitions come without their complements,
and a prior on the linear part too. For the signs u of two coalitions, all at unit scale,

    cov(v, v') = linear sum_j w_j u_j u'_j + k_odd + even (k_even + 5) + nugget [u = u'].

The weights w_j, which add up to 1, follow how far a player's inputs are from the background's:
w_j ~ d_j^(2 exponent). So do relevances. Players that add nothing wherever one of them joins are
quiet, and may have smaller weights. A row's own values choose these numbers, one after the other,
from a few values around what is usual. All rows are fitted side by side.
"""

import math
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import torch
from scipy.linalg import hadamard
from torch import Tensor

from shearshap.errors import warn
from shearshap.games.coalitions import Bools, with_ends
from shearshap.games.game import GameInfo
from shearshap.methods.base import Design, Estimate, Method, Promise, Screening, as_tensor
from shearshap.methods.kriging.calibration import quiet_players, relevances
from shearshap.methods.kriging.kernel import (
    Covariance,
    chunk_entries,
    odd_even_kernels,
    shapley_of_kernel,
    shapley_of_white,
)
from shearshap.methods.kriging.pairs import evenly_spaced, min_in_pairs, signs_of
from shearshap.methods.kriging.posterior import Factors, Process, efficient
from shearshap.methods.permutation import prefixes, random_orders
from shearshap.result.calibration import MAX_RELEVANCE

MAX_PLAYERS_PER_EVALUATION = 4
MIN_ROWS_AT_ONCE = 8  #: that are fitted side by side
MAX_FITTED = 80  #: coalitions that a fit sees: six numbers need no more
SWEEPS = 2  #: in which every number is chosen once
CONSTANT = 5.0  #: variance of the constant, relative to the even part's
HEREDITY = 0.5  #: how a relevance's logit follows the log of its player's weight
JITTER = 1e-9
MIN_DISTANCE = 1e-3  #: of a player, relative to the mean

# The usual process, and the standard deviations around it: of log linear, the relevances' logit,
# log nugget, log even and the exponent
USUAL_LINEAR = 3.0
USUAL_NUGGET = 0.003
USUAL_EXPONENT = 0.5
DEVIATIONS = (1.5, 1.0, 2.0, 1.5, 0.3)
CHOICES = (-1.5, 0.0, 1.5)  #: deviations from the usual
QUIET_CHOICES = (0.0, -5.0, -12.0)  #: logs of what quiet players' weights are multiplied by


@dataclass(frozen=True, repr=False)
class FewKriging(Method):
    """Kriging with a prior on the linear part too, for a budget below two a player.

    It has no standard errors: there are too few values to check them.
    """

    enumerates: ClassVar[bool] = False
    stops: ClassVar[bool] = True  # it may be asked to, and never does
    promises: ClassVar[frozenset[Promise]] = frozenset({"efficiency"})

    def __repr__(self) -> str:
        """Return the name that explanations report: kriging chooses it, never a user."""
        return "kriging"

    def minimum(self, game: GameInfo) -> int:
        """Return an evaluation for every four players, but the two ends and two more at least."""
        return max(4, -(-game.players // MAX_PLAYERS_PER_EVALUATION))

    def minimum_for_interactions(self, game: GameInfo) -> int:
        """Return the number of pairs for all players: these coalitions have no complements."""
        return min_in_pairs(game.players)

    def screening(self, _game: GameInfo) -> Screening:
        """Return the screening by how far each player's inputs are from the background's."""
        return Screening("distance", None)

    def design(self, game: GameInfo, budget: int, rng: np.random.Generator) -> Design:
        """Return the design for rows whose players all take part."""
        return self.design_for(
            game, budget, rng, torch.ones(1, game.players, dtype=torch.float64, device=game.device)
        )

    def design_for(
        self, game: GameInfo, budget: int, rng: np.random.Generator, eta: Tensor
    ) -> Design:
        """Return the design of rows whose players are at distances eta (r, p)."""
        if budget < game.players:
            warn(
                f"kriging: {budget} evaluations are too few for {game.players} features: only the "
                "ranking is meaningful, and there are no standard errors"
            )
        inner = as_tensor(_spread_coalitions(game.players, budget - 2, rng), game)
        # a distance of 0 counts as the smallest other one, or as 1
        others = torch.where(eta > 0, eta, torch.inf).amin(dim=1, keepdim=True)
        distance = torch.where(eta > 0, eta, others.nan_to_num(posinf=1.0))
        return FewCoalitions(with_ends(inner[None]), distance)


@dataclass(frozen=True)
class FewCoalitions(Design):
    """Coalitions that all rows share, from which each row's own process makes Shapley values."""

    coalitions: Tensor  #: (1, 2 + c, p)
    distance: Tensor  #: (r, p) of players' inputs from the background's

    def estimate(self, values: Tensor) -> Estimate:
        """Return the posterior means."""
        signs = signs_of(self.coalitions[0]).to(values.device)
        at_once = max(MIN_ROWS_AT_ONCE, chunk_entries(signs) // len(signs) ** 2)
        distance = self.distance.expand(len(values), -1)
        chunks = zip(values.mT.split(at_once), distance.split(at_once), strict=True)
        return Estimate(torch.cat([shapley_values(signs, *chunk) for chunk in chunks]).mT)


def _spread_coalitions(players: int, count: int, rng: np.random.Generator) -> Bools:
    """Return coalitions (count, p) that separate players."""
    chains = min(count // (players - 1), 2)
    order = random_orders(players, 1, rng)
    both = np.concatenate((order, order[:, ::-1]))[:chains]
    drawn = [prefixes(both)] if chains else []
    missing = count - chains * (players - 1)
    return np.concatenate([*drawn, _hadamard_coalitions(players, missing, rng)])


def _hadamard_coalitions(players: int, count: int, rng: np.random.Generator) -> Bools:
    """Return rows of Hadamard matrices, (count, p), of random columns and signs."""
    size = 1 << max(players - 1, 1).bit_length()
    matrix = hadamard(size) > 0
    drawn = [np.zeros((0, players), dtype=bool)]
    while sum(map(len, drawn)) < count:
        columns = rng.permutation(size)[:players]
        flipped = rng.random(players) < 0.5
        rows = matrix[:, columns] ^ flipped
        inner = rows[rows.any(axis=1) & ~rows.all(axis=1)]
        drawn.append(rng.permutation(inner))
    return np.concatenate(drawn)[:count]


def shapley_values(signs: Tensor, values: Tensor, distance: Tensor) -> Tensor:
    """Return the Shapley values, (r, k, p), of rows side by side.

    The values (r, k, m) are at coalitions of signs (m, p), the empty and the full one first.
    Players are at distances (r, p) from the background.
    """
    centred = values - values[..., :2].mean(-1, keepdim=True)
    size = centred.abs().amax(-1, keepdim=True)
    size = size.clamp_min(torch.finfo(size.dtype).tiny)
    unit = centred / size
    relative = distance / distance.mean(1, keepdim=True)
    log_distance = relative.clamp_min(MIN_DISTANCE).log()

    rows, outputs, count = values.shape
    quiet = quiet_players(signs, unit.flatten(0, 1))
    quiet = quiet.unflatten(0, (rows, outputs)).all(1).to(values.dtype)

    # the fit sees the two ends and some of the other coalitions
    others = 2 + evenly_spaced(count - 2, MAX_FITTED - 2)
    places = torch.cat((torch.arange(2, device="cpu"), others)).to(signs.device)
    prior = likeliest_prior(signs[places], unit[..., places], log_distance, quiet)
    process = Process.from_covariance(signs, prior.covariance(signs), 1 / prior.linear)
    phi = process.condition(unit).mean
    # Half the difference of the full and the empty coalition is the odd part at the full one.
    full = (unit[..., 1:2] - unit[..., :1]) / 2
    return size * efficient(phi, full)


def likeliest_prior(
    signs: Tensor, values: Tensor, log_distance: Tensor, quiet: Tensor
) -> "FewPrior":
    """Return the priors under which rows' values are likeliest; quiet players are (r, p)."""
    chosen = values.new_zeros(len(values), len(DEVIATIONS) + 1)
    choices = [CHOICES] * len(DEVIATIONS) + [QUIET_CHOICES if quiet.any() else (0.0,)]
    for number, options in list(enumerate(choices)) * SWEEPS:
        worth = []
        for option in options:
            tried = chosen.clone()
            tried[:, number] = option
            prior = FewPrior.from_numbers(tried, log_distance, quiet)
            penalty = 0.5 * tried[:, :-1].square().sum(1)
            worth.append(prior.log_likelihood(signs, values) - penalty)
        best = torch.stack(worth).argmax(0)
        chosen[:, number] = chosen.new_tensor(options)[best]
    return FewPrior.from_numbers(chosen, log_distance, quiet)


@dataclass(frozen=True)
class FewPrior:
    """The numbers of each row's process."""

    linear: Tensor  #: (r, p), variances of the linear coefficients
    relevance: Tensor  #: (r, p)
    nugget: Tensor  #: (r, 1, 1)
    even: Tensor  #: (r, 1, 1)

    @classmethod
    def from_numbers(cls, chosen: Tensor, log_distance: Tensor, quiet: Tensor) -> "FewPrior":
        """Return the priors of numbers (r, 6), deviations from the usual, and quiet players."""
        level = min(3 / log_distance.shape[1], 0.4) / MAX_RELEVANCE
        usual = (
            math.log(USUAL_LINEAR),
            math.log(level / (1 - level)),
            math.log(USUAL_NUGGET),
            0.0,
            USUAL_EXPONENT,
        )
        numbers = chosen.new_tensor(usual) + chosen.new_tensor(DEVIATIONS) * chosen[:, :-1]
        log_linear, logit, log_nugget, log_even, exponent = numbers[..., None].unbind(1)
        log_weight = 2 * exponent * log_distance + chosen[:, -1:] * quiet
        logit = logit + HEREDITY * (log_weight - log_weight.mean(1, keepdim=True))
        return cls(
            linear=log_linear.exp() * torch.softmax(log_weight, 1),
            relevance=relevances(logit.clamp_max(4)),
            nugget=log_nugget.exp()[..., None] + JITTER,
            even=log_even.exp()[..., None],
        )

    def kernel(self, u: Tensor) -> tuple[Tensor, Tensor]:
        """Return the covariances at coalitions of signs u (m, p) but for the linear part's.

        They are (r, m, m), and come with the scale of the odd kernel, (r, 1, 1).
        """
        odd, even, odd_scale, _ = odd_even_kernels(u, self.relevance)
        kernel = odd.add_(self.even * even.add_(CONSTANT))
        kernel.diagonal(dim1=1, dim2=2).add_(self.nugget[:, 0])
        return kernel, odd_scale

    def covariance(self, u: Tensor) -> Covariance:
        """Return the prior of values at coalitions u (m, p) and of the Shapley values."""
        kernel, scale = self.kernel(u)
        cross, variance = shapley_of_kernel(u, self.relevance)
        of_white, white_variance = shapley_of_white(u)
        # The odd part of a white game has half of its variance.
        return Covariance(
            observed=kernel,
            cross=cross / scale + self.nugget * of_white / 2,
            shapley=variance / scale[:, 0] + self.nugget[:, 0] * white_variance / 2,
        )

    def log_likelihood(self, u: Tensor, values: Tensor) -> Tensor:
        """Return that of the values (r, k, m) of each row, (r,), each output with its own scale."""
        kernel, _ = self.kernel(u)
        factors = Factors.from_kernel(kernel, u, 1 / self.linear)
        # Many outputs count as one: they are not independent.
        return factors.log_likelihood(factors.regress(values).squares).mean(1)
