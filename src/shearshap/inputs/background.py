"""What an absent player is replaced with: one reference row (eq. 2) or background rows (eq. 1 of
the paper).
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import torch
from numpy.typing import ArrayLike, NDArray
from torch import Tensor

from shearshap.errors import InputError

Reference = ArrayLike | Tensor | Mapping[str, Any] | tuple[str, ArrayLike | Tensor]


def mean(background: NDArray[Any], _owner: NDArray[np.int64]) -> NDArray[Any]:
    """Return the mean of every input, missing ones apart: (b, d) to (d,). Of a one-hot block, the
    frequencies.
    """
    return np.asarray(np.nanmean(background, axis=0))


def median(background: NDArray[Any], _owner: NDArray[np.int64]) -> NDArray[Any]:
    """Return the median of every input, missing ones apart: (b, d) to (d,)."""
    return np.asarray(np.nanmedian(background, axis=0))


def mode(background: NDArray[Any], owner: NDArray[np.int64]) -> NDArray[Any]:
    """Return the most frequent value of every *player*: (b, d) to (d,).

    A player's inputs are taken together, so a one-hot block stays one-hot; of equally frequent
    values the smallest is taken.
    """
    row: NDArray[Any] = np.empty_like(background[0])
    for player in range(int(owner.max()) + 1):
        block = background[:, owner == player]
        kinds, counts = np.unique(block, axis=0, return_counts=True)
        row[owner == player] = kinds[counts.argmax()]
    return row


STATISTICS: dict[str, Callable[[NDArray[Any], NDArray[np.int64]], NDArray[Any]]] = {
    "mean": mean,
    "median": median,
    "mode": mode,
}


def background(
    reference: Reference, rows: Tensor, owner: NDArray[np.int64], *, missing: bool = False
) -> Tensor:
    """Return the rows to average over, (b, d): b = 1 for a single reference row.

    `rows` (r, *shape) are the rows to explain; they serve as the background of a bare "mean",
    "median" or "mode". ("mean", background) takes the statistic of a background given. NaN is
    refused unless `missing`.
    """
    shape = tuple(rows.shape[1:])
    if isinstance(reference, str):
        if len(rows) < 2:
            raise InputError(
                f"reference={reference!r} alone is taken of the rows explained, and there is only "
                "one, which "
                f"would be its own reference; pass reference=({reference!r}, background)"
            )
        return _statistic(reference, rows, owner)
    if isinstance(reference, tuple) and reference and isinstance(reference[0], str):
        if len(reference) != 2:
            raise InputError(
                f"reference: wanted a pair such as ('mean', background), got {reference!r}"
            )
        name, given = reference
        return _statistic(name, _checked(given, shape, name, missing=missing), owner)
    return _checked(reference, shape, "reference", missing=missing).reshape(-1, owner.size)


def _statistic(name: str, rows: Tensor, owner: NDArray[np.int64]) -> Tensor:
    if name not in STATISTICS:
        raise InputError(
            f"reference: wanted one of {', '.join(STATISTICS)}, a row or background rows; got "
            f"{name!r}"
        )
    numbers = rows.flatten(1).cpu()
    table = numbers.double() if numbers.is_floating_point() else numbers
    return torch.as_tensor(STATISTICS[name](table.numpy(), owner))[None]


def _checked(given: Any, shape: tuple[int, ...], what: str, *, missing: bool) -> Tensor:
    rows = numeric(given, what)
    if rows.shape == shape:
        rows = rows[None]
    if rows.ndim == 0 or rows.shape[1:] != shape or len(rows) == 0:
        raise InputError(
            f"{what}: wanted one row of shape {shape} or background rows of shape (b, "
            f"{_inner(shape)}), "
            f"got shape {tuple(rows.shape)}"
        )
    if not missing:
        check_finite(rows, what)
    return rows


def numeric(given: Any, what: str) -> Tensor:
    """Return an array, tensor or nested lists as a tensor of numbers, where it is and without a
    copy if it can.
    """
    if isinstance(given, Tensor):
        return given.detach()
    try:
        array = np.asarray(given)
    except ValueError as error:
        raise InputError(f"{what}: wanted a numeric array, got ragged lists ({error})") from error
    if array.dtype.kind not in "iuf" or array.dtype.itemsize > 8 or not array.dtype.isnative:
        try:
            array = array.astype(np.float64)
        except (TypeError, ValueError) as error:
            raise InputError(f"{what}: wanted numbers, got an array of {array.dtype}") from error
    return torch.from_numpy(np.require(array, requirements=["C", "W"]))


def check_finite(rows: Tensor, what: str, columns: Sequence[str] = ()) -> None:
    """Raise where a row holds NaN or infinity, and say where."""
    if not rows.is_floating_point() or bool(torch.isfinite(rows).all()):
        return
    wrong = ~torch.isfinite(rows)
    row, *column = (int(index) for index in wrong.nonzero()[0])
    bad = int(wrong.flatten(1).any(dim=1).sum())
    named = [columns[at] for at in column] if columns else column
    where = named[0] if len(column) == 1 else tuple(column)
    raise InputError(
        f"{what}: row {row} is {float(rows[(row, *column)])} at column {where} ({bad} of "
        f"{len(rows)} rows are not "
        "finite); fill in or drop missing values first"
    )


def _inner(shape: tuple[int, ...]) -> str:
    return ", ".join(str(size) for size in shape)
