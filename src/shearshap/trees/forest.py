"""One form for the trees of every library: nodes, and the decisions they take.

Readers give arrays of nodes for each tree:

    node        0       1       2       3       4
    left        1      -1       3      -1      -1         leaves have none
    right       2      -1       4      -1      -1
    column      0       .       5       .       .
    threshold   0.5     .       1.5     .       .

`build_forest` numbers the nodes of all trees, in which no question is asked twice.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Integers = NDArray[np.int64]
Bools = NDArray[np.bool_]
Bytes = NDArray[np.uint8]

MAX_BLOCK_ROWS = 256  #: that are predicted at once
MAX_ANSWER_BYTES = 1 << 26  #: of the decisions of these rows


class UnsupportedTrees(Exception):  # noqa: N818  (a reason to go on by sampling, not a failure)
    """The model is not a sum of leaves that can be read; its text is the reason, in one line.

    Linear models, which are sums of columns times coefficients, are refused in the same way.
    """


class NotASum(UnsupportedTrees):
    """What is explained is not a sum of the model's terms, as a probability; its margin may be."""


@dataclass(frozen=True, eq=False)
class TreeModel:
    """A model's trees, and how its rows become what the trees see.

    The sums of leaves are the model's margin, its prediction or its probability, whichever is
    linear in the leaves, up to a constant. The caller compares them with the model.
    """

    forest: "Forest"
    preprocess: Callable[[Any], Floats]  #: rows as the model takes them, to float64 (r, d')

    #: (d',) the input column that each seen column is made of; later, the player that owns it.
    owner: Integers

    unknown: tuple[str, ...] = ()  #: transformers that may make a column of several


@dataclass(frozen=True, eq=False)
class Forest:
    """Trees, all in one table of nodes; the model's output is the sum of a leaf of each tree."""

    left: Integers  #: (n,) the node to the left; -1 for a leaf
    right: Integers  #: (n,)
    decision: Integers  #: (n,) the number of the node's decision; -1 for a leaf
    value: Floats  #: (n, k) of leaves, for each output; 0 for other nodes
    cover: Floats  #: (n,) of leaves, how much of the training data they hold; NaN: unknown
    roots: Integers  #: (t,)
    decisions: "Decisions"

    @property
    def outputs(self) -> int:
        """The number of outputs k."""
        return int(self.value.shape[1])

    @property
    def terms(self) -> int:
        """How many terms a sum has: one leaf of each tree."""
        return len(self.roots)

    @property
    def noun(self) -> str:
        """The terms, for people to read."""
        return "leaves"

    def largest_sums(self) -> Floats:
        """Return the sum over the trees of their largest leaves, (k,): rounding grows with it."""
        sizes = np.abs(self.value)
        return np.asarray(np.maximum.reduceat(sizes, np.sort(self.roots)).sum(axis=0))

    def extreme_sums(self, directions: Floats) -> Floats:
        """Return the sums of leaves (n, k) that go farthest in directions (k, n)."""
        extremes = np.zeros(directions.T.shape)
        is_leaf = self.left < 0
        starts = np.sort(self.roots)
        for start, stop in zip(starts, [*starts[1:], len(is_leaf)], strict=True):
            leaves = self.value[start:stop][is_leaf[start:stop]]
            extremes += leaves[(leaves @ directions).argmax(axis=0)]
        return extremes

    @property
    def mean(self) -> Floats:
        """(k,) the mean sum of leaves over the training data, by their covers."""
        starts = np.sort(self.roots)
        sizes = np.diff([*starts, len(self.cover)])
        total = np.repeat(np.add.reduceat(self.cover, starts), sizes)
        return np.asarray((self.cover / total) @ self.value)

    def predict(self, seen: Floats) -> Floats:
        """Return the sums of leaves (r, k) for rows as the trees see them."""
        step = min(MAX_BLOCK_ROWS, MAX_ANSWER_BYTES // (len(self.decisions) + 1) + 1)
        blocks = [self._sums(seen[start : start + step]) for start in range(0, len(seen), step)]
        return np.concatenate(blocks) if blocks else np.zeros((0, self.outputs))

    def _sums(self, seen: Floats) -> Floats:
        rows = np.arange(len(seen))
        answers = self.decisions.go_right(seen).ravel()  # at decision * r + row
        start = np.maximum(self.decision, 0) * len(rows)
        node = np.repeat(self.roots[:, None], len(rows), axis=1)
        while (self.left.take(node) >= 0).any():
            right = answers.take(start.take(node) + rows)
            node = self._children.take(2 * node + right)
        return np.asarray(self.value[node].sum(axis=0))

    @cached_property
    def _children(self) -> Integers:
        """(n * 2,) the node to the left and that to the right of each; a leaf stays where it is."""
        both = np.stack((self.left, self.right), axis=1)
        return np.where(both < 0, np.arange(len(both))[:, None], both).ravel()


@dataclass(frozen=True, eq=False)
class Decisions:
    """The distinct questions that the nodes of a forest ask about one column each.

    Those that compare a column with numbers are next to each other. Those about categories have
    the threshold NaN; `categories` knows them.
    """

    column: Integers  #: (q,) the column each asks about, as the trees see the rows
    threshold: Floats  #: (q,) a value at most that high goes left
    missing_left: Bools  #: (q,) whether a missing value goes left
    categories: tuple["CategoryDecisions", ...] = ()

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
            self.missing_left[numbers],
            tuple(some for some in categories if len(some.decision)),
        )

    def go_right(self, seen: Floats) -> Bytes:
        """Return 1 if a row goes right, (q, r), for rows as the trees see them (r, d)."""
        inputs = np.ascontiguousarray(seen.T)
        right = np.empty((len(self), len(seen)), dtype=np.bool_)

        for part in self._comparisons:
            part.compare(inputs[part.column], right)

        answers = right.view(np.uint8)
        for categories in self.categories:
            column = self.column[categories.decision[0]]
            answers[categories.decision] = categories.go_right(inputs[column])
        return answers

    @cached_property
    def _comparisons(self) -> list["_Comparisons"]:
        numbers = np.flatnonzero(~np.isnan(self.threshold))
        starts = np.flatnonzero(np.diff(self.column[numbers])) + 1
        found = []
        for part in np.split(numbers, starts) if len(numbers) else ():
            limits, place = np.unique(self.threshold[part], return_inverse=True)
            small = np.int16 if len(limits) < np.iinfo(np.int16).max else np.int32
            found.append(
                _Comparisons(
                    column=int(self.column[part[0]]),
                    numbers=slice(part[0], part[-1] + 1),
                    limits=limits,
                    place=place.astype(small)[:, None],
                    missing_left=part[self.missing_left[part]],
                )
            )
        return found


@dataclass(frozen=True, eq=False)
class CategoryDecisions:
    """The decisions about a column of categories, which each send some of its codes right."""

    decision: Integers  #: (n,) the numbers of these decisions
    code: Integers  #: (m,) the codes that any of them names, in order

    #: (n, m + 2) 1 if a code goes right; behind them any other code, and a missing value.
    right: Bytes

    def take(self, place: Integers) -> "CategoryDecisions":
        """Return those that have a new number in `place` (q,), which is -1 for the others."""
        kept = np.flatnonzero(place[self.decision] >= 0)
        return CategoryDecisions(place[self.decision[kept]], self.code, self.right[kept])

    def go_right(self, inputs: Floats) -> Bytes:
        """Return 1 if a row goes right, (n, r), for the codes of rows (r,)."""
        known = np.append(self.code.astype(np.float64), np.nan)
        truncated = np.trunc(inputs)  # as libraries make an integer of a code
        place = np.searchsorted(known[:-1], truncated)

        other = len(self.code)
        place = np.where(known[place] == truncated, place, other)
        place[np.isnan(inputs)] = other + 1
        return np.take(self.right, place, axis=1)


@dataclass(frozen=True, eq=False)
class _Comparisons:
    """The decisions that compare one column with numbers.

    A value is placed among all numbers once; small integers then compare faster than floats:

        limits               0.5    1.5    4.0
        place                0      1      2
        rank of x      0      |  1   |  2   |  3         x > limit: rank > place
    """

    column: int
    numbers: slice  #: (n,) of the decisions
    limits: Floats  #: (m,) the highest values that go left, in order
    place: Any  #: (n, 1) of each decision's limit among them
    missing_left: Integers  #: the numbers of those that send a missing value left

    def compare(self, inputs: Floats, right: Bools) -> None:
        """Write into `right` (q, r) which values (r,) go right."""
        rank = np.searchsorted(self.limits, inputs).astype(self.place.dtype)
        np.greater(rank, self.place, out=right[self.numbers])

        # a missing value is placed behind all limits: it went right
        if len(self.missing_left):
            missing = np.flatnonzero(np.isnan(inputs))
            if len(missing):
                right[self.missing_left[:, None], missing] = False


# Building


@dataclass(frozen=True)
class CategorySet:
    """Which codes of a category go left at a node, and which right."""

    left: frozenset[int]
    right: frozenset[int] = frozenset()
    other_left: bool = False  #: whether any other code goes left
    missing_left: bool = False


@dataclass(frozen=True, eq=False)
class Tree:
    """The nodes of one tree; what stands at a leaf for column and threshold does not matter."""

    left: Integers  #: (n,) the child to the left, negative for a leaf
    right: Integers  #: (n,)
    column: Integers  #: (n,)
    threshold: Floats  #: (n,)
    missing_left: Bools  #: (n,)
    value: Floats  #: (n, k)
    cover: Any  #: (n,) of leaves, how much of the training data they hold; or NaN
    categories: dict[int, CategorySet] = field(default_factory=dict)  #: of nodes that ask for them


def build_forest(trees: Sequence[Tree]) -> Forest:
    """Return the forest of some trees."""
    if not trees:
        raise UnsupportedTrees("it has no trees")
    sizes = np.array([len(tree.left) for tree in trees])
    roots = np.cumsum(sizes) - sizes
    shift = np.repeat(roots, sizes)
    left = np.concatenate([tree.left for tree in trees]).astype(np.int64)
    right = np.concatenate([tree.right for tree in trees]).astype(np.int64)
    column = np.concatenate([tree.column for tree in trees]).astype(np.int64)
    threshold = np.concatenate([tree.threshold for tree in trees]).astype(np.float64)
    missing_left = np.concatenate([tree.missing_left for tree in trees]).astype(np.bool_)
    value = np.concatenate([tree.value for tree in trees]).astype(np.float64)
    covers = [np.broadcast_to(tree.cover, len(tree.left)) for tree in trees]
    cover = np.concatenate(covers).astype(np.float64)

    leaf = left < 0
    left = np.where(leaf, -1, left + shift)
    right = np.where(leaf, -1, right + shift)
    counts = leaf & _reached(left, right, roots)
    value[~counts] = 0.0
    cover[~counts] = 0.0
    sets = {
        int(root) + node: categories
        for root, tree in zip(roots, trees, strict=True)
        for node, categories in tree.categories.items()
        if not leaf[int(root) + node]
    }
    compares = ~leaf
    compares[list(sets)] = False

    numbers, decisions = _distinct(column, threshold, missing_left, np.flatnonzero(compares))
    decision = np.full(len(left), -1, dtype=np.int64)
    decision[compares] = numbers
    if sets:
        decisions = _with_categories(decisions, decision, column, sets)
    return Forest(left, right, decision, value, cover, roots, decisions)


def _reached(left: Integers, right: Integers, roots: Integers) -> Bools:
    """Return whether a root leads to each node (n,): not to those that a library has pruned."""
    reached = np.zeros(len(left), dtype=np.bool_)
    level = roots
    while len(level):
        reached[level] = True
        inner = level[left[level] >= 0]
        level = np.concatenate((left[inner], right[inner]))
    return reached


def _distinct(
    column: Integers, threshold: Floats, missing_left: Bools, nodes: Integers
) -> tuple[Integers, Decisions]:
    """Return the number of each node's decision (n,), and the distinct decisions by column."""
    keys = (missing_left[nodes], threshold[nodes], column[nodes])
    order = np.lexsort(keys)
    ordered = [key[order] for key in keys]
    is_new = np.ones(len(nodes), dtype=np.bool_)
    is_new[1:] = np.any([key[1:] != key[:-1] for key in ordered], axis=0)

    numbers = np.empty(len(nodes), dtype=np.int64)
    numbers[order] = np.cumsum(is_new) - 1
    first = nodes[order[is_new]]
    return numbers, Decisions(column[first], threshold[first], missing_left[first])


def _with_categories(
    decisions: Decisions, decision: Integers, column: Integers, sets: dict[int, CategorySet]
) -> Decisions:
    """Return the decisions and behind them those about categories, numbered in `decision`."""
    number: dict[tuple[int, CategorySet], int] = {}
    asked = {node: (int(column[node]), categories) for node, categories in sets.items()}
    for question in sorted(set(asked.values()), key=lambda question: question[0]):
        number[question] = len(decisions) + len(number)
    for node, question in asked.items():
        decision[node] = number[question]

    columns = np.array([asked_column for asked_column, _ in number])
    by_column = tuple(
        _tabulated({number[key]: key[1] for key in number if key[0] == each})
        for each in np.unique(columns)
    )
    return Decisions(
        np.append(decisions.column, columns),
        np.append(decisions.threshold, np.full(len(number), np.nan)),
        np.append(decisions.missing_left, [key[1].missing_left for key in number]),
        by_column,
    )


def _tabulated(sets: dict[int, CategorySet]) -> CategoryDecisions:
    """Return the decisions about one column of categories, from sets by number of decision."""
    named = set().union(*(each.left | each.right for each in sets.values()))
    code = np.array(sorted(named), dtype=np.int64)
    right = np.zeros((len(sets), len(code) + 2), dtype=np.uint8)

    for row, each in zip(right, sets.values(), strict=True):
        row[:] = not each.other_left
        row[np.searchsorted(code, sorted(each.left))] = 0
        row[np.searchsorted(code, sorted(each.right))] = 1
        row[-1] = not each.missing_left
    return CategoryDecisions(np.array(list(sets), dtype=np.int64), code, right)
