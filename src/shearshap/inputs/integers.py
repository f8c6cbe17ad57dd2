"""Integers stay integers where floating numbers would change what the model says.

A column of integers and a background that is no integer, such as a mean, cannot both be kept. What
the model then gets depends on the model and the background alone:

    the background's number                          the model gets      the background is
    whole                                            integers            as it is
    of integers beyond 2^53, which are ids           integers            rounded
    any other, and floats do no harm                 floats              as it is
    any other, and the model tells 1 from 1.0        integers            rounded, with a warning

Whether floats do harm is tried: the model is called with two rows as they are, and as floats. Only
a statistic is rounded. Background rows that the user gave are kept, or refused.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any
from warnings import warn

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from shearshap.adapters import AdaptedModel
from shearshap.errors import InputError, ShearWarning, level_of_caller
from shearshap.inputs.background import STATISTICS, ParsedBackground

LARGEST_EXACT = 1 << 53
"""Beyond this number, two integers may be one number in double precision."""

TRIED_ROWS = 2
"""The rows that the model is called with, as they are and as floats."""

TOLERANCE = 1e-6
"""The relative difference up to which two answers are the same."""

_NAMED = 3  #: how many columns a message names


def beyond_doubles(lowest: int | None, highest: int | None) -> bool:
    """Return whether integers from `lowest` to `highest` are too large for double precision."""
    if lowest is None or highest is None:
        return False
    return int(lowest) < -LARGEST_EXACT or int(highest) > LARGEST_EXACT


def columns_of_ids(table: NDArray[Any]) -> NDArray[np.bool_]:
    """Return which columns of integers (n, d) are too large for double precision, (d,)."""
    if table.dtype.kind not in "iu" or table.dtype.itemsize < 8:
        return np.zeros(table.shape[1], dtype=np.bool_)
    outside = table > LARGEST_EXACT
    if table.dtype.kind == "i":
        outside |= table < -LARGEST_EXACT
    return np.asarray(outside.any(axis=0))


def whole_statistic(name: str, numbers: Sequence[int]) -> int:
    """Return a statistic of integers, rounded to the nearest one, however large they are."""
    count = len(numbers)
    if name == "mean":
        return (2 * sum(numbers) + count) // (2 * count)
    if name == "median":
        ordered = sorted(numbers)
        return (ordered[(count - 1) // 2] + ordered[count // 2] + 1) // 2

    column = np.array(numbers)[:, None]
    (number,) = STATISTICS[name](column, np.zeros(1, np.int64))
    return int(number) if isinstance(number, np.integer) else round(float(number))


# Trying floats


@dataclass(frozen=True)
class Trial:
    """Whether a model answers the same for integers and for the same numbers as floats."""

    harmless: bool
    evaluations: int  #: that it took


def try_floats(model: AdaptedModel, as_they_are: Any, as_floats: Any, rows: int) -> Trial:
    """Call a model with `rows` rows as they are, and as floats, and compare its answers."""
    with torch.no_grad():
        try:
            usual = model.call(as_they_are)
        except Exception:  # noqa: BLE001  (whatever the model raises)
            # it may take floats alone; if it does not, the game says what is wrong
            return Trial(harmless=True, evaluations=rows)
        try:
            other = model.call(as_floats)
        except Exception:  # noqa: BLE001  (whatever the model raises)
            return Trial(harmless=False, evaluations=2 * rows)
        if _same(usual, other):
            return Trial(harmless=True, evaluations=2 * rows)

        # a random model differs from itself, too, and types have nothing to do with it
        again = model.call(as_they_are)
    return Trial(harmless=not _same(usual, again), evaluations=3 * rows)


def _same(answer: Any, other: Any) -> bool:
    """Return whether two answers of a model are the same; True where they cannot be compared."""
    try:
        first = _plain(answer)
        second = _plain(other)
        if first.shape != second.shape:
            return False
        if first.dtype.kind not in "biuf" or second.dtype.kind not in "biuf":
            return all(map(_same_cell, first.flat, second.flat))

        # of each output by itself: one in millions must not hide the change of a probability
        scale = np.nanmax(np.abs(first), axis=0, initial=0.0)
        close = np.isclose(first, second, rtol=TOLERANCE, atol=TOLERANCE * scale, equal_nan=True)
        return bool(close.all())
    except Exception:  # noqa: BLE001  (an answer may be anything)
        return True


def _same_cell(cell: Any, other: Any) -> bool:
    """Return whether two cells are the same, or both missing."""
    return bool(cell == other) or (cell is None and other is None) or bool(cell != cell)


def _plain(answer: Any) -> NDArray[Any]:
    if isinstance(answer, Tensor):
        return answer.detach().cpu().double().numpy()
    array = np.asarray(answer)
    return array.astype(np.float64) if array.dtype.kind in "biuf" else array


# What the user is told


def warn_of_rounding(
    background: ParsedBackground, columns: Sequence[tuple[Any, float, int]], cause: str
) -> None:
    """Warn that a statistic was rounded; a column is its name, its statistic, and the integer."""
    listed = [
        f"{background.statistic} {number:.6g} of column {name!r} to {rounded}"
        for name, number, rounded in columns[:_NAMED]
    ]
    if len(columns) > _NAMED:
        listed.append(f"those of {len(columns) - _NAMED} more columns")
    warn(
        f"{background.argument}: {cause}, so integers stay integers, and the background is "
        f"rounded: {', '.join(listed)}; pass {background.argument}=('mode', rows), or rows of "
        "floats",
        ShearWarning,
        stacklevel=level_of_caller(),
    )


def refuse_floats(background: ParsedBackground, columns: Sequence[Any]) -> InputError:
    """Return the error for background rows that integers cannot be mixed with."""
    named = f"column {columns[0]!r}"
    if len(columns) > 1:
        named += f" and {len(columns) - 1} more"
    return InputError(
        f"{background.argument}: the rows hold integers in {named}, the background other numbers, "
        "and the model answers differently where the rows are made floats; pass a background of "
        "integers, or rows of floats"
    )
