"""Exact Shapley values of a forest, with groups of columns as players.

Each tree is solved in the way that costs least: by tables, or by a walk that is compiled or not.
"""

import os
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import cached_property
from importlib.util import find_spec
from itertools import product
from pathlib import Path
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from shearshap.games.indices import SHAPLEY, Index, Semivalue
from shearshap.trees.covers import CoverWalk, quadrature
from shearshap.trees.forest import Floats, Forest, Integers, UnsupportedTrees
from shearshap.trees.layout import BackgroundGame, CoverGame, Layout, lay_out
from shearshap.trees.leaves import second_difference_factors
from shearshap.trees.tables import BITS, Tables
from shearshap.trees.walk import IndexWalk, Walk

MAX_NODES = 1 << 16  #: that are prepared together
MAX_KEPT_BYTES = 1 << 28  #: of tables that are kept; what goes beyond is made at each call

MAX_TABLE_PLAYERS = 12  #: players on a path, up to which it may have a table of 2^players lines
MAX_BATCH_BYTES = 1 << 26  #: of the tables of trees that are solved together

# Nanoseconds, roughly, by benchmarks/trees.py; only their ratios matter.
ENTRY_NS = 35.0  #: to make an entry of a leaf's table
LEAF_NS = 5000.0  #: to make a leaf's table, whatever its size
LOOK_UP_NS = 4.0  #: to look up a leaf for a row: subtrees have several leaves
COMPILED_NS = 15.0  #: for a leaf that a row and a background row reach, by the compiled walk
NUMPY_NS = 1000.0  #: by the walk in numpy
DECISION_NS = 1.0  #: to take all decisions of a leaf's parent, for the compiled walk
COVER_ENTRY_NS = 10.0  #: to make an entry of a leaf's table from covers
COVER_LEAF_NS = 4.0  #: for a leaf and a row, by the compiled walk,
COVER_COMPILED_NS = 0.6  #: and for each node of the quadrature
COVER_NUMPY_NS = 12.0  #: for a leaf, a row and a node of the quadrature, by the walk in numpy
ALIVE = 0.6  #: probability that a player does not block a leaf


AnyGame = BackgroundGame | CoverGame


class Solver(Protocol):
    """Adds the sums of some trees to those of rows."""

    def add(self, seen: Floats, sums: Floats) -> None:
        """Add to the sums (r, cells, k) of rows; cells are players, or pairs of them, p * p."""


def _walk(game: AnyGame) -> Solver:
    return Walk(game) if isinstance(game, BackgroundGame) else CoverWalk(game)


def _compiled_walk(game: AnyGame) -> Solver:
    """Return a compiled walk; numba is imported only now."""
    from shearshap.trees.compiled import CompiledCoverWalk, CompiledWalk

    return CompiledWalk(game) if isinstance(game, BackgroundGame) else CompiledCoverWalk(game)


SOLVERS: dict[str, Callable[[AnyGame], Solver]] = {
    "tables": Tables,
    "compiled walk": _compiled_walk,
    "walk": _walk,
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
        (b, d) the rows that absent players come from, as the trees see them. None: where an absent
        player is asked, both ways count, by how much of the training data went there.
    weights
        (b,) of the background rows, with sum 1; None: all weigh the same.
    rows
        How many rows will come: tables take a while to make, and pay for many rows.
    interactions
        Whether interactions will be asked for.
    semivalue
        What the values are; with a background alone.
    advance
        Called with the number of trees that got ready, for a progress bar.
    """

    def __init__(
        self,
        forest: Forest,
        owner: Integers,
        players: int,
        background: Floats | None,
        weights: Floats | None = None,
        *,
        rows: int,
        interactions: bool = False,
        semivalue: Semivalue = SHAPLEY,
        advance: Callable[[int], object] | None = None,
    ) -> None:
        self.forest = forest
        self.owner = owner
        self.players = players
        self.background = background
        if background is None:
            _check_covers(forest)
        elif weights is None:
            weights = np.full(len(background), 1 / len(background))
        self.weights = weights
        self.semivalue = semivalue
        self._batches: list[TreeBatch] = []

        room = float(MAX_KEPT_BYTES)
        columns = players * players if interactions else players
        for trees in _chunks(forest):
            layout = lay_out(forest, owner, trees)
            others = None if background is None else len(background)
            choice = choose(layout, len(forest.roots), rows, others)
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
        return self._symmetric(self._sums(seen, self.players * self.players, pairs=True))

    def index(self, seen: Floats, index: Index) -> Floats:
        """Return an index of sets (r, q, k), in the order of `sets_up_to`; with a background."""
        sums = np.zeros((len(seen), index.sets, self.forest.outputs))
        for trees in _chunks(self.forest):
            game = self._game(lay_out(self.forest, self.owner, trees), pairs=False)
            assert isinstance(game, BackgroundGame)
            IndexWalk(game, index).add(seen, sums)
        return sums

    def second_differences(self, seen: Floats) -> Floats:
        """Return v(U) - v(U-i) - v(U-j) + v(U-ij), (r, p, p, k), 0 on the diagonal."""
        sums = np.zeros((len(seen), self.players * self.players, self.forest.outputs))
        for walk in self._second_differences:
            walk.add(seen, sums)
        return self._symmetric(sums)

    @cached_property
    def _second_differences(self) -> list[Solver]:
        """The walks that add up second differences in place of interactions."""
        walks: list[Solver] = []
        for trees in _chunks(self.forest):
            game = self._game(lay_out(self.forest, self.owner, trees), pairs=True)
            if isinstance(game, BackgroundGame):
                walks.append(Walk(game, second_difference_factors(game.layout.paths.most)))
            else:
                walks.append(CoverWalk(game, second_differences=True))
        return walks

    def _game(self, layout: Layout, *, pairs: bool) -> AnyGame:
        if self.background is None:
            return CoverGame(layout, self.players, pairs)
        assert self.weights is not None
        return BackgroundGame(
            layout, self.players, pairs, self.background, self.weights, self.semivalue
        )

    def _symmetric(self, sums: Floats) -> Floats:
        """Return sums of pairs (r, p * p, k), each in one cell, as (r, p, p, k)."""
        halves = sums.reshape(len(sums), self.players, self.players, -1)
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
        if len(batch.outputs) < layout.value.shape[1]:
            layout = replace(layout, value=np.ascontiguousarray(layout.value[:, batch.outputs]))
        # tables hold Shapley values
        way = batch.way if self.semivalue == SHAPLEY else batch.way.replace("tables", "walk")
        return SOLVERS[way](self._game(layout, pairs=pairs))


def _check_covers(forest: Forest) -> None:
    """Raise if the trees do not say how much of the training data reached their leaves."""
    starts = np.sort(forest.roots)
    if len(starts) and not (np.add.reduceat(forest.cover, starts) > 0).all():
        raise UnsupportedTrees("its trees do not say how much training data reached their leaves")


def _chunks(forest: Forest) -> Iterator[Integers]:
    """Yield batches of tree numbers whose intermediate results fit in memory."""
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
    # the outputs that players share out, by tree
    has_output = np.zeros((len(trees), layout.value.shape[1]), dtype=bool)
    node, output = np.nonzero((layout.parent >= 0)[:, None] & (layout.value != 0))
    has_output[layout.tree[node], output] = True
    kinds, kind = np.unique(has_output, axis=0, return_inverse=True)
    for (number, has), way in product(enumerate(kinds), SOLVERS):
        outputs = np.flatnonzero(has)
        chosen = np.flatnonzero((kind.ravel() == number) & (np.array(choice.way) == way))
        if not len(outputs) or not len(chosen):
            continue  # no player matters, or all leaves are 0
        size = choice.nodes[chosen] * 100.0
        if way == "tables":
            size = choice.lines[chosen] * (8 * columns * len(outputs))
        cuts = np.flatnonzero(np.diff(np.cumsum(size) // MAX_BATCH_BYTES)) + 1
        for places, sizes in zip(np.split(chosen, cuts), np.split(size, cuts), strict=True):
            yield TreeBatch(trees[places], outputs, way, {}), sizes.sum()


# Which trees are worth tables, and which are walked


@dataclass(frozen=True, eq=False)
class Choice:
    """How each of some trees is solved."""

    way: list[str]  #: (t,) "tables", "compiled walk" or "walk"
    lines: NDArray[np.floating]  #: (t,) of the trees' tables
    nodes: Integers  #: (t,)


def start_of_numba() -> float:
    """Return the nanoseconds until a compiled walk can start: infinite without numba."""
    if "shearshap.trees.compiled" in sys.modules:
        return 0.0
    if find_spec("numba") is None:
        return np.inf
    return 1.5e9 if _is_cached() else 5e9


def _is_cached() -> bool:
    """Return whether numba has kept what it compiled: where the user says, or beside this module.

    In a folder of the user's, each folder of modules has one with its name and a hash.
    """
    here = Path(__file__).parent
    chosen = os.environ.get("NUMBA_CACHE_DIR")
    folders = Path(chosen).glob(f"{here.name}_*") if chosen else [here / "__pycache__"]
    return any(file for folder in folders for file in folder.glob("compiled.*.nbi"))


def choose(layout: Layout, all_trees: int, rows: int, background: int | None) -> Choice:
    """Choose the fastest way to solve some trees of a layout for this many rows.

    `background` is the number of background rows; None: absent players follow the covers.
    """
    trees = layout.levels[0].stop
    leaf = np.flatnonzero(layout.child < 0)
    tree = layout.tree[leaf]
    players = layout.paths.count[leaf].astype(np.float64)

    leaves = np.bincount(tree, minlength=trees)
    entries = np.bincount(tree, players * 2.0**players, trees)
    costs = {"tables": LEAF_NS * leaves + LOOK_UP_NS * leaves * rows}
    if background is None:
        points = leaves * len(quadrature(layout.paths.most)[0])
        alone = np.bincount(tree, players > BITS, trees)  # leaves that no other shares a table with
        costs["tables"] += COVER_ENTRY_NS * entries + LOOK_UP_NS * alone * rows
        costs["compiled walk"] = (COVER_LEAF_NS * leaves + COVER_COMPILED_NS * points) * rows
        costs["walk"] = COVER_NUMPY_NS * points * rows
    else:
        reached = np.bincount(tree, ALIVE**players, trees) * rows * background
        costs["tables"] += ENTRY_NS * entries
        costs["compiled walk"] = DECISION_NS * leaves * rows + COMPILED_NS * reached
        costs["walk"] = NUMPY_NS * reached
    costs["tables"][np.bincount(tree, players > MAX_TABLE_PLAYERS, trees) > 0] = np.inf
    others = np.minimum(costs["tables"], costs["walk"])
    saved = np.maximum(others - costs["compiled walk"], 0.0).sum()
    if saved <= start_of_numba() * trees / all_trees:
        del costs["compiled walk"]
    ways = list(costs)
    best = np.argmin(list(costs.values()), axis=0)

    of_leaves = 2.0 ** np.minimum(players, MAX_TABLE_PLAYERS)
    lines = np.bincount(tree, of_leaves, trees).astype(np.float64)
    nodes = np.bincount(layout.tree, minlength=trees)
    return Choice([ways[number] for number in best], lines, nodes)
