"""Exact Shapley values of a forest, with groups of columns as players."""

from collections.abc import Callable

import numpy as np

from shearshap.trees.forest import Floats, Forest, Integers
from shearshap.trees.layout import lay_out
from shearshap.trees.walk import Walk


class ExactTrees:
    """A forest and its background, ready to explain rows.

    Parameters
    ----------
    forest
        The trees.
    owner
        (d,) the player of each column as the trees see it, 0 to players - 1.
    players
        How many players there are; one that owns no column has values of 0.
    background
        (b, d) the rows that absent players come from, as the trees see them.
    weights
        (b,) of the background rows, with sum 1; None: all weigh the same.
    rows
        How many rows will come: tables take a while to make, and pay for many rows.
    interactions
        Whether interactions will be asked for.
    advance
        Called with the number of trees that are ready, for a progress bar.
    """

    def __init__(
        self,
        forest: Forest,
        owner: Integers,
        players: int,
        background: Floats,
        weights: Floats | None = None,
        *,
        rows: int,
        interactions: bool = False,
        advance: Callable[[int], None] | None = None,
    ) -> None:
        self.forest = forest
        self.players = players
        self.background = background
        self.weights = np.full(len(background), 1 / len(background)) if weights is None else weights
        trees = np.arange(len(forest.roots))
        self._walk = Walk(lay_out(forest, owner, trees), players, background, self.weights)
        if advance is not None:
            advance(len(trees))

    @property
    def expected(self) -> Floats:
        """(k,) the weighted mean of the forest's output over the background."""
        return np.asarray(self.weights @ self.forest.predict(self.background))

    def values(self, seen: Floats) -> Floats:
        """Return the players' Shapley values (r, p, k) for rows as the trees see them."""
        return self._walk.values(seen)

    def interactions(self, seen: Floats) -> Floats:
        """Return the pairs' Shapley interactions (r, p, p, k): symmetric, 0 on the diagonal."""
        return self._walk.interactions(seen)
