"""Permutation sampling: a player's share is what it adds on joining, averaged over orders of
joining.
"""

from dataclasses import dataclass
from math import inf, sqrt
from typing import Literal

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from shearshap.game import Game
from shearshap.methods.base import Design, Estimate, Method, Promise, Stage, check_option
from shearshap.methods.coalitions import EMPTY, FULL, Bools, as_tensor, with_ends
from shearshap.methods.differences import Differences
from shearshap.methods.exact import enumeration
from shearshap.methods.spread import FEWEST, sample_deviation


@dataclass(frozen=True)
class Permutation(Method):
    """Permutation sampling (Castro et al. 2009; antithetic: Mitchell et al. 2022).

    Parameters
    ----------
    antithetic
        Follow every random draw by its opposite: the reversed order, which visits the complements.
    protocol
        "fair": whole permutations, each prefix evaluated once and used for two players; with a
        budget for all coalitions, all coalitions. "paper": as the paper's appendix describes PS and
        APS, N evaluations for each player apart: N/2 random sets S of the others, and v(S + i) -
        v(S). "authors": as the authors' released results were made, N whole permutations for N
        evaluations a player; antithetic, an off-by-one leaves two of them unpaired, so N/2 - 1
        orders are followed by their reverses and two stand alone.
    """

    antithetic: bool = False
    protocol: Literal["fair", "paper", "authors"] = "fair"

    def __post_init__(self) -> None:
        """Check the options."""
        check_option("protocol", self.protocol, ("fair", "paper", "authors"))

    @property
    def promises(self) -> frozenset[Promise]:
        """Fair: all but `pairwise`, which takes antithetic draws; paper: not efficient; authors:
        never `pairwise`.
        """
        always: set[Promise] = {"unbiased", "null-player"}
        efficient: set[Promise] = set() if self.protocol == "paper" else {"efficiency"}
        pairwise: set[Promise] = (
            {"pairwise"} if self.antithetic and self.protocol != "authors" else set()
        )
        return frozenset(always | efficient | pairwise)

    @property
    def stops(self) -> bool:
        """Whether a row can stop: after fewer permutations, in the fair protocol."""
        return self.protocol == "fair"

    def minimum(self, game: Game) -> int:
        """Return the coalitions of one permutation, or of one and its reverse; in the paper's way,
        one difference.

        The authors' way counts a permutation as p evaluations, though its last prefix is the full
        coalition.
        """
        players, copies = game.players, 2 if self.antithetic else 1
        if self.protocol == "fair":
            return min(2 + copies * (players - 1), 1 << players)
        return 2 + copies * players * (2 if self.protocol == "paper" else 1)

    def design(self, game: Game, budget: int, rng: np.random.Generator) -> Design:
        """Return the design of as many whole draws as the budget holds."""
        if self.protocol == "paper":
            return self._differences(game, budget, rng)
        if self.protocol == "fair" and budget >= 1 << game.players:
            return enumeration(game)
        draws, paired = self._draws(game.players, budget)
        orders = rng.permuted(np.tile(np.arange(game.players), (draws, 1)), axis=1)
        orders = np.concatenate((orders, orders[:paired, ::-1]))
        return Orders(
            with_ends(as_tensor(prefixes(orders), game)[None]), as_tensor(orders, game), paired
        )

    def _draws(self, players: int, budget: int) -> tuple[int, int]:
        """Return how many orders to draw, and how many of them, the first, to follow by their
        reverses.
        """
        if self.protocol == "authors":
            orders = (budget - 2) // players
            return (orders // 2 + 1, orders // 2 - 1) if self.antithetic else (orders, 0)
        copies = 2 if self.antithetic else 1
        draws = (budget - 2) // (copies * (players - 1))
        return draws, draws if self.antithetic else 0

    def _differences(self, game: Game, budget: int, rng: np.random.Generator) -> "Sampled":
        """Return N/2 differences for each player; a random order's predecessors of i are the set S."""
        players, copies = game.players, 2 if self.antithetic else 1
        draws = (budget - 2) // (2 * copies * players)
        turn = rng.random((players, draws, players))
        others = turn < np.einsum("ini->in", turn)[:, :, None]
        if self.antithetic:
            others = np.concatenate((others, ~others), axis=1)
        weights = torch.full(
            (others.shape[1],), 1 / others.shape[1], dtype=torch.float64, device=game.device
        )
        design = Paired if self.antithetic else Sampled
        return design.of(as_tensor(others, game)[None], weights)


@dataclass(frozen=True)
class Orders(Design):
    """Orders of joining, laid out (empty, full, the prefixes of every order); the first ones'
    reverses come last.

    With gains g_n of a player in n orders, q of them paired, and u_n the mean gain of an order and
    its reverse,

        phi = (sum g_n) / n,   var(phi) = (4 q var(u) + (n - 2 q) var(g)) / n^2,

    and sample variances over the orders that were drawn, of which reverses are none.
    """

    coalitions: Tensor  #: (1, 2 + n (p-1), p)
    orders: Tensor  #: (n, p) which player joins at each turn
    paired: int = 0  #: q, how many of the first orders have their reverse at the end

    def estimate(self, values: Tensor) -> Estimate:
        """Return each player's mean gain on joining, and its standard error where there are draws
        enough to tell it.
        """
        gains = self._gains(values)
        return Estimate(gains.mean(dim=1), *self._errors(gains))

    def first(self, coalitions: int) -> Stage:
        """Return the design of the first orders, each with its reverse where it has one."""
        count, inner = len(self.orders), self.coalitions.shape[-1] - 1
        kept = torch.arange(
            (coalitions - 2) // inner // (2 if self.paired else 1), device=self.orders.device
        )
        if self.paired:
            kept = torch.cat((kept, kept + count - self.paired))
        columns = 2 + kept[:, None] * inner + torch.arange(inner, device=kept.device)
        columns = torch.cat((torch.arange(2, device=kept.device), columns.flatten()))
        design = Orders(
            self.coalitions[:, columns], self.orders[kept], len(kept) // 2 if self.paired else 0
        )
        return Stage(columns, design)

    def _gains(self, values: Tensor) -> Tensor:
        """Return what every player adds on joining, (r, n, p, k), of values (r, c, k)."""
        count, players = self.orders.shape
        inner = 2 + torch.arange(count * (players - 1), device=values.device).reshape(
            count, players - 1
        )
        ends = torch.tensor([[EMPTY, FULL]], device=values.device).expand(count, 2)
        chain = torch.cat((ends[:, :1], inner, ends[:, 1:]), dim=1)
        turn = self.orders.argsort(dim=1)
        before, after = (
            values.index_select(1, chain.gather(1, place).flatten()) for place in (turn, turn + 1)
        )
        gains: Tensor = (after - before).unflatten(1, (count, players))
        return gains

    def _errors(self, gains: Tensor) -> tuple[Tensor | None, float]:
        """Return the standard errors (r, p, k) of gains (r, n, p, k), and their degrees of freedom."""
        count, paired = len(self.orders), self.paired
        draws = count - paired
        if draws < FEWEST or 0 < paired < 2:
            return None, inf
        alone = (
            sample_deviation(gains[:, :draws], 1)
            if draws > paired
            else torch.zeros_like(gains[:, 0])
        )
        pairs = (
            sample_deviation((gains[:, :paired] + gains[:, draws:]) / 2, 1)
            if paired
            else torch.zeros_like(alone)
        )
        return torch.hypot(
            sqrt(draws - paired) * alone, 2 * sqrt(paired) * pairs
        ) / count, draws - 1


@dataclass(frozen=True)
class Sampled(Differences):
    """Independent differences of every player, all weighed alike."""

    def errors(self, differences: Tensor) -> tuple[Tensor | None, float]:
        """Return sqrt(var / n) over a player's own n differences (r, p, n, k), and n - 1."""
        count = differences.shape[2]
        return (
            (sample_deviation(differences, 2) / sqrt(count), count - 1)
            if count >= FEWEST
            else (None, inf)
        )


@dataclass(frozen=True)
class Paired(Sampled):
    """Differences of which the second half are at the complements of the first: the pairs are
    independent.
    """

    def errors(self, differences: Tensor) -> tuple[Tensor | None, float]:
        """Return the standard errors of the pairs' means."""
        half = differences.shape[2] // 2
        return super().errors((differences[:, :, :half] + differences[:, :, half:]) / 2)


def prefixes(orders: NDArray[np.int64]) -> Bools:
    """Return the coalitions of the first 1..p-1 players of every order (m, p): (m (p-1), p)."""
    draws, players = orders.shape
    turn = np.argsort(orders, axis=1)
    joined = turn[:, None, :] < np.arange(1, players)[:, None]
    return np.asarray(joined.reshape(draws * (players - 1), players))
