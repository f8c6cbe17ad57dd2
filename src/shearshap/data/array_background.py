"""The background of an array: rows of the same shape, or one row that is their statistic.

Let the rows to explain have the inputs "age" and "height":

    background                              source                  rows
    [44, 1.7]                               44 1.7                  44 1.7
    {"age": 44, "height": 1.7}              44 1.7                  44 1.7
    0                                       0 0                     0 0
    [[40, 1.6], [48, 1.8]]                  40 1.6, 48 1.8          40 1.6, 48 1.8
    ("mean", [[40, 1.6], [48, 1.8]])        40 1.6, 48 1.8          44 1.7
    "mean"                                  the rows to explain     their mean
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from shearshap.data.background import (
    STATISTICS,
    ParsedBackground,
    is_single_number,
    named_cells,
)
from shearshap.data.integers import (
    columns_of_ids,
    fits_integer_type,
    is_within,
    nearest_integers,
    statistic_of_ids,
)
from shearshap.data.native_frames import aligned, as_frame, matrix
from shearshap.data.tensors import check_finite, in_type_of_numpy, numeric, numpy_type
from shearshap.errors import InputError


@dataclass(frozen=True, eq=False)
class ArrayBackground:
    """The background of rows (r, *shape)."""

    given: ParsedBackground  #: what the user passed
    source: Tensor  #: (n, *shape) the rows that it is, or that its statistic is taken of
    rows: Tensor  #: (b, d) the background itself: of a statistic, one row

    def check_whole(self, dtype: torch.dtype) -> None:
        """Raise where the background does not fit the integer type of the rows."""
        if not fits_integer_type(self.rows, dtype):
            raise InputError(
                f"{self.given.argument}: integer rows need an integer background; try "
                "('mode', rows)"
            )

    def rounded(self, dtype: torch.dtype) -> Tensor:
        """Return the background (b, d), a statistic rounded to an integer type."""
        if self.given.statistic is None:
            return self.rows

        wanted = numpy_type(dtype)
        row = in_type_of_numpy(self.rows)[0]
        whole = nearest_integers(row, wanted)
        is_computed = row.dtype.kind == "f"  # in doubles, and not one of the source's integers
        if is_computed and wanted.kind != "b":
            source = in_type_of_numpy(self.source.flatten(1))
            for column in np.flatnonzero(columns_of_ids(source)):
                whole[column] = self._statistic_of_ids(source[:, column].tolist(), wanted)
        return torch.from_numpy(whole)[None]

    def _statistic_of_ids(self, ids: list[int], dtype: np.dtype[Any]) -> int:
        """Return the statistic of a column of ids, or raise where the rows' type is too narrow."""
        assert self.given.statistic is not None
        integer = statistic_of_ids(self.given.statistic, ids)
        if not is_within(integer, dtype):
            raise InputError(
                f"{self.given.argument}: the {self.given.statistic} of ids is {integer}, which "
                f"rows of {dtype} cannot hold; give both the same type"
            )
        return integer


def array_background(
    given: ParsedBackground,
    explained: Tensor,
    owner: NDArray[np.int64],
    *,
    missing: bool = False,
    columns: Sequence[str] = (),
) -> ArrayBackground:
    """Return the background of rows to explain (r, *shape), whose inputs belong to players (d,).

    NaN is refused unless `missing`. `columns` are the inputs' own names, as a frame has them.
    """
    given.check_count(len(explained))
    source = explained
    if not given.of_explained:
        shape = tuple(explained.shape[1:])
        numbers = _as_numbers(given, shape, columns)
        source = _checked_background(numbers, shape, given.argument, missing=missing)

    rows = source.flatten(1)
    if given.statistic is not None:
        rows = _statistic(given.statistic, rows.cpu(), owner)
    return ArrayBackground(given, source, rows)


def _as_numbers(given: ParsedBackground, shape: tuple[int, ...], columns: Sequence[str]) -> Any:
    """Return a frame, a row by name, or a single number for all inputs, as numbers.

    They are in the order of `columns`. Anything else is returned as it is.
    """
    rows = given.rows
    if is_single_number(rows):
        return np.full(shape, rows)
    frame = as_frame(rows, given.argument)
    if frame is not None:
        ordered = aligned(frame, columns, given.argument) if columns else frame
        return matrix(ordered, given.argument)

    by_name = hasattr(rows, "keys") and not isinstance(rows, Tensor)
    if columns and by_name:
        cells = named_cells(rows, columns, given.argument)
        named = zip(columns, cells, strict=True)
        return [_as_number(cell, name, given.argument) for name, cell in named]
    return rows


def _as_number(cell: Any, name: str, argument: str) -> float:
    """Return a cell of a row by name as a number."""
    try:
        return float(cell)
    except (TypeError, ValueError) as error:
        raise InputError(
            f"{argument}: {name!r} is {cell!r}, and this kind of model takes numbers only"
        ) from error


def _checked_background(
    numbers: Any, shape: tuple[int, ...], argument: str, *, missing: bool
) -> Tensor:
    """Return background rows as a tensor (b, *shape), or raise with what is wrong."""
    rows = numeric(numbers, argument)
    if rows.shape == shape:
        rows = rows[None]
    if rows.ndim == 0 or rows.shape[1:] != shape or len(rows) == 0:
        sizes = ", ".join(str(size) for size in shape)
        raise InputError(
            f"{argument}: wanted one row of shape {shape} or background rows of shape "
            f"(b, {sizes}), got shape {tuple(rows.shape)}"
        )
    if not missing:
        check_finite(rows, argument)
    return rows


def _statistic(name: str, rows: Tensor, owner: NDArray[np.int64]) -> Tensor:
    """Return the statistic of rows (b, d) as one row, (1, d)."""
    table = in_type_of_numpy(rows)
    if table.dtype.kind == "f":
        table = table.astype(np.float64, copy=False)
    if table.dtype.kind == "b":
        table = table.astype(np.uint8)  # truth values have no mean
    return torch.as_tensor(STATISTICS[name](table, owner))[None]
