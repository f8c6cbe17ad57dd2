"""Kriging: Shapley values as the posterior mean of a Gaussian process over coalitions."""

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import ClassVar

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from shearshap.coalitions import EMPTY, FULL, Bools, allocate, distinct_pairs, pair_caps, with_ends
from shearshap.errors import MethodError
from shearshap.game import GameInfo
from shearshap.gaussian import (
    Calibration,
    OddEven,
    StagedCalibration,
    calibrate,
    degrees_of_freedom,
    krige,
)
from shearshap.gaussian.kernels import odd_even_kernels, shapley_of_kernel, shapley_of_white
from shearshap.methods.base import Design, Estimate, Method, Promise, Stage, as_tensor
from shearshap.methods.exact import enumeration

CANDIDATES = 8  #: how many times as many pairs there are to select from as are selected
SELECTION_WORK = 3e9  #: multiplications that the selection may cost; beyond, fewer candidates

# The prior that selects pairs has a kernel of variance 1, and beside it:
SELECTION_NUGGET = 0.1  #: white variance
SELECTION_LINEAR = 100.0  #: variance of the linear part, which stands for a flat prior


@dataclass(frozen=True)
class Kriging(Method):
    """Kriging of the game's odd part, with standard errors.

    Complement pairs show the odd part of the game, on which alone Shapley values depend, and its
    even part, which shows how strongly players interact. A Gaussian process whose variances follow
    those strengths is conditioned on the odd part. Its posterior mean gives the Shapley values, its
    posterior variance their standard errors. Rows share the coalitions, which are chosen to lower
    that variance most, but not the weights. Games that jump, such as votes with a threshold, are
    not what the process expects: its errors are then like those of `leverage`, and its standard
    errors are too small.

    Parameters
    ----------
    calibration
        The numbers of the process, from an earlier `Explanation.calibration`. None: they are fitted
        to the values of the first rows explained.
    """

    calibration: Calibration | StagedCalibration | None = field(default=None, repr=False)
    pilot_rows: ClassVar[int] = 256

    @property
    def stops(self) -> bool:
        """Whether a row can stop: after part of the pairs."""
        return True

    @property
    def promises(self) -> frozenset[Promise]:
        """Efficient, and exact on pairwise games."""
        return frozenset({"efficiency", "pairwise"})

    def minimum(self, game: GameInfo) -> int:
        """Return the number of the ends and of all single players with their complements."""
        return min(2 + 2 * game.players, 1 << game.players)

    def design(self, game: GameInfo, budget: int, rng: np.random.Generator) -> Design:
        """Return a design of complement pairs, or of all coalitions where the budget holds them."""
        self._check_players(game)
        if budget >= 1 << game.players:
            return enumeration(game)

        count = (budget - 2) // 2
        sides = as_tensor(selected_pairs(game.players, count, rng), game)
        coalitions = with_ends(torch.cat((sides, ~sides))[None])
        return ComplementPairs.of(coalitions, self.calibration)

    def calibration_of(self, designs: Sequence[Design]) -> object:
        """Return what was fitted, stage by stage where there are several, or the user's own."""
        if self.calibration is not None:
            return self.calibration
        fitted = [
            (_pairs(design.coalitions), design.calibration)
            for design in designs
            if isinstance(design, ComplementPairs) and design.calibration is not None
        ]
        if not fitted:
            return None
        if len(fitted) == 1:
            _, calibration = fitted[0]
            return calibration
        return StagedCalibration(tuple(fitted))

    def _check_players(self, game: GameInfo) -> None:
        """Raise where the calibration was fitted to another number of players."""
        if self.calibration is None:
            return
        fitted = len(self.calibration.players)
        if fitted != game.players:
            raise MethodError(
                f"calibration: it was fitted to {fitted} players, the game has {game.players}; "
                "give the calibration of an explanation with the same players, or none"
            )


@dataclass(frozen=True)
class ComplementPairs(Design):
    """Complement pairs of coalitions, which a Gaussian process turns into Shapley values.

    The columns of m pairs (S_n, S_n^c):

        0      1     2 ... m + 1      m + 2 ... 2 m + 1
        empty  full  S_1 ... S_m      S_1^c ... S_m^c
    """

    coalitions: Tensor  #: (1, 2 + 2 m, p)
    calibration: Calibration | None = None  #: for this number of pairs
    source: Calibration | StagedCalibration | None = None  #: also for parts of the design

    @classmethod
    def of(
        cls, coalitions: Tensor, source: Calibration | StagedCalibration | None
    ) -> "ComplementPairs":
        """Return the design with the source's calibration for its number of pairs."""
        calibration = None if source is None else source.at(_pairs(coalitions))
        return cls(coalitions, calibration, source)

    def fit(self, values: Tensor) -> "ComplementPairs":
        """Return the design calibrated to the pilot rows' values, unless it has a calibration."""
        if self.calibration is not None:
            return self
        return self.calibrated(calibrate(self._parts(values)))

    def calibrated(self, calibration: object) -> "ComplementPairs":
        """Return the design with another design's calibration."""
        assert calibration is None or isinstance(calibration, Calibration | StagedCalibration)
        return self.of(self.coalitions, calibration)

    def first(self, coalitions: int) -> Stage:
        """Return the design of the first pairs, those that lower the variance most."""
        device = self.coalitions.device
        count = (coalitions - 2) // 2

        ends = torch.arange(2, device=device)
        sides = torch.arange(2, 2 + count, device=device)
        complements = sides + _pairs(self.coalitions)
        columns = torch.cat((ends, sides, complements))
        return Stage(columns, self.of(self.coalitions[:, columns], self.source))

    def estimate(self, values: Tensor) -> Estimate:
        """Return the posterior mean and standard deviation of the Shapley values."""
        assert self.calibration is not None, "fit comes before estimate"
        phi, deviations = krige(self._parts(values), self.calibration)

        # (r k, p) -> (r, p, k)
        rows, columns, outputs = values.shape
        shape = (rows, outputs, -1)
        freedom = degrees_of_freedom(columns // 2, self.coalitions.shape[2])
        return Estimate(phi.reshape(shape).mT, deviations.reshape(shape).mT, freedom)

    def _parts(self, values: Tensor) -> OddEven:
        """Return the odd and even parts of values (r, c, k), each output as a row of its own.

        The full and the empty coalition are the first pair.
        """
        flat = values.mT.flatten(0, 1)
        after_sides = 2 + _pairs(self.coalitions)
        inside = torch.cat((flat[:, FULL, None], flat[:, 2:after_sides]), dim=1)
        outside = torch.cat((flat[:, EMPTY, None], flat[:, after_sides:]), dim=1)
        return OddEven.of(self.coalitions[0, FULL:after_sides], inside, outside)


def _pairs(coalitions: Tensor) -> int:
    """Return the number of pairs m of coalitions (1, 2 + 2 m, p), not counting the ends."""
    return (coalitions.shape[1] - 2) // 2


# The selection of pairs


def selected_pairs(players: int, count: int, rng: np.random.Generator) -> Bools:
    """Return one side of `count` pairs, (m, p): single players, then the best candidates.

    They are selected from CANDIDATES times as many, if the work allows.
    """
    affordable = int(SELECTION_WORK / (count * (count / 2 + 2 * players)))
    candidates = max(count, min(CANDIDATES * count, affordable))
    drawn = candidate_pairs(players, candidates, rng)
    if len(drawn) <= count:
        return drawn
    return drawn[pivoted_cholesky(drawn, count)]


def candidate_pairs(players: int, count: int, rng: np.random.Generator) -> Bools:
    """Draw distinct pairs, (count, p): the single players, then every size alike.

    Where there are fewer pairs than `count`, all of them. They are shuffled, since the first of
    equally good pairs is selected: a random order favours no player.
    """
    caps = pair_caps(players)
    larger = allocate(count - players, np.ones(len(caps) - 1), caps[1:], rng)
    drawn = distinct_pairs(players, [caps[0], *larger.tolist()], rng)
    drawn[players:] = rng.permutation(drawn[players:])
    return drawn


def pivoted_cholesky(pairs: Bools, count: int) -> NDArray[np.int64]:
    """Return which of the pairs (m, p), (count,), lower the variance of the Shapley values most.

    Let o(n) be the odd part at pair n, under a prior K of one relevance for all players. Given the
    pairs chosen so far, pair n lowers sum_i var(phi_i) by

        gain(n) = sum_i cov(phi_i, o(n))^2 / var(o(n)).

    The greedy choice is a Cholesky factorisation of K that takes the largest gain as its pivot.
    Step s appends a row to the factor L (s, m), and conditions both covariances on the pivot:

        L[s]        = (K[pivot] - L[:s, pivot]' L[:s]) / sqrt(var(pivot))
        cov(phi, .) = cov(phi, .) - cov(phi, pivot) / sqrt(var(pivot)) L[s]'
        var(.)      = var(.) - L[s]^2

    The full coalition and the single players come first, so that the linear part is known.
    """
    prior = SelectionPrior.of(pairs)
    cross = prior.shapley_covariance()
    variance = prior.variance()
    factor = prior.signs.new_zeros(count + 1, len(prior.signs))
    available = torch.ones_like(variance)

    pivots: list[int] = []
    for step in range(count + 1):
        linear = step <= pairs.shape[1]
        pivot = step if linear else _best_pivot(cross, variance, available)
        pivots.append(pivot)
        available[pivot] = 0

        # What the earlier pivots do not explain of the covariance with this one.
        deviation = variance[pivot].sqrt()
        explained = factor[:step, pivot] @ factor[:step]
        factor[step] = (prior.covariance(pivot) - explained) / deviation

        # Condition on the pivot.
        cross.addr_(cross[:, pivot] / deviation, factor[step], alpha=-1)
        variance -= factor[step].square()

    # Pivot 0 is the full coalition, which is in every design.
    return np.array(pivots[1:]) - 1


def _best_pivot(cross: Tensor, variance: Tensor, available: Tensor) -> int:
    """Return the pair of the largest gain among those available."""
    gain = cross.square().sum(0) / variance.clamp_min(1e-9) * available
    # Symmetry makes many ties. Rounded, they are resolved alike on all machines.
    return int(torch.argmax((gain / gain.max() * 1e6).round()))


@dataclass(frozen=True)
class SelectionPrior:
    """The prior that selects pairs: one relevance for all players, and a linear part."""

    signs: Tensor  #: (1 + m, p), the full coalition first
    relevance: float
    scale: float  #: the unscaled kernel at u = u'

    @classmethod
    def of(cls, pairs: Bools) -> "SelectionPrior":
        """Return the prior for candidate pairs (m, p)."""
        players = pairs.shape[1]
        full = np.ones((1, players))
        signs = torch.from_numpy(np.concatenate([full, 2.0 * pairs - 1]))
        relevance = min(3 / players, 0.5)
        kernels = odd_even_kernels(signs[:1], signs.new_full((1, players), relevance))
        return cls(signs, relevance, float(kernels.odd_scale))

    def shapley_covariance(self) -> Tensor:
        """Return cov(phi, o), (p, 1 + m)."""
        u = self.signs
        players = u.shape[1]
        kernel, _ = shapley_of_kernel(u, u.new_full((1, players), self.relevance))
        white, _ = shapley_of_white(u)
        linear = 2 * SELECTION_LINEAR / players * u.mT
        return kernel[0] / self.scale + SELECTION_NUGGET * white + linear

    def variance(self) -> Tensor:
        """Return var(o), (1 + m,)."""
        total = 1 + SELECTION_NUGGET + SELECTION_LINEAR
        return self.signs.new_full((len(self.signs),), total)

    def covariance(self, pair: int) -> Tensor:
        """Return cov(o, o(pair)), (1 + m,)."""
        players = self.signs.shape[1]
        dot = self.signs @ self.signs[pair]
        kernel = _isotropic_kernel(dot, self.relevance, players) / self.scale
        covariance = kernel + SELECTION_LINEAR / players * dot
        covariance[pair] += SELECTION_NUGGET
        return covariance


def _isotropic_kernel(dot: Tensor, r: float, players: int) -> Tensor:
    """Return the unscaled odd kernel where all relevances are r, a function of u . u' alone."""
    determinant: float = (1 - r * r) ** (players / 2)
    return determinant * torch.sinh(math.atanh(r) * dot) - r * dot
