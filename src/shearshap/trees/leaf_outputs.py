"""How the outputs that are explained follow from sums of leaves, proved on points of the game.

Explained outputs (n, k) are linear in sums of leaves (n, f), or the trees are not used:

    explained = leaves @ matrix + constant

The matrix is what the model's own way from raw numbers to outputs makes of unit vectors: it takes
some of them, makes two classes of one score, and so on. Whether it is right is not assumed: at
rows, background rows and mixes of both, the difference of the two sides must be constant.
"""

from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

import numpy as np

from shearshap.models import Outputs
from shearshap.trees.forest import Floats, Forest
from shearshap.trees.readers.reading import NotTrees

ROUNDING = {np.dtype(np.float32): 1e-5, np.dtype(np.float64): 1e-10}
"""By which part of the leaves that a model adds up its outputs may be off, by their type."""

POINTS_A_COLUMN = 4
"""Points for each number of a matrix that is fitted to them."""


@dataclass(frozen=True, eq=False)
class LeafOutputs:
    """The linear function from sums of leaves to explained outputs, without its constant."""

    matrix: Floats  #: (f, k)
    allowed: Floats  #: (k,) by how much rounding may change an output

    def __call__(self, leaves: Floats) -> Floats:
        """Map differences of sums of leaves (..., f) to those of explained outputs (..., k)."""
        return np.asarray(leaves @ self.matrix)


@dataclass(frozen=True, eq=False)
class Points:
    """What a model and its trees say at some points."""

    leaves: Floats  #: (n, f) sums of leaves
    explained: Floats  #: (n, k) what is explained of the model's answer
    dtype: np.dtype[Any]  #: in which the model adds up

    def rounding(self, terms: Floats, trees: int) -> Floats:
        """Return by how much rounding may change an output (k,), whose leaves add up to `terms`.

        A model may begin with a large constant. Then every tree rounds to the digits of that.
        """
        spread = np.ptp(self.explained, axis=0)
        of_constant = (4 + np.sqrt(trees)) * np.finfo(self.dtype).eps
        size = np.abs(self.explained).max(axis=0)
        return np.asarray(ROUNDING[self.dtype] * (spread + terms) + of_constant * size)

    def differences(self, function: LeafOutputs) -> Floats:
        """Return what is left of the explained outputs, less its mean, (n, k)."""
        left = self.explained - function(self.leaves)
        return np.asarray(left - left.mean(axis=0))


def leaf_outputs(outputs: Outputs, forest: Forest, points: Points) -> LeafOutputs:
    """Return how the explained outputs follow from leaves, or raise `NotTrees`."""
    terms = _largest_sums(forest)
    excess = np.inf
    for matrix in _matrices(outputs, points):
        allowed = points.rounding(terms @ np.abs(matrix), len(forest.roots))
        function = LeafOutputs(matrix, allowed)
        differences = np.abs(points.differences(function)).max(axis=0)
        if (differences <= function.allowed).all():
            return function
        excess = min(excess, float(differences.max()))
    raise NotTrees(f"the explained outputs are not linear in its leaves (off by {excess:.2g})")


def _largest_sums(forest: Forest) -> Floats:
    """Return the sum over the trees of their largest leaves, (f,): rounding grows with it."""
    return np.asarray(np.maximum.reduceat(np.abs(forest.value), np.sort(forest.roots)).sum(axis=0))


def _matrices(outputs: Outputs, points: Points) -> Iterator[Floats]:
    """Yield matrices (f, k) that may be right, the likeliest first."""
    sums = points.leaves.shape[1]
    wanted = (sums, points.explained.shape[1])
    for raw in _raw_units(sums):
        # where the model does not return leaves in this form, anything may be raised
        with suppress(Exception):
            answer = outputs(raw, sums + 1).double().numpy().reshape(sums + 1, -1)
            matrix = answer[1:] - answer[0]
            if matrix.shape == wanted:
                yield matrix
    if len(points.leaves) >= POINTS_A_COLUMN * (sums + 1):
        yield _fitted(points)


def _raw_units(sums: int) -> Iterator[Any]:
    """Yield no leaves and then unit vectors of leaves, as a model may return them."""
    units = np.vstack((np.zeros((1, sums)), np.eye(sums)))
    if sums > 1:
        yield units
        return
    yield units[:, 0]
    yield np.hstack((-units / 2, units / 2))  # as classifiers make two classes of one score


def _fitted(points: Points) -> Floats:
    """Return the matrix of least squares: of a library that scales its leaves, or a function."""
    leaves = points.leaves - points.leaves.mean(axis=0)
    explained = points.explained - points.explained.mean(axis=0)
    return np.asarray(np.linalg.lstsq(leaves, explained, rcond=None)[0])


def precision_of(raw: Any) -> np.dtype[Any]:
    """Return the type in which a model adds up, by its answer."""
    dtype = getattr(raw, "dtype", None)
    return np.dtype(np.float32 if dtype == np.float32 else np.float64)
