"""Rows as a model takes them, an array or a frame of any library, as the numbers that trees see."""

from collections.abc import Callable, Iterable, Mapping
from typing import Any

import narwhals.stable.v2 as nw
import numpy as np

from shearshap.trees.forest import Floats

#: Makes codes (r,) of the categorical columns of a frame (pandas Series), both by position.
Encoder = Callable[[dict[int, Any]], dict[int, Floats]]


def own_codes(categorical: dict[int, Any]) -> dict[int, Floats]:
    """Return the codes that columns of categories have themselves; NaN where one is missing."""
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
    for position in range(made.shape[1]):
        column = frame[:, position]
        number = _as_numbers(column)
        if number is None:
            categorical[position] = _as_categories(column)
        else:
            made[:, position] = number

    for position, codes in encode(categorical).items():
        made[:, position] = codes
    return made


def _as_numbers(column: Any) -> Floats | None:
    """Return a column as float64 (r,); None if it has words or categories."""
    dtype = column.dtype
    if dtype.is_numeric() or dtype == nw.Boolean:
        return np.asarray(column.cast(nw.Float64).to_numpy(), dtype=np.float64)
    if isinstance(dtype, nw.Categorical | nw.Enum | nw.String):
        return None
    try:
        return np.asarray(column.to_numpy(), dtype=np.float64)
    except (TypeError, ValueError):
        return None


def _as_categories(column: Any) -> Any:
    """Return a column as a categorical Series of pandas."""
    # as a frame, since only that keeps the dictionary of a column of pyarrow
    series = column.to_frame().to_pandas().iloc[:, 0]
    return series if hasattr(series, "cat") else series.astype("category")


def narrowed(seen: Floats) -> Floats:
    """Return numbers rounded to float32, in which most libraries compare, as float64."""
    with np.errstate(over="ignore"):
        return seen.astype(np.float32).astype(np.float64)


def narrow_numbers(rows: Any) -> Floats:
    """Return rows as numbers rounded to float32; a category is taken for the number it is."""
    return narrowed(numbers(rows, own_values))
