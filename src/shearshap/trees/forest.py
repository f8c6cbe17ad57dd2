"""One form for the trees of every library: nodes, and the decisions they take."""

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Integers = NDArray[np.int64]
Bools = NDArray[np.bool_]
Bytes = NDArray[np.uint8]

BLOCK = 256  #: rows that are predicted at once
FEW_DECISIONS = 32  #: for each tree: so few are faster taken all than on the way


@dataclass(frozen=True, eq=False)
class CategoryDecisions:
    """The decisions about a column of categories, which each send some of its codes right."""

    decision: Integers  #: (n,) the numbers of these decisions
    code: Integers  #: (m,) the codes that any of them names, in order

    #: (n, m + 2) 1 where a code goes right; behind them any other code, and a missing value.
    right: Bytes

    def take(self, place: Integers) -> "CategoryDecisions":
        """Return those that have a new number in `place` (q,), which is -1 for the others."""
        kept = np.flatnonzero(place[self.decision] >= 0)
        return CategoryDecisions(place[self.decision[kept]], self.code, self.right[kept])

    def go_right(self, inputs: Floats) -> Bytes:
        """Return 1 where a row goes right, (n, r), for the codes of rows (r,)."""
        return np.take(self.right, self.places(inputs), axis=1)

    def places(self, inputs: Floats) -> Integers:
        """Return the columns of `right` that hold the codes (r,)."""
        known = np.append(self.code.astype(np.float64), np.nan)
        truncated = np.trunc(inputs)  # as libraries make an integer of a code
        place = np.searchsorted(known[:-1], truncated)

        other = len(self.code)
        place = np.where(known[place] == truncated, place, other)
        return np.where(np.isnan(inputs), other + 1, place)


@dataclass(frozen=True, eq=False)
class Decisions:
    """The distinct questions that the nodes of a forest ask about one column each.

    Those about categories have no threshold of their own; `categories` knows them.
    """

    column: Integers  #: (q,) the column each asks about, as the trees see the rows
    threshold: Floats  #: (q,) a value at most that high goes left
    strict: Bools  #: (q,) only a value below the threshold goes left
    missing_left: Bools  #: (q,) whether a missing value goes left
    categories: tuple[CategoryDecisions, ...] = ()

    def __len__(self) -> int:
        """Return how many there are."""
        return len(self.column)

    def take(self, numbers: Integers) -> "Decisions":
        """Return some of the decisions, by their numbers, each of them once."""
        place = np.full(len(self), -1)
        place[numbers] = np.arange(len(numbers))
        categories = [some.take(place) for some in self.categories]
        return Decisions(
            self.column[numbers],
            self.threshold[numbers],
            self.strict[numbers],
            self.missing_left[numbers],
            tuple(some for some in categories if len(some.decision)),
        )

    def go_right(self, seen: Floats) -> Bytes:
        """Return 1 where a row goes right, (q, r), for rows as the trees see them (r, d)."""
        inputs = np.ascontiguousarray(seen.T)
        right = np.empty((len(self), len(seen)), dtype=np.bool_)

        for part in self._comparisons:
            part.compare(inputs[part.column], right)

        answers = right.view(np.uint8)
        for categories in self.categories:
            column = self.column[categories.decision[0]]
            answers[categories.decision] = categories.go_right(inputs[column])
        return answers

    def go_right_each(self, decision: Integers, seen: Floats, row: Integers) -> Bools:
        """Return where (n,) a row each, of those seen (r, d), goes right at a decision each."""
        inputs = seen[row, self.column[decision]]
        right = inputs > self.limit[decision]
        missing = np.flatnonzero(np.isnan(inputs))
        right[missing] = ~self.missing_left[decision[missing]]

        for categories in self.categories:
            place = np.full(len(self), -1)
            place[categories.decision] = np.arange(len(categories.decision))
            asked = np.flatnonzero(place[decision] >= 0)
            codes = categories.places(inputs[asked])
            right[asked] = categories.right[place[decision[asked]], codes]
        return right

    @cached_property
    def limit(self) -> Floats:
        """(q,) the highest values that go left."""
        return highest_left(self.threshold, self.strict)

    @cached_property
    def _comparisons(self) -> tuple["_Comparisons", ...]:
        numeric = np.ones(len(self), dtype=np.bool_)
        for categories in self.categories:
            numeric[categories.decision] = False
        return tuple(self._by_column(np.flatnonzero(numeric)))

    def _by_column(self, numbers: Integers) -> Iterator["_Comparisons"]:
        numbers = numbers[np.argsort(self.column[numbers], kind="stable")]
        _, starts = np.unique(self.column[numbers], return_index=True)
        for part in np.split(numbers, starts[1:]):
            if len(part):
                limits, place = np.unique(self.limit[part], return_inverse=True)
                small = np.int16 if len(limits) < np.iinfo(np.int16).max else np.int32
                yield _Comparisons(
                    column=int(self.column[part[0]]),
                    numbers=_slice_or(part),
                    limits=limits,
                    place=place.astype(small)[:, None],
                    missing_left=part[self.missing_left[part]],
                )


def highest_left(threshold: Floats, strict: Bools) -> Floats:
    """Return the highest values that go left: x < t is the same as x <= the number before t.

    There is none before minus infinity, with which no library compares strictly.
    """
    return np.where(strict, np.nextafter(threshold, -np.inf), threshold)


def _slice_or(numbers: Integers) -> slice | Integers:
    """Return consecutive numbers as a slice, which numpy reads and writes without a copy."""
    first = int(numbers[0])
    stop = int(numbers[-1]) + 1
    return slice(first, stop) if stop - first == len(numbers) else numbers


@dataclass(frozen=True, eq=False)
class _Comparisons:
    """The decisions that compare one column with numbers.

    A value is placed among all numbers once; small integers then compare faster than floats:

        limits               0.5    1.5    4.0
        place                0      1      2
        rank of x      0      |  1   |  2   |  3         x > limit: rank > place
    """

    column: int
    numbers: slice | Integers  #: (n,) of the decisions
    limits: Floats  #: (m,) the highest values that go left, in order
    place: Any  #: (n, 1) of each decision's limit among them
    missing_left: Integers  #: the numbers of those that send a missing value left

    def compare(self, inputs: Floats, right: Bools) -> None:
        """Write into `right` (q, r) which values (r,) go right."""
        rank = np.searchsorted(self.limits, inputs).astype(self.place.dtype)
        if isinstance(self.numbers, slice):
            np.greater(rank, self.place, out=right[self.numbers])
        else:
            right[self.numbers] = rank > self.place

        # a missing value is placed behind all limits: it went right
        if len(self.missing_left):
            missing = np.flatnonzero(np.isnan(inputs))
            if len(missing):
                right[self.missing_left[:, None], missing] = False


@dataclass(frozen=True, eq=False)
class Forest:
    """Trees, all in one table of nodes; the model's output is the sum of a leaf of each tree."""

    left: Integers  #: (n,) the node to the left; -1 for a leaf
    right: Integers  #: (n,)
    decision: Integers  #: (n,) the number of the node's decision; -1 for a leaf
    value: Floats  #: (n, k) of leaves, for each output; 0 for other nodes
    roots: Integers  #: (t,)
    decisions: Decisions

    @property
    def outputs(self) -> int:
        """The number of outputs k."""
        return int(self.value.shape[1])

    def predict(self, seen: Floats) -> Floats:
        """Return the sums of leaves (r, k) for rows as the trees see them."""
        few = 0 < len(self.decisions) <= FEW_DECISIONS * len(self.roots)
        sums = self._sums_of_few if few else self._sums
        blocks = [sums(seen[start : start + BLOCK]) for start in range(0, len(seen), BLOCK)]
        return np.concatenate(blocks) if blocks else np.zeros((0, self.outputs))

    @cached_property
    def _children(self) -> Integers:
        """(n * 2,) the node to the left and that to the right of each; a leaf stays where it is."""
        both = np.stack((self.left, self.right), axis=1)
        return np.where(both < 0, np.arange(len(both))[:, None], both).ravel()

    def _sums_of_few(self, seen: Floats) -> Floats:
        rows = np.arange(len(seen))
        answers = self.decisions.go_right(seen).ravel()  # at decision * r + row; of a leaf, any
        node = np.repeat(self.roots[:, None], len(rows), axis=1)
        while True:
            right = answers[self.decision[node] * len(rows) + rows]
            following = self._children[2 * node + right]
            if (following == node).all():
                return np.asarray(self.value[node].sum(axis=0))
            node = following

    def _sums(self, seen: Floats) -> Floats:
        at = np.repeat(self.roots, len(seen))
        row = np.tile(np.arange(len(seen)), len(self.roots))
        walking = np.flatnonzero(self.left[at] >= 0)
        node = at[walking]

        # of a deep forest a row meets few decisions: they are taken on the way
        while len(walking):
            decision = self.decision[node]
            right = self.decisions.go_right_each(decision, seen, row[walking])
            node = np.where(right, self.right[node], self.left[node])
            at[walking] = node

            goes_on = self.left[node] >= 0
            walking = walking[goes_on]
            node = node[goes_on]
        return np.asarray(self.value[at.reshape(-1, len(seen))].sum(axis=0))
