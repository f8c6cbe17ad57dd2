"""Deep trees by compiled walks: blocks of 64 rows that are alike, and what walks need of trees."""

import numpy as np
from numpy.typing import NDArray

from shearshap.trees.coefficients import coefficients
from shearshap.trees.forest import Bytes, Floats, Integers
from shearshap.trees.layout import Layout

LANES = 64  #: rows of a word
ANSWERS = 1 << 25  #: bytes of answers to decisions that are kept at a time
SORTED_BY = 8  #: columns


class CompiledWalk:
    """Sums of rows against a background, for trees of any depth, by numba."""

    def __init__(
        self,
        layout: Layout,
        players: int,
        background: Floats,
        weights: Floats,
        *,
        pairs: bool = False,
    ) -> None:
        order = np.argsort(layout.tree, kind="stable")  # a tree's nodes next to each other
        place = np.argsort(order)
        child = layout.child[order]
        self.child = np.where(child < 0, -1, place[child])
        self.decision = layout.decision[order]
        self.player = layout.player[order]
        self.value = layout.value[order]
        self.roots = place[layout.levels[0]]

        self.depth = len(layout.levels)
        self.decisions = layout.decisions
        self.columns = _columns(layout)
        self.players = players
        self.background = background
        self.weights = weights
        self.pairs = pairs

    def add(self, seen: Floats, sums: Floats) -> None:
        """Add to the sums (r, cells, k) of rows; cells are players, or pairs of them, p * p."""
        order = _alike(seen, self.columns)
        step = _blocks(len(self.decisions), sums[0].size) * LANES
        for start in range(0, len(seen), step):
            rows = order[start : start + step]
            found = self._found(seen[rows], sums.shape[1:])
            sums[rows] += found.reshape(-1, *sums.shape[1:])[: len(rows)]

    def _found(self, seen: Floats, shape: tuple[int, ...]) -> Floats:
        """Return the sums (blocks, 64, cells, k) of rows, of which the last may be none."""
        from shearshap.trees.compiled import Others, Trees, walk_pairs, walk_values

        words = self._words(seen)
        found = np.zeros((len(words), LANES, *shape))
        trees = Trees(self.roots, self.child, self.player, self.value)
        factors = coefficients(min(self.depth, self.players))
        step = max(1, ANSWERS // max(1, len(self.child)))
        for start in range(0, len(self.background), step):
            some = slice(start, start + step)
            others = Others(self._answers(self.background[some]), self.weights[some])
            if self.pairs:
                both = (factors.both_present, factors.both_absent, factors.mixed)
                walk_pairs(trees, self.depth, words, others, *both, self.players, found)
            else:
                one = (factors.present, factors.absent)
                walk_values(trees, self.depth, words, others, *one, found)
        return found

    def _answers(self, seen: Floats) -> Bytes:
        """Return 1 where a row goes right, (r, n)."""
        return np.ascontiguousarray(self.decisions.go_right(seen)[self.decision].T)

    def _words(self, seen: Floats) -> NDArray[np.uint64]:
        """Return the rows that go right, (blocks, n), a bit for each row of a block."""
        packed = np.packbits(self.decisions.go_right(seen), axis=1, bitorder="little")
        packed = np.pad(packed, ((0, 0), (0, -packed.shape[1] % (LANES // 8))))
        words = packed.view(np.dtype("<u8"))
        return np.ascontiguousarray(words[self.decision].T, dtype=np.uint64)


def _blocks(decisions: int, cells: int) -> int:
    """Return how many blocks of rows memory has room for."""
    bytes_a_row = decisions + 8 * cells
    return max(1, ANSWERS // (bytes_a_row * LANES))


def _columns(layout: Layout) -> Integers:
    """Return the columns that are asked about most near the roots, the first one most."""
    sizes = [level.stop - level.start for level in layout.levels]
    depth = np.repeat(np.arange(len(sizes)), sizes)
    inner = np.flatnonzero(layout.child >= 0)
    column = layout.decisions.column[layout.decision[inner]]
    asked = np.bincount(column, weights=0.5 ** depth[inner])
    return np.argsort(-asked, kind="stable")[:SORTED_BY]


def _alike(seen: Floats, columns: Integers) -> Integers:
    """Return an order of rows whose neighbours take similar ways, so that walks are shared."""
    code = np.zeros(len(seen), dtype=np.int64)
    for column in columns:
        values = seen[:, column]
        middle = np.partition(values, len(values) // 2)[len(values) // 2]
        code = 2 * code + (values > middle)
    return np.argsort(code, kind="stable")
