"""Rows that are an array of Python objects: numbers of several types, each of which stays as it is.

They are mixed like the cells of a frame, by the row of a pool that they stand in:

    pool   0    1              Fraction(1, 2)     row 0
           1    Decimal("3")   True               row 1
           2    0              0.5                background

Row 1 without its first number is (2, 1), which is decoded as (0, True). Text is refused.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from torch import Tensor

from shearshap.data.array_background import ArrayBackground, array_background
from shearshap.data.background import ParsedBackground
from shearshap.data.display import NumberDisplay
from shearshap.data.encoded import Inputs, row_numbers
from shearshap.data.players import Grouping
from shearshap.data.tensors import checked_rows, in_type_of_numpy
from shearshap.models import AdaptedModel

Objects = NDArray[np.object_]


def is_of_objects(rows: Any) -> bool:
    """Return whether rows are an array, or lists, of objects."""
    if isinstance(rows, Tensor):
        return False
    try:
        return np.asarray(rows).dtype == object
    except ValueError:  # lists of several lengths
        return False


def encode_objects(
    rows: Any, given: ParsedBackground, grouping: Grouping, model: AdaptedModel
) -> Inputs:
    """Encode an array of objects (r, *shape), all of them numbers."""
    missing = model.takes_missing
    numbers = checked_rows(rows, "rows", missing=missing)
    shape = tuple(numbers.shape[1:])
    players = grouping.players(shape)
    background = array_background(given, numbers, players.owner, missing=missing)

    objects = np.asarray(rows)
    count = len(objects)
    pool = np.concatenate([objects.reshape(count, -1), _background_objects(background, objects)])
    cells = row_numbers(len(pool), pool.shape[1:])
    flat = numbers.flatten(1)
    return Inputs(
        rows=cells[:count],
        background=cells[count:],
        shape=shape,
        owner=players.owner,
        names=players.names,
        decode=ObjectPool(pool, shape).decode,
        display=NumberDisplay(flat, flat, players.owner, players.columns),
        index=np.arange(count),
        untouched=lambda which: objects[which].copy(),
    )


@dataclass(frozen=True, eq=False)
class ObjectPool:
    """The rows whose cells are mixed."""

    objects: Objects  #: (n, d)
    shape: tuple[int, ...]  #: of one row, as the model takes it

    def decode(self, cells: Tensor) -> Objects:
        """Return the objects (m, *shape) whose cells are taken from the pool's rows."""
        width = self.objects.shape[1]
        rows = cells.reshape(-1, width).numpy()
        taken = self.objects[rows, np.arange(width)]
        return np.asarray(taken).reshape(-1, *self.shape)


def _background_objects(background: ArrayBackground, explained: Objects) -> Objects:
    """Return the background (b, d) as objects; a number that its source holds is the source's."""
    given = explained if background.given.of_explained else background.given.rows
    cells = in_type_of_numpy(background.rows).astype(object)
    if not is_of_objects(given):
        return cells

    source = in_type_of_numpy(background.source.flatten(1))
    objects = np.asarray(given).reshape(len(source), -1)
    if len(cells) == len(source):
        return objects  # the background rows themselves, or the statistic of one
    for column, number in enumerate(cells[0]):
        same = source[:, column] == number
        if same.any():
            cells[0, column] = objects[same.argmax(), column]
    return cells
