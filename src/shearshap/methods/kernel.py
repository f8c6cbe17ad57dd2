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

from dataclasses import dataclass
from functools import cached_property
from math import comb, inf, sqrt
from typing import ClassVar, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from scipy.linalg import lapack
from torch import Tensor

from shearshap.errors import warn
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


class KernelMethod(Method):
    """One regression on the whole budget; a row can stop after part of the draws."""

    paired: bool = False  #: whether complements are evaluated too
    enumerates: ClassVar[bool] = False
    stops: ClassVar[bool] = True

    def minimum_per_draw(self, game: GameInfo) -> int:
        """Return twice the usual number, since regressions need full rank."""
        return 4 * game.players

    @property
    def promises(self) -> frozenset[Promise]:
        """Efficient and, if paired, exact on pairwise games."""
        if self.paired:
            return frozenset({"efficiency", "pairwise"})
        return frozenset({"efficiency"})

    def minimum(self, game: GameInfo) -> int:
        """Return the number of coalitions, the ends included, that p - 1 equations take.

        Efficiency determines one of the p unknowns.
        """
        copies = 2 if self.paired else 1
        return min(2 + copies * (game.players - 1), 1 << game.players)

    def errors_from(self, game: GameInfo) -> int:
        """Return the coalitions with which the regression has full rank, and residuals."""
        return min(2 + 4 * game.players, 1 << game.players)


@dataclass(frozen=True)
class Kernel(KernelMethod):
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

    def design(self, game: GameInfo, budget: int, rng: np.random.Generator) -> Design:
        """Return the regression on coalitions drawn by kernel mass."""
        draw = pairs_by_size if self.paired else sets_by_size
        return draw(game, budget - 2, kernel_mass(game.players), rng)


@dataclass(frozen=True)
class Welford(KernelMethod):
    """Kernel SHAP with running means (KS-WF; Covert & Lee 2021).

    One regression on the whole budget. Coalitions are drawn independently from the Shapley kernel.
    A_n and b_n are the running means of 1_S 1_S' and 1_S (v(S) - v(0)), and the values solve
    A phi = b under efficiency. The running mean of all draws is their mean, so it is computed at
    once. The paper, too, runs this method on the whole budget.
    """

    def design(self, game: GameInfo, budget: int, rng: np.random.Generator) -> Design:
        """Return the regression on independent draws from the kernel, all weighed alike."""
        sets = kernel_draws(game.players, budget - 2, rng)
        return Regression.from_draws(sets, np.arange(len(sets)), game.device)


@dataclass(frozen=True)
class Leverage(KernelMethod):
    """Leverage SHAP (Musco & Witter 2025): pairs of all sizes equally often, without replacement.

    The leverage score of a coalition in the Shapley regression is proportional to 1 / C(p, s), so
    every size gets the same part of the budget. Weights are the kernel's, divided by the
    probability of being drawn.
    """

    paired = True

    def design(self, game: GameInfo, budget: int, rng: np.random.Generator) -> Design:
        """Return the regression on pairs of all sizes alike."""
        return pairs_by_size(game, budget - 2, np.ones(game.players - 1), rng)


# The design


@dataclass(frozen=True, eq=False)
class Regression(Design):
    """The values are fixed weights times coalition values, phi = W v.

    The residuals of the fit give the standard errors.
    """

    #: (1, 2 + c, p): the ends, then coalitions or, if paired, one side of each pair and then
    #: the complements
    coalitions: Tensor
    sets: Bools  #: (u, p) coalitions or, if paired, one side of each complement pair
    #: (u,) in which stages take draws: every beginning is spread over sizes as the whole is
    order: NDArray[np.int64]
    paired: bool
    replaced: bool  #: True: independent draws; False: without replacement among those of a size
    warn: bool  #: whether to warn if the equations are singular

    @classmethod
    def from_draws(
        cls,
        sets: Bools,
        order: NDArray[np.int64],
        device: torch.device,
        *,
        paired: bool = False,
        replaced: bool = True,
        warn: bool = True,
    ) -> "Regression":
        """Return the regression under efficiency on all draws (u, p)."""
        inner = np.concatenate((sets, ~sets)) if paired else sets
        coalitions = with_ends(torch.from_numpy(inner).to(device)[None])
        return cls(coalitions, sets, order, paired, replaced, warn)

    def estimate(self, values: Tensor) -> Estimate:
        """Return phi = W v and the standard errors.

        The base value is subtracted first: the rows of W sum to 0, and fewer digits are lost.
        """
        weights, variance_factors, freedom = self._solution
        centred = values - values[:, :1]
        phi = torch.einsum("pc,rck->rpk", weights, centred)
        if variance_factors is None:
            return Estimate(phi)

        jumps = possible_jumps(values, self.coalitions.shape[2])
        unseen = jumps * sqrt(unseen_variance(len(self.sets)))
        residuals = self._residuals(centred[:, 2:], phi).abs()
        residuals, scale = normalised(torch.maximum(residuals, unseen), 1)
        variance = torch.einsum("pu,ruk->rpk", variance_factors, residuals.square())
        return Estimate(phi, scale * variance.sqrt(), freedom)

    def first(self, coalitions: int) -> Stage:
        """Return the regression on the first draws."""
        copies = 2 if self.paired else 1
        numbers = self.order[: (coalitions - 2) // copies]
        sides = [2 + numbers + side * len(self.sets) for side in range(copies)]
        columns = np.concatenate([[EMPTY, FULL], *sides])

        device = self.coalitions.device
        design = Regression.from_draws(
            self.sets[numbers],
            np.arange(len(numbers)),
            device,
            paired=self.paired,
            replaced=self.replaced,
            warn=False,
        )
        return Stage(torch.from_numpy(columns).to(device), design)

    @cached_property
    def _solution(self) -> tuple[Tensor, Tensor | None, float]:
        """The weights W (p, 2 + c), the factors of `_variance_factors`, and degrees of freedom.

        The equations are solved when the first values arrive: rows that stop early never need the
        largest ones.
        """
        device = self.coalitions.device
        inner = self.coalitions[0, 2:].cpu().numpy()
        players = inner.shape[1]
        weight = np.ones(len(inner))
        if not self.replaced:
            # the kernel mass of a size, divided by the number of coalitions drawn of it
            sizes = inner.sum(axis=1)
            drawn = np.bincount(sizes, minlength=players)
            weight = kernel_mass(players)[sizes - 1] / drawn[sizes]
        fit = constrained_regression(inner, weight)
        if self.warn:
            warn_if_singular(fit.rank, players - 1, len(inner))

        weights = torch.from_numpy(fit.weights).to(device)
        factors, freedom = self._variance_factors(fit)
        return weights, None if factors is None else torch.from_numpy(factors).to(device), freedom

    def _variance_factors(self, fit: "Fit") -> tuple[Floats | None, float]:
        """Return the factors (p, u) of squared residuals in the variance; degrees of freedom.

        The factors are None if residuals say nothing about the error: with a singular fit,
        without more draws than unknowns, or with a draw that the fit must go through.
        """
        count, players = self.sets.shape
        theta = fit.weights[:, 2 : 2 + count]
        left_out = self._left_out()
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

    def _left_out(self) -> Floats:
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

    def _residuals(self, values: Tensor, phi: Tensor) -> Tensor:
        """Return v(S) - v(0) - sum_{i in S} phi_i of every draw, (r, u, k), from v(S) - v(0).

        The residual of a pair is that of S minus that of its complement: the pair's two weights are
        theta and -theta, so theta times this difference is what the pair adds.
        """
        count = len(self.sets)
        sets = self.coalitions[0, 2 : 2 + count].to(values.dtype)
        if not self.paired:
            return values - torch.einsum("up,rpk->ruk", sets, phi)
        signs = 2 * sets - 1
        apart = values[:, :count] - values[:, count:]
        return apart - torch.einsum("up,rpk->ruk", signs, phi)


# Draws


def pairs_by_size(
    game: GameInfo, coalitions: int, mass: Floats, rng: np.random.Generator
) -> Regression:
    """Draw complement pairs without replacement, sizes in proportion to `mass` (p - 1,).

    A pair joins the sizes s and p - s, and takes the mass of both:

        p = 5    pairs 1|4, 2|3
        p = 4    pairs 1|3, 2|2    the last one has the mass of one size only
    """
    players = game.players
    smaller = np.arange(1, players // 2 + 1)
    larger = players - smaller
    folded = mass[smaller - 1] + np.where(larger > smaller, mass[larger - 1], 0)

    counts = allocate(coalitions // 2, folded, pair_caps(players), rng)
    half = distinct_pairs(players, counts.tolist(), rng)
    order = interleaved(counts, folded, rng)
    return Regression.from_draws(half, order, game.device, paired=True, replaced=False)


def sets_by_size(
    game: GameInfo, coalitions: int, mass: Floats, rng: np.random.Generator
) -> Regression:
    """Draw coalitions without replacement, sizes in proportion to `mass` (p - 1,)."""
    players = game.players
    sizes = range(1, players)
    counts = allocate(coalitions, mass, [comb(players, s) for s in sizes], rng)
    by_size = [
        distinct_sets(players, size, int(count), rng)
        for size, count in zip(sizes, counts, strict=True)
    ]
    order = interleaved(counts, mass, rng)
    return Regression.from_draws(np.concatenate(by_size), order, game.device, replaced=False)


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
        warn(
            f"a regression on {coalitions} coalitions has rank {rank} of {needed}: its "
            "least-norm solution is used, which spreads what these coalitions cannot tell apart "
            "over the features; try a larger budget"
        )
