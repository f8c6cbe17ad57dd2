"""A row that stands in for zero rows: an explanation of none has the form of that of one.

    rows                   background            stands in
    a frame (0, d)         rows, or one row      its first row, in the columns of the rows
    an array (0, *shape)   rows, or one row      its first row, in the rows' type
    a tuple of these       a tuple               one of each
    any                    none                  zeros, and missing texts: for trees

Trees need no background.
"""

from dataclasses import dataclass, replace
from typing import Any

import narwhals.stable.v2 as nw
import torch
from numpy.typing import NDArray
from torch import Tensor

from shearshap.data.arrays import parsed_parts, source_table
from shearshap.data.background import ParsedBackground
from shearshap.data.common_types import in_one_library
from shearshap.data.display import Index, IndexName, row_labels, without_column
from shearshap.data.frames import (
    Column,
    Frame,
    FrameLayout,
    as_frame,
    column_labels,
    is_numeric_or_boolean,
)
from shearshap.data.tables import source_frame
from shearshap.data.tensors import in_type_of_numpy, numeric


@dataclass(frozen=True, eq=False)
class StandIn:
    """One row in place of none, and the labels of none."""

    row: Any  #: of the kind of the rows
    background: ParsedBackground  #: without the column of labels
    index: NDArray[Any]  #: (0,)
    index_name: IndexName


def has_no_rows(rows: Any) -> bool:
    """Return whether rows have columns, or another shape, but there are none of them."""
    if isinstance(rows, tuple):
        return len(rows) > 0 and all(has_no_rows(part) for part in rows)
    shape: Any = getattr(rows, "shape", None)
    if not isinstance(shape, tuple) or not all(isinstance(size, int) for size in shape):
        return False  # a list, or a lazy frame
    return len(shape) > 1 and shape[0] == 0 and 0 not in shape[1:]


def stand_in(rows: Any, background: ParsedBackground, index: Index) -> StandIn:
    """Return what stands in for zero rows; raise if they do not fit the background."""
    frame = None if isinstance(rows, tuple) else as_frame(rows, "rows")
    labels, name = row_labels(frame, index, 0)
    if isinstance(rows, tuple):
        parts = parsed_parts(background, len(rows), background.seed)
        row: Any = tuple(_in_array(*pair) for pair in zip(rows, parts, strict=True))
    elif frame is None:
        row = _in_array(rows, background)
    else:
        if isinstance(index, str):
            rows = without_column(rows, index, "rows")
            background = replace(
                background, rows=without_column(background.rows, index, "background")
            )
        row = _in_frame(rows, background)
    return StandIn(row, background, labels, name)


def _in_array(rows: Any, background: ParsedBackground) -> Any:
    """Return one row (1, *shape) in the type of an array or a tensor (0, *shape)."""
    table = numeric(rows, "rows")
    first = torch.zeros((1, *table.shape[1:]))
    if not background.of_explained:
        first = source_table(background, table, missing=True)[:1]
    first = first.to(table.dtype)
    return first.to(rows.device) if isinstance(rows, Tensor) else in_type_of_numpy(first)


def _in_frame(rows: Any, background: ParsedBackground) -> Any:
    """Return one row with the columns of a frame (0, d), as its library has it."""
    given = as_frame(rows, "rows")
    assert given is not None
    frame, background = in_one_library(given, background)
    labels = column_labels(rows if frame is given else background.rows, "rows")
    if background.of_explained:
        first: Frame = nw.from_dict({name: _default_cell(frame[name]) for name in frame.columns})
    else:
        first = source_frame(background.rows, frame, labels)[:1]
    return FrameLayout(frame.columns, labels).native(first)


def _default_cell(column: Column) -> Column:
    """Return a cell of a column's type: a zero, or else a missing one."""
    content = 0 if is_numeric_or_boolean(column.dtype) else None
    return nw.new_series(column.name, [content], column.dtype, backend=column.implementation)
