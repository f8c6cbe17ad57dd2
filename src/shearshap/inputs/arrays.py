"""Rows that are an array or a tensor: they are mixed as they are, in the type the model takes."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from shearshap.adapters import AdaptedModel
from shearshap.errors import InputError
from shearshap.inputs.background import STATISTICS, ParsedBackground
from shearshap.inputs.display import NumberDisplay
from shearshap.inputs.encoded import Inputs
from shearshap.inputs.frames import aligned, as_frame, matrix, named_cells
from shearshap.inputs.players import Groups, players


def encode_array(
    rows: Any,
    background: ParsedBackground,
    groups: Groups,
    model: AdaptedModel,
    columns: Sequence[str] = (),
) -> Inputs:
    """Encode an array (r, *shape) whose columns have names or none."""
    table = checked_rows(rows, "rows", missing=model.takes_missing, columns=columns)
    shape = tuple(table.shape[1:])
    owner, names = players(groups, shape, columns)
    absent = background_rows(background, table, owner, missing=model.takes_missing, columns=columns)

    dtype = _mixed_type(table, absent, model)
    if isinstance(rows, Tensor) and not rows.is_floating_point():
        # an integer tensor holds indices of embeddings, which stay integers
        check_whole(absent, rows.dtype, background.argument)
        dtype = rows.dtype
    mixed = _placed(table.flatten(1), model, dtype, background.argument)
    return Inputs(
        rows=mixed,
        background=_placed(absent, model, dtype, background.argument),
        shape=shape,
        owner=owner,
        names=names,
        decode=_same if model.takes_tensors else as_numpy,
        display=NumberDisplay(table.flatten(1), mixed, owner, columns),
        index=np.arange(len(table)),
        untouched=lambda n: (
            mixed[:n].reshape(-1, *shape) if model.takes_tensors else rows[:n]
        ),  # TEMP
    )


def _same(inputs: Tensor) -> Tensor:
    return inputs


def as_numpy(inputs: Tensor) -> NDArray[Any]:
    """Return a tensor as a numpy array."""
    return inputs.cpu().numpy()


# Rows


def checked_rows(
    rows: Any, argument: str, *, missing: bool = False, columns: Sequence[str] = ()
) -> Tensor:
    """Return rows as a tensor of numbers (r, *shape), or raise with what is wrong."""
    for method in ("toarray", "collect"):  # sparse matrices, and lazy frames
        if hasattr(rows, method):
            raise InputError(
                f"{argument}: a {type(rows).__name__} has no rows to mix as it is; pass "
                f"rows.{method}()"
            )
    table = numeric(rows, argument)
    if table.ndim < 2:
        raise InputError(
            f"{argument}: wanted shape (r, d), got {tuple(table.shape)}; for a single row pass "
            "rows[None]"
        )
    if table.numel() == 0:
        raise InputError(
            f"{argument}: there is nothing to explain in an array of shape {tuple(table.shape)}"
        )
    if not missing:
        check_finite(table, argument, columns)
    return table


def numeric(numbers: Any, argument: str) -> Tensor:
    """Return an array, a tensor or nested lists as a tensor of numbers, uncopied where possible."""
    if isinstance(numbers, Tensor):
        return numbers.detach()
    try:
        array = np.asarray(numbers)
    except ValueError as error:
        raise InputError(
            f"{argument}: wanted a numeric array, got ragged lists ({error})"
        ) from error

    if not _known_to_torch(array.dtype):
        try:
            array = array.astype(np.float64)
        except (TypeError, ValueError) as error:
            raise InputError(
                f"{argument}: wanted numbers, got an array of {array.dtype}"
            ) from error
    return torch.from_numpy(np.require(array, requirements=["C", "W"]))


def _known_to_torch(dtype: np.dtype[Any]) -> bool:
    return dtype.kind in "iuf" and dtype.itemsize <= 8 and dtype.isnative


def check_finite(rows: Tensor, argument: str, columns: Sequence[str] = ()) -> None:
    """Raise where a row holds NaN or infinity, and say where."""
    if not rows.is_floating_point():
        return
    wrong = ~torch.isfinite(rows)
    if not bool(wrong.any()):
        return

    row, *place = wrong.nonzero()[0].tolist()
    number = float(rows[(row, *place)])
    where: Any = tuple(place)
    if len(place) == 1:
        where = columns[place[0]] if columns else place[0]
    count = int(wrong.flatten(1).any(dim=1).sum())
    raise InputError(
        f"{argument}: row {row} is {number} at column {where} ({count} of {len(rows)} rows are not "
        "finite); fill in or drop missing values first"
    )


# Background


def background_rows(
    background: ParsedBackground,
    explained: Tensor,
    owner: NDArray[np.int64],
    *,
    missing: bool = False,
    columns: Sequence[str] = (),
) -> Tensor:
    """Return the background, (b, d): one row where it is a row or a statistic.

    `explained` (r, *shape) are the rows to explain. A bare name is their statistic. NaN is refused
    unless `missing`.
    """
    background.check_count(len(explained))
    if background.of_explained:
        rows = explained
    else:
        numbers = _as_numbers(background.rows, columns, background.argument)
        shape = tuple(explained.shape[1:])
        rows = _checked_background(numbers, shape, background.argument, missing=missing)

    if background.statistic is None:
        return rows.flatten(1)
    return _statistic(background.statistic, rows.flatten(1).cpu(), owner)


def _as_numbers(rows: Any, columns: Sequence[str], argument: str) -> Any:
    """Return a frame, or a row by name, as numbers in the order of `columns`.

    Anything else is returned as it is.
    """
    frame = as_frame(rows, argument)
    if frame is not None:
        return matrix(aligned(frame, columns, argument) if columns else frame, argument)

    by_name = hasattr(rows, "keys") and not isinstance(rows, Tensor)
    if columns and by_name:
        return [float(cells[0]) for cells in named_cells(rows, columns, argument)]
    return rows


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


def _statistic(name: str, rows: Tensor, owner: NDArray[np.int64]) -> Tensor:
    """Return the statistic of rows (b, d) as one row, (1, d)."""
    table = rows.double() if rows.is_floating_point() else rows
    return torch.as_tensor(STATISTICS[name](table.numpy(), owner))[None]


def check_whole(background: Tensor, dtype: torch.dtype, argument: str) -> None:
    """Raise where a background does not fit the integer type of the rows."""
    if not torch.equal(background.double(), background.to(dtype).double()):
        raise InputError(f"{argument}: integer rows need an integer background; try ('mode', rows)")


# Types


def _mixed_type(table: Tensor, absent: Tensor, model: AdaptedModel) -> torch.dtype:
    """Return the type in which rows and background are mixed: the model's, else their own."""
    if model.dtype is not None:
        return model.dtype
    return torch.promote_types(table.dtype, absent.dtype)


def _placed(rows: Tensor, model: AdaptedModel, dtype: torch.dtype, argument: str) -> Tensor:
    """Return rows (n, d) on the model's device and in a type of its own."""
    usable = rows.clone() if rows.is_inference() else rows
    placed = usable.to(model.device, dtype)
    check_range(placed, argument)
    return placed


def check_range(numbers: Tensor, argument: str) -> None:
    """Raise where numbers are so large that the difference of two may not be finite."""
    dtype = numbers.dtype
    if not dtype.is_floating_point:
        return
    if bool((numbers.abs() > torch.finfo(dtype).max / 4).any()):
        raise InputError(f"rows or {argument}: there are numbers too large for the model's {dtype}")
