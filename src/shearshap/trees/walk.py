"""Walks from the roots to the leaves that some coalition of a row and a background row reaches.

A state of the walk is a node, a row x, a background row z, and the players that x and z failed
so far. If x and z go the same way, the walk follows them. If they part on a player i,

    it follows x,  and i is among those that z fails from now on, unless x has failed i before,
    it follows z,  and i is among those that x fails from now on, unless z has failed i before.

The states that arrive at leaves are the pairs that count: 1 to 4 % of all in deep trees.
"""

import math
from collections.abc import Iterator, Sequence
from fractions import Fraction
from itertools import combinations, pairwise
from math import comb
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from shearshap.games.indices import Index
from shearshap.trees.forest import MAX_ANSWER_BYTES, Bytes, Floats, Integers
from shearshap.trees.layout import BackgroundGame
from shearshap.trees.leaves import Coefficients

Masks = NDArray[np.uint64]

CELLS = 1 << 16  #: sums that are kept while pairs of rows are added to them
STATES = 1 << 17  #: that are walked on together: about 100 bytes each
WORD = 64  #: bits of a mask's word

BITS = np.array([bin(number).count("1") for number in range(1 << 16)], dtype=np.int64)


class States(NamedTuple):
    """The states of s walks at the same depth."""

    node: Integers  #: (s,)
    row: Integers  #: (s,)
    other: Integers  #: (s,) the background row
    failed: Masks  #: (s, w) the players that the row failed, by their places on the path
    other_failed: Masks  #: (s, w) those that the background row failed

    def take(self, places: Integers | slice) -> "States":
        """Return some of the states."""
        return States._make(field[places] for field in self)


class Walk:
    """Sums of rows against a background, for trees of any depth, without tables."""

    def __init__(self, game: BackgroundGame, factors: Coefficients | None = None) -> None:
        self.game = game
        self.layout = game.layout
        self.paths = game.layout.paths
        self.factors = factors or game.factors(self.paths.most)
        self.marks = _marks(self.paths.slot, words=max(1, -(-self.paths.most // WORD)))

    def add(self, seen: Floats, sums: Floats) -> None:
        """Add to the sums (r, cells, k) of rows; cells are players, or pairs of them, p * p."""
        cells = sums.shape[1]
        decisions = self.layout.decisions
        others_right = decisions.go_right(self.game.background)
        step = max(1, min(CELLS // cells, MAX_ANSWER_BYTES // (len(decisions) + 1)))
        for start in range(0, len(seen), step):
            right = decisions.go_right(seen[start : start + step])
            rows = right.shape[1]
            found = np.zeros((sums.shape[2], cells * rows))
            for leaves in self._arrivals(right, others_right):
                self._add_leaves(leaves, found, rows)
            sums[start : start + step] += found.reshape(-1, cells, rows).transpose(2, 1, 0)

    # The walk

    def _arrivals(self, right: Bytes, others_right: Bytes) -> Iterator[States]:
        """Yield the pairs of rows that count at each leaf, some at a time.

        The decisions (q, r) of rows and (q, b) of background rows are 1 if they go right.
        """
        pending = list(self._starts(right.shape[1], others_right.shape[1]))
        while pending:
            states = pending.pop()
            at_leaf = self.layout.child[states.node] < 0
            yield states.take(np.flatnonzero(at_leaf))
            states = states.take(np.flatnonzero(~at_leaf))
            if len(states.node):
                pending += _halves(self._step(states, right, others_right))

    def _starts(self, rows: int, others: int) -> Iterator[States]:
        """Yield the states at the roots, in blocks: every tree, row and background row."""
        sizes = (self.layout.levels[0].stop, rows, others)
        total = math.prod(sizes)
        step = STATES // 8  # they multiply on their way
        for start in range(0, total, step):
            number = np.arange(start, min(start + step, total))
            node, row, other = np.unravel_index(number, sizes)
            none = np.zeros((len(number), self.marks.shape[1]), dtype=np.uint64)
            yield States(node, row, other, none, none)

    def _step(self, states: States, right: Bytes, others_right: Bytes) -> States:
        """Return the states one level deeper."""
        decision = self.layout.decision[states.node]
        child = self.layout.child[states.node]
        side = right[decision, states.row]
        other_side = others_right[decision, states.other]
        mark = self.marks[states.node]

        agree = side == other_side
        may_keep = ~(states.failed & mark).any(axis=1)
        may_leave = ~(states.other_failed & mark).any(axis=1)

        parted = np.where(agree[:, None], np.uint64(0), mark)
        after_row = states._replace(node=child + side, other_failed=states.other_failed | parted)
        after_other = states._replace(node=child + other_side, failed=states.failed | parted)
        both = (
            after_row.take(np.flatnonzero(agree | may_keep)),
            after_other.take(np.flatnonzero(~agree & may_leave)),
        )
        return States._make(np.concatenate(fields) for fields in zip(*both, strict=True))

    # At the leaves

    def _add_leaves(self, leaves: States, sums: Floats, rows: int) -> None:
        """Add what leaves give to the sums (k, cells * r)."""
        (self._add_interactions if self.game.pairs else self._add_values)(leaves, sums, rows)

    def _add_values(self, leaves: States, sums: Floats, rows: int) -> None:
        sizes = self._sizes(leaves)
        present = self.factors.present[sizes]
        absent = -self.factors.absent[sizes]
        value = self._value(leaves)
        for slot in range(self.paths.most):
            cell = self._player(leaves, slot) * rows + leaves.row
            for masks, factor in ((leaves.other_failed, present), (leaves.failed, absent)):
                _add(sums, cell, factor, value, _members(masks, slot))

    def _add_interactions(self, leaves: States, sums: Floats, rows: int) -> None:
        sizes = self._sizes(leaves)
        value = self._value(leaves)
        signs = (
            (leaves.other_failed, leaves.other_failed, self.factors.both_present[sizes]),
            (leaves.failed, leaves.failed, self.factors.both_absent[sizes]),
            (leaves.failed, leaves.other_failed, -self.factors.mixed[sizes]),
            (leaves.other_failed, leaves.failed, -self.factors.mixed[sizes]),
        )
        for second in range(self.paths.most):
            for first in range(second):
                of_first = self._player(leaves, first) * self.game.players
                cell = (of_first + self._player(leaves, second)) * rows + leaves.row
                for masks, other_masks, factor in signs:
                    are = _members(masks, first) & _members(other_masks, second)
                    _add(sums, cell, factor, value, are)

    def _sizes(self, leaves: States) -> tuple[Integers, Integers]:
        """Return how many players the background row and the row failed, (s,) each."""
        return _popcount(leaves.other_failed), _popcount(leaves.failed)

    def _value(self, leaves: States) -> Floats:
        """Return what each leaf is worth to its pair (s, k)."""
        return np.asarray(self.layout.value[leaves.node] * self.game.weights[leaves.other, None])

    def _player(self, leaves: States, slot: int) -> Integers:
        return np.asarray(self.paths.players[leaves.node, slot], dtype=np.int64)


class IndexWalk(Walk):
    """Sums of an index of all sets of up to k players, in the order of `sets_up_to`.

    With i players of a set T of size s among the a that the background row failed, q, and j = s - i
    among the b that the row failed, u, the leaf's game (leaves.py) has the derivative (-1)^j at T
    if the other players of q are present and those of u absent, and 0 otherwise. So T gets

        value (-1)^j E[t^(a-i) (1-t)^(b-j)],

    which follows from the moments E[(2t - 1)^n] of the index for sets of size s.
    """

    def __init__(self, game: BackgroundGame, index: Index) -> None:
        super().__init__(game)
        self.sets = SetNumbers(game.players, index.order)
        most = min(self.paths.most, game.players)
        self.chances = [_chances(moments, most) for moments in index.moments]

    def _add_leaves(self, leaves: States, sums: Floats, rows: int) -> None:
        a, b = self._sizes(leaves)
        for count in np.unique(a + b):
            some = np.flatnonzero(a + b == count)
            if count:
                self._add_sets(leaves.take(some), a[some], b[some], sums, rows)

    def _add_sets(self, leaves: States, a: Integers, b: Integers, sums: Floats, rows: int) -> None:
        """Add the sets of leaves on whose paths equally many players are failed by either row."""
        slots = range(self.paths.most)
        present = np.stack([_members(leaves.other_failed, slot) for slot in slots], axis=1)
        absent = np.stack([_members(leaves.failed, slot) for slot in slots], axis=1)
        state, slot = np.nonzero(present | absent)
        players = self.paths.players[leaves.node[state], slot].astype(np.int64)
        players = players.reshape(len(a), -1)
        is_absent = absent[state, slot].reshape(players.shape)
        order = np.argsort(players, axis=1)
        players = np.take_along_axis(players, order, axis=1)
        is_absent = np.take_along_axis(is_absent, order, axis=1)

        value = self._value(leaves)
        everyone = np.ones(len(a), dtype=bool)
        for size, chances in enumerate(self.chances, start=1):
            for some in combinations(range(players.shape[1]), size):
                j = is_absent[:, some].sum(axis=1)
                factor = (1.0 - 2.0 * (j % 2)) * chances[a - (size - j), b - j]
                cell = self.sets(players[:, some]) * rows + leaves.row
                _add(sums, cell, factor, value, everyone)


class SetNumbers:
    """The numbers of sets of players among those of `sets_up_to`."""

    def __init__(self, players: int, order: int) -> None:
        self.players = players
        sizes = range(order + 1)
        self.binomials = np.array([[comb(n, k) for k in sizes] for n in range(players + 1)])
        self.starts = np.cumsum([0, *self.binomials[players, 1:]])

    def __call__(self, members: Integers) -> Integers:
        """Return the numbers (s,) of sets whose members (s, size) ascend.

        With the players numbered from the last, d, sum_i C(d_i, size - i) sets are further on.
        """
        size = members.shape[1]
        after = self.binomials[self.players - 1 - members, np.arange(size, 0, -1)].sum(axis=1)
        return np.asarray(self.starts[size] - 1 - after)


def _chances(moments: Sequence[Fraction], most: int) -> Floats:
    """Return E[t^x (1-t)^y], (m + 1, m + 1), for x + y of up to the last moment E[(2t - 1)^n].

    From 2 t^(x+1) (1-t)^y = t^x (1-t)^y (1 + (2t - 1)), and the same of 1 - t with a minus.
    """
    table = np.zeros((most + 1, most + 1))
    line = list(moments)  # of t^x (2t - 1)^n
    for x in range(min(most + 1, len(moments))):
        of_both = line
        for y in range(min(most + 1, len(of_both))):
            table[x, y] = float(of_both[0])
            of_both = [(low - high) / 2 for low, high in pairwise(of_both)]
            if not of_both:
                break
        line = [(low + high) / 2 for low, high in pairwise(line)]
    return table


def _marks(slot: Integers, words: int) -> Masks:
    """Return the masks (n, w) with one bit, that of the slot."""
    marks = np.zeros((len(slot), words), dtype=np.uint64)
    bit = np.uint64(1) << (slot % WORD).astype(np.uint64)
    marks[np.arange(len(slot)), slot // WORD] = bit
    return marks


def _halves(states: States) -> list[States]:
    """Return the states in blocks that memory has room for."""
    half = len(states.node) // 2
    if 2 * half < STATES:
        return [states]
    return _halves(states.take(slice(half))) + _halves(states.take(slice(half, None)))


def _members(masks: Masks, slot: int) -> NDArray[np.bool_]:
    """Return whether each mask has the player of a slot."""
    bit = np.uint64(1) << np.uint64(slot % WORD)
    return np.asarray((masks[:, slot // WORD] & bit) != 0)


def _popcount(masks: Masks) -> Integers:
    """Return how many bits each mask (s, w) has."""
    return np.asarray(BITS[masks.view(np.uint16)].sum(axis=1))


def _add(
    sums: Floats, cell: Integers, factor: Floats, value: Floats, chosen: NDArray[np.bool_]
) -> None:
    """Add factor * value of some states to their cells of the sums (k, cells)."""
    places = np.flatnonzero(chosen)
    if not len(places):
        return
    cell = cell[places]
    amounts = factor[places, None] * value[places]
    for output in range(len(sums)):
        sums[output] += np.bincount(cell, weights=amounts[:, output], minlength=sums.shape[1])
