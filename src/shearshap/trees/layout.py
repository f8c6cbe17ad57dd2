r"""Trees side by side, from the roots down, and the subtrees that tables are made for.

All nodes of all trees are treated together, level by level. A subtree is a node with all that is
below it, if it takes so few decisions that a table can hold every case. Its pattern for a row has
one bit for each player that is asked above the node (has the row failed it?) and one for each
decision below (does the row go right?):

            x0             the subtree at x3, player 0 above:   bit 0   the row fails player 0
           /  \                                                 bit 1   it goes right at x3
          .    x3                                               bit 2   it goes right at x1
              /  \
             .    x1       a tree whose levels take one decision each is one subtree
"""

from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from shearshap.games.indices import SHAPLEY, Semivalue
from shearshap.trees.forest import Bytes, Decisions, Floats, Forest, Integers
from shearshap.trees.leaves import Coefficients, coefficients, semivalue_factors

MAX_OBLIVIOUS_DEPTH = 8  #: of trees with one decision a level, such as CatBoost's, kept whole


@dataclass(frozen=True, eq=False)
class Layout:
    """Some trees of a forest, all nodes of a depth next to each other.

    The two children of a node are neighbours:  child = left, child + 1 = right.
    """

    child: Integers  #: (n,) the node to the left; -1 for a leaf
    parent: Integers  #: (n,) -1 for a root
    decision: Integers  #: (n,) its number among `decisions`; 0 for a leaf
    player: Integers  #: (n,) the owner of the column that the node asks about; -1 for a leaf
    value: Floats  #: (n, k)
    cover: Floats  #: (n,) how much of the training data reached the node; NaN: unknown
    tree: Integers  #: (n,) its place among the trees
    levels: tuple[slice, ...]  #: the nodes of each depth
    decisions: Decisions  #: those that these trees take

    @property
    def depths(self) -> Integers:
        """(n,) the depth of each node."""
        sizes = [level.stop - level.start for level in self.levels]
        return np.repeat(np.arange(len(sizes)), sizes)

    @cached_property
    def paths(self) -> "Paths":
        """The players on the way to each node."""
        nodes = len(self.child)
        players = np.full((nodes, 1), -1, dtype=np.int32)
        count = np.zeros(nodes, dtype=np.int64)
        slot = np.zeros(nodes, dtype=np.int64)
        for level in self.levels:
            inner = level.start + np.flatnonzero(self.child[level] >= 0)
            if not len(inner):
                continue
            asks = self.player[inner]
            known = players[inner] == asks[:, None]
            is_new = ~known.any(axis=1)
            slot[inner] = np.where(is_new, count[inner], known.argmax(axis=1))

            if slot[inner].max() == players.shape[1]:
                players = np.pad(players, ((0, 0), (0, 1)), constant_values=-1)
            path = players[inner]
            path[np.arange(len(inner)), slot[inner]] = asks
            for side in (0, 1):
                below = self.child[inner] + side
                players[below] = path
                count[below] = count[inner] + is_new
        return Paths(players, count, slot)

    @cached_property
    def fractions(self) -> Floats:
        """(n,) the part of the parent's training data that reached each node, 1 at a root."""
        above = self.cover[self.parent]
        fraction = np.full(len(self.cover), 0.5)  # of no data at all, both children get a half
        np.divide(self.cover, above, out=fraction, where=above > 0)
        fraction[self.levels[0]] = 1.0
        return fraction

    @cached_property
    def reach(self) -> Floats:
        """(n, m) the product of the fractions at each player's nodes on the path, by its slot."""
        reach = np.ones((len(self.child), self.paths.most))
        for level in self.levels[1:]:
            parent = self.parent[level]
            reach[level] = reach[parent]
            reach[np.arange(level.start, level.stop), self.paths.slot[parent]] *= self.fractions[
                level
            ]
        return reach


@dataclass(frozen=True, eq=False)
class TreeGame:
    """The game of some trees: what they predict if some players are absent."""

    layout: Layout
    players: int
    pairs: bool  #: whether sums are asked for pairs of players, or for players


@dataclass(frozen=True, eq=False)
class CoverGame(TreeGame):
    """A node that asks an absent player goes both ways, by how much of the training data did."""


@dataclass(frozen=True, eq=False)
class BackgroundGame(TreeGame):
    """Absent players come from a background, as the trees see it."""

    background: Floats  #: (b, d)
    weights: Floats  #: (b,) of the background rows, with sum 1
    semivalue: Semivalue = SHAPLEY

    def factors(self, most: int) -> Coefficients:
        """Return the factors of leaves on paths of up to `most` players."""
        if self.semivalue == SHAPLEY:
            return coefficients(most)
        return semivalue_factors(most, self.players, self.semivalue)


def lay_out(forest: Forest, owner: Integers, trees: Integers) -> Layout:
    """Return some of a forest's trees; `owner` (d,) is the player of each column."""
    nodes = forest.roots[trees]
    tree = np.arange(len(trees))
    parent = np.full(len(trees), -1)
    levels = [slice(0, len(nodes))]
    found = [(nodes, tree, parent)]
    while len(nodes):
        inner = np.flatnonzero(forest.left[nodes] >= 0)
        of_inner = nodes[inner]
        parent = np.repeat(levels[-1].start + inner, 2)
        tree = np.repeat(tree[inner], 2)
        nodes = np.stack((forest.left[of_inner], forest.right[of_inner]), axis=1).ravel()
        levels.append(slice(levels[-1].stop, levels[-1].stop + len(nodes)))
        found.append((nodes, tree, parent))

    nodes, tree, parent = (np.concatenate(arrays) for arrays in zip(*found, strict=True))
    is_inner = forest.left[nodes] >= 0
    child = np.full(len(nodes), -1)
    child[is_inner] = levels[0].stop + 2 * np.arange(is_inner.sum())

    asked, number = np.unique(forest.decision[nodes[is_inner]], return_inverse=True)
    decisions = forest.decisions.take(asked)
    decision = np.zeros(len(nodes), dtype=np.int64)
    decision[is_inner] = number.ravel()
    player = np.full(len(nodes), -1)
    player[is_inner] = owner[decisions.column[decision[is_inner]]]
    return Layout(
        child,
        parent,
        decision,
        player,
        forest.value[nodes],
        _covers(forest.cover[nodes], parent, levels[1:-1]),
        tree,
        tuple(levels[:-1]),
        decisions,
    )


def _covers(of_leaves: Floats, parent: Integers, levels: list[slice]) -> Floats:
    """Return the covers of all nodes (n,): that of an inner node is the sum of its children's."""
    cover = of_leaves.copy()
    for level in reversed(levels):
        pairs = cover[level].reshape(-1, 2)
        cover[parent[level][::2]] = pairs.sum(axis=1)
    return cover


@dataclass(frozen=True, eq=False)
class Paths:
    """The players that are asked on the way to each node, in the order of their first questions."""

    players: NDArray[np.int32]  #: (n, m) filled with -1
    count: Integers  #: (n,) how many
    slot: Integers  #: (n,) the place of the node's own player among those of its children

    @property
    def most(self) -> int:
        """The most players on a path, m."""
        return int(self.players.shape[1])


# Subtrees


@dataclass(frozen=True, eq=False)
class Subtrees:
    """The subtrees of a layout, g of them."""

    layout: Layout
    subtree: Integers  #: (n,) of each node; -1 for nodes above all subtrees
    root: Integers  #: (g,) the node
    above: Integers  #: (g,) how many players are asked above it
    bits: Integers  #: (g,) of its patterns
    bit: Integers  #: (n,) where the decision of a subtree's node is in the pattern
    slot_starts: Integers  #: (g + 1,) where each subtree's players start among `players`
    players: Integers  #: those of each subtree, ascending

    @property
    def slots(self) -> Integers:
        """(g,) how many players each subtree has."""
        return np.diff(self.slot_starts)

    def slot_of(self, subtree: Integers, player: Integers) -> Integers:
        """Return the places of players among those of their subtrees."""
        stride = self.players.max(initial=0) + 1
        owner = np.repeat(np.arange(len(self.root)), self.slots)
        keys = owner * stride + self.players
        place = np.searchsorted(keys, subtree * stride + player)
        return np.asarray(place - self.slot_starts[subtree])

    def patterns(self, right: NDArray[Any]) -> NDArray[Any]:
        """Return the patterns (g, r) of rows, of the type of their decisions (q, r)."""
        patterns = np.zeros((len(self.root), right.shape[1]), right.dtype)
        trees = self.layout.levels[0].stop
        failed = np.zeros((trees, right.shape[1]), right.dtype)  # the bits of players so far
        for step in self._descent:
            failed = failed[step.parent]
            missed = right[step.decision]
            missed ^= step.on_right
            missed <<= step.slot
            failed |= missed
            patterns[step.subtree] = failed[step.is_top]
        for bit, (subtree, decision) in enumerate(self._decisions_by_bit):
            taken = right[decision]
            taken <<= bit
            patterns[subtree] |= taken
        return patterns

    @cached_property
    def _descent(self) -> list["_Step"]:
        """The ways from the roots to the subtrees, level by level."""
        layout = self.layout
        place = np.arange(len(layout.child))  # of each node among those of its level above subtrees
        steps = []
        for level in layout.levels[1:]:
            nodes = np.arange(level.start, level.stop)
            nodes = nodes[self.subtree[layout.parent[nodes]] < 0]
            parent = layout.parent[nodes]
            is_top = self.subtree[nodes] >= 0
            steps.append(
                _Step(
                    parent=place[parent],
                    decision=layout.decision[parent],
                    on_right=((nodes - level.start) & 1).astype(np.uint8)[:, None],
                    slot=layout.paths.slot[parent].astype(np.uint8)[:, None],
                    is_top=np.flatnonzero(is_top),
                    subtree=self.subtree[nodes[is_top]],
                )
            )
            place[nodes] = np.arange(len(nodes))
        return steps

    @cached_property
    def _decisions_by_bit(self) -> list[tuple[Integers, Integers]]:
        """The subtrees that have a decision at each bit, and these decisions."""
        inner = np.flatnonzero((self.subtree >= 0) & (self.layout.child >= 0))
        found = []
        for bit in range(int(self.bits.max(initial=0))):
            nodes = inner[self.bit[inner] == bit]
            subtree, first = np.unique(self.subtree[nodes], return_index=True)
            found.append((subtree, self.layout.decision[nodes[first]]))
        return found


class _Step(NamedTuple):
    """The way from the nodes of one level to those of the next, down to the tops of subtrees."""

    parent: Integers  #: (n,) its place in the level before
    decision: Integers  #: (n,) that it takes
    on_right: Bytes  #: (n, 1) 1 for nodes that lie right of it: rows that go left miss them
    slot: Bytes  #: (n, 1) the place of the parent's player on the path
    is_top: Integers  #: the places of nodes that are the tops of subtrees
    subtree: Integers  #: these subtrees


def split(layout: Layout, bits: int) -> Subtrees:
    """Return the subtrees: as large as that many bits allow, and at least one leaf each."""
    # as many patterns as leaves: the table of such a tree is no larger than the tree
    oblivious = _oblivious_depths(layout, max(bits, MAX_OBLIVIOUS_DEPTH))
    subtree, root = _numbered_subtrees(layout, bits, oblivious)
    above = layout.paths.count[root]

    inside = np.flatnonzero((subtree >= 0) & (layout.child >= 0))
    bit = np.zeros(len(layout.child), dtype=np.int64)
    bit[inside] = above[subtree[inside]] + _ranks(subtree[inside])
    by_level = inside[oblivious[layout.tree[inside]] >= 0]
    bit[by_level] = layout.depths[by_level]

    size = above.copy()
    np.maximum.at(size, subtree[inside], bit[inside] + 1)
    slot_starts, players = _players(layout, subtree, root)
    return Subtrees(layout, subtree, root, above, size, bit, slot_starts, players)


def _numbered_subtrees(layout: Layout, bits: int, oblivious: Integers) -> tuple[Integers, Integers]:
    """Return the subtree of each node (n,), and the node of each subtree (g,)."""
    small = layout.paths.count + _inner_nodes_below(layout) <= bits
    small |= layout.child < 0
    small[layout.levels[0]] |= oblivious >= 0

    subtree = np.full(len(layout.child), -1)
    roots = []
    found = 0
    for level in layout.levels:
        parent = layout.parent[level]
        inherited = np.where(parent >= 0, subtree[parent], -1)
        starts = (inherited < 0) & small[level]
        inherited[starts] = found + np.arange(starts.sum())
        subtree[level] = inherited
        roots.append(level.start + np.flatnonzero(starts))
        found += int(starts.sum())
    return subtree, np.concatenate(roots)


def _inner_nodes_below(layout: Layout) -> Integers:
    """Return how many nodes of each subtree are not leaves, (n,)."""
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
        inner_nodes = np.bincount(tree[inner], minlength=trees)
        leaves = np.bincount(tree[~inner], minlength=trees)
        fits &= (inner_nodes == 0) | (leaves == 0)
        present, first = np.unique(tree[inner], return_index=True)
        decision = layout.decision[level][inner]
        common = np.zeros(trees, dtype=np.int64)
        common[present] = decision[first]
        fits[tree[inner][decision != common[tree[inner]]]] = False
        depth[present] = number + 1
    return np.where(fits & (depth > 0) & (depth <= bits), depth, -1)


def _ranks(subtree: Integers) -> Integers:
    """Return the place of each entry among those of its subtree."""
    order = np.argsort(subtree, kind="stable")
    ordered = subtree[order]
    starts = np.searchsorted(ordered, ordered)
    ranks = np.empty(len(subtree), dtype=np.int64)
    ranks[order] = np.arange(len(subtree)) - starts
    return ranks


def _players(layout: Layout, subtree: Integers, root: Integers) -> tuple[Integers, Integers]:
    """Return where each subtree's players start (g + 1,), and the players, ascending in each."""
    stride = layout.player.max(initial=0) + 1
    inside = (subtree >= 0) & (layout.child >= 0)
    below = subtree[inside] * stride + layout.player[inside]

    path = layout.paths.players[root]
    asked = path >= 0
    above = (np.arange(len(root))[:, None] * stride + path)[asked]

    keys = np.unique(np.concatenate((below, above)))
    starts = np.searchsorted(keys, np.arange(len(root) + 1) * stride)
    return starts, keys % stride
