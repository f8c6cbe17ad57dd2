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

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import groupby
from typing import Any, Protocol

import narwhals.stable.v2 as nw
import numpy as np
from numpy.typing import NDArray

from shearshap.inputs.columns import Column, Frame
from shearshap.inputs.native_frames import FrameLayout

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
    return like.to_numpy()


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


# pandas


class PandasPool:
    """A pool of pandas' rows, with an array for the columns of each type of numpy."""

    def __init__(self, frame: Frame, layout: FrameLayout) -> None:
        self._frame = frame
        self._layout = layout
        self._blocks = _blocks(frame.to_native())

    def mix(self, cells: Cells) -> Any:
        """Return the frame, of the user's library, with cells (m, d) of the pool's rows."""
        import pandas as pd

        parts = [block.mix(cells) for block in self._blocks]
        mixed = parts[0] if len(parts) == 1 else pd.concat(parts, axis=1)
        if self._moves is not None:
            mixed = mixed.iloc[:, self._moves]
        mixed.columns = self._labels.copy()  # the model may give them another name
        return mixed

    def like(self, row: int) -> NDArray[np.bool_]:
        """Return which cells (n, d) are to a model like those of a row."""
        same = np.zeros(self._frame.shape, dtype=np.bool_)
        for block in self._blocks:
            like = block.like(row)
            if like is None:
                like = _like_by_column(self._frame, row, block.places)
            same[:, block.places] = like
        return same

    @cached_property
    def _moves(self) -> NDArray[np.int64] | None:
        """Which column of the joined blocks stands where in the model's frame; None: as it is."""
        joined = [place for block in self._blocks for place in block.places]
        order = _order(self._frame, self._layout)
        return None if joined == order else np.argsort(joined)[order]

    @cached_property
    def _labels(self) -> Any:
        """The columns' labels in the model's order, made once: thousands of them take a while."""
        import pandas as pd

        labels = self._layout.own_labels
        return pd.Index(labels) if isinstance(labels, list) else labels


class _Block(Protocol):
    """Some columns of a pool of pandas."""

    places: list[int]  #: of its columns in the pool

    def mix(self, cells: Cells) -> Any:
        """Return the frame of its columns with cells (m, d) of the pool's rows."""

    def like(self, row: int) -> Any:
        """Return which of its cells (n, w) are like those of a row; None where it cannot say."""


def _blocks(native: Any) -> list[_Block]:
    """Return the columns of a pandas frame in blocks."""
    blocks: list[_Block] = []
    others: list[int] = []
    for dtype, places in _places_by_type(list(native.dtypes)).items():
        if isinstance(dtype, np.dtype):
            every = len(places) == native.shape[1]
            columns = native if every else native.iloc[:, places]
            blocks.append(_NumpyBlock(places, columns.to_numpy().T))
        else:
            others += places
    # not by type: to pandas, categories in two orders are one type, though their codes differ
    arrays = {place: native.iloc[:, place].array for place in others}
    texts = {place: array for place, array in arrays.items() if _is_of_text(array)}
    rest = {place: array for place, array in arrays.items() if place not in texts}
    blocks += [_ArrayBlock(list(part), list(part.values())) for part in (texts, rest) if part]
    return blocks


@dataclass(frozen=True, eq=False)
class _NumpyBlock:
    """Columns of one type of numpy."""

    places: list[int]
    cells: NDArray[Any]  #: (w, n)

    def mix(self, cells: Cells) -> Any:
        """Return the frame of its columns with cells (m, d) of the pool's rows."""
        import pandas as pd

        own = cells.T if len(self.places) == cells.shape[1] else cells.T[self.places]
        taken = np.take_along_axis(self.cells, own, axis=1)
        # the type is named, since pandas looks for text and times among objects
        return pd.DataFrame(taken.T, dtype=taken.dtype, copy=False)

    def like(self, row: int) -> Any:
        """Return which of its cells (n, w) are like those of a row; None where it cannot say."""
        kind = self.cells.dtype.kind
        if kind not in "biufmM":
            return None
        cell = self.cells[:, row, None]
        same = self.cells == cell
        if kind in "fmM":
            missing = np.isnan(self.cells) if kind == "f" else np.isnat(self.cells)
            same |= missing & missing[:, row, None]
        return same.T


@dataclass(frozen=True, eq=False)
class _ArrayBlock:
    """Columns of pandas' own types."""

    places: list[int]
    arrays: list[Any]  #: (n,) each

    def mix(self, cells: Cells) -> Any:
        """Return the frame of its columns with cells (m, d) of the pool's rows."""
        import pandas as pd

        rows = np.ascontiguousarray(cells.T[self.places])
        taken = [array.take(own) for array, own in zip(self.arrays, rows, strict=True)]
        return pd.DataFrame(dict(enumerate(taken)), copy=False)

    def like(self, row: int) -> Any:
        """Return which of its cells (n, w) are like those of a row; None where it cannot say."""
        if not all(_is_of_text(array) for array in self.arrays):
            return None
        return np.stack([_like_text(array, row) for array in self.arrays], axis=1)


def _is_of_text(array: Any) -> bool:
    """Return whether an array of pandas holds categories or text."""
    return hasattr(array, "codes") or array.dtype == "string" or array.dtype == "str"


def _like_text(array: Any, row: int) -> Any:
    """Return which texts (n,) of an array of pandas are like that of a row."""
    import pandas as pd

    if hasattr(array, "codes"):
        return array.codes == array.codes[row]
    missing = array.isna()
    if missing[row]:
        return missing
    return pd.array(array == array[row], dtype="boolean").to_numpy(dtype=bool, na_value=False)


# polars


class PolarsPool:
    """A pool of polars' rows, with a series for the columns of each type."""

    def __init__(self, frame: Frame, layout: FrameLayout) -> None:
        self._frame = frame
        self._order = _order(frame, layout)
        self._names = list(layout.order)
        self._strips = self._laid_out()

    def _laid_out(self) -> list["_Strip"]:
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
            for number, place in enumerate(strip.places):
                taken[place] = long.slice(number * len(cells), len(cells))
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
        return same


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
            for number, place in enumerate(strip.places):
                taken[place] = long.slice(number * len(cells), len(cells))
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
    return np.asarray(pc.or_(equal, both_missing).to_numpy(zero_copy_only=False))
