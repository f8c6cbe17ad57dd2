"""Exact Shapley values of a forest, with groups of columns as players.

Each tree is solved in the way that costs least: by tables, or by a walk that is compiled or not.
"""

import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Protocol

import numpy as np
import torch
from numpy.typing import NDArray

from shearshap.trees.forest import Floats, Forest, Integers
from shearshap.trees.layout import Layout, lay_out, paths_of
from shearshap.trees.tables import Tables
from shearshap.trees.walk import Walk

MAX_NODES = 1 << 16  #: that are prepared together
MAX_KEPT_BYTES = 1 << 28  #: of tables that are kept; what goes beyond is made at each call

NUMBA_CACHE = Path(__file__).with_name("__pycache__")  #: where numba keeps what it compiled

MAX_TABLE_PLAYERS = 12  #: players on a path, up to which it may have a table of 2^players lines
MAX_BATCH_BYTES = 1 << 26  #: of the tables of trees that are solved together

# Nanoseconds, roughly, by benchmarks/trees.py; only their ratios matter.
ENTRY_NS = 35.0  #: to make an entry of a leaf's table
LEAF_NS = 5000.0  #: to make a leaf's table, whatever its size
LOOK_UP_NS = 4.0  #: to look up a leaf for a row: subtrees have several leaves
COMPILED_NS = 15.0  #: for a leaf that a row and a background row reach, by the compiled walk
NUMPY_NS = 1000.0  #: by the walk in numpy
DECISION_NS = 1.0  #: to take all decisions of a leaf's parent, for the compiled walk
ALIVE = 0.6  #: probability that a player does not block a leaf


class Solver(Protocol):
    """Adds the sums of some trees to those of rows."""

    def add(self, seen: Floats, sums: Floats) -> None:
        """Add to the sums (r, cells, k) of rows; cells are players, or pairs of them, p * p."""


def _compiled_walk(*arguments: Any, **options: Any) -> Solver:
    """Return a compiled walk; numba is imported only now."""
    from shearshap.trees.compiled import CompiledWalk

    return CompiledWalk(*arguments, **options)


SOLVERS: dict[str, Callable[..., Solver]] = {
    "tables": Tables,
    "compiled walk": _compiled_walk,
    "walk": Walk,
}


@dataclass(frozen=True, eq=False)
class TreeBatch:
    """Trees that are solved together."""

    trees: Integers
    outputs: Integers  #: those that the trees have values for
    way: str  #: a key of `SOLVERS`
    kept: dict[bool, Solver]  #: by whether it is for pairs


class ExactTrees:
    """A forest and its background, ready to explain rows.

    Parameters
    ----------
    forest
        The trees.
    owner
        (d,) the player of each column as the trees see it, 0 to players - 1.
    players
        How many players there are; one that owns no column has values of 0.
    background
        (b, d) the rows that absent players come from, as the trees see them.
    weights
        (b,) of the background rows, with sum 1; None: all weigh the same.
    rows
        How many rows will come: tables take a while to make, and pay for many rows.
    interactions
        Whether interactions will be asked for.
    advance
        Called with the number of trees that got ready, for a progress bar.
    device
        Where tables are looked up: a GPU, or None for the processor. Trees are walked on the
        processor.
    """

    def __init__(
        self,
        forest: Forest,
        owner: Integers,
        players: int,
        background: Floats,
        weights: Floats | None = None,
        *,
        rows: int,
        interactions: bool = False,
        advance: Callable[[int], None] | None = None,
        device: torch.device | None = None,
    ) -> None:
        self.forest = forest
        self.owner = owner
        self.players = players
        self.background = background
        self.weights = np.full(len(background), 1 / len(background)) if weights is None else weights
        on_gpu = device is not None and device.type == "cuda"
        self.device = device if on_gpu else None
        self._batches: list[TreeBatch] = []

        room = float(MAX_KEPT_BYTES)
        columns = players * players if interactions else players
        for trees in _chunks(forest):
            layout = lay_out(forest, owner, trees)
            choice = choose(layout, len(forest.roots), rows, len(background))
            for batch, size in _split(layout, trees, choice, columns):
                self._batches.append(batch)
                room -= size
                if room >= 0:
                    for pairs in {False, interactions}:
                        batch.kept[pairs] = self._solver(batch, pairs, layout)
            if advance is not None:
                advance(len(trees))

    def values(self, seen: Floats) -> Floats:
        """Return the players' Shapley values (r, p, k) for rows as the trees see them."""
        return self._sums(seen, self.players, pairs=False)

    def interactions(self, seen: Floats) -> Floats:
        """Return the pairs' Shapley interactions (r, p, p, k): symmetric, 0 on the diagonal."""
        sums = self._sums(seen, self.players * self.players, pairs=True)
        halves = sums.reshape(len(seen), self.players, self.players, -1)
        return halves + halves.transpose(0, 2, 1, 3)

    def _sums(self, seen: Floats, cells: int, *, pairs: bool) -> Floats:
        sums = np.zeros((len(seen), cells, self.forest.outputs))
        if not len(seen):
            return sums
        for batch in self._batches:
            solver = batch.kept.get(pairs) or self._solver(batch, pairs)
            if len(batch.outputs) == self.forest.outputs:
                solver.add(seen, sums)
                continue
            some = np.zeros((len(seen), cells, len(batch.outputs)))
            solver.add(seen, some)
            sums[:, :, batch.outputs] += some
        return sums

    def _solver(self, batch: TreeBatch, pairs: bool, layout: Layout | None = None) -> Solver:
        """Return the solver of a batch; `layout` may be that of its trees and others."""
        if layout is None or len(batch.trees) < layout.levels[0].stop:
            layout = lay_out(self.forest, self.owner, batch.trees)
        layout = replace(layout, value=np.ascontiguousarray(layout.value[:, batch.outputs]))
        options: dict[str, Any] = {"pairs": pairs}
        if batch.way == "tables":
            options["device"] = self.device
        return SOLVERS[batch.way](layout, self.players, self.background, self.weights, **options)


def _chunks(forest: Forest) -> Iterator[Integers]:
    """Yield numbers of trees, so many at a time that memory has room for what is made of them."""
    trees = len(forest.roots)
    if trees:
        step = max(1, MAX_NODES * trees // len(forest.left))
        for start in range(0, trees, step):
            yield np.arange(start, min(start + step, trees))


def _split(
    layout: Layout, trees: Integers, choice: "Choice", columns: int
) -> Iterator[tuple[TreeBatch, float]]:
    """Yield the trees of a layout by the way they are solved and the outputs they have.

    With each part come the bytes that it takes.
    """
    kinds, kind = np.unique(_outputs(layout), axis=0, return_inverse=True)
    ways = np.array(choice.way)
    for number, has in enumerate(kinds):
        outputs = np.flatnonzero(has)
        if not len(outputs):
            continue  # nobody plays, or all leaves are 0
        for way in SOLVERS:
            chosen = np.flatnonzero((kind.ravel() == number) & (ways == way))
            for places in choice.batches(chosen, way, columns * len(outputs)):
                size = choice.size(places, way, columns * len(outputs)).sum()
                yield TreeBatch(trees[places], outputs, way, {}), size


def _outputs(layout: Layout) -> Integers:
    """Return whether players share out each output of each tree, (t, k)."""
    trees = layout.levels[0].stop
    has = np.zeros((trees, layout.value.shape[1]), dtype=bool)
    node, output = np.nonzero((layout.parent >= 0)[:, None] & (layout.value != 0))
    has[layout.tree[node], output] = True
    return has


# Second differences and interactions


class SecondDifferences:
    """A forest and its background, ready to compute the second differences of rows.

    Cross-contribution without derivatives is the second difference at all players present,

        v(U) - v(U-i) - v(U-j) + v(U-ij).

    A leaf counts in v(U-T) iff no player of q, those that a background row fails, is in T, and all
    of u, those that the row fails, are. So of the four terms remain, times the leaf's value,

        both in q      1 if u is empty              one of each    -1 if u has no other player
        both in u      1 if u has no other player

    which are the sums of the pairwise Shapley interactions, with other factors.
    """

    def __init__(
        self,
        forest: Forest,
        owner: Integers,
        players: int,
        background: Floats,
        weights: Floats | None,
    ) -> None:
        if weights is None:
            weights = np.full(len(background), 1 / len(background))
        layout = lay_out(forest, owner, np.arange(len(forest.roots)))
        self._walk = Walk(layout, players, background, weights, pairs=True)
        failed = np.broadcast_to(
            np.arange(self._walk.most + 1), self._walk.factors.mixed.shape
        )  # the players of u, by columns
        self._walk.factors = replace(
            self._walk.factors,
            both_present=(failed == 0) * 1.0,
            mixed=(failed == 1) * 1.0,
            both_absent=(failed == 2) * 1.0,
        )

    def __call__(self, seen: Floats) -> Floats:
        """Return second differences (r, p, p, f), 0 on the diagonal, of rows as trees see them."""
        players = self._walk.players
        outputs = self._walk.layout.value.shape[1]
        sums = np.zeros((len(seen), players * players, outputs))
        self._walk.add(seen, sums)
        halves = sums.reshape(len(seen), players, players, outputs)
        return halves + halves.transpose(0, 2, 1, 3)


def order_two(index: Floats, values: Floats) -> Floats:
    """Return the k-SII of order 2, (r, p, p, k), of interactions and values (r, p, k).

    Phi_ij = SII_ij on both sides of the diagonal, and Phi_i = phi_i - 1/2 sum_j SII_ij on it.
    """
    players = np.arange(index.shape[1])
    pairs = index.copy()
    pairs[:, players, players] = values - index.sum(axis=2) / 2
    return pairs


# Which trees are worth tables, and which are walked


@dataclass(frozen=True, eq=False)
class Choice:
    """How each of some trees is solved."""

    way: list[str]  #: (t,) "tables", "compiled walk" or "walk"
    lines: NDArray[np.floating]  #: (t,) of the trees' tables
    nodes: Integers  #: (t,)

    def size(self, places: Integers, way: str, columns: int) -> NDArray[np.floating]:
        """Return the bytes that each of some trees takes, with tables of so many columns."""
        if way == "tables":
            return self.lines[places] * (8 * columns)
        return self.nodes[places] * 100.0

    def batches(self, places: Integers, way: str, columns: int) -> Iterator[Integers]:
        """Yield trees that are solved together."""
        number = np.cumsum(self.size(places, way, columns)) // MAX_BATCH_BYTES
        if len(places):
            yield from np.split(places, np.flatnonzero(np.diff(number)) + 1)


def start_of_numba() -> float:
    """Return the nanoseconds until a compiled walk can start: infinite without numba."""
    if "shearshap.trees.compiled" in sys.modules:
        return 0.0
    if find_spec("numba") is None:
        return np.inf
    if not any(NUMBA_CACHE.glob("compiled.*.nbi")):
        return 5e9
    # the walk is loaded once a process, in 0.5 s, which the calls to come share
    return 3e7 if "numba" in sys.modules else 1.5e9


def choose(layout: Layout, all_trees: int, rows: int, background: int) -> Choice:
    """Return how the trees of a layout, some of all, are solved best for so many rows."""
    trees = layout.levels[0].stop
    leaf = np.flatnonzero(layout.child < 0)
    tree = layout.tree[leaf]
    players = paths_of(layout).count[leaf].astype(np.float64)

    leaves = np.bincount(tree, minlength=trees)
    entries = np.bincount(tree, players * 2.0**players, trees)
    reached = np.bincount(tree, ALIVE**players, trees) * rows * background
    costs = {
        "tables": LEAF_NS * leaves + ENTRY_NS * entries + LOOK_UP_NS * leaves * rows,
        "compiled walk": DECISION_NS * leaves * rows + COMPILED_NS * reached,
        "walk": NUMPY_NS * reached,
    }
    costs["tables"][np.bincount(tree, players > MAX_TABLE_PLAYERS, trees) > 0] = np.inf
    if not _pays(costs, start_of_numba() * trees / all_trees):
        del costs["compiled walk"]
    ways = list(costs)
    best = np.argmin(list(costs.values()), axis=0)

    size = np.bincount(tree, 2.0 ** np.minimum(players, MAX_TABLE_PLAYERS), trees).astype(
        np.float64
    )
    nodes = np.bincount(layout.tree, minlength=trees)
    return Choice([ways[number] for number in best], size, nodes)


def _pays(costs: dict[str, NDArray[np.floating]], start: float) -> bool:
    """Return whether compiled walks save more, over all trees, than they take to start."""
    others = np.minimum(costs["tables"], costs["walk"])
    saved = others - np.minimum(others, costs["compiled walk"])
    return bool(saved.sum() > start)
