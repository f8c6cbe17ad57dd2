"""Kernel regressions: Shapley values as the weighted least-squares linear fit to the game.

    min over phi of sum_S pi_S (v(S) - v(0) - sum_{i in S} phi_i)^2,   pi_S = (p-1) / (C(p,s) s (p-s)),

subject to efficiency, sum phi = v(U) - v(0). Methods differ in which coalitions stand for all of them.
"""

import warnings
from dataclasses import dataclass
from math import comb
from typing import Literal

import numpy as np

from shearshap.design import (
    EMPTY,
    FULL,
    Bools,
    Floats,
    Linear,
    Method,
    Promise,
    allocate,
    check_option,
    distinct_pairs,
    distinct_sets,
    kernel_mass,
    linear,
    pair_caps,
)
from shearshap.errors import ShearWarning
from shearshap.game import Game


@dataclass(frozen=True)
class Kernel(Method):
    """Kernel SHAP (Lundberg & Lee 2017; pairs: Covert & Lee 2021).

    Parameters
    ----------
    paired
        Ask for the complement of every coalition too.
    protocol
        "fair": one constrained regression on the whole budget; sizes drawn by kernel mass, without
        replacement, so that small and large sizes are enumerated as soon as their share of the budget holds
        them. "paper": p regressions of N coalitions each, averaged, unconstrained, with coalitions drawn
        uniformly and weighed by pi, as the paper's appendix describes KS and KS-Pair. "authors": p regressions
        of N coalitions each, averaged, under efficiency, with coalitions drawn from the kernel, which is what
        the authors' released numbers agree with.
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

    def minimum(self, game: Game) -> int:
        """Return the coalitions without which the regression cannot have full rank; not fair: 2 p + 2."""
        if self.protocol != "fair":
            return 2 + 2 * game.players
        return smallest_regression(game.players, paired=self.paired)

    def design(self, game: Game, budget: int, rng: np.random.Generator) -> Linear:
        """Return the design and its regression's weights."""
        if self.protocol != "fair":
            return self._averaged(game, budget, rng)
        draw = pairs_by_size if self.paired else sets_by_size
        return linear(*draw(game.players, budget - 2, kernel_mass(game.players), rng), game.device)

    def _averaged(self, game: Game, budget: int, rng: np.random.Generator) -> Linear:
        """Return the mean of p regressions of N coalitions each."""
        players = game.players
        samples = (budget - 2) // players
        half = samples // 2 if self.paired else samples
        draw = uniform_draws if self.protocol == "paper" else kernel_draws
        drawn = draw(players, players * half, rng).reshape(players, half, players)
        if self.paired:
            drawn = np.concatenate((drawn, ~drawn), axis=1)
        fits = _appendix_regressions(drawn) if self.protocol == "paper" else _efficient_regressions(drawn)
        inner = np.moveaxis(fits[:, :, 2:], 0, 1).reshape(players, -1) / players
        return linear(
            drawn.reshape(-1, players), np.column_stack((fits[:, :, :2].mean(axis=0), inner)), game.device
        )  # fmt: skip


@dataclass(frozen=True)
class Welford(Method):
    """Kernel SHAP with running means (KS-WF; Covert & Lee 2021), one regression on the whole budget.

    Coalitions are drawn independently from the Shapley kernel; A_n and b_n are the running means of
    1_S 1_S' and 1_S (v(S) - v(0)), and the shares solve A phi = b under efficiency. A running mean of all
    draws is their mean, so it is taken at once. The paper runs it on the whole budget too: the paper's and
    the fair protocol are the same here.
    """

    @property
    def promises(self) -> frozenset[Promise]:
        """Efficient."""
        return frozenset({"efficiency"})

    def minimum(self, game: Game) -> int:
        """Return the coalitions without which the regression cannot have full rank."""
        return smallest_regression(game.players, paired=False)

    def design(self, game: Game, budget: int, rng: np.random.Generator) -> Linear:
        """Return independent draws from the kernel, all weighed alike."""
        inner = kernel_draws(game.players, budget - 2, rng)
        return linear(inner, constrained_regression(inner, np.ones(len(inner))), game.device)


@dataclass(frozen=True)
class Leverage(Method):
    """Leverage SHAP (Musco & Witter 2025): every size alike, in pairs, without replacement.

    The leverage score of a coalition in the Shapley regression is proportional to 1 / C(p, s), so every
    size gets the same share of the budget; weights are the kernel's over the chance of being drawn.
    """

    @property
    def promises(self) -> frozenset[Promise]:
        """Efficient, and exact on pairwise games."""
        return frozenset({"efficiency", "pairwise"})

    def minimum(self, game: Game) -> int:
        """Return the coalitions without which the regression cannot have full rank."""
        return smallest_regression(game.players, paired=True)

    def design(self, game: Game, budget: int, rng: np.random.Generator) -> Linear:
        """Return the design and its regression's weights."""
        every_size = np.ones(game.players - 1)
        return linear(*pairs_by_size(game.players, budget - 2, every_size, rng), game.device)


def smallest_regression(players: int, *, paired: bool) -> int:
    """Return 2 + (p - 1) coalitions, or pairs of them: one equation for each unknown beside efficiency."""
    return min(2 + (2 if paired else 1) * (players - 1), 1 << players)


def pairs_by_size(players: int, draws: int, share: Floats, rng: np.random.Generator) -> tuple[Bools, Floats]:
    """Draw pairs without replacement, `share` (p-1,) of them by size: coalitions (c, p), weights (p, 2 + c)."""
    folded = [share[s - 1] + (share[players - s - 1] if 2 * s < players else 0) for s in _pair_sizes(players)]
    counts = allocate(draws // 2, np.array(folded), pair_caps(players), rng)
    half = distinct_pairs(players, counts.tolist(), rng)
    inner = np.concatenate((half, ~half))
    return inner, constrained_regression(inner, _mass_per_draw(inner))


def sets_by_size(players: int, draws: int, share: Floats, rng: np.random.Generator) -> tuple[Bools, Floats]:
    """Draw sets without replacement, `share` (p-1,) of them by size: coalitions (c, p), weights (p, 2 + c)."""
    sizes = range(1, players)
    counts = allocate(draws, share, [comb(players, s) for s in sizes], rng)
    inner = np.concatenate([distinct_sets(players, s, int(n), rng) for s, n in zip(sizes, counts, strict=True)])
    return inner, constrained_regression(inner, _mass_per_draw(inner))


def constrained_regression(inner: Bools, weight: Floats) -> Floats:
    """Return the weights (p, 2 + c) of the regression under efficiency, with the total D = v(U) - v(0):

        phi = D/p 1 + argmin over theta, sum theta = 0, of sum_S w_S (v(S) - v(0) - D |S|/p - sum_{i in S} theta_i)^2.

    Centring the indicators makes theta's sum 0 by itself: the least-norm solution lies in their span.
    """
    players = inner.shape[1]
    part = inner.mean(axis=1)
    root = np.sqrt(weight)
    fit, rank = _least_norm(root[:, None] * (inner - part[:, None]))
    _warn_if_singular(rank, players - 1, len(inner))
    theta = fit * root
    weights = np.column_stack((-theta.sum(axis=1), np.zeros(players), theta))
    total = 1 / players - theta @ part
    weights[:, FULL] += total
    weights[:, EMPTY] -= total
    return weights


def _appendix_regressions(drawn: Bools) -> Floats:
    """Return the weights (m, p, 2 + c) of unconstrained regressions on coalitions (m, c, p), weighed by pi."""
    fits = unconstrained_regression(drawn.astype(np.float64), _coalition_weight(drawn.shape[2])[drawn.sum(axis=2)])
    base = -fits.sum(axis=2, keepdims=True)
    return np.concatenate((base, np.zeros_like(base), fits), axis=2)


def _efficient_regressions(drawn: Bools) -> Floats:
    """Return the weights (m, p, 2 + c) of regressions under efficiency on coalitions (m, c, p), all weighed alike."""
    return np.stack([constrained_regression(inner, np.ones(len(inner))) for inner in drawn])


def unconstrained_regression(inner: Floats, weight: Floats) -> Floats:
    """Return (A' W A)^-1 A' W of a stack of regressions: A (m, c, p), W (m, c) to (m, p, c).

    A singular one gets its least-norm solution, and a warning.
    """
    root = np.sqrt(weight)[..., None]
    fit, rank = _least_norm(root * inner)
    _warn_if_singular(rank, inner.shape[-1], inner.shape[-2])
    return np.asarray(fit * np.swapaxes(root, -1, -2))


def _least_norm(matrix: Floats) -> tuple[Floats, int]:
    """Return the pseudo-inverses (..., p, c) of matrices (..., c, p), and the smallest rank."""
    left, scales, right = np.linalg.svd(matrix, full_matrices=False)
    kept = scales > scales.max(axis=-1, keepdims=True, initial=0) * 1e-10
    inverse = np.where(kept, 1 / np.where(kept, scales, 1), 0)
    return np.swapaxes(right, -1, -2) * inverse[..., None, :] @ np.swapaxes(left, -1, -2), int(kept.sum(axis=-1).min())


def _warn_if_singular(rank: int, needed: int, coalitions: int) -> None:
    if rank < needed:
        warnings.warn(
            f"a regression on {coalitions} coalitions has rank {rank} of {needed}: its least-norm solution is "
            "used, which shares out what the coalitions drawn do not tell; a larger budget helps",
            ShearWarning,
            stacklevel=7,
        )


def _mass_per_draw(inner: Bools) -> Floats:
    """Return each coalition's weight: its size's kernel mass, shared by the coalitions drawn of that size."""
    players = inner.shape[1]
    sizes = inner.sum(axis=1)
    drawn = np.bincount(sizes, minlength=players)
    return np.asarray(kernel_mass(players)[sizes - 1] / drawn[sizes])


def _coalition_weight(players: int) -> Floats:
    """Return pi_S by size, (p + 1,), as eq. (KS) of the appendix prints it; 0 at the ends, which are not drawn."""
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
