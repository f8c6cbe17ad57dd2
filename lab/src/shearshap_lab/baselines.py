"""The paper's baselines as it ran them, if that differs from the methods one would use.

Two readings of each baseline:

- as the paper's appendix describes it (KS, KS-Pair, PS, APS): names that end in -paper, or in
  -coin-paper if the appendix's random sets are drawn by fair coins
- as the authors' released numbers were made: names that end in -authors

All of them split N p evaluations into N for each player. They are used as instances:
`explain(..., method=BASELINES["kernel-paper"])`, and have no standard errors. KS-WF spends the
whole budget in one regression in every reading: it is `METHODS["kernel-welford"]`.

Letters: m regressions, n draws of each player.
"""

from abc import abstractmethod
from dataclasses import dataclass
from math import comb, inf
from typing import ClassVar

import numpy as np
import torch
from torch import Tensor

from shearshap.games.coalitions import FULL, Bools, Floats, with_ends
from shearshap.games.game import GameInfo
from shearshap.methods.base import Design, Estimate, Method, Promise, as_tensor
from shearshap.methods.kernel import (
    constrained_regression,
    kernel_draws,
    least_norm,
    warn_if_singular,
)
from shearshap.methods.permutation import JoiningOrders, chains, random_orders
from shearshap.methods.shear import Differences


class Baseline(Method):
    """A method that samples however large the budget: it never lists all coalitions."""

    enumerates: ClassVar[bool] = False


# Kernel regressions


@dataclass(frozen=True)
class AveragedKernel(Baseline):
    """Kernel SHAP as the mean of p regressions of N coalitions each."""

    paired: bool = False  #: evaluate the complement of every coalition too

    def minimum(self, game: GameInfo) -> int:
        """Return two coalitions for each of the p regressions, and the ends."""
        return 2 + 2 * game.players

    def design(self, game: GameInfo, budget: int, rng: np.random.Generator) -> "MeanOfRegressions":
        """Return m = p regressions on coalitions of their own."""
        players = game.players
        draws = (budget - 2) // players // (2 if self.paired else 1)
        drawn = self.draw(players, players * draws, rng).reshape(players, draws, players)
        if self.paired:
            drawn = np.concatenate((drawn, ~drawn), axis=1)
        weights, rank = self.regressions(drawn)
        # a regression under efficiency knows the last of its p unknowns
        unknowns = players - ("efficiency" in self.promises)
        warn_if_singular(rank, unknowns, drawn.shape[1])
        coalitions = with_ends(as_tensor(drawn.reshape(1, -1, players), game))
        return MeanOfRegressions(coalitions, as_tensor(weights, game))

    @abstractmethod
    def draw(self, players: int, count: int, rng: np.random.Generator) -> Bools:
        """Draw coalitions independently, (count, p)."""

    @abstractmethod
    def regressions(self, drawn: Bools) -> tuple[Floats, int]:
        """Return the weights (m, p, 2 + c) on coalitions (m, c, p), and the smallest rank."""


@dataclass(frozen=True)
class AppendixKernel(AveragedKernel):
    """KS and KS-Pair as the paper's appendix describes them.

    Regressions without the constraint of efficiency, on coalitions that are drawn uniformly and
    weighed by pi.
    """

    @property
    def promises(self) -> frozenset[Promise]:
        """None."""
        return frozenset()

    def draw(self, players: int, count: int, rng: np.random.Generator) -> Bools:
        """Draw coalitions uniformly from all but the empty and the full one."""
        drawn = rng.random((count, players)) < 0.5
        while (ends := drawn.all(axis=1) | ~drawn.any(axis=1)).any():
            drawn[ends] = rng.random((int(ends.sum()), players)) < 0.5
        return drawn

    def regressions(self, drawn: Bools) -> tuple[Floats, int]:
        """Return the weights (A' W A)^-1 A' W; a singular one gets its least-norm solution."""
        root = np.sqrt(coalition_weights(drawn.shape[2])[drawn.sum(axis=2)])[..., None]
        inverse, rank = least_norm(root * drawn)
        fits = inverse * np.swapaxes(root, -1, -2)
        empty = -fits.sum(axis=2, keepdims=True)
        return np.concatenate((empty, np.zeros_like(empty), fits), axis=2), rank


@dataclass(frozen=True)
class AuthorsKernel(AveragedKernel):
    """KS and KS-Pair as the authors' released numbers were made.

    Regressions under efficiency, on coalitions that are drawn from the kernel.
    """

    @property
    def promises(self) -> frozenset[Promise]:
        """Efficient and, if paired, exact on pairwise games."""
        return frozenset({"efficiency", "pairwise"} if self.paired else {"efficiency"})

    def draw(self, players: int, count: int, rng: np.random.Generator) -> Bools:
        """Draw coalitions from the Shapley kernel."""
        return kernel_draws(players, count, rng)

    def regressions(self, drawn: Bools) -> tuple[Floats, int]:
        """Return the weights of regressions under efficiency."""
        fits = [constrained_regression(inner, np.ones(len(inner))) for inner in drawn]
        weights = np.stack([fit.weights for fit in fits])
        return weights, min(fit.rank for fit in fits)


@dataclass(frozen=True)
class MeanOfRegressions(Design):
    """The mean of m independent regressions."""

    coalitions: Tensor  #: (1, 2 + m c, p)
    weights: Tensor  #: (m, p, 2 + c)

    def estimate(self, values: Tensor) -> Estimate:
        """Return the mean of the regressions' answers."""
        count = len(self.weights)
        centred = values - values[:, :1]
        inner = centred[:, 2:].unflatten(1, (count, -1))
        answers = torch.einsum("mpc,rmck->rmpk", self.weights[:, :, 2:], inner)
        answers = answers + torch.einsum("mp,rk->rmpk", self.weights[:, :, FULL], centred[:, FULL])
        return Estimate(answers.mean(dim=1))


def coalition_weights(players: int) -> Floats:
    """Return pi_S by size, (p + 1,), as eq. (KS) of the appendix prints it.

    It is 0 for the empty and the full coalition, which are not drawn.
    """
    inner = [(players - 1) / (comb(players, s) * s * (players - s)) for s in range(1, players)]
    return np.array([0.0, *inner, 0.0])


# Permutations


@dataclass(frozen=True)
class AppendixPermutation(Baseline):
    """PS and APS as the paper's appendix describes them: N evaluations for each player alone.

    These are N/2 random sets S of the other players, and v(S + i) - v(S). The appendix says of S
    that it is "randomly selected from the feature space", which can be read in two ways.

    Parameters
    ----------
    antithetic
        Whether every set is followed by its complement among the other players.
    coin
        False: S are the players before i in a random order, which gives the Shapley value. True:
        each other player is in S by a fair coin, which gives the Banzhaf value instead.
    """

    antithetic: bool = False
    coin: bool = False

    @property
    def promises(self) -> frozenset[Promise]:
        """Nothing for null players, unbiased by orders and, antithetic, exact on pairwise games."""
        promised: set[Promise] = {"null-player"}
        if not self.coin:
            promised.add("unbiased")
        if self.antithetic:
            promised.add("pairwise")
        return frozenset(promised)

    def minimum(self, game: GameInfo) -> int:
        """Return the coalitions of one draw for each player, with and without it."""
        return 2 + game.players * (4 if self.antithetic else 2)

    def design(self, game: GameInfo, budget: int, rng: np.random.Generator) -> Differences:
        """Return differences of each player at sets of its own."""
        players = game.players
        draws = (budget - 2) // (self.minimum(game) - 2)
        others = self._others(players, draws, rng)
        if self.antithetic:
            others = np.concatenate((others, ~others), axis=1)

        count = others.shape[1]
        weights = torch.full((count,), 1 / count, dtype=torch.float64, device=game.device)
        return Differences.of(as_tensor(others, game)[None], weights)

    def _others(self, players: int, draws: int, rng: np.random.Generator) -> Bools:
        """Return the sets S of each player, (p, n, p); whether it holds the player is ignored."""
        turn = rng.random((players, draws, players))
        if self.coin:
            return np.asarray(turn < 0.5)
        # the players who come before player i in a random order are its set S
        own = np.einsum("ini->in", turn)
        return np.asarray(turn < own[:, :, None])


@dataclass(frozen=True)
class AuthorsPermutation(Baseline):
    """PS and APS as the authors' released results were made.

    N whole permutations for N evaluations a player. Antithetic, an off-by-one leaves two of them
    unpaired: N/2 - 1 orders are followed by their reverses, and two stand alone.
    """

    antithetic: bool = False

    @property
    def promises(self) -> frozenset[Promise]:
        """Efficient, unbiased, nothing for null players."""
        return frozenset({"efficiency", "unbiased", "null-player"})

    def minimum(self, game: GameInfo) -> int:
        """Return the budget of one permutation or, antithetic, of the two that stand alone.

        A permutation counts p evaluations here, though its last prefix is the full coalition.
        """
        copies = 2 if self.antithetic else 1
        return 2 + copies * game.players

    def design(self, game: GameInfo, budget: int, rng: np.random.Generator) -> JoiningOrders:
        """Return N orders, partly reverses of each other if antithetic."""
        count = (budget - 2) // game.players
        if not self.antithetic:
            orders = random_orders(game.players, count, rng)
        else:
            pairs = count // 2 - 1
            drawn = random_orders(game.players, pairs + 2, rng)
            orders = np.concatenate((drawn, drawn[:pairs, ::-1]))
        return OrdersWithoutErrors(chains(orders, game), as_tensor(orders, game))


@dataclass(frozen=True)
class OrdersWithoutErrors(JoiningOrders):
    """Joining orders, some of which are reverses of others: no standard errors."""

    def errors(self, _gains: Tensor, _jumps: Tensor) -> tuple[Tensor | None, float]:
        """Return none."""
        return None, inf


BASELINES: dict[str, Method] = {
    "kernel-paper": AppendixKernel(),
    "kernel-paired-paper": AppendixKernel(paired=True),
    "permutation-paper": AppendixPermutation(),
    "permutation-antithetic-paper": AppendixPermutation(antithetic=True),
    "permutation-coin-paper": AppendixPermutation(coin=True),
    "permutation-antithetic-coin-paper": AppendixPermutation(antithetic=True, coin=True),
    "kernel-authors": AuthorsKernel(),
    "kernel-paired-authors": AuthorsKernel(paired=True),
    "permutation-authors": AuthorsPermutation(),
    "permutation-antithetic-authors": AuthorsPermutation(antithetic=True),
}
"""The paper's baselines by name: as in its appendix (-paper), and as its authors ran them
(-authors).
"""
