"""Rows that are an array of Python objects: numbers of several types, each of which stays as it is.

They are mixed like the cells of a frame, by the row of a pool that they stand in. Text is refused.
"""

from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from shearshap.adapters import AdaptedModel
from shearshap.inputs.arrays import absent_rows, background_source, checked_rows, known_numpy
from shearshap.inputs.background import ParsedBackground
from shearshap.inputs.display import NumberDisplay
from shearshap.inputs.encoded import Inputs
from shearshap.inputs.players import Players

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
    rows: Any,
    background: ParsedBackground,
    find_players: Callable[[tuple[int, ...]], Players],
    model: AdaptedModel,
) -> Inputs:
    """Encode an array of objects (r, *shape), all of them numbers."""
    numbers = checked_rows(rows, "rows", missing=model.takes_missing)
    shape = tuple(numbers.shape[1:])
    players = find_players(shape)
    source = background_source(background, numbers, missing=model.takes_missing)
    absent = absent_rows(background, source, players.owner)

    own = np.asarray(rows)
    cells = own if background.of_explained else background.rows
    pool = np.concatenate([own.reshape(len(own), -1), _absent_objects(cells, source, absent)])
    count = len(own)
    width = pool.shape[1]
    places = torch.arange(len(pool), device="cpu")[:, None].expand(-1, width)

    def decode(mixed: Tensor) -> Objects:
        taken = pool[mixed.reshape(-1, width).numpy(), np.arange(width)]
        return np.asarray(taken).reshape(-1, *shape)

    flat = numbers.flatten(1)
    return Inputs(
        rows=places[:count],
        background=places[count:],
        shape=shape,
        owner=players.owner,
        names=players.names,
        decode=decode,
        display=NumberDisplay(flat, flat, players.owner, players.columns),
        index=np.arange(count),
        untouched=lambda wanted: own[:wanted].copy(),
    )


def _absent_objects(given: Any, source: Tensor, absent: Tensor) -> Objects:
    """Return the background (b, d) as objects; a value that the background's rows hold is theirs.

    `given` are those rows as the user passed them, `source` (n, *shape) are their numbers.
    """
    cells = known_numpy(absent).astype(object)
    if not is_of_objects(given):
        return cells

    rows = known_numpy(source.flatten(1))
    objects = np.asarray(given).reshape(len(rows), -1)
    if len(cells) == len(rows):
        return objects  # the background rows themselves, or the statistic of one
    for column, number in enumerate(cells[0]):
        same = rows[:, column] == number
        if same.any():
            cells[0, column] = objects[same.argmax(), column]
    return cells
