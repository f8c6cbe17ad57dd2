"""Tables of units: a row's values are one look-up a unit, whatever the size of the background.

Preparation, for all units of the same size together:

    weights of the background's patterns   ->  W, by the players that each leaf's path fails
    W  ->  the leaf's table, by the players that a row fails                     (leaf_tables.py)
    the leaves' tables  ->  the unit's table, by the row's pattern

The look-ups are the product of a matrix of zeros and ones, a one for each row and unit, with the
tables of all units: columns are cells, players or pairs of them.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array

from shearshap.trees.forest import Floats, Integers
from shearshap.trees.layout import Layout, paths_of
from shearshap.trees.leaf_tables import leaf_interactions, leaf_values
from shearshap.trees.units import Patterns, Units, cut

BITS = 7  #: of the patterns of units that have several leaves
CACHED = 1 << 15  #: numbers of the tables in one product
SCRATCH = 1 << 18  #: numbers of 8 bytes that an intermediate result may have
ROWS = 512  #: rows that are looked up together
COLUMNS = 64  #: of the tables in one product, where the units' cells allow


@dataclass(frozen=True, eq=False)
class Cells:
    """What tables have columns for: the players of a unit, or its pairs of players."""

    tables: Callable[[Floats, int], Floats]  #: W (l, 2^m) -> (l, 2^m, cells of m players)
    of_players: Callable[[Integers], Integers]  #: (g, m) -> (g, cells)


def player_cells() -> Cells:
    """Return cells for each player."""
    return Cells(leaf_values, lambda of_units: of_units)


def pair_cells(players: int) -> Cells:
    """Return cells for each pair of players, first * p + second."""

    def tables(weights: Floats, count: int) -> Floats:
        first, second = np.triu_indices(count, 1)
        return leaf_interactions(weights, count)[:, :, first, second]

    def of_players(of_units: Integers) -> Integers:
        first, second = np.triu_indices(of_units.shape[1], 1)
        return of_units[:, first] * players + of_units[:, second]

    return Cells(tables, of_players)


@dataclass(frozen=True, eq=False)
class Product:
    """The tables of some units, one below the other."""

    unit: Integers  #: (g,)
    start: Integers  #: (g,) the first line of each unit
    cells: Integers  #: (c,) what the columns are
    table: Floats  #: (lines, c * k)

    def add(self, patterns: Patterns, space: Floats, sums: Floats) -> None:
        """Add to the sums (r, cells, k) what the units' patterns (g, r) stand for."""
        lines = patterns[self.unit] + self.start[:, None]
        shape = (*lines.shape, self.table.shape[1])
        found = space[: lines.size * shape[2]].reshape(shape)
        np.take(self.table, lines, axis=0, out=found, mode="clip")  # that mode writes directly

        total = found.sum(axis=0).reshape(len(sums), len(self.cells), -1)
        if len(self.cells) == sums.shape[1]:
            sums += total
        else:
            sums[:, self.cells] += total

    def space(self, rows: int) -> int:
        """Return how many numbers looking up takes."""
        return len(self.unit) * int(self.table.shape[1]) * rows


class Tables:
    """The tables of some trees and one background."""

    def __init__(
        self,
        layout: Layout,
        players: int,
        background: Floats,
        weights: Floats,
        *,
        pairs: bool = False,
        bits: int = BITS,
    ) -> None:
        self.units = cut(layout, paths_of(layout), bits)
        cells = pair_cells(players) if pairs else player_cells()
        lines = _pattern_weights(self.units, background, weights)
        parts = list(_unit_tables(self.units, lines, cells))
        self.products = list(_products(parts))

    def add(self, seen: Floats, sums: Floats) -> None:
        """Add to the sums (r, cells, k) of rows; cells are players, or pairs of them, p * p."""
        # one space for all: fresh memory costs more than what is written into it
        space = np.empty(max((product.space(ROWS) for product in self.products), default=0))
        for start in range(0, len(seen), ROWS):
            rows = slice(start, start + ROWS)
            right = self.units.layout.decisions.go_right(seen[rows])
            patterns = self.units.patterns(right)
            for product in self.products:
                product.add(patterns, space, sums[rows])


def _pattern_weights(units: Units, background: Floats, weights: Floats) -> Floats:
    """Return the weight of the background rows of each pattern, unit after unit."""
    starts = _line_starts(units.bits)
    total = np.zeros(starts[-1])
    for start in range(0, len(background), ROWS):
        rows = slice(start, start + ROWS)
        right = units.layout.decisions.go_right(background[rows])
        lines = units.patterns(right) + starts[:-1, None]
        weight = np.broadcast_to(weights[rows], lines.shape)
        total += np.bincount(lines.ravel(), weights=weight.ravel(), minlength=len(total))
    return total


def _line_starts(bits: Integers) -> Integers:
    return np.concatenate(([0], np.cumsum(1 << bits)))


# The tables of units


@dataclass(frozen=True, eq=False)
class Part:
    """The tables of units that have the same number of bits and players."""

    unit: Integers  #: (g,)
    cells: Integers  #: (g, c)
    table: Floats  #: (g, 2^bits, c, k)


def _unit_tables(units: Units, lines: Floats, cells: Cells) -> Iterator[Part]:
    starts = _line_starts(units.bits)
    leaves = Leaves(units)
    slots = units.slots
    for bits, count in np.unique(np.stack((units.bits, slots), axis=1), axis=0).tolist():
        of_unit = cells.of_players(np.zeros((1, count), dtype=np.int64)).size
        if of_unit == 0:
            continue  # a single leaf that nobody plays for, or a single player where pairs count
        same = np.flatnonzero((units.bits == bits) & (slots == count))
        width = max(count, of_unit)
        for some in _batches(same, leaves.count, (1 << bits) * width):
            weights = lines[starts[some][:, None] + np.arange(1 << bits)]
            table = leaves.unit_tables(some, weights, cells.tables)
            players = units.players[units.slot_starts[some][:, None] + np.arange(count)]
            yield Part(some, cells.of_players(players), table)


def _batches(same: Integers, leaves: Integers, size: int) -> Iterator[Integers]:
    """Yield units whose leaves' tables, of that size each, fit into the scratch space."""
    numbers = np.cumsum(leaves[same]) * size // SCRATCH
    cuts = np.flatnonzero(np.diff(numbers)) + 1
    yield from np.split(same, cuts)


class Leaves:
    """What the leaves of units ask of a pattern."""

    def __init__(self, units: Units) -> None:
        self.units = units
        right, left = _conditions(units)
        node = np.flatnonzero((units.layout.child < 0) & (units.unit >= 0))
        node = node[np.argsort(units.unit[node], kind="stable")]
        self.node = node
        self.fails_right = right[node]  #: (l, bits) the players that a row fails if the bit is 1
        self.fails_left = left[node]  #: (l, bits) if the bit is 0
        self.count = np.bincount(units.unit[node], minlength=len(units.root))
        self.start = np.concatenate(([0], np.cumsum(self.count)))

    def unit_tables(
        self, some: Integers, weights: Floats, tables: Callable[[Floats, int], Floats]
    ) -> Floats:
        """Return the tables (g, 2^bits, cells, k) for weights of patterns (g, 2^bits)."""
        count = self.count[some]
        starts = np.concatenate(([0], np.cumsum(count)))
        leaf = np.arange(starts[-1]) + np.repeat(self.start[some] - starts[:-1], count)
        owner = np.repeat(np.arange(len(some)), count)  # (l,) the unit, by its place in `some`

        bits = int(self.units.bits[some[0]])
        players = int(self.units.slots[some[0]])
        failed = self._failed(leaf, bits)
        line = (np.arange(len(leaf)) << players)[:, None] + failed
        by_players = np.bincount(
            line.ravel(), weights=weights[owner].ravel(), minlength=len(leaf) << players
        ).astype(np.float64)
        of_leaves = tables(by_players.reshape(len(leaf), -1), players)
        of_leaves = of_leaves.reshape(len(leaf) << players, -1)

        # each line of a unit is the sum of one line of each of its leaves
        place = _places(starts, owner, bits)
        which = np.empty(line.size, dtype=np.int32)
        which[place.ravel()] = line.ravel()
        value = self.units.layout.value[self.node[leaf]]
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


def _places(starts: Integers, owner: Integers, bits: int) -> Integers:
    """Return where the entries of leaves (l, 2^bits) are in their units' lines.

    A unit of 3 leaves, 2 bits:   line 0: leaf 0, 1, 2   line 1: leaf 0, 1, 2   ...
    """
    count = np.diff(starts)
    rank = np.arange(len(owner)) - starts[owner]
    first = (starts[owner] << bits) + rank
    return first[:, None] + count[owner][:, None] * np.arange(1 << bits)


def _conditions(units: Units) -> tuple[NDArray[np.uint16], NDArray[np.uint16]]:
    """Return the players failed on the way to each node, (n, bits), if a bit is 1, and if 0."""
    layout = units.layout
    shape = (len(layout.child), int(units.bits.max(initial=0)))
    fails_right = np.zeros(shape, dtype=np.uint16)
    fails_left = np.zeros(shape, dtype=np.uint16)

    unit, place = np.nonzero(np.arange(shape[1]) < units.above[:, None])
    player = units.paths.players[units.root[unit], place].astype(np.int64)
    fails_right[units.root[unit], place] = 1 << units.slot_of(unit, player)

    for level in layout.levels:
        node = level.start + np.flatnonzero((layout.child[level] >= 0) & (units.unit[level] >= 0))
        if not len(node):
            continue
        mark = 1 << units.slot_of(units.unit[node], layout.player[node])
        left = layout.child[node]
        for child in (left, left + 1):
            fails_right[child] = fails_right[node]
            fails_left[child] = fails_left[node]
        fails_right[left, units.bit[node]] |= mark.astype(np.uint16)
        fails_left[left + 1, units.bit[node]] |= mark.astype(np.uint16)
    return fails_right, fails_left


# Products


def _products(parts: list[Part]) -> Iterator[Product]:
    """Yield the tables of all units, in products whose tables stay in the processor's cache."""
    for part in parts:
        places = np.arange(len(part.unit))
        step = _together(part)
        for start in range(0, len(places), step):
            yield _product(part, places[start : start + step])


def _together(part: Part) -> int:
    """Return how many units share a table: its columns are the cells that any of them has."""
    lines, own, outputs = part.table.shape[1:]
    most = len(np.unique(part.cells))
    units = np.arange(1, len(part.unit) + 1)
    size = units * lines * np.minimum(units * own, most) * outputs
    return max(1, int(np.searchsorted(size, CACHED, side="right")))


def _product(part: Part, places: Integers) -> Product:
    own = part.cells[places]
    cells, column = np.unique(own, return_inverse=True)
    column = column.reshape(own.shape)
    lines = part.table.shape[1]
    outputs = part.table.shape[3]
    # a unit's columns go to those of all units: a product with zeros and ones
    goes = (column[:, :, None] == np.arange(len(cells))).astype(np.float64)
    table = np.empty((len(places), lines, len(cells), outputs))
    for output in range(outputs):
        np.matmul(part.table[places, :, :, output], goes, out=table[..., output])
    start = np.arange(len(places)) * lines
    return Product(part.unit[places], start, cells, table.reshape(len(places) * lines, -1))
