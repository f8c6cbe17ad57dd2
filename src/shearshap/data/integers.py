"""Integers stay integers where floating numbers would change what the model says.

A column of integers and a background that is no integer, such as a mean, cannot both be kept. What
the model then gets depends on the model and the background alone:

    the background's number                          the model gets      the background is
    whole                                            integers            as it is
    of integers beyond 2^53, which are ids           integers            rounded
    any other, and floats do no harm                 floats              as it is
    any other, and the model tells 1 from 1.0        integers            rounded, with a warning

Whether floats do harm is tried: float_trial.py. Only a statistic is rounded. Background rows that
the user gave are kept, or refused.

The rule is applied to arrays in array_types.py, and to frames in frame_types.py.
"""

from collections.abc import Sequence
from typing import Any, NamedTuple
from warnings import warn

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from shearshap.data.background import STATISTICS, ParsedBackground
from shearshap.data.tensors import in_type_of_numpy, numpy_type
from shearshap.errors import InputError, ShearWarning, level_of_caller

LARGEST_EXACT = 1 << 53
"""Beyond this number, two integers may be one number in double precision."""

_NAMED_COLUMNS = 3  #: how many columns a message names


# Ids: integers that floats cannot hold


def are_ids(lowest: int | None, highest: int | None) -> bool:
    """Return whether integers from `lowest` to `highest` are too large for double precision.

    None stands for the lowest and the highest of no integers.
    """
    if lowest is None or highest is None:
        return False
    return int(lowest) < -LARGEST_EXACT or int(highest) > LARGEST_EXACT


def columns_of_ids(table: NDArray[Any]) -> NDArray[np.bool_]:
    """Return which columns of a table (n, d) hold integers too large for double precision, (d,)."""
    if table.dtype.kind not in "iu" or table.dtype.itemsize < 8:
        return np.zeros(table.shape[1], dtype=np.bool_)
    outside = table > LARGEST_EXACT
    if table.dtype.kind == "i":
        outside |= table < -LARGEST_EXACT
    return np.asarray(outside.any(axis=0))


def statistic_of_ids(name: str, ids: Sequence[int]) -> int:
    """Return a statistic of integers, rounded to the nearest one, however large they are."""
    count = len(ids)
    if name == "mean":
        return (2 * sum(ids) + count) // (2 * count)
    if name == "median":
        ordered = sorted(ids)
        return (ordered[(count - 1) // 2] + ordered[count // 2] + 1) // 2

    column = np.array(ids)[:, None]
    (number,) = STATISTICS[name](column, np.zeros(1, np.int64))
    return int(number) if isinstance(number, np.integer) else round(float(number))


# Integer types


def fits_integer_type(numbers: Tensor, dtype: torch.dtype) -> bool:
    """Return whether numbers are the same in an integer type, or that of truth values."""
    given = in_type_of_numpy(numbers)
    wanted = numpy_type(dtype)
    if given.dtype == wanted:
        return True
    if given.dtype.kind == "f" and not (given == np.trunc(given)).all():
        return False

    lowest, highest = _limits(wanted)
    # as Python's numbers, which compare exactly: the largest integers are no doubles
    return bool(lowest <= given.min().item() and given.max().item() <= highest)


def nearest_integers(numbers: NDArray[Any], dtype: np.dtype[Any]) -> NDArray[Any]:
    """Return the integers, or truth values, of a type that are nearest to numbers (d,)."""
    if dtype.kind == "b":
        return np.asarray(np.rint(numbers) > 0)
    lowest, highest = _limits(dtype)
    integers = [min(max(round(number), lowest), highest) for number in numbers.tolist()]
    return np.array(integers, dtype=dtype)


def is_within(integer: int, dtype: np.dtype[Any]) -> bool:
    """Return whether an integer type can hold a number."""
    lowest, highest = _limits(dtype)
    return lowest <= integer <= highest


def _limits(dtype: np.dtype[Any]) -> tuple[int, int]:
    """Return the lowest and the highest number of an integer type, or that of truth values."""
    if dtype.kind == "b":
        return 0, 1
    limits = np.iinfo(dtype)
    return limits.min, limits.max


# What the user is told


class Rounding(NamedTuple):
    """A statistic that was rounded."""

    column: Any  #: its name or its number
    statistic: float
    integer: int


MODEL_TELLS = "the model tells integers from floating numbers"
ROWS_HOLD_IDS = "the rows hold integers beyond 2^53"


def warn_of_rounding(
    background: ParsedBackground, roundings: Sequence[Rounding], cause: str
) -> None:
    """Warn that a statistic was rounded, unless it was nowhere."""
    if not roundings:
        return
    listed = [
        f"{background.statistic} {rounding.statistic:.6g} of column {rounding.column!r} to "
        f"{rounding.integer}"
        for rounding in roundings[:_NAMED_COLUMNS]
    ]
    if len(roundings) > _NAMED_COLUMNS:
        listed.append(f"those of {len(roundings) - _NAMED_COLUMNS} more columns")
    warn(
        f"{background.argument}: {cause}, so integers stay integers, and the background is "
        f"rounded: {', '.join(listed)}; pass {background.argument}=('mode', rows), or rows of "
        "floats",
        ShearWarning,
        stacklevel=level_of_caller(),
    )


def not_whole_error(background: ParsedBackground, columns: Sequence[Any]) -> InputError:
    """Return the error for background rows that integers cannot be mixed with."""
    named = f"column {columns[0]!r}"
    if len(columns) > 1:
        named += f" and {len(columns) - 1} more"
    return InputError(
        f"{background.argument}: the rows hold integers in {named}, the background other numbers, "
        "and the model answers differently where the rows are made floats; pass a background of "
        "integers, or rows of floats"
    )


def ids_error(argument: str) -> InputError:
    """Return the error for ids beside a background that is not whole."""
    return InputError(
        f"{argument}: rows or background hold integers beyond 2^53, which floating numbers cannot "
        "hold exactly, beside other numbers; pass both as integers"
    )
