"""Quiet players: those that add nothing wherever they are seen to join.

Two coalitions that differ in one player show it. At least, they are

    {i} and none,   all but i and all.

Most of them never matter: a tree does not ask for them, or they are not part of what a game is
about. Others only tip a balance, as in a vote. The pilot rows tell which it is. A Gaussian prior on
the linear coefficients of quiet players, and a shift of their relevances, make the pilot rows'
values most likely. Other players have a flat prior.
"""

from dataclasses import dataclass, replace
from itertools import product
from typing import NamedTuple

import torch
from torch import Tensor

from shearshap.methods.kriging.joins import Joins
from shearshap.methods.kriging.kernels import cholesky_with_nugget, odd_kernel
from shearshap.methods.kriging.likelihood import informative_games, log_diagonal
from shearshap.methods.kriging.odd_even import OddEven
from shearshap.methods.kriging.relevances import relevances_at, shifted
from shearshap.result.calibration import Calibration

SHIFTS = (0.0, -3.0)  #: of the relevances' logits
VARIANCES = (1e-6, 1e-3, 0.1, 10.0)  #: of the linear coefficients, for kernels of diagonal 1
NUGGET_STEP = 100.0
NUGGET_STEPS = 3  #: at most
CHOICE_PAIRS = 800  #: pairs that a choice sees at most
CHOICE_WORK = 3e8  #: games times cubed pairs that one choice may cost, but for the least
MOST_GAMES = 16  #: whose likelihoods a choice sees


class Prior(NamedTuple):
    """What distinguishes the rows' priors."""

    relevance: Tensor  #: (r, p)
    precision: Tensor  #: (r, p) of the linear coefficients; 0: flat

    @classmethod
    def of(cls, relevance: Tensor, quiet: Tensor, calibration: Calibration) -> "Prior":
        """Return the priors of rows of which these players are quiet, (r, p) of bool."""
        if calibration.quiet_variance is None:
            return cls(relevance, torch.zeros_like(relevance))
        players = quiet.to(relevance.dtype)
        return cls(
            relevance=shifted(relevance, calibration.quiet_shift * players),
            precision=players / calibration.quiet_variance,
        )

    def take(self, rows: Tensor) -> "Prior":
        """Return the priors of some rows."""
        return Prior(self.relevance[rows], self.precision[rows])


def row_priors(parts: OddEven, features: Tensor, calibration: Calibration) -> Prior:
    """Return the priors of rows whose relevances have these features (r, p, 4)."""
    relevance = relevances_at(features, calibration)
    if calibration.quiet_variance is None:
        return Prior(relevance, torch.zeros_like(relevance))
    return Prior.of(relevance, quiet_players(parts), calibration)


def quiet_players(parts: OddEven) -> Tensor:
    """Return which players are quiet in all outputs of a row, (r, p) of bool."""
    some = parts.take_pairs(slice(CHOICE_PAIRS))
    joins = Joins.of(torch.cat([some.signs, -some.signs]))
    values = torch.cat([some.even + some.odd, some.even - some.odd], 1)
    quiet = joins.quiet_players(values)
    return quiet.reshape(parts.rows, parts.outputs, -1).all(1)


@dataclass(frozen=True)
class Likelihood:
    """How likely the values of some pilot games are under a calibration."""

    signs: Tensor  #: (m, p)
    odd: Tensor  #: (g, m)
    features: Tensor  #: (g, p, 4), of the relevances
    quiet: Tensor  #: (g, p) of bool, the quiet players

    @classmethod
    def of(cls, parts: OddEven, features: Tensor) -> "Likelihood":
        """Return it for a few games of pilot rows, and many pairs, as far as is affordable.

        The parts are at unit size.
        """
        some = parts.take_pairs(slice(CHOICE_PAIRS))
        affordable = int(CHOICE_WORK / len(some.signs) ** 3)
        games = informative_games(some, max(1, min(affordable, MOST_GAMES)))
        rows = games // parts.outputs
        return cls(some.signs, some.odd[games], features[rows], quiet_players(some)[rows])

    def with_best_nugget(self, calibration: Calibration) -> Calibration:
        """Return the calibration with a larger nugget, as long as that makes values more likely.

        Far more pairs count here than in the fit, which does not see that a game with many pairs is
        rough.
        """
        if not len(self.odd):
            return calibration
        best = self.of_choice(calibration)
        for _ in range(NUGGET_STEPS):
            larger = replace(calibration, nugget=NUGGET_STEP * calibration.nugget)
            value = self.of_choice(larger)
            if value <= best:
                break
            calibration = larger
            best = value
        return calibration

    def with_best_quiet(self, calibration: Calibration) -> Calibration:
        """Return the calibration with the prior of quiet players that makes values most likely."""
        quiet_rows = self.of_quiet_rows()
        if not len(quiet_rows.odd):
            return calibration
        choices = [
            replace(calibration, quiet_shift=shift, quiet_variance=variance)
            for shift, variance in product(SHIFTS, VARIANCES)
        ]
        return max(choices, key=quiet_rows.of_choice)

    def of_quiet_rows(self) -> "Likelihood":
        """Return it for games with quiet players alone."""
        some = self.quiet.any(1)
        return Likelihood(self.signs, self.odd[some], self.features[some], self.quiet[some])

    def of_choice(self, calibration: Calibration) -> float:
        """Return the log likelihood of all games together."""
        relevance = relevances_at(self.features, calibration)
        prior = Prior.of(relevance, self.quiet, calibration)
        return float(_log_likelihoods(self.signs, self.odd, prior, calibration.nugget).sum())


def _log_likelihoods(u: Tensor, odd: Tensor, prior: Prior, nugget: float) -> Tensor:
    """Return the log likelihoods of odd parts (r, m), (r,), restricted to what is not flat.

    With q coefficients of a Gaussian prior, and G G' = u' K^-1 u + D, they are

        - log|L| - log|G| + sum log(D_jj) / 2 - (m - p + q) log(o' P o) / 2.
    """
    m, p = u.shape
    lower, _ = cholesky_with_nugget(odd_kernel(u, prior.relevance)[0], nugget)
    columns = torch.cat([u.expand(len(odd), m, p), odd[..., None]], 2)
    trend, values = torch.linalg.solve_triangular(lower, columns, upper=False).split([p, 1], 2)
    gram = torch.linalg.cholesky_ex(trend.mT @ trend + torch.diag_embed(prior.precision))[0]
    explained = torch.linalg.solve_triangular(gram, trend.mT @ values, upper=False)
    squares = values.square().sum((1, 2)) - explained.square().sum((1, 2))

    proper = prior.precision > 0
    log_precision = torch.where(proper, prior.precision, 1.0).log().sum(1)
    freedom = m - p + proper.sum(1)
    tiny = torch.finfo(odd.dtype).tiny
    log_squares: Tensor = squares.clamp_min(tiny).log()
    determinants = log_precision / 2 - log_diagonal(lower) - log_diagonal(gram)
    return determinants - freedom * log_squares / 2
