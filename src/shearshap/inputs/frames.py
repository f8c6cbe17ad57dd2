"""Rows that are a table of any library: a cell is known by the row of a pool that it stands in.

Masking mixes rows cell by cell, and a table may hold strings, categories, dates and missing values.
So every row becomes d numbers: the rows of a pool that its cells are taken from. The pool holds the
rows to explain and, after them, the background:

    pool   age  city              cells      age  city
       0    31  Rome         row 0             0     0
       1    58  Oslo         row 1             1     1
       2    44  Bern         background        2     2

A mix of rows is a mix of those numbers. Row 1 without its city is (1, 2), which is decoded as
(58, Bern), in the columns, the order and the types that the user passed.
"""

from dataclasses import dataclass
from typing import Any

import narwhals.stable.v2 as nw
import numpy as np
import torch
from torch import Tensor

from shearshap.adapters import AdaptedModel
from shearshap.inputs.background import ParsedBackground
from shearshap.inputs.columns import Frame
from shearshap.inputs.display import CellDisplay
from shearshap.inputs.encoded import Inputs, background_numbers, row_numbers
from shearshap.inputs.frame_background import frame_background
from shearshap.inputs.frame_types import FramePair
from shearshap.inputs.native_frames import FrameLayout
from shearshap.inputs.players import Grouping

COMPARED_TYPES = (nw.Boolean, nw.String, nw.Categorical, nw.Enum)
"""Types of cells, besides numbers and times, that are the same to a model where they are equal."""


def encode_frame(
    frame: Frame,
    layout: FrameLayout,
    given: ParsedBackground,
    grouping: Grouping,
    model: AdaptedModel,
) -> Inputs:
    """Encode a frame for a model that takes frames, in the layout that it takes."""
    count, width = frame.shape
    players = grouping.players((width,))
    background = frame_background(given, frame, players.owner, layout.labels)
    common = FramePair(frame, background, model, layout).in_common_types()

    pool = nw.concat([common.rows, common.background], how="vertical")
    same = _like_background(pool, count)
    cells = background_numbers(row_numbers(len(pool), (width,)), same, count)
    return Inputs(
        rows=cells[:count],
        background=cells[count:],
        shape=(width,),
        owner=players.owner,
        names=players.names,
        decode=FramePool(pool, layout).decode,
        display=CellDisplay(frame, players.owner),
        index=np.arange(count),
        untouched=lambda wanted: layout.native(frame[:wanted]),
        evaluations=common.evaluations,
    )


def _like_background(pool: Frame, background: int) -> Tensor:
    """Return which cells (n, d) of a pool are like those of the first background row."""
    same = np.zeros(pool.shape, dtype=bool)
    for number, name in enumerate(pool.columns):
        same[:, number] = _like_cell(pool[name], background)
    return torch.from_numpy(same)


def _like_cell(column: nw.Series[Any], place: int) -> Any:
    """Return which cells (n,) of a column are like the one at a place; no objects are."""
    dtype = column.dtype
    if not (dtype.is_numeric() or dtype.is_temporal() or isinstance(dtype, COMPARED_TYPES)):
        return False
    if isinstance(dtype, nw.Categorical | nw.Enum):
        column = column.cast(nw.String)
    if isinstance(dtype, nw.Float16):  # which some libraries cannot compare
        column = column.cast(nw.Float32)
    cell = column[place]
    missing = column.is_null()
    like = missing if missing[place] else (column == cell).fill_null(value=False)
    return like.to_numpy()


@dataclass(frozen=True, eq=False)
class FramePool:
    """The rows whose cells are mixed."""

    frame: Frame  #: (n, d) its columns in the user's order
    layout: FrameLayout

    def decode(self, cells: Tensor) -> Any:
        """Return the frame, of the user's library, with cells (m, d) taken from the pool's rows."""
        rows_by_column = dict(zip(self.frame.columns, cells.cpu().numpy().T, strict=True))
        columns = {name: self.frame[name][rows_by_column[name]] for name in self.layout.order}
        return self.layout.joined(columns)
