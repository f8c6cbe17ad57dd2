"""pandas, polars and pyarrow frames: their columns by name, in the order of the model.

narwhals reads all of them as one kind of frame, which knows columns by names. Labels of pandas may
be something else, such as the numbers 0 and 1. They become names, and the model gets them back:

    frame of the user        columns  0    1
    frame of narwhals        columns "0"  "1"
    frame for the model      columns  0    1

A model that was trained with names gets its columns in the order that it was trained with.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import narwhals.stable.v2 as nw
import numpy as np
from numpy.typing import NDArray
from torch import Tensor

from shearshap.errors import InputError

Column = nw.Series[Any]
Frame = nw.DataFrame[Any]

OBJECTS = np.dtype(object)
"""The type of pandas' columns of any objects, among which None and NaN are two."""


def as_frame(rows: Any, argument: str) -> Frame | None:
    """Return rows as a frame if they are one of pandas, polars or pyarrow, else None.

    Labels of pandas that are not strings, such as 0, 1, 2, become names: "0", "1", "2".
    """
    if isinstance(rows, np.ndarray | Tensor) or not nw.dependencies.is_into_dataframe(rows):
        return None  # which narwhals finds out slowly
    labels = column_labels(rows, argument)
    if labels is not None:
        rows = rows.set_axis(list(labels.place), axis=1)
    try:
        frame: Frame = nw.from_native(rows, eager_only=True)
        frame.columns  # noqa: B018  (a name that appears twice is noticed here)
    except (ValueError, TypeError) as error:
        raise InputError(f"{argument}: the frame cannot be read: {error}") from error
    return frame


def frame_of_row(row: Any, background: Any) -> Any:
    """Return one row of a pandas frame, a Series, as a frame.

    A Series has one type for all cells. Each gets its own again, and that of the background's
    categories.
    """
    import pandas as pd

    frame = row.to_frame().T.infer_objects()
    if not isinstance(background, pd.DataFrame):
        return frame
    categories = {
        name: dtype
        for name, dtype in background.dtypes.items()
        if isinstance(dtype, pd.CategoricalDtype) and row.get(name) in dtype.categories
    }
    return frame.astype(categories)


# Labels


@dataclass(frozen=True)
class Labels:
    """The columns' labels of a pandas frame whose labels are not strings."""

    index: Any  #: the frame's `columns`
    place: dict[str, int]  #: of each label, by its name


def column_labels(rows: Any, argument: str) -> Labels | None:
    """Return the labels of a pandas frame's columns if they are not strings, else None."""
    if not nw.dependencies.is_pandas_dataframe(rows):
        return None
    labels = list(rows.columns)
    others = [label for label in labels if not isinstance(label, str)]
    if not others:
        return None

    names = [str(label) for label in labels]
    if len(others) < len(labels) or len(set(names)) < len(names):
        raise InputError(
            f"{argument}: column names must be unique, and all strings or all of another type; "
            f"got {others[0]!r} among {', '.join(map(repr, labels[:8]))}; try "
            "frame.columns.astype(str)"
        )
    return Labels(rows.columns, {name: place for place, name in enumerate(names)})


@dataclass(frozen=True)
class FrameLayout:
    """How the model takes a frame: the order of its columns, and their labels."""

    order: Sequence[str]
    labels: Labels | None  #: if they are not the columns' names

    def native(self, frame: Frame) -> Any:
        """Return a frame of the user's library, which the model may write into."""
        return self._labelled(frame.select(*self.order).clone())

    def joined(self, columns: dict[str, Column]) -> Any:
        """Return columns, in the model's order, as a frame of the user's library."""
        return self._labelled(nw.from_dict(columns))

    def _labelled(self, frame: Frame) -> Any:
        native = nw.maybe_reset_index(frame).to_native()
        if self.labels is not None:
            native.columns = self.own_labels
        return native

    @cached_property
    def own_labels(self) -> Any:
        """The columns' labels in the model's order."""
        if self.labels is None:
            return list(self.order)
        return self.labels.index[[self.labels.place[name] for name in self.order]]


# Columns


def with_columns(frame: Frame, columns: Sequence[Column]) -> Frame:
    """Return a frame with some columns replaced, without the index that pandas would give it."""
    own = nw.maybe_reset_index(frame)
    if not columns:
        return own
    return own.with_columns(*(nw.maybe_reset_index(column) for column in columns))


# Order


def trained_order(frame: Frame, names: Sequence[str], argument: str) -> list[str]:
    """Return a frame's columns in the order of a model's names, or raise with what does not fit."""
    order = columns_of_model(frame.columns, names)
    _check_columns(frame, order, argument)
    return order


def columns_of_model(columns: Sequence[str], names: Sequence[str]) -> list[str]:
    """Return the columns that a model's names stand for; a name without one as it is.

    A space in a column's name may be an underscore in the model's, as in LightGBM.
    """
    by_model_name = {name.replace(" ", "_"): name for name in columns}
    present = set(columns)
    return [name if name in present else by_model_name.get(name, name) for name in names]


def aligned(frame: Frame, columns: Sequence[str], argument: str) -> Frame:
    """Return a frame with its columns in this order, or raise with what does not fit."""
    _check_columns(frame, columns, argument)
    return frame.select(*columns)


def _check_columns(frame: Frame, wanted: Sequence[str], argument: str) -> None:
    """Raise if a column is missing, or is not wanted."""
    present = set(frame.columns)
    missing = [name for name in wanted if name not in present]
    if missing:
        raise InputError(
            f"{argument}: column {missing[0]!r} is missing ({len(missing)} of {len(wanted)} are: "
            f"{missing[:8]})"
        )
    useful = set(wanted)
    unused = [name for name in frame.columns if name not in useful]
    if unused:
        raise InputError(
            f"{argument}: unexpected column {unused[0]!r}; drop columns that the model does not "
            f"take, or pass index= for row labels: {unused[:8]}"
        )


# Numbers


def matrix(frame: Frame, argument: str) -> NDArray[Any]:
    """Return a frame of numbers as an array (n, d), or raise with the column that holds none."""
    for name, dtype in frame.schema.items():
        if not is_numeric_or_boolean(dtype):
            raise InputError(
                f"{argument}: column {name!r} is {dtype}, but this kind of model takes numbers "
                "only; encode it, or explain the whole Pipeline or function that does"
            )
    return np.asarray(frame.to_numpy())


# One column, as Python values, codes or numbers


def values_of(column: Column) -> list[Any]:
    """Return a column's values; a missing one is None, whatever its library calls it."""
    values = column.to_list()
    missing = np.zeros(len(values), dtype=np.bool_)
    if column.implementation.is_pandas_like():  # others have None already
        missing |= np.array(column.to_native().isna(), dtype=np.bool_)
    if column.dtype.is_float():
        missing |= np.isnan(numbers_of(column))
    elif column.dtype == nw.Object():
        missing |= np.array([isinstance(value, float) and value != value for value in values])

    for row in np.flatnonzero(missing):
        values[row] = None
    return values


def hashable_values(column: Column) -> list[Any]:
    """Return a column's values; lists and dicts, which have no hash, as they print."""
    values = values_of(column)
    try:
        set(values)
    except TypeError:
        return [None if value is None else repr(value) for value in values]
    return values


def codes_of(values: list[Any]) -> NDArray[np.int64]:
    """Return the place of each of a column's values among its distinct values, sorted: (n,).

    A missing value, None, comes last.
    """
    present = set(values) - {None}
    try:
        distinct = sorted(present)
    except TypeError:  # values of several types have no order of their own
        distinct = sorted(present, key=str)

    code = {value: place for place, value in enumerate(distinct)}
    code[None] = len(distinct)
    return np.array([code[value] for value in values], dtype=np.int64)


def numbers_of(column: Column) -> NDArray[np.float64]:
    """Return a column of numbers in double precision, (n,); a missing one is NaN."""
    if column.implementation.is_pyarrow() and column.dtype.is_integer():
        # its casts refuse integers that doubles cannot hold
        if not column.null_count():
            return np.asarray(column.to_numpy(), dtype=np.float64)
        numbers = [np.nan if number is None else float(number) for number in column.to_list()]
        return np.array(numbers)
    if column.dtype != nw.Float64():
        column = column.cast(nw.Float64())
    return np.asarray(column.to_numpy(), dtype=np.float64)


def number_table(frame: Frame) -> NDArray[np.float64]:
    """Return a frame of numbers in double precision, (n, d); a missing one is NaN."""
    # column after column, so that their sums have the same digits as those of a single column
    table = np.empty(frame.shape, order="F")
    if frame.implementation.is_polars():
        table[:] = frame.select(nw.all().cast(nw.Float64())).to_numpy()
        return table

    at_once = numpy_places(frame)
    if at_once:
        table[:, at_once] = frame.to_native().iloc[:, at_once].to_numpy(dtype=np.float64)
    names = frame.columns
    for place in set(range(len(names))).difference(at_once):
        table[:, place] = numbers_of(frame[names[place]])
    return table


def numpy_places(frame: Frame) -> list[int]:
    """Return the places of columns of numpy's types, which pandas makes an array of at once."""
    if not frame.implementation.is_pandas():
        return []
    types = enumerate(frame.to_native().dtypes)
    return [place for place, dtype in types if isinstance(dtype, np.dtype)]


# Types


def is_numeric_or_boolean(dtype: nw.dtypes.DType) -> bool:
    """Return whether a column of a type holds numbers, or truth values."""
    return dtype.is_numeric() or dtype == nw.Boolean()


def native_type(column: Column) -> Any:
    """Return a column's type as its library has it, with a categorical's categories."""
    native = column.to_native()
    return native.type if hasattr(native, "type") else native.dtype  # pyarrow says type


def native_types(frame: Frame) -> dict[str, Any]:
    """Return the columns' types as their library has them, by the columns' names."""
    native = frame.to_native()
    types = native.schema.types if frame.implementation.is_pyarrow() else native.dtypes
    return dict(zip(frame.columns, types, strict=True))
