"""Rows that are a table of any library: a cell is known by the row of a pool that it stands in.

Masking mixes rows cell by cell, and a table may hold strings, categories, dates and missing values.
So every row becomes d numbers: the rows of a pool that its cells are taken from. The pool holds the
rows to explain and, after them, the background:

    pool   age  city              cells      age  city
       0    31  Rome         row 0             0     0
       1    58  Oslo         row 1             1     1
       2    44  Bern         background        2     2

A mix of rows is a mix of those numbers. Row 1 without its city is (1, 2), which is decoded as
(58, Bern), in the columns, the order and the types that the user passed.

A statistic of numbers stands in no row, so it adds one to the pool. Columns of anything else, and
all columns with "mode", take a cell that the pool holds already. The "mean" of the rows 0 to 2 is
(44.3, Bern): of equally frequent cities, the first in order.

       3  44.3  ...          background        3     2
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
from shearshap.inputs.background import STATISTICS, ParsedBackground, mode
from shearshap.inputs.columns import Column, codes_of, numbers_of, values_of
from shearshap.inputs.display import CellDisplay, Frame
from shearshap.inputs.encoded import Inputs
from shearshap.inputs.players import Groups, players


def encode_frame(
    frame: Frame, order: Sequence[str], background: ParsedBackground, groups: Groups
) -> Inputs:
    """Encode a frame for a model that takes frames, with its columns in an order of its own."""
    width = len(frame.columns)
    owner, names = players(groups, (width,), frame.columns)
    pool, absent = _background_cells(background, frame, owner)
    return Inputs(
        rows=_whole_rows(0, len(frame), width),
        background=absent,
        shape=(width,),
        owner=owner,
        names=names,
        decode=Pool(pool, order).decode,
        display=CellDisplay(frame, owner),
        index=np.arange(len(frame)),
    )


@dataclass(frozen=True)
class Pool:
    """The rows whose cells are mixed."""

    frame: Frame  #: (n, d) its columns in the user's order
    order: Sequence[str]  #: of the columns as the model takes them

    def decode(self, cells: Tensor) -> Any:
        """Return the frame, of the user's library, with cells (n, d) taken from the pool's rows."""
        rows_by_column = dict(zip(self.frame.columns, cells.cpu().numpy().T, strict=True))
        columns = {name: self.frame[name][rows_by_column[name]] for name in self.order}
        return nw.from_dict(columns).to_native()


def _whole_rows(first: int, last: int, width: int) -> Tensor:
    """Return the cells of the pool's rows from `first` up to `last`, (last - first, width)."""
    return torch.arange(first, last, device="cpu")[:, None].expand(-1, width)


# Frames and their columns


def as_frame(rows: Any, argument: str) -> Frame | None:
    """Return rows as a frame if they are one of pandas, polars or pyarrow, else None."""
    if not nw.dependencies.is_into_dataframe(rows):
        return None
    try:
        frame: Frame = nw.from_native(rows, eager_only=True)
        columns = list(frame.columns)
    except (ValueError, TypeError) as error:
        raise InputError(f"{argument}: the frame cannot be read: {error}") from error

    for name in columns:
        if not isinstance(name, str):
            raise InputError(
                f"{argument}: column names must be strings, got {name!r}; try "
                "frame.columns.astype(str)"
            )
    return frame


def trained_order(frame: Frame, names: Sequence[str], argument: str) -> list[str]:
    """Return a frame's columns in the order of a model's names, or raise with what does not fit.

    A space in a column's name may be an underscore in the model's, as in LightGBM.
    """
    by_model_name = {name.replace(" ", "_"): name for name in frame.columns}
    order = [name if name in frame.columns else by_model_name.get(name, name) for name in names]
    _check_columns(frame, order, argument)
    return order


def aligned(frame: Frame, columns: Sequence[str], argument: str) -> Frame:
    """Return a frame with its columns in this order, or raise with what does not fit."""
    _check_columns(frame, columns, argument)
    return frame.select(*columns)


def _check_columns(frame: Frame, wanted: Sequence[str], argument: str) -> None:
    """Raise where a column is missing or of no use."""
    missing = [name for name in wanted if name not in frame.columns]
    if missing:
        raise InputError(
            f"{argument}: column {missing[0]!r} is missing ({len(missing)} of {len(wanted)} are: "
            f"{missing[:8]})"
        )
    unused = [name for name in frame.columns if name not in wanted]
    if unused:
        raise InputError(
            f"{argument}: there is no use for column {unused[0]!r}; drop what the model does not "
            f"take: {unused[:8]}"
        )


def matrix(frame: Frame, argument: str) -> NDArray[Any]:
    """Return a frame of numbers as an array (n, d), or raise with the column that holds none."""
    for name, dtype in frame.schema.items():
        if not (dtype.is_numeric() or dtype == nw.Boolean()):
            raise InputError(
                f"{argument}: column {name!r} is {dtype}, and this kind of model takes numbers "
                "only; encode it, or explain the whole Pipeline or function that does"
            )
    return np.asarray(frame.to_numpy())


# The background's cells


def _background_cells(
    background: ParsedBackground, rows: Frame, owner: NDArray[np.int64]
) -> tuple[Frame, Tensor]:
    """Return the pool, which starts with `rows`, and the background's cells in it, (b, d)."""
    background.check_count(len(rows))
    if background.of_explained:
        pool = rows
        first = 0
    else:
        pool = _pooled(rows, background)
        first = len(rows)

    if background.statistic is None:
        return pool, _whole_rows(first, len(pool), len(owner))

    source = pool[first:]
    computed = _computed_columns(background.statistic, source)
    cells = first + _mode_rows(source, owner, computed)
    if computed.any():
        numbers = _statistic_numbers(
            background.statistic, source, owner, computed, background.argument
        )
        pool = _with_row(pool, numbers)
        cells[computed] = len(pool) - 1
    return pool, torch.from_numpy(cells)[None]


def _computed_columns(statistic: str, source: Frame) -> NDArray[np.bool_]:
    """Return in which columns a statistic makes a number of its own, (d,).

    The mode is always a value that the column holds.
    """
    numeric = np.array([dtype.is_numeric() for dtype in source.schema.values()])
    if STATISTICS[statistic] is mode:
        return np.zeros_like(numeric)
    return numeric


def _mode_rows(
    source: Frame, owner: NDArray[np.int64], left_out: NDArray[np.bool_]
) -> NDArray[np.int64]:
    """Return, for each column, a row that holds its most frequent value, (d,).

    A player's columns are taken together, without those left out.
    """
    codes = np.zeros(source.shape, np.int64)
    for place in np.flatnonzero(~left_out):
        codes[:, place] = codes_of(source[source.columns[place]])
    return np.asarray((codes == mode(codes, owner)).argmax(axis=0))


def _statistic_numbers(
    statistic: str,
    source: Frame,
    owner: NDArray[np.int64],
    computed: NDArray[np.bool_],
    argument: str,
) -> dict[str, float]:
    """Return the statistic of each column of numbers, by the column's name."""
    names = [source.columns[place] for place in np.flatnonzero(computed)]
    columns = [numbers_of(source[name]) for name in names]
    for name, column in zip(names, columns, strict=True):
        if np.isnan(column).all():
            raise InputError(
                f"{argument}: all values of column {name!r} are missing, so it has no {statistic}"
            )

    # players without a column of numbers are left out, and the others numbered anew
    _, own = np.unique(owner[computed], return_inverse=True)
    row = STATISTICS[statistic](np.stack(columns).T, own)
    return {name: float(number) for name, number in zip(names, row, strict=True)}


def _with_row(pool: Frame, numbers: dict[str, float]) -> Frame:
    """Return the pool and, after it, a row that holds a number in each column named.

    Whole numbers become floating ones, since their mean need not be whole.
    """
    whole = [name for name in numbers if not pool.schema[name].is_float()]
    if whole:
        pool = pool.with_columns(*(nw.col(name).cast(nw.Float64()) for name in whole))

    cells = [nw.lit(number).cast(pool.schema[name]).alias(name) for name, number in numbers.items()]
    row = pool[:1].with_columns(*cells)
    return nw.concat([pool, row], how="vertical")


# The pool


def _pooled(rows: Frame, background: ParsedBackground) -> Frame:
    """Return the rows and, after them, the background, in columns of the same types."""
    argument = background.argument
    frame = as_frame(background.rows, argument)
    if frame is None:
        return _pooled_with_cells(rows, background)

    if frame.implementation != rows.implementation:
        raise InputError(
            f"{argument}: it is a {frame.implementation} frame and the rows are "
            f"{rows.implementation}; give both as one"
        )
    if len(frame) == 0:
        raise InputError(f"{argument}: there are no rows in the frame")
    return _stacked(rows, aligned(frame, rows.columns, argument), ("rows", argument))


def _pooled_with_cells(rows: Frame, background: ParsedBackground) -> Frame:
    """Return the rows and, after them, a background that is a row by name, an array or lists."""
    if hasattr(background.rows, "keys"):
        columns = named_cells(background.rows, rows.columns, background.argument)
    else:
        columns = _cells_by_place(background.rows, len(rows.columns), background.argument)

    series = {
        name: nw.new_series(name, cells, backend=rows.implementation)
        for name, cells in zip(rows.columns, columns, strict=True)
    }
    absent = nw.from_dict(series)
    # stacked the other way round, so that the rows' types are preferred
    stacked = _stacked(absent, rows, (background.argument, "rows"))
    return nw.concat([stacked[len(absent) :], stacked[: len(absent)]], how="vertical")


def named_cells(row: Any, names: Sequence[str], argument: str) -> list[list[Any]]:
    """Return the cells of one row by name, a mapping or a Series, as columns of one cell."""
    for name in names:
        if name not in row:
            raise InputError(f"{argument}: {name!r} is missing; wanted {', '.join(names[:8])}")
    return [[row[name]] for name in names]


def _cells_by_place(rows: Any, width: int, argument: str) -> list[list[Any]]:
    """Return the cells of one row or several, in the order of the columns, as columns."""
    listed = _listed(rows)
    several = len(listed) > 0 and isinstance(listed[0], list | tuple)
    table = listed if several else [listed]
    for row in table:
        if not isinstance(row, list | tuple) or len(row) != width:
            raise InputError(
                f"{argument}: wanted a frame with the rows' columns, a row by name, or an array of "
                f"shape (b, {width}), got {type(rows).__name__} of another shape"
            )
    return [list(column) for column in zip(*table, strict=True)]


def _listed(rows: Any) -> Any:
    """Return an array, or any other iterable, as lists; a single cell as a list of one."""
    if hasattr(rows, "tolist"):
        return rows.tolist()
    if isinstance(rows, Iterable):
        return list(rows)
    return [rows]


def _stacked(first: Frame, second: Frame, arguments: tuple[str, str]) -> Frame:
    """Return two frames below each other.

    Where a column's types differ, both get the second's type, or else the first's, if no value
    changes by that. `arguments` name the two frames in an error.
    """
    columns = {}
    for name in second.columns:
        pair = _of_one_type(first[name], second[name])
        if pair is None:
            raise InputError(
                f"{arguments[0]}: column {name!r} is {first[name].dtype}, and "
                f"{second[name].dtype} in the {arguments[1]}; give both the same type"
            )
        columns[name] = nw.concat([part.to_frame() for part in pair], how="vertical")[name]
    return nw.from_dict(columns)


def _of_one_type(first: Column, second: Column) -> tuple[Column, Column] | None:
    """Return two columns in one type, or None where values would change in either."""
    converted = _converted(first, second)
    if converted is not None:
        return converted, second
    converted = _converted(second, first)
    if converted is not None:
        return first, converted
    return None


def _converted(column: Column, like: Column) -> Column | None:
    """Return a column in the type of another, or None where a value would change."""
    dtype = _native_type(like)
    if _native_type(column) == dtype:
        return column

    native = column.to_native()
    try:
        converted = native.cast(dtype) if hasattr(native, "cast") else native.astype(dtype)
        new: Column = nw.from_native(converted, series_only=True).alias(column.name)
        return new if values_of(column) == values_of(new) else None
    except Exception:  # noqa: BLE001  (every library refuses in its own way)
        return None


def _native_type(column: Column) -> Any:
    """Return a column's type as its library has it, with a categorical's categories."""
    native = column.to_native()
    return native.type if hasattr(native, "type") else native.dtype  # pyarrow says type
