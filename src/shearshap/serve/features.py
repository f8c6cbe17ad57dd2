"""The features that a model takes: what a cell may be, and rows of JSON as a frame of pandas.

a column of the rows loaded      a cell of a request
int64, 17 to 90                  a whole number
float64                          a number; null where rows loaded have missing ones
text                             a text
categories red, green            one of those
bool                             true or false
datetime64                       a text such as 2026-01-31T12:00:00
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from difflib import get_close_matches
from math import isfinite
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from shearshap.errors import InputError
from shearshap.serve.limits import Refusal, shown

if TYPE_CHECKING:
    import pandas as pd

Kind = Literal["number", "integer", "boolean", "text", "category", "time"]
Cell = float | int | bool | str | None
Row = Mapping[str, Any]

MOST_CATEGORIES = 200
"""Distinct texts up to which a column's texts are listed for people to choose from."""

LARGEST_NUMBER = float(np.finfo(np.float32).max)
"""The largest number of a request: most models compute in single precision."""

LARGEST_INTEGER = 2**53 - 1
"""The largest whole number that all readers of JSON agree on."""

LONGEST_TEXT = 10_000


@dataclass(frozen=True, eq=False)
class Feature:
    """A column that the model takes, and what its cells may be."""

    name: str
    kind: Kind
    dtype: Any  #: of the column in pandas
    missing: bool  #: whether rows loaded lack it, so that it may be null
    typical: Cell  #: a cell of the rows loaded: of numbers the median, else the most frequent
    least: float | int | None = None  #: of numbers, in the rows loaded
    most: float | int | None = None
    categories: tuple[Any, ...] | None = None  #: of a text those that are known, if they are few

    @property
    def bounds(self) -> tuple[float, float]:
        """The smallest and largest number that a cell may be."""
        if self.kind == "integer":
            info = np.iinfo(self.dtype)
            low = max(int(info.min), -LARGEST_INTEGER)
            high = min(int(info.max), LARGEST_INTEGER)
            return min(low, self.least or 0), max(high, self.most or 0)
        largest = min(float(np.finfo(self.dtype).max), LARGEST_NUMBER)
        # what the rows loaded hold is taken, however large
        return min(-largest, self.least or 0), max(largest, self.most or 0)

    @property
    def wanted(self) -> str:
        """What a cell must be, in words."""
        words = {
            "number": "a finite number",
            "integer": "a whole number",
            "boolean": "true or false",
            "text": "a text",
            "category": f"one of {_listed(self.categories or ())}",
            "time": "a time such as '2026-01-31T12:00:00'",
        }[self.kind]
        if self.kind in ("number", "integer"):
            low, high = self.bounds
            words += f" from {low:g} to {high:g}" if self.kind == "number" else ""
            words += f" from {low} to {high}" if self.kind == "integer" else ""
        return f"{words}, or null" if self.missing else words

    def schema(self) -> dict[str, Any]:
        """Return the JSON schema of a cell."""
        kinds = {"integer": "integer", "number": "number", "boolean": "boolean"}
        schema: dict[str, Any] = {"type": kinds.get(self.kind, "string")}
        if self.kind in ("integer", "number"):
            schema["minimum"], schema["maximum"] = self.bounds
        elif self.kind == "text":
            schema["maxLength"] = LONGEST_TEXT
        elif self.kind == "category":
            schema = {"enum": list(self.categories or ())}
        elif self.kind == "time":
            schema["format"] = "date-time"
        schema["examples"] = [self.typical]
        if self.missing:
            schema = {"anyOf": [schema, {"type": "null"}]}
        return schema

    def cell(self, value: Any, where: Callable[[], str]) -> Cell:
        """Return a cell as the column takes it, or refuse it."""
        if value is None and self.missing:
            return None
        checked: Cell = CHECKS[self.kind](self, value)
        if checked is None:
            raise Refusal(422, self.wanted, shown(value), shown(self.typical), where())
        return checked


# Cells of each kind; None: not of that kind


def _number(feature: Feature, value: Any) -> Cell:
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    low, high = feature.bounds
    return float(value) if low <= value <= high else None


def _integer(feature: Feature, value: Any) -> Cell:
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    low, high = feature.bounds
    if not low <= value <= high or value != int(value):
        return None
    return int(value)


def _boolean(_feature: Feature, value: Any) -> Cell:
    return value if isinstance(value, bool) else None


def _text(_feature: Feature, value: Any) -> Cell:
    if not isinstance(value, str) or len(value) > LONGEST_TEXT:
        return None
    try:
        value.encode()
    except UnicodeEncodeError:  # half of a pair of surrogates
        return None
    return value


def _category(feature: Feature, value: Any) -> Cell:
    # 1 == True, but no category
    for category in feature.categories or ():
        if value == category and isinstance(value, bool) == isinstance(category, bool):
            known: Cell = category
            return known
    return None


def _time(feature: Feature, value: Any) -> Any:
    if not isinstance(value, str):
        return None
    try:
        parsed = datetime.fromisoformat(value)
    except ValueError:
        return None
    if parsed.tzinfo is not None and getattr(feature.dtype, "tz", None) is None:
        return None  # the same hour is another one in another zone
    # pandas counts nanoseconds, which end in 2262
    return parsed if 1678 <= parsed.year <= 2261 else None


CHECKS: dict[Kind, Callable[[Feature, Any], Any]] = {
    "number": _number,
    "integer": _integer,
    "boolean": _boolean,
    "text": _text,
    "category": _category,
    "time": _time,
}


# Features of a frame


def features_of(frame: "pd.DataFrame") -> tuple[Feature, ...]:
    """Return the features of the rows loaded."""
    return tuple(_feature(frame[name]) for name in frame.columns)


def _feature(column: "pd.Series[Any]") -> Feature:
    kind = _kind(column)
    known = column.dropna()
    if not len(known):
        raise InputError(
            f"data: column {column.name!r} has no values, so that nothing is known of it; leave "
            "it out with --drop, or serve rows that have some"
        )
    is_numeric = kind in ("number", "integer")
    return Feature(
        str(column.name),
        kind,
        column.dtype,
        missing=len(known) < len(column),
        typical=_typical(known, kind),
        least=plain_cell(known.min()) if is_numeric else None,
        most=plain_cell(known.max()) if is_numeric else None,
        categories=_categories(known, kind),
    )


def _kind(column: "pd.Series[Any]") -> Kind:
    import pandas as pd

    types = pd.api.types
    if isinstance(column.dtype, pd.CategoricalDtype):
        return "category"
    if types.is_bool_dtype(column.dtype):
        return "boolean"
    if types.is_integer_dtype(column.dtype):
        return "integer"
    if types.is_float_dtype(column.dtype):
        return "number"
    if types.is_datetime64_any_dtype(column.dtype):
        return "time"
    if all(isinstance(cell, str) for cell in column.dropna()):
        return "text"
    example = next(cell for cell in column.dropna() if not isinstance(cell, str))
    raise InputError(
        f"data: column {column.name!r} holds {type(example).__name__} such as {example!r}; a "
        "service takes numbers, texts, categories, truth values and times"
    )


def _typical(known: "pd.Series[Any]", kind: Kind) -> Cell:
    if kind == "number":
        return float(known.median())
    if kind == "integer":
        return int(known.median())
    most_frequent: Cell = plain_cell(known.mode().iloc[0])
    return most_frequent


def _categories(known: "pd.Series[Any]", kind: Kind) -> tuple[Any, ...] | None:
    if kind == "category":
        return tuple(plain_cell(category) for category in known.cat.categories)
    if kind != "text":
        return None
    distinct = known.unique()
    return tuple(sorted(distinct)) if len(distinct) <= MOST_CATEGORIES else None


def plain_cell(cell: Any) -> Any:
    """Return a cell of pandas as JSON has it; a missing one, or infinity, is None."""
    if hasattr(cell, "isoformat"):
        return None if cell != cell else cell.isoformat()
    value = cell.item() if isinstance(cell, np.generic) else cell
    if isinstance(value, float) and not isfinite(value):
        return None
    return value


def plain_rows(frame: "pd.DataFrame") -> list[dict[str, Any]]:
    """Return the rows of a frame as JSON has them."""
    columns = [[plain_cell(cell) for cell in frame[name]] for name in frame.columns]
    names = [str(name) for name in frame.columns]
    return [dict(zip(names, cells, strict=True)) for cells in zip(*columns, strict=True)]


def cells_of(frame: "pd.DataFrame") -> list[tuple[Any, ...]]:
    """Return the rows of a frame as they are, with None for a missing cell."""
    missing = frame.isna()
    columns = [
        [None if null else cell for cell, null in zip(frame[name], missing[name], strict=True)]
        for name in frame.columns
    ]
    return list(zip(*columns, strict=True))


# Rows of a request


def checked_rows(features: Sequence[Feature], rows: Sequence[Any]) -> list[list[Cell]]:
    """Return the cells of each row in the order of the features, or refuse the first bad one."""
    return [_checked_row(features, row, number) for number, row in enumerate(rows)]


def _checked_row(features: Sequence[Feature], row: Any, number: int) -> list[Cell]:
    if not isinstance(row, dict):
        wanted = "an object with a cell for each feature"
        raise Refusal(422, wanted, shown(row), "a row of GET /rows", f"rows[{number}]")
    if len(row) != len(features) or any(feature.name not in row for feature in features):
        raise _wrong_names([feature.name for feature in features], row, number)
    return [
        feature.cell(row[feature.name], lambda f=feature: f"rows[{number}].{f.name}")  # type: ignore[misc]
        for feature in features
    ]


def _wrong_names(names: Sequence[str], row: Row, number: int) -> Refusal:
    """Return the refusal of a row with other features than the model's."""
    where = f"rows[{number}]"
    wanted = f"{len(names)} features: {_listed(names)}"
    unknown = [name for name in row if name not in names]
    if not unknown:
        absent = [name for name in names if name not in row]
        return Refusal(422, wanted, f"a row without {_listed(absent)}", "a row of GET /rows", where)
    near = get_close_matches(unknown[0][:100], names, n=1)
    hint = f"{near[0]!r}" if near else "a row of GET /rows"
    return Refusal(422, wanted, f"a row with {shown(unknown[0])}", hint, where)


def frame_of(
    features: Sequence[Feature], rows: Sequence[Sequence[Cell]], types: Mapping[str, Any]
) -> "pd.DataFrame":
    """Return rows of cells as a frame in which each column has its type."""
    import pandas as pd

    columns = zip(*rows, strict=True)
    return pd.DataFrame(
        {
            feature.name: pd.Series(column, dtype=types[feature.name])
            for feature, column in zip(features, columns, strict=True)
        }
    )


def _listed(names: Sequence[Any]) -> str:
    first = ", ".join(shown(name) for name in names[:12])
    return first if len(names) <= 12 else f"{first} and {len(names) - 12} more"
