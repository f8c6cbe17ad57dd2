"""Rows, background and groups of every kind, as tensors to mix.

arrays.py      an array or tensor, mixed as it is
frames.py      a table of any library, mixed by its cells
several.py     a tuple of inputs, side by side in one tensor

players.py     who owns which inputs
background.py  what an absent player is replaced with
foreign.py     backgrounds that shap makes
display.py     what the players' inputs are, for people
index.py       the rows' labels
"""

from dataclasses import replace
from typing import Any

import narwhals.stable.v2 as nw
import numpy as np

from shearshap.adapters import AdaptedModel
from shearshap.errors import InputError
from shearshap.inputs.arrays import encode_array, numeric
from shearshap.inputs.background import Background, ParsedBackground, parse_background
from shearshap.inputs.display import Frame
from shearshap.inputs.encoded import Inputs
from shearshap.inputs.frames import as_frame, encode_frame, matrix, trained_order
from shearshap.inputs.index import Index, check_column, row_labels, without_column
from shearshap.inputs.players import Groups
from shearshap.inputs.several import encode_several


def encode(
    rows: Any,
    background: Background,
    groups: Groups,
    model: AdaptedModel,
    *,
    index: Index = None,
    argument: str = "background",
) -> Inputs:
    """Check rows, background and groups, and encode them for a model.

    Parameters
    ----------
    rows
        An array or tensor (r, *shape), a frame, or a tuple of arrays.
    index
        The column of a frame that holds the rows' labels, which the model does not get; or r
        labels. None: a pandas frame's index, else 0, 1, 2, ...
    argument
        What the user calls the background: "background" or "reference", for errors.
    """
    groups = _made_columns(groups)
    frame = None if isinstance(rows, tuple) else as_frame(rows, "rows")
    if isinstance(index, str):
        check_column(frame, index)

    if isinstance(rows, tuple):
        inputs = encode_several(rows, background, groups, model, argument)
    else:
        parsed = parse_background(background, argument)
        if isinstance(index, str):
            rows = without_column(rows, index, "rows")
            parsed = replace(parsed, rows=without_column(parsed.rows, index, argument))
        inputs = _encode_one(rows, parsed, groups, model)
        inputs = replace(inputs, weights=parsed.weights)

    labels, name = row_labels(frame, index, len(inputs.rows))
    return replace(inputs, index=labels, index_name=name)


def _made_columns(groups: Any) -> Groups:
    """Return groups; where they are a fitted transformer, the columns it makes of each input."""
    if hasattr(groups, "steps") and not hasattr(groups, "transform"):
        raise InputError(
            "groups: this Pipeline ends in a model; pass its transformers alone, pipeline[:-1]"
        )
    if not hasattr(groups, "fit_transform"):
        return groups  # type: ignore[no-any-return]
    from shearshap.adapters.estimators import made_columns

    return made_columns(groups)


def _encode_one(
    rows: Any, background: ParsedBackground, groups: Groups, model: AdaptedModel
) -> Inputs:
    """Encode rows of a single input: a frame or an array."""
    frame = as_frame(rows, "rows")
    if frame is None:
        frame = _as_trained(rows, model)
    if frame is None:
        return encode_array(rows, background, groups, model)

    if len(frame) == 0 or not frame.columns:
        raise InputError(f"rows: there is nothing to explain in a frame of shape {frame.shape}")
    if model.takes_frames:
        order = trained_order(frame, model.feature_names or frame.columns, "rows")
        return encode_frame(frame, order, background, groups)
    return encode_array(matrix(frame, "rows"), background, groups, model, tuple(frame.columns))


def _as_trained(rows: Any, model: AdaptedModel) -> Frame | None:
    """Return an array as a pandas frame, where the model was trained with named columns."""
    if not model.feature_names or not model.takes_frames:
        return None
    table = np.asarray(rows)
    if table.ndim != 2 or table.shape[1] != len(model.feature_names):
        raise InputError(
            f"rows: the model was trained with {len(model.feature_names)} named columns, "
            f"got an array of shape {table.shape}; pass a frame with "
            f"{', '.join(model.feature_names[:8])}, ..."
        )
    numbers = numeric(table, "rows").numpy()
    return nw.from_numpy(numbers, schema=list(model.feature_names), backend="pandas")


__all__ = ["Background", "Groups", "Inputs", "encode"]
