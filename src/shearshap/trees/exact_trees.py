"""Exact Shapley values of a forest, with groups of columns as players."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import Protocol

import numpy as np
import torch

from shearshap.trees.choosing import Choice, choose
from shearshap.trees.forest import Floats, Forest, Integers
from shearshap.trees.gpu_tables import GpuTables
from shearshap.trees.lanes import CompiledWalk
from shearshap.trees.layout import Layout, lay_out
from shearshap.trees.unit_tables import Tables
from shearshap.trees.walk import Walk

NODES = 1 << 16  #: that are prepared together
KEPT = 1 << 28  #: bytes of tables that are kept; what goes beyond is made again at each call


class Solver(Protocol):
    """Adds the sums of some trees to those of rows."""

    def add(self, seen: Floats, sums: Floats) -> None:
        """Add to the sums (r, cells, k) of rows; cells are players, or pairs of them, p * p."""


SOLVERS: dict[str, Callable[..., Solver]] = {
    "tables": Tables,
    "compiled walk": CompiledWalk,
    "walk": Walk,
}


@dataclass(frozen=True, eq=False)
class Part:
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
        self.device = device
        self._parts: list[Part] = []

        room = float(KEPT)
        columns = players * players if interactions else players
        for trees in _chunks(forest):
            layout = lay_out(forest, owner, trees)
            choice = choose(layout, len(forest.roots), rows, len(background))
            for part, size in _split(layout, trees, choice, columns):
                self._parts.append(part)
                room -= size
                if room >= 0:
                    for pairs in {False, interactions}:
                        part.kept[pairs] = self._solver(part, pairs, layout)
            if advance is not None:
                advance(len(trees))

    @property
    def expected(self) -> Floats:
        """(k,) the weighted mean of the forest's output over the background."""
        return np.asarray(self.weights @ self.forest.predict(self.background))

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
        for part in self._parts:
            solver = part.kept.get(pairs) or self._solver(part, pairs)
            if len(part.outputs) == self.forest.outputs:
                solver.add(seen, sums)
                continue
            some = np.zeros((len(seen), cells, len(part.outputs)))
            solver.add(seen, some)
            sums[:, :, part.outputs] += some
        return sums

    def _solver(self, part: Part, pairs: bool, layout: Layout | None = None) -> Solver:
        """Return the solver of a part; `layout` may be that of its trees and others."""
        if layout is None or len(part.trees) < layout.levels[0].stop:
            layout = lay_out(self.forest, self.owner, part.trees)
        layout = replace(layout, value=np.ascontiguousarray(layout.value[:, part.outputs]))
        solver = SOLVERS[part.way](layout, self.players, self.background, self.weights, pairs=pairs)
        if isinstance(solver, Tables) and self.device is not None and self.device.type == "cuda":
            return GpuTables(solver, self.device)
        return solver


def _chunks(forest: Forest) -> Iterator[Integers]:
    """Yield numbers of trees, so many at a time that memory has room for what is made of them."""
    trees = len(forest.roots)
    if trees:
        step = max(1, NODES * trees // len(forest.left))
        for start in range(0, trees, step):
            yield np.arange(start, min(start + step, trees))


def _split(
    layout: Layout, trees: Integers, choice: Choice, columns: int
) -> Iterator[tuple[Part, float]]:
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
                yield Part(trees[places], outputs, way, {}), size


def _outputs(layout: Layout) -> Integers:
    """Return whether players share out each output of each tree, (t, k)."""
    trees = layout.levels[0].stop
    has = np.zeros((trees, layout.value.shape[1]), dtype=bool)
    node, output = np.nonzero((layout.parent >= 0)[:, None] & (layout.value != 0))
    has[layout.tree[node], output] = True
    return has
