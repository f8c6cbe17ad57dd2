"""Rows of every kind -> tensors to mix, and the way back to what the model takes.

An array or tensor is mixed as it is; a frame by its cells (`frames.py`); several inputs side by
side in one tensor.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import reduce
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from shearshap.adapters import AdaptedModel
from shearshap.errors import InputError
from shearshap.inputs.background import Reference, background, check_finite, numeric
from shearshap.inputs.frames import (
    Frame,
    Pool,
    aligned,
    as_frame,
    matrix,
    named_cells,
    numbers_and_words,
    reference_cells,
    trained_order,
)
from shearshap.inputs.players import Groups, players


@dataclass(frozen=True)
class Inputs:
    """Rows and background as tensors of one type, who owns what of them, and what they are for
    people and the model.
    """

    rows: Tensor  #: (r, d)
    background: Tensor  #: (b, d)
    shape: tuple[int, ...]  #: of one row as it is decoded
    owner: NDArray[np.int64]  #: (d,) the player that owns each input
    names: list[str]  #: of the players; none where they are not known
    decode: Callable[[Tensor], Any]  #: inputs (n, *shape) to what the model takes
    data: NDArray[np.float64]  #: (r, p)
    display_data: NDArray[np.object_] | None  #: (r, p)
    smooth: bool = (
        True  #: whether there is something between a row and its reference to differentiate at
    )


def encode(rows: Any, reference: Reference, groups: Groups, model: AdaptedModel) -> Inputs:
    """Check rows, reference and groups, and make them ready for a model."""
    groups = _from_transformer(groups)
    if isinstance(rows, tuple):
        return _several(rows, reference, groups, model)
    frame = as_frame(rows, "rows")
    if frame is None:
        frame = _as_trained(rows, model)
    if frame is None:
        return _array(rows, reference, groups, model, ())
    if len(frame) == 0 or not frame.columns:
        raise InputError(f"rows: there is nothing to explain in a frame of shape {frame.shape}")
    if model.takes_frames:
        order = trained_order(frame, model.feature_names or frame.columns, "rows")
        return _cells(frame, order, reference, groups)
    return _array(matrix(frame, "rows"), reference, groups, model, tuple(frame.columns))


def _from_transformer(groups: Any) -> Groups:
    """Return the columns by the input that a fitted transformer made them of, where one is given as
    groups.
    """
    if hasattr(groups, "steps") and not hasattr(groups, "transform"):
        raise InputError(
            "groups: this Pipeline ends in a model; pass its transformers alone, pipeline[:-1]"
        )
    if not hasattr(groups, "fit_transform"):
        return groups  # type: ignore[no-any-return]
    from shearshap.adapters.estimators import made_columns

    return made_columns(groups)


def _as_trained(rows: Any, model: AdaptedModel) -> Frame | None:
    """Return an array as a pandas frame, where the model was trained with one and wants its
    columns' names.
    """
    if not model.feature_names or not model.takes_frames:
        return None
    import narwhals.stable.v2 as nw

    table = np.asarray(rows)
    if table.ndim != 2 or table.shape[1] != len(model.feature_names):
        raise InputError(
            f"rows: the model was trained with {len(model.feature_names)} named columns, "
            f"got an array of shape {table.shape}; pass a frame with "
            f"{', '.join(model.feature_names[:8])}, ..."
        )
    return nw.from_numpy(
        numeric(table, "rows").numpy(), schema=list(model.feature_names), backend="pandas"
    )


# Frames


def _cells(frame: Frame, order: Sequence[str], reference: Reference, groups: Groups) -> Inputs:
    """Make a frame ready for a model that takes frames, with its columns in an order of its own."""
    shape = (len(frame.columns),)
    owner, names = players(groups, shape, frame.columns)
    pool, absent = reference_cells(reference, frame, owner)
    numbers, words = numbers_and_words(frame)
    told = torch.from_numpy(numbers)
    data, display = _by_player(told, words, owner, frame.columns, told)
    own = torch.arange(len(frame), device="cpu")[:, None].expand(-1, shape[0])
    return Inputs(own, absent, shape, owner, names, Pool(pool, order).decode, data, display)


# Arrays and tensors


def _array(
    rows: Any, reference: Any, groups: Groups, model: AdaptedModel, columns: Sequence[str]
) -> Inputs:
    """Make an array (r, *shape) ready, in the model's type where it has one."""
    table = _checked_rows(rows, "rows", missing=model.takes_missing, columns=columns)
    shape = tuple(table.shape[1:])
    owner, names = players(groups, shape, columns)
    absent = background(_as_numbers(reference, columns), table, owner, missing=model.takes_missing)
    dtype = _dtype(model, rows, table, absent)
    inputs, references = (_placed(part.flatten(1), model.device, dtype) for part in (table, absent))
    decode = (lambda part: part) if model.takes_tensors else (lambda part: part.cpu().numpy())
    data, display = _by_player(table.flatten(1), None, owner, columns, inputs)
    return Inputs(inputs, references, shape, owner, names, decode, data, display)


def _as_numbers(reference: Any, columns: Sequence[str]) -> Any:
    """Return a reference with its frame, or its row by name, as numbers, in the order of the rows'
    columns if named.
    """
    if isinstance(reference, tuple) and len(reference) == 2 and isinstance(reference[0], str):
        return reference[0], _as_numbers(reference[1], columns)
    frame = as_frame(reference, "background")
    if frame is not None:
        return matrix(aligned(frame, columns, "background") if columns else frame, "background")
    named = columns and hasattr(reference, "keys") and not isinstance(reference, Tensor)
    return [float(cells[0]) for cells in named_cells(reference, columns)] if named else reference


def _checked_rows(
    rows: Any, what: str, *, missing: bool = False, columns: Sequence[str] = ()
) -> Tensor:
    """Return the rows as a tensor of numbers (r, *shape), or raise with what is wrong."""
    for attribute, instead in (("toarray", "rows.toarray()"), ("collect", "rows.collect()")):
        if hasattr(rows, attribute):
            raise InputError(
                f"{what}: a {type(rows).__name__} has no rows to mix as it is; pass {instead}"
            )
    table = numeric(rows, what)
    if table.ndim < 2:
        raise InputError(
            f"{what}: wanted shape (r, d), got {tuple(table.shape)}; for a single row pass "
            "rows[None]"
        )
    if table.numel() == 0:
        raise InputError(
            f"{what}: there is nothing to explain in an array of shape {tuple(table.shape)}"
        )
    if not missing:
        check_finite(table, what, columns)
    return table


def _dtype(model: AdaptedModel, rows: Any, table: Tensor, absent: Tensor) -> torch.dtype:
    """Return the type in which the model gets its inputs: integer tensors stay integers
    (embeddings).
    """
    if isinstance(rows, Tensor) and not rows.is_floating_point():
        if not torch.equal(absent.double(), absent.to(rows.dtype).double()):
            raise InputError(
                "reference: integer rows need an integer reference; try ('mode', background)"
            )
        return rows.dtype
    if model.dtype is not None:
        return model.dtype
    return torch.promote_types(table.dtype, absent.dtype)


def _placed(rows: Tensor, device: torch.device, dtype: torch.dtype) -> Tensor:
    """Return rows (n, d) where and in the type that the model takes them."""
    placed = (rows.clone() if rows.is_inference() else rows).to(device, dtype)
    # beyond, the difference of a row and its reference is not finite
    if dtype.is_floating_point and bool((placed.abs() > torch.finfo(dtype).max / 4).any()):
        raise InputError(f"rows or reference: there are numbers too large for the model's {dtype}")
    return placed


# Several inputs


def _several(rows: tuple[Any, ...], reference: Any, groups: Any, model: AdaptedModel) -> Inputs:
    """Make a tuple of arrays (r, ...) ready, one for each of the model's inputs, side by side in
    one tensor.
    """
    tables = [_checked_rows(part, f"rows[{at}]") for at, part in enumerate(rows)]
    counts = {len(table) for table in tables}
    if len(counts) > 1:
        raise InputError(
            f"rows: the inputs of a tuple need as many rows each, got {sorted(counts)}"
        )
    absent = _references(reference, tables)
    sizes, shapes = (
        [table[0].numel() for table in tables],
        [tuple(table.shape[1:]) for table in tables],
    )
    owner, names = players(_one_mask(groups, shapes), (sum(sizes),), ())
    kinds = [
        table.dtype if not table.is_floating_point() else model.dtype or table.dtype
        for table in tables
    ]
    dtype = _wide(model.dtype, tables)
    inputs, references = (
        _placed(_side_by_side(parts), model.device, dtype) for parts in (tables, absent)
    )

    def decode(inputs: Tensor) -> tuple[Any, ...]:
        parts = inputs.split(sizes, dim=1)
        shaped = (part.unflatten(1, shape) for part, shape in zip(parts, shapes, strict=True))
        typed = tuple(part.to(kind) for part, kind in zip(shaped, kinds, strict=True))
        return typed if model.takes_tensors else tuple(part.cpu().numpy() for part in typed)

    data, display = _by_player(_side_by_side(tables), None, owner, (), inputs)
    smooth = all(table.is_floating_point() for table in tables)
    return Inputs(inputs, references, (sum(sizes),), owner, names, decode, data, display, smooth)


def _references(reference: Any, tables: list[Tensor]) -> list[Tensor]:
    """Return the background of every input, (b, ...) each."""
    if not isinstance(reference, tuple) or not reference:
        raise InputError(
            f"reference: the rows are a tuple of {len(tables)} inputs; give a tuple of as many "
            "references"
        )
    statistic = (
        isinstance(reference[0], str) and len(reference) == 2 and isinstance(reference[1], tuple)
    )
    parts = tuple((reference[0], part) for part in reference[1]) if statistic else reference
    if len(parts) != len(tables):
        raise InputError(
            f"reference: wanted {len(tables)} parts, one for each input, got {len(parts)}"
        )
    found = []
    for table, part in zip(tables, parts, strict=True):
        own = np.arange(table[0].numel())
        absent = background(part, table, own).unflatten(1, tuple(table.shape[1:]))
        if not table.is_floating_point() and not torch.equal(
            absent.double(), absent.to(table.dtype).double()
        ):
            raise InputError(
                "reference: integer inputs need an integer reference; try ('mode', background)"
            )
        found.append(absent)
    if len({len(part) for part in found}) > 1:
        raise InputError(
            "reference: the parts need as many background rows each, got "
            f"{[len(part) for part in found]}"
        )
    return found


def _one_mask(groups: Any, shapes: list[tuple[int, ...]]) -> Any:
    """Return the mask over all inputs side by side, of one mask for each; anything else as it is."""
    if not isinstance(groups, tuple) or len(groups) != len(shapes):
        return groups
    masks = [np.asarray(mask) for mask in groups]
    for mask, shape in zip(masks, shapes, strict=True):
        if mask.shape not in (shape, (1, *shape)):
            raise InputError(
                f"groups: wanted integer masks of the inputs' shapes {shapes}, got one of shape "
                f"{mask.shape}"
            )
    return np.concatenate([mask.reshape(-1) for mask in masks])


def _wide(dtype: torch.dtype | None, tables: list[Tensor]) -> torch.dtype:
    """Return a floating type that holds the inputs' whole numbers too: the model's, else the
    inputs' own.
    """
    floats = [table.dtype for table in tables if table.is_floating_point()]
    dtype = dtype or reduce(torch.promote_types, floats, torch.float32)
    largest = max(
        (float(table.abs().max()) for table in tables if not table.is_floating_point()), default=0.0
    )
    return dtype if largest * torch.finfo(dtype).eps < 1 else torch.float64


def _side_by_side(parts: list[Tensor]) -> Tensor:
    return torch.cat([part.flatten(1).double() for part in parts], dim=1)


# What the players' values are, for people


def _by_player(
    rows: Tensor,
    words: NDArray[np.object_] | None,
    owner: NDArray[np.int64],
    columns: Sequence[str],
    placed: Tensor,
) -> tuple[NDArray[np.float64], NDArray[np.object_] | None]:
    """Return a number for every player's value, (r, p), and the words for it where they tell more.

    A single input's own number; of a one-hot block, which of its inputs is on; of any other block,
    the mean. `rows` (r, d) are as they were given; `placed` are the same where the model is, which
    may be faster.
    """
    if owner.size == int(owner.max()) + 1 and (owner == np.arange(owner.size)).all():
        return rows.double().cpu().numpy(), words
    data, on = _blocks(
        placed if placed.is_floating_point() else placed.double(), torch.from_numpy(owner)
    )
    if placed.dtype != rows.dtype:  # the model's type may have fewer digits
        alone = np.flatnonzero(np.bincount(owner)[owner] == 1)
        data[:, owner[alone]] = (
            rows[:, torch.as_tensor(alone, device=rows.device)].double().cpu().numpy()
        )
    if not columns:
        return data, None
    return data, _words(
        rows.cpu().numpy() if words is None else words,
        owner,
        on if words is None else None,
        columns,
    )


def _blocks(x: Tensor, owner: Tensor) -> tuple[NDArray[np.float64], NDArray[np.bool_]]:
    """Return each player's number (r, p), of inputs x (r, d), and whether its inputs are one-hot
    (r, p).
    """
    own = owner.to(x.device)
    size = torch.bincount(own).to(x.dtype)
    order = torch.argsort(own, stable=True)
    place = torch.empty_like(own)
    place[order] = (
        torch.arange(len(own), device=x.device) - (size.cumsum(0) - size).long()[own[order]]
    )

    def summed(numbers: Tensor) -> Tensor:
        return torch.zeros((len(x), len(size)), dtype=x.dtype, device=x.device).index_add_(
            1, own, numbers.to(x.dtype)
        )

    known = x.nan_to_num()
    total = summed(known)
    on = (summed((x == 0) | (x == 1)) == size) & (total == 1) & (size > 1)
    data = torch.where(on, summed(known * place), total / size)
    data = data.masked_fill(summed(x.isnan()) > 0, torch.nan)
    return data.double().cpu().numpy(), on.cpu().numpy()


def _words(
    cells: NDArray[Any],
    owner: NDArray[np.int64],
    on: NDArray[np.bool_] | None,
    columns: Sequence[str],
) -> NDArray[np.object_]:
    """Return how to read the players' inputs, (r, p): the column that is on of a one-hot block,
    else the values.
    """
    shown = np.empty((len(cells), int(owner.max()) + 1), dtype=object)
    for player in range(shown.shape[1]):
        own = np.flatnonzero(owner == player)
        block = cells[:, own]
        shown[:, player] = (
            block[:, 0] if len(own) == 1 else [", ".join(map(str, row)) for row in block]
        )
        if on is not None and len(own) > 1:
            hot = np.array(columns, dtype=object)[own[block.argmax(axis=1)]]
            shown[:, player] = np.where(on[:, player], hot, shown[:, player])
    return shown
