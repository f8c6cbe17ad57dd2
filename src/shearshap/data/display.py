"""Labels of rows, and the players' inputs as numbers and words, for people to read.

Nothing is computed before it is read: making words of a large frame takes longer than all the rest.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import narwhals.stable.v2 as nw
import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from shearshap.data.frames import (
    Frame,
    as_frame,
    codes_of,
    column_labels,
    hashable_values,
    number_table,
    numpy_places,
    values_of,
)
from shearshap.errors import InputError
from shearshap.games.batches import to_numpy
from shearshap.result.cells import label_array

Words = NDArray[np.object_]

Index = str | Iterable[Any] | None
"""The rows' labels that a user may pass: a column's name, labels, or nothing."""

IndexName = str | tuple[str | None, ...] | None
"""The labels' name; of several levels, the names of all."""


@dataclass(frozen=True, eq=False)
class NumberDisplay:
    """The display of rows of numbers."""

    rows: Tensor  #: (r, d) in the user's type
    placed: Tensor  #: (r, d) in the model's type and on its device, where blocks may be faster
    owner: NDArray[np.int64]  #: (d,)
    columns: Sequence[str] = ()  #: the inputs' names, if they are known

    @cached_property
    def data(self) -> NDArray[np.float64]:
        """A number for each player of each row, (r, p).

        That is a single input's own number, the place of the input that is on in a one-hot block,
        and the mean of any other block.
        """
        if every_input_plays(self.owner):
            numbers = _doubles(self.rows)
            is_users_own = self.rows.device.type == "cpu" and self.rows.dtype == torch.float64
            return numbers.copy() if is_users_own else numbers

        data = self._blocks[0]  # which has no other reader
        if self.placed.dtype != self.rows.dtype:  # the model's type may have fewer digits
            single = np.flatnonzero(np.bincount(self.owner)[self.owner] == 1)
            place = torch.as_tensor(single, device=self.rows.device)
            data[:, self.owner[single]] = _doubles(self.rows[:, place])
        return data

    @cached_property
    def words(self) -> Words | None:
        """The column that is on of a one-hot block, else the block's numbers, (r, p)."""
        if not self.columns or every_input_plays(self.owner):
            return None

        cells = to_numpy(self.rows)
        words = joined_by_player(cells, self.owner)
        names = np.array(self.columns, dtype=object)
        one_hot = self._blocks[1]
        for player in np.flatnonzero(one_hot.any(axis=0)):
            own = np.flatnonzero(self.owner == player)
            column_on = names[own[cells[:, own].argmax(axis=1)]]
            words[:, player] = np.where(one_hot[:, player], column_on, words[:, player])
        return words

    @cached_property
    def _blocks(self) -> tuple[NDArray[np.float64], NDArray[np.bool_]]:
        numbers = self.placed if self.placed.is_floating_point() else self.placed.double()
        return _block_numbers(numbers, torch.from_numpy(self.owner))


@dataclass(frozen=True, eq=False)
class CellDisplay:
    """The display of a frame's cells."""

    frame: Frame  #: (r, d)
    owner: NDArray[np.int64]  #: (d,)

    @property
    def columns(self) -> Sequence[str]:
        """The inputs' names, (d,)."""
        return self.frame.columns

    @property
    def data(self) -> NDArray[np.float64]:
        """A number for each player of each row, (r, p)."""
        return self._numbers.data

    @cached_property
    def words(self) -> Words | None:
        """Each player's cells as people read them, (r, p)."""
        if all(dtype.is_numeric() for dtype in self.frame.schema.values()):
            return self._numbers.words
        if every_input_plays(self.owner):
            return self._cells
        return joined_by_player(self._cells, self.owner)

    @cached_property
    def _cells(self) -> Words:
        """Every cell as people read it, (r, d); a missing one is None."""
        frame = self.frame
        cells = np.empty(frame.shape, dtype=object)
        types = list(frame.schema.values())
        doubles = [place for place, dtype in enumerate(types) if dtype == nw.Float64()]
        if doubles:
            numbers = number_table(frame[:, doubles])
            plain = numbers.astype(object)
            plain[np.isnan(numbers)] = None
            cells[:, doubles] = plain
        integers = [place for place in numpy_places(frame) if types[place] == nw.Int64()]
        if integers:
            cells[:, integers] = frame.to_native().iloc[:, integers].to_numpy().astype(object)

        for place in set(range(len(types))).difference(doubles, integers):
            column = frame[frame.columns[place]]
            values = values_of(column) if types[place].is_numeric() else hashable_values(column)
            # not by assigning the list, which numpy would take for a table if cells are tuples
            cells[:, place] = np.fromiter(values, dtype=object, count=len(values))
        return cells

    @cached_property
    def _numbers(self) -> NumberDisplay:
        """A number for every cell, (r, d).

        A number is itself. That of any other cell is its place among the column's sorted values.
        """
        numbers = np.empty(self.frame.shape)
        is_number = np.array([dtype.is_numeric() for dtype in self.frame.schema.values()])
        if is_number.any():
            numbers[:, is_number] = number_table(self.frame[:, np.flatnonzero(is_number).tolist()])
        for place in np.flatnonzero(~is_number):
            numbers[:, place] = codes_of(self._cells[:, place].tolist())
        table = torch.from_numpy(numbers)
        return NumberDisplay(table, table, self.owner, self.frame.columns)


# Players


def every_input_plays(owner: NDArray[np.int64]) -> bool:
    """Return whether every input is a player of its own, in the inputs' order."""
    return bool(np.array_equal(owner, np.arange(owner.size)))


def joined_by_player(cells: NDArray[Any], owner: NDArray[np.int64]) -> Words:
    """Return the cells (r, d) of each player, (r, p): one as it is, several joined by commas."""
    players = int(owner.max()) + 1
    joined = np.empty((len(cells), players), dtype=object)
    for player in range(players):
        block = cells[:, owner == player]
        if block.shape[1] == 1:
            joined[:, player] = block[:, 0]
        else:
            joined[:, player] = [", ".join(map(str, row)) for row in block]
    return joined


def _block_numbers(x: Tensor, owner: Tensor) -> tuple[NDArray[np.float64], NDArray[np.bool_]]:
    """Return each player's number, of inputs x (r, d), and whether its inputs are one-hot: (r, p).

    Let x have d = 4 inputs of players 0, 1, 1, 1. Then a row

        x      7  0  0  1
        place  0  0  1  2      of each input in its block

    has the numbers 7 (a block of one is no one-hot block: its mean) and 2 (the place that is on).
    """
    own = owner.to(x.device)
    size = torch.bincount(own).to(x.dtype)
    place = _places(own).to(x.dtype)

    def total(numbers: Tensor) -> Tensor:
        """Sum inputs (r, d) by player, (r, p)."""
        zeros = torch.zeros((len(x), len(size)), dtype=x.dtype, device=x.device)
        return zeros.index_add_(1, own, numbers.to(x.dtype))

    known = x.nan_to_num()
    sums = total(known)
    binary = total((x == 0) | (x == 1)) == size
    one_hot = binary & (sums == 1) & (size > 1)

    numbers = torch.where(one_hot, total(known * place), sums / size)
    has_missing = total(x.isnan()) > 0
    numbers = numbers.masked_fill(has_missing, torch.nan)
    return _doubles(numbers), to_numpy(one_hot)


def _places(owner: Tensor) -> Tensor:
    """Return each input's place in its player's block, (d,): owners 0 1 0 1 1 have 0 0 1 1 2."""
    order = torch.argsort(owner, stable=True)
    size = torch.bincount(owner)
    start = size.cumsum(0) - size  # of each player's block in that order

    places = torch.empty_like(owner)
    places[order] = torch.arange(len(owner), device=owner.device) - start[owner[order]]
    return places


def _doubles(numbers: Tensor) -> NDArray[np.float64]:
    return to_numpy(numbers.double())


# The labels of rows


def row_labels(frame: Frame | None, index: Index, rows: int) -> tuple[NDArray[Any], IndexName]:
    """Return a label for each row, (r,), and the labels' name, if there is one.

    `frame` holds the rows, if they are a frame. Without an `index` the labels are those of a pandas
    frame, else 0, 1, 2, ...
    """
    if isinstance(index, str):
        if frame is None:
            raise InputError(
                f"index: the rows are not a frame with a column {index!r}; pass one label per row"
            )
        if index not in frame.columns:
            known = ", ".join(frame.columns)
            raise InputError(f"index: there is no column {index!r}; the rows have {known}")
        return label_array(frame[index]), index
    if index is not None:
        return _checked_labels(index, rows), _name(index)

    own = None if frame is None else nw.maybe_get_index(frame)
    if own is None:
        return np.arange(rows), None
    return label_array(own), _name(own)


def without_column(rows: Any, name: str, argument: str) -> Any:
    """Return a frame without a column; rows that have no such column as they are."""
    frame = as_frame(rows, argument)
    if frame is None or name not in frame.columns:
        return rows
    labels = column_labels(rows, argument)
    if labels is not None:
        return rows.drop(columns=[labels.index[labels.place[name]]])
    return frame.drop(name).to_native()


def _checked_labels(index: Any, rows: int) -> NDArray[Any]:
    if not isinstance(index, Iterable):
        raise InputError(f"index: expected a column's name or one label per row, got {index!r}")
    labels = label_array(index)
    if labels is index:
        labels = labels.copy()  # the explanation's own: the user may write into the array
    if labels.shape != (rows,):
        shown = f"shape {labels.shape}" if labels.ndim > 1 else len(labels)
        raise InputError(f"index: expected {rows} labels, one per row, got {shown}")
    return labels


def _name(labels: Any) -> IndexName:
    """Return the name of labels of pandas or polars; of several levels, the names of all."""
    names = getattr(labels, "names", None)
    if names is None or len(names) == 1:
        name = getattr(labels, "name", None)
        return None if name is None else str(name)
    if all(name is None for name in names):
        return None
    return tuple(None if name is None else str(name) for name in names)
