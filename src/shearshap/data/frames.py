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

import narwhals.stable.v2 as nw
import numpy as np
import torch

from shearshap.data.background import ParsedBackground
from shearshap.data.columns import Frame
from shearshap.data.display import CellDisplay
from shearshap.data.encoded import Inputs, background_numbers, row_numbers
from shearshap.data.frame_background import frame_background
from shearshap.data.frame_pools import frame_pool
from shearshap.data.frame_types import FramePair, type_changes
from shearshap.data.native_frames import FrameLayout
from shearshap.data.players import Grouping
from shearshap.models import AdaptedModel

WORTHWHILE_ROWS = 1024
"""Rows of a frame for which the time of each row is more than that of each column."""

MOST_CELLS = 1 << 23
"""Cells of a frame beyond which it is not made larger for that."""


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

    pooled = nw.concat([common.rows, common.background], how="vertical")
    pool = frame_pool(pooled, layout)
    same = torch.from_numpy(pool.like(count))
    cells = background_numbers(row_numbers(len(pooled), (width,)), same, count)
    return Inputs(
        rows=cells[:count],
        background=cells[count:],
        shape=(width,),
        owner=players.owner,
        names=players.names,
        decode=lambda mixes: pool.mix(mixes.cpu().numpy()),
        display=CellDisplay(frame, players.owner),
        index=np.arange(count),
        untouched=lambda which: layout.native(frame[which]),
        type_changes=type_changes(frame, pooled),
        evaluations=common.evaluations,
        notes=common.notes,
        least_batch=_least_batch(width),
        order=np.array([frame.columns.index(name) for name in layout.order]),
    )


def _least_batch(width: int) -> int:
    """Return how many rows of a frame to make at once, at least.

    A library takes its time over each column, and so it should be for many rows.
    """
    return max(1, min(WORTHWHILE_ROWS, MOST_CELLS // width))
