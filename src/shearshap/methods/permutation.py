"""Permutation sampling: a player's share is what it adds on joining, averaged over orders of joining."""

from dataclasses import dataclass
from typing import Literal

import numpy as np
import torch
from numpy.typing import NDArray

from shearshap.design import (
    EMPTY,
    FULL,
    Bools,
    Design,
    Differences,
    Floats,
    Method,
    Promise,
    as_tensor,
    check_option,
    linear,
)
from shearshap.game import Game
from shearshap.methods.exact import enumeration


@dataclass(frozen=True)
class Permutation(Method):
    """Permutation sampling (Castro et al. 2009; antithetic: Mitchell et al. 2022).

    Parameters
    ----------
    antithetic
        Follow every random draw by its opposite: the reversed order, which visits the complements.
    protocol
        "fair": whole permutations, each prefix evaluated once and used for two players; with a budget for
        all coalitions, all coalitions. "paper": as the paper's appendix describes PS and APS, N evaluations
        for each player apart: N/2 random sets S of the others, and v(S + i) - v(S). "authors": as the authors'
        released results were made, N whole permutations for N evaluations a player; antithetic, an off-by-one
        leaves two of them unpaired, so N/2 - 1 orders are followed by their reverses and two stand alone.
    """

    antithetic: bool = False
    protocol: Literal["fair", "paper", "authors"] = "fair"

    def __post_init__(self) -> None:
        """Check the options."""
        check_option("protocol", self.protocol, ("fair", "paper", "authors"))

    @property
    def promises(self) -> frozenset[Promise]:
        """Fair: all but `pairwise`, which takes antithetic draws; paper: not efficient; authors: never `pairwise`."""
        always: set[Promise] = {"unbiased", "null-player"}
        efficient: set[Promise] = set() if self.protocol == "paper" else {"efficiency"}
        pairwise: set[Promise] = {"pairwise"} if self.antithetic and self.protocol != "authors" else set()
        return frozenset(always | efficient | pairwise)

    def minimum(self, game: Game) -> int:
        """Return the coalitions of one permutation, or of one and its reverse; in the paper's way, one difference.

        The authors' way counts a permutation as p evaluations, though its last prefix is the full coalition.
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
        return linear(prefixes(orders), prefix_weights(orders), game.device)

    def _draws(self, players: int, budget: int) -> tuple[int, int]:
        """Return how many orders to draw, and how many of them, the first, to follow by their reverses."""
        if self.protocol == "authors":
            orders = (budget - 2) // players
            return (orders // 2 + 1, orders // 2 - 1) if self.antithetic else (orders, 0)
        copies = 2 if self.antithetic else 1
        draws = (budget - 2) // (copies * (players - 1))
        return draws, draws if self.antithetic else 0

    def _differences(self, game: Game, budget: int, rng: np.random.Generator) -> Differences:
        """Return N/2 differences for each player; a random order's predecessors of i are the set S."""
        players, copies = game.players, 2 if self.antithetic else 1
        draws = (budget - 2) // (2 * copies * players)
        turn = rng.random((players, draws, players))
        others = turn < np.einsum("ini->in", turn)[:, :, None]
        if self.antithetic:
            others = np.concatenate((others, ~others), axis=1)
        weights = torch.full((others.shape[1],), 1 / others.shape[1], dtype=torch.float64, device=game.device)
        return Differences.of(as_tensor(others, game)[None], weights, shared=True)


def prefixes(orders: NDArray[np.int64]) -> Bools:
    """Return the coalitions of the first 1..p-1 players of every order (m, p): (m (p-1), p)."""
    draws, players = orders.shape
    turn = np.argsort(orders, axis=1)
    joined = turn[:, None, :] < np.arange(1, players)[:, None]
    return np.asarray(joined.reshape(draws * (players - 1), players))


def prefix_weights(orders: NDArray[np.int64]) -> Floats:
    """Return the weights (p, 2 + m (p-1)): the player that joins adds this prefix less the one before, over m."""
    draws, players = orders.shape
    inner = 2 + np.arange(draws * (players - 1)).reshape(draws, players - 1)
    after = np.pad(inner, ((0, 0), (0, 1)), constant_values=FULL)
    before = np.pad(inner, ((0, 0), (1, 0)), constant_values=EMPTY)
    weights = np.zeros((players, 2 + inner.size))
    np.add.at(weights, (orders, after), 1 / draws)
    np.add.at(weights, (orders, before), -1 / draws)
    return weights
