"""Hierarchies: players in nested groups, whose members join one after the other.

Without a structure, players join in any order. With one, the members of a group join together: no
outsider comes between them. The mean of what a player adds, over all such orders, is its Owen value
(Owen 1977) or, for groups within groups, its Winter value (Winter 1989). The values of a group's
members add up to the value that the group has as one player.

Players 0 to 4, of which 0, 1 and 2 are a group with a group inside:

    paths     (a, b)  (a, b)  (a,)  ()  ()
    tree      root
              ├── a
              │   ├── b
              │   │   ├── 0
              │   │   └── 1
              │   └── 2
              ├── 3
              └── 4

A coalition has a say only if each group has at most one member, itself a player or a group, of
which a part is present: {0, 3} does, {0, 2, 3} does, {0} with 3 and 4 does.

Letters: c coalitions, n draws, p players.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from math import comb

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from shearshap.errors import InputError
from shearshap.games.coalitions import Bools, Floats, codes, subsets

MAX_DEPTH = 400  #: groups within each other


@dataclass(frozen=True)
class Node:
    """A player, or a group of two or more members."""

    players: tuple[int, ...]
    children: tuple["Node", ...] = ()

    def coalitions(self) -> int:
        """Return the number of coalitions with non-zero weight, the two ends included.

        Its members are wholly present or absent, or all but one are.
        """
        if not self.children:
            return 2
        parts = sum(child.coalitions() - 2 for child in self.children)
        return (1 << len(self.children)) + (parts << (len(self.children) - 1))


@dataclass(frozen=True)
class Structure:
    """The groups that each player is in, by their names, from the largest to the smallest."""

    paths: tuple[tuple[str, ...], ...]

    @cached_property
    def root(self) -> Node:
        """The group of all players; a group of a single member is that member."""
        return self._node(range(len(self.paths)), 0)

    def _node(self, players: Sequence[int], depth: int) -> Node:
        if len(players) == 1:
            return Node(tuple(players))
        groups: dict[object, list[int]] = {}
        for player in players:
            path = self.paths[player]
            groups.setdefault(path[depth] if depth < len(path) else player, []).append(player)
        if len(groups) == 1:
            return self._node(players, depth + 1)
        children = tuple(self._node(own, depth + 1) for own in groups.values())
        return Node(tuple(players), children)

    @cached_property
    def coalitions(self) -> int:
        """The number of coalitions with non-zero weight."""
        return self.root.coalitions()

    def nodes(self) -> Iterator[Node]:
        """Yield every group, each before its members."""
        waiting = [self.root]
        while waiting:
            node = waiting.pop()
            if node.children:
                yield node
                waiting.extend(node.children)

    def orders(self, draws: int, rng: np.random.Generator) -> NDArray[np.int64]:
        """Draw joining orders in which the members of every group stay together, (n, p).

        At each level every group draws a random key; players are sorted by those of their groups,
        the largest group's first.
        """
        keys = [rng.random((draws, level.max() + 1))[:, level] for level in self._levels]
        return np.asarray(np.lexsort(keys[::-1], axis=-1))

    @cached_property
    def _levels(self) -> list[NDArray[np.int64]]:
        """The number of each player's group at each level below the root, (p,) each."""
        levels = []
        nodes = [self.root]
        while any(node.children for node in nodes):
            nodes = [child for node in nodes for child in (node.children or (node,))]
            level = np.empty(len(self.paths), dtype=np.int64)
            for number, node in enumerate(nodes):
                level[list(node.players)] = number
            levels.append(level)
        return levels

    def listed(self) -> "tuple[Tensor, Tensor]":
        """Return the coalitions with non-zero weight (c, p), the ends first, and weights (p, c).

        With n members of a group, its other members join a member's part of the group before it as
        a set of s of them with the weight of a Shapley value, s! (n-1-s)! / n!. A player's set is
        the union over its groups, and has the product of the weights: W v are the Winter values.
        The weights are sparse.
        """
        empty = np.zeros((1, len(self.paths)), dtype=bool)
        before, player, weight = [], [], []
        waiting = [(self.root, empty, np.ones(1))]
        while waiting:
            node, others, weights = waiting.pop()
            if node.children:
                waiting.extend(_contexts(node, others, weights))
            else:
                before.append(others)
                player.append(np.full(len(others), node.players[0]))
                weight.append(weights)

        joins = np.concatenate(player)
        absent = np.concatenate(before)
        present = absent.copy()
        present[np.arange(len(joins)), joins] = True
        every = torch.from_numpy(np.concatenate((empty, ~empty, absent, present)))
        _, first, place = np.unique(codes(every).numpy(), return_index=True, return_inverse=True)
        rank = np.argsort(np.argsort(first))  # in the order in which they first occur
        columns = rank[place.reshape(-1)[2:]]
        weighted = np.concatenate(weight)
        matrix = torch.sparse_coo_tensor(
            torch.from_numpy(np.stack((np.tile(joins, 2), columns))),
            torch.from_numpy(np.concatenate((-weighted, weighted))),
            (len(self.paths), len(first)),
            check_invariants=False,
        )
        return every[torch.from_numpy(np.sort(first))], matrix.coalesce()


def structure_of(paths: tuple[tuple[str, ...], ...] | None) -> Structure | None:
    """Return the structure of players in groups; None if no group has an outsider and a member.

    Groups of one player, and one group of all, do not restrict the order of players.
    """
    if paths is None:
        return None
    deepest = max(map(len, paths))
    if deepest > MAX_DEPTH:
        raise InputError(
            f"groups: expected groups nested at most {MAX_DEPTH} deep, got {deepest}; try a "
            "linkage of method 'complete' or 'average'"
        )
    structure = Structure(paths)
    return structure if any(child.children for child in structure.root.children) else None


def _contexts(node: Node, others: Bools, weights: Floats) -> Iterator[tuple[Node, Bools, Floats]]:
    """Yield each member of a group with the sets that may join before it, and their weights.

    `others` (c, p) may join before the group, with `weights` (c,).
    """
    count = len(node.children)
    chosen = subsets(count - 1)
    sizes = chosen.sum(axis=1)
    share = np.array([1 / (count * comb(count - 1, size)) for size in range(count)])[sizes]
    inside = np.zeros((count, others.shape[1]), dtype=bool)
    for number, child in enumerate(node.children):
        inside[number, list(child.players)] = True
    for number, child in enumerate(node.children):
        siblings = chosen @ np.delete(inside, number, axis=0)
        sets = (others[:, None] | siblings).reshape(-1, others.shape[1])
        yield child, sets, np.outer(weights, share).reshape(-1)
