"""Trees side by side, from the roots down: what all computations with a forest start from."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from shearshap.trees.forest import Bools, Decisions, Floats, Forest, Integers


@dataclass(frozen=True, eq=False)
class Layout:
    """Some trees of a forest, all nodes of a depth next to each other.

    The two children of a node are neighbours:  child = left, child + 1 = right.
    """

    child: Integers  #: (n,) the node to the left; -1 for a leaf
    parent: Integers  #: (n,) -1 for a root
    decision: Integers  #: (n,) its number among `decisions`; 0 for a leaf
    player: Integers  #: (n,) who owns the column that the node asks about; -1 for a leaf
    value: Floats  #: (n, k)
    tree: Integers  #: (n,) its place among the trees
    levels: tuple[slice, ...]  #: the nodes of each depth
    decisions: Decisions  #: those that these trees take

    @property
    def is_leaf(self) -> Bools:
        """(n,) whether each node is a leaf."""
        return self.child < 0


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
    return _numbered(forest, owner, found, tuple(levels[:-1]))


def _numbered(
    forest: Forest,
    owner: Integers,
    found: list[tuple[Integers, Integers, Integers]],
    levels: tuple[slice, ...],
) -> Layout:
    nodes, tree, parent = (np.concatenate(arrays) for arrays in zip(*found, strict=True))
    inner = forest.left[nodes] >= 0
    child = np.full(len(nodes), -1)
    child[inner] = levels[0].stop + 2 * np.arange(inner.sum()) if levels else 0

    asked, number = np.unique(forest.decision[nodes[inner]], return_inverse=True)
    order = np.argsort(
        forest.decisions.column[asked], kind="stable"
    )  # a column is compared at once
    decisions = forest.decisions.take(asked[order])
    decision = np.zeros(len(nodes), dtype=np.int64)
    decision[inner] = np.argsort(order)[number.ravel()]
    player = np.full(len(nodes), -1)
    player[inner] = owner[decisions.column[decision[inner]]]
    return Layout(child, parent, decision, player, forest.value[nodes], tree, levels, decisions)


@dataclass(frozen=True, eq=False)
class Paths:
    """The players that are asked on the way to each node, in the order of their first questions."""

    players: NDArray[np.int32]  #: (n, m) -1 where there are fewer
    count: Integers  #: (n,) how many
    slot: Integers  #: (n,) the place of the node's own player among those of its children


def paths_of(layout: Layout) -> Paths:
    """Return the paths of all nodes."""
    nodes = len(layout.child)
    players = np.full((nodes, 0), -1, dtype=np.int32)
    count = np.zeros(nodes, dtype=np.int64)
    slot = np.zeros(nodes, dtype=np.int64)
    for level in layout.levels:
        inner = level.start + np.flatnonzero(layout.child[level] >= 0)
        if not len(inner):
            continue
        asks = layout.player[inner]
        known = players[inner] == asks[:, None]
        is_new = ~known.any(axis=1)
        slot[inner] = np.where(is_new, count[inner], _first(known))

        if slot[inner].max() == players.shape[1]:
            players = np.pad(players, ((0, 0), (0, 1)), constant_values=-1)
        path = players[inner]
        path[np.arange(len(inner)), slot[inner]] = asks
        for side in (0, 1):
            below = layout.child[inner] + side
            players[below] = path
            count[below] = count[inner] + is_new
    return Paths(players, count, slot)


def _first(marked: Bools) -> Integers:
    """Return the place of the first mark in each row (0 where there is none)."""
    return marked.argmax(axis=1) if marked.shape[1] else np.zeros(len(marked), dtype=np.int64)
