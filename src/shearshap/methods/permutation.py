"""Permutation sampling: a player's value is what it adds on joining, averaged over joining orders.

The coalitions of an order are its prefixes, each evaluated once and used for two players. Two
orders of three players, (2, 0, 1) and its reverse:

    column       0      1     2     3       4     5
    coalition    empty  full  {2}   {0, 2}  {1}   {0, 1}
                              order 2 0 1   order 1 0 2
"""

from dataclasses import dataclass
from math import inf
from typing import ClassVar, get_args

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from shearshap.games.coalitions import EMPTY, FULL, Bools, with_ends
from shearshap.games.game import GameInfo, coalition_count
from shearshap.methods.base import Design, Estimate, Method, Promise, Stage, as_tensor
from shearshap.methods.exact import enumeration
from shearshap.methods.standard_errors import MIN_DRAWS, moderated_errors, possible_jumps


@dataclass(frozen=True)
class Permutation(Method):
    """Permutation sampling (Castro et al. 2009; antithetic: Mitchell et al. 2022).

    Whole permutations, each prefix evaluated once and used for two players. If the budget allows
    all coalitions, all are evaluated.

    Parameters
    ----------
    antithetic
        Follow every order by its reverse, which visits the complements.
    """

    antithetic: bool = False
    stops: ClassVar[bool] = True

    @property
    def promises(self) -> frozenset[Promise]:
        """All of them; exact on pairwise games only if antithetic."""
        every: frozenset[Promise] = frozenset(get_args(Promise))
        return every if self.antithetic else every - {"pairwise"}

    def minimum(self, game: GameInfo) -> int:
        """Return the coalitions of one permutation, with its reverse if antithetic."""
        return min(2 + self._coalitions_per_draw(game.players), coalition_count(game))

    def errors_from(self, game: GameInfo) -> int:
        """Return the coalitions of as many draws as have a spread."""
        draws = 2 + MIN_DRAWS * self._coalitions_per_draw(game.players)
        return min(draws, coalition_count(game))

    def in_hierarchy(self, _game: GameInfo, _coalitions: int, *, stops: bool) -> Method:  # noqa: ARG002
        """Return this method: groups stay together in its orders, and in their reverses."""
        return self

    def design(self, game: GameInfo, budget: int, rng: np.random.Generator) -> Design:
        """Return the design of all whole permutations that the budget holds."""
        if budget >= coalition_count(game):
            return enumeration(game)
        draws = (budget - 2) // self._coalitions_per_draw(game.players)
        if game.structure is None:
            orders = random_orders(game.players, draws, rng)
        else:
            orders = game.structure.orders(draws, rng)
        if self.antithetic:
            orders = np.concatenate((orders, orders[:, ::-1]))
        return JoiningOrders(chains(orders, game), as_tensor(orders, game), self.antithetic)

    def _coalitions_per_draw(self, players: int) -> int:
        copies = 2 if self.antithetic else 1
        return copies * (players - 1)


@dataclass(frozen=True)
class JoiningOrders(Design):
    """Joining orders: the two ends, then the prefixes of every order.

    With reverses, the second half of the orders are the reverses of the first half. An order and
    its reverse are then one draw, whose gain is the mean of both. With d independent draws,

        phi = mean of the draws,   var(phi) = var(draws) / d,

    if the variance is not far below that of other players.
    """

    coalitions: Tensor  #: (1, 2 + n (p - 1), p)
    orders: Tensor  #: (n, p) the player that joins at each turn
    with_reverses: bool = False  #: whether the second half are the reverses of the first

    def estimate(self, values: Tensor) -> Estimate:
        """Return each player's mean gain on joining, and its standard error."""
        gains = self.gains(values)
        jumps = possible_jumps(values, self.orders.shape[1])
        errors, freedom = self.errors(gains, jumps)
        return Estimate(gains.mean(dim=1), errors, freedom)

    def first(self, coalitions: int) -> Stage:
        """Return the design of the first orders, with their reverses if there are any."""
        inner = self.coalitions.shape[-1] - 1
        copies = 2 if self.with_reverses else 1
        count = (coalitions - 2) // (copies * inner)
        numbers = torch.arange(count, device=self.orders.device)
        if self.with_reverses:
            numbers = torch.cat((numbers, numbers + len(self.orders) // 2))

        prefix = torch.arange(inner, device=numbers.device)
        columns = 2 + numbers[:, None] * inner + prefix
        ends = torch.tensor([EMPTY, FULL], device=numbers.device)
        columns = torch.cat((ends, columns.flatten()))
        orders = self.orders[numbers]
        return Stage(
            columns, JoiningOrders(self.coalitions[:, columns], orders, self.with_reverses)
        )

    def gains(self, values: Tensor) -> Tensor:
        """Return what every player adds on joining, (r, n, p, k), from values (r, c, k)."""
        count, players = self.orders.shape
        device = values.device

        # the columns of each order's chain, from the empty to the full coalition: (n, p + 1)
        inner = 2 + torch.arange(count * (players - 1), device=device)
        empty = torch.full((count, 1), EMPTY, device=device)
        full = torch.full((count, 1), FULL, device=device)
        chain = torch.cat((empty, inner.reshape(count, players - 1), full), dim=1)

        turn = self.orders.argsort(dim=1)  # (n, p) when each player joins
        before = values.index_select(1, chain.gather(1, turn).flatten())
        after = values.index_select(1, chain.gather(1, turn + 1).flatten())
        gains: Tensor = (after - before).unflatten(1, (count, players))
        return gains

    def errors(self, gains: Tensor, jumps: Tensor) -> tuple[Tensor | None, float]:
        """Return the standard errors (r, p, k) of gains (r, n, p, k), and their degrees of freedom.

        With too few draws there are none. The jumps (r, 1, k) may have been missed.
        """
        draws = gains
        if self.with_reverses:
            half = gains.shape[1] // 2
            draws = (gains[:, :half] + gains[:, half:]) / 2
        if draws.shape[1] < MIN_DRAWS:
            return None, inf
        return moderated_errors(draws, jumps)


def random_orders(players: int, draws: int, rng: np.random.Generator) -> NDArray[np.int64]:
    """Draw joining orders independently, (draws, p)."""
    return rng.permuted(np.tile(np.arange(players), (draws, 1)), axis=1)


def chains(orders: NDArray[np.int64], game: GameInfo) -> Tensor:
    """Return the ends and the prefixes of every order (n, p): (1, 2 + n (p - 1), p)."""
    return with_ends(as_tensor(prefixes(orders), game)[None])


def prefixes(orders: NDArray[np.int64]) -> Bools:
    """Return the first 1, 2, ..., p - 1 players of every order (n, p): (n (p - 1), p)."""
    draws, players = orders.shape
    turn = np.argsort(orders, axis=1)
    joined = turn[:, None, :] < np.arange(1, players)[:, None]
    return np.asarray(joined.reshape(draws * (players - 1), players))
