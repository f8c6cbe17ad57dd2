r"""Values of trees without a background: absent players follow the covers of the training data.

A node that asks an absent player goes both ways, each weighted by the part of the node's training
data that went there. So a leaf's game is a product over the players on its path:

    v(S) = value * prod of [the row passes j] for j in S * prod of r_j for j not in S,

with r_j the product of the parts at the nodes that ask j. On the diagonal of its multilinear
extension, where every player is present with probability t, player j has the factor

    g_j(t) = t + r_j (1-t) if the row passes j,   r_j (1-t) if it fails,

and c_j(t) = g_j'(t) / g_j(t) is (1-r_j) / g_j(t), or -1 / (1-t). Values and interactions (Owen,
1972) are integrals of polynomials, which ceil(m/2) nodes of Gauss and Legendre sum up exactly:

    phi_i = value * integral of c_i P dt,   phi_ij = value * integral of c_i c_j P dt,
    P = prod of all g_j

`cover_values` tabulates them by the players that a row fails. A `CoverWalk` goes down each tree and
up again: of all leaves below a node, P is summed once. A player that is asked again on the way
changes its factor there, so that node adds the difference of the two c_i, which telescopes.
"""

from collections.abc import Iterator
from functools import lru_cache
from itertools import combinations, pairwise
from typing import NamedTuple

import numpy as np
from scipy.sparse import csr_array

from shearshap.trees.forest import MAX_ANSWER_BYTES, Bools, Bytes, Floats, Integers
from shearshap.trees.layout import CoverGame, Layout

SCRATCH = 1 << 17  #: numbers of 8 bytes that an intermediate result of a walk may have
MAX_WALKED_ROWS = 512  #: that go down a tree together
MAX_WALKED_NODES = 256  #: of small trees that are walked together


@lru_cache
def quadrature(players: int) -> tuple[Floats, Floats]:
    """Return nodes (q,) and weights (q,) on [0, 1] that are exact for paths of p players."""
    nodes, weights = np.polynomial.legendre.leggauss(max(1, -(-players // 2)))
    return (1 + nodes) / 2, weights / 2


# By all patterns of a row


def cover_values(reach: Floats) -> Floats:
    """Return the values (l, 2^m, m) of leaves by the players failed, for r (l, m)."""
    products, passed, failed = _factors(reach)
    of_passed = products @ passed
    of_failed = products @ failed[:, None]
    return np.where(_has_failed(reach.shape[1]), of_failed, of_passed)


def cover_interactions(reach: Floats) -> Floats:
    """Return the interactions (l, 2^m, pairs) of leaves' players, for r (l, m).

    The pairs are those of `np.triu_indices(m, 1)`.
    """
    products, passed, failed = _factors(reach)
    has_failed = _has_failed(reach.shape[1])
    both_failed = products @ failed**2
    one_failed = products @ (passed * failed[:, None])  # by the player that is passed
    pairs = list(combinations(range(reach.shape[1]), 2))
    table = np.empty((*products.shape[:2], len(pairs)))
    for number, (i, j) in enumerate(pairs):
        both_passed = (products @ (passed[:, :, i] * passed[:, :, j])[:, :, None])[:, :, 0]
        table[:, :, number] = np.where(
            has_failed[:, i],
            np.where(has_failed[:, j], both_failed, one_failed[:, :, j]),
            np.where(has_failed[:, j], one_failed[:, :, i], both_passed),
        )
    return table


def _factors(reach: Floats) -> tuple[Floats, Floats, Floats]:
    """Return P by pattern (l, 2^m, q) times the weights, c (l, q, m) of players passed, and failed.

    The last (q,) is the same for all players.
    """
    nodes, weights = quadrature(reach.shape[1])
    r = reach[:, None, :]
    t = nodes[:, None]
    g = t + r * (1 - t)
    products = np.broadcast_to(weights, (len(reach), 1, len(nodes)))
    for player in range(reach.shape[1]):
        passed = products * g[:, None, :, player]
        missed = products * (reach[:, None, player, None] * (1 - nodes))
        products = np.concatenate((passed, missed), axis=1)
    return products, (1 - r) / g, -1 / (1 - nodes)


@lru_cache
def _has_failed(players: int) -> Bools:
    """Return whether each player is among those of each pattern, (2^m, m)."""
    return ((np.arange(1 << players)[:, None] >> np.arange(players)) & 1).astype(bool)


# By a walk


class Edges(NamedTuple):
    """What the way from its parent to each node changes, by the row's states.

    A row's state at a node is 2 if it passes the parent's player so far, 1 if it fails it here,
    and 0 if it has failed it before.
    """

    before: Integers  #: (n,) the node above at which the same player was asked last; -1: none
    slots: Integers  #: (n, m) the node at which each player of the path was asked last; -1: none
    factor: Floats  #: (n, 3, q) P of the node as a part of that of its parent
    gain: Floats  #: (n, 3, q) how the c of the parent's player changes, times the weights


def edges_of(layout: Layout) -> Edges:
    """Return the edges of a layout."""
    t, weights = quadrature(layout.paths.most)
    size = len(layout.child)
    before = np.full(size, -1)
    slots = np.full((size, layout.paths.most), -1)
    # of a player that is asked for the first time, r was 1
    r = np.ones((size, 1))
    r_before = np.ones((size, 1))
    for level in layout.levels[1:]:
        node = np.arange(level.start, level.stop)
        parent = layout.parent[level]
        slot = layout.paths.slot[parent]
        before[node] = slots[parent, slot]
        slots[node] = slots[parent]
        slots[node, slot] = node
        r[node, 0] = layout.reach[node, slot]
        r_before[node, 0] = layout.reach[parent, slot]

    g = t + r * (1 - t)
    g_before = t + r_before * (1 - t)
    c = (1 - r) / g
    c_before = (1 - r_before) / g_before
    fractions = np.broadcast_to(layout.fractions[:, None], g.shape)
    factor = np.stack((fractions, r * (1 - t) / g_before, g / g_before), axis=1)
    gain = np.stack((np.zeros_like(g), -1 / (1 - t) - c_before, c - c_before), axis=1)
    return Edges(before, slots, factor, gain * weights)


class CoverWalk:
    """Sums of rows, for trees of any depth, without tables.

    Pairs are summed at the leaves: their interactions, or second differences with all players
    present.
    """

    def __init__(self, game: CoverGame, *, second_differences: bool = False) -> None:
        self.game = game
        self.second_differences = second_differences
        self.edges = edges_of(game.layout)
        self.trees = list(_walked_trees(game.layout, game.players))

    def add(self, seen: Floats, sums: Floats) -> None:
        """Add to the sums (r, cells, k) of rows; cells are players, or pairs of them, p * p."""
        decisions = self.game.layout.decisions
        step = min(MAX_WALKED_ROWS, MAX_ANSWER_BYTES // (len(decisions) + 1) + 1)
        add_tree = self._add_pairs if self.game.pairs else self._add_values
        for start in range(0, len(seen), step):
            right = decisions.go_right(seen[start : start + step])
            found = np.zeros((sums.shape[2], sums.shape[1], right.shape[1]))
            for tree in self.trees:
                add_tree(tree, right, found)
            sums[start : start + step] += found.transpose(2, 1, 0)

    def _states(self, tree: "_WalkedTrees", right: Bytes) -> tuple[Bytes, Bytes]:
        """Return the states (n, r) of rows, and whether they pass (n + 1, r), for decisions (q, r).

        What is behind the last node is passed.
        """
        layout = self.game.layout
        shape = (len(tree.node), right.shape[1])
        states = np.full(shape, 2, dtype=np.uint8)
        passes = np.ones((shape[0] + 1, shape[1]), dtype=np.uint8)
        for level in tree.levels[1:]:
            node = tree.node[level]
            parent = tree.parent[level]
            on_right = (layout.child[tree.node[parent]] != node).astype(np.uint8)
            before = passes[tree.local(self.edges.before[node])]
            here = right[layout.decision[tree.node[parent]]] == on_right[:, None]
            passes[level] = before & here
            states[level] = before + passes[level]
        return states, passes

    def _add_values(self, tree: "_WalkedTrees", right: Bytes, sums: Floats) -> None:
        """Add to the sums (k, p, r)."""
        states, _ = self._states(tree, right)
        lines = 3 * tree.node[:, None] + states
        size = self.edges.factor.shape[2]
        factor = self.edges.factor.reshape(-1, size)
        gain = self.edges.gain.reshape(-1, size)
        products = np.ones((*states.shape, size))
        for level in tree.levels[1:]:
            np.multiply(
                products[tree.parent[level]], factor.take(lines[level], axis=0), out=products[level]
            )

        changes = np.zeros(states.shape)
        for of_output, value in zip(sums, self.game.layout.value[tree.node].T, strict=True):
            below = products * value[:, None, None]  # 0 for nodes that are no leaf
            for level in tree.levels[:0:-1]:
                here = below[level]
                np.einsum("nrq,nrq->nr", gain.take(lines[level], axis=0), here, out=changes[level])
                below[tree.parent[level][::2]] = here[::2] + here[1::2]
            of_output += tree.player @ changes

    def _add_pairs(self, tree: "_WalkedTrees", right: Bytes, sums: Floats) -> None:
        """Add to the sums (k, p * p, r)."""
        layout = self.game.layout
        _, passes = self._states(tree, right)
        most = layout.paths.most
        rows = right.shape[1]
        nodes = 1 if self.second_differences else len(quadrature(most)[0])
        step = max(1, SCRATCH // (rows * most * max(most, nodes)))
        leaves = tree.node[layout.child[tree.node] < 0]
        for start in range(0, len(leaves), step):
            leaf = leaves[start : start + step]
            passed = passes[tree.local(self.edges.slots[leaf])].transpose(0, 2, 1) > 0
            reach = layout.reach[leaf][:, None, :]
            pairs_of = _second_differences if self.second_differences else _interactions
            pairs = pairs_of(passed, reach)  # (l, r, m, m)
            pairs = pairs.transpose(0, 2, 3, 1).reshape(-1, rows)

            # each pair once: the second player is behind the first on the path
            players = layout.paths.players[leaf].astype(np.int64)
            cell = players[:, :, None] * self.game.players + players[:, None, :]
            is_second = np.broadcast_to(players[:, None, :] >= 0, cell.shape)
            place = np.flatnonzero(np.triu(is_second, 1))
            for of_output, value in zip(sums, layout.value[leaf].T, strict=True):
                worth = np.repeat(value, most * most)[place]
                shape = (len(of_output), len(pairs))
                of_output += csr_array((worth, (cell.ravel()[place], place)), shape=shape) @ pairs


def _interactions(passed: Bools, reach: Floats) -> Floats:
    """Return the interactions (l, r, m, m) of leaves' players by those passed (l, r, m)."""
    t, weights = quadrature(passed.shape[2])
    one = passed[..., None]
    r = reach[..., None]
    g = np.where(one, t + r * (1 - t), r * (1 - t))
    c = np.where(one, (1 - r) / (t + r * (1 - t)), -1 / (1 - t))
    weighted = c * (g.prod(axis=2) * weights)[:, :, None, :]
    return np.asarray(weighted @ c.swapaxes(2, 3))


def _second_differences(passed: Bools, reach: Floats) -> Floats:
    """Return v(U) - v(U-i) - v(U-j) + v(U-ij), (l, r, m, m), by the players passed (l, r, m).

    A player contributes [passed] - r_i, and all others must be passed.
    """
    change = passed - reach
    failed = (~passed).astype(np.int64)
    others = failed.sum(axis=2)[:, :, None, None] - failed[..., None] - failed[:, :, None, :]
    return np.asarray(change[..., None] * change[:, :, None, :] * (others == 0))


class _WalkedTrees(NamedTuple):
    """Some trees of a layout, whose nodes are numbered from the roots down."""

    node: Integers  #: (n,) in the layout
    number: Integers  #: of the layout's nodes among these; n for -1, which is behind the last
    parent: Integers  #: (n,) among these; 0 for roots
    levels: list[slice]
    player: csr_array  #: (p, n) 1 for the player that is asked on the way to the node

    def local(self, node: Integers) -> Integers:
        """Return the numbers of the layout's nodes; n if there is none."""
        return np.where(node < 0, len(self.node), self.number[node])


def _walked_trees(layout: Layout, players: int) -> Iterator[_WalkedTrees]:
    """Yield the trees of a layout, small ones together."""
    number = np.zeros(len(layout.child), dtype=np.int64)
    ends = np.cumsum(np.bincount(layout.tree))
    part = (ends - 1)[layout.tree] // MAX_WALKED_NODES
    order = np.argsort(part, kind="stable")
    starts = np.flatnonzero(np.diff(part[order], prepend=-1))
    depths = layout.depths
    for start, stop in pairwise([*starts, len(order)]):
        node = order[start:stop]
        number[node] = np.arange(len(node))
        parent = np.where(layout.parent[node] < 0, 0, number[layout.parent[node]])
        ends = np.cumsum(np.bincount(depths[node]))
        levels = [slice(first, last) for first, last in zip([0, *ends], ends, strict=False)]
        below = np.arange(levels[0].stop, len(node))
        asked = layout.player[node[parent[below]]]
        player = csr_array((np.ones(len(below)), (asked, below)), shape=(players, len(node)))
        yield _WalkedTrees(node, number, parent, levels, player)
