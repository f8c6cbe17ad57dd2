"""Tables of any library as tables of cells: a cell is known by the row of a pool that it stands in.

Masking mixes rows cell by cell, and a table may hold strings, categories, dates and missing values. So a row becomes d
numbers, which rows of the pool its cells are taken from; a mixture of rows is a mixture of those numbers, and the
frame rebuilt from it has the columns, their order and their types as they were given.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import narwhals.stable.v2 as nw
import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from shearshap.errors import InputError
from shearshap.reference import STATISTICS, mode

Frame = nw.DataFrame[Any]


@dataclass(frozen=True)
class Pool:
    """The rows whose cells are mixed."""

    frame: Frame  #: (n, d)

    def decode(self, cells: Tensor) -> Any:
        """Return the frame, of its own library, whose cells are taken from the pool's rows: cells (n, d)."""
        places = cells.cpu().numpy()
        columns = {name: self.frame[name][places[:, at]] for at, name in enumerate(self.frame.columns)}
        return nw.from_dict(columns).to_native()


def as_frame(rows: Any, what: str) -> Frame | None:
    """Return rows as a frame if they are one of pandas, polars or pyarrow, else None."""
    if not nw.dependencies.is_into_dataframe(rows):
        return None
    try:
        frame = nw.from_native(rows, eager_only=True)
        columns = list(frame.columns)
    except (ValueError, TypeError) as error:
        raise InputError(f"{what}: the frame cannot be read: {error}") from error
    odd = [name for name in columns if not isinstance(name, str)]
    if odd:
        raise InputError(f"{what}: column names must be strings, got {odd[0]!r}; try frame.columns.astype(str)")
    return frame  # type: ignore[no-any-return]


def aligned(frame: Frame, like: Sequence[str], what: str) -> Frame:
    """Return the columns named, in that order, or raise with what is missing or too much."""
    missing = [name for name in like if name not in frame.columns]
    if missing:
        raise InputError(f"{what}: column {missing[0]!r} is missing ({len(missing)} of {len(like)} are: {missing[:8]})")
    more = [name for name in frame.columns if name not in like]
    if more:
        raise InputError(
            f"{what}: there is no use for column {more[0]!r}; drop what the model does not take: {more[:8]}"
        )
    return frame.select(*like)


def retyped(frame: Frame, like: Frame, what: str) -> Frame:
    """Return a frame with the column types of another, or raise where a value does not survive."""
    columns = [_retyped(frame[name], like[name], what) for name in like.columns]
    return nw.from_dict({column.name: column for column in columns})


def _retyped(column: Any, like: Any, what: str) -> Any:
    native, wanted = column.to_native(), like.to_native()
    kind = getattr(wanted, "type", None) or wanted.dtype  # pyarrow's columns have a type, the others' a dtype
    if (getattr(native, "type", None) or native.dtype) == kind:
        return column
    try:
        turned = native.cast(kind) if hasattr(native, "cast") else native.astype(kind)
        kept = nw.from_native(turned, series_only=True).alias(column.name)
        if kept.null_count() != column.null_count() or not _same(column, kept):
            raise ValueError("a value is lost")
    except Exception as error:
        raise InputError(
            f"{what}: column {column.name!r} is {column.dtype} here and {like.dtype} elsewhere; "
            f"give both the same type ({error})"
        ) from error
    return kept


def _same(column: Any, kept: Any) -> bool:
    if not (column.dtype.is_numeric() and kept.dtype.is_numeric()):
        return True
    return bool(np.array_equal(column.to_numpy().astype(float), kept.to_numpy().astype(float), equal_nan=True))


def reference_cells(reference: Any, rows: Frame, owner: NDArray[np.int64]) -> tuple[Frame, Tensor]:
    """Return the pool, which starts with `rows`, and which of its rows the reference's cells come from, (b, d)."""
    name, given = _parted(reference)
    absent = rows if given is None else _background(given, rows)
    if name is not None and given is None and len(rows) < 2:
        raise InputError(
            f"reference={name!r} alone is taken of the rows explained, and there is only one, which would be its own "
            f"reference; pass reference=({name!r}, background)"
        )
    first = 0 if given is None else len(rows)
    pool = rows if given is None else _joined(rows, absent)
    if name is None:
        places = torch.arange(first, len(pool))
        return pool, places[:, None].expand(-1, len(rows.columns))
    codes = np.stack([factorised(absent[column])[0] for column in absent.columns], axis=1)
    commonest = mode(codes, owner)
    cells = first + (codes == commonest).argmax(axis=0)
    if name == "mode":
        return pool, torch.from_numpy(cells)[None]
    pool, numbers = _with_statistic(pool, absent, name)
    return pool, torch.from_numpy(np.where(numbers, len(pool) - 1, cells))[None]


def _parted(reference: Any) -> tuple[str | None, Any]:
    """Return the statistic's name, if any, and what it is taken of."""
    name, given = (None, reference)
    if isinstance(reference, str):
        name, given = reference, None
    elif isinstance(reference, tuple) and len(reference) == 2 and isinstance(reference[0], str):
        name, given = reference
    if name is not None and name not in STATISTICS:
        raise InputError(f"reference: wanted one of {', '.join(STATISTICS)}, a row or background rows; got {name!r}")
    return name, given


def _background(given: Any, rows: Frame) -> Frame:
    """Return background rows as a frame of the rows' columns and types."""
    frame = as_frame(given, "background")
    if frame is None:
        table = np.atleast_2d(np.asarray(given))
        if table.shape[1:] != (len(rows.columns),):
            raise InputError(
                f"background: wanted a frame with the rows' columns, or an array of shape (b, {len(rows.columns)}), "
                f"got {type(given).__name__} of shape {np.shape(given)}"
            )
        frame = nw.from_numpy(table, schema=rows.columns, backend=rows.implementation)
    if frame.implementation != rows.implementation:
        raise InputError(
            f"background: it is a {frame.implementation} frame and the rows are {rows.implementation}; give both as one"
        )
    if len(frame) == 0:
        raise InputError("background: there are no rows in the frame")
    return aligned(frame, rows.columns, "background")


def _joined(rows: Frame, absent: Frame) -> Frame:
    return nw.concat([retyped(rows, absent, "rows"), absent], how="vertical")


def _with_statistic(pool: Frame, absent: Frame, name: str) -> tuple[Frame, NDArray[np.bool_]]:
    """Return the pool with one row more that holds the mean or median of every number, and which columns are numbers.

    Whole numbers become floating ones, since their mean is none of them.
    """
    numbers = np.array([dtype.is_numeric() for dtype in absent.schema.values()])
    named = [column for column, number in zip(absent.columns, numbers, strict=True) if number]
    floating = [nw.col(column).cast(nw.Float64()) for column in named if not pool.schema[column].is_float()]
    pool = pool.with_columns(*floating) if floating else pool
    last = pool[:1]
    found = [nw.lit(float(getattr(absent[column], name)())).cast(pool.schema[column]).alias(column) for column in named]
    return nw.concat([pool, last.with_columns(*found) if found else last], how="vertical"), numbers


def factorised(column: Any) -> tuple[NDArray[np.int64], list[Any]]:
    """Return a code for each value of a column, in the values' order, and the values; a missing one is last: None."""
    values = [None if value is None or value != value else value for value in column.to_list()]  # NaN is not itself
    known: set[Any] = set(values)
    try:
        order = sorted(known - {None})
    except TypeError:
        order = sorted(known - {None}, key=str)
    order += [None] * (None in known)
    code = {value: at for at, value in enumerate(order)}
    return np.array([code[value] for value in values], dtype=np.int64), order


def numbers_and_words(rows: Frame) -> tuple[NDArray[np.float64], NDArray[np.object_] | None]:
    """Return a number for every cell, (r, d), and the cells as people read them where some are no numbers.

    A number is itself; of anything else the number is its place among the column's values.
    """
    numbers = np.full((len(rows), len(rows.columns)), np.nan)
    words = np.empty(numbers.shape, dtype=object)
    for at, name in enumerate(rows.columns):
        codes, values = factorised(rows[name])
        words[:, at] = [values[code] for code in codes]
        told = rows[name].to_numpy().astype(float) if rows[name].dtype.is_numeric() else codes.astype(float)
        numbers[:, at] = told
    wordless = all(dtype.is_numeric() for dtype in rows.schema.values())
    return numbers, None if wordless else words


def matrix(frame: Frame, what: str) -> NDArray[Any]:
    """Return a frame of numbers as an array (n, d), or raise with the column that holds none."""
    for name, dtype in frame.schema.items():
        if not (dtype.is_numeric() or dtype == nw.Boolean()):
            raise InputError(
                f"{what}: column {name!r} is {dtype}, and this kind of model takes numbers only; encode it, or explain "
                "the whole Pipeline or function that does"
            )
    return np.asarray(frame.to_numpy())
