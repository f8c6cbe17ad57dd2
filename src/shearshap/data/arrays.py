"""Rows that are an array, a tensor, or a tuple of them: mixed as they are, in one type.

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
type changes, all predictions are compared with the model's own (games/marginal.py).

A tuple of inputs, for a model of several, lies side by side in one tensor of floating numbers:

    numbers (r, 2)   ids (r, 1)          mixed (r, 3)
    0.5  1.5         9                   0.5  1.5  9.0     row 0
    2.5  3.5         7                   2.5  3.5  7.0     row 1
    0.0  0.0         0                   0.0  0.0  0.0     background

Row 1 without its second number is (2.5, 0.0, 7.0), which the model gets as ([2.5, 0.0], [7]).
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, reduce
from math import prod
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from shearshap.data.background import (
    STATISTICS,
    Conditional,
    ParsedBackground,
    Selection,
    is_single_number,
    named_cells,
    parse_background,
    standardised,
    starts_with_name,
)
from shearshap.data.display import NumberDisplay
from shearshap.data.frames import aligned, as_frame, matrix
from shearshap.data.players import Grouping, as_mask
from shearshap.data.tensors import (
    Inputs,
    as_numpy,
    check_exact,
    check_finite,
    check_range,
    checked_rows,
    in_type_of_numpy,
    numeric,
)
from shearshap.errors import InputError
from shearshap.games.batches import to_device
from shearshap.games.conditional import Sampler
from shearshap.models import AdaptedModel


def encode_array(
    rows: Any, given: ParsedBackground, grouping: Grouping, model: AdaptedModel
) -> Inputs:
    """Encode an array (r, *shape), whose columns may have names."""
    missing = model.takes_missing
    columns = grouping.columns
    table = checked_rows(rows, "rows", missing=missing, columns=columns)
    shape = tuple(table.shape[1:])
    players = grouping.players(shape)
    source = source_table(given, table, missing=missing, columns=columns)
    chosen = given.select(len(source), lambda places: _points(source, places))
    background = _chosen_rows(given, chosen, source, players.owner)

    dtype = _common_type(rows, table, background, model)
    decode = array_decoder(rows, table.dtype, model)
    mixed = _placed(table.flatten(1), model, dtype)
    absent = _placed(background, model, dtype)
    sampler = None
    notes = chosen.notes
    if given.conditional is not None:
        if len(shape) > 1:
            raise InputError(
                f"background: Conditional is for tables (r, d), got rows of shape {shape}; pass "
                "background rows"
            )
        train, own = (in_type_of_numpy(part.cpu()).astype(np.float64) for part in (source, table))
        law = given.conditional.fitted(train, own, columns or range(shape[0]), given.seed)
        sampler = Sampler.of(law, absent)
        absent = given.draws(law).to(absent.device)
        notes += law.notes
    unmixed = mixed.reshape(-1, *shape) if model.takes_tensors else rows

    def original_rows(which: slice) -> Any:
        if isinstance(unmixed, Tensor):
            return decode(unmixed[which].detach().clone())
        return np.array(np.asarray(unmixed)[which])  # a copy of an array just as it was passed

    return Inputs(
        rows=mixed,
        background=absent,
        shape=shape,
        owner=players.owner,
        names=players.names,
        paths=players.paths,
        decode=decode,
        display=NumberDisplay(table.flatten(1), mixed, players.owner, players.columns),
        index=np.arange(len(table)),
        original_rows=original_rows,
        type_changes=_type_changes(rows, table.dtype, dtype, model),
        weights=chosen.weights,
        background_description=chosen.description,
        notes=notes,
        sampler=sampler,
    )


def _placed(rows: Tensor, model: AdaptedModel, dtype: torch.dtype) -> Tensor:
    """Return rows (n, d) on the model's device and in the type to mix in."""
    usable = rows.clone() if rows.is_inference() else rows
    placed = to_device(usable, model.device, dtype)
    if not model.takes_missing:  # else what is not finite is never mixed by numbers
        check_range(placed)
    return placed


# Types


def _common_type(rows: Any, table: Tensor, background: Tensor, model: AdaptedModel) -> torch.dtype:
    """Return the type in which a table of the rows and a background (b, d) are mixed."""
    are_indices = isinstance(rows, Tensor) and not rows.is_floating_point()
    if are_indices:  # integers, whatever type the model's parameters have
        check_whole(background, table.dtype)
        return table.dtype
    if model.dtype is not None:
        return model.dtype
    if table.is_floating_point() or fits_integer_type(background, table.dtype):
        return table.dtype

    ours = as_numpy(table)
    theirs = in_type_of_numpy(background)
    promoted = np.promote_types(ours.dtype, theirs.dtype)
    if promoted.kind == "f":
        check_exact(ours)
        check_exact(theirs)
    return torch.from_numpy(np.empty(0, promoted)).dtype


def check_whole(background: Tensor, dtype: torch.dtype) -> None:
    """Raise if a background does not fit the integer type of the rows."""
    if not fits_integer_type(background, dtype):
        raise InputError("background: integer rows need an integer background; try ('mode', rows)")


def fits_integer_type(numbers: Tensor, dtype: torch.dtype) -> bool:
    """Return whether numbers are the same in an integer type, or that of truth values."""
    given = in_type_of_numpy(numbers)
    with np.errstate(invalid="ignore"):  # of numbers that are too large
        cast = given.astype(torch.empty(0, dtype=dtype, device="cpu").numpy().dtype)
        is_same = (cast.astype(given.dtype) == given) & ((cast < 0) == (given < 0))
    return bool(is_same.all())


def _type_changes(
    rows: Any, own: torch.dtype, mixed: torch.dtype, model: AdaptedModel
) -> tuple[str, ...]:
    """Return how the type of the rows changes, in words; a type that the model sets is its own."""
    if model.dtype is not None:
        return ()
    is_of_objects = not isinstance(rows, Tensor) and np.asarray(rows).dtype == object
    given = "object" if is_of_objects else str(own).removeprefix("torch.")
    taken = str(mixed).removeprefix("torch.")
    return () if given == taken else (f"the rows' type {given} becomes {taken}",)


# How a tensor reaches the model


def array_decoder(rows: Any, dtype: torch.dtype, model: AdaptedModel) -> Callable[[Tensor], Any]:
    """Return the function from a tensor (n, *shape) to what the model takes, a tensor or an array.

    `dtype` is the rows' own type in torch.
    """
    if model.takes_tensors:
        return lambda inputs: inputs
    if isinstance(rows, Tensor) and model.takes_either:
        return lambda inputs: inputs.to(rows.device)
    if dtype == torch.bfloat16:
        raise InputError(
            "rows: this kind of model takes numpy arrays, which cannot be torch.bfloat16; pass "
            "rows.float()"
        )
    return as_numpy


# The background


def source_table(
    given: ParsedBackground,
    explained: Tensor,
    *,
    missing: bool = False,
    columns: Sequence[str] = (),
) -> Tensor:
    """Return the rows (n, *shape) from which the background of rows to explain is chosen.

    NaN is refused unless `missing`. `columns` are the inputs' own names, as a frame has them. Let
    those be "age" and "height":

        given                                   rows
        [44, 1.7]                               44 1.7
        {"age": 44, "height": 1.7}              44 1.7
        0                                       0 0
        [[40, 1.6], [48, 1.8]]                  40 1.6, 48 1.8
        ("mean", [[40, 1.6], [48, 1.8]])        40 1.6, 48 1.8
        None                                    the rows to explain
    """
    if given.of_explained:
        return explained
    shape = tuple(explained.shape[1:])
    numbers = _as_numbers(given.rows, shape, columns)
    return _checked_background(numbers, shape, missing=missing)


def _chosen_rows(
    given: ParsedBackground, chosen: Selection, source: Tensor, owner: NDArray[np.int64]
) -> Tensor:
    """Return the background (b, d) from its source (n, *shape), of players (d,)."""
    rows = source.flatten(1)
    if given.statistic is not None:
        return statistic_of_table(given.statistic, rows.cpu(), owner)
    return rows if chosen.places is None else rows[torch.from_numpy(chosen.places)]


def _points(source: Tensor, places: NDArray[np.int64]) -> NDArray[np.float64]:
    """Return some rows (n, *shape) as points (n, d), to compare by their distances."""
    rows = source[torch.from_numpy(places)]
    return standardised(in_type_of_numpy(rows.flatten(1).cpu()))


def _as_numbers(rows: Any, shape: tuple[int, ...], columns: Sequence[str]) -> Any:
    """Return a frame, a row by name, or a single number for all inputs, as numbers.

    They are in the order of `columns`. Anything else is returned as it is.
    """
    if is_single_number(rows):
        return np.full(shape, rows)
    frame = as_frame(rows, "background")
    if frame is not None:
        ordered = aligned(frame, columns, "background") if columns else frame
        return matrix(ordered, "background")

    by_name = hasattr(rows, "keys") and not isinstance(rows, Tensor)
    if columns and by_name:
        named = zip(columns, named_cells(rows, columns), strict=True)
        return [_as_number(cell, name) for name, cell in named]
    return rows


def _as_number(cell: Any, name: str) -> float:
    """Return a cell of a row by name as a number."""
    try:
        return float(cell)
    except (TypeError, ValueError) as error:
        raise InputError(
            f"background: {name!r} is {cell!r}, but this kind of model takes numbers only"
        ) from error


def _checked_background(numbers: Any, shape: tuple[int, ...], *, missing: bool) -> Tensor:
    """Return background rows as a tensor (b, *shape), or raise with what is wrong."""
    rows = numeric(numbers, "background")
    if rows.shape == shape:
        rows = rows[None]
    if rows.ndim == 0 or rows.shape[1:] != shape or len(rows) == 0:
        sizes = ", ".join(str(size) for size in shape)
        raise InputError(
            f"background: expected one row of shape {shape} or background rows of shape "
            f"(b, {sizes}), got shape {tuple(rows.shape)}"
        )
    if not missing:
        check_finite(rows, "background")
    return rows


def statistic_of_table(name: str, rows: Tensor, owner: NDArray[np.int64]) -> Tensor:
    """Return the statistic of rows (b, d) as one row, (1, d)."""
    table = in_type_of_numpy(rows)
    if table.dtype.kind == "f":
        table = table.astype(np.float64, copy=False)
    if table.dtype.kind == "b":
        table = table.astype(np.uint8)  # truth values have no mean
    row = STATISTICS[name](table, owner)
    if row.dtype.kind == "f":
        check_exact(table)
    return torch.as_tensor(row)[None]


# Several inputs


def encode_several(
    rows: tuple[Any, ...], background: Any, grouping: Grouping, model: AdaptedModel, seed: int = 0
) -> Inputs:
    """Encode a tuple of arrays (r, *shape), one for each of the model's inputs.

    Points between a row and its background have a meaning if all inputs are floating numbers.
    """
    tables = _tables(rows, model)
    layout = Layout(tuple(tuple(table.shape[1:]) for table in tables))
    joined = replace(grouping, groups=_joined_masks(grouping.groups, layout))
    players = joined.players((layout.width,))
    owners = np.split(players.owner, np.cumsum(layout.sizes)[:-1])
    backgrounds, chosen = _backgrounds(background, tables, owners, seed)

    flat_type = _flat_type([*tables, *backgrounds], model)
    mixed = layout.join([part.to(model.device) for part in tables], flat_type)
    absent = layout.join([part.to(model.device) for part in backgrounds], flat_type)
    check_range(mixed)
    check_range(absent)

    decoders = [_input_decoder(*part, model) for part in zip(rows, tables, strict=True)]

    def decode(flat: Tensor) -> tuple[Any, ...]:
        return tuple(make(part) for make, part in zip(decoders, layout.split(flat), strict=True))

    def original_rows(which: slice) -> tuple[Any, ...]:
        parts = [table[which].clone().to(model.device) for table in tables]
        return tuple(make(part) for make, part in zip(decoders, parts, strict=True))

    numbers = layout.join([part.cpu() for part in tables], torch.float64)
    return Inputs(
        rows=mixed,
        background=absent,
        shape=(layout.width,),
        owner=players.owner,
        names=players.names,
        paths=players.paths,
        decode=decode,
        display=NumberDisplay(numbers, numbers, players.owner, players.columns),
        index=np.arange(len(mixed)),
        original_rows=original_rows,
        smooth=all(table.is_floating_point() for table in tables),
        weights=chosen.weights,
        background_description=chosen.description,
        notes=chosen.notes,
    )


def _input_decoder(rows: Any, table: Tensor, model: AdaptedModel) -> Callable[[Tensor], Any]:
    """Return the function that makes of a mixed input (n, *shape) what the model takes."""
    dtype = table.dtype
    if table.is_floating_point() and model.dtype is not None:
        dtype = model.dtype
    taken = array_decoder(rows, table.dtype, model)
    return lambda inputs: taken(inputs.to(dtype))


def _flat_type(inputs: Sequence[Tensor], model: AdaptedModel) -> torch.dtype:
    """Return a floating type that holds the numbers of all inputs, or raise if none does."""
    integers = [part for part in inputs if not part.is_floating_point()]
    for part in integers:
        check_exact(as_numpy(part))
    if integers:
        return torch.float64
    types = [part.dtype if model.dtype is None else model.dtype for part in inputs]
    return reduce(torch.promote_types, types, torch.float32)


def _tables(rows: tuple[Any, ...], model: AdaptedModel) -> list[Tensor]:
    """Return each input of the rows as a tensor (r, *shape)."""
    if not rows:
        raise InputError("rows: expected a tuple of one or more inputs, got an empty one")
    tables = []
    for place, part in enumerate(rows):
        table = checked_rows(part, f"rows[{place}]")
        if table.dtype == torch.bool and model.takes_tensors and not isinstance(part, Tensor):
            table = table.double()  # a module takes an array's truth values as numbers
        tables.append(table)
    counts = {len(table) for table in tables}
    if len(counts) > 1:
        raise InputError(
            f"rows: the inputs of a tuple need the same number of rows, got {sorted(counts)}"
        )
    return tables


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

    def join(self, inputs: Sequence[Tensor], dtype: torch.dtype | None = None) -> Tensor:
        """Return inputs (..., *shape) side by side, (..., d), in one type."""
        leading = inputs[0].ndim - len(self.shapes[0])
        flat = [
            part.reshape(*part.shape[:leading], size).to(dtype or part.dtype)
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


def _backgrounds(
    background: Any, tables: list[Tensor], owners: list[NDArray[np.int64]], seed: int
) -> tuple[list[Tensor], Selection]:
    """Return the background of every input, (b, *shape) each, whose numbers have owners (d,).

    The same rows are chosen of all inputs.
    """
    givens = parsed_parts(background, len(tables), seed)
    sources = [source_table(given, table) for given, table in zip(givens, tables, strict=True)]
    parts = list(zip(givens, sources, strict=True))
    _check_counts([1 if given.statistic else len(source) for given, source in parts])

    def points(places: NDArray[np.int64]) -> NDArray[np.float64]:
        return np.concatenate([_points(source, places) for source in sources], axis=1)

    chosen = [given.select(len(source), points) for given, source in parts]
    backgrounds = []
    for (given, source), own, table, owner in zip(parts, chosen, tables, owners, strict=True):
        # players without a number in this input are left out, and the others numbered anew
        _, player = np.unique(owner, return_inverse=True)
        rows = _chosen_rows(given, own, source, player)
        if not table.is_floating_point():
            check_whole(rows, table.dtype)
        backgrounds.append(rows.reshape(-1, *table.shape[1:]))
    _check_counts([len(rows) for rows in backgrounds])
    return backgrounds, chosen[0]


def _check_counts(counts: list[int]) -> None:
    if len(set(counts)) > 1:
        raise InputError(
            f"background: the parts need the same number of background rows, got {counts}"
        )


def parsed_parts(background: Any, inputs: int, seed: int) -> list[ParsedBackground]:
    """Return the background of each input, taken apart."""
    if isinstance(background, Conditional):
        raise InputError(
            f"background: Conditional is for tables (r, d), got a tuple of {inputs} inputs; pass "
            "background rows"
        )
    if isinstance(background, ParsedBackground):
        return [replace(background, rows=part) for part in background.rows]
    parsed = [parse_background(part, seed) for part in _background_parts(background, inputs)]
    if any(part.weights is not None for part in parsed):
        raise InputError(
            "background: the rows of shap.kmeans have weights, which are not supported for a "
            "tuple of inputs; pass a sample of rows"
        )
    return parsed


def _background_parts(background: Any, inputs: int) -> tuple[Any, ...]:
    """Return the background of each input, as the user passed it."""
    if background is None or isinstance(background, str) or is_single_number(background):
        return (background,) * inputs

    if not isinstance(background, tuple) or not background:
        raise InputError(
            f"background: the rows are a tuple of {inputs} inputs; pass a tuple of {inputs} "
            "backgrounds"
        )
    if starts_with_name(background) and len(background) > 1 and isinstance(background[1], tuple):
        name, rows, *count = background
        parts = tuple((name, part, *count) for part in rows)
    else:
        parts = background
    if len(parts) != inputs:
        raise InputError(
            f"background: expected {inputs} parts, one for each input, got {len(parts)}"
        )
    return parts


def _joined_masks(groups: Any, layout: Layout) -> Any:
    """Return one mask for all inputs side by side, made of one for each; anything else as it is."""
    if not isinstance(groups, tuple) or len(groups) != len(layout.shapes):
        return groups

    masks = [as_mask(mask, shape) for mask, shape in zip(groups, layout.shapes, strict=True)]
    return np.concatenate([mask.reshape(-1) for mask in masks])
