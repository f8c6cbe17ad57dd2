"""Tables of any library as tables of cells: a cell is known by the row of a pool that it stands in.

Masking mixes rows cell by cell, and a table may hold strings, categories, dates and missing values.
So a row becomes d numbers, which rows of the pool its cells are taken from; a mixture of rows is a
mixture of those numbers, and the frame rebuilt from it has the columns, their order and their types
as they were given.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import narwhals.stable.v2 as nw
import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from shearshap.errors import InputError
from shearshap.inputs.background import STATISTICS, mode

Frame = nw.DataFrame[Any]


@dataclass(frozen=True)
class Pool:
    """The rows whose cells are mixed."""

    frame: Frame  #: (n, d)
    order: Sequence[
        str
    ]  #: of the columns as the model takes them; the frame's own is as the user gave it

    def decode(self, cells: Tensor) -> Any:
        """Return the frame, of its own library, whose cells are taken from the pool's rows: cells
        (n, d).
        """
        places = dict(zip(self.frame.columns, cells.cpu().numpy().T, strict=True))
        return nw.from_dict(
            {name: self.frame[name][places[name]] for name in self.order}
        ).to_native()


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
        raise InputError(
            f"{what}: column names must be strings, got {odd[0]!r}; try frame.columns.astype(str)"
        )
    return frame  # type: ignore[no-any-return]


def trained_order(frame: Frame, names: Sequence[str], what: str) -> list[str]:
    """Return a frame's columns in the order of a model's names, or raise with what is missing or
    too much.

    A space in a column's name may be an underscore in the model's, as LightGBM has it.
    """
    plain = {name.replace(" ", "_"): name for name in frame.columns}
    order = [name if name in frame.columns else plain.get(name, name) for name in names]
    check_columns(frame, order, what)
    return order


def check_columns(frame: Frame, wanted: Sequence[str], what: str) -> None:
    """Raise where a column is missing or too much."""
    missing = [name for name in wanted if name not in frame.columns]
    if missing:
        raise InputError(
            f"{what}: column {missing[0]!r} is missing ({len(missing)} of {len(wanted)} are: "
            f"{missing[:8]})"
        )
    more = [name for name in frame.columns if name not in wanted]
    if more:
        raise InputError(
            f"{what}: there is no use for column {more[0]!r}; drop what the model does not take: "
            f"{more[:8]}"
        )


def aligned(frame: Frame, like: Sequence[str], what: str) -> Frame:
    """Return the columns named, in that order, or raise with what is missing or too much."""
    check_columns(frame, like, what)
    return frame.select(*like)


def _alike(first: Frame, second: Frame) -> Frame:
    """Return two frames joined, column by column: of two types the one that loses nothing, the
    second's if it can.
    """
    joined = {}
    for name in second.columns:
        one, other = first[name], second[name]
        turned = _turned(one, other)
        back = _turned(other, one) if turned is None else None
        if turned is None and back is None:
            raise InputError(
                f"rows: column {name!r} is {one.dtype}, and {other.dtype} in the background; give "
                "both the same type"
            )
        pair = [one, back] if back is not None else [turned, other]
        joined[name] = nw.concat(
            [part.to_frame() for part in pair if part is not None], how="vertical"
        )[name]
    return nw.from_dict(joined)


def _turned(column: Any, like: Any) -> Any:
    """Return a column in the type of another, or None where a value would not survive."""
    native, kind = column.to_native(), _kind(like)
    if _kind(column) == kind:
        return column
    try:
        turned = native.cast(kind) if hasattr(native, "cast") else native.astype(kind)
        kept = nw.from_native(turned, series_only=True).alias(column.name)
        return kept if values_of(column) == values_of(kept) else None
    except Exception:  # noqa: BLE001  (every library refuses in its own way)
        return None


def _kind(column: Any) -> Any:
    native = column.to_native()
    return native.type if hasattr(native, "type") else native.dtype  # pyarrow's columns have a type


def reference_cells(reference: Any, rows: Frame, owner: NDArray[np.int64]) -> tuple[Frame, Tensor]:
    """Return the pool, which starts with `rows`, and which of its rows the reference's cells come
    from, (b, d).
    """
    name, given = _parted(reference)
    if given is None and len(rows) < 2:
        raise InputError(
            f"reference={name!r} alone is taken of the rows explained, and there is only one, "
            "which would be its own "
            f"reference; pass reference=({name!r}, background)"
        )
    pool = rows if given is None else _pooled(rows, given)
    first = 0 if given is None else len(rows)
    if name is None:
        return pool, torch.arange(first, len(pool), device="cpu")[:, None].expand(
            -1, len(rows.columns)
        )
    absent = pool[first:]
    numbers = np.array([name != "mode" and dtype.is_numeric() for dtype in absent.schema.values()])
    cells = first + _commonest(absent, owner, numbers)
    if not numbers.any():
        return pool, torch.from_numpy(cells)[None]
    pool = _with_statistic(
        pool, absent, [column for column, at in zip(pool.columns, numbers, strict=True) if at], name
    )
    return pool, torch.from_numpy(np.where(numbers, len(pool) - 1, cells))[None]


def _commonest(
    absent: Frame, owner: NDArray[np.int64], left_out: NDArray[np.bool_]
) -> NDArray[np.int64]:
    """Return a row with the most frequent value of each column, a player's columns taken together,
    (d,).
    """
    columns = zip(absent.columns, left_out, strict=True)
    codes = [
        np.zeros(len(absent), np.int64) if out else factorised(absent[column])[0]
        for column, out in columns
    ]
    table = np.stack(codes, axis=1)
    return np.asarray((table == mode(table, owner)).argmax(axis=0))


def _parted(reference: Any) -> tuple[str | None, Any]:
    """Return the statistic's name, if any, and what it is taken of."""
    name, given = (None, reference)
    if isinstance(reference, str):
        name, given = reference, None
    elif isinstance(reference, tuple) and reference and isinstance(reference[0], str):
        if len(reference) != 2:
            raise InputError(
                f"reference: wanted a pair such as ('mean', background), got {len(reference)} "
                "things"
            )
        name, given = reference
    if name is not None and name not in STATISTICS:
        raise InputError(
            f"reference: wanted one of {', '.join(STATISTICS)}, a row or background rows; got "
            f"{name!r}"
        )
    return name, given


def _pooled(rows: Frame, given: Any) -> Frame:
    """Return the rows and, after them, the background given, of the same columns and types."""
    frame = as_frame(given, "background")
    if frame is None:
        return _with_cells(rows, given)
    if frame.implementation != rows.implementation:
        raise InputError(
            f"background: it is a {frame.implementation} frame and the rows are "
            f"{rows.implementation}; give both as one"
        )
    if len(frame) == 0:
        raise InputError("background: there are no rows in the frame")
    return _alike(rows, aligned(frame, rows.columns, "background"))


def _with_cells(rows: Frame, given: Any) -> Frame:
    """Return the rows and, after them, the background given as a row by name, or as an array or
    lists.
    """
    columns = (
        named_cells(given, rows.columns)
        if hasattr(given, "keys")
        else _by_place(given, len(rows.columns))
    )
    made = [
        nw.new_series(name, column, backend=rows.implementation)
        for name, column in zip(rows.columns, columns, strict=True)
    ]
    absent = nw.from_dict({series.name: series for series in made})
    both = _alike(absent, rows)  # the rows' types, where nothing is lost
    return nw.concat([both[len(absent) :], both[: len(absent)]], how="vertical")


def named_cells(given: Any, names: Sequence[str]) -> list[list[Any]]:
    """Return the cells of one row by name, a mapping or a Series, as columns."""
    missing = [name for name in names if name not in given]
    if missing:
        raise InputError(f"background: {missing[0]!r} is missing; wanted {', '.join(names[:8])}")
    return [[given[name]] for name in names]


def _by_place(given: Any, width: int) -> list[list[Any]]:
    """Return the cells of one row or several as columns, in the rows' order."""
    listed = (
        given.tolist()
        if hasattr(given, "tolist")
        else list(given)
        if isinstance(given, Iterable)
        else [given]
    )
    table = listed if listed and isinstance(listed[0], list | tuple) else [listed]
    if any(not isinstance(row, list | tuple) or len(row) != width for row in table):
        raise InputError(
            "background: wanted a frame with the rows' columns, a row by name, or an array of "
            f"shape (b, {width}), "
            f"got {type(given).__name__} of another shape"
        )
    return [list(column) for column in zip(*table, strict=True)]


def _with_statistic(pool: Frame, absent: Frame, named: list[str], name: str) -> Frame:
    """Return the pool with one row more that holds the mean or median of every column of numbers
    named.

    Whole numbers become floating ones, since their mean is none of them.
    """
    floating = [
        nw.col(column).cast(nw.Float64()) for column in named if not pool.schema[column].is_float()
    ]
    pool = pool.with_columns(*floating) if floating else pool
    last = pool[:1].with_columns(
        *(_number(absent[column], name, pool.schema[column]) for column in named)
    )
    return nw.concat([pool, last], how="vertical")


def _number(column: Any, name: str, dtype: Any) -> Any:
    """Return the statistic of a column, missing values apart, as an expression for it."""
    values = np.asarray(column.cast(nw.Float64()).to_numpy(), dtype=np.float64)
    if np.isnan(values).all():
        raise InputError(
            f"background: all values of column {column.name!r} are missing, so it has no {name}"
        )
    found = np.nanmean(values) if name == "mean" else np.nanmedian(values)
    return nw.lit(float(found)).cast(dtype).alias(column.name)


def values_of(column: Any) -> list[Any]:
    """Return a column's values, a missing one as None, whatever its library calls it."""
    there = zip(column.to_list(), column.is_null().to_list(), strict=True)
    return [
        None if null or (isinstance(value, float) and value != value) else value
        for value, null in there
    ]


def factorised(column: Any) -> tuple[NDArray[np.int64], list[Any]]:
    """Return a code for each value of a column, in the values' order, and the values; a missing one
    is last: None.
    """
    values = values_of(column)
    try:
        known: set[Any] = set(values)
    except TypeError:  # lists and dicts, which have no hash, go by how they print
        values = [None if value is None else repr(value) for value in values]
        known = set(values)
    try:
        order = sorted(known - {None})
    except TypeError:
        order = sorted(known - {None}, key=str)
    order += [None] * (None in known)
    code = {value: at for at, value in enumerate(order)}
    return np.array([code[value] for value in values], dtype=np.int64), order


def numbers_and_words(rows: Frame) -> tuple[NDArray[np.float64], NDArray[np.object_] | None]:
    """Return a number for every cell, (r, d), and the cells as people read them where some are no
    numbers.

    A number is itself; of anything else the number is its place among the column's values.
    """
    numbers = np.full((len(rows), len(rows.columns)), np.nan)
    words = np.empty(numbers.shape, dtype=object)
    for at, name in enumerate(rows.columns):
        if rows[name].dtype.is_numeric():
            words[:, at] = values_of(rows[name])
            numbers[:, at] = [np.nan if value is None else float(value) for value in words[:, at]]
        else:
            codes, values = factorised(rows[name])
            words[:, at] = [values[code] for code in codes]
            numbers[:, at] = codes
    wordless = all(dtype.is_numeric() for dtype in rows.schema.values())
    return numbers, None if wordless else words


def matrix(frame: Frame, what: str) -> NDArray[Any]:
    """Return a frame of numbers as an array (n, d), or raise with the column that holds none."""
    for name, dtype in frame.schema.items():
        if not (dtype.is_numeric() or dtype == nw.Boolean()):
            raise InputError(
                f"{what}: column {name!r} is {dtype}, and this kind of model takes numbers only; "
                "encode it, or explain "
                "the whole Pipeline or function that does"
            )
    return np.asarray(frame.to_numpy())
