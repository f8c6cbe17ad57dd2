"""One form for the trees of every library: nodes, and the decisions they take."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Integers = NDArray[np.int64]
Bools = NDArray[np.bool_]

BLOCK = 256  #: rows that are predicted at once


@dataclass(frozen=True, eq=False)
class Decisions:
    """The distinct questions that the nodes of a forest ask about one column each."""

    column: Integers  #: (q,) the column each asks about, as the trees see the rows
    threshold: Floats  #: (q,) a value at most that high goes left
    strict: Bools  #: (q,) only a value below the threshold goes left
    missing_left: Bools  #: (q,) whether a missing value goes left

    def __len__(self) -> int:
        """Return how many there are."""
        return len(self.column)

    def take(self, numbers: Integers) -> "Decisions":
        """Return some of the decisions, by their numbers."""
        return Decisions(
            self.column[numbers],
            self.threshold[numbers],
            self.strict[numbers],
            self.missing_left[numbers],
        )

    def go_right(self, seen: Floats) -> NDArray[np.uint8]:
        """Return 1 where a row goes right, (q, r), for rows as the trees see them (r, d)."""
        inputs = np.ascontiguousarray(seen.T)
        limit = np.where(self.strict, np.nextafter(self.threshold, -np.inf), self.threshold)
        right = np.empty((len(self), len(seen)), dtype=np.bool_)
        starts = np.flatnonzero(np.diff(self.column, prepend=-1))
        for start, stop in zip(starts, np.append(starts[1:], len(self)), strict=True):
            values = inputs[self.column[start]]
            np.greater(values, limit[start:stop, None], out=right[start:stop])
            missing = np.flatnonzero(np.isnan(values))
            right[start:stop, missing] = ~self.missing_left[start:stop, None]
        return right.view(np.uint8)


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
        return self.value.shape[1]

    def predict(self, seen: Floats) -> Floats:
        """Return the sums of leaves (r, k) for rows as the trees see them."""
        blocks = [self._sums(seen[start : start + BLOCK]) for start in range(0, len(seen), BLOCK)]
        return np.concatenate(blocks) if blocks else np.zeros((0, self.outputs))

    def _sums(self, seen: Floats) -> Floats:
        right = self.decisions.go_right(seen)
        rows = np.arange(len(seen))
        at = np.repeat(self.roots[:, None], len(seen), axis=1)
        inner = self.left[at] >= 0
        while inner.any():
            goes_right = right[self.decision[at], rows] == 1
            child = np.where(goes_right, self.right[at], self.left[at])
            at = np.where(inner, child, at)
            inner = self.left[at] >= 0
        return np.asarray(self.value[at].sum(axis=0))
