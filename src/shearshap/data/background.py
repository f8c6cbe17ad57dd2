"""What an absent player is replaced with: one background row, or each of several.

With one row, v(S) is eq. 2 of the paper. With several it is their average, eq. 1.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from numbers import Real
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from torch import Tensor

from shearshap.data.foreign import weighted_rows
from shearshap.errors import InputError

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
columns that hold no numbers take their most frequent value instead.
"""


@dataclass(frozen=True)
class ParsedBackground:
    """The background that a user passed, taken apart into a statistic and rows."""

    statistic: str | None  #: a name in STATISTICS; None: the rows themselves are the background
    rows: Any  #: as the user passed them; None beside a statistic: the rows to explain
    argument: str  #: what the user calls the argument: "background" or "reference"
    weights: NDArray[np.float64] | None = None  #: (b,) of the rows; None: they count equally

    @property
    def of_explained(self) -> bool:
        """Whether the statistic is taken of the rows to explain."""
        return self.statistic is not None and self.rows is None

    def check_count(self, explained: int) -> None:
        """Raise where the statistic is taken of the rows to explain and there is only one."""
        if not self.of_explained or explained > 1:
            return
        raise InputError(
            f"{self.argument}={self.statistic!r} alone is the {self.statistic} of the rows to "
            "explain, and there is only one, which would be its own background; pass "
            f"{self.argument}=({self.statistic!r}, rows)"
        )


def parse_background(background: Any, argument: str) -> ParsedBackground:
    """Take a user's background apart, and check its statistic's name."""
    if isinstance(background, str):
        return ParsedBackground(_checked_name(background, argument), None, argument)

    if not starts_with_name(background):
        own = weighted_rows(background, argument)
        return ParsedBackground(None, own.rows, argument, own.weights)

    if len(background) != 2:
        raise InputError(
            f"{argument}: wanted a pair such as ('mean', rows), got a tuple of {len(background)}"
        )
    name, rows = background
    own = weighted_rows(rows, argument)
    if own.weights is not None:
        raise InputError(
            f"{argument}: the rows of shap.kmeans have weights, which no statistic takes into "
            f"account; pass ({name!r}, rows) of the rows that it was made of"
        )
    return ParsedBackground(_checked_name(name, argument), own.rows, argument)


def starts_with_name(background: Any) -> bool:
    """Return whether a background is a tuple that starts with a name, as ("mean", rows) does."""
    return isinstance(background, tuple) and len(background) > 0 and isinstance(background[0], str)


def is_single_number(background: Any) -> bool:
    """Return whether a background is one number, for all inputs."""
    if isinstance(background, Real | np.bool_):
        return True
    return isinstance(background, np.ndarray | Tensor) and background.ndim == 0


def named_cells(row: Any, names: Sequence[Any], argument: str) -> list[Any]:
    """Return the cells of one row by name, a mapping or a Series, in the order of the names."""
    for name in names:
        if name not in row:
            wanted = ", ".join(str(name) for name in names[:8])
            raise InputError(f"{argument}: {name!r} is missing; wanted {wanted}")
    return [row[name] for name in names]


def refuse_masked(numbers: Any, argument: str) -> None:
    """Raise where an array has masked entries, which a model would read as numbers."""
    if isinstance(numbers, np.ma.MaskedArray):
        raise InputError(
            f"{argument}: masked entries are no numbers; fill them in, as in rows.filled(0), or "
            "pass a frame with missing values"
        )


def _checked_name(name: str, argument: str) -> str:
    if name not in STATISTICS:
        raise InputError(
            f"{argument}: wanted one of {', '.join(STATISTICS)}, a row or background rows; got "
            f"{name!r}"
        )
    return name
