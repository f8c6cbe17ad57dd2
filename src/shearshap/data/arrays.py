"""Rows that are an array or a tensor: they are mixed as they are, in the type the model takes.

    rows           31  1.8     row 0
                   58  1.6     row 1
    background     44  1.7

Row 1 without its first number is (44, 1.6), which the model gets as an array of the rows' kind.
"""

from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from shearshap.data.array_background import array_background
from shearshap.data.array_types import ArrayPair
from shearshap.data.background import ParsedBackground
from shearshap.data.display import NumberDisplay
from shearshap.data.encoded import Inputs
from shearshap.data.players import Grouping
from shearshap.data.tensors import as_numpy, check_range, checked_rows, numpy_type
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

    decode = array_decoder(rows, table.dtype, model)
    pair = ArrayPair(table, background, players.columns, model, decode)
    common = pair.common_type(are_indices=_are_indices(rows))
    mixed = _placed(table.flatten(1), model, common.dtype, given.argument)
    unmixed = mixed.reshape(-1, *shape) if model.takes_tensors else rows
    return Inputs(
        rows=mixed,
        background=_placed(common.background, model, common.dtype, given.argument),
        shape=shape,
        owner=players.owner,
        names=players.names,
        decode=decode,
        display=NumberDisplay(table.flatten(1), mixed, players.owner, players.columns),
        index=np.arange(len(table)),
        untouched=lambda which: _untouched(unmixed, which, decode),
        type_changes=_type_changes(table.dtype, common.dtype, model),
        evaluations=common.evaluations,
    )


def _are_indices(rows: Any) -> bool:
    """Return whether rows are indices, such as those of an embedding's rows: a tensor of integers.

    An array of integers may be anything: libraries of tables make integers of all whole numbers.
    """
    return isinstance(rows, Tensor) and not rows.is_floating_point()


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


def _type_changes(own: torch.dtype, mixed: torch.dtype, model: AdaptedModel) -> tuple[str, ...]:
    """Return how the type of the rows changes, in words; a type that the model sets is its own."""
    if own == mixed or model.dtype is not None:
        return ()
    return (f"the rows' type {own} becomes {mixed}".replace("torch.", ""),)


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

    given = np.asarray(rows).dtype

    def as_given(inputs: Tensor) -> NDArray[Any]:
        array = as_numpy(inputs)
        return array.astype(given, copy=False) if inputs.dtype == dtype else array

    return as_given


def _unchanged(inputs: Tensor) -> Tensor:
    return inputs


def _check_numpy_knows(dtype: torch.dtype) -> None:
    """Raise where numpy has no such type."""
    try:
        numpy_type(dtype)
    except TypeError as error:
        raise InputError(
            f"rows: this kind of model takes numpy arrays, which cannot be {dtype}; pass "
            "rows.float()"
        ) from error
