"""The background of a frame: a frame with the same columns, or one row that is its statistic.

Let the rows to explain have the columns "age" and "city":

    background                              source                    rows
    a frame                                 the frame                 the frame
    {"age": 44, "city": "Bern"}             44 Bern                   44 Bern
    [44, "Bern"]                            44 Bern                   44 Bern
    ("mean", a frame)                       the frame                 its mean: frame_statistics.py
    "mean"                                  the rows to explain       their mean

Where all columns hold numbers, a single number stands for a row of such.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import narwhals.stable.v2 as nw
import numpy as np
from numpy.typing import NDArray
from torch import Tensor

from shearshap.data.background import (
    ParsedBackground,
    is_single_number,
    named_cells,
    refuse_masked,
)
from shearshap.data.columns import OBJECTS, Frame, is_numeric_or_boolean, native_types
from shearshap.data.frame_statistics import FrameStatistic
from shearshap.data.native_frames import Labels, aligned, as_frame
from shearshap.data.tensors import check_tensor
from shearshap.errors import InputError


@dataclass(frozen=True, eq=False)
class FrameBackground:
    """The background of a frame, in the types that it came in."""

    given: ParsedBackground  #: what the user passed
    source: Frame  #: the rows that it is, or that its statistic is taken of
    rows: Frame  #: (b, d) the background itself: of a statistic, one row


def frame_background(
    given: ParsedBackground, explained: Frame, owner: NDArray[np.int64], labels: Labels | None
) -> FrameBackground:
    """Return the background of a frame to explain, whose columns belong to players (d,).

    `labels` are the columns' own labels, where those are not their names.
    """
    given.check_count(len(explained))
    source = explained
    if not given.of_explained:
        source = _source(given, explained, labels)

    rows = source
    if given.statistic is not None:
        rows = FrameStatistic(given.statistic, source, owner, given.argument).row()
    return FrameBackground(given, source, rows)


def _source(given: ParsedBackground, explained: Frame, labels: Labels | None) -> Frame:
    """Return the background's rows as a frame with the columns of the rows to explain."""
    frame = as_frame(given.rows, given.argument)
    if frame is None:
        return _frame_of_cells(given, explained, labels)
    if frame.implementation != explained.implementation:
        raise InputError(
            f"{given.argument}: it is a {frame.implementation} frame and the rows are "
            f"{explained.implementation}; give both as one"
        )
    if len(frame) == 0:
        raise InputError(f"{given.argument}: there are no rows in the frame")
    return aligned(frame, explained.columns, given.argument)


# Backgrounds that are no frame


def _frame_of_cells(given: ParsedBackground, explained: Frame, labels: Labels | None) -> Frame:
    """Return a background that is a row by name, an array, lists or a number, as a frame."""
    refuse_masked(given.rows, given.argument)
    if isinstance(given.rows, Tensor):
        check_tensor(given.rows, given.argument)
    names = explained.columns
    if is_single_number(given.rows):
        columns = _constant_columns(given.rows, explained, given.argument)
    elif hasattr(given.rows, "keys"):
        by_label = names if labels is None else list(labels.index)
        columns = [[cell] for cell in named_cells(given.rows, by_label, given.argument)]
    else:
        columns = _columns_by_place(given.rows, len(names), given.argument)

    # pandas is not to look for another type, which has one missing value for both None and NaN
    own = {name: nw.Object() for name, kind in native_types(explained).items() if kind == OBJECTS}
    series = {
        name: nw.new_series(name, cells, own.get(name), backend=explained.implementation)
        for name, cells in zip(names, columns, strict=True)
    }
    return nw.from_dict(series)


def _constant_columns(number: Any, explained: Frame, argument: str) -> list[list[Any]]:
    """Return a number for each column, as columns of one cell."""
    plain = number.item() if hasattr(number, "item") else number
    for name, dtype in explained.schema.items():
        if not is_numeric_or_boolean(dtype):
            raise InputError(
                f"{argument}: wanted a frame or a row by name, as column {name!r} is {dtype}; "
                f"got the number {plain!r}"
            )
    return [[plain] for _ in explained.columns]


def _columns_by_place(rows: Any, width: int, argument: str) -> list[list[Any]]:
    """Return the cells of one row or several, in the order of the columns, as columns."""
    listed = _listed(rows)
    several = len(listed) > 0 and isinstance(listed[0], list | tuple)
    table = listed if several else [listed]
    for row in table:
        if not isinstance(row, list | tuple) or len(row) != width:
            raise InputError(
                f"{argument}: wanted a frame with the rows' columns, a row by name, or an array of "
                f"shape (b, {width}), got {type(rows).__name__} of another shape"
            )
    return [list(column) for column in zip(*table, strict=True)]


def _listed(rows: Any) -> Any:
    """Return an array, or any other iterable, as lists; a single cell as a list of one."""
    if hasattr(rows, "tolist"):
        return rows.tolist()
    if isinstance(rows, Iterable):
        return list(rows)
    return [rows]
