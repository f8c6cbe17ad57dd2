"""SHEAR: enumerate coalitions of each player's contributive cooperators (the paper's Algorithm 1)."""

from dataclasses import dataclass
from math import comb, inf
from typing import Literal, get_args

import numpy as np
import torch
from torch import Tensor

from shearshap.game import Game
from shearshap.interactions.cross import (
    Interaction,
    cross_contribution,
    second_difference_evaluations,
    takes_evaluations,
)
from shearshap.methods.base import Method, Promise, check_option
from shearshap.methods.coalitions import Bools, Floats, as_tensor, subsets
from shearshap.methods.differences import Differences
from shearshap.methods.spread import normalised


@dataclass(frozen=True)
class Shear(Method):
    """SHEAR (Wang et al. 2022). For player i, with cooperators S_i the K players of largest eta_ij:

        phi_i = sum over S_n in 2^{S_i} of [v(S_n + V_n + i) - v(S_n + V_n)] / ((K + 1) C(K,
        |S_n|)),

    N = 2^(K+1) evaluations for each player; the largest power of two that fits the budget is taken.

    Parameters
    ----------
    antithetical
        Whether the other players form random backgrounds V_n, complements of each other for S_n and
        its complement (Section 4.2). False: they stay absent (the ablation without antithetical
        sampling).
    selection
        "cross-contribution", or "random" cooperators (the ablation without cooperator selection).
    unbiased
        False: V_n takes each other player with probability 1/2, as in the paper, which is biased.
        True: with probability q ~ Beta(|S_n| + 1, K - |S_n| + 1), the distribution of a coalition's
        density given S_n, which is not, at the same cost.
    interaction
        How cross-contribution is found; see `shearshap.interactions.cross`. Second differences are
        evaluations, and come out of the budget.
    """

    antithetical: bool = True
    selection: Literal["cross-contribution", "random"] = "cross-contribution"
    unbiased: bool = False
    interaction: Interaction = "auto"

    def __post_init__(self) -> None:
        """Check the options."""
        check_option("selection", self.selection, ("cross-contribution", "random"))
        check_option("interaction", self.interaction, get_args(Interaction))

    @property
    def promises(self) -> frozenset[Promise]:
        """A null player gets nothing; antithetical backgrounds make pairwise games exact."""
        always: set[Promise] = {"null-player"}
        pairwise: set[Promise] = {"pairwise"} if self.antithetical else set()
        unbiased: set[Promise] = {"unbiased"} if self.antithetical and self.unbiased else set()
        return frozenset(always | pairwise | unbiased)

    def minimum(self, game: Game) -> int:
        """Return the coalitions of N = 4, one cooperator and its antithetical pair, and of second
        differences.
        """
        return self._looks(game) + 2 + 4 * game.players

    def full(self, game: Game) -> int:
        """Return the coalitions at which every other player is a cooperator: N = 2^p for each."""
        return self._looks(game) + 2 + (game.players << game.players)

    def ample(self, game: Game) -> int:
        """Return the coalitions of N = 16, three cooperators, and of second differences."""
        return self._looks(game) + 2 + 16 * game.players

    def _looks(self, game: Game) -> int:
        """Return the coalitions that the selection asks for."""
        looks = self.selection == "cross-contribution" and takes_evaluations(game, self.interaction)
        return second_difference_evaluations(game.players) if looks else 0

    def design(self, game: Game, budget: int, rng: np.random.Generator) -> Differences:
        """Select every row's cooperators, and return the design of their coalitions."""
        cooperators = most_cooperators(budget - self._looks(game), game.players)
        chosen = subsets(cooperators)
        density = self._density(chosen, game.players, rng)
        backgrounds = as_tensor(self._backgrounds(density, game.players, rng), game)
        ranked = self._ranked(game, rng)[:, :, :cooperators]
        others = join(backgrounds, ranked, as_tensor(chosen, game))
        layout = Mirrored if "unbiased" in self.promises else Differences
        return layout.of(others, as_tensor(subset_weights(chosen), game), shared=False)

    def _density(self, chosen: Bools, players: int, rng: np.random.Generator) -> Floats:
        """Return the chance with which another player joins V_n, (p, n): the second half mirrors
        the first.
        """
        size = chosen.sum(axis=1)
        shape = (players, len(chosen))
        if not self.unbiased:
            return np.full(shape, 0.5)
        return rng.beta(size + 1, chosen.shape[1] - size + 1, size=shape)

    def _backgrounds(self, density: Floats, players: int, rng: np.random.Generator) -> Bools:
        """Return the backgrounds V_n, (p, n, p), complements for n + n' = N/2 + 1."""
        if not self.antithetical:
            return np.zeros((*density.shape, players), dtype=bool)
        drawn = rng.random((*density.shape, players)) < density[..., None]
        half = density.shape[1] // 2
        drawn[:, density.shape[1] - half :] = ~drawn[:, :half][:, ::-1]
        return drawn

    def _ranked(self, game: Game, rng: np.random.Generator) -> Tensor:
        """Return every player's cooperators, the best first, (r, p, p-1)."""
        if self.selection == "random":
            eta = as_tensor(rng.random((1, game.players, game.players)), game).expand(
                game.rows, -1, -1
            )
        else:
            eta = cross_contribution(game, self.interaction)
        own = torch.eye(game.players, dtype=torch.bool, device=game.device)
        # rounded, so that players who are alike but for rounding tie; a stable sort then goes by
        # their number
        size = eta.amax(dim=(1, 2), keepdim=True).clamp_min(torch.finfo(eta.dtype).tiny)
        grid = (eta / size * 1e4).round().masked_fill(own, -1)
        return grid.argsort(dim=2, descending=True, stable=True)[:, :, :-1]


@dataclass(frozen=True)
class Mirrored(Differences):
    """Differences of all subsets of a player's cooperators; those of subset n and of the n-th last
    form a pair.
    """

    def errors(self, differences: Tensor) -> tuple[Tensor | None, float]:
        """Return the standard errors (r, p, k) of differences (r, p, n, k) by collapsed strata.

        Each pair of subsets has one draw of its backgrounds. Two pairs that differ in one
        cooperator, the last, stand for two draws of one stratum: with d the difference of their
        means, var = sum (w^2 + w'^2) d^2 / 2, which is too large by what that cooperator changes.
        """
        players, half = differences.shape[1], differences.shape[2] // 2
        if 2 * half == 1 << (players - 1):
            return torch.zeros_like(differences[:, :, 0]), inf
        if half < 2:
            return None, inf
        means = (differences[:, :, :half] + differences[:, :, half:].flip(2)) / 2
        weight = (2 * self.weights[:half]).square()
        quarter = half // 2
        apart, size = normalised(means[:, :, :quarter] - means[:, :, quarter:].flip(2), 2)
        both = weight[:quarter] + weight[quarter:].flip(0)
        return size[:, :, 0] * torch.einsum("n,rpnk->rpk", both / 2, apart.square()).sqrt(), quarter


def most_cooperators(budget: int, players: int) -> int:
    """Return K = log2(N) - 1 for the largest N = 2^(K+1) with N p + 2 <= budget, at most p - 1."""
    return min(((budget - 2) // players).bit_length() - 2, players - 1)


def subset_weights(chosen: Bools) -> Floats:
    """Return the weight 1 / ((K + 1) C(K, |S|)) of every subset (n, K) of the K cooperators."""
    cooperators = chosen.shape[1]
    by_size = np.array(
        [1 / ((cooperators + 1) * comb(cooperators, s)) for s in range(cooperators + 1)]
    )
    return np.asarray(by_size[chosen.sum(axis=1)])


def join(backgrounds: Tensor, cooperators: Tensor, chosen: Tensor) -> Tensor:
    """Return the coalitions S_n + V_n, (r, p, n, p).

    `backgrounds` (p, n, p) say who joins, `cooperators` (r, p, K) are the players of whom `chosen`
    (n, K) decides instead.
    """
    rows, players, count = *cooperators.shape[:2], len(chosen)
    others = backgrounds.expand(rows, -1, -1, -1).clone()
    index = cooperators[:, :, None].expand(-1, -1, count, -1)
    return others.scatter_(3, index, chosen.expand(rows, players, -1, -1))
