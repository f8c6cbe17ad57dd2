"""The types in which a frame and its background are mixed: in every column one, for both.

The background takes on the types of the rows. If that would change its cells, both get a common
type, and all predictions are compared with the model's own (games/agreement.py):

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

from collections.abc import Sequence
from typing import Any
from warnings import warn

import narwhals.stable.v2 as nw
import numpy as np

from shearshap.data.frames import (
    OBJECTS,
    Column,
    Frame,
    is_numeric_or_boolean,
    native_type,
    native_types,
    numbers_of,
    values_of,
    with_columns,
)
from shearshap.data.tensors import MAX_EXACT_INTEGER, inexact_error
from shearshap.errors import InputError, ShearWarning, level_of_caller

ColumnPair = tuple[Column, Column]
"""A column of the rows, and that of the background."""


def in_common_types(
    rows: Frame, background: Frame, argument: str, *, has_types: bool
) -> tuple[Frame, Frame]:
    """Return rows and background in columns of the same types: the rows', if possible.

    `argument` is what the user calls the background, which `has_types` of its own if it is a frame.
    """
    theirs = native_types(background)
    types = native_types(rows).items()
    pairs = []
    for name in [name for name, dtype in types if not _are_one(dtype, theirs[name])]:
        pair = _in_one_type(rows[name], background[name], argument)
        if pair is None:
            sides = [("rows", rows[name]), (argument, background[name])]
            if not has_types:
                sides.reverse()  # the cells of the background are at fault
            raise _mismatch_error(name, *sides)
        pairs.append(pair)
    ours = with_columns(rows, [first for first, _ in pairs])
    return ours, with_columns(background, [second for _, second in pairs])


def _in_one_type(rows: Column, background: Column, argument: str) -> ColumnPair | None:
    """Return a column of the rows and of the background in one type; None if they have none."""
    if isinstance(rows.dtype, nw.Categorical | nw.Enum):
        pair = _with_categories(rows, background, argument)
        if pair is not None:
            return pair

    are_floats = rows.dtype.is_float() and background.dtype.is_float()
    # the rows' precision is enough for the background
    fitted = None
    if not (rows.dtype.is_integer() and _has_fractions(background)):  # as means often have
        fitted = converted(background, rows, exactly=not are_floats)
    if fitted is not None:
        return rows, fitted
    if _are_numbers_beside_others(rows, background):
        return _as_float(rows, argument), _as_float(background, argument)
    widened = converted(rows, background)
    return None if widened is None else (widened, background)


def _are_numbers_beside_others(rows: Column, background: Column) -> bool:
    """Return whether both columns hold numbers, and not integers alone."""
    columns = (rows, background)
    if not all(is_numeric_or_boolean(column.dtype) for column in columns):
        return False
    return not all(column.dtype.is_integer() for column in columns)


def _has_fractions(column: Column) -> bool:
    """Return whether a column holds numbers that are not whole; quicker than a conversion."""
    if not column.dtype.is_float():
        return False
    numbers = numbers_of(column)
    return bool((np.isfinite(numbers) & (numbers != np.floor(numbers))).any())


def _as_float(column: Column, argument: str) -> Column:
    check_exact_column(column, argument)
    return column.cast(nw.Float64())


def check_exact_column(column: Column, argument: str) -> None:
    """Raise if a column holds integers too large for the floating numbers that they become."""
    if not column.dtype.is_integer():
        return
    lowest, highest = column.min(), column.max()  # None if all are missing
    if lowest is not None and max(-int(lowest), int(highest)) > MAX_EXACT_INTEGER:
        raise inexact_error(argument, f"column {column.name!r} holds")


def _mismatch_error(name: str, side: tuple[str, Column], other: tuple[str, Column]) -> InputError:
    """Return the error for columns that have no type in common."""
    return InputError(
        f"{side[0]}: column {name!r} is {side[1].dtype}, and {other[1].dtype} in the {other[0]}; "
        "give both the same type"
    )


def converted(column: Column, like: Column, *, exactly: bool = True) -> Column | None:
    """Return a column in the type of another.

    None if there is no such conversion or, unless `exactly` is False, a value would change.
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


def _are_one(dtype: Any, other: Any) -> bool:
    """Return whether two types of a library are one, to a model too."""
    if hasattr(dtype, "index_type"):  # pyarrow's type says nothing of the categories
        return False
    if dtype != other:
        return False
    if not hasattr(dtype, "ordered"):
        return True
    # pandas does not mind the order of categories, on which codes depend
    ours = dtype.categories
    return ours.dtype == other.categories.dtype and bool(ours.equals(other.categories))


# What the user is told


def type_changes(rows: Frame, mixed: Frame) -> tuple[str, ...]:
    """Return which columns change their type on the way to the model, in words."""
    theirs = native_types(mixed)
    changed = [name for name, own in native_types(rows).items() if not _are_one(own, theirs[name])]
    return tuple(
        f"column {name!r}: {_type_in_words(rows[name])} becomes {_type_in_words(mixed[name])}"
        for name in changed
    )


def _type_in_words(column: Column) -> str:
    if isinstance(column.dtype, nw.Categorical | nw.Enum):
        categories = _categories_of(column) or ()
        return f"{type(column.dtype).__name__} of {len(categories)} categories"
    return str(column.dtype)


def none_notes(background: Frame, mixed: Frame, argument: str) -> tuple[str, ...]:
    """Return a note on every column of the background whose None becomes something else."""
    types = native_types(mixed)
    return tuple(
        f"{argument}: column {name!r} holds None, which becomes another missing value in the type "
        f"of the rows' column, {types[name]}; give both the same type"
        for name, given in native_types(background).items()
        if given == OBJECTS
        and types[name] != OBJECTS
        and any(cell is None for cell in background[name].to_native())
    )


# Categories


def _with_categories(rows: Column, background: Column, argument: str) -> ColumnPair | None:
    """Return a column of the rows and of the background with the same categories.

    Warns where a category of the background gets another code. None where the background holds
    something else, or the library keeps one list for all columns.
    """
    own = _categories_of(rows)
    if own is None:
        return None
    given = _categories_of(background)
    known = {None, *own}
    values = values_of(background) if given is None else given
    added = [value for value in dict.fromkeys(values) if value not in known]
    categories = [*own, *added]

    pair = _in_categories(rows, background, categories)
    if pair is None or values_of(pair[1]) != values_of(background):
        return None
    if given is not None and categories[: len(given)] != list(given):
        _warn_of_codes(rows.name, own, given, argument)
    return pair


def _categories_of(column: Column) -> Sequence[Any] | None:
    """Return a column's categories in the order of their codes; None where it has none."""
    native = column.to_native()
    if hasattr(native, "cat") and hasattr(native.cat, "codes"):  # pandas
        return list(native.cat.categories)
    if hasattr(native, "unify_dictionaries"):  # pyarrow
        if not hasattr(native.type, "index_type"):
            return None
        return list(_single_dictionary(native).dictionary.to_pylist())
    if isinstance(column.dtype, nw.Enum):  # polars
        return list(column.dtype.categories)
    return None


def _single_dictionary(column: Any) -> Any:
    """Return a column of pyarrow as one array, whose dictionary is that of all chunks."""
    whole = column.unify_dictionaries().combine_chunks()
    return whole.chunk(0) if hasattr(whole, "chunk") else whole


# One list in each library


def _in_categories(
    rows: Column, background: Column, categories: Sequence[Any]
) -> ColumnPair | None:
    """Return two columns with these categories, the first of which are those of the rows."""
    if rows.implementation.is_pyarrow():
        convert = _in_pyarrow
    elif rows.implementation.is_polars():
        convert = _in_polars
    else:
        convert = _in_pandas
    try:
        pair = convert(rows, background, categories)
    except Exception:  # noqa: BLE001  (every library refuses in its own way)
        return None
    first, second = (nw.from_native(part, series_only=True).alias(rows.name) for part in pair)
    return first, second


def _in_pandas(rows: Column, background: Column, categories: Sequence[Any]) -> tuple[Any, Any]:
    dtype = native_type(rows)
    added = categories[len(dtype.categories) :]
    if added:
        extra = type(dtype.categories)(added)
        dtype = type(dtype)(dtype.categories.append(extra), ordered=dtype.ordered)
    return rows.to_native().astype(dtype), background.to_native().astype(dtype)


def _in_polars(rows: Column, background: Column, categories: Sequence[Any]) -> tuple[Any, Any]:
    dtype = type(native_type(rows))(categories)
    return rows.to_native().cast(dtype), background.to_native().cast(dtype)


def _in_pyarrow(rows: Column, background: Column, categories: Sequence[Any]) -> tuple[Any, Any]:
    import pyarrow as pa
    import pyarrow.compute as pc

    dtype = native_type(rows)
    dictionary = pa.array(categories, type=dtype.value_type)
    fits = len(categories) < 128 or dtype.index_type.bit_width > 8
    index_type = dtype.index_type if fits else pa.int32()

    def encoded(column: Column) -> Any:
        values = column.to_native().cast(dtype.value_type).combine_chunks()
        codes = pc.index_in(values, value_set=dictionary).cast(index_type)
        array = pa.DictionaryArray.from_arrays(codes, dictionary, ordered=dtype.ordered)
        return pa.chunked_array([array])

    return encoded(rows), encoded(background)


# A code that differs


def _warn_of_codes(name: str, own: Sequence[Any], given: Sequence[Any], argument: str) -> None:
    warn(
        f"{argument}: column {name!r} has the categories {_listed(given)} there and "
        f"{_listed(own)} in the rows, so a category's code differs, and a model that uses codes "
        "reads the two differently; give both the same categories in the same order",
        ShearWarning,
        stacklevel=level_of_caller(),
    )


def _listed(categories: Sequence[Any]) -> str:
    shown = ", ".join(str(category) for category in categories[:6])
    return shown if len(categories) <= 6 else f"{shown}, ..."
