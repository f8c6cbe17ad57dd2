"""Deep trees by compiled walks: what they need of a layout, and blocks of rows that are alike."""

import numpy as np

from shearshap.trees.coefficients import coefficients
from shearshap.trees.forest import Floats, Integers
from shearshap.trees.layout import Layout

LANES = 64  #: rows of a word


class CompiledWalk:
    """Values of rows against a background, for trees of any depth."""

    def __init__(self, layout: Layout, players: int, background: Floats, weights: Floats) -> None:
        order = np.argsort(layout.tree, kind="stable")  # the nodes of a tree next to each other
        place = np.empty_like(order)
        place[order] = np.arange(len(order))
        child = layout.child[order]
        self.layout = layout
        self.players = players
        self.decision = layout.decision[order]
        self.child = np.where(child < 0, -1, place[child])
        self.player = layout.player[order]
        self.value = layout.value[order]
        self.roots = place[layout.levels[0]]
        self.weights = weights
        self.background = background

    def values(self, seen: Floats) -> Floats:
        from shearshap.trees.compiled import walk_values

        order = alike(seen, self.layout)
        words = self._words(seen[order])
        other = np.ascontiguousarray(self.layout.decisions.go_right(self.background)[self.decision].T)
        depth = len(self.layout.levels)
        factors = coefficients(min(depth, self.players))
        sums = np.zeros((len(words), LANES, self.players, self.value.shape[1]))
        walk_values(self.roots, self.child, self.player, self.value, words, other, self.weights, factors.present, factors.absent, depth, sums)
        values = np.empty((len(seen), *sums.shape[2:]))
        values[order] = sums.reshape(-1, *sums.shape[2:])[: len(seen)]
        return values

    def _words(self, seen: Floats):
        right = self.layout.decisions.go_right(seen)
        packed = np.packbits(right, axis=1, bitorder="little")
        packed = np.pad(packed, ((0, 0), (0, -packed.shape[1] % 8)))
        return np.ascontiguousarray(packed.view(np.uint64)[self.decision].T)


def alike(seen: Floats, layout: Layout) -> Integers:
    """Return an order of rows in which neighbours take similar ways."""
    return np.arange(len(seen))
