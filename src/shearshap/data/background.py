"""The background: what a feature is replaced with when it is left out.

With one background row, v(S) is eq. 2 of the paper. With several it is their average, eq. 1.
Backgrounds that shap makes are known by the names of their classes, so that shap is not imported:

    shap.kmeans(X, 10)               rows, each with the size of its cluster as its weight
    shap.maskers.Independent(X)      rows
    shap.maskers.Partition(X)        rows; the clustering of columns is ignored, with a warning
    other maskers                    refused: they do not replace absent features by rows
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from numbers import Real
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from torch import Tensor

from shearshap.errors import InputError, warn

Background = ArrayLike | float | Tensor | Mapping[str, Any] | tuple[str, ArrayLike | Tensor]
"""What a user may pass.

Rows of any kind, a row by name, a number for all inputs, a statistic's name, or a statistic's name
and rows.
"""

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
columns without numbers take their most frequent value instead. A kind of background that keeps
several rows, such as a sample, belongs here too: `ParsedBackground.rows` are what it chooses from,
and `weights` their weights.
"""


@dataclass(frozen=True)
class ParsedBackground:
    """The background that a user passed, taken apart into a statistic and rows."""

    statistic: str | None  #: a name in STATISTICS; None: the rows themselves are the background
    rows: Any  #: as the user passed them; None beside a statistic: the rows to explain
    weights: NDArray[np.float64] | None = None  #: (b,) of the rows; None: they count equally

    @property
    def of_explained(self) -> bool:
        """Whether the statistic is taken of the rows to explain."""
        return self.statistic is not None and self.rows is None

    def check_count(self, explained: int) -> None:
        """Raise if the statistic is that of the rows to explain, and there is only one."""
        if not self.of_explained or explained > 1:
            return
        raise InputError(
            f"background={self.statistic!r} alone is the {self.statistic} of the rows to explain, "
            "and there is only one, which would be its own background; pass "
            f"background=({self.statistic!r}, rows)"
        )


def parse_background(background: Any) -> ParsedBackground:
    """Take a user's background apart, and check its statistic's name."""
    if isinstance(background, str):
        return ParsedBackground(_checked_name(background), None)
    if not starts_with_name(background):
        return ParsedBackground(None, *_weighted_rows(background))

    name = _checked_name(background[0])
    if len(background) != 2:
        raise InputError(
            f"background: expected a pair such as ({name!r}, rows), got a tuple of "
            f"{len(background)}"
        )
    rows, weights = _weighted_rows(background[1])
    if weights is not None:
        raise InputError(
            "background: the rows of shap.kmeans have weights, which no statistic takes into "
            f"account; pass ({name!r}, rows) of the rows that it was made of"
        )
    return ParsedBackground(name, rows)


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


def _checked_name(name: str) -> str:
    if name not in STATISTICS:
        raise InputError(
            f"background: expected one of {', '.join(STATISTICS)}, a row or background rows; got "
            f"{name!r}"
        )
    return name


# Backgrounds that shap makes

WeightedRows = tuple[Any, NDArray[np.float64] | None]
"""Background rows and, if they do not count equally, their weights (b,) with the sum 1."""


def _weighted_rows(background: Any) -> WeightedRows:
    """Return the rows of a background, which may be shap's or anything else, and their weights."""
    kinds = type(background).__mro__
    names = [kind.__name__ for kind in kinds if kind.__module__.partition(".")[0] == "shap"]
    if not names and callable(background):
        raise InputError(
            "background: expected rows, got a function; shap takes one as a masker, but here an "
            "absent feature is replaced with background rows"
        )
    if "DenseData" in names:
        return _summary(background)
    if "Tabular" in names:
        return _masker_rows(background), None
    if names:
        raise InputError(
            f"background: shap's {names[0]} cannot be used here; pass background rows, for a tuple "
            "of inputs a tuple of them, and groups= for patches of an image"
        )
    return background, None


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


def _masker_rows(masker: Any) -> Any:
    """Return the background rows of `shap.maskers.Independent` or `Partition`."""
    if masker.clustering is not None or masker.partition is not None:
        warn(
            f"shap's {type(masker).__name__} has a clustering of the columns, which is not used: "
            "these are Shapley values, and not Owen values; to keep columns together pass groups="
        )
    return _named(masker.data, masker.feature_names if masker.output_dataframe else None)


def _named(rows: Any, columns: Any) -> Any:
    """Return rows as a pandas frame if their columns have names."""
    if columns is None:
        return rows
    import pandas as pd

    # an array of mixed columns holds objects; a frame gives each column its own type again
    return pd.DataFrame(rows, columns=columns).infer_objects()
