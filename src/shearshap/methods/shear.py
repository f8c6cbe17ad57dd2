"""SHEAR: enumerate coalitions of each player's contributive cooperators (Algorithm 1 of the paper).

One player i of six, with K = 2 cooperators {1, 4}. S_n are the subsets of its cooperators. The
other players, the outsiders, join at random as V_n, and the n-th last subset has the complement of
the n-th subset's:

    n   S_n      V_n among {2, 3, 5}      coalitions for player i = 0
    0   -        2                        {2}, {0, 2}
    1   1        3 5                      {1, 3, 5}, {0, 1, 3, 5}
    2   4        2    (complement of 1)   {2, 4}, {0, 2, 4}
    3   1 4      3 5  (complement of 0)   {1, 3, 4, 5}, {0, 1, 3, 4, 5}
"""

from dataclasses import dataclass
from math import comb, inf
from typing import Literal, get_args

import numpy as np
import torch
from torch import Tensor

from shearshap.games.coalitions import Bools, Floats, subsets, with_ends
from shearshap.games.game import GameInfo
from shearshap.interactions.cross import (
    CrossKind,
    second_difference_coalitions,
    takes_evaluations,
)
from shearshap.methods.base import (
    Design,
    Estimate,
    Method,
    Promise,
    Screening,
    as_tensor,
    check_option,
)
from shearshap.methods.standard_errors import moderated, normalised

Outsiders = Literal["antithetic", "independent", "empty"]

TIE = 1e-4  #: cross-contributions that differ by this part of the larger one are equal
ROUNDING = 1e-6  #: and so are those that differ by this part of the row's largest


@dataclass(frozen=True)
class Shear(Method):
    """SHEAR (Wang et al. 2022): what a player adds to all coalitions of its cooperators.

    The cooperators of player i are the K players of the largest eta_ij; those whose eta differ by
    rounding errors go by their number (`ranked_cooperators`). With S_n their subsets,

        phi_i = sum over n of w_n [v(S_n + V_n + i) - v(S_n + V_n)],
        w_n = 1 / ((K + 1) C(K, |S_n|)).

    That takes N = 2^(K+1) evaluations for each player. N is the largest power of two that the
    budget allows.

    Parameters
    ----------
    outsiders
        How the other players join as V_n. "antithetic": at random, complements of each other for
        S_n and its complement (Section 4.2). The other two are readings of the ablation without
        antithetical sampling. "independent": at random, each V_n on its own. "empty": not at all.
    selection
        "cross-contribution", or "random" cooperators (the ablation without cooperator selection).
    unbiased
        False: V_n takes each other player with probability 1/2, as in the paper, which is biased.
        True: with probability q ~ Beta(|S_n| + 1, K - |S_n| + 1), the distribution of a coalition's
        density given S_n. The estimate is then unbiased, at the same cost.
    interaction
        How cross-contribution is computed; see `shearshap.interactions.cross`. Second differences
        take evaluations from the budget.
    """

    outsiders: Outsiders = "antithetic"
    selection: Literal["cross-contribution", "random"] = "cross-contribution"
    unbiased: bool = False
    interaction: CrossKind = "auto"

    def __post_init__(self) -> None:
        """Check the options."""
        check_option("outsiders", self.outsiders, get_args(Outsiders))
        check_option("selection", self.selection, ("cross-contribution", "random"))
        check_option("interaction", self.interaction, get_args(CrossKind))

    @property
    def promises(self) -> frozenset[Promise]:
        """A null player gets nothing; antithetic draws make pairwise games exact."""
        promised: set[Promise] = {"null-player"}
        if self.outsiders == "antithetic":
            promised.add("pairwise")
        if self.outsiders != "empty" and self.unbiased:
            promised.add("unbiased")
        return frozenset(promised)

    @property
    def differentiates(self) -> bool:
        """Whether it differentiates models that can be."""
        return self.selection != "random" and self.interaction != "second-differences"

    def minimum(self, game: GameInfo) -> int:
        """Return the coalitions of the screening and of N = 4, a cooperator and its complement."""
        return self._screening_evaluations(game) + 2 + 4 * game.players

    def errors_from(self, game: GameInfo) -> int | None:
        """Return the coalitions of two draws for each player; biased estimates have no errors."""
        return self.minimum(game) + 4 * game.players if self.unbiased else None

    def screening(self, game: GameInfo) -> Screening | None:
        """Return how to find the cross-contributions that cooperators are selected by."""
        if self.selection == "random":
            return None
        coalitions = None
        if takes_evaluations(game, self.interaction):
            coalitions = second_difference_coalitions(game.players, game.device)
        return Screening(self.interaction, coalitions)

    def _screening_evaluations(self, game: GameInfo) -> int:
        """Return how many coalitions the screening asks for."""
        if self.selection == "random" or not takes_evaluations(game, self.interaction):
            return 0
        return 1 + game.players + comb(game.players, 2)  # `second_difference_coalitions`

    def design(self, game: GameInfo, budget: int, rng: np.random.Generator) -> "Differences":
        """Return the design with random cooperators, the same for all rows."""
        return self.design_for(game, budget, rng, None)

    def design_for(
        self, game: GameInfo, budget: int, rng: np.random.Generator, eta: Tensor | None
    ) -> "Differences":
        """Return the design of rows with cross-contributions eta (r, p, p); None: random ones."""
        players = game.players
        cooperators = max_cooperators(budget - self._screening_evaluations(game), players)
        chosen = subsets(cooperators)

        # players that join are drawn before any row is seen: the same for all rows
        density = self._density(chosen, players, rng)
        outsiders = as_tensor(self._outsiders(density, players, rng), game)
        if eta is None:
            eta = as_tensor(rng.random((1, players, players)), game)

        selected = ranked_cooperators(eta)[:, :, :cooperators]
        others = join(outsiders, selected, as_tensor(chosen, game))
        in_pairs = self.unbiased and self.outsiders == "antithetic"
        return Differences.of(others, as_tensor(subset_weights(chosen), game), in_pairs=in_pairs)

    def _density(self, chosen: Bools, players: int, rng: np.random.Generator) -> Floats:
        """Return the chance that another player joins V_n, (p, n)."""
        size = chosen.sum(axis=1)
        shape = (players, len(chosen))
        if not self.unbiased:
            return np.full(shape, 0.5)
        return rng.beta(size + 1, chosen.shape[1] - size + 1, size=shape)

    def _outsiders(self, density: Floats, players: int, rng: np.random.Generator) -> Bools:
        """Return the players that join as V_n, (p, n, p).

        Antithetic, the n-th and the n-th last are complements.
        """
        if self.outsiders == "empty":
            return np.zeros((*density.shape, players), dtype=bool)
        drawn = rng.random((*density.shape, players)) < density[..., None]
        if self.outsiders == "independent":
            return drawn
        count = density.shape[1]
        half = count // 2
        drawn[:, count - half :] = ~drawn[:, :half][:, ::-1]
        return drawn


@dataclass(frozen=True)
class Differences(Design):
    """A player's value is a weighted mean of what it adds to coalitions of others.

    phi_i = sum_n w_n [v(S_in + i) - v(S_in)]. The columns for players 0 and 1, with n = 0 and 1:

        0      1     2    3       4    5       6    7       8    9
        empty  full  S00  S00+0   S01  S01+0   S10  S10+1   S11  S11+1
    """

    coalitions: Tensor  #: (r or 1, 2 + 2 p n, p)
    weights: Tensor  #: (n,)
    #: whether they are unbiased, of all subsets of a player's cooperators, and the outsiders of
    #: the n-th and the n-th last are complements
    in_pairs: bool = False

    @classmethod
    def of(cls, others: Tensor, weights: Tensor, *, in_pairs: bool = False) -> "Differences":
        """Return the design of the sets S_in, `others` (r or 1, p, n, p).

        They may hold player i itself or not: it is taken out, and put in.
        """
        players = others.shape[-1]
        own = torch.eye(players, dtype=torch.bool, device=others.device)[:, None]
        pairs = torch.stack((others & ~own, others | own), dim=3)
        return cls(with_ends(pairs.flatten(1, 3)), weights, in_pairs)

    def estimate(self, values: Tensor) -> Estimate:
        """Return the weighted mean difference of every player."""
        players = self.coalitions.shape[-1]
        pairs = values[:, 2:].unflatten(1, (players, len(self.weights), 2))
        differences = pairs[:, :, :, 1] - pairs[:, :, :, 0]
        phi = torch.einsum("n,rpnk->rpk", self.weights, differences)
        return Estimate(phi, *self._errors(differences)) if self.in_pairs else Estimate(phi)

    def _errors(self, differences: Tensor) -> tuple[Tensor | None, float]:
        """Return the standard errors (r, p, k) of differences (r, p, n, k) by collapsed strata.

        Each pair of subsets has one draw of its outsiders. Two pairs that differ in one
        cooperator, the last, stand for two draws of one stratum: with d the difference of their
        means, var = sum (w^2 + w'^2) d^2 / 2, which is too large by what that cooperator changes.
        Variances far below those of other players are raised, see `moderated`.

        For K = 3, with the subsets 0 ... 7:

            pairs     0|7   1|6   2|5   3|4
            strata    (0|7, 3|4)   (1|6, 2|5)
        """
        players = differences.shape[1]
        half = differences.shape[2] // 2
        if 2 * half == 1 << (players - 1):
            # all other players are cooperators: nothing is drawn
            return torch.zeros_like(differences[:, :, 0]), inf
        if half < 2:
            return None, inf

        # of each pair of subsets
        means = (differences[:, :, :half] + differences[:, :, half:].flip(2)) / 2
        weight = (2 * self.weights[:half]).square()

        # of each stratum, two pairs
        quarter = half // 2
        apart, size = normalised(means[:, :, :quarter] - means[:, :, quarter:].flip(2), 2)
        both = weight[:quarter] + weight[quarter:].flip(0)
        variance = torch.einsum("n,rpnk->rpk", both / 2, apart.square())
        deviation, largest = normalised(size[:, :, 0] * variance.sqrt(), 1)
        return largest * moderated(deviation.square(), quarter).sqrt(), quarter + 2


def max_cooperators(budget: int, players: int) -> int:
    """Return K, at most p - 1, for the largest N = 2^(K+1) with N p + 2 <= budget."""
    evaluations = (budget - 2) // players  # for each player
    largest = evaluations.bit_length() - 1  # log2 of the largest power of two within them
    return min(largest - 1, players - 1)


def subset_weights(chosen: Bools) -> Floats:
    """Return the weight 1 / ((K + 1) C(K, |S|)) of every subset (n, K) of the K cooperators."""
    cooperators = chosen.shape[1]
    sizes = range(cooperators + 1)
    by_size = np.array([1 / ((cooperators + 1) * comb(cooperators, size)) for size in sizes])
    return np.asarray(by_size[chosen.sum(axis=1)])


def ranked_cooperators(eta: Tensor) -> Tensor:
    """Return every player's cooperators, the largest eta (r, p, p) first: (r, p, p - 1).

    Neighbours in this order tie if they differ by at most `TIE` of the larger one, or by
    `ROUNDING` of the row's largest eta. Players that tie go by their number, so that rounding
    errors, which depend on the batch, do not choose among them.
    """
    own = torch.eye(eta.shape[1], dtype=torch.bool, device=eta.device)
    ranked, order = eta.masked_fill(own, -torch.inf).sort(dim=2, descending=True)
    rounding = ROUNDING * eta.amax(dim=(1, 2), keepdim=True)
    gaps = ranked[:, :, :-1] - ranked[:, :, 1:]
    is_smaller = gaps > TIE * ranked[:, :, :-1] + rounding
    places = torch.zeros_like(order)
    places[:, :, 1:] = is_smaller.cumsum(dim=2)
    by_player = places.scatter(2, order, places)
    return by_player.argsort(dim=2, stable=True)[:, :, :-1]


def join(outsiders: Tensor, cooperators: Tensor, chosen: Tensor) -> Tensor:
    """Return the coalitions S_n + V_n, (r, p, n, p).

    `outsiders` (p, n, p) say who joins as V_n. For the `cooperators` (r, p, K) of each player,
    the subsets `chosen` (n, K) say it instead.
    """
    rows, players, _ = cooperators.shape
    others = outsiders.expand(rows, -1, -1, -1).clone()
    index = cooperators[:, :, None].expand(-1, -1, len(chosen), -1)
    return others.scatter_(3, index, chosen.expand(rows, players, -1, -1))
