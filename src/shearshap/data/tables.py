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

Letters: n rows of the pool, m rows of a mix, d columns, w columns of one type.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property
from itertools import groupby
from typing import Any

import narwhals.stable.v2 as nw
import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from shearshap.data.background import (
    STATISTICS,
    ParsedBackground,
    Selection,
    is_single_number,
    mode,
    named_cells,
    standardised,
)
from shearshap.data.common_types import (
    check_exact_column,
    in_common_types,
    in_plain_types,
    type_changes,
)
from shearshap.data.display import CellDisplay
from shearshap.data.frames import (
    OBJECTS,
    Column,
    Frame,
    FrameLayout,
    Labels,
    aligned,
    as_frame,
    codes_of,
    hashable_values,
    is_numeric_or_boolean,
    native_type,
    native_types,
    number_table,
    numbers_of,
    with_columns,
)
from shearshap.data.players import Grouping, Players
from shearshap.data.tensors import MAX_EXACT_INTEGER, Inputs, check_tensor, refuse_masked
from shearshap.errors import InputError
from shearshap.games.conditional import Sampler
from shearshap.result.text import part_of

Cells = NDArray[np.int64]

EFFICIENT_ROWS = 1024
"""Rows of a frame for which the time of each row is more than that of each column."""

MAX_CELLS = 1 << 23
"""Cells of a frame beyond which it is not made larger for that."""

MAX_NAMED = 3
"""Features that a note names."""

MAX_VALUES = 64
"""Values of a column without numbers beyond which it does not count for k-means."""

COMPARED_TYPES = (nw.Boolean, nw.String, nw.Categorical, nw.Enum)
"""Types of cells, besides numbers and times, that are the same to a model if they are equal."""


def encode_frame(
    frame: Frame,
    layout: FrameLayout,
    given: ParsedBackground,
    grouping: Grouping,
) -> Inputs:
    """Encode a frame for a model that takes frames, in the layout that it takes."""
    count, width = frame.shape
    players = grouping.players((width,))
    source = frame if given.of_explained else source_frame(given.rows, frame, layout.labels)
    chosen = given.select(len(source), lambda places: _points(source[places.tolist()]))
    background = _chosen_rows(given, chosen, source, players.owner)
    if nw.dependencies.is_into_dataframe(given.rows):
        frame, background = in_plain_types(frame, background, source)
    pooled = _pooled(*in_common_types(frame, background))
    pool = FramePool(pooled, layout)
    own = torch.arange(len(pooled))[:, None].expand(-1, width)
    # a cell like the first background row's is known by that row: so null players are noticed
    alike = pool.like(count)
    cells = torch.where(torch.from_numpy(alike), count, own)
    notes = chosen.notes
    absent = cells[count:]
    sampler = None
    if given.conditional is not None:
        train, rows = _numbers_of_both(source, frame, given.conditional.kind)
        law = given.conditional.fitted(train, rows, frame.columns, given.seed)
        sampler = Sampler.of(law, absent, torch.from_numpy(np.concatenate((rows, train))))
        absent = given.draws(law)
        notes += law.notes
    if given.statistic is not None and given.chosen is None:
        notes += _equal_notes(alike[:count], frame, players)
    return Inputs(
        rows=cells[:count],
        background=absent,
        shape=(width,),
        owner=players.owner,
        names=players.names,
        paths=players.paths,
        decode=lambda mixes: pool.mix(mixes.cpu().numpy()),
        display=CellDisplay(frame, players.owner),
        index=np.arange(count),
        original_rows=lambda which: layout.native(frame[which]),
        type_changes=type_changes(frame, pooled),
        type_hint=_category_hint(frame, background),
        least_batch=max(1, min(EFFICIENT_ROWS, MAX_CELLS // width)),
        order=np.array([frame.columns.index(name) for name in layout.order]),
        weights=chosen.weights,
        background_description=chosen.description,
        notes=notes,
        sampler=sampler,
    )


def _equal_notes(alike: NDArray[np.bool_], frame: Frame, players: Players) -> tuple[str, ...]:
    """Return which features without numbers often equal a statistic, and so have the value 0.

    `alike` (r, d) says which cells are the background's.
    """
    is_number = np.array([dtype.is_numeric() for dtype in frame.schema.values()])
    words = np.setdiff1d(players.owner[~is_number], players.owner[is_number])
    counts = {
        players.names[player]: int(alike[:, players.owner == player].all(axis=1).sum())
        for player in words
    }
    worst = sorted((name for name in counts if counts[name]), key=counts.__getitem__)[::-1]
    if not worst:
        return ()
    first, *others = worst[:MAX_NAMED]
    text = f"{first} equals the background in {part_of(counts[first], len(frame), 'row')}"
    for name in others:
        text += f", {name} too" if len(frame) == 1 else f", {name} in {counts[name]:,}"
    their = "its value is" if len(worst) == 1 else "their values are"
    return (f"{text}, so {their} 0 there.",)


def _category_hint(rows: Frame, background: Frame) -> str:
    """Return that rows have text where the background has categories, if they do."""
    categories = (nw.Categorical, nw.Enum)
    names = [
        name
        for name, kind in background.schema.items()
        if isinstance(kind, categories) and not isinstance(rows.schema[name], categories)
    ]
    if not names:
        return ""
    listed = ", ".join(names[:8])
    return (
        f"The background has categories in {listed}, but the rows do not: convert the rows, in "
        "pandas with rows.astype(background.dtypes)."
    )


def _pooled(rows: Frame, background: Frame) -> Frame:
    """Return the rows and, after them, the background, in one frame."""
    pooled = nw.concat([rows, background], how="vertical")
    if not pooled.implementation.is_pyarrow():
        return pooled
    # each part has its own list of categories, and those that only the background has come last
    native = pooled.to_native().unify_dictionaries().combine_chunks()
    return nw.from_native(native, eager_only=True)


# Numbers of any columns, for distributions of rows


def _numbers_of_both(
    train: Frame, rows: Frame, kind: str
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Return training rows (n, d) and rows to explain (r, d) as numbers.

    A column without numbers has the places of its values in order. Ordered categories are in their
    own order, and others in that of their rows' mean on the first principal component.
    """
    tables = (np.empty(train.shape), np.empty(rows.shape))
    component = None
    for place, name in enumerate(train.columns):
        if all(is_numeric_or_boolean(each[name].dtype) for each in (train, rows)):
            for table, each in zip(tables, (train, rows), strict=True):
                table[:, place] = numbers_of(each[name])
            continue
        if kind == "gaussian":
            raise InputError(
                f"background: column {name!r} is {train[name].dtype}, but kind='gaussian' needs "
                "numbers; try Conditional(train, kind='copula')"
            )
        values = hashable_values(train[name])
        position = {value: at for at, value in enumerate(_own_order(train[name]))}
        if not position:
            if component is None:
                component = _first_component(_points(train))
            codes = codes_of(values)
            means = np.bincount(codes, component) / np.bincount(codes)
            ranks = means.argsort().argsort()
            position = {value: ranks[code] for value, code in zip(values, codes, strict=True)}
        tables[0][:, place] = [position[value] for value in values]
        cells = hashable_values(rows[name])
        unknown = [row for row, value in enumerate(cells) if value not in position]
        if unknown:
            raise InputError(
                f"rows: row {unknown[0]} has {cells[unknown[0]]!r} in column {name!r}, which no "
                f"training row of Conditional has ({len(unknown)} of {len(cells)} rows); add "
                "such rows to the training data"
            )
        tables[1][:, place] = [position[value] for value in cells]
    return tables


def _own_order(column: Column) -> list[Any]:
    """Return a column's categories if they have an order of their own, and None; else nothing."""
    native = column.to_native()
    is_ordered = isinstance(column.dtype, nw.Enum) or getattr(native.dtype, "ordered", False)
    return [*column.cat.get_categories().to_list(), None] if is_ordered else []


def _first_component(points: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return the first principal component (n,) of points (n, m)."""
    centred = points - points.mean(axis=0)
    _, directions = np.linalg.eigh(centred.T @ centred)
    return np.asarray(centred @ directions[:, -1])


# Mixes of rows


class FramePool:
    """The rows of a frame whose cells are mixed; a mix has the layout that the model takes.

    The cells of one column after the other are taken. A pandas frame may have thousands of columns:
    those of one numpy type are a block, and text is laid end to end, so that the cells of several
    columns are taken at once.
    """

    def __init__(self, frame: Frame, layout: FrameLayout) -> None:
        self._frame = frame  # (n, d)
        self._layout = layout
        place = {name: number for number, name in enumerate(frame.columns)}
        self._order = [place[name] for name in layout.order]
        self._is_pandas = frame.implementation.is_pandas()
        self._blocks = _numpy_blocks(frame.to_native()) if self._is_pandas else []
        in_blocks = {place for block in self._blocks for place in block.places}
        names = frame.columns
        #: the columns that are in no block, by their places
        self._others = {at: frame[names[at]] for at in range(len(names)) if at not in in_blocks}

    def mix(self, cells: Cells) -> Any:
        """Return the frame, of the user's library, with cells (m, d) of the pool's rows."""
        if not self._is_pandas:
            named = zip(self._order, self._layout.order, strict=True)
            columns = {name: self._others[place][cells[:, place]] for place, name in named}
            return self._layout.joined(columns)
        mixed = self._of_columns(cells) if self._others else self._of_blocks(cells)
        mixed.columns = self._labels.copy()  # the model may give them another name
        return mixed

    def like(self, row: int) -> NDArray[np.bool_]:
        """Return which cells (n, d) are to a model like those of a row."""
        same = np.zeros(self._frame.shape, dtype=np.bool_)
        for block in self._blocks:
            if block.cells.dtype != OBJECTS:
                same[:, block.places] = block.like(row)
                continue
            names = self._frame.columns
            for place in block.places:
                same[:, place] = _like_cell(self._frame[names[place]], row)
        for place, column in self._others.items():
            same[:, place] = _like_cell(column, row)
        return same

    # pandas

    def _of_blocks(self, cells: Cells) -> Any:
        """Return a mix of a pool that has numpy types alone."""
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
        for places, strip in self._strips:
            start = len(self._frame) * np.arange(len(places))
            mixed = strip.take((cells.T[places] + start[:, None]).reshape(-1))
            for at, place in enumerate(places):
                taken[place] = mixed[at * len(cells) : (at + 1) * len(cells)]
        return pd.DataFrame({number: taken[place] for number, place in enumerate(self._order)})

    @cached_property
    def _strips(self) -> list[tuple[list[int], Any]]:
        """Columns of pandas' own types, by their w places, as its arrays laid end to end, (w n,).

        Those of text are one strip, unless it is long: its cells are taken much faster at once.
        """
        import pandas as pd

        native = {place: column.to_native() for place, column in self._others.items()}
        strips: dict[Any, list[int]] = {}
        for place, column in native.items():
            is_text = isinstance(column.dtype, pd.StringDtype)
            is_short = len(column) * len(native) <= MAX_CELLS
            strips.setdefault(column.dtype if is_text and is_short else place, []).append(place)
        joined = [
            (own, pd.concat([native[place] for place in own], ignore_index=True).array)
            for own in strips.values()
        ]
        return [(own, strip.take(np.arange(len(strip)))) for own, strip in joined]  # in one chunk

    @cached_property
    def _moves(self) -> NDArray[np.int64] | None:
        """The places in the joined blocks of the model's columns; None: in that order."""
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
    """Columns of one numpy type."""

    places: list[int]  #: of the columns in the pool, w of them
    cells: NDArray[Any]  #: (w, n)

    def taken(self, cells: Cells) -> NDArray[Any]:
        """Return its part (w, m) of the cells (m, d)."""
        own = cells.T if len(self.places) == cells.shape[1] else cells.T[self.places]
        return np.take_along_axis(self.cells, own, axis=1)

    def like(self, row: int) -> NDArray[np.bool_]:
        """Return which of its cells (n, w), none of them objects, are like those of a row."""
        others = self.cells[:, row, None]
        same = self.cells == others
        if self.cells.dtype.kind in "fmM":
            same |= (self.cells != self.cells) & (others != others)  # both are missing
        return np.asarray(same.T)


def _numpy_blocks(native: Any) -> list[_NumpyBlock]:
    """Return the columns of a pandas frame that have types of numpy."""
    types = list(native.dtypes)
    places: dict[Any, list[int]] = {}
    # neighbours are often of one type, and looking a type up takes longer than comparing two
    for dtype, group in groupby(range(len(types)), key=types.__getitem__):
        if isinstance(dtype, np.dtype):
            places.setdefault(dtype, []).extend(group)

    blocks = []
    for own in places.values():
        columns = native if len(own) == len(types) else native.iloc[:, own]
        blocks.append(_NumpyBlock(own, columns.to_numpy().T))
    return blocks


# Cells that are alike


def _like_cell(column: Column, place: int) -> Any:
    """Return which cells (n,) of a column are like the one at a place; no objects are."""
    dtype = column.dtype
    is_compared = dtype.is_numeric() or dtype.is_temporal() or isinstance(dtype, COMPARED_TYPES)
    if not is_compared:
        return False
    if dtype.is_float() and dtype != nw.Float64():  # some libraries cannot compare 16 bits
        column = column.cast(nw.Float64())
    missing = column.is_null()
    like = missing if missing[place] else (column == column[place]).fill_null(value=False)
    if native_type(column) != OBJECTS:
        return like.to_numpy()
    # text, and perhaps both None and NaN
    kinds = np.array([type(each) for each in column.to_native()], dtype=object)
    return like.to_numpy() & (kinds == kinds[place])


# The background


def _chosen_rows(
    given: ParsedBackground, chosen: Selection, source: Frame, owner: NDArray[np.int64]
) -> Frame:
    """Return the background (b, d) from its source (n, d), whose columns belong to players (d,)."""
    if given.statistic is not None:
        return statistic_of_frame(given.statistic, source, owner)
    return source if chosen.places is None else source[chosen.places.tolist()]


def _points(source: Frame) -> NDArray[np.float64]:
    """Return rows (n, d) as points (n, m), to compare by their distances.

    A column without numbers has an axis for each value, unless it has many values.
    """
    is_number = np.array([is_numeric_or_boolean(dtype) for dtype in source.schema.values()])
    numbers = source[:, np.flatnonzero(is_number).tolist()]
    parts = [standardised(number_table(numbers))] if is_number.any() else []
    for place in np.flatnonzero(~is_number):
        codes = codes_of(hashable_values(source[source.columns[place]]))
        if codes.max() < MAX_VALUES:
            parts.append(np.eye(codes.max() + 1)[codes])
    if not parts:
        raise InputError(
            "background: k-means needs columns of numbers or of few values; try 'sample'"
        )
    return np.concatenate(parts, axis=1)


def source_frame(rows: Any, explained: Frame, labels: Labels | None) -> Frame:
    """Return the rows that a background is chosen from, with the columns of the rows to explain.

    `labels` are the columns' own labels, if those are not their names. Let the columns be "age" and
    "city":

        rows                             frame
        a frame                          the frame
        {"age": 44, "city": "Bern"}      44 Bern
        [44, "Bern"]                     44 Bern

    If all columns hold numbers, a single number stands for a row of such.
    """
    frame = as_frame(rows, "background")
    if frame is None:
        return _frame_of_cells(rows, explained, labels)
    if len(frame) == 0:
        raise InputError("background: the frame has no rows")
    return aligned(frame, explained.columns, "background")


def _frame_of_cells(rows: Any, explained: Frame, labels: Labels | None) -> Frame:
    """Return a background that is a row by name, an array, lists or a number, as a frame."""
    refuse_masked(rows, "background")
    if isinstance(rows, Tensor):
        check_tensor(rows, "background")
    names = explained.columns
    # pandas is not to look for another type, which has one missing value for both None and NaN
    own = {name: nw.Object() for name, kind in native_types(explained).items() if kind == OBJECTS}
    if is_single_number(rows):
        columns = [[float(rows)] for _ in names]
        own = {}
    elif hasattr(rows, "keys"):
        by_label = names if labels is None else list(labels.index)
        columns = [[cell] for cell in named_cells(rows, by_label)]
    else:
        columns = _columns_by_place(rows, len(names))
    series = {
        name: nw.new_series(name, cells, own.get(name), backend=explained.implementation)
        for name, cells in zip(names, columns, strict=True)
    }
    return nw.from_dict(series)


def _columns_by_place(rows: Any, width: int) -> list[list[Any]]:
    """Return the cells of one row or several, in the order of the columns, as columns."""
    listed = rows.tolist() if hasattr(rows, "tolist") else rows
    table = [*listed] if isinstance(listed, Iterable) else [listed]
    if not table or not isinstance(table[0], list | tuple):
        table = [table]
    if any(not isinstance(row, list | tuple) or len(row) != width for row in table):
        raise InputError(
            "background: expected a frame with the rows' columns, a row by name, or an array of "
            f"shape (b, {width}), got {type(rows).__name__} of another shape"
        )
    return [list(column) for column in zip(*table, strict=True)]


def statistic_of_frame(name: str, source: Frame, owner: NDArray[np.int64]) -> Frame:
    """Return a statistic of the rows of a frame: one row, with a number in the columns of numbers.

    In any other column, or with "mode", it is the most frequent cell:

        age  city
         31  Rome
         58  Oslo
         44  Bern

    The "mean" is (44.3, Bern): of equally frequent cities, the first in order.
    """
    computed = np.array([dtype.is_numeric() for dtype in source.schema.values()])
    if STATISTICS[name] is mode:  # always a value that the column holds
        computed[:] = False
    if not computed.any():
        return _mode(source, owner, computed)
    numbers = _numbers(name, source[:, np.flatnonzero(computed).tolist()], owner[computed])
    if computed.all():
        return numbers
    row = _mode(source, owner, computed)
    return with_columns(row, [numbers[column] for column in numbers.columns])


def _mode(source: Frame, owner: NDArray[np.int64], computed: NDArray[np.bool_]) -> Frame:
    """Return a row of the most frequent cells; of any cells if a number is computed.

    A player's columns are taken together, without those whose statistic is computed.
    """
    codes = np.zeros(source.shape, np.int64)
    for place in np.flatnonzero(~computed):
        codes[:, place] = codes_of(hashable_values(source[source.columns[place]]))
    row_of_column = (codes == mode(codes, owner)).argmax(axis=0)
    rows, places = np.unique(row_of_column, return_inverse=True)
    pool = FramePool(source[rows.tolist()], FrameLayout(source.columns, None))
    return nw.from_native(pool.mix(places[None]), eager_only=True)


def _numbers(name: str, source: Frame, owner: NDArray[np.int64]) -> Frame:
    """Return the statistic of columns of numbers as a frame of one row of floats."""
    table = number_table(source)
    is_large = (np.abs(table) >= MAX_EXACT_INTEGER).any(axis=0)
    for place in np.flatnonzero(is_large):
        check_exact_column(source[source.columns[place]])
    missing = np.flatnonzero(np.isnan(table).all(axis=0))
    if missing.size:
        raise InputError(
            f"background: all values of column {source.columns[missing[0]]!r} are missing, so it "
            f"has no {name}"
        )

    # players without a column of numbers are left out, and the others numbered anew
    _, own = np.unique(owner, return_inverse=True)
    row = STATISTICS[name](table, own)
    cells = {column: [number] for column, number in zip(source.columns, row.tolist(), strict=True)}
    return nw.from_dict(cells, backend=source.implementation)
