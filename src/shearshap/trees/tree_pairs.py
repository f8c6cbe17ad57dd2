"""What pairs of players do together in a sum of leaves: interactions, and cross-contribution.

Cross-contribution without derivatives is the second difference where all players are present,

    v(U) - v(U-i) - v(U-j) + v(U-ij).

A leaf counts in v(U-T) iff no player of q, those that a background row fails, is in T, and all of
u, those that the row fails, are. So of the four terms there remain, times the leaf's value,

    both in q      1 where u is empty           one of each    -1 where u has no other player
    both in u      1 where u has no other player

which are the sums of the pairwise Shapley interactions, with other factors.
"""

from dataclasses import replace

import numpy as np

from shearshap.trees.forest import Floats, Forest, Integers
from shearshap.trees.layout import lay_out
from shearshap.trees.walk import Walk


class SecondDifferences:
    """A forest and its background, ready to tell the second differences of rows."""

    def __init__(
        self,
        forest: Forest,
        owner: Integers,
        players: int,
        background: Floats,
        weights: Floats | None,
    ) -> None:
        if weights is None:
            weights = np.full(len(background), 1 / len(background))
        layout = lay_out(forest, owner, np.arange(len(forest.roots)))
        self._walk = Walk(layout, players, background, weights, pairs=True)
        failed = np.broadcast_to(
            np.arange(self._walk.most + 1), self._walk.factors.mixed.shape
        )  # the players of u, by columns
        self._walk.factors = replace(
            self._walk.factors,
            both_present=(failed == 0) * 1.0,
            mixed=(failed == 1) * 1.0,
            both_absent=(failed == 2) * 1.0,
        )

    def __call__(self, seen: Floats) -> Floats:
        """Return second differences (r, p, p, f), 0 on the diagonal, of rows as trees see them."""
        players = self._walk.players
        outputs = self._walk.layout.value.shape[1]
        sums = np.zeros((len(seen), players * players, outputs))
        self._walk.add(seen, sums)
        halves = sums.reshape(len(seen), players, players, outputs)
        return halves + halves.transpose(0, 2, 1, 3)


def order_two(index: Floats, values: Floats) -> Floats:
    """Return the k-SII of order 2, (r, p, p, k), of interactions and values (r, p, k).

    Phi_ij = SII_ij on both sides of the diagonal, and Phi_i = phi_i - 1/2 sum_j SII_ij on it.
    """
    players = np.arange(index.shape[1])
    pairs = index.copy()
    pairs[:, players, players] = values - index.sum(axis=2) / 2
    return pairs
