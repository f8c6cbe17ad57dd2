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

A statistic is one more row of the pool. It holds a number in the columns of numbers, and in any
other column, or with "mode", the most frequent cell. The "mean" of the rows above is (44.3, Bern):
of equally frequent cities, the first in order.

The rows keep the types that the user gave them, and the background takes those types on. Only
where that is not possible do the rows change, and never so that the model would notice:
integers.py has the rule.
"""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from decimal import Decimal
from typing import Any

import narwhals.stable.v2 as nw
import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from shearshap.adapters import AdaptedModel
from shearshap.errors import InputError
from shearshap.inputs.background import (
    STATISTICS,
    ParsedBackground,
    is_single_number,
    mode,
    refuse_masked,
)
from shearshap.inputs.categories import with_categories
from shearshap.inputs.columns import (
    Column,
    codes_of,
    converted,
    native_type,
    numbers_of,
    values_of,
)
from shearshap.inputs.display import CellDisplay, Frame
from shearshap.inputs.encoded import Inputs
from shearshap.inputs.integers import (
    TRIED_ROWS,
    beyond_doubles,
    refuse_floats,
    try_floats,
    warn_of_rounding,
    whole_statistic,
)
from shearshap.inputs.players import Players


@dataclass(frozen=True)
class Labels:
    """The columns' labels of a pandas frame, where they are not strings."""

    index: Any  #: the frame's `columns`
    place: dict[str, int]  #: of each label, by its name


def encode_frame(
    frame: Frame,
    order: Sequence[str],
    background: ParsedBackground,
    find_players: Callable[[tuple[int, ...]], Players],
    model: AdaptedModel,
    labels: Labels | None = None,
) -> Inputs:
    """Encode a frame for a model that takes frames, with its columns in an order of its own.

    `labels` are the columns' own labels, where those are not their names.
    """
    width = len(frame.columns)
    players = find_players((width,))
    own = FrameWay(order, labels)
    source = _source(background, frame, labels)
    absent = source
    if background.statistic is not None:
        absent = _statistic_row(background, source, players.owner)

    fit = _Sides(frame, source, absent, background, model, own).fit()
    pool = nw.concat([fit.rows, fit.absent], how="vertical")
    return Inputs(
        rows=_whole_rows(0, len(frame), width),
        background=_whole_rows(len(frame), len(pool), width),
        shape=(width,),
        owner=players.owner,
        names=players.names,
        decode=Pool(pool, own).decode,
        display=CellDisplay(frame, players.owner),
        index=np.arange(len(frame)),
        untouched=lambda count: own.native(frame[:count]),
        evaluations=fit.evaluations,
    )


@dataclass(frozen=True)
class FrameWay:
    """How a frame reaches the model: its columns in an order, and under labels of their own."""

    order: Sequence[str]
    labels: Labels | None

    def native(self, frame: Frame) -> Any:
        """Return a frame of the user's library, which the model may write into."""
        own = frame.clone()
        return self.joined({name: own[name] for name in self.order})

    def joined(self, columns: dict[str, Column]) -> Any:
        """Return columns, in the model's order, as a frame of the user's library."""
        native = nw.maybe_reset_index(nw.from_dict(columns)).to_native()
        if self.labels is not None:
            native.columns = self.labels.index[[self.labels.place[name] for name in self.order]]
        return native


@dataclass(frozen=True)
class Pool:
    """The rows whose cells are mixed."""

    frame: Frame  #: (n, d) its columns in the user's order
    way: FrameWay

    def decode(self, cells: Tensor) -> Any:
        """Return the frame, of the user's library, with cells (n, d) taken from the pool's rows."""
        rows_by_column = dict(zip(self.frame.columns, cells.cpu().numpy().T, strict=True))
        columns = {name: self.frame[name][rows_by_column[name]] for name in self.way.order}
        return self.way.joined(columns)


def _whole_rows(first: int, last: int, width: int) -> Tensor:
    """Return the cells of the pool's rows from `first` up to `last`, (last - first, width)."""
    return torch.arange(first, last, device="cpu")[:, None].expand(-1, width)


# Frames and their columns


def as_frame(rows: Any, argument: str) -> Frame | None:
    """Return rows as a frame if they are one of pandas, polars or pyarrow, else None.

    Labels of pandas that are not strings, such as 0, 1, 2, become names: "0", "1", "2".
    """
    if not nw.dependencies.is_into_dataframe(rows):
        return None
    _check_byte_order(rows, argument)
    labels = column_labels(rows, argument)
    if labels is not None:
        rows = rows.set_axis(list(labels.place), axis=1)
    try:
        frame: Frame = nw.from_native(rows, eager_only=True)
        frame.columns  # noqa: B018  (a name that stands twice is seen here)
    except (ValueError, TypeError) as error:
        raise InputError(f"{argument}: the frame cannot be read: {error}") from error
    return frame


def _check_byte_order(rows: Any, argument: str) -> None:
    """Raise where a column of pandas has a foreign order of bytes, which pandas cannot index."""
    if not nw.dependencies.is_pandas_dataframe(rows):
        return
    for label, dtype in zip(rows.columns, rows.dtypes, strict=True):
        if isinstance(dtype, np.dtype) and not dtype.isnative:
            raise InputError(
                f"{argument}: column {label!r} is {dtype.str}, of a foreign order of bytes, which "
                f"pandas cannot take rows of; pass it as {dtype.newbyteorder('=')}"
            )


def column_labels(rows: Any, argument: str) -> Labels | None:
    """Return the labels of a pandas frame's columns, where they are not strings; else None."""
    if not nw.dependencies.is_pandas_dataframe(rows):
        return None
    labels = list(rows.columns)
    others = [label for label in labels if not isinstance(label, str)]
    if not others:
        return None

    names = [str(label) for label in labels]
    if len(others) < len(labels) or len(set(names)) < len(names):
        raise InputError(
            f"{argument}: column names must be all strings or all of another kind, and no two of "
            f"them alike, got {others[0]!r} among {', '.join(map(repr, labels[:8]))}; try "
            "frame.columns.astype(str)"
        )
    return Labels(rows.columns, {name: place for place, name in enumerate(names)})


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
    decimals = [name for name, dtype in frame.schema.items() if isinstance(dtype, nw.Decimal)]
    if decimals:
        frame = frame.with_columns(*(nw.col(name).cast(nw.Float64()) for name in decimals))
    return np.asarray(frame.to_numpy())


# The background


def _source(background: ParsedBackground, rows: Frame, labels: Labels | None) -> Frame:
    """Return the rows that the background is, or that its statistic is taken of."""
    background.check_count(len(rows))
    if background.of_explained:
        return rows

    argument = background.argument
    frame = as_frame(background.rows, argument)
    if frame is None:
        return _frame_of_cells(background, rows, labels)
    if frame.implementation != rows.implementation:
        raise InputError(
            f"{argument}: it is a {frame.implementation} frame and the rows are "
            f"{rows.implementation}; give both as one"
        )
    if len(frame) == 0:
        raise InputError(f"{argument}: there are no rows in the frame")
    return aligned(frame, rows.columns, argument)


def _frame_of_cells(background: ParsedBackground, rows: Frame, labels: Labels | None) -> Frame:
    """Return a background that is a row by name, an array, lists or a number, as a frame."""
    given = background.rows
    refuse_masked(given, background.argument)
    if is_single_number(given):
        columns = _constant_cells(given, rows, background.argument)
    elif hasattr(given, "keys"):
        by_label = rows.columns if labels is None else list(labels.index)
        columns = named_cells(given, by_label, background.argument)
    else:
        columns = _cells_by_place(given, len(rows.columns), background.argument)

    series = {
        name: nw.new_series(name, cells, backend=rows.implementation)
        for name, cells in zip(rows.columns, columns, strict=True)
    }
    return nw.from_dict(series)


def _constant_cells(number: Any, rows: Frame, argument: str) -> list[list[Any]]:
    """Return a number for each column, as columns of one cell."""
    plain = number.item() if hasattr(number, "item") else number
    for name, dtype in rows.schema.items():
        if not (dtype.is_numeric() or dtype == nw.Boolean()):
            raise InputError(
                f"{argument}: wanted a frame or a row by name, as column {name!r} is {dtype}; "
                f"got the number {plain!r}"
            )
    return [[plain] for _ in rows.columns]


def named_cells(row: Any, names: Sequence[Any], argument: str) -> list[list[Any]]:
    """Return the cells of one row by name, a mapping or a Series, as columns of one cell."""
    for name in names:
        if name not in row:
            wanted = ", ".join(str(name) for name in names[:8])
            raise InputError(f"{argument}: {name!r} is missing; wanted {wanted}")
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


# Statistics


def _statistic_row(background: ParsedBackground, source: Frame, owner: NDArray[np.int64]) -> Frame:
    """Return a statistic of rows as a frame of one row; its numbers are floats, or large ids."""
    statistic = background.statistic
    assert statistic is not None
    computed = _computed_columns(statistic, source)
    commonest = _mode_rows(source, owner, computed)
    numbers = _statistic_numbers(statistic, source, owner, computed, background.argument)
    columns = {}
    for place, name in enumerate(source.columns):
        cell = source[name][[int(commonest[place])]]
        if name in numbers:
            cell = nw.new_series(name, [numbers[name]], backend=source.implementation)
        columns[name] = cell
    return nw.from_dict({name: nw.maybe_reset_index(cell) for name, cell in columns.items()})


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
) -> dict[str, Any]:
    """Return the statistic of each column of numbers, by the column's name.

    That of integers that doubles cannot hold is an integer, and that of decimals is a decimal.
    """
    if not computed.any():
        return {}
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
    return {
        name: _in_own_digits(statistic, source[name], float(number))
        for name, number in zip(names, row, strict=True)
    }


def _in_own_digits(statistic: str, column: Column, number: float) -> Any:
    """Return a column's statistic as a number with the column's digits, where those matter."""
    if _holds_ids(column):
        present = [value for value in values_of(column) if value is not None]
        return whole_statistic(statistic, present)
    if isinstance(column.dtype, nw.Decimal):
        exponents = [v.as_tuple().exponent for v in values_of(column) if v is not None]
        return round(Decimal(number), -min(exponents))
    return number


def _holds_ids(column: Column) -> bool:
    """Return whether a column holds integers that doubles cannot hold."""
    return column.dtype.is_integer() and beyond_doubles(column.min(), column.max())


# Types


@dataclass(frozen=True)
class _Fit:
    """Rows and background in columns of the same types."""

    rows: Frame
    absent: Frame
    evaluations: int = 0  #: of the model, that it took to find out


@dataclass(frozen=True)
class _Sides:
    """Rows and a background that are to be mixed."""

    rows: Frame
    source: Frame  #: the rows that the background comes from
    absent: Frame  #: the background
    background: ParsedBackground
    model: AdaptedModel
    way: FrameWay

    def fit(self) -> _Fit:
        """Return rows and background in columns of the same types: the rows', where possible."""
        rows: dict[str, Column] = {}
        absent: dict[str, Column] = {}
        undecided = []
        for name in self.rows.columns:
            pair = self._pair(name)
            if pair is None:
                undecided.append(name)
            else:
                rows[name], absent[name] = pair

        evaluations = 0
        if undecided:
            as_floats, evaluations = self._are_floats_harmless(undecided)
            rounded = {} if as_floats else self._rounded(undecided)
            for name in undecided:
                number = nw.Float64()
                rows[name] = self.rows[name].cast(number) if as_floats else self.rows[name]
                absent[name] = self.absent[name].cast(number) if as_floats else rounded[name]
        return _Fit(self._frame(rows), self._frame(absent), evaluations)

    def _frame(self, columns: dict[str, Column]) -> Frame:
        """Return columns as a frame, in the rows' order and without an index of its own."""
        return nw.from_dict(
            {name: nw.maybe_reset_index(columns[name]) for name in self.rows.columns}
        )

    def _pair(self, name: str) -> tuple[Column, Column] | None:
        """Return a column of the rows and of the background in one type.

        None where the rows hold integers, or truth values, and the background other numbers.
        """
        row_cells = self.rows[name]
        absent_cells = self.absent[name]
        if isinstance(row_cells.dtype, nw.Categorical | nw.Enum):
            pair = with_categories(row_cells, absent_cells, self.background.argument)
            if pair is not None:
                return pair

        fitted = _fitted(row_cells, absent_cells)
        if fitted is not None:
            return row_cells, fitted
        if _is_whole(row_cells) and absent_cells.dtype.is_numeric():
            if not absent_cells.dtype.is_integer():
                return None
            if _is_boolean(row_cells):
                return None

        widened = converted(row_cells, absent_cells)
        if widened is not None:
            return widened, absent_cells
        raise self._mismatch(name)

    def _mismatch(self, name: str) -> InputError:
        """Return the error for columns that have no type in common."""
        argument = self.background.argument
        sides = [("rows", self.rows[name]), (argument, self.source[name])]
        if as_frame(self.background.rows, argument) is None:
            sides.reverse()
        (first, own), (second, other) = sides
        return InputError(
            f"{first}: column {name!r} is {own.dtype}, and {other.dtype} in the {second}; give "
            "both the same type"
        )

    # Integers

    def _are_floats_harmless(self, names: list[str]) -> tuple[bool, int]:
        """Return whether columns of integers may become floats, and the evaluations it took."""
        if any(_holds_ids(self.rows[name]) for name in names):
            return False, 0
        alike = all(native_type(self.source[n]) == native_type(self.rows[n]) for n in names)
        first = (self.source if alike else self.rows)[:TRIED_ROWS]
        floats = first.with_columns(*(nw.col(name).cast(nw.Float64()) for name in names))
        trial = try_floats(self.model, self.way.native(first), self.way.native(floats), len(first))
        return trial.harmless, trial.evaluations

    def _rounded(self, names: list[str]) -> dict[str, Column]:
        """Return a statistic's columns rounded to integers, and warn of it; raise for any other."""
        if self.background.statistic is None:
            raise refuse_floats(self.background, names)
        numbers = {name: float(self.absent[name][0]) for name in names}
        integers = {name: round(number) for name, number in numbers.items()}
        reported = [(n, numbers[n], integers[n]) for n in names if not _holds_ids(self.rows[n])]
        if reported:
            cause = "the model tells integers from floating numbers"
            warn_of_rounding(self.background, reported, cause)

        backend = self.rows.implementation
        cells = {n: nw.new_series(n, [integers[n]], backend=backend) for n in names}
        whole = {name: converted(cell, self.rows[name]) for name, cell in cells.items()}
        for name, cell in whole.items():
            if cell is None:
                raise self._mismatch(name)
        return {name: cell for name, cell in whole.items() if cell is not None}


def _fitted(row_cells: Column, absent_cells: Column) -> Column | None:
    """Return a background's column in the type of the rows; None where it does not fit."""
    are_floats = row_cells.dtype.is_float() and absent_cells.dtype.is_float()
    # the rows' precision is enough for the background
    return converted(absent_cells, row_cells, exactly=not are_floats)


def _is_whole(column: Column) -> bool:
    """Return whether a column holds integers or truth values."""
    return column.dtype.is_integer() or _is_boolean(column)


def _is_boolean(column: Column) -> bool:
    return column.dtype == nw.Boolean()
