"""Rows that are a tuple of inputs, for a model of several: they lie side by side in one tensor.

A floating number stands for itself. An integer is known by the row of a pool that it stands in, as
a frame's cells are, so that it is exact however large it is. The pool holds the rows to explain
and, after them, the background:

    pool   numbers (n, 2)   ids (n, 1)             flat (n, 3)
       0   0.5  1.5         9007199254740993       0.5  1.5  0     row 0
       1   2.5  3.5         7                      2.5  3.5  1     row 1
       2   0.0  0.0         0                      0.0  0.0  2     background

Row 1 without its second number is (2.5, 0.0, 1), which is decoded as ([2.5, 0.0], [7]). Row 0
without its id is (0.5, 1.5, 2), decoded as ([0.5, 1.5], [0]).

Where all inputs are floating, points between a row and its background have a meaning, and the model
can be differentiated there. Between two rows of a pool there is nothing.
"""

from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from functools import cached_property, reduce
from math import prod
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from shearshap.data.arrays import array_background, array_decoder, check_whole
from shearshap.data.background import is_single_number, parse_background, starts_with_name
from shearshap.data.display import NumberDisplay
from shearshap.data.players import Grouping, as_mask
from shearshap.data.tensors import (
    Inputs,
    background_numbers,
    check_range,
    checked_rows,
    is_of_objects,
    row_numbers,
)
from shearshap.errors import InputError
from shearshap.models import AdaptedModel

MAX_EXACT_IN_SINGLE = 1 << 24
"""The largest row of a pool whose number is exact in single precision."""


def encode_several(
    rows: tuple[Any, ...], background: Any, grouping: Grouping, model: AdaptedModel, argument: str
) -> Inputs:
    """Encode a tuple of arrays (r, *shape), one for each of the model's inputs."""
    tables = _tables(rows, model)
    layout = Layout(tuple(tuple(table.shape[1:]) for table in tables))
    joined = replace(grouping, groups=_joined_masks(grouping.groups, layout))
    players = joined.players((layout.width,))
    owners = np.split(players.owner, np.cumsum(layout.sizes)[:-1])
    backgrounds = _backgrounds(background, tables, owners, argument)

    decoders = tuple(
        array_decoder(part, table.dtype, model) for part, table in zip(rows, tables, strict=True)
    )
    count = len(tables[0])
    pools = Pools(layout, _placed_pools(tables, backgrounds, model), count, decoders)
    flat = pools.flat()
    check_range(flat, argument)

    numbers = layout.join(tuple(table.cpu().double() for table in tables))
    return Inputs(
        rows=flat[:count],
        background=flat[count:],
        shape=(layout.width,),
        owner=players.owner,
        names=players.names,
        decode=pools.decode,
        display=NumberDisplay(numbers, numbers, players.owner, players.columns),
        index=np.arange(count),
        untouched=pools.untouched,
        smooth=all(table.is_floating_point() for table in tables),
    )


# The layout


@dataclass(frozen=True)
class Layout:
    """Where each of several inputs lies in a flat row."""

    shapes: tuple[tuple[int, ...], ...]  #: of one row of each input

    @cached_property
    def sizes(self) -> list[int]:
        """The numbers in one row of each input."""
        return [prod(shape) for shape in self.shapes]

    @property
    def width(self) -> int:
        """The numbers d in a flat row."""
        return sum(self.sizes)

    def join(self, inputs: tuple[Tensor, ...]) -> Tensor:
        """Return inputs (..., *shape) side by side, (..., d)."""
        leading = inputs[0].ndim - len(self.shapes[0])
        flat = [
            part.reshape(*part.shape[:leading], size)
            for part, size in zip(inputs, self.sizes, strict=True)
        ]
        return torch.cat(flat, dim=-1)

    def split(self, flat: Tensor) -> tuple[Tensor, ...]:
        """Return flat rows (..., d) as inputs (..., *shape): the way back from `join`."""
        parts = flat.split(self.sizes, dim=-1)
        return tuple(
            part.reshape(*part.shape[:-1], *shape)
            for part, shape in zip(parts, self.shapes, strict=True)
        )


@dataclass(frozen=True)
class Pools:
    """The rows whose inputs are mixed, each input in the type that the model takes."""

    layout: Layout
    inputs: tuple[Tensor, ...]  #: (n, *shape) each
    rows: int  #: how many of them are explained; the first background row comes after
    decoders: tuple[Callable[[Tensor], Any], ...]  #: make of each input what the model takes

    def flat(self) -> Tensor:
        """Return all rows as they are mixed, (n, d)."""
        dtype = self._flat_type()
        mixable = tuple(_mixable(pool, self.rows).to(dtype) for pool in self.inputs)
        return self.layout.join(mixable)

    def decode(self, mixed: Tensor) -> tuple[Any, ...]:
        """Return mixes of the flat rows, (m, d), as inputs (m, *shape) as the model takes them."""
        parts = self.layout.split(mixed)
        taken = (_taken(part, pool) for part, pool in zip(parts, self.inputs, strict=True))
        return self._decoded(taken)

    def untouched(self, which: slice) -> tuple[Any, ...]:
        """Return the inputs of some rows, (n, *shape) each, as the model takes them."""
        return self._decoded(pool[which].clone() for pool in self.inputs)

    def _decoded(self, parts: Iterable[Tensor]) -> tuple[Any, ...]:
        return tuple(decode(part) for decode, part in zip(self.decoders, parts, strict=True))

    def _flat_type(self) -> torch.dtype:
        """Return a floating type that holds every floating input and the number of every row."""
        floating = [pool.dtype for pool in self.inputs if pool.is_floating_point()]
        widest = reduce(torch.promote_types, floating, torch.float32)
        numbers_rows = len(floating) < len(self.inputs)
        if numbers_rows and len(self.inputs[0]) > MAX_EXACT_IN_SINGLE:
            return torch.float64
        return widest


def _mixable(pool: Tensor, background: int) -> Tensor:
    """Return an input's rows (n, *shape) as they are mixed: integers by their row in the pool.

    `background` is the number of the first background row.
    """
    if pool.is_floating_point():
        return pool
    cells = row_numbers(len(pool), tuple(pool.shape[1:]), pool.device)
    return background_numbers(cells, pool == pool[background], background)


def _taken(part: Tensor, pool: Tensor) -> Tensor:
    """Return a mixed input (m, *shape) in the pool's type: integers from their rows (n, *shape)."""
    if pool.is_floating_point():
        return part.to(pool.dtype)
    flat = pool.flatten(1)
    columns = torch.arange(flat.shape[1], device=pool.device).reshape(pool.shape[1:])
    return flat[part.long(), columns]


# What the user passed


def _tables(rows: tuple[Any, ...], model: AdaptedModel) -> list[Tensor]:
    """Return each input of the rows as a tensor (r, *shape)."""
    if not rows:
        raise InputError("rows: there are no inputs in an empty tuple")
    tables = []
    for place, part in enumerate(rows):
        table = checked_rows(part, f"rows[{place}]")
        if is_of_objects(part) and not model.takes_tensors:
            raise InputError(
                f"rows[{place}]: wanted numbers, got an array of objects; pass rows.astype(float)"
            )
        if table.dtype == torch.bool and model.takes_tensors and not isinstance(part, Tensor):
            table = table.double()  # a module takes an array's truth values as numbers
        tables.append(table)
    counts = {len(table) for table in tables}
    if len(counts) > 1:
        raise InputError(
            f"rows: the inputs of a tuple need the same number of rows, got {sorted(counts)}"
        )
    return tables


def _backgrounds(
    background: Any, tables: list[Tensor], owners: list[NDArray[np.int64]], argument: str
) -> list[Tensor]:
    """Return the background of every input, (b, *shape) each, whose numbers have owners (d,)."""
    parts = _background_parts(background, len(tables), argument)
    backgrounds = [
        _background_of_input(part, table, owner, argument)
        for part, table, owner in zip(parts, tables, owners, strict=True)
    ]
    counts = [len(rows) for rows in backgrounds]
    if len(set(counts)) > 1:
        raise InputError(
            f"{argument}: the parts need the same number of background rows, got {counts}"
        )
    return backgrounds


def _background_of_input(
    part: Any, table: Tensor, owner: NDArray[np.int64], argument: str
) -> Tensor:
    """Return the background (b, *shape) of one input (r, *shape) of such owners (d,)."""
    parsed = parse_background(part, argument)
    if parsed.weights is not None:
        raise InputError(
            f"{argument}: the rows of shap.kmeans have weights, which inputs of a tuple cannot "
            "have; pass a sample of rows"
        )
    # players without a number in this input are left out, and the others numbered anew
    _, own = np.unique(owner, return_inverse=True)
    rows = array_background(parsed, table, own)
    if not table.is_floating_point():
        check_whole(rows, table.dtype, argument)
    return rows.reshape(-1, *table.shape[1:])


def _background_parts(background: Any, inputs: int, argument: str) -> tuple[Any, ...]:
    """Return the background of each input, as the user passed it."""
    if isinstance(background, str) or is_single_number(background):
        return (background,) * inputs

    if not isinstance(background, tuple) or not background:
        raise InputError(
            f"{argument}: the rows are a tuple of {inputs} inputs; pass a tuple of as many "
            "backgrounds"
        )
    if starts_with_name(background) and len(background) == 2 and isinstance(background[1], tuple):
        name, rows = background
        parts = tuple((name, part) for part in rows)
    else:
        parts = background
    if len(parts) != inputs:
        raise InputError(f"{argument}: wanted {inputs} parts, one for each input, got {len(parts)}")
    return parts


def _placed_pools(
    tables: list[Tensor], backgrounds: list[Tensor], model: AdaptedModel
) -> tuple[Tensor, ...]:
    """Return rows and background of each input, (r + b, *shape), in the type the model takes."""
    pools = []
    for table, background in zip(tables, backgrounds, strict=True):
        dtype = table.dtype
        if table.is_floating_point() and model.dtype is not None:
            dtype = model.dtype
        placed = [part.to(model.device, dtype) for part in (table, background)]
        pools.append(torch.cat(placed))
    return tuple(pools)


def _joined_masks(groups: Any, layout: Layout) -> Any:
    """Return one mask for all inputs side by side, made of one for each; anything else as it is."""
    if not isinstance(groups, tuple) or len(groups) != len(layout.shapes):
        return groups

    masks = []
    for mask, shape in zip(groups, layout.shapes, strict=True):
        try:
            masks.append(as_mask(mask, shape))
        except InputError as error:
            raise InputError(
                f"groups: wanted integer masks of the inputs' shapes {list(layout.shapes)}, got "
                f"one of shape {np.shape(mask)}"
            ) from error
    return np.concatenate([mask.reshape(-1) for mask in masks])
