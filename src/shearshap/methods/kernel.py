"""Kernel regressions: Shapley values as the weighted least-squares linear fit to the game.

    min over phi of  sum_S pi_S (v(S) - v(0) - sum_{i in S} phi_i)^2,
    pi_S = (p - 1) / (C(p, s) s (p - s)),

subject to efficiency, sum phi = v(U) - v(0). Methods differ in the coalitions that stand for all
of them.

The columns of a design with three draws S1, S2, S3 (~S is the complement of S):

    column      0      1     2   3   4   5    6    7
    unpaired    empty  full  S1  S2  S3
    paired      empty  full  S1  S2  S3  ~S1  ~S2  ~S3

Standard errors of one regression: with theta_u the weight and e_u the residual of the u-th draw (a
coalition or a complement pair),

    var(phi) = sum_u (1 - n_u / N_u) theta_u^2 e_u^2 / (1 - h_u)^2.

Here n_u of the N_u possible draws of that size were made, without replacement: a size that was
drawn completely adds no error, and for independent draws N_u is infinite. With the leverage h_u,
e_u / (1 - h_u) is how far a fit without the draw would be off (HC3): the fit follows its draws.

Letters: u draws.
"""

import warnings
from dataclasses import dataclass
from functools import cached_property
from math import comb, inf, sqrt
from typing import ClassVar, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from scipy.linalg import lapack
from torch import Tensor

from shearshap.errors import ShearWarning, level_of_caller
from shearshap.games.coalitions import (
    EMPTY,
    FULL,
    Bools,
    Floats,
    allocate,
    distinct_pairs,
    distinct_sets,
    kernel_mass,
    pair_caps,
    with_ends,
)
from shearshap.games.game import GameInfo
from shearshap.methods.base import Design, Estimate, Method, Promise, Stage
from shearshap.methods.standard_errors import normalised, possible_jumps, unseen_variance

_MIN_FREE = 1e-6
"""1 - h_u below which the fit must go through a draw: its residual is zero, whatever the error."""

MANY_PLAYERS = 64
"""Players from which on a regression is solved by its normal equations, if those are precise."""

_WELL_CONDITIONED = 1e-4
"""The reciprocal condition number of normal equations from which on they cost no digits."""

_NEGLIGIBLE = 1e-10
"""A singular value below this fraction of the largest counts as zero."""


@dataclass(frozen=True)
class Kernel(Method):
    """Kernel SHAP (Lundberg & Lee 2017; pairs: Covert & Lee 2021).

    One regression on the whole budget. Coalitions are drawn without replacement, sizes in
    proportion to their kernel weight. Small and large sizes are therefore enumerated as soon as
    their part of the budget suffices.

    Parameters
    ----------
    paired
        Evaluate the complement of every coalition too.
    """

    paired: bool = False
    enumerates: ClassVar[bool] = False

    @property
    def promises(self) -> frozenset[Promise]:
        """Efficient and, if paired, exact on pairwise games."""
        if self.paired:
            return frozenset({"efficiency", "pairwise"})
        return frozenset({"efficiency"})

    @property
    def stops(self) -> bool:
        """Whether a row can stop: yes, after part of the draws."""
        return True

    def minimum(self, game: GameInfo) -> int:
        """Return the coalitions without which the regression cannot have full rank."""
        return min_regression(game.players, paired=self.paired)

    def design(self, game: GameInfo, budget: int, rng: np.random.Generator) -> Design:
        """Return the regression on coalitions drawn by kernel mass."""
        draw = pairs_by_size if self.paired else sets_by_size
        mass = kernel_mass(game.players)
        return draw(game.players, budget - 2, mass, rng).design(game.device)


@dataclass(frozen=True)
class Welford(Method):
    """Kernel SHAP with running means (KS-WF; Covert & Lee 2021).

    One regression on the whole budget. Coalitions are drawn independently from the Shapley kernel.
    A_n and b_n are the running means of 1_S 1_S' and 1_S (v(S) - v(0)), and the values solve
    A phi = b under efficiency. The running mean of all draws is their mean, so it is computed at
    once. The paper, too, runs this method on the whole budget.
    """

    enumerates: ClassVar[bool] = False

    @property
    def stops(self) -> bool:
        """Whether a row can stop: yes, after part of the draws."""
        return True

    @property
    def promises(self) -> frozenset[Promise]:
        """Efficient."""
        return frozenset({"efficiency"})

    def minimum(self, game: GameInfo) -> int:
        """Return the coalitions without which the regression cannot have full rank."""
        return min_regression(game.players, paired=False)

    def design(self, game: GameInfo, budget: int, rng: np.random.Generator) -> Design:
        """Return the regression on independent draws from the kernel, all weighed alike."""
        count = budget - 2
        sets = kernel_draws(game.players, count, rng)
        return DrawnCoalitions(sets, order=np.arange(count)).design(game.device)


@dataclass(frozen=True)
class Leverage(Method):
    """Leverage SHAP (Musco & Witter 2025): pairs of all sizes equally often, without replacement.

    The leverage score of a coalition in the Shapley regression is proportional to 1 / C(p, s), so
    every size gets the same part of the budget. Weights are the kernel's, divided by the
    probability of being drawn.
    """

    enumerates: ClassVar[bool] = False

    @property
    def stops(self) -> bool:
        """Whether a row can stop: yes, after part of the draws."""
        return True

    @property
    def promises(self) -> frozenset[Promise]:
        """Efficient, and exact on pairwise games."""
        return frozenset({"efficiency", "pairwise"})

    def minimum(self, game: GameInfo) -> int:
        """Return the coalitions without which the regression cannot have full rank."""
        return min_regression(game.players, paired=True)

    def design(self, game: GameInfo, budget: int, rng: np.random.Generator) -> Design:
        """Return the regression on pairs of all sizes alike."""
        alike = np.ones(game.players - 1)
        return pairs_by_size(game.players, budget - 2, alike, rng).design(game.device)


def min_regression(players: int, *, paired: bool) -> int:
    """Return the number of coalitions, the ends included, that p - 1 equations take.

    Efficiency determines one of the p unknowns.
    """
    copies = 2 if paired else 1
    return min(2 + copies * (players - 1), 1 << players)


# Designs


@dataclass(frozen=True, eq=False)
class DrawnCoalitions:
    """Coalitions drawn for a regression, and the order in which stages take them."""

    sets: Bools  #: (u, p) coalitions or, if paired, one side of each complement pair
    #: (u,) whose every beginning is spread over sizes as the whole is
    order: NDArray[np.int64]
    paired: bool = False
    #: True: independent draws; False: without replacement among those of each size
    replaced: bool = True

    @property
    def coalitions(self) -> Bools:
        """The coalitions (c, p) to evaluate."""
        if not self.paired:
            return self.sets
        return np.concatenate((self.sets, ~self.sets))

    def design(self, device: torch.device, *, warn: bool = True) -> "Regression":
        """Return the regression under efficiency on all draws."""
        inner = torch.from_numpy(self.coalitions).to(device)
        return Regression(with_ends(inner[None]), self, warn)

    def take(self, numbers: NDArray[np.int64]) -> "DrawnCoalitions":
        """Return the draws of these numbers, in this order."""
        order = np.arange(len(numbers))
        return DrawnCoalitions(self.sets[numbers], order, self.paired, self.replaced)

    def solution(self, device: torch.device, *, warn: bool) -> "Solution":
        """Solve the regression's equations."""
        inner = self.coalitions
        weight = np.ones(len(inner)) if self.replaced else _mass_per_draw(inner)
        fit = constrained_regression(inner, weight)
        if warn:
            warn_if_singular(fit.rank, self.sets.shape[1] - 1, len(inner))

        factors, freedom = self._variance_factors(fit)
        return Solution(
            weights=torch.from_numpy(fit.weights).to(device),
            variance_factors=None if factors is None else torch.from_numpy(factors).to(device),
            degrees_of_freedom=freedom,
        )

    def _variance_factors(self, fit: "Fit") -> tuple[Floats | None, float]:
        """Return the factors (p, u) of squared residuals in the variance; degrees of freedom.

        The factors are None if residuals say nothing about the error: with a singular fit,
        without more draws than unknowns, or with a draw that the fit must go through.
        """
        count, players = self.sets.shape
        theta = fit.weights[:, 2 : 2 + count]
        left_out = self.left_out()
        sampled = left_out > 0
        if not sampled.any():
            return np.zeros_like(theta), inf

        # both sides of a pair pull the fit alike
        copies = 2 if self.paired else 1
        free = 1 - copies * fit.leverages[:count]
        freedom = count - fit.rank
        singular = fit.rank < players - 1
        if singular or freedom < 1 or free[sampled].min() < _MIN_FREE:
            return None, inf

        inflated = left_out / free.clip(min=_MIN_FREE) ** 2
        return theta**2 * np.where(sampled, inflated, 0), freedom

    def left_out(self) -> Floats:
        """Return what fraction of the possible draws of its size was not made, by draw, (u,)."""
        if self.replaced:
            return np.ones(len(self.sets))
        players = self.sets.shape[1]
        sizes = self.sets.sum(axis=1)
        possible = [comb(players, s) for s in range(1, players)]
        if self.paired:
            sizes = np.minimum(sizes, players - sizes)
            possible = pair_caps(players)

        # Python's integers: the number of coalitions of a size may exceed every float
        drawn = np.bincount(sizes)[1:].tolist()
        by_size = [1 - n / cap for n, cap in zip(drawn, possible, strict=False)]
        return np.asarray(np.array(by_size)[sizes - 1])


@dataclass(frozen=True)
class Solution:
    """What a regression's equations give before any coalition value is known."""

    weights: Tensor  #: (p, 2 + c) phi = W v
    variance_factors: Tensor | None  #: (p, u) of a draw's squared residual in the variance
    degrees_of_freedom: float


@dataclass(frozen=True, eq=False)
class Regression(Design):
    """The values are fixed weights times coalition values, phi = W v.

    The residuals of the fit give the standard errors.
    """

    #: (1, 2 + c, p): the ends, then coalitions or, if paired, one side of each pair and then
    #: the complements
    coalitions: Tensor
    draws: DrawnCoalitions
    warn: bool  #: whether to warn if the equations are singular

    @cached_property
    def solution(self) -> Solution:
        """The solved equations.

        They are solved when the first values arrive: rows that stop early never need the largest
        ones.
        """
        return self.draws.solution(self.coalitions.device, warn=self.warn)

    def estimate(self, values: Tensor) -> Estimate:
        """Return phi = W v and the standard errors.

        The base value is subtracted first: the rows of W sum to 0, and fewer digits are lost.
        """
        solution = self.solution
        centred = values - values[:, :1]
        phi = torch.einsum("pc,rck->rpk", solution.weights, centred)
        if solution.variance_factors is None:
            return Estimate(phi)

        jumps = possible_jumps(values, self.coalitions.shape[2])
        unseen = jumps * sqrt(unseen_variance(len(self.draws.sets)))
        residuals = self._residuals(centred[:, 2:], phi).abs()
        residuals, scale = normalised(torch.maximum(residuals, unseen), 1)
        variance = torch.einsum("pu,ruk->rpk", solution.variance_factors, residuals.square())
        return Estimate(phi, scale * variance.sqrt(), solution.degrees_of_freedom)

    def first(self, coalitions: int) -> Stage:
        """Return the regression on the first draws."""
        copies = 2 if self.draws.paired else 1
        numbers = self.draws.order[: (coalitions - 2) // copies]
        sides = [2 + numbers + side * len(self.draws.sets) for side in range(copies)]
        columns = np.concatenate([[EMPTY, FULL], *sides])

        device = self.coalitions.device
        design = self.draws.take(numbers).design(device, warn=False)
        return Stage(torch.from_numpy(columns).to(device), design)

    def _residuals(self, values: Tensor, phi: Tensor) -> Tensor:
        """Return v(S) - v(0) - sum_{i in S} phi_i of every draw, (r, u, k), from v(S) - v(0).

        The residual of a pair is that of S minus that of its complement: the pair's two weights are
        theta and -theta, so theta times this difference is what the pair adds.
        """
        count = len(self.draws.sets)
        sets = self.coalitions[0, 2 : 2 + count].to(values.dtype)
        if not self.draws.paired:
            return values - torch.einsum("up,rpk->ruk", sets, phi)
        signs = 2 * sets - 1
        apart = values[:, :count] - values[:, count:]
        return apart - torch.einsum("up,rpk->ruk", signs, phi)


# Draws


def pairs_by_size(
    players: int, coalitions: int, mass: Floats, rng: np.random.Generator
) -> DrawnCoalitions:
    """Draw complement pairs without replacement, sizes in proportion to `mass` (p - 1,).

    A pair joins the sizes s and p - s, and takes the mass of both:

        p = 5    pairs 1|4, 2|3
        p = 4    pairs 1|3, 2|2    the last one has the mass of one size only
    """
    smaller = np.arange(1, players // 2 + 1)
    larger = players - smaller
    folded = mass[smaller - 1] + np.where(larger > smaller, mass[larger - 1], 0)

    counts = allocate(coalitions // 2, folded, pair_caps(players), rng)
    half = distinct_pairs(players, counts.tolist(), rng)
    return DrawnCoalitions(half, interleaved(counts, folded, rng), paired=True, replaced=False)


def sets_by_size(
    players: int, coalitions: int, mass: Floats, rng: np.random.Generator
) -> DrawnCoalitions:
    """Draw coalitions without replacement, sizes in proportion to `mass` (p - 1,)."""
    sizes = range(1, players)
    counts = allocate(coalitions, mass, [comb(players, s) for s in sizes], rng)
    by_size = [
        distinct_sets(players, size, int(count), rng)
        for size, count in zip(sizes, counts, strict=True)
    ]
    return DrawnCoalitions(np.concatenate(by_size), interleaved(counts, mass, rng), replaced=False)


def interleaved(
    counts: NDArray[np.int64], mass: Floats, rng: np.random.Generator
) -> NDArray[np.int64]:
    """Return an order of draws that lie size by size, `counts` of each.

    Every beginning of it is divided among sizes in proportion to `mass`:

        counts 2, 4; mass 1, 2    draws    a0 a1 | b0 b1 b2 b3
                                  order    b a b   b a b    (within a size at random)

    The j-th draw of a size comes at j / mass. A size that is used up early is left out from there
    on, as in `allocate`. These are the last numbers drawn, so they change no design.
    """
    turns = [
        (rng.permutation(count) + rng.random()) / part
        for count, part in zip(counts, mass, strict=True)
    ]
    return np.argsort(np.concatenate(turns), kind="stable")


def kernel_draws(players: int, count: int, rng: np.random.Generator) -> Bools:
    """Draw coalitions independently from the Shapley kernel, (count, p)."""
    sizes = rng.choice(np.arange(1, players), size=count, p=kernel_mass(players))
    ranks = rng.random((count, players)).argsort(axis=1).argsort(axis=1)
    return np.asarray(ranks < sizes[:, None])


def _mass_per_draw(inner: Bools) -> Floats:
    """Return the weight of each coalition, (c,).

    It is the kernel mass of its size, divided by the number of coalitions drawn of that size.
    """
    players = inner.shape[1]
    sizes = inner.sum(axis=1)
    drawn = np.bincount(sizes, minlength=players)
    return np.asarray(kernel_mass(players)[sizes - 1] / drawn[sizes])


# Regressions


class Fit(NamedTuple):
    """A solved least-squares problem on c coalitions."""

    weights: Floats  #: (p, 2 + c) of the coalition values, the ends included
    leverages: Floats  #: (c,)
    rank: int


def constrained_regression(inner: Bools, weight: Floats) -> Fit:
    """Solve the regression under efficiency on coalitions (c, p) with weights (c,).

    With the total D = v(U) - v(0),

        phi = D/p 1 + argmin over theta with sum theta = 0 of
              sum_S w_S (v(S) - v(0) - D |S|/p - sum_{i in S} theta_i)^2.

    Centring the indicators makes the sum of theta 0 by itself: the least-norm solution lies in
    their span.
    """
    players = inner.shape[1]
    fraction = inner.mean(axis=1)  # |S|/p
    root = np.sqrt(weight)
    matrix = root[:, None] * (inner - fraction[:, None])
    inverse, rank = _least_norm_of_centred(matrix)
    theta = inverse * root

    weights = np.column_stack((-theta.sum(axis=1), np.zeros(players), theta))
    of_total = 1 / players - theta @ fraction
    weights[:, FULL] += of_total
    weights[:, EMPTY] -= of_total
    leverages = np.einsum("cp,pc->c", matrix, inverse)
    return Fit(weights, leverages, rank)


def _least_norm_of_centred(matrix: Floats) -> tuple[Floats, int]:
    """Return the pseudo-inverse (p, c) of a matrix A (c, p) whose rows sum to 0, and its rank.

    If the rank is p - 1, it is inverse(A'A + t 1 1') A' for any t > 0, since A 1 = 0. For many
    players that takes a fifth of the time of a singular value decomposition, and for a
    well-conditioned A it has as many digits.
    """
    players = matrix.shape[1]
    if players < MANY_PLAYERS:
        return least_norm(matrix)

    normal = matrix.T @ matrix
    normal += np.trace(normal) / players**2  # so large that 1 has a mean eigenvalue
    factor, failed = lapack.dpotrf(normal)
    if failed:
        return least_norm(matrix)
    reciprocal_condition, _ = lapack.dpocon(factor, np.abs(normal).sum(axis=0).max())
    if reciprocal_condition < _WELL_CONDITIONED:
        return least_norm(matrix)
    inverse, _ = lapack.dpotrs(factor, matrix.T)
    return np.ascontiguousarray(inverse), players - 1


def least_norm(matrix: Floats) -> tuple[Floats, int]:
    """Return the pseudo-inverses (..., p, c) of matrices (..., c, p), and the smallest rank."""
    left, scales, right = np.linalg.svd(matrix, full_matrices=False)
    significant = scales > scales.max(axis=-1, keepdims=True, initial=0) * _NEGLIGIBLE
    reciprocal = np.where(significant, 1 / np.where(significant, scales, 1), 0)
    inverse = np.swapaxes(right, -1, -2) * reciprocal[..., None, :] @ np.swapaxes(left, -1, -2)
    rank = int(significant.sum(axis=-1).min())
    return inverse, rank


def warn_if_singular(rank: int, needed: int, coalitions: int) -> None:
    """Warn if a regression has less than the rank it needs."""
    if rank < needed:
        warnings.warn(
            f"a regression on {coalitions} coalitions has rank {rank} of {needed}: its least-norm "
            "solution is used, which spreads what these coalitions cannot tell apart over the "
            "players; a larger budget helps",
            ShearWarning,
            stacklevel=level_of_caller(),
        )
