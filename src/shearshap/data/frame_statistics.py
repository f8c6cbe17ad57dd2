"""A statistic of a frame: one row, with a number in the columns of numbers.

In any other column, or with "mode", it is the most frequent cell:

    age  city
     31  Rome
     58  Oslo
     44  Bern

The "mean" is (44.3, Bern): of equally frequent cities, the first in order.
"""

from dataclasses import dataclass
from decimal import Decimal
from functools import cached_property
from typing import Any

import narwhals.stable.v2 as nw
import numpy as np
from numpy.typing import NDArray

from shearshap.data.background import STATISTICS, mode
from shearshap.data.columns import Column, Frame, codes_of, number_table, values_of
from shearshap.data.frame_pools import frame_pool
from shearshap.data.integers import are_ids, statistic_of_ids
from shearshap.data.native_frames import FrameLayout, with_columns
from shearshap.errors import InputError


@dataclass(frozen=True, eq=False)
class FrameStatistic:
    """A statistic of the rows of a frame."""

    name: str  #: in STATISTICS
    source: Frame  #: (b, d)
    owner: NDArray[np.int64]  #: (d,) the player that owns each column
    argument: str  #: what the user calls the background, for errors

    def row(self) -> Frame:
        """Return the statistic as a frame of one row; its numbers are floats, or large ids."""
        numbers = {name: [number] for name, number in self._numbers().items()}
        if len(numbers) == len(self.source.columns):
            return nw.from_dict(numbers, backend=self.source.implementation)

        row = self._mode_cells()
        if not numbers:
            return row
        computed = nw.from_dict(numbers, backend=self.source.implementation)
        return with_columns(row, [computed[name] for name in numbers])

    def _mode_cells(self) -> Frame:
        """Return a row of the most frequent cells; where a number is computed, of any cells."""
        rows, place = np.unique(self._mode_rows(), return_inverse=True)
        pool = frame_pool(self.source[rows.tolist()], FrameLayout(self.source.columns, None))
        return nw.from_native(pool.mix(place[None]), eager_only=True)

    @cached_property
    def _computed(self) -> NDArray[np.bool_]:
        """In which columns the statistic is a number of its own, (d,).

        The mode is always a value that the column holds.
        """
        numeric = np.array([dtype.is_numeric() for dtype in self.source.schema.values()])
        if STATISTICS[self.name] is mode:
            return np.zeros_like(numeric)
        return numeric

    def _mode_rows(self) -> NDArray[np.int64]:
        """Return, for each column, a row that holds its most frequent value, (d,).

        A player's columns are taken together, without those whose statistic is computed.
        """
        names = self.source.columns
        codes = np.zeros(self.source.shape, np.int64)
        for place in np.flatnonzero(~self._computed):
            codes[:, place] = codes_of(self.source[names[place]])
        return np.asarray((codes == mode(codes, self.owner)).argmax(axis=0))

    def _numbers(self) -> dict[str, Any]:
        """Return the statistic of each column of numbers, by the column's name."""
        if not self._computed.any():
            return {}
        source = self.source[:, np.flatnonzero(self._computed).tolist()]
        table = number_table(source)
        self._check_present(source, table)

        # players without a column of numbers are left out, and the others numbered anew
        _, owner = np.unique(self.owner[self._computed], return_inverse=True)
        row = STATISTICS[self.name](table, owner)
        return {
            name: number if dtype.is_float() else _with_digits_of(source[name], number, self.name)
            for (name, dtype), number in zip(source.schema.items(), row.tolist(), strict=True)
        }

    def _check_present(self, source: Frame, table: NDArray[np.float64]) -> None:
        """Raise where all numbers (b, d) of a column are missing."""
        missing = np.flatnonzero(np.isnan(table).all(axis=0))
        if missing.size:
            raise InputError(
                f"{self.argument}: all values of column {source.columns[missing[0]]!r} are "
                f"missing, so it has no {self.name}"
            )


def _with_digits_of(column: Column, number: float, statistic: str) -> Any:
    """Return a column's statistic in the type that has the column's digits.

    That of integers that doubles cannot hold is an integer, and that of decimals is a decimal.
    """
    if holds_ids(column):
        present = [value for value in values_of(column) if value is not None]
        return statistic_of_ids(statistic, present)
    if isinstance(column.dtype, nw.Decimal):
        exponents = [v.as_tuple().exponent for v in values_of(column) if v is not None]
        return round(Decimal(number), -min(exponents))
    return number


def holds_ids(column: Column) -> bool:
    """Return whether a column holds integers that doubles cannot hold."""
    return column.dtype.is_integer() and are_ids(column.min(), column.max())
