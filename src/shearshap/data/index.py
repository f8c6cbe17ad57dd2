"""The rows' labels: a frame's own index, a column of ids, or labels that the user passes."""

from collections.abc import Iterable
from typing import Any

import narwhals.stable.v2 as nw
import numpy as np
from numpy.typing import NDArray

from shearshap.data.columns import Frame
from shearshap.data.native_frames import as_frame, column_labels
from shearshap.errors import InputError
from shearshap.result.cells import label_array

Index = str | Iterable[Any] | None
"""What a user may pass: a column's name, labels, or nothing."""

IndexName = str | tuple[str | None, ...] | None
"""The labels' name; of several levels, the names of all."""


def row_labels(frame: Frame | None, index: Index, rows: int) -> tuple[NDArray[Any], IndexName]:
    """Return a label for each row, (r,), and the labels' name, if there is one.

    `frame` holds the rows, where they are a frame. Without an `index` the labels are those of a
    pandas frame, else 0, 1, 2, ...
    """
    if isinstance(index, str):
        check_column(frame, index)
        return label_array(frame[index]), index  # type: ignore[index]
    if index is not None:
        return _checked_labels(index, rows), _name(index)

    own = None if frame is None else nw.maybe_get_index(frame)
    if own is None:
        return np.arange(rows), None
    return label_array(own), _name(own)


def without_column(rows: Any, name: str, argument: str) -> Any:
    """Return rows without a column, where they are a frame that has it; anything else as it is."""
    frame = as_frame(rows, argument)
    if frame is None or name not in frame.columns:
        return rows
    labels = column_labels(rows, argument)
    if labels is not None:
        return rows.drop(columns=[labels.index[labels.place[name]]])
    return frame.drop(name).to_native()


def check_column(frame: Frame | None, name: str) -> None:
    """Raise where the rows are no frame, or have no such column."""
    if frame is None:
        raise InputError(
            f"index: the rows are no frame with a column {name!r}; pass a label for each row"
        )
    if name not in frame.columns:
        known = ", ".join(frame.columns)
        raise InputError(f"index: there is no column {name!r}; the rows have {known}")


def _checked_labels(index: Any, rows: int) -> NDArray[Any]:
    if not isinstance(index, Iterable):
        raise InputError(f"index: wanted a column's name or a label for each row, got {index!r}")
    labels = label_array(index)
    if labels is index:
        labels = labels.copy()  # the explanation's own: the user may write into the array
    if labels.shape != (rows,):
        shown = f"shape {labels.shape}" if labels.ndim > 1 else len(labels)
        raise InputError(f"index: wanted {rows} labels, one for each row, got {shown}")
    return labels


def _name(labels: Any) -> IndexName:
    """Return the name of labels of pandas or polars; of several levels, the names of all."""
    names = getattr(labels, "names", None)
    if names is None or len(names) == 1:
        name = getattr(labels, "name", None)
        return None if name is None else str(name)
    if all(name is None for name in names):
        return None
    return tuple(None if name is None else str(name) for name in names)
