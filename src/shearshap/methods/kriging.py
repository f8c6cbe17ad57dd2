"""Kriging: Shapley values as the posterior mean of a Gaussian process over coalitions."""

import math
from dataclasses import dataclass, replace
from typing import ClassVar

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from shearshap.errors import MethodError
from shearshap.game import Game
from shearshap.gaussian.process import (
    Calibration,
    Parts,
    calibrate,
    degrees_of_freedom,
    kernels,
    krige,
    shapley_of_kernel,
    shapley_of_white,
)
from shearshap.methods.base import Design, Estimate, Method, Promise, Stage
from shearshap.methods.coalitions import (
    EMPTY,
    FULL,
    Bools,
    allocate,
    as_tensor,
    distinct_pairs,
    pair_caps,
    with_ends,
)
from shearshap.methods.exact import enumeration

CANDIDATES = 8  #: pairs to choose each one from
PLAN_WORK = 3e9  #: multiplications that choosing may cost; beyond, fewer candidates
PLAN_NUGGET, PLAN_LINEAR = (
    0.1,
    100.0,
)  #: white and linear variance of the prior that chooses, its kernel's being 1


@dataclass(frozen=True)
class Kriging(Method):
    """Kriging of the game's odd part, with standard errors.

    Complement pairs show the odd part of the game, all that Shapley values depend on, and the even
    part, which tells how strongly players interact. A Gaussian process whose variances follow those
    strengths is conditioned on the odd part; its posterior mean gives the shares, its posterior
    variance their standard errors. Rows share the coalitions, chosen to lower that variance most,
    but not the weights. Games that jump, such as votes with a threshold, are not what the process
    expects: there its errors are like those of `leverage`, and its standard errors too small.

    Parameters
    ----------
    calibration
        The process' few numbers, from an earlier `Explanation.calibration`; None: fitted to the
        values of the first rows explained.
    """

    calibration: Calibration | None = None
    pilot_rows: ClassVar[int] = 256

    @property
    def stops(self) -> bool:
        """Whether a row can stop: after part of the pairs."""
        return True

    @property
    def promises(self) -> frozenset[Promise]:
        """Efficient, and exact on pairwise games."""
        return frozenset({"efficiency", "pairwise"})

    def minimum(self, game: Game) -> int:
        """Return the ends, and every single player with its complement."""
        return min(2 + 2 * game.players, 1 << game.players)

    def design(self, game: Game, budget: int, rng: np.random.Generator) -> Design:
        """Return the pairs to ask for; with a budget for all coalitions, all coalitions."""
        if self.calibration is not None and len(self.calibration.players) != game.players:
            raise MethodError(
                f"calibration: it was fitted to {len(self.calibration.players)} players, the game "
                f"has {game.players}"
            )
        if budget >= 1 << game.players:
            return enumeration(game)
        pairs = as_tensor(planned_pairs(game.players, (budget - 2) // 2, rng), game)
        return Pairs(with_ends(torch.cat((pairs, ~pairs))[None]), self.calibration)


@dataclass(frozen=True)
class Pairs(Design):
    """Coalitions laid out (empty, full, one side of each pair, the other sides)."""

    coalitions: Tensor  #: (1, 2 + 2 m, p)
    calibration: Calibration | None = None

    def fit(self, values: Tensor) -> "Pairs":
        """Return the design calibrated to the pilot rows' values, unless a calibration was given."""
        return (
            self if self.calibration else replace(self, calibration=calibrate(self._parts(values)))
        )

    def calibrated(self, calibration: object) -> "Pairs":
        """Return the design with another one's calibration."""
        assert calibration is None or isinstance(calibration, Calibration)
        return replace(self, calibration=calibration)

    def first(self, coalitions: int) -> Stage:
        """Return the design of the first pairs, the most telling of all."""
        half, count = (self.coalitions.shape[1] - 2) // 2, (coalitions - 2) // 2
        pairs = torch.arange(2, 2 + count, device=self.coalitions.device)
        columns = torch.cat((torch.arange(2, device=pairs.device), pairs, pairs + half))
        return Stage(columns, Pairs(self.coalitions[:, columns], self.calibration))

    def estimate(self, values: Tensor) -> Estimate:
        """Return the posterior mean and standard deviation of every row's and output's shares."""
        assert self.calibration is not None, "fit comes before estimate"
        means, deviations = krige(self._parts(values), self.calibration)
        shape = (values.shape[0], values.shape[2], -1)
        freedom = degrees_of_freedom(values.shape[1] // 2, self.coalitions.shape[2])
        return Estimate(means.reshape(shape).mT, deviations.reshape(shape).mT, freedom)

    def _parts(self, values: Tensor) -> Parts:
        """Return the odd and even parts of values (r, c, k), each output a row of its own, the full
        coalition first.
        """
        flat = values.mT.flatten(0, 1)
        half = (flat.shape[1] - 2) // 2
        inside = torch.cat((flat[:, FULL, None], flat[:, 2 : 2 + half]), dim=1)
        outside = torch.cat((flat[:, EMPTY, None], flat[:, 2 + half :]), dim=1)
        return Parts.of(self.coalitions[0, FULL : 2 + half], inside, outside)


def planned_pairs(players: int, count: int, rng: np.random.Generator) -> Bools:
    """Return one side of `count` pairs, (m, p): single players, then the most telling of CANDIDATES
    times as many.
    """
    affordable = int(PLAN_WORK / (count * (count / 2 + 2 * players)))
    drawn = candidate_pairs(players, max(count, min(CANDIDATES * count, affordable)), rng)
    return drawn if len(drawn) <= count else drawn[most_telling(drawn, count)]


def candidate_pairs(players: int, count: int, rng: np.random.Generator) -> Bools:
    """Draw distinct pairs: the single players, then every size alike (all pairs if there are no
    more), shuffled.

    Of equally telling pairs the first is chosen; in a random order that favours no player.
    """
    caps = pair_caps(players)
    rest = allocate(count - players, np.ones(len(caps) - 1), caps[1:], rng)
    drawn = distinct_pairs(players, [caps[0], *rest.tolist()], rng)
    drawn[players:] = rng.permutation(drawn[players:])
    return drawn


def most_telling(pairs: Bools, count: int) -> NDArray[np.int64]:
    """Return which pairs, (count,), lower the shares' total posterior variance most, all players of
    one relevance.

    Given those chosen so far, the next lowers sum_i var(phi_i) by sum_i cov(phi_i, o)^2 / var(o): a
    Cholesky factor with that pivot, one column a step. The single players come first, so that the
    trend is known.
    """
    p = pairs.shape[1]
    u = torch.from_numpy(np.concatenate([np.ones((1, p)), 2.0 * pairs - 1]))
    r = u.new_full((1, p), min(3 / p, 0.5))
    (_, _, scale), (cross, _), (white, _) = (
        kernels(u[:1], r),
        shapley_of_kernel(u, r),
        shapley_of_white(u),
    )
    # a linear part of variance PLAN_LINEAR stands for the flat one
    cross = cross[0] / scale[0] + PLAN_NUGGET * white + 2 * PLAN_LINEAR / p * u.mT
    variance = u.new_full((len(u),), 1 + PLAN_NUGGET + PLAN_LINEAR)
    columns, free, chosen = u.new_zeros(count + 1, len(u)), u.new_ones(len(u)), []
    for step in range(count + 1):
        gain = cross.square().sum(0) / variance.clamp_min(1e-9) * free
        # rounded, so that ties, of which symmetry makes many, fall alike on all machines
        pivot = step if step <= p else int(torch.argmax((gain / gain.max() * 1e6).round()))
        dot = u @ u[pivot]
        column = _isotropic(dot, float(r[0, 0]), p) / scale[0, 0, 0] + PLAN_LINEAR / p * dot
        column[pivot] += PLAN_NUGGET
        columns[step] = (column - columns[:step, pivot] @ columns[:step]) / variance[pivot].sqrt()
        cross.addr_(cross[:, pivot] / variance[pivot].sqrt(), columns[step], alpha=-1)
        variance -= columns[step].square()
        free[pivot] = 0
        chosen.append(pivot)
    return np.array(chosen[1:]) - 1


def _isotropic(dot: Tensor, r: float, players: int) -> Tensor:
    """Return the odd kernel where all relevances are r, a function of u . u' alone."""
    determinant: float = (1 - r * r) ** (players / 2)
    return determinant * torch.sinh(math.atanh(r) * dot) - r * dot
