"""The solver for linear models: exact values from their coefficients.

The margin of a linear model is a sum of one term for each column that its last step is given, and a
column is made of the inputs of one player. So the value of player i, for a background of mean m, is

    phi_i = sum over the columns j of player i of coef_j * (x_j - m_j)

    the model's columns      city                age        players 0 and 1
    after the transformers   city_a    city_b    age
    coefficient              0.5       -0.2      0.1
    x - m                    0.7       -0.4      12
    value                    0.35    + 0.08      1.2

It is what a forest is too: a sum of terms that belong to players. So trees/ has what finds the
columns, compares the model with its terms at every row, and falls back to sampling, with a note, if
the two differ or if a transformer makes a column of several.
"""

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
import torch

from shearshap.engine.loop import RowProgress
from shearshap.engine.open import NamedGame
from shearshap.engine.run import Run
from shearshap.games.indices import Index
from shearshap.trees.forest import Floats, Integers, NotASum, UnsupportedTrees
from shearshap.trees.model import innermost, seen_columns
from shearshap.trees.proof import decoded
from shearshap.trees.readers import numbers, own_values
from shearshap.trees.solver import ExactSolver, ExactSum, check_budget

METHOD = "exact (linear)"

FAMILIES = ("linear_model", "svm", "discriminant_analysis", "cross_decomposition")
"""Modules of scikit-learn whose estimators with `coef_` are linear, on some scale."""

RANGE_ROWS = 1_024
"""Rows by which, with the background, the range of a model's columns is judged."""

BEYOND = 4
"""How many times that range is tried, since rows to come may lie outside of it."""


def wants_linear(model: Any, run: Run) -> bool:
    """Return whether a model may be linear, and the method leaves it open how to be exact."""
    return run.method.takes_closed_forms and _is_linear(innermost(model))


def _is_linear(estimator: Any) -> bool:
    """Return whether an estimator extends one of scikit-learn's, and has coefficients.

    A support vector machine has them only if its kernel is linear.
    """
    modules = [ancestor.__module__.split(".")[:2] for ancestor in type(estimator).__mro__]
    is_known = any(["sklearn", family] in modules for family in FAMILIES)
    return is_known and hasattr(estimator, "coef_")


def linear_solver(
    model: Any, named: NamedGame, run: Run, *, progress: RowProgress | None = None
) -> ExactSolver:
    """Return the solver for a linear model, which samples it if its values are not a sum."""
    linear: ExactSum | UnsupportedTrees
    try:
        linear = _exact(model, named, run)
    except UnsupportedTrees as refusal:
        linear = refusal
    return ExactSolver(model, named, run, linear, progress=progress)


def _exact(model: Any, named: NamedGame, run: Run) -> ExactSum:
    """Return a linear model's exact values; raise `UnsupportedTrees` if they are not a sum."""
    if named.outputs.form == "probability":
        # known beforehand: the columns of a Pipeline would be traced for nothing
        raise NotASum("a probability is not a sum over features")
    game = named.game
    seen = LinearModel.from_model(model, named)
    check_budget(METHOD, game.cost, run)

    def prepared() -> LinearValues:
        background = seen.preprocess(decoded(game, game.background))
        return LinearValues(
            seen.forest.coefficients, seen.owner, game.players, background, named.inputs.weights
        )

    return ExactSum.proved(METHOD, game, run, seen, prepared)


@dataclass(frozen=True, eq=False)
class LinearSums:
    """Sums of columns times their coefficients, without the intercepts."""

    coefficients: Floats  #: (d', f)
    lowest: Floats  #: (d',) of each column
    highest: Floats  #: (d',)

    @property
    def outputs(self) -> int:
        """The number of sums f."""
        return int(self.coefficients.shape[1])

    @property
    def terms(self) -> int:
        """How many terms a sum has: one for each column."""
        return len(self.coefficients)

    @property
    def noun(self) -> str:
        """The terms, for people to read."""
        return "features"

    def predict(self, seen: Floats) -> Floats:
        """Return the sums (r, f) of rows (r, d')."""
        return np.asarray(seen @ self.coefficients)

    def largest_sums(self) -> Floats:
        """Return the largest sums of the terms' absolute values, (f,): rounding grows with it."""
        sizes = np.maximum(np.abs(self.lowest), np.abs(self.highest))
        return np.asarray(sizes @ np.abs(self.coefficients))

    def extreme_sums(self, directions: Floats) -> Floats:
        """Return the sums (n, f) that go farthest in directions (f, n), beyond the known range."""
        middle = (self.lowest + self.highest) / 2
        reach = BEYOND * (self.highest - self.lowest) / 2
        signs = np.sign(self.coefficients @ directions)  # (d', n)
        return self.predict(middle + signs.T * reach)


@dataclass(frozen=True, eq=False)
class LinearModel:
    """The coefficients of a model, and how its rows become the columns that they belong to."""

    forest: LinearSums
    preprocess: Callable[[Any], Floats]  #: rows as the model takes them, to float64 (r, d')
    owner: Integers  #: (d',) the player that owns each column
    unknown: tuple[str, ...]  #: transformers that may make a column of several

    @classmethod
    def from_model(cls, model: Any, named: NamedGame) -> "LinearModel":
        """Read a model; raise `UnsupportedTrees` if it is not known whose its columns are."""
        coefficients = _coefficients(innermost(model))
        to_numbers = partial(numbers, encode=own_values)
        columns = seen_columns(model, named.inputs, np.arange(len(coefficients)), to_numbers)
        game = named.game
        some = torch.cat((game.background, game.inputs[:RANGE_ROWS]))
        seen = columns.preprocess(decoded(game, some))
        if seen.shape[1] != len(coefficients):
            raise UnsupportedTrees(
                f"it has coefficients for {len(coefficients)} columns, but gets {seen.shape[1]}"
            )
        sums = LinearSums(coefficients, seen.min(axis=0), seen.max(axis=0))
        return cls(sums, *columns)


def _coefficients(estimator: Any) -> Floats:
    """Return the coefficients (d', f) of an estimator, one output for each row of `coef_`."""
    table = estimator.coef_
    dense = table.toarray() if hasattr(table, "toarray") else table
    return np.atleast_2d(np.asarray(dense, dtype=np.float64)).T


class LinearValues:
    """The exact values of sums of columns times their coefficients (d', f), for a background.

    The background is (b, d'), its weights (b,) have the sum 1, or None: all weigh the same. A
    player that owns no column has values of 0.
    """

    def __init__(
        self,
        coefficients: Floats,
        owner: Integers,
        players: int,
        background: Floats,
        weights: Floats | None,
    ) -> None:
        self.background = background
        self.coefficients = coefficients
        self.players = players
        mean = np.average(background, axis=0, weights=weights)
        # a mean of equal numbers may be off by rounding: a null player's value must be 0
        self.mean = np.where(np.ptp(background, axis=0) == 0, background[0], mean)
        self._order = np.argsort(owner, kind="stable")
        self._owners, self._starts = np.unique(owner[self._order], return_index=True)

    def values(self, seen: Floats) -> Floats:
        """Return the players' Shapley values (r, p, f) of rows (r, d')."""
        values = np.zeros((len(seen), self.players, self.coefficients.shape[1]))
        differences = seen - self.mean
        for output, coefficients in enumerate(self.coefficients.T):
            terms = (differences * coefficients)[:, self._order]
            values[:, self._owners, output] = np.add.reduceat(terms, self._starts, axis=1)
        return values

    def interactions(self, seen: Floats) -> Floats:
        """Return the pairs' Shapley interactions (r, p, p, f): there are none in a sum."""
        return np.zeros((len(seen), self.players, self.players, self.coefficients.shape[1]))

    def index(self, seen: Floats, index: Index) -> Floats:
        """Return an index of sets (r, q, f): values of single players, and 0 for larger sets."""
        of_sets = np.zeros((len(seen), index.sets, self.coefficients.shape[1]))
        of_sets[:, : self.players] = self.values(seen)
        return of_sets

    def second_differences(self, seen: Floats) -> Floats:
        """Return v(U) - v(U-i) - v(U-j) + v(U-ij), (r, p, p, f): 0 in a sum."""
        return self.interactions(seen)
