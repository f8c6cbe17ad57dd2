"""One library, and one type for each column, of the rows of a frame and its background.

If they are tables of two libraries, the rows become a table of the background's, which as a rule is
training rows, and so what the model knows. A background of pyarrow becomes one of the rows'. Where
one of them has types of numpy and the other those of Arrow, or any whose missing value is
pandas.NA, numpy's are taken: a model that works with either may fail on a mixture of them.

    rows               background         mixed as
    double[pyarrow]    float64            float64
    float64            double[pyarrow]    float64
    int64[pyarrow]     int64              int64; float64 if a number is missing
    string[pyarrow]    str                str
    string[pyarrow]    categories         categories, if they are known; else text

Otherwise the background takes on the types of the rows. If that would change its cells, both get a
common type, and all predictions are compared with the model's own (games/marginal.py):

    rows           background          mixed as
    float32        float64             float32, whose precision is enough
    int8           int64, 7            int8
    int8           int64, 300          int64
    int64          float64, 0.5        float64
    categories     text                categories
    text           int64               refused

A model may read a category by its code, its place in the list of categories. So the rows'
categories come first, and those that the background alone has come after them:

    rows         categories  y z          codes  y 0   z 1
    background   categories  x y z        codes  x 0   y 1   z 2
    both         categories  y z x        codes  y 0   z 1   x 2
"""

from dataclasses import replace
from typing import Any

import narwhals.stable.v2 as nw

from shearshap.data.background import ParsedBackground
from shearshap.data.frames import (
    Column,
    Frame,
    as_frame,
    hashable_values,
    is_numeric_or_boolean,
    native_type,
    native_types,
    values_of,
    with_columns,
)
from shearshap.data.tensors import MAX_EXACT_INTEGER, inexact_error
from shearshap.errors import InputError

# Libraries


def in_one_library(rows: Frame, background: ParsedBackground) -> tuple[Frame, ParsedBackground]:
    """Return rows and background as tables of one library: the background's, unless it is pyarrow.

    The rows are in the background's types if they are converted. A background that is no table is
    returned as it is.
    """
    other = as_frame(background.rows, "background")
    if other is None or other.implementation == rows.implementation:
        return rows, background
    if other.implementation.is_pyarrow():
        native = _converted_frame(other, rows, "background").to_native()
        return rows, replace(background, rows=native)
    taken = _converted_frame(rows, other, "rows")
    known = [name for name in taken.columns if name in other.columns]
    fitted = [_fitted(rows[name], taken[name], other[name]) for name in known]
    return with_columns(taken, fitted), background


def _converted_frame(frame: Frame, like: Frame, argument: str) -> Frame:
    """Return a frame as one of another frame's library."""
    given = nw.maybe_reset_index(frame)
    try:
        if like.implementation.is_pandas():
            native: Any = given.to_arrow().to_pandas()
        else:
            native = given.to_polars() if like.implementation.is_polars() else given.to_arrow()
    except Exception as error:
        raise InputError(
            f"{argument}: the {frame.implementation} frame cannot become a {like.implementation} "
            f"frame: {str(error).splitlines()[0]}"
        ) from error
    return nw.from_native(native, eager_only=True)


# Types of pandas whose missing value is pandas.NA: those of Arrow, and pandas' own


def in_plain_types(rows: Frame, background: Frame, source: Frame) -> tuple[Frame, Frame]:
    """Return rows and background in types of numpy, in columns where one side has them.

    `source` is the frame that the background was made from, which may have changed its types.
    """
    ours = _with_na(rows)
    theirs = _with_na(source)
    changed = [_plain(rows[name], source[name]) for name in ours if name not in theirs]
    absent = [
        _plain(background[name], rows[name])
        for name in _with_na(background)
        if name in theirs and name not in ours
    ]
    return _with_changed(rows, changed), _with_changed(background, absent)


def _with_changed(frame: Frame, columns: list[Column]) -> Frame:
    return with_columns(frame, columns) if columns else frame


def _with_na(frame: Frame) -> list[str]:
    """Return the columns of a frame whose missing value is pandas.NA."""
    if not frame.implementation.is_pandas():
        return []
    import pandas as pd

    types = native_types(frame).items()
    return [name for name, dtype in types if getattr(dtype, "na_value", None) is pd.NA]


def _plain(column: Column, like: Column) -> Column:
    """Return a column of pandas in the type of another, or else in the one that numpy has for it.

    Whole numbers with missing ones are floating numbers there.
    """
    given = nw.maybe_reset_index(column)
    plain: Column = nw.from_native(given.to_arrow().to_pandas(), series_only=True)
    if plain.dtype.is_float():
        check_exact_column(given)
    return _fitted(given, plain.alias(column.name), like)


def _fitted(given: Column, taken: Column, like: Column) -> Column:
    """Return what was taken of a given column in the type of another, if no value would change."""
    if given.dtype.is_decimal() and like.dtype.is_float():
        taken = taken.cast(nw.Float64())
    are_days = given.dtype == nw.Date() and isinstance(like.dtype, nw.Datetime)
    fitted = _converted(taken, like, exactly=not are_days)  # Python says that no day is a time
    return taken if fitted is None else fitted


# One type for each column


def in_common_types(rows: Frame, background: Frame) -> tuple[Frame, Frame]:
    """Return rows and background in columns of the same types: the rows', if possible."""
    pairs = []
    for name in _differing(rows, background):
        pair = _in_one_type(rows[name], background[name])
        if pair is None:
            raise InputError(
                f"background: column {name!r} is {background[name].dtype}, but "
                f"{rows[name].dtype} in the rows; give both the same type"
            )
        pairs.append(pair)
    ours = with_columns(rows, [first for first, _ in pairs])
    return ours, with_columns(background, [second for _, second in pairs])


def type_changes(rows: Frame, mixed: Frame) -> tuple[str, ...]:
    """Return which columns change their type on the way to the model, in words."""
    changes = []
    for name in _differing(rows, mixed):
        given = str(rows[name].dtype)
        taken = str(mixed[name].dtype)
        changed = "gets more categories" if given == taken else f"{given} becomes {taken}"
        changes.append(f"column {name!r}: {changed}")
    return tuple(changes)


def _differing(rows: Frame, others: Frame) -> list[str]:
    """Return the names of columns whose types differ in two frames."""
    theirs = native_types(others)
    return [name for name, own in native_types(rows).items() if not _are_one(own, theirs[name])]


def _are_one(dtype: Any, other: Any) -> bool:
    """Return whether two types of a library are one, to a model too."""
    if dtype != other:
        return False
    ours: Any = getattr(dtype, "categories", None)
    if not hasattr(ours, "equals"):
        return True
    # pandas does not mind the order of categories, on which codes depend
    return ours.dtype == other.categories.dtype and bool(ours.equals(other.categories))


ColumnPair = tuple[Column, Column]
"""A column of the rows, and that of the background."""


def _in_one_type(rows: Column, background: Column) -> ColumnPair | None:
    """Return a column of the rows and of the background in one type; None if they have none."""
    if isinstance(rows.dtype, nw.Categorical | nw.Enum):
        pair = _with_categories(rows, background)
        if pair is not None:
            return pair

    are_floats = rows.dtype.is_float() and background.dtype.is_float()
    # the rows' precision is enough for the background
    fitted = _converted(background, rows, exactly=not are_floats)
    if fitted is not None:
        return rows, fitted
    types = (rows.dtype, background.dtype)
    are_numbers = all(is_numeric_or_boolean(dtype) for dtype in types)
    if are_numbers and not all(dtype.is_integer() for dtype in types):
        return _as_float(rows), _as_float(background)
    widened = _converted(rows, background)
    return None if widened is None else (widened, background)


def _as_float(column: Column) -> Column:
    check_exact_column(column)
    return column.cast(nw.Float64())


def check_exact_column(column: Column) -> None:
    """Raise if a column holds integers too large for the floating numbers that they become."""
    if not column.dtype.is_integer():
        return
    lowest, highest = column.min(), column.max()  # None if all are missing
    if lowest is not None and max(-int(lowest), int(highest)) > MAX_EXACT_INTEGER:
        raise inexact_error(f"column {column.name!r} holds")


def _converted(column: Column, like: Column, *, exactly: bool = True) -> Column | None:
    """Return a column in the type of another.

    None if there is no such conversion or, unless `exactly` is False, a value would change.
    """
    dtype = native_type(like)
    native = column.to_native()
    try:
        cast = native.cast(dtype) if hasattr(native, "cast") else native.astype(dtype)
    except Exception:  # noqa: BLE001  (every library refuses in its own way)
        return None
    new: Column = nw.from_native(cast, series_only=True).alias(column.name)
    if like.dtype == nw.String() and new.dtype != nw.String():
        return None  # pandas before 3 keeps words as objects, which anything can become
    return None if exactly and values_of(column) != values_of(new) else new


def _with_categories(rows: Column, background: Column) -> ColumnPair | None:
    """Return a column of the rows and of the background with the same categories.

    None if the library keeps no list of them with the type, or the background holds something else.
    pyarrow's lists are in its columns, and become one when those are joined.
    """
    native = rows.to_native()
    absent = background.to_native()
    is_enum = rows.implementation.is_polars() and isinstance(rows.dtype, nw.Enum)
    if not is_enum and not rows.implementation.is_pandas_like():
        return None

    known = {None, *native.dtype.categories}
    values = dict.fromkeys(hashable_values(background))
    added = [value for value in values if value not in known]
    try:
        if is_enum:
            dtype = type(native.dtype)([*native.dtype.categories, *added])
            pair = (native.cast(dtype), absent.cast(dtype))
        else:
            dtype = native.cat.add_categories(added).dtype
            pair = (native.astype(dtype), absent.astype(dtype))
    except Exception:  # noqa: BLE001  (every library refuses in its own way)
        return None
    first, second = (nw.from_native(part, series_only=True).alias(rows.name) for part in pair)
    return first, second
