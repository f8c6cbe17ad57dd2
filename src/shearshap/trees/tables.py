"""Tables of subtrees: a row's values are one look-up a subtree, whatever the background's size.

Preparation, for all subtrees of the same size together:

    weights of the background's patterns   ->  W, by the players that each leaf's path fails
    W  ->  the leaf's table, by the players that a row fails                          (leaves.py)
    or, without a background, the covers  ->  the leaf's table                        (covers.py)
    the leaves' tables  ->  the subtree's table, by the row's pattern

The look-ups are the product of a matrix of zeros and ones, a one for each row and subtree, with
the tables of all subtrees: columns are cells, players or pairs of them.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array

from shearshap.trees.covers import cover_interactions, cover_values
from shearshap.trees.forest import Floats, Integers
from shearshap.trees.layout import BackgroundGame, Subtrees, TreeGame, split
from shearshap.trees.leaves import leaf_interactions, leaf_values

BITS = 7  #: of the patterns of subtrees that have several leaves
CACHED = 1 << 15  #: numbers of the tables in one product
SCRATCH = 1 << 18  #: numbers of 8 bytes that an intermediate result may have
ROWS = 512  #: rows that are looked up together


class Tables:
    """The tables of some trees, for one background or for the covers of their nodes."""

    def __init__(self, game: TreeGame) -> None:
        self.subtrees = split(game.layout, BITS)
        self.products = list(_subtree_products(self.subtrees, game))

    def add(self, seen: Floats, sums: Floats) -> None:
        """Add to the sums (r, cells, k) of rows; cells are players, or pairs of them, p * p."""
        # one space for all: fresh memory costs more than what is written into it
        sizes = [len(product.subtree) * product.table.shape[1] for product in self.products]
        widest = max(sizes, default=0)
        space = np.empty(widest * ROWS)
        for start in range(0, len(seen), ROWS):
            rows = slice(start, start + ROWS)
            patterns = _patterns(self.subtrees, seen[rows])
            for product in self.products:
                product.add(patterns, space, sums[rows])


def _patterns(subtrees: Subtrees, seen: Floats) -> Any:
    """Return the patterns (g, r) of rows."""
    right = subtrees.layout.decisions.go_right(seen)
    wide = subtrees.bits.max(initial=0) > 8
    return subtrees.patterns(right.astype(np.uint16) if wide else right)


def _pattern_weights(subtrees: Subtrees, game: BackgroundGame) -> Floats:
    """Return the weight of the background rows of each pattern, subtree after subtree."""
    starts = _line_starts(subtrees.bits)
    total = np.zeros(starts[-1])
    for start in range(0, len(game.background), ROWS):
        rows = slice(start, start + ROWS)
        lines = _patterns(subtrees, game.background[rows]) + starts[:-1, None]
        weight = np.broadcast_to(game.weights[rows], lines.shape)
        total += np.bincount(lines.ravel(), weights=weight.ravel(), minlength=len(total))
    return total


def _line_starts(bits: Integers) -> Integers:
    return np.concatenate(([0], np.cumsum(1 << bits)))


@dataclass(frozen=True, eq=False)
class Product:
    """The tables of some subtrees, one below the other."""

    subtree: Integers  #: (g,)
    start: Integers  #: (g, 1) the first line of each subtree
    cells: Integers  #: (c,) what the columns are
    table: Floats  #: (lines, c * k)

    def add(self, patterns: Any, space: Floats, sums: Floats) -> None:
        """Add to the sums (r, cells, k) what the subtrees' patterns (g, r) stand for."""
        lines = patterns[self.subtree] + self.start
        shape = (*lines.shape, self.table.shape[1])
        found = space[: lines.size * shape[2]].reshape(shape)
        np.take(self.table, lines, axis=0, out=found, mode="clip")  # that mode writes directly

        total = found.sum(axis=0).reshape(len(sums), len(self.cells), -1)
        if len(self.cells) == sums.shape[1]:
            sums += total
        else:
            sums[:, self.cells] += total


# The tables of subtrees


def _cells(players: Integers, game: TreeGame) -> Integers:
    """Return the cells (g, c) of the players of subtrees (g, m): they, or their pairs."""
    if not game.pairs:
        return players
    first, second = np.triu_indices(players.shape[1], 1)
    return players[:, first] * game.players + players[:, second]


def _subtree_products(subtrees: Subtrees, game: TreeGame) -> Iterator[Product]:
    """Yield the tables of all subtrees, those of the same number of bits and players together."""
    leaves = _Leaves(subtrees)
    slots = subtrees.slots
    if isinstance(game, BackgroundGame):
        tables = _tables_of_background(leaves, game)
    else:
        tables = _tables_of_covers(leaves, game)
    for bits, count in np.unique(np.stack((subtrees.bits, slots), axis=1), axis=0).tolist():
        same = np.flatnonzero((subtrees.bits == bits) & (slots == count))
        players = subtrees.players[subtrees.slot_starts[same][:, None] + np.arange(count)]
        cells = _cells(players, game)
        if cells.size == 0:
            continue  # a single leaf without players, or a single player without a pair
        width = max(count, cells.shape[1])
        for some in _batches(leaves.count[same], (1 << bits) * width):
            table = leaves.subtree_tables(same[some], tables)
            yield from _products(same[some], cells[some], table)


def _batches(leaves: Integers, size: int) -> list[Integers]:
    """Return places of subtrees whose leaves' tables, of that size each, fit into SCRATCH."""
    numbers = np.cumsum(leaves) * size // SCRATCH
    cuts = np.flatnonzero(np.diff(numbers)) + 1
    return np.split(np.arange(len(leaves)), cuts)


#: Makes the tables (l, 2^m, cells) of leaves (l,), which have `failed` (l, 2^bits) by the pattern.
LeafTables = Callable[[Integers, NDArray[np.uint16]], Floats]


def _tables_of_background(leaves: "_Leaves", game: BackgroundGame) -> LeafTables:
    """Return what makes tables from the weights of background rows, by the players they fail."""
    subtrees = leaves.subtrees
    starts = _line_starts(subtrees.bits)
    lines = _pattern_weights(subtrees, game)
    tables = leaf_interactions if game.pairs else leaf_values

    def made(leaf: Integers, failed: NDArray[np.uint16]) -> Floats:
        subtree = subtrees.subtree[leaves.node[leaf]]
        players = int(subtrees.slots[subtree[0]])
        weights = lines[starts[subtree][:, None] + np.arange(failed.shape[1])]
        line = (np.arange(len(leaf)) << players)[:, None] + failed
        by_players = np.bincount(
            line.ravel(), weights=weights.ravel(), minlength=len(leaf) << players
        ).astype(np.float64)
        return tables(by_players.reshape(len(leaf), -1), players)

    return made


def _tables_of_covers(leaves: "_Leaves", game: TreeGame) -> LeafTables:
    """Return what makes tables from the covers on the leaves' paths."""
    subtrees = leaves.subtrees
    layout = game.layout
    path = layout.paths.players[leaves.node].astype(np.int64)
    subtree = np.broadcast_to(subtrees.subtree[leaves.node][:, None], path.shape)
    asked = path >= 0
    slot = np.full(path.shape, -1)
    slot[asked] = subtrees.slot_of(subtree[asked], path[asked])
    tables = cover_interactions if game.pairs else cover_values

    def made(leaf: Integers, _failed: NDArray[np.uint16]) -> Floats:
        players = int(subtrees.slots[subtree[leaf[0], 0]])
        # a player of the subtree that is not on a leaf's path reaches it always
        reach = np.ones((len(leaf), players))
        number, place = np.nonzero(asked[leaf])
        reach[number, slot[leaf[number], place]] = layout.reach[leaves.node[leaf[number]], place]
        return tables(reach)

    return made


class _Leaves:
    """What the leaves of subtrees ask of a pattern."""

    def __init__(self, subtrees: Subtrees) -> None:
        self.subtrees = subtrees
        right, left = _conditions(subtrees)
        node = np.flatnonzero((subtrees.layout.child < 0) & (subtrees.subtree >= 0))
        node = node[np.argsort(subtrees.subtree[node], kind="stable")]
        self.node = node
        self.fails_right = right[node]  #: (l, bits) the players that a row fails if the bit is 1
        self.fails_left = left[node]  #: (l, bits) if the bit is 0
        self.count = np.bincount(subtrees.subtree[node], minlength=len(subtrees.root))
        self.start = np.concatenate(([0], np.cumsum(self.count)))

    def subtree_tables(self, some: Integers, tables: LeafTables) -> Floats:
        """Return the tables (g, 2^bits, cells, k) of subtrees (g,)."""
        count = self.count[some]
        starts = np.concatenate(([0], np.cumsum(count)))
        leaf = np.arange(starts[-1]) + np.repeat(self.start[some] - starts[:-1], count)
        owner = np.repeat(np.arange(len(some)), count)  # (l,) the subtree, by its place in `some`

        bits = int(self.subtrees.bits[some[0]])
        players = int(self.subtrees.slots[some[0]])
        failed = self._failed(leaf, bits)
        line = (np.arange(len(leaf)) << players)[:, None] + failed
        of_leaves = tables(leaf, failed).reshape(len(leaf) << players, -1)

        # each line of a subtree is the sum of one line of each of its leaves; of 3 leaves:
        #     line 0: leaf 0, 1, 2   line 1: leaf 0, 1, 2   ...
        first = (starts[owner] << bits) + np.arange(len(leaf)) - starts[owner]
        place = first[:, None] + count[owner, None] * np.arange(1 << bits)
        which = np.empty(line.size, dtype=np.int32)
        which[place.ravel()] = line.ravel()
        value = self.subtrees.layout.value[self.node[leaf]]
        ends = np.concatenate(([0], np.cumsum(np.repeat(count, 1 << bits))))
        shape = (len(some) << bits, len(of_leaves))
        found = np.empty((len(some), 1 << bits, of_leaves.shape[1], value.shape[1]))
        for output in range(value.shape[1]):
            factor = np.empty(line.size)
            factor[place] = value[:, output, None]
            product = csr_array((factor, which, ends), shape=shape) @ of_leaves
            found[..., output] = product.reshape(found.shape[:3])
        return found

    def _failed(self, leaf: Integers, bits: int) -> NDArray[np.uint16]:
        """Return the players that are failed, (l, 2^bits), by the pattern."""
        failed = np.zeros((len(leaf), 1), dtype=np.uint16)
        for bit in range(bits):
            zero = failed | self.fails_left[leaf, bit, None]
            one = failed | self.fails_right[leaf, bit, None]
            failed = np.concatenate((zero, one), axis=1)
        return failed


def _conditions(subtrees: Subtrees) -> tuple[NDArray[np.uint16], NDArray[np.uint16]]:
    """Return the players failed on the way to each node, (n, bits), if a bit is 1, and if 0."""
    layout = subtrees.layout
    shape = (len(layout.child), int(subtrees.bits.max(initial=0)))
    fails_right = np.zeros(shape, dtype=np.uint16)
    fails_left = np.zeros(shape, dtype=np.uint16)

    subtree, place = np.nonzero(np.arange(shape[1]) < subtrees.above[:, None])
    player = subtrees.layout.paths.players[subtrees.root[subtree], place].astype(np.int64)
    fails_right[subtrees.root[subtree], place] = 1 << subtrees.slot_of(subtree, player)

    for level in layout.levels:
        asks = (layout.child[level] >= 0) & (subtrees.subtree[level] >= 0)
        node = level.start + np.flatnonzero(asks)
        if not len(node):
            continue
        mark = 1 << subtrees.slot_of(subtrees.subtree[node], layout.player[node])
        left = layout.child[node]
        for child in (left, left + 1):
            fails_right[child] = fails_right[node]
            fails_left[child] = fails_left[node]
        fails_right[left, subtrees.bit[node]] |= mark.astype(np.uint16)
        fails_left[left + 1, subtrees.bit[node]] |= mark.astype(np.uint16)
    return fails_right, fails_left


# Products


def _products(subtree: Integers, own: Integers, table: Floats) -> Iterator[Product]:
    """Yield the tables of subtrees in products that stay in the processor's cache.

    The tables are (g, lines, c, k) for the subtrees' own cells (g, c). The columns of a product are
    the cells that any of its subtrees has.
    """
    lines, width, outputs = table.shape[1:]
    every = len(np.unique(own))
    subtrees = np.arange(1, len(subtree) + 1)
    size = subtrees * lines * np.minimum(subtrees * width, every) * outputs
    step = max(1, int(np.searchsorted(size, CACHED, side="right")))
    for start in range(0, len(subtree), step):
        some = slice(start, start + step)
        cells, column = np.unique(own[some], return_inverse=True)
        column = column.reshape(-1, width)

        # a subtree's columns go to those of all subtrees: a product with zeros and ones
        goes = (column[:, :, None] == np.arange(len(cells))).astype(np.float64)
        joined = np.empty((len(column), lines, len(cells), outputs))
        for output in range(outputs):
            np.matmul(table[some, ..., output], goes, out=joined[..., output])
        first = np.arange(len(column))[:, None] * lines
        yield Product(subtree[some], first, cells, joined.reshape(len(column) * lines, -1))
