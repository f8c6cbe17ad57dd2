"""Pools of a frame's rows, whose cells are mixed, in the ways that are fast in each library.

A frame may have thousands of columns, and libraries take their time over each of them. So columns
of one type are laid one after the other, and their cells are taken at once:

    pool   a    b    c        numbers  (a, c)   1 2 3   7 8 9
       0   1   Rome  7        text     (b)      Rome Oslo Bern
       1   2   Oslo  8
       2   3   Bern  9

Cells (m, d) are the rows of the pool that each column's cells are taken from. What comes out is the
frame that the library itself would make of one column after the other: the same types, missing
values and order. Letters: n rows of the pool, m rows of a mix, d columns, w columns of one type.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import groupby
from typing import Any, Protocol

import narwhals.stable.v2 as nw
import numpy as np
from numpy.typing import NDArray

from shearshap.data.columns import OBJECTS, Column, Frame, native_type, number_table, numbers_of
from shearshap.data.native_frames import FrameLayout

Cells = NDArray[np.int64]

COMPARED_TYPES = (nw.Boolean, nw.String, nw.Categorical, nw.Enum)
"""Types of cells, besides numbers and times, that are the same to a model where they are equal."""

MOST_CELLS = 1 << 25
"""Cells of a pool up to which columns of one type are laid into one, which copies them."""


class FramePool(Protocol):
    """The rows of a frame whose cells are mixed."""

    def mix(self, cells: Cells) -> Any:
        """Return the frame, of the user's library, with cells (m, d) of the pool's rows."""

    def like(self, row: int) -> NDArray[np.bool_]:
        """Return which cells (n, d) are to a model like those of a row."""


def frame_pool(frame: Frame, layout: FrameLayout) -> FramePool:
    """Return the pool of a frame's rows; a mix has the model's layout."""
    if frame.implementation.is_pandas():
        return PandasPool(frame, layout)
    if frame.implementation.is_polars():
        return PolarsPool(frame, layout)
    if frame.implementation.is_pyarrow():
        return PyarrowPool(frame, layout)
    return ColumnPool(frame, layout)


# Any library


@dataclass(frozen=True, eq=False)
class ColumnPool:
    """A pool of any library's rows, mixed column by column."""

    frame: Frame  #: (n, d)
    layout: FrameLayout

    def mix(self, cells: Cells) -> Any:
        """Return the frame, of the user's library, with cells (m, d) of the pool's rows."""
        rows_by_column = dict(zip(self.frame.columns, cells.T, strict=True))
        columns = {name: self.frame[name][rows_by_column[name]] for name in self.layout.order}
        return self.layout.joined(columns)

    def like(self, row: int) -> NDArray[np.bool_]:
        """Return which cells (n, d) are to a model like those of a row."""
        return _like_by_column(self.frame, row, range(self.frame.shape[1]))


def _like_by_column(frame: Frame, row: int, places: Sequence[int]) -> NDArray[np.bool_]:
    """Return which cells (n, w) of some columns are like those of a row, column by column."""
    same = np.zeros((len(frame), len(places)), dtype=np.bool_)
    names = frame.columns
    for number, place in enumerate(places):
        same[:, number] = _like_cell(frame[names[place]], row)
    return same


def _with_same_sign(numbers: NDArray[Any], others: NDArray[Any]) -> NDArray[np.bool_]:
    """Return which numbers are not 0.0 beside -0.0, which are equal but not the same."""
    return np.asarray((numbers != 0) | (np.signbit(numbers) == np.signbit(others)))


def _like_cell(column: Column, place: int) -> Any:
    """Return which cells (n,) of a column are like the one at a place; no objects are."""
    dtype = column.dtype
    if not is_compared(dtype):
        return False
    if isinstance(dtype, nw.Categorical | nw.Enum):
        column = column.cast(nw.String)
    if isinstance(dtype, nw.Float16):  # which some libraries cannot compare
        column = column.cast(nw.Float32)
    cell = column[place]
    missing = column.is_null()
    like = missing if missing[place] else (column == cell).fill_null(value=False)
    if dtype.is_float():
        numbers = numbers_of(column)
        return like.to_numpy() & _with_same_sign(numbers, numbers[place])
    if native_type(column) != OBJECTS:
        return like.to_numpy()
    # text, and perhaps both None and NaN
    kinds = np.array([type(each) for each in column.to_native()], dtype=object)
    return like.to_numpy() & (kinds == kinds[place])


def is_compared(dtype: nw.dtypes.DType) -> bool:
    """Return whether cells of a type are the same to a model where they are equal."""
    return dtype.is_numeric() or dtype.is_temporal() or isinstance(dtype, COMPARED_TYPES)


def _places_by_type(types: Sequence[Any]) -> dict[Any, list[int]]:
    """Return the places of the columns of each type."""
    places: dict[Any, list[int]] = {}
    # neighbours are often of one type, and looking a type up takes longer than comparing two
    for dtype, group in groupby(range(len(types)), key=types.__getitem__):
        places.setdefault(dtype, []).extend(group)
    return places


def _order(frame: Frame, layout: FrameLayout) -> list[int]:
    """Return the places of a frame's columns in the model's order."""
    place = {name: number for number, name in enumerate(frame.columns)}
    return [place[name] for name in layout.order]


# Columns of one type, one after the other


@dataclass(frozen=True, eq=False)
class _Strip:
    """Columns of one type, one after the other."""

    places: list[int]  #: of the columns in the pool, w of them
    cells: Any  #: (w n,) of the user's library

    def numbers(self, cells: Cells, rows: int) -> Cells:
        """Return which of its cells, (w m,), are the cells (m, d) of a pool of n rows."""
        if len(self.places) == 1:
            return np.ascontiguousarray(cells[:, self.places[0]])
        start = rows * np.arange(len(self.places))
        return (cells.T[self.places] + start[:, None]).reshape(-1)

    def parts(self, taken: Any) -> Iterator[tuple[int, Any]]:
        """Yield the place of each column, and its part (m,) of cells (w m,)."""
        size = len(taken) // len(self.places)
        for number, place in enumerate(self.places):
            yield place, taken[number * size : (number + 1) * size]


# pandas


class PandasPool:
    """A pool of pandas' rows, with an array for the columns of each type of numpy."""

    def __init__(self, frame: Frame, layout: FrameLayout) -> None:
        self._frame = frame
        self._layout = layout
        self._order = _order(frame, layout)
        native = frame.to_native()
        self._blocks = _numpy_blocks(native)
        self._strips = _pandas_strips(native)

    def mix(self, cells: Cells) -> Any:
        """Return the frame, of the user's library, with cells (m, d) of the pool's rows."""
        mixed = self._of_columns(cells) if self._strips else self._of_blocks(cells)
        mixed.columns = self._labels.copy()  # the model may give them another name
        return mixed

    def _of_blocks(self, cells: Cells) -> Any:
        """Return a mix of a pool that has types of numpy alone."""
        import pandas as pd

        # the type is named, since pandas looks for text and times among objects
        parts = [
            pd.DataFrame(block.taken(cells).T, dtype=block.cells.dtype, copy=False)
            for block in self._blocks
        ]
        mixed = parts[0] if len(parts) == 1 else pd.concat(parts, axis=1)
        return mixed if self._moves is None else mixed.iloc[:, self._moves]

    def _of_columns(self, cells: Cells) -> Any:
        """Return a mix of any pool, column by column."""
        import pandas as pd

        taken: list[Any] = [None] * cells.shape[1]
        for block in self._blocks:
            for place, column in zip(block.places, block.taken(cells), strict=True):
                taken[place] = column
                if column.dtype == object:  # or else pandas looks for text among objects
                    taken[place] = pd.Series(column, dtype=object, copy=False)
        for strip in self._strips:
            long = strip.cells.take(strip.numbers(cells, len(self._frame)))
            for place, column in strip.parts(long):
                taken[place] = column
        return pd.DataFrame({number: taken[place] for number, place in enumerate(self._order)})

    def like(self, row: int) -> NDArray[np.bool_]:
        """Return which cells (n, d) are to a model like those of a row."""
        same = np.zeros(self._frame.shape, dtype=np.bool_)
        parts = [(block.places, block.like(row)) for block in self._blocks]
        rows = len(self._frame)
        parts += [(strip.places, _like_pandas(strip, row, rows)) for strip in self._strips]
        for places, like in parts:
            if like is None:
                same[:, places] = _like_by_column(self._frame, row, places)
            else:
                same[:, places] = like
        return same

    @cached_property
    def _moves(self) -> NDArray[np.int64] | None:
        """Which column of the joined blocks stands where in the model's frame; None: as it is."""
        joined = [place for block in self._blocks for place in block.places]
        return None if joined == self._order else np.argsort(joined)[self._order]

    @cached_property
    def _labels(self) -> Any:
        """The columns' labels in the model's order, made once: thousands of them take a while."""
        import pandas as pd

        labels = self._layout.own_labels
        return pd.Index(labels) if isinstance(labels, list) else labels


@dataclass(frozen=True, eq=False)
class _NumpyBlock:
    """Columns of one type of numpy."""

    places: list[int]  #: of the columns in the pool, w of them
    cells: NDArray[Any]  #: (w, n)

    def taken(self, cells: Cells) -> NDArray[Any]:
        """Return its part (w, m) of the cells (m, d)."""
        own = cells.T if len(self.places) == cells.shape[1] else cells.T[self.places]
        return np.take_along_axis(self.cells, own, axis=1)

    def like(self, row: int) -> Any:
        """Return which of its cells (n, w) are like those of a row; None where it cannot say."""
        kind = self.cells.dtype.kind
        if kind not in "biufmM":
            return None
        same = self.cells == self.cells[:, row, None]
        if kind == "f":
            same &= _with_same_sign(self.cells, self.cells[:, row, None])
        if kind in "fmM":
            missing = np.isnan(self.cells) if kind == "f" else np.isnat(self.cells)
            same |= missing & missing[:, row, None]
        return same.T


def _numpy_blocks(native: Any) -> list[_NumpyBlock]:
    """Return the columns of a pandas frame that have types of numpy."""
    blocks = []
    for dtype, places in _places_by_type(list(native.dtypes)).items():
        if isinstance(dtype, np.dtype):
            is_whole = len(places) == native.shape[1]
            columns = native if is_whole else native.iloc[:, places]
            blocks.append(_NumpyBlock(places, columns.to_numpy().T))
    return blocks


def _pandas_strips(native: Any) -> list[_Strip]:
    """Return the columns of a pandas frame that have types of its own."""
    import pandas as pd

    is_own = [not isinstance(dtype, np.dtype) for dtype in native.dtypes]
    if not any(is_own):
        return []
    # not by place, for which pandas goes through all columns each time
    columns = dict(enumerate(series for _, series in native.items()))
    texts: dict[Any, list[int]] = {}
    strips = []
    for place in np.flatnonzero(is_own).tolist():
        dtype = columns[place].dtype
        if isinstance(dtype, pd.StringDtype) and native.size <= MOST_CELLS:
            texts.setdefault(dtype, []).append(place)
        else:
            # categories in two orders are one type to pandas, though their codes differ
            strips.append(_Strip([place], columns[place].array))
    for places in texts.values():
        long = pd.concat([columns[place] for place in places], ignore_index=True).array
        strips.append(_Strip(places, long.take(np.arange(len(long)))))  # without its chunks
    return strips


def _like_pandas(strip: _Strip, row: int, rows: int) -> Any:
    """Return which cells (n, w) of categories or text are like those of a row; None of others."""
    import pandas as pd

    cells = strip.cells
    if isinstance(cells.dtype, pd.CategoricalDtype):
        return (cells.codes == cells.codes[row])[:, None]
    if not isinstance(cells.dtype, pd.StringDtype):
        return None
    first = rows * np.arange(len(strip.places)) + row
    others = cells.take(np.repeat(first, rows))
    equal = pd.array(cells == others, dtype="boolean").to_numpy(dtype=bool, na_value=False)
    like = equal | (cells.isna() & others.isna())
    return like.reshape(-1, rows).T


# polars


class PolarsPool:
    """A pool of polars' rows, with a series for the columns of each type."""

    def __init__(self, frame: Frame, layout: FrameLayout) -> None:
        self._frame = frame
        self._order = _order(frame, layout)
        self._names = list(layout.order)
        self._strips = self._laid_out()

    def _laid_out(self) -> list[_Strip]:
        import polars as pl

        native = self._frame.to_native().rechunk()
        columns = native.get_columns()
        if native.width * native.height > MOST_CELLS:
            return [_Strip([place], column) for place, column in enumerate(columns)]

        strips = []
        for dtype, places in _places_by_type(native.dtypes).items():
            if dtype == pl.Object or len(places) == 1:
                strips += [_Strip([place], columns[place]) for place in places]
            else:
                laid = pl.concat([columns[place].alias("") for place in places])
                strips.append(_Strip(places, laid))
        return strips

    def mix(self, cells: Cells) -> Any:
        """Return the frame, of the user's library, with cells (m, d) of the pool's rows."""
        import polars as pl

        taken: list[Any] = [None] * cells.shape[1]
        for strip in self._strips:
            long = strip.cells[strip.numbers(cells, len(self._frame))]
            for place, column in strip.parts(long):
                taken[place] = column
        columns = zip(self._order, self._names, strict=True)
        return pl.DataFrame([taken[place].alias(name) for place, name in columns])

    def like(self, row: int) -> NDArray[np.bool_]:
        """Return which cells (n, d) are to a model like those of a row."""
        import polars as pl

        same = np.zeros(self._frame.shape, dtype=np.bool_)
        schema = self._frame.schema
        compared = [number for number, name in enumerate(schema) if is_compared(schema[name])]
        if not compared:
            return same
        native = self._frame.to_native()[:, compared]
        like = native.select(pl.all().eq_missing(pl.all().get(row)))
        same[:, compared] = like.to_numpy()
        floats = [number for number, name in enumerate(schema) if schema[name].is_float()]
        if floats:
            numbers = number_table(self._frame[:, floats])
            same[:, floats] &= _with_same_sign(numbers, numbers[row])
        return same


# pyarrow


class PyarrowPool:
    """A pool of pyarrow's rows, with an array for the columns of each type of one width."""

    def __init__(self, frame: Frame, layout: FrameLayout) -> None:
        self._frame = frame
        self._order = _order(frame, layout)
        self._names = list(layout.order)
        self._strips = self._laid_out()

    def _laid_out(self) -> list[_Strip]:
        import pyarrow as pa

        table = self._frame.to_native()
        is_small = table.num_columns * table.num_rows <= MOST_CELLS
        strips = []
        for dtype, places in _places_by_type(table.schema.types).items():
            # text of many columns may be too long for one array, and each has its own dictionary
            if is_small and pa.types.is_primitive(dtype):
                chunks = [chunk for place in places for chunk in table.column(place).chunks]
                strips.append(_Strip(places, pa.concat_arrays(chunks)))
            else:
                strips += [_Strip([place], table.column(place)) for place in places]
        return strips

    def mix(self, cells: Cells) -> Any:
        """Return the frame, of the user's library, with cells (m, d) of the pool's rows."""
        import pyarrow as pa

        taken: list[Any] = [None] * cells.shape[1]
        for strip in self._strips:
            long = strip.cells.take(pa.array(strip.numbers(cells, len(self._frame))))
            for place, column in strip.parts(long):
                taken[place] = column
        return pa.Table.from_arrays([taken[place] for place in self._order], names=self._names)

    def like(self, row: int) -> NDArray[np.bool_]:
        """Return which cells (n, d) are to a model like those of a row."""
        count, width = self._frame.shape
        same = np.zeros((count, width), dtype=np.bool_)
        everywhere = np.full((count, width), row)
        dtypes = list(self._frame.schema.values())
        for strip in self._strips:
            if is_compared(dtypes[strip.places[0]]):
                like = _like_arrow(strip.cells, strip.numbers(everywhere, count))
                same[:, strip.places] = like.reshape(-1, count).T
        return same


def _like_arrow(cells: Any, others: Cells) -> NDArray[np.bool_]:
    """Return which cells (n,) of an array are like others of the same array, by their numbers."""
    import pyarrow as pa
    from pyarrow import compute as pc

    if pa.types.is_dictionary(cells.type):
        cells = cells.cast(cells.type.value_type)
    if pa.types.is_float16(cells.type):  # which pyarrow cannot compare
        cells = cells.cast(pa.float32())
    other = cells.take(pa.array(others))
    equal = pc.fill_null(pc.equal(cells, other), fill_value=False)
    both_missing = pc.and_(pc.is_null(cells), pc.is_null(other))
    same = np.asarray(pc.or_(equal, both_missing).to_numpy(zero_copy_only=False))
    if pa.types.is_floating(cells.type):
        same &= _with_same_sign(np.asarray(cells), np.asarray(other))
    return same
