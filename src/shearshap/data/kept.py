"""What an explainer takes along of its background when it is pickled: not a million rows.

    background               kept
    rows                     the sample of them that every call draws
    ("sample", rows, 50)     the 50 rows that are drawn
    ("kmeans", rows, 20)     the 10,000 rows among which clusters are looked for
    ("median", rows)         their median; all rows if features may have several columns
    anything else            all

A slice leaves behind the table or the tensor that it is part of. Explanations stay the same: a
sample depends on the number of rows and the seed alone, and the median of one row is that row.
"""

from dataclasses import replace
from typing import Any

import narwhals.stable.v2 as nw
import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from shearshap.data.arrays import statistic_of_table
from shearshap.data.background import (
    MAX_CLUSTERED,
    Conditional,
    ParsedBackground,
    drawn_places,
    parse_background,
)
from shearshap.data.frames import FrameLayout, as_frame, column_labels
from shearshap.data.tables import statistic_of_frame
from shearshap.data.tensors import as_numpy, numeric
from shearshap.errors import InputError

MIN_ROWS = 10_000
"""Length from which on an array is known to be rows, and not one row, such as an image (h, w)."""


def kept_background(background: Any, seed: int, groups: Any) -> Any:
    """Return a background that gives the same explanations, without rows that are of no use."""
    return _compact(_used(background, seed, groups))


def _compact(background: Any) -> Any:
    """Return a background without the rest of a tensor, or of a table, that it is a slice of."""
    if isinstance(background, tuple):
        return tuple(_compact(part) for part in background)
    if isinstance(background, ParsedBackground):
        return replace(background, rows=_compact(background.rows))
    if isinstance(background, Tensor):
        is_slice = background.untyped_storage().nbytes() > background.nbytes
        return background.detach().clone() if is_slice else background
    if nw.dependencies.is_pyarrow_table(background):
        is_slice = background.get_total_buffer_size() > 2 * background.nbytes
        return background.take(np.arange(len(background))) if is_slice else background
    return background


def _used(background: Any, seed: int, groups: Any) -> Any:
    """Return a background without the rows that no call uses."""
    if background is None or isinstance(background, str | ParsedBackground | Conditional):
        return background
    try:
        given = parse_background(background, seed)
        count = _row_count(given.rows)
        if count is None or given.choice == "all" or given.weights is not None:
            return background
        if given.statistic is None:
            return _without_unused(given, count) or background
        row = None if groups is not None else _statistic(given.statistic, given.rows)
        return background if row is None else replace(given, rows=row, passed=count)
    except InputError:
        return background  # a call will say what is wrong


def _without_unused(given: ParsedBackground, count: int) -> ParsedBackground | None:
    """Return a background without the rows that are never chosen; None: all are."""
    if given.choice == "kmeans":
        if count <= MAX_CLUSTERED:
            return None
        places = drawn_places(count, MAX_CLUSTERED, given.seed)
        return replace(given, rows=_taken(given.rows, places), passed=count)

    are_rows = given.choice is not None or as_frame(given.rows, "background") is not None
    if count <= (given.count if are_rows else MIN_ROWS):
        return None
    chosen = given.select(count, lambda _places: np.empty((0, 0)))
    assert chosen.places is not None
    rows = _taken(given.rows, chosen.places)
    return replace(given, rows=rows, chosen=replace(chosen, places=None))


def _row_count(rows: Any) -> int | None:
    """Return the number of rows of a frame, an array or several; None for anything else."""
    if isinstance(rows, tuple):
        counts = {_row_count(part) for part in rows}
        return counts.pop() if len(counts) == 1 else None
    is_array = isinstance(rows, np.ndarray | Tensor) and rows.ndim > 1
    return len(rows) if is_array or as_frame(rows, "background") is not None else None


def _taken(rows: Any, places: NDArray[np.int64]) -> Any:
    """Return a copy of some rows, of the same kind."""
    if isinstance(rows, tuple):
        return tuple(_taken(part, places) for part in rows)
    if isinstance(rows, Tensor):
        return rows.detach()[torch.from_numpy(places).to(rows.device)]
    frame = as_frame(rows, "background")
    if frame is None:
        return rows[places]
    return FrameLayout(frame.columns, column_labels(rows, "background")).native(
        frame[places.tolist()]
    )


def _statistic(name: str, rows: Any) -> Any:
    """Return a statistic of rows as one row of the same kind; None for several inputs."""
    if isinstance(rows, tuple):
        return None
    frame = as_frame(rows, "background")
    if frame is not None:
        row = statistic_of_frame(name, frame, np.arange(frame.shape[1]))
        return FrameLayout(frame.columns, column_labels(rows, "background")).native(row)
    table = numeric(rows, "background")
    flat = table.flatten(1).cpu()
    numbers = statistic_of_table(name, flat, np.arange(flat.shape[1]))
    shaped = numbers.reshape(1, *table.shape[1:])
    return shaped.to(rows.device) if isinstance(rows, Tensor) else as_numpy(shaped)
