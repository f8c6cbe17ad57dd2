"""The background: what a feature is replaced with when it is left out.

With one background row, v(S) is eq. 2 of the paper. With several it is their average, eq. 1.

    passed                      background
    None                        a sample of the rows explained; for trees, none (`is_default`)
    rows                        all of them; of more than 100, a sample
    ("sample", rows, 50)        50 of them, drawn at random
    ("kmeans", rows, 20)        up to 20 of them, near the centres of clusters, weighted by size
    ("all", rows)               all of them
    ("mean", rows)              one row: their mean; or "median", "mode"
    Conditional(rows)           none: absent features are drawn given the present ones

A sample depends on the number of rows and the seed alone, so that arrays of as many rows, the
inputs of one model, have the same rows chosen.

Backgrounds that shap makes are known by the names of their classes, so that shap is not imported:

    shap.kmeans(X, 10)               rows, each with the size of its cluster as its weight
    shap.maskers.Independent(X)      rows
    shap.maskers.Partition(X)        rows; the clustering of columns is the hierarchy of groups
    other maskers                    refused: they do not replace absent features by rows
"""

import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from numbers import Real
from typing import Any, Literal

import numpy as np
import torch
from numpy.typing import ArrayLike, NDArray
from torch import Tensor

from shearshap.errors import InputError
from shearshap.games.conditional import KINDS, Distribution, fitted

Statistic = Callable[[NDArray[Any], NDArray[np.int64]], NDArray[Any]]
"""Rows (b, d), and the player that owns each input (d,), to one row (d,)."""


def mean(rows: NDArray[Any], _owner: NDArray[np.int64]) -> NDArray[Any]:
    """Return the mean of every input, leaving out missing numbers: (b, d) to (d,).

    The mean of a one-hot block is the frequencies of its categories.
    """
    return np.asarray(np.nanmean(rows, axis=0))


def median(rows: NDArray[Any], _owner: NDArray[np.int64]) -> NDArray[Any]:
    """Return the median of every input, leaving out missing numbers: (b, d) to (d,)."""
    return np.asarray(np.nanmedian(rows, axis=0))


def mode(rows: NDArray[Any], owner: NDArray[np.int64]) -> NDArray[Any]:
    """Return the most frequent value of every *player*: (b, d) to (d,).

    A player's inputs are taken together, so a one-hot block stays one-hot. Of equally frequent
    values the smallest is taken.
    """
    row: NDArray[Any] = np.empty_like(rows[0])
    for player in range(int(owner.max()) + 1):
        own = owner == player
        distinct, counts = np.unique(rows[:, own], axis=0, return_counts=True)
        row[own] = distinct[counts.argmax()]
    return row


STATISTICS: dict[str, Statistic] = {
    "mean": mean,
    "median": median,
    "mode": mode,
}
"""The statistics of background rows, by name.

A line here is all that a statistic needs to work for arrays, several inputs and frames. In a frame,
columns without numbers take their most frequent value instead.
"""


CHOICES = ("sample", "all", "kmeans")
"""Backgrounds of several rows, by name."""

DEFAULT_ROWS = 100
"""Rows of a sample, unless the user says how many."""

DEFAULT_CENTRES = 20
"""Rows that k-means chooses, unless the user says how many."""

MAX_CLUSTERED = 10_000
"""Rows that k-means reads: of more, a sample."""

KMEANS_STEPS = 30

MISSING = (
    "Background data is missing. Pass rows to compare with, for example Explainer(model, X_train)."
)


Points = Callable[[NDArray[np.int64]], NDArray[np.float64]]
"""From the places (n,) of rows to points (n, m), whose distances say how much the rows differ."""


@dataclass(frozen=True, eq=False)
class Conditional:
    """A background for features that move together: absent ones are drawn given the present ones.

    The distribution is fitted to training rows, once per seed of an explainer. The model only gets
    values that occur in the training rows, except with "gaussian", which draws any numbers for
    arrays of floats.

    Parameters
    ----------
    train
        Training rows: an array, a tensor or a frame, with the columns of the rows to explain.
    kind
        - "copula" (default): a Gaussian copula, for columns of any kind. A value that many rows
          share, such as a category, takes an interval of the normal scale as wide as its share of
          the training rows. Unordered categories are ordered by the mean of their rows on the first
          principal component of all columns.
        - "gaussian": a normal distribution, for columns of numbers
        - "empirical": the training rows nearest in the present features, weighted by a kernel
        - "learned": a small network that predicts each column from any other columns. A note says
          if the copula predicts held-out rows better.
    samples
        Draws of the absent features. Standard errors take the draws into account.
    """

    train: Any
    kind: Literal["copula", "gaussian", "empirical", "learned"] = "copula"
    samples: int = 100
    #: fitted before, by the seed and the columns
    _fitted: dict[Any, Distribution] = field(default_factory=dict, init=False, repr=False)

    def __post_init__(self) -> None:
        """Check the kind and the number of samples."""
        if self.kind not in KINDS:
            kinds = ", ".join(map(repr, KINDS))
            raise InputError(f"Conditional: expected kind to be {kinds}; got {self.kind!r}")
        is_integer = isinstance(self.samples, int) and not isinstance(self.samples, bool)
        if not is_integer or self.samples < 2:
            raise InputError(f"Conditional: expected 2 or more samples, got {self.samples!r}")

    def fitted(
        self, train: NDArray[np.float64], rows: NDArray[np.float64], names: Sequence[Any], seed: int
    ) -> Distribution:
        """Return the distribution of training rows (n, d), for rows to explain (r, d), as numbers.

        `names` are those of the columns.
        """
        for argument, numbers in (("rows", rows), ("background", train)):
            missing = np.flatnonzero(~np.isfinite(numbers).all(axis=0))
            if missing.size:
                raise InputError(
                    f"{argument}: column {names[missing[0]]!r} has missing numbers, and "
                    "Conditional needs complete rows; fill them in, or drop these rows"
                )
        if len(train) < 2:
            raise InputError(f"background: Conditional needs 2 or more rows, got {len(train)}")
        key = (seed, tuple(names))
        if key not in self._fitted:
            self._fitted[key] = fitted(self.kind, torch.from_numpy(train), seed)
        return self._fitted[key]


@dataclass(frozen=True, eq=False)
class ParsedBackground:
    """The background that a user passed, taken apart: what to make of which rows."""

    choice: str | None  #: a name in STATISTICS or CHOICES; None: all rows, or a sample of many
    rows: Any  #: as the user passed them; None: the rows to explain
    count: int = DEFAULT_ROWS  #: of rows to choose, or to draw
    weights: NDArray[np.float64] | None = None  #: (n,) of the rows; None: they count equally
    seed: int = 0
    chosen: "Selection | None" = None  #: if the rows were chosen in an earlier call
    is_default: bool = False  #: whether the user gave none: trees then follow their own covers
    note: str | None = None  #: for the user, if the rows are used
    allow_single_row: bool = False  #: whether one row to explain may be its own background
    passed: int | None = None  #: rows that the user passed, if only some of them were kept
    conditional: Conditional | None = None  #: if absent features are drawn given the present ones

    def draws(self, law: Distribution) -> Tensor:
        """Return draws (b, m) of a distribution."""
        return law.draws(self.count, np.random.default_rng([self.seed, 1]))

    @property
    def of_explained(self) -> bool:
        """Whether the background is chosen from the rows to explain."""
        return self.rows is None

    @property
    def statistic(self) -> str | None:
        """The name of the statistic that makes one row of all; None: rows are chosen."""
        return self.choice if self.choice in STATISTICS else None

    def select(self, rows: int, points: Points) -> "Selection":
        """Choose from a number of rows; `points` are what k-means compares."""
        if self.conditional is not None:
            kind, samples = self.conditional.kind, self.count
            words = f"{samples:,} samples of features that move together ({kind} of {rows:,} rows)"
            return Selection(None, words)
        if self.chosen is not None:
            return self.chosen
        if self.of_explained:
            return self._of_explained(rows)
        if self.statistic is not None:
            return Selection(
                None, f"the {self.statistic} of {_counted(self.passed or rows, 'row')}"
            )
        if self.choice == "kmeans":
            chosen, weights = _kmeans(points, rows, self.count, self.seed)
            words = _counted(self.passed or rows, "background row")
            words = f"{len(chosen)} of {words}, chosen by k-means"
            return Selection(chosen, words, weights=weights)

        words = _counted(rows, "background row")
        note = self.note
        places = None
        if self.choice != "all" and self.weights is None and rows > self.count:
            places = drawn_places(rows, self.count, self.seed)
            words = f"{self.count:,} of {words}, drawn at random"
            if self.choice is None:
                note = (
                    f"The background is {self.count:,} of the {rows:,} rows passed, drawn at "
                    "random. Pass ('sample', X_train, n) or ('all', X_train) to choose."
                )
        return Selection(places, words, () if note is None else (note,), self.weights)

    def _of_explained(self, rows: int) -> "Selection":
        """Choose from the rows to explain, since the user has passed no others."""
        if rows == 1 and not self.allow_single_row:
            raise InputError(MISSING)
        if rows > self.count:
            shown = f"{self.count:,} of the {rows:,} rows explained"
        else:
            shown = f"the {rows:,} rows explained"
        note = (
            f"No background was given, so features are compared with {shown}. Pass "
            "Explainer(model, X_train) to choose."
        )
        words = f"{shown}, drawn at random" if rows > self.count else shown
        return Selection(drawn_places(rows, self.count, self.seed), words, (note,))


@dataclass(frozen=True, eq=False)
class Selection:
    """Which rows are the background, with their weights, and what they are in words."""

    places: NDArray[np.int64] | None  #: (b,) of the chosen rows, in order; None: all
    description: str
    notes: tuple[str, ...] = ()
    weights: NDArray[np.float64] | None = None  #: (b,) with the sum 1; None: they count equally


Background = (
    ArrayLike
    | float
    | Tensor
    | Mapping[str, Any]
    | tuple[Any, ...]
    | Conditional
    | ParsedBackground
)
"""What a user may pass.

Rows of any kind, a row by name, a number for all inputs, or a name in CHOICES or STATISTICS and
rows; of a sample and of k-means, how many rows too. Or a distribution of rows.
"""


def parse_background(background: Any, seed: int = 0) -> ParsedBackground:
    """Take a user's background apart, and check its name; `seed` is that of a sample."""
    if background is None:
        return ParsedBackground(None, None, seed=seed, is_default=True)
    if isinstance(background, ParsedBackground):
        return background
    if isinstance(background, Conditional):
        return ParsedBackground(
            "all", background.train, background.samples, seed=seed, conditional=background
        )
    if isinstance(background, str):
        raise _name_error(background)
    return _parse_rows(background, seed)


def _parse_rows(background: Any, seed: int) -> ParsedBackground:
    """Take rows apart, or a tuple of a name and rows."""
    if not starts_with_name(background):
        rows, weights, is_shap = _rows_and_weights(background)
        return ParsedBackground("all" if is_shap else None, rows, weights=weights, seed=seed)

    name = background[0]
    counted = name in ("sample", "kmeans")
    if name not in (*STATISTICS, *CHOICES):
        raise _name_error(name)
    if len(background) not in ((2, 3) if counted else (2,)):
        raise InputError(f"background: expected {_example(name)}, got a tuple of {len(background)}")
    if background[1] is None:
        raise _name_error(name)
    rows, weights, _ = _rows_and_weights(background[1])
    if weights is not None:
        raise InputError(
            f"background: the rows of shap.kmeans have weights, which {name!r} ignores; pass "
            f"{_example(name)} with the original rows"
        )
    default = DEFAULT_CENTRES if name == "kmeans" else DEFAULT_ROWS
    count = background[2] if len(background) == 3 else default
    if not isinstance(count, int | np.integer) or isinstance(count, bool) or count < 1:
        raise InputError(f"background: expected {_example(name)}, got {count!r} rows")
    return ParsedBackground(name, rows, int(count), seed=seed)


def is_default(background: Any) -> bool:
    """Return whether a background stands for none that the user gave."""
    return background is None or getattr(background, "is_default", False) is True


def _example(name: str) -> str:
    """Return how to write a background with a name."""
    numbers = {"sample": f", {DEFAULT_ROWS}", "kmeans": f", {DEFAULT_CENTRES}"}
    return f"({name!r}, X_train{numbers.get(name, '')})"


def _name_error(name: str) -> InputError:
    if name in STATISTICS or name in CHOICES:
        return InputError(f"background: {name!r} needs rows; pass {_example(name)}")
    known = ", ".join(_example(each) for each in (*CHOICES, *STATISTICS))
    return InputError(
        f"background: expected rows, such as X_train, or one of {known}; got {name!r}"
    )


def _counted(number: int, noun: str) -> str:
    return f"one {noun}" if number == 1 else f"{number:,} {noun}s"


# Choices of rows


def drawn_places(rows: int, count: int, seed: int) -> NDArray[np.int64]:
    """Return the places of a sample of rows, in order: all of them if they are not more."""
    generator = np.random.default_rng(seed)
    return np.sort(generator.choice(rows, min(rows, count), replace=False))


def _kmeans(
    points: Points, rows: int, count: int, seed: int
) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
    """Return the places (b,) of the real rows nearest to k-means centres, and their weights (b,).

    A cluster is the rows that are nearest to a centre: its background row is one of them, and its
    weight their share. There are fewer rows than asked for if a centre has none.
    """
    # not at the top: it takes a while to import
    from scipy.cluster.vq import kmeans2
    from scipy.spatial.distance import cdist

    read = drawn_places(rows, MAX_CLUSTERED, seed)
    own = points(read)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # a cluster may be empty
        centres, _ = kmeans2(own, min(count, len(own)), KMEANS_STEPS, minit="++", seed=seed)
    distances = cdist(own, centres, "sqeuclidean")
    members = distances.argmin(axis=1)[:, None] == np.arange(distances.shape[1])
    nearest = np.where(members, distances, np.inf).argmin(axis=0)
    sizes = members.sum(axis=0)
    used = np.flatnonzero(sizes)
    in_order = used[nearest[used].argsort()]
    return read[nearest[in_order]], sizes[in_order] / len(own)


def standardised(table: NDArray[Any]) -> NDArray[np.float64]:
    """Return numbers (n, d) with mean 0 and deviation 1 in each column; missing ones are 0."""
    numbers = table.astype(np.float64)
    numbers[~np.isfinite(numbers)] = np.nan
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RuntimeWarning)  # a column may be all missing
        centred = numbers - np.nanmean(numbers, axis=0)
        deviation = np.nanstd(numbers, axis=0)
    return np.asarray(np.nan_to_num(centred / np.where(deviation > 0, deviation, 1.0)))


def starts_with_name(background: Any) -> bool:
    """Return whether a background is a tuple that starts with a name, as ("mean", rows) does."""
    return isinstance(background, tuple) and len(background) > 0 and isinstance(background[0], str)


def is_single_number(background: Any) -> bool:
    """Return whether a background is one number, for all inputs."""
    if isinstance(background, Real | np.bool_):
        return True
    return isinstance(background, np.ndarray | Tensor) and background.ndim == 0


def named_cells(row: Any, names: Sequence[Any]) -> list[Any]:
    """Return the cells of one row by name, a mapping or a Series, in the order of the names."""
    for name in names:
        if name not in row:
            wanted = ", ".join(str(name) for name in names[:8])
            raise InputError(f"background: {name!r} is missing; expected {wanted}")
    return [row[name] for name in names]


# Backgrounds that shap makes

WeightedRows = tuple[Any, NDArray[np.float64] | None]
"""Background rows and, if they do not count equally, their weights (b,) with the sum 1."""


def _rows_and_weights(background: Any) -> tuple[Any, NDArray[np.float64] | None, bool]:
    """Return the rows of a background, their weights, and whether shap has chosen them."""
    kinds = type(background).__mro__
    names = [kind.__name__ for kind in kinds if kind.__module__.partition(".")[0] == "shap"]
    if not names and callable(background):
        raise InputError(
            "background: expected rows, got a function; shap takes one as a masker, but here an "
            "absent feature is replaced with background rows"
        )
    if "DenseData" in names:
        return *_summary(background), True
    if "Tabular" in names:
        return _masker_rows(background), None, True
    if names:
        raise InputError(
            f"background: shap's {names[0]} is not supported; pass background rows (for several "
            "inputs a tuple of them), and groups= for image patches"
        )
    return background, None, False


def _summary(summary: Any) -> WeightedRows:
    """Return the rows and weights of `shap.kmeans`."""
    if summary.transposed or any(len(group) != 1 for group in summary.groups):
        raise InputError(
            "background: shap's DenseData has groups of columns; pass its rows, and groups="
        )
    weights = np.asarray(summary.weights, dtype=np.float64)
    weights = weights / weights.sum()
    equal = np.allclose(weights, weights[0])

    # of a frame, the names are an index, and of an array a list of numbers
    names = None if isinstance(summary.group_names, list) else summary.group_names
    return _named(summary.data, names), None if equal else weights


def groups_or_clustering(groups: Any, background: Any) -> Any:
    """Return the user's groups or, without any, the clustering of columns of a masker of shap."""
    is_shap = type(background).__module__.partition(".")[0] == "shap"
    return getattr(background, "clustering", None) if groups is None and is_shap else groups


def _masker_rows(masker: Any) -> Any:
    """Return the background rows of `shap.maskers.Independent` or `Partition`."""
    if masker.partition is not None:
        raise InputError(
            f"background: the partition of shap's {type(masker).__name__} is not supported; pass "
            "its rows, and groups="
        )
    return _named(masker.data, masker.feature_names if masker.output_dataframe else None)


def _named(rows: Any, columns: Any) -> Any:
    """Return rows as a pandas frame if their columns have names."""
    if columns is None:
        return rows
    import pandas as pd

    # an array of mixed columns holds objects; a frame gives each column its own type again
    return pd.DataFrame(rows, columns=columns).infer_objects()
