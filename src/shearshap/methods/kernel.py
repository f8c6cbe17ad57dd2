"""Kernel regressions: Shapley values as the weighted least-squares linear fit to the game.

    min over phi of sum_S pi_S (v(S) - v(0) - sum_{i in S} phi_i)^2,   pi_S = (p-1) / (C(p,s) s
    (p-s)),

subject to efficiency, sum phi = v(U) - v(0). Methods differ in which coalitions stand for all of
them.

Standard errors of one regression: with theta_u the weight and e_u the residual of the u-th draw, a
coalition or a pair,

    var(phi) = sum_u (1 - n_u / N_u) theta_u^2 e_u^2 / (1 - h_u),

where n_u of the N_u draws of its size were made, without replacement (an enumerated size has no
error; independent draws: N_u infinite), and h_u is its leverage, as residuals are too small where
the fit follows the draw (HC2).
"""

import warnings
from dataclasses import dataclass
from functools import cached_property
from math import comb, inf, sqrt
from typing import Literal

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from shearshap.errors import ShearWarning, level_of_caller
from shearshap.game import Game
from shearshap.methods.base import Design, Estimate, Method, Promise, Stage, check_option
from shearshap.methods.coalitions import (
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
from shearshap.methods.spread import FEWEST, normalised, sample_deviation


@dataclass(frozen=True)
class Kernel(Method):
    """Kernel SHAP (Lundberg & Lee 2017; pairs: Covert & Lee 2021).

    Parameters
    ----------
    paired
        Ask for the complement of every coalition too.
    protocol
        "fair": one constrained regression on the whole budget; sizes drawn by kernel mass, without
        replacement, so that small and large sizes are enumerated as soon as their share of the
        budget holds them. "paper": p regressions of N coalitions each, averaged, unconstrained,
        with coalitions drawn uniformly and weighed by pi, as the paper's appendix describes KS and
        KS-Pair. "authors": p regressions of N coalitions each, averaged, under efficiency, with
        coalitions drawn from the kernel, which is what the authors' released numbers agree with.
    """

    paired: bool = False
    protocol: Literal["fair", "paper", "authors"] = "fair"

    def __post_init__(self) -> None:
        """Check the options."""
        check_option("protocol", self.protocol, ("fair", "paper", "authors"))

    @property
    def promises(self) -> frozenset[Promise]:
        """Efficient, and exact on pairwise games where paired; the paper's way: nothing."""
        if self.protocol == "paper":
            return frozenset()
        return frozenset({"efficiency", "pairwise"} if self.paired else {"efficiency"})

    @property
    def stops(self) -> bool:
        """Whether a row can stop: after part of the draws, in the fair protocol."""
        return self.protocol == "fair"

    def minimum(self, game: Game) -> int:
        """Return the coalitions without which the regression cannot have full rank; not fair: 2 p +
        2.
        """
        if self.protocol != "fair":
            return 2 + 2 * game.players
        return smallest_regression(game.players, paired=self.paired)

    def design(self, game: Game, budget: int, rng: np.random.Generator) -> Design:
        """Return the design and its regression's weights."""
        if self.protocol != "fair":
            return self._averaged(game, budget, rng)
        share = kernel_mass(game.players)
        draw = pairs_by_size if self.paired else sets_by_size
        return draw(game.players, budget - 2, share, rng).design(game.device)

    def _averaged(self, game: Game, budget: int, rng: np.random.Generator) -> "Averaged":
        """Return the mean of p regressions of N coalitions each."""
        players = game.players
        samples = (budget - 2) // players
        half = samples // 2 if self.paired else samples
        draw = uniform_draws if self.protocol == "paper" else kernel_draws
        drawn = draw(players, players * half, rng).reshape(players, half, players)
        if self.paired:
            drawn = np.concatenate((drawn, ~drawn), axis=1)
        regress = _appendix_regressions if self.protocol == "paper" else _efficient_regressions
        fits, rank = regress(drawn)
        full_rank = players - (self.protocol == "authors")
        _warn_if_singular(rank, full_rank, drawn.shape[1])
        coalitions = with_ends(torch.from_numpy(drawn.reshape(1, -1, players)).to(game.device))
        telling = self.protocol == "authors" and rank == full_rank and players >= FEWEST
        return Averaged(coalitions, torch.from_numpy(fits).to(game.device), telling)


@dataclass(frozen=True)
class Welford(Method):
    """Kernel SHAP with running means (KS-WF; Covert & Lee 2021), one regression on the whole
    budget.

    Coalitions are drawn independently from the Shapley kernel; A_n and b_n are the running means of
    1_S 1_S' and 1_S (v(S) - v(0)), and the shares solve A phi = b under efficiency. A running mean
    of all draws is their mean, so it is taken at once. The paper runs it on the whole budget too:
    the paper's and the fair protocol are the same here.
    """

    @property
    def stops(self) -> bool:
        """Whether a row can stop: after part of the draws."""
        return True

    @property
    def promises(self) -> frozenset[Promise]:
        """Efficient."""
        return frozenset({"efficiency"})

    def minimum(self, game: Game) -> int:
        """Return the coalitions without which the regression cannot have full rank."""
        return smallest_regression(game.players, paired=False)

    def design(self, game: Game, budget: int, rng: np.random.Generator) -> Design:
        """Return independent draws from the kernel, all weighed alike."""
        return Draws(kernel_draws(game.players, budget - 2, rng), np.arange(budget - 2)).design(
            game.device
        )


@dataclass(frozen=True)
class Leverage(Method):
    """Leverage SHAP (Musco & Witter 2025): every size alike, in pairs, without replacement.

    The leverage score of a coalition in the Shapley regression is proportional to 1 / C(p, s), so
    every size gets the same share of the budget; weights are the kernel's over the chance of being
    drawn.
    """

    @property
    def stops(self) -> bool:
        """Whether a row can stop: after part of the draws."""
        return True

    @property
    def promises(self) -> frozenset[Promise]:
        """Efficient, and exact on pairwise games."""
        return frozenset({"efficiency", "pairwise"})

    def minimum(self, game: Game) -> int:
        """Return the coalitions without which the regression cannot have full rank."""
        return smallest_regression(game.players, paired=True)

    def design(self, game: Game, budget: int, rng: np.random.Generator) -> Design:
        """Return the design and its regression's weights."""
        every_size = np.ones(game.players - 1)
        return pairs_by_size(game.players, budget - 2, every_size, rng).design(game.device)


def smallest_regression(players: int, *, paired: bool) -> int:
    """Return 2 + (p - 1) coalitions, or pairs of them: one equation for each unknown beside
    efficiency.
    """
    return min(2 + (2 if paired else 1) * (players - 1), 1 << players)


# Designs


@dataclass(frozen=True, eq=False)
class Draws:
    """What a regression is made on: coalitions, or one side of pairs, and the order in which a part
    is taken.
    """

    sets: Bools  #: (u, p)
    order: NDArray[np.int64]  #: (u,) such that every beginning is spread over sizes as the whole is
    paired: bool = False
    #: independent draws; False: without replacement from the coalitions or pairs of each size
    replaced: bool = True

    @property
    def coalitions(self) -> Bools:
        """The coalitions (c, p) to ask for."""
        return np.concatenate((self.sets, ~self.sets)) if self.paired else self.sets

    def take(self, count: int) -> tuple["Draws", NDArray[np.int64]]:
        """Return the first draws in their order, and which they are."""
        kept = self.order[:count]
        return Draws(self.sets[kept], np.arange(len(kept)), self.paired, self.replaced), kept

    def not_drawn(self) -> Floats:
        """Return which part of the draws there are of its size was left out, for every draw (u,)."""
        if self.replaced:
            return np.ones(len(self.sets))
        players = self.sets.shape[1]
        sizes = self.sets.sum(axis=1)
        sizes = np.minimum(sizes, players - sizes) if self.paired else sizes
        caps = pair_caps(players) if self.paired else [comb(players, s) for s in range(1, players)]
        left = np.array(
            [1 - n / cap for n, cap in zip(np.bincount(sizes)[1:].tolist(), caps, strict=False)]
        )
        return np.asarray(left[sizes - 1])

    def design(self, device: torch.device, *, warn: bool = True) -> "Regression":
        """Return the regression under efficiency on all draws."""
        return Regression(with_ends(torch.from_numpy(self.coalitions).to(device)[None]), self, warn)

    def solution(self, device: torch.device, *, warn: bool) -> "Solution":
        """Solve the regression's equations."""
        inner, players = self.coalitions, self.sets.shape[1]
        weight = np.ones(len(inner)) if self.replaced else _mass_per_draw(inner)
        weights, leverage, rank = constrained_regression(inner, weight)
        if warn:
            _warn_if_singular(rank, players - 1, len(inner))
        spread, freedom = self._spread(weights[:, 2 : 2 + len(self.sets)], leverage, rank)
        told = None if spread is None else torch.from_numpy(spread).to(device)
        return Solution(torch.from_numpy(weights).to(device), told, freedom)

    def _spread(self, theta: Floats, leverage: Floats, rank: int) -> tuple[Floats | None, float]:
        """Return what squared residuals are multiplied by, (p, u), and the degrees of freedom;
        None: they tell nothing.

        Without residuals, or with a draw that the fit must go through, there is no telling how far
        off it is.
        """
        left_out, freedom = self.not_drawn(), len(self.sets) - rank
        free = 1 - (2 * leverage[: len(self.sets)] if self.paired else leverage)
        sampled = left_out > 0
        if not sampled.any():
            return np.zeros_like(theta), inf
        if rank < theta.shape[0] - 1 or freedom < 1 or free[sampled].min() < 1e-6:
            return None, inf
        return theta**2 * np.where(sampled, left_out / free.clip(min=1e-6), 0), freedom


@dataclass(frozen=True)
class Solution:
    """What a regression's equations say of the values that its coalitions will have."""

    weights: Tensor  #: (p, 2 + c)
    spread: Tensor | None  #: (p, u) what a draw's squared residual adds to the variance
    degrees_of_freedom: float


@dataclass(frozen=True, eq=False)
class Regression(Design):
    """Shares are fixed weights times values, phi = W v; what the fit leaves of the values tells
    their errors.
    """

    #: (1, 2 + c, p): the ends, and coalitions, or one side of each pair and then the others
    coalitions: Tensor
    draws: Draws
    warn: bool  #: where the equations are singular

    @cached_property
    def solution(self) -> Solution:
        """The weights, solved for when the first values come: a row that stops early never needs
        the largest ones.
        """
        return self.draws.solution(self.coalitions.device, warn=self.warn)

    def estimate(self, values: Tensor) -> Estimate:
        """Return phi = W v, of values less the base value: W's rows add up to 0, and fewer digits
        are lost.
        """
        centred = values - values[:, :1]
        solution = self.solution
        shares = torch.einsum("pc,rck->rpk", solution.weights, centred)
        if solution.spread is None:
            return Estimate(shares)
        residuals, size = normalised(self._residuals(centred[:, 2:], shares), 1)
        variance = torch.einsum("pu,ruk->rpk", solution.spread, residuals.square())
        return Estimate(shares, size * variance.sqrt(), solution.degrees_of_freedom)

    def first(self, coalitions: int) -> Stage:
        """Return the regression on the first draws."""
        copies = 2 if self.draws.paired else 1
        draws, kept = self.draws.take((coalitions - 2) // copies)
        columns = np.concatenate(
            [[EMPTY, FULL], *(2 + kept + side * len(self.draws.sets) for side in range(copies))]
        )
        device = self.coalitions.device
        return Stage(torch.from_numpy(columns).to(device), draws.design(device, warn=False))

    def _residuals(self, values: Tensor, shares: Tensor) -> Tensor:
        """Return v(S) - v(0) - sum_{i in S} phi_i of every draw, (r, u, k); of a pair, that of S
        less its complement's.

        A pair's weights are theta and -theta, so that theta times this difference is what the pair
        adds.
        """
        count = len(self.draws.sets)
        sets = self.coalitions[0, 2 : 2 + count].to(values.dtype)
        if self.draws.paired:
            return (
                values[:, :count]
                - values[:, count:]
                - torch.einsum("up,rpk->ruk", 2 * sets - 1, shares)
            )
        return values - torch.einsum("up,rpk->ruk", sets, shares)


@dataclass(frozen=True)
class Averaged(Design):
    """The mean of m independent regressions, whose own spread tells its standard error.

    Not where they are singular or fewer than four or, in the paper's way, not efficient: then their
    common bias is what matters.
    """

    coalitions: Tensor  #: (1, 2 + m c, p)
    weights: Tensor  #: (m, p, 2 + c)
    telling: bool  #: whether there are standard errors

    def estimate(self, values: Tensor) -> Estimate:
        """Return the mean of the regressions' answers."""
        count = len(self.weights)
        centred = values - values[:, :1]
        inner = centred[:, 2:].unflatten(1, (count, -1))
        answers = torch.einsum("mpc,rmck->rmpk", self.weights[:, :, 2:], inner)
        answers = answers + torch.einsum("mp,rk->rmpk", self.weights[:, :, FULL], centred[:, FULL])
        if not self.telling:
            return Estimate(answers.mean(dim=1))
        return Estimate(answers.mean(dim=1), sample_deviation(answers, 1) / sqrt(count), count - 1)


# Draws


def pairs_by_size(players: int, draws: int, share: Floats, rng: np.random.Generator) -> Draws:
    """Draw pairs without replacement, `share` (p-1,) of them by size."""
    folded = np.array(
        [
            share[s - 1] + (share[players - s - 1] if 2 * s < players else 0)
            for s in _pair_sizes(players)
        ]
    )
    counts = allocate(draws // 2, folded, pair_caps(players), rng)
    half = distinct_pairs(players, counts.tolist(), rng)
    return Draws(half, interleaved(counts, folded, rng), paired=True, replaced=False)


def sets_by_size(players: int, draws: int, share: Floats, rng: np.random.Generator) -> Draws:
    """Draw sets without replacement, `share` (p-1,) of them by size."""
    sizes = range(1, players)
    counts = allocate(draws, share, [comb(players, s) for s in sizes], rng)
    inner = np.concatenate(
        [distinct_sets(players, s, int(n), rng) for s, n in zip(sizes, counts, strict=True)]
    )
    return Draws(inner, interleaved(counts, share, rng), replaced=False)


def interleaved(
    counts: NDArray[np.int64], share: Floats, rng: np.random.Generator
) -> NDArray[np.int64]:
    """Return an order of draws that lie size by size, `counts` of each: every beginning is shared
    out as `share` says.

    The j-th draw of a size comes at j / share; a size of which all were drawn early is exhausted,
    as in `allocate`. Within a size the order is random. These are the last numbers drawn: they
    change no design.
    """
    turns = np.concatenate(
        [(rng.permutation(n) + rng.random()) / part for n, part in zip(counts, share, strict=True)]
    )
    return np.argsort(turns, kind="stable")


# Regressions


def constrained_regression(inner: Bools, weight: Floats) -> tuple[Floats, Floats, int]:
    """Return the weights (p, 2 + c) of the regression under efficiency, with the total D = v(U) -
    v(0):

        phi = D/p 1 + argmin over theta, sum theta = 0, of sum_S w_S (v(S) - v(0) - D |S|/p - sum_{i
        in S} theta_i)^2,

    with the coalitions' leverages (c,) and the rank. Centring the indicators makes theta's sum 0 by
    itself: the least-norm solution lies in their span.
    """
    players = inner.shape[1]
    part = inner.mean(axis=1)
    root = np.sqrt(weight)
    matrix = root[:, None] * (inner - part[:, None])
    fit, rank = _least_norm(matrix)
    theta = fit * root
    weights = np.column_stack((-theta.sum(axis=1), np.zeros(players), theta))
    total = 1 / players - theta @ part
    weights[:, FULL] += total
    weights[:, EMPTY] -= total
    return weights, np.einsum("cp,pc->c", matrix, fit), rank


def _appendix_regressions(drawn: Bools) -> tuple[Floats, int]:
    """Return the weights (m, p, 2 + c) of unconstrained regressions on coalitions (m, c, p),
    weighed by pi.
    """
    weight = _coalition_weight(drawn.shape[2])[drawn.sum(axis=2)]
    fits, rank = unconstrained_regression(drawn.astype(np.float64), weight)
    base = -fits.sum(axis=2, keepdims=True)
    return np.concatenate((base, np.zeros_like(base), fits), axis=2), rank


def _efficient_regressions(drawn: Bools) -> tuple[Floats, int]:
    """Return the weights (m, p, 2 + c) of regressions under efficiency on coalitions (m, c, p), and
    the least rank.
    """
    fits = [constrained_regression(inner, np.ones(len(inner))) for inner in drawn]
    return np.stack([weights for weights, _, _ in fits]), min(rank for _, _, rank in fits)


def unconstrained_regression(inner: Floats, weight: Floats) -> tuple[Floats, int]:
    """Return (A' W A)^-1 A' W of a stack of regressions, A (m, c, p), W (m, c) to (m, p, c), and
    the least rank.

    A singular one gets its least-norm solution.
    """
    root = np.sqrt(weight)[..., None]
    fit, rank = _least_norm(root * inner)
    return np.asarray(fit * np.swapaxes(root, -1, -2)), rank


def _least_norm(matrix: Floats) -> tuple[Floats, int]:
    """Return the pseudo-inverses (..., p, c) of matrices (..., c, p), and the smallest rank."""
    left, scales, right = np.linalg.svd(matrix, full_matrices=False)
    kept = scales > scales.max(axis=-1, keepdims=True, initial=0) * 1e-10
    inverse = np.where(kept, 1 / np.where(kept, scales, 1), 0)
    return np.swapaxes(right, -1, -2) * inverse[..., None, :] @ np.swapaxes(left, -1, -2), int(
        kept.sum(axis=-1).min()
    )


def _warn_if_singular(rank: int, needed: int, coalitions: int) -> None:
    if rank < needed:
        warnings.warn(
            f"a regression on {coalitions} coalitions has rank {rank} of {needed}: its least-norm "
            "solution is "
            "used, which shares out what the coalitions drawn do not tell; a larger budget helps",
            ShearWarning,
            stacklevel=level_of_caller(),
        )


def _mass_per_draw(inner: Bools) -> Floats:
    """Return each coalition's weight: its size's kernel mass, shared by the coalitions drawn of
    that size.
    """
    players = inner.shape[1]
    sizes = inner.sum(axis=1)
    drawn = np.bincount(sizes, minlength=players)
    return np.asarray(kernel_mass(players)[sizes - 1] / drawn[sizes])


def _coalition_weight(players: int) -> Floats:
    """Return pi_S by size, (p + 1,), as eq. (KS) of the appendix prints it; 0 at the ends, which
    are not drawn.
    """
    inner = [(players - 1) / (comb(players, s) * s * (players - s)) for s in range(1, players)]
    return np.array([0.0, *inner, 0.0])


def kernel_draws(players: int, count: int, rng: np.random.Generator) -> Bools:
    """Draw sets independently from the Shapley kernel, (count, p)."""
    sizes = rng.choice(np.arange(1, players), size=count, p=kernel_mass(players))
    ranks = rng.random((count, players)).argsort(axis=1).argsort(axis=1)
    return np.asarray(ranks < sizes[:, None])


def uniform_draws(players: int, count: int, rng: np.random.Generator) -> Bools:
    """Draw sets uniformly from all but the empty and the full one, (count, p)."""
    drawn = rng.random((count, players)) < 0.5
    while (ends := drawn.all(axis=1) | ~drawn.any(axis=1)).any():
        drawn[ends] = rng.random((int(ends.sum()), players)) < 0.5
    return drawn


def _pair_sizes(players: int) -> range:
    return range(1, players // 2 + 1)
