"""Categories of rows and background as one list, so that the rows' codes stay what they are.

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

from shearshap.data.columns import Column, ColumnPair, native_type, values_of
from shearshap.errors import ShearWarning, level_of_caller


def with_categories(rows: Column, background: Column, argument: str) -> ColumnPair | None:
    """Return a column of the rows and of the background with the same categories.

    Warns where a category of the background gets another code. None where the background holds
    something else, or the library keeps one list for all columns.
    """
    own = categories_of(rows)
    if own is None:
        return None
    given = categories_of(background)
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


def categories_of(column: Column) -> Sequence[Any] | None:
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


# What the user is told


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
