"""Trees of one library put together as a `Forest`, in which no question is asked twice.

Readers give arrays of nodes for each tree:

    node        0       1       2       3       4
    left        1      -1       3      -1      -1         leaves have none
    right       2      -1       4      -1      -1
    column      0       .       5       .       .
    threshold   0.5     .       1.5     .       .

`grow` numbers the nodes of all trees in one go and drops those that no root leads to.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

from shearshap.trees.forest import (
    Bools,
    CategoryDecisions,
    Decisions,
    Floats,
    Forest,
    Integers,
    highest_left,
)
from shearshap.trees.tree_model import NotTrees


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
    categories: dict[int, CategorySet] = field(default_factory=dict)  #: of nodes that ask for them


def grow(trees: Sequence[Tree], *, strict: bool = False) -> Forest:
    """Return the forest of some trees; if strict, only values below a threshold go left."""
    if not trees:
        raise NotTrees("it has no trees")
    left, right, roots = _linked(trees)
    column = np.concatenate([tree.column for tree in trees]).astype(np.int64)
    threshold = np.concatenate([tree.threshold for tree in trees]).astype(np.float64)
    missing_left = np.concatenate([tree.missing_left for tree in trees]).astype(np.bool_)
    value = np.concatenate([tree.value for tree in trees]).astype(np.float64)

    leaf = left < 0
    value[~leaf] = 0.0
    sets = {
        int(root) + node: categories
        for root, tree in zip(roots, trees, strict=True)
        for node, categories in tree.categories.items()
        if not leaf[int(root) + node]
    }
    compares = ~leaf
    compares[list(sets)] = False

    limit = highest_left(threshold, np.full(len(threshold), strict))
    numbers, decisions = _distinct(column, limit, missing_left, np.flatnonzero(compares))
    decision = np.full(len(left), -1, dtype=np.int64)
    decision[compares] = numbers
    if sets:
        decisions = _with_categories(decisions, decision, column, sets)
    return _reachable(Forest(left, right, decision, value, roots, decisions))


def _linked(trees: Sequence[Tree]) -> tuple[Integers, Integers, Integers]:
    """Return the children and the roots, numbered among the nodes of all trees."""
    sizes = np.array([len(tree.left) for tree in trees])
    roots = np.cumsum(sizes) - sizes
    shift = np.repeat(roots, sizes)
    left = np.concatenate([tree.left for tree in trees]).astype(np.int64)
    right = np.concatenate([tree.right for tree in trees]).astype(np.int64)

    leaf = left < 0
    return np.where(leaf, -1, left + shift), np.where(leaf, -1, right + shift), roots


def _distinct(
    column: Integers, limit: Floats, missing_left: Bools, nodes: Integers
) -> tuple[Integers, Decisions]:
    """Return the number of each node's decision (n,), and the distinct decisions by column."""
    keys = (missing_left[nodes], limit[nodes], column[nodes])
    order = np.lexsort(keys)
    ordered = [key[order] for key in keys]
    is_new = np.ones(len(nodes), dtype=np.bool_)
    is_new[1:] = np.any([key[1:] != key[:-1] for key in ordered], axis=0)

    numbers = np.empty(len(nodes), dtype=np.int64)
    numbers[order] = np.cumsum(is_new) - 1
    first = nodes[order[is_new]]
    none_strict = np.zeros(len(first), dtype=np.bool_)
    return numbers, Decisions(column[first], limit[first], none_strict, missing_left[first])


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
    added = len(number)
    return Decisions(
        np.append(decisions.column, columns),
        np.append(decisions.threshold, np.full(added, np.nan)),
        np.append(decisions.strict, np.zeros(added, dtype=np.bool_)),
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


def _reachable(forest: Forest) -> Forest:
    """Return the forest without nodes that no root leads to: those a library has pruned."""
    reached = np.zeros(len(forest.left), dtype=np.bool_)
    level = forest.roots
    while len(level):
        reached[level] = True
        inner = level[forest.left[level] >= 0]
        level = np.concatenate((forest.left[inner], forest.right[inner]))
    if reached.all():
        return forest

    place = np.cumsum(reached) - 1
    left = forest.left[reached]
    right = forest.right[reached]
    return Forest(
        np.where(left < 0, -1, place[left]),
        np.where(left < 0, -1, place[right]),
        forest.decision[reached],
        forest.value[reached],
        place[forest.roots],
        forest.decisions,
    )


def bits(words: Integers) -> frozenset[int]:
    """Return the numbers of the bits that are set in words of 32 bits, the lowest first."""
    octets = np.ascontiguousarray(words).astype("<u4").view(np.uint8)
    return frozenset(np.flatnonzero(np.unpackbits(octets, bitorder="little")).tolist())
