"""Readers of the trees of other libraries, and of rows as these libraries take them.

A row may be part of an array or of a frame of any library; trees see numbers, with NaN for a
missing value and a code for a category.
"""

from collections.abc import Callable, Iterable, Mapping
from importlib import import_module
from types import MappingProxyType
from typing import Any

import narwhals.stable.v2 as nw
import numpy as np

from shearshap.trees.forest import CategorySet, Floats, Integers, Tree, TreeModel, UnsupportedTrees

#: Libraries whose models have trees: the module of that name reads them, by its function `read`.
READERS = ("xgboost", "lightgbm", "catboost", "sklearn")


def read(model: Any) -> TreeModel:
    """Return the trees of a fitted model; raise `UnsupportedTrees` if they cannot be read."""
    name = type(model).__name__
    libraries = [ancestor.__module__.partition(".")[0] for ancestor in type(model).__mro__]
    library = next((library for library in libraries if library in READERS), None)
    if library is None:
        raise UnsupportedTrees(f"a {name} is not from a library whose trees can be read")
    reader = import_module(f"shearshap.trees.readers.{library}")
    try:
        trees: TreeModel = reader.read(model)
    except (AttributeError, KeyError) as error:
        # the model is not fitted, or its library saves other fields than those known
        raise UnsupportedTrees(
            f"the trees of this {name} cannot be read ({first_line(error)})"
        ) from error
    return trees


def first_line(error: Exception) -> str:
    """Return the first line of an error of another library, or its kind if it says nothing."""
    return (str(error).splitlines() or [type(error).__name__])[0]


# Trees


def one_output(value: Any, output: int, outputs: int) -> Floats:
    """Return the values of nodes (n,) as those of one of several outputs, (n, outputs)."""
    values = np.zeros((len(value), outputs))
    values[:, output] = value
    return values


def with_leaves_last(
    children: tuple[Any, Any],
    column: Any,
    threshold: Any,
    missing_left: Any,
    value: Floats,
    cover: Any,
    categories: Mapping[int, CategorySet] = MappingProxyType({}),
) -> Tree:
    """Return the tree of what its inner nodes have, and of its leaves' values (l, k) and covers.

    The leaves are numbered behind the inner nodes.
    """
    inner = len(column)
    leaves = len(value)

    def padded(of_inner: Any, of_leaf: float = 0) -> Any:
        return np.append(of_inner, np.full(leaves, of_leaf, dtype=np.asarray(of_inner).dtype))

    left, right = children
    return Tree(
        padded(left, -1),
        padded(right, -1),
        padded(column),
        padded(threshold),
        padded(missing_left),
        np.vstack((np.zeros((inner, value.shape[1])), value)),
        np.append(np.zeros(inner), np.broadcast_to(cover, leaves)),
        dict(categories),
    )


def bits(words: Integers) -> frozenset[int]:
    """Return the numbers of the bits that are set in words of 32 bits, the lowest first."""
    octets = np.ascontiguousarray(words).astype("<u4").view(np.uint8)
    return frozenset(np.flatnonzero(np.unpackbits(octets, bitorder="little")).tolist())


# Rows


#: Makes codes (r,) of the categorical columns of a frame (pandas Series), both by position.
Encoder = Callable[[dict[int, Any]], dict[int, Floats]]


def own_codes(categorical: dict[int, Any]) -> dict[int, Floats]:
    """Return the codes that columns of categories have themselves; NaN if one is missing."""
    return {
        position: np.where(series.cat.codes < 0, np.nan, series.cat.codes.astype(np.float64))
        for position, series in categorical.items()
    }


def own_values(categorical: dict[int, Any]) -> dict[int, Floats]:
    """Return categories that are numbers as those, which is what scikit-learn makes of them."""
    return {
        position: np.asarray(series.astype(object), dtype=np.float64)
        for position, series in categorical.items()
    }


def codes_among(
    series: Any, keys: Iterable[Any], codes: Mapping[Any, float], unknown: float
) -> Floats:
    """Return the codes of a column (r,), from keys of its categories, and codes by key."""
    own = [codes.get(key, unknown) for key in keys]
    # a missing value has the code -1: the last one
    table = np.array([*own, np.nan], dtype=np.float64)
    codes_of_rows: Floats = table[series.cat.codes.to_numpy()]
    return codes_of_rows


def numbers(rows: Any, encode: Encoder = own_codes) -> Floats:
    """Return rows as float64 (r, d): NaN for a missing value, a code for a category."""
    if not nw.dependencies.is_into_dataframe(rows):
        return np.asarray(rows, dtype=np.float64)
    frame = nw.from_native(rows, eager_only=True)
    if all(dtype.is_numeric() for dtype in frame.schema.values()):
        return np.asarray(frame.to_numpy(), dtype=np.float64)

    made = np.empty(frame.shape, dtype=np.float64)
    categorical: dict[int, Any] = {}
    # all at once, since only that keeps the dictionary of a column of pyarrow
    for position, (_, series) in enumerate(frame.to_pandas().items()):
        if hasattr(series, "cat"):
            categorical[position] = series
            continue
        try:
            made[:, position] = series.to_numpy(np.float64, na_value=np.nan)
        except (TypeError, ValueError):  # of words
            categorical[position] = series.astype("category")

    for position, codes in encode(categorical).items():
        made[:, position] = codes
    return made


def narrowed(seen: Floats) -> Floats:
    """Return numbers rounded to float32, in which most libraries compare, as float64."""
    with np.errstate(over="ignore"):
        return seen.astype(np.float32).astype(np.float64)
