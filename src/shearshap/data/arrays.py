"""Rows that are an array or a tensor: they are mixed as they are, in one type.

    rows           31  1.8     row 0
                   58  1.6     row 1
    background     44  1.7

Row 1 without its first number is (44, 1.6), which the model gets as an array of the rows' kind.

The type is the model's. If it takes any, the background takes on the type of the rows, or both are
promoted to a common type if that would change the background:

    rows         background          the model takes     mixed as
    float64      any                 float32             float32
    float32      float64             any type            float32, whose precision is enough
    uint8        int64, 7            any type            uint8
    uint8        int64, 300          any type            int64
    int64        float64, 0.5        any type            float64
    objects      any                 any type            float64
    indices      int64, 7            float32             int64

Indices, such as those of an embedding's rows, are what a tensor of integers holds. When the rows'
type changes, all predictions are compared with the model's own (games/agreement.py).
"""

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from shearshap.data.background import (
    STATISTICS,
    ParsedBackground,
    is_single_number,
    named_cells,
)
from shearshap.data.display import NumberDisplay
from shearshap.data.frames import aligned, as_frame, matrix
from shearshap.data.players import Grouping
from shearshap.data.tensors import (
    Inputs,
    as_numpy,
    check_exact,
    check_finite,
    check_range,
    checked_rows,
    in_type_of_numpy,
    is_of_objects,
    numeric,
    numpy_type,
)
from shearshap.errors import InputError
from shearshap.games.devices import to_device
from shearshap.models import AdaptedModel


def encode_array(
    rows: Any, given: ParsedBackground, grouping: Grouping, model: AdaptedModel
) -> Inputs:
    """Encode an array (r, *shape) whose columns have names or none."""
    missing = model.takes_missing
    columns = grouping.columns
    table = checked_rows(rows, "rows", missing=missing, columns=columns)
    shape = tuple(table.shape[1:])
    players = grouping.players(shape)
    background = array_background(given, table, players.owner, missing=missing, columns=columns)

    dtype = _common_type(rows, table, background, model, given.argument)
    decode = array_decoder(rows, table.dtype, model)
    mixed = _placed(table.flatten(1), model, dtype, given.argument)
    unmixed = mixed.reshape(-1, *shape) if model.takes_tensors else rows
    return Inputs(
        rows=mixed,
        background=_placed(background, model, dtype, given.argument),
        shape=shape,
        owner=players.owner,
        names=players.names,
        decode=decode,
        display=NumberDisplay(table.flatten(1), mixed, players.owner, players.columns),
        index=np.arange(len(table)),
        untouched=lambda which: _untouched(unmixed, which, decode),
        type_changes=_type_changes(rows, table.dtype, dtype, model),
    )


def _placed(rows: Tensor, model: AdaptedModel, dtype: torch.dtype, argument: str) -> Tensor:
    """Return rows (n, d) on the model's device and in the type to mix in."""
    usable = rows.clone() if rows.is_inference() else rows
    placed = to_device(usable, model.device, dtype)
    if not model.takes_missing:  # else what is not finite is never mixed by numbers
        check_range(placed, argument)
    return placed


def _untouched(rows: Any, which: slice, decode: Callable[[Tensor], Any]) -> Any:
    """Return a copy of some rows as the model takes them: an array just as it was passed."""
    if isinstance(rows, Tensor):
        return decode(rows[which].detach().clone())
    return np.array(np.asarray(rows)[which])


# One type


def _common_type(
    rows: Any, table: Tensor, background: Tensor, model: AdaptedModel, argument: str
) -> torch.dtype:
    """Return the type in which a table of the rows and a background (b, d) are mixed."""
    are_indices = isinstance(rows, Tensor) and not rows.is_floating_point()
    if are_indices:  # integers, whatever type the model's parameters have
        check_whole(background, table.dtype, argument)
        return table.dtype
    if model.dtype is not None:
        return model.dtype
    if table.is_floating_point() or fits_integer_type(background, table.dtype):
        return table.dtype

    ours = as_numpy(table)
    theirs = in_type_of_numpy(background)
    promoted = np.promote_types(ours.dtype, theirs.dtype)
    if promoted.kind == "f":
        check_exact(ours, argument)
        check_exact(theirs, argument)
    return torch.from_numpy(np.empty(0, promoted)).dtype


def check_whole(background: Tensor, dtype: torch.dtype, argument: str) -> None:
    """Raise if a background does not fit the integer type of the rows."""
    if not fits_integer_type(background, dtype):
        raise InputError(f"{argument}: integer rows need an integer background; try ('mode', rows)")


def fits_integer_type(numbers: Tensor, dtype: torch.dtype) -> bool:
    """Return whether numbers are the same in an integer type, or that of truth values."""
    given = in_type_of_numpy(numbers)
    wanted = numpy_type(dtype)
    if given.dtype == wanted:
        return True
    if given.dtype.kind == "f" and not (given == np.trunc(given)).all():
        return False

    limits = None if wanted.kind == "b" else np.iinfo(wanted)
    lowest, highest = (0, 1) if limits is None else (limits.min, limits.max)
    # as Python's numbers, which compare exactly: the largest integers are no doubles
    return bool(lowest <= given.min().item() and given.max().item() <= highest)


def _type_changes(
    rows: Any, own: torch.dtype, mixed: torch.dtype, model: AdaptedModel
) -> tuple[str, ...]:
    """Return how the type of the rows changes, in words; a type that the model sets is its own."""
    if model.dtype is not None:
        return ()
    given = "object" if is_of_objects(rows) else str(own).removeprefix("torch.")
    taken = str(mixed).removeprefix("torch.")
    return () if given == taken else (f"the rows' type {given} becomes {taken}",)


# How a tensor reaches the model


def array_decoder(rows: Any, dtype: torch.dtype, model: AdaptedModel) -> Callable[[Tensor], Any]:
    """Return the function that makes of a tensor (n, *shape) what the model takes.

    That is a tensor, or an array. What has the rows' own type, `dtype` in torch, keeps it to the
    order of its bytes.
    """
    if model.takes_tensors:
        return _unchanged
    if isinstance(rows, Tensor):
        if model.takes_either:
            return lambda inputs: inputs.to(rows.device)
        _check_numpy_knows(dtype)
        return as_numpy
    if is_of_objects(rows):
        return as_numpy

    given = np.asarray(rows).dtype

    def as_given(inputs: Tensor) -> NDArray[Any]:
        array = as_numpy(inputs)
        return array.astype(given, copy=False) if inputs.dtype == dtype else array

    return as_given


def _unchanged(inputs: Tensor) -> Tensor:
    return inputs


def _check_numpy_knows(dtype: torch.dtype) -> None:
    """Raise if numpy has no such type."""
    try:
        numpy_type(dtype)
    except TypeError as error:
        raise InputError(
            f"rows: this kind of model takes numpy arrays, which cannot be {dtype}; pass "
            "rows.float()"
        ) from error


# The background


def array_background(
    given: ParsedBackground,
    explained: Tensor,
    owner: NDArray[np.int64],
    *,
    missing: bool = False,
    columns: Sequence[str] = (),
) -> Tensor:
    """Return the background (b, d) of rows to explain (r, *shape), of players (d,).

    NaN is refused unless `missing`. `columns` are the inputs' own names, as a frame has them. Let
    those be "age" and "height":

        given                                   background
        [44, 1.7]                               44 1.7
        {"age": 44, "height": 1.7}              44 1.7
        0                                       0 0
        [[40, 1.6], [48, 1.8]]                  40 1.6, 48 1.8
        ("mean", [[40, 1.6], [48, 1.8]])        44 1.7
        "mean"                                  the mean of the rows to explain
    """
    given.check_count(len(explained))
    source = explained
    if not given.of_explained:
        shape = tuple(explained.shape[1:])
        numbers = _as_numbers(given, shape, columns)
        source = _checked_background(numbers, shape, given.argument, missing=missing)

    rows = source.flatten(1)
    if given.statistic is None:
        return rows
    return _statistic(given.statistic, rows.cpu(), owner, given.argument)


def _as_numbers(given: ParsedBackground, shape: tuple[int, ...], columns: Sequence[str]) -> Any:
    """Return a frame, a row by name, or a single number for all inputs, as numbers.

    They are in the order of `columns`. Anything else is returned as it is.
    """
    rows = given.rows
    if is_single_number(rows):
        return np.full(shape, rows)
    frame = as_frame(rows, given.argument)
    if frame is not None:
        ordered = aligned(frame, columns, given.argument) if columns else frame
        return matrix(ordered, given.argument)

    by_name = hasattr(rows, "keys") and not isinstance(rows, Tensor)
    if columns and by_name:
        cells = named_cells(rows, columns, given.argument)
        named = zip(columns, cells, strict=True)
        return [_as_number(cell, name, given.argument) for name, cell in named]
    return rows


def _as_number(cell: Any, name: str, argument: str) -> float:
    """Return a cell of a row by name as a number."""
    try:
        return float(cell)
    except (TypeError, ValueError) as error:
        raise InputError(
            f"{argument}: {name!r} is {cell!r}, and this kind of model takes numbers only"
        ) from error


def _checked_background(
    numbers: Any, shape: tuple[int, ...], argument: str, *, missing: bool
) -> Tensor:
    """Return background rows as a tensor (b, *shape), or raise with what is wrong."""
    rows = numeric(numbers, argument)
    if rows.shape == shape:
        rows = rows[None]
    if rows.ndim == 0 or rows.shape[1:] != shape or len(rows) == 0:
        sizes = ", ".join(str(size) for size in shape)
        raise InputError(
            f"{argument}: wanted one row of shape {shape} or background rows of shape "
            f"(b, {sizes}), got shape {tuple(rows.shape)}"
        )
    if not missing:
        check_finite(rows, argument)
    return rows


def _statistic(name: str, rows: Tensor, owner: NDArray[np.int64], argument: str) -> Tensor:
    """Return the statistic of rows (b, d) as one row, (1, d)."""
    table = in_type_of_numpy(rows)
    if table.dtype.kind == "f":
        table = table.astype(np.float64, copy=False)
    if table.dtype.kind == "b":
        table = table.astype(np.uint8)  # truth values have no mean
    row = STATISTICS[name](table, owner)
    if row.dtype.kind == "f":
        check_exact(table, argument)
    return torch.as_tensor(row)[None]
