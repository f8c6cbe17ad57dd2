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

from shearshap.errors import ShearWarning, level_of_caller
from shearshap.inputs.columns import Column, native_type, values_of

Pair = tuple[Column, Column]


def with_categories(rows: Column, absent: Column, argument: str) -> Pair | None:
    """Return a column of the rows and of the background with the same categories.

    Warns where a category of the background gets another code. None where the background holds
    something else, or the library keeps one list for all columns.
    """
    own = _categories(rows)
    if own is None:
        return None
    given = _categories(absent)
    known = set(own)
    values = values_of(absent) if given is None else given
    added = [value for value in dict.fromkeys(values) if value not in known and value is not None]

    pair = _joined(rows, absent, [*own, *added], grown=bool(added))
    if pair is None or values_of(pair[1]) != values_of(absent):
        return None
    if given is not None and [*own, *added][: len(given)] != list(given):
        _warn_of_codes(rows.name, own, given, argument)
    return pair


def _categories(column: Column) -> Sequence[Any] | None:
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


def _joined(rows: Column, absent: Column, categories: Sequence[Any], *, grown: bool) -> Pair | None:
    """Return two columns with these categories, in the types of the rows."""
    try:
        if rows.implementation.is_pyarrow():
            pair = _joined_pyarrow(rows, absent, categories)
        else:
            pair = _joined_by_type(rows, absent, categories, grown=grown)
    except Exception:  # noqa: BLE001  (every library refuses in its own way)
        return None
    first, second = (nw.from_native(part, series_only=True).alias(rows.name) for part in pair)
    return first, second


def _joined_by_type(
    rows: Column, absent: Column, categories: Sequence[Any], *, grown: bool
) -> tuple[Any, Any]:
    """Return columns of pandas or polars in a type that has these categories."""
    dtype = native_type(rows)
    series = rows.to_native()
    other = absent.to_native()
    if rows.implementation.is_polars():
        wanted = type(dtype)(categories) if grown else dtype
        return series.cast(wanted), other.cast(wanted)

    if grown:
        extra = type(dtype.categories)(categories[len(dtype.categories) :])
        dtype = type(dtype)(dtype.categories.append(extra), ordered=dtype.ordered)
    return series.astype(dtype), other.astype(dtype)


def _joined_pyarrow(rows: Column, absent: Column, categories: Sequence[Any]) -> tuple[Any, Any]:
    """Return columns of pyarrow with one dictionary, which holds these categories."""
    import pyarrow as pa
    import pyarrow.compute as pc

    kind = native_type(rows)
    dictionary = pa.array(categories, type=kind.value_type)
    columns = []
    for column in (rows, absent):
        values = column.to_native().cast(kind.value_type).combine_chunks()
        codes = pc.index_in(values, value_set=dictionary)
        fits = len(categories) < 128 or kind.index_type.bit_width > 8
        index_type = kind.index_type if fits else pa.int32()
        encoded = pa.DictionaryArray.from_arrays(
            codes.cast(index_type), dictionary, ordered=kind.ordered
        )
        columns.append(pa.chunked_array([encoded]))
    first, second = columns
    return first, second


def _single_dictionary(column: Any) -> Any:
    """Return a column of pyarrow as one array, whose dictionary is that of all chunks."""
    whole = column.unify_dictionaries().combine_chunks()
    return whole.chunk(0) if hasattr(whole, "chunk") else whole


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
