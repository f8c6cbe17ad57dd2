"""One column of a frame of any library, as Python values, codes or numbers."""

from typing import Any

import narwhals.stable.v2 as nw
import numpy as np
from numpy.typing import NDArray

Column = nw.Series[Any]
Frame = nw.DataFrame[Any]

ColumnPair = tuple[Column, Column]
"""A column of the rows, and that of the background."""


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


def codes_of(column: Column) -> NDArray[np.int64]:
    """Return the place of each value among the column's distinct values, sorted: (n,).

    A missing value comes last.
    """
    values = hashable_values(column)
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

OBJECTS = np.dtype(object)
"""The type of pandas' columns of any objects, among which None and NaN are two."""


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


def converted(column: Column, like: Column, *, exactly: bool = True) -> Column | None:
    """Return a column in the type of another.

    None where there is no such conversion or, unless `exactly` is False, a value would change.
    """
    dtype = native_type(like)
    if native_type(column) == dtype:
        return column

    native = column.to_native()
    try:
        cast = native.cast(dtype) if hasattr(native, "cast") else native.astype(dtype)
        new: Column = nw.from_native(cast, series_only=True).alias(column.name)
        if exactly and values_of(column) != values_of(new):
            return None
    except Exception:  # noqa: BLE001  (every library refuses in its own way)
        return None
    return new
