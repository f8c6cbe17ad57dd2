r"""Trees cut into units: subtrees that take so few decisions that a table can hold every case.

A unit is a node with all that is below it. Its pattern for a row has one bit for each player that
is asked above the node (has the row failed it?) and one for each decision below (does the row go
right?):

            x0             the unit at x3, player 0 above:   bit 0   the row fails player 0
           /  \                                              bit 1   it goes right at x3
          .    x3                                            bit 2   it goes right at x1
              /  \
             .    x1       a tree whose levels take one decision each is one unit of a bit a level

All nodes of all trees are treated side by side, level by level.
"""

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from shearshap.trees.forest import Integers
from shearshap.trees.layout import Layout, Paths

Patterns = NDArray[np.unsignedinteger]


@dataclass(frozen=True, eq=False)
class Units:
    """The units of a layout, g of them."""

    layout: Layout
    paths: Paths
    unit: Integers  #: (n,) of each node; -1 for nodes above all units
    root: Integers  #: (g,) the node
    above: Integers  #: (g,) how many players are asked above it
    bits: Integers  #: (g,) of its patterns
    bit: Integers  #: (n,) where the decision of a unit's node is in the pattern
    slot_starts: Integers  #: (g + 1,) where each unit's players start among `players`
    players: Integers  #: those of each unit, ascending

    @property
    def slots(self) -> Integers:
        """(g,) how many players each unit has."""
        return np.diff(self.slot_starts)

    def slot_of(self, unit: Integers, player: Integers) -> Integers:
        """Return the places of players among those of their units."""
        most = self.players.max(initial=0) + 1
        owner = np.repeat(np.arange(len(self.root)), self.slots)
        keys = owner * most + self.players
        place = np.searchsorted(keys, unit * most + player)
        return np.asarray(place - self.slot_starts[unit])

    def patterns(self, right: NDArray[np.uint8]) -> Patterns:
        """Return the units' patterns (g, r) for the decisions (q, r) of rows."""
        wide = self.bits.max(initial=0) > 8
        bits = right.astype(np.uint16) if wide else right
        patterns = self._failed_above(bits)
        for unit, decision, bit in self.turns:
            taken = bits[decision]
            taken <<= bits.dtype.type(bit)
            patterns[unit] |= taken
        return patterns

    def _failed_above(self, right: Patterns) -> Patterns:
        """Return the bits (g, r) of the players that are asked above the units."""
        layout = self.layout
        patterns = np.zeros((len(self.root), right.shape[1]), dtype=right.dtype)
        failed = np.zeros((layout.levels[0].stop, right.shape[1]), dtype=right.dtype)
        for step in self.descent:
            failed = failed[step.parent]
            missed = right[step.decision]
            missed ^= step.on_right[:, None].astype(right.dtype)
            missed <<= step.slot[:, None].astype(right.dtype)
            failed |= missed
            patterns[step.unit] = failed[step.is_unit]
        return patterns

    @cached_property
    def descent(self) -> list["Step"]:
        """The ways from the roots to the units, level by level."""
        layout = self.layout
        place = np.arange(len(layout.child))  # of each node among those of its level above units
        steps = []
        for level in layout.levels[1:]:
            nodes = np.arange(level.start, level.stop)
            nodes = nodes[self.unit[layout.parent[nodes]] < 0]
            parent = layout.parent[nodes]
            is_unit = self.unit[nodes] >= 0
            steps.append(
                Step(
                    parent=place[parent],
                    decision=layout.decision[parent],
                    on_right=(nodes - level.start) & 1,
                    slot=self.paths.slot[parent],
                    is_unit=np.flatnonzero(is_unit),
                    unit=self.unit[nodes[is_unit]],
                )
            )
            place[nodes] = np.arange(len(nodes))
        return steps

    @cached_property
    def turns(self) -> list[tuple[Integers, Integers, int]]:
        """The units that have a decision at each bit, these decisions, and the bit."""
        inner = np.flatnonzero((self.unit >= 0) & (self.layout.child >= 0))
        turns = []
        for bit in range(int(self.bits.max(initial=0))):
            nodes = inner[self.bit[inner] == bit]
            unit, first = np.unique(self.unit[nodes], return_index=True)
            turns.append((unit, self.layout.decision[nodes[first]], bit))
        return turns


@dataclass(frozen=True, eq=False)
class Step:
    """The way from the nodes of one level to those of the next, down to the tops of units."""

    parent: Integers  #: (n,) its place in the level before
    decision: Integers  #: (n,) that it takes
    on_right: Integers  #: (n,) 1 for nodes that lie right of it: rows that go left miss them
    slot: Integers  #: (n,) the place of the parent's player on the path
    is_unit: Integers  #: the places of nodes that are the tops of units
    unit: Integers  #: these units


def cut(layout: Layout, paths: Paths, bits: int) -> Units:
    """Return the units: as large as that many bits allow, and at least one leaf each."""
    oblivious = _oblivious_depths(layout, bits)
    unit, root = _numbered(layout, paths, bits, oblivious)
    above = paths.count[root]

    in_unit = np.flatnonzero((unit >= 0) & (layout.child >= 0))
    bit = np.zeros(len(layout.child), dtype=np.int64)
    bit[in_unit] = above[unit[in_unit]] + _ranks(unit[in_unit])
    by_level = in_unit[oblivious[layout.tree[in_unit]] >= 0]
    bit[by_level] = _depths(layout)[by_level]

    size = above.copy()
    np.maximum.at(size, unit[in_unit], bit[in_unit] + 1)
    slot_starts, players = _players(layout, paths, unit, root)
    return Units(layout, paths, unit, root, above, size, bit, slot_starts, players)


def _numbered(
    layout: Layout, paths: Paths, bits: int, oblivious: Integers
) -> tuple[Integers, Integers]:
    """Return the unit of each node (n,), and the node of each unit (g,)."""
    small = paths.count + _inner_nodes_below(layout) <= bits
    small |= layout.child < 0
    small[layout.levels[0]] |= oblivious >= 0

    unit = np.full(len(layout.child), -1)
    roots = []
    found = 0
    for level in layout.levels:
        parent = layout.parent[level]
        inherited = np.where(parent >= 0, unit[parent], -1)
        starts = (inherited < 0) & small[level]
        inherited[starts] = found + np.arange(starts.sum())
        unit[level] = inherited
        roots.append(level.start + np.flatnonzero(starts))
        found += int(starts.sum())
    return unit, np.concatenate(roots)


def _inner_nodes_below(layout: Layout) -> Integers:
    """Return how many nodes of each subtree are no leaves, (n,)."""
    below = (layout.child >= 0).astype(np.int64)
    for level in reversed(layout.levels):
        inner = level.start + np.flatnonzero(layout.child[level] >= 0)
        child = layout.child[inner]
        below[inner] += below[child] + below[child + 1]
    return below


def _oblivious_depths(layout: Layout, bits: int) -> Integers:
    """Return the depth of each tree whose levels take one decision each, -1 for other trees."""
    trees = layout.levels[0].stop
    depth = np.zeros(trees, dtype=np.int64)
    fits = np.ones(trees, dtype=bool)
    for number, level in enumerate(layout.levels):
        tree = layout.tree[level]
        inner = layout.child[level] >= 0
        split = np.bincount(tree[inner], minlength=trees)
        leaves = np.bincount(tree[~inner], minlength=trees)
        fits &= (split == 0) | (leaves == 0)
        present, first = np.unique(tree[inner], return_index=True)
        decision = layout.decision[level][inner]
        common = np.zeros(trees, dtype=np.int64)
        common[present] = decision[first]
        fits[tree[inner][decision != common[tree[inner]]]] = False
        depth[present] = number + 1
    return np.where(fits & (depth > 0) & (depth <= bits), depth, -1)


def _ranks(unit: Integers) -> Integers:
    """Return the place of each entry among those of its unit."""
    order = np.argsort(unit, kind="stable")
    ordered = unit[order]
    starts = np.searchsorted(ordered, ordered)
    ranks = np.empty(len(unit), dtype=np.int64)
    ranks[order] = np.arange(len(unit)) - starts
    return ranks


def _depths(layout: Layout) -> Integers:
    sizes = [level.stop - level.start for level in layout.levels]
    return np.repeat(np.arange(len(sizes)), sizes)


def _players(
    layout: Layout, paths: Paths, unit: Integers, root: Integers
) -> tuple[Integers, Integers]:
    """Return where each unit's players start (g + 1,), and the players, ascending in each unit."""
    most = layout.player.max(initial=0) + 1
    in_unit = (unit >= 0) & (layout.child >= 0)
    below = unit[in_unit] * most + layout.player[in_unit]

    path = paths.players[root]
    asked = path >= 0
    above = (np.arange(len(root))[:, None] * most + path)[asked]

    keys = np.unique(np.concatenate((below, above)))
    starts = np.searchsorted(keys, np.arange(len(root) + 1) * most)
    return starts, keys % most
