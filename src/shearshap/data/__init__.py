"""Rows, background and groups of every kind, as tensors to mix.

tensors.py         tensors to mix, and the way back to the model's inputs
arrays.py          an array, a tensor, or a tuple of them, mixed as they are
tables.py          a table of any library, mixed by its cells
players.py         the players, their names, and which player owns which input
background.py      what replaces absent players: rows, and statistics of rows
frames.py          frames of every library: columns by name, in the order of the model
common_types.py    one library, and one type for each column, of rows and background
stand_in.py        a row in place of none: what an explanation of zero rows looks like
kept.py            what is kept of a background if its explainer is pickled
display.py         labels of rows, numbers and words of players, for people to read
"""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import narwhals.stable.v2 as nw

from shearshap.data.arrays import encode_array, encode_several
from shearshap.data.background import (
    Background,
    ParsedBackground,
    groups_or_clustering,
    parse_background,
)
from shearshap.data.common_types import in_one_library
from shearshap.data.display import Index, row_labels, without_column
from shearshap.data.frames import (
    Frame,
    FrameLayout,
    as_frame,
    column_labels,
    frame_of_row,
    matrix,
    trained_order,
)
from shearshap.data.players import Grouping, Groups
from shearshap.data.tables import encode_frame
from shearshap.data.tensors import Inputs, in_type_of_numpy, numeric
from shearshap.errors import InputError
from shearshap.models import AdaptedModel
from shearshap.models.sklearn import made_columns


def encode(
    rows: Any,
    background: Background | None,
    groups: Any,
    model: AdaptedModel,
    *,
    index: Index = None,
    feature_names: Sequence[str] | None = None,
    seed: int = 0,
) -> Inputs:
    """Check rows, background and groups, and encode them for a model.

    Parameters
    ----------
    rows
        An array or tensor (r, *shape), a frame, one row of a pandas frame, or a tuple of arrays.
    index
        The column of a frame that holds the rows' labels, which the model does not get; or r
        labels. None: a pandas frame's index, else 0, 1, 2, ...
    feature_names
        The user's names of the players, or of the inputs.
    seed
        That of a sample of background rows.
    """
    groups = groups_or_clustering(groups, background)
    grouping = Grouping(_made_columns(groups), feature_names)
    frame = None
    if isinstance(rows, tuple):
        inputs = encode_several(rows, background, grouping, model, seed)
    else:
        parsed = parse_background(background, seed)
        if nw.dependencies.is_pandas_series(rows):
            rows = frame_of_row(rows, parsed.rows)
        frame = as_frame(rows, "rows")
        own = frame
        if frame is not None and isinstance(index, str):
            rows = without_column(rows, index, "rows")
            parsed = replace(parsed, rows=without_column(parsed.rows, index, "background"))
            own = as_frame(rows, "rows")
        inputs = _encode_one(rows, own, parsed, grouping, model)

    labels, name = row_labels(frame, index, len(inputs.rows))
    return replace(inputs, index=labels, index_name=name)


def _made_columns(groups: Any) -> Groups:
    """Return groups: of a fitted transformer, the columns it makes of each input."""
    if hasattr(groups, "steps") and not hasattr(groups, "transform"):
        raise InputError(
            "groups: this Pipeline ends in a model; pass only its transformers, pipeline[:-1]"
        )
    if not hasattr(groups, "fit_transform"):
        return groups  # type: ignore[no-any-return]
    return made_columns(groups)


def _encode_one(
    rows: Any,
    frame: Frame | None,
    background: ParsedBackground,
    grouping: Grouping,
    model: AdaptedModel,
) -> Inputs:
    """Encode rows of a single input, which may be a frame, or an array."""
    if frame is None and hasattr(rows, "to_frame"):
        raise InputError(f"rows: expected a table, got a {type(rows).__name__}")
    if frame is None:
        frame = _as_trained(rows, model)
    if frame is None:
        return encode_array(rows, background, grouping, model)

    named = replace(grouping, columns=tuple(frame.columns))
    if len(frame) == 0 or not frame.columns:
        raise InputError(f"rows: expected rows and columns, got a frame of shape {frame.shape}")
    if model.takes_frames:
        order = trained_order(frame, model.feature_names or frame.columns, "rows")
        taken, background = in_one_library(frame, background)
        labelled = rows if taken is frame else background.rows
        layout = FrameLayout(order, column_labels(labelled, "rows"))
        return encode_frame(taken, layout, background, named)
    return encode_array(matrix(frame, "rows"), background, named, model)


def _as_trained(rows: Any, model: AdaptedModel) -> Frame | None:
    """Return an array as a pandas frame if the model was trained with named columns."""
    if not model.feature_names or not model.takes_frames:
        return None
    table = numeric(rows, "rows")
    shape = tuple(table.shape)
    if len(shape) != 2 or shape[1] != len(model.feature_names):
        raise InputError(
            f"rows: the model was trained with {len(model.feature_names)} named columns, "
            f"got an array of shape {shape}; pass a frame with "
            f"{', '.join(model.feature_names[:8])}, ..."
        )
    numbers = in_type_of_numpy(table)
    return nw.from_numpy(numbers, schema=list(model.feature_names), backend="pandas")


__all__ = ["Background", "Groups", "Inputs", "encode"]
