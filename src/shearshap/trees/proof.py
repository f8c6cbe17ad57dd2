"""The proof that the explained outputs are linear in sums of leaves, on points of the game.

The terms of a linear model, its columns times their coefficients, take the place of leaves.

Explained outputs (n, k) are linear in sums of leaves (n, f), or the trees are not used:

    explained = constant + leaves @ matrix

The matrix is what the way from a model's answers to its explained outputs makes of steps along the
axes of leaves. Whether it is right is not assumed:

    the model       at rows, background rows and mixes of both, the two sides must agree
    its outputs     a function of the user's, or another scale, must be linear over the whole range
                    of sums that the leaves allow, which takes no evaluation of the model
"""

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, Protocol

import numpy as np
import torch
from torch import Tensor

from shearshap.errors import ShearError
from shearshap.games.marginal import ModelGame
from shearshap.models import Outputs
from shearshap.models.base import MARGINS, SeenOutputs
from shearshap.models.sklearn import Tables
from shearshap.trees.forest import Bools, Floats, Integers, NotASum, UnsupportedTrees
from shearshap.trees.readers import first_line

ROUNDING = {np.dtype(np.float32): 1e-5, np.dtype(np.float64): 1e-10}
"""By which part of the leaves that a model adds up its outputs may be off, by their type."""

COMPARED = 32
"""Rows, and background rows, at which model and leaves are compared."""

MIXES = 64
"""Mixes of those rows and background rows, player by player, at which they are compared too."""

DIRECTIONS = 32
"""Axes of sums of leaves, and other directions, along which the extremes are looked for."""

BETWEEN = 4096
"""Points between those extremes, more of them near the ends."""


class Sums(Protocol):
    """What a model adds up: the leaves of its trees, or its columns times their coefficients."""

    @property
    def outputs(self) -> int:
        """The number of sums f."""

    @property
    def terms(self) -> int:
        """How many terms a sum has."""

    @property
    def noun(self) -> str:
        """The terms, for people to read."""

    def predict(self, seen: Floats) -> Floats:
        """Return the sums (r, f) of rows (r, d')."""

    def largest_sums(self) -> Floats:
        """Return how large the sums of the terms' absolute values may be, (f,)."""

    def extreme_sums(self, directions: Floats) -> Floats:
        """Return the sums (n, f) that go farthest in directions (f, n)."""


class SumModel(Protocol):
    """A model that adds up terms, each of which depends on the inputs of one player or more."""

    @property
    def forest(self) -> Sums:
        """What it adds up."""

    @property
    def preprocess(self) -> Callable[[Any], Floats]:
        """Rows as the model takes them, to the numbers (r, d') that the terms see."""

    @property
    def owner(self) -> Integers:
        """(d',) the player that owns each of these columns."""

    @property
    def unknown(self) -> tuple[str, ...]:
        """Transformers that may make a column of several."""


@dataclass(frozen=True, eq=False)
class LeafOutputs:
    """The linear function from sums of leaves to explained outputs."""

    matrix: Floats  #: (f, k)
    constant: Floats  #: (k,)
    allowed: Floats  #: (k,) by how much rounding may change an output

    def __call__(self, leaves: Floats) -> Floats:
        """Map differences of sums of leaves (..., f) to those of explained outputs (..., k)."""
        return np.asarray(leaves @ self.matrix)

    def gaps(self, explained: Floats, leaves: Floats) -> Floats:
        """Return how far explained outputs (n, k) are from those of sums of leaves (n, f)."""
        return np.abs(explained - self.constant - self(leaves))


@dataclass(frozen=True, eq=False)
class Points:
    """What a model and its trees say at some points."""

    leaves: Floats  #: (n, f) sums of leaves
    raw: Any  #: the model's answer
    explained: Floats  #: (n, k) what is explained of it

    def rounding(self, outputs: Floats, terms: Floats, trees: int) -> Floats:
        """Return by how much rounding may change outputs (n, k), whose leaves add up to `terms`.

        A model may begin with a large constant. Then every tree rounds to the digits of that.
        """
        single = getattr(self.raw, "dtype", None) == np.float32
        dtype: np.dtype[Any] = np.dtype(np.float32 if single else np.float64)
        spread = np.ptp(outputs, axis=0)
        of_constant = (4 + np.sqrt(trees)) * np.finfo(dtype).eps
        size = np.abs(outputs).max(axis=0)
        return np.asarray(ROUNDING[dtype] * (spread + terms) + of_constant * size)


def leaf_outputs(
    outputs: Outputs, forest: Sums, points: Points, rng: np.random.Generator
) -> LeafOutputs:
    """Return how the explained outputs follow from leaves, or raise `UnsupportedTrees`."""
    trees = forest.terms
    terms = forest.largest_sums()
    reason = f"the explained outputs are not linear in its {forest.noun}"
    answers = _as_sums(points.raw, forest.outputs)
    if answers is None:
        raise NotASum(reason)
    explained = partial(_explained, outputs, points.raw)

    possible = None
    middle = np.zeros(forest.outputs)
    step = np.ones(forest.outputs)
    if not _is_selection(outputs):
        constants = answers - points.leaves
        constant = constants.mean(axis=0)
        _check(np.abs(constants - constant), points.rounding(answers, terms, trees), reason)
        possible = possible_sums(forest, rng) + constant
        middle = (possible.min(axis=0) + possible.max(axis=0)) / 2
        step = np.ptp(possible, axis=0) / 4
        step[step == 0] = 1.0

    matrix = (explained(middle + np.diag(step)) - explained(middle[None])) / step[:, None]
    allowed = points.rounding(points.explained, terms @ np.abs(matrix), trees)
    left = points.explained - points.leaves @ matrix
    function = LeafOutputs(matrix, left.mean(axis=0), allowed)
    _check(function.gaps(points.explained, points.leaves), allowed, reason)
    if possible is not None:
        left = explained(possible) - possible @ matrix
        _check(np.abs(left - left.mean(axis=0)), 2 * allowed, reason)
        # of a threshold, all that were tried may lie on one side
        if np.ptp(possible, axis=0).any() and not matrix.any(axis=0).all():
            raise UnsupportedTrees(
                f"the explained output is the same for all sums of {forest.noun} that were tried"
            )
    return function


def _is_selection(outputs: Outputs) -> bool:
    """Return whether the explained outputs are some of the model's own answers, or all."""
    is_unscaled = outputs.scale is None or outputs.scale == outputs.form or outputs.scale in MARGINS
    return is_unscaled and not callable(outputs.output)


def _check(gaps: Floats, allowed: Floats, reason: str) -> None:
    """Raise the reason if gaps (n, k) are more than rounding (k,)."""
    if not (gaps <= allowed).all():
        raise NotASum(f"{reason} (off by {gaps.max():.2g})")


def possible_sums(forest: Sums, rng: np.random.Generator) -> Floats:
    """Return sums of leaves (n, f) over all that mixes of rows could add up to.

    Those that are extreme in some direction, and points between any two of them.
    """
    outputs = forest.outputs
    axes = np.eye(outputs)[:, rng.permutation(outputs)[:DIRECTIONS]]
    some = rng.normal(size=(outputs, DIRECTIONS if outputs > 1 else 0))
    directions = np.hstack((axes, -axes, some, -some))  # (f, directions)

    extremes = forest.extreme_sums(directions)
    first, second = rng.integers(len(extremes), size=(2, BETWEEN))
    part = rng.beta(0.5, 0.5, size=(BETWEEN, 1))
    between = part * extremes[first] + (1 - part) * extremes[second]
    return np.vstack((extremes, between))


# Model and leaves at the same points


@dataclass(frozen=True, eq=False)
class Mixes:
    """Mixes of rows and background rows, player by player."""

    row: Integers  #: (n,)
    other: Integers  #: (n,) the background row
    present: Bools  #: (n, p)

    def inputs(self, game: ModelGame) -> Tensor:
        """Return the mixes (n, d) of a game's rows and background."""
        own = torch.from_numpy(self.present)[:, game.owner.cpu()].to(game.inputs.device)
        return torch.where(own, game.inputs[self.row], game.background[self.other])

    def seen(self, trees: SumModel, rows: Floats, background: Floats) -> Floats:
        """Return the same mixes (n, d') of what the trees see of rows and background."""
        return np.where(self.present[:, trees.owner], rows[self.row], background[self.other])

    def prove_columns(
        self, game: ModelGame, trees: SumModel, rows: Floats, background: Floats
    ) -> None:
        """Raise if what the trees see of a mix is not mixed of what they see of its two rows."""
        seen = trees.preprocess(decoded(game, self.inputs(game)))
        mixed = self.seen(trees, rows, background)
        if not np.isclose(seen, mixed, rtol=1e-6, atol=1e-12, equal_nan=True).all():
            raise UnsupportedTrees(
                f"{' or '.join(trees.unknown)} combines several columns into one"
            )


def compared_points(
    game: ModelGame, seen: SumModel, rng: np.random.Generator
) -> tuple[Points, bool]:
    """Return model and leaves at rows, background rows and mixes, and if there is one output.

    What the trees see of a mix is mixed of what they see of a row and of a background row. So the
    comparison also shows if a column is not made of its owner's inputs alone.
    """
    some = replace(
        game,
        inputs=game.inputs[_some(game.rows, rng)],
        background=game.background[_some(game.cost, rng)],
    )
    mixes = Mixes(
        rng.integers(some.rows, size=MIXES),
        rng.integers(some.cost, size=MIXES),
        present=rng.random((MIXES, game.players)) < rng.random((MIXES, 1)),
    )
    inputs = decoded(game, torch.cat((some.inputs, some.background, mixes.inputs(some))))
    rows = seen.preprocess(decoded(game, some.inputs))
    if rows.shape[1] != len(seen.owner):
        raise UnsupportedTrees("the rows and the trees differ in their number of columns")
    background = seen.preprocess(decoded(game, some.background))
    if seen.unknown:
        mixes.prove_columns(some, seen, rows, background)
    mixed = mixes.seen(seen, rows, background)
    leaves = seen.forest.predict(np.concatenate((rows, background, mixed)))

    count = len(leaves)
    game.usage.checks += count
    outputs = game.predict.outputs
    try:
        # products in single precision may warn of what lies beside the numbers in memory
        with np.errstate(all="ignore"):
            raw = game.predict.adapted.call(inputs)
    except Exception as error:  # the model itself may fail, which sampling then reports
        raise UnsupportedTrees(f"the model fails on mixes of rows ({first_line(error)})") from error
    try:
        explained = outputs(raw, count).double().cpu()
    except _errors_of(outputs) as error:
        raise UnsupportedTrees(f"output= fails on mixes of rows ({first_line(error)})") from error
    return Points(leaves, raw, explained.reshape(count, -1).numpy()), explained.ndim == 1


def _some(count: int, rng: np.random.Generator) -> Tensor:
    """Return some of the numbers below a count, in order."""
    chosen = rng.choice(count, size=min(count, COMPARED), replace=False)
    return torch.from_numpy(np.sort(chosen))


def decoded(game: ModelGame, inputs: Tensor) -> Any:
    """Return inputs (n, d) as the model takes them."""
    return game.predict.decode(inputs.reshape(-1, *game.shape))


# Sums of leaves as a model returns them


def _explained(outputs: Outputs, raw: Any, sums: Floats) -> Floats:
    """Return the outputs (n, k) of sums of leaves (n, f), constant included.

    `raw` is an answer of the model, whose form they are given.
    """
    count = len(sums)
    apart = replace(outputs, seen=SeenOutputs())  # these are not outputs of the model
    try:
        with np.errstate(all="ignore"):
            answer = apart(_as_raw(sums, raw), count)
    except _errors_of(outputs) as error:
        raise UnsupportedTrees(f"output= fails at possible predictions ({error})") from error
    return np.asarray(answer.double().numpy().reshape(count, -1))


def _errors_of(outputs: Outputs) -> type[Exception]:
    """Return what outputs may raise: a function of the user's, anything at all."""
    return Exception if callable(outputs.output) else ShearError


def _as_sums(raw: Any, sums: int) -> Floats | None:
    """Return a model's answer as sums of leaves (n, f); None if it is of another form."""
    table = np.asarray(raw, dtype=np.float64)
    table = table.reshape(len(table), -1)
    if (table.shape[1], sums) == (2, 1):
        table = table[:, 1:] - table[:, :1]
    return table if table.shape[1] == sums else None


def _as_raw(sums: Floats, like: Any) -> Any:
    """Return sums of leaves (n, f) in the form of a model's answer."""
    if isinstance(like, Tables):
        widths = [table.shape[1] for table in like.tables]
        ends = np.cumsum([1 if width == 2 else width for width in widths])[:-1]
        parts = zip(np.split(sums, ends, axis=1), widths, strict=True)
        return Tables(
            [np.hstack((1 - part, part)) if width == 2 else part for part, width in parts]
        )
    if np.ndim(like) == 1:
        return sums[:, 0]
    if (np.shape(like)[1], sums.shape[1]) == (2, 1):
        return np.hstack((-sums / 2, sums / 2))  # as boosters make two classes of one score
    return sums
