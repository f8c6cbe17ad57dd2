"""Which trees are worth tables, and which are walked: a rule of what each costs."""

import sys
from collections.abc import Iterator
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from shearshap.trees.forest import Integers
from shearshap.trees.layout import Layout, paths_of

COMPILED_BEFORE = Path(__file__).with_name("__pycache__")  #: where numba keeps what it compiled

MOST = 12  #: players on a path, up to which it may have a table of 2^players lines
TOGETHER = 1 << 26  #: bytes of the tables of trees that are solved together

# Nanoseconds, roughly, by benchmarks/trees.py; only their ratios matter.
ENTRY = 35.0  #: to make an entry of a leaf's table
LEAF = 5000.0  #: to make a leaf's table, whatever its size
LOOK_UP = 4.0  #: to look up a leaf for a row: units have more leaves than one
COMPILED = 15.0  #: for a leaf that a row and a background row reach, by the compiled walk
NUMPY = 1000.0  #: by the walk in numpy
DECISION = 1.0  #: to take all decisions of a leaf's parent, for the compiled walk
ALIVE = 0.6  #: of the leaves' players, how many do not keep both rows away


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
        number = np.cumsum(self.size(places, way, columns)) // TOGETHER
        if len(places):
            yield from np.split(places, np.flatnonzero(np.diff(number)) + 1)


def start_of_numba() -> float:
    """Return the nanoseconds until a compiled walk can start: none where there is no numba."""
    if "shearshap.trees.compiled" in sys.modules:
        return 0.0
    if find_spec("numba") is None:
        return np.inf
    if not any(COMPILED_BEFORE.glob("compiled.*.nbi")):
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
        "tables": LEAF * leaves + ENTRY * entries + LOOK_UP * leaves * rows,
        "compiled walk": DECISION * leaves * rows + COMPILED * reached,
        "walk": NUMPY * reached,
    }
    costs["tables"][np.bincount(tree, players > MOST, trees) > 0] = np.inf
    if not _pays(costs, start_of_numba() * trees / all_trees):
        del costs["compiled walk"]
    ways = list(costs)
    best = np.argmin(list(costs.values()), axis=0)

    size = np.bincount(tree, 2.0 ** np.minimum(players, MOST), trees).astype(np.float64)
    nodes = np.bincount(layout.tree, minlength=trees)
    return Choice([ways[number] for number in best], size, nodes)


def _pays(costs: dict[str, NDArray[np.floating]], start: float) -> bool:
    """Return whether compiled walks save more, over all trees, than they take to start."""
    others = np.minimum(costs["tables"], costs["walk"])
    saved = others - np.minimum(others, costs["compiled walk"])
    return bool(saved.sum() > start)
