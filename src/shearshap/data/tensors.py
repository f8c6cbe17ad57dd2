"""Rows of every kind as tensors to mix, and the way back to the model's inputs.

Arrays, tensors and nested lists become tensors of their own type:

    passed                                   tensor
    np.array([[1, 2]], dtype=np.uint8)       uint8       the same type, and the same memory
    np.array([[1, 2]], dtype=">f4")          float32     in the byte order that torch knows
    [[1, Fraction(1, 2)]]                    float64     Python's numbers
    [["1", "2"]]                             refused
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from shearshap.errors import InputError
from shearshap.games.conditional import Sampler
from shearshap.models.base import all_finite

MAX_EXACT_INTEGER = 1 << 53
"""Beyond this number, two integers may be one number in double precision."""


class Display(Protocol):
    """The players' inputs as people read them."""

    @property
    def data(self) -> NDArray[np.float64]:
        """A number for each player of each row, (r, p)."""

    @property
    def words(self) -> NDArray[np.object_] | None:
        """Words for each player of each row, (r, p); None if they say no more than `data`."""

    @property
    def columns(self) -> Sequence[str]:
        """The inputs' names, (d,); none if they are not known."""


@dataclass(frozen=True, eq=False)
class Inputs:
    """Rows and background as tensors of one type, their players, and how people read them."""

    rows: Tensor  #: (r, d)
    background: Tensor  #: (b, d)
    shape: tuple[int, ...]  #: of one row, as `decode` takes it
    owner: NDArray[np.int64]  #: (d,) the player that owns each input
    names: list[str]  #: of the players; empty if they are not known
    decode: Callable[[Tensor], Any]  #: from inputs (n, *shape) to the model's arguments
    display: Display  #: the players' inputs as people read them
    index: NDArray[Any]  #: (r,) the rows' labels

    #: Rows exactly as the model gets them if nothing is mixed.
    original_rows: Callable[[slice], Any]

    type_changes: tuple[str, ...] = ()  #: of the rows, on their way to the model, in words
    type_hint: str = ""  #: about types of the rows, for a user whose model fails on them
    index_name: str | tuple[str | None, ...] | None = None  #: of several levels, all their names
    smooth: bool = True  #: whether there are points between a row and its background
    least_batch: int = 1  #: the minimum efficient batch of `decode`
    #: (b,) of the background rows, with the sum 1; None: they count equally
    weights: NDArray[np.float64] | None = None
    #: (d,) the input that each column of what the model takes is; None: they are in order
    order: NDArray[np.int64] | None = None
    background_description: str = ""  #: what absent features are replaced with, in words
    notes: tuple[str, ...] = ()  #: sentences about rows and background, for the user
    sampler: Sampler | None = None  #: if absent features depend on present ones; see `ModelGame`
    #: the groups that each player is in, from the largest to the smallest; None without any
    paths: tuple[tuple[str, ...], ...] | None = None

    @property
    def players(self) -> int:
        """The number of players p."""
        return int(self.owner.max()) + 1


# Numbers


def checked_rows(
    rows: Any, argument: str, *, missing: bool = False, columns: Sequence[str] = ()
) -> Tensor:
    """Return rows as a tensor of numbers (r, *shape), or raise an error that says what is wrong.

    NaN is refused unless `missing`. `columns` are the inputs' names, if they are known.
    """
    table = numeric(rows, argument)
    if table.ndim < 2:
        raise InputError(
            f"{argument}: expected shape (r, d), got {tuple(table.shape)}; for a single row pass "
            "rows[None]"
        )
    if table.numel() == 0:
        raise InputError(
            f"{argument}: expected rows and columns, got an array of shape {tuple(table.shape)}"
        )
    if not missing:
        check_finite(table, argument, columns)
    return table


def numeric(numbers: Any, argument: str) -> Tensor:
    """Return an array, a tensor or nested lists as a tensor of numbers, uncopied if possible."""
    if isinstance(numbers, Tensor):
        check_tensor(numbers, argument)
        return numbers.detach()

    for method in ("toarray", "collect"):  # sparse matrices, and lazy frames
        if hasattr(numbers, method):
            kind = type(numbers).__name__
            raise InputError(f"{argument}: a {kind} is not supported; pass rows.{method}()")
    refuse_masked(numbers, argument)
    try:
        array = np.asarray(numbers)
    except ValueError as error:
        raise InputError(
            f"{argument}: expected a numeric array, got ragged lists ({error})"
        ) from error

    known = _in_type_of_torch(array, argument)
    return torch.from_numpy(np.require(known, requirements=["C", "W"]))


def refuse_masked(numbers: Any, argument: str) -> None:
    """Raise if an array has masked entries, which a model would read as numbers."""
    if isinstance(numbers, np.ma.MaskedArray):
        raise InputError(
            f"{argument}: masked entries are not supported; fill them in, as in rows.filled(0), or "
            "pass a frame with missing values"
        )


def check_tensor(numbers: Tensor, argument: str) -> None:
    """Raise unless a tensor is dense and holds real numbers."""
    is_dense = numbers.layout == torch.strided and not numbers.is_nested
    is_real = not (numbers.is_complex() or numbers.is_quantized or numbers.is_meta)
    if not is_dense or not is_real:
        raise InputError(
            f"{argument}: expected a dense tensor of real numbers, got one of {numbers.dtype} "
            f"({numbers.layout}, on {numbers.device})"
        )


def _in_type_of_torch(array: NDArray[Any], argument: str) -> NDArray[Any]:
    """Return an array in a type that torch knows, or raise if it does not hold real numbers."""
    if _is_known_to_torch(array.dtype):
        return array.view(array.dtype.str)  # numpy has two names for some, and torch knows one

    native = array.dtype.newbyteorder("=")
    wanted = native if _is_known_to_torch(native) else np.dtype(np.float64)
    # of objects, text is not read as numbers, which it may be by accident
    is_text = array.dtype.kind == "O" and any(isinstance(cell, str | bytes) for cell in array.flat)
    if array.dtype.kind in "biufO" and not is_text:
        try:
            return array.astype(wanted)
        except (TypeError, ValueError):
            pass
    raise InputError(
        f"{argument}: expected numbers, got an array of {array.dtype}; pass a frame, or encode "
        "the other values"
    )


def _is_known_to_torch(dtype: np.dtype[Any]) -> bool:
    return dtype.kind in "biuf" and dtype.itemsize <= 8 and dtype.isnative


def check_finite(rows: Tensor, argument: str, columns: Sequence[str] = ()) -> None:
    """Raise if a row holds NaN or infinity, and say in which place."""
    if not rows.is_floating_point() or all_finite(rows):
        return
    wrong = ~torch.isfinite(rows)
    row, *place = wrong.nonzero()[0].tolist()
    number = float(rows[(row, *place)])
    column: Any = tuple(place)
    if len(place) == 1:
        column = columns[place[0]] if columns else place[0]
    count = int(wrong.flatten(1).any(dim=1).sum())
    others = f" ({count} of {len(rows)} rows are not finite)" if len(rows) > 1 else ""
    raise InputError(
        f"{argument}: row {row} has {number} in column {column}{others}; fill in or drop missing "
        "values first"
    )


def check_range(numbers: Tensor) -> None:
    """Raise if numbers are so large that the difference of two may not be finite."""
    if not can_be_subtracted(numbers):
        raise InputError(
            f"rows or background: some numbers are too large for the model's {numbers.dtype}"
        )


def can_be_subtracted(numbers: Tensor) -> bool:
    """Return whether the difference of any two numbers is finite."""
    dtype = numbers.dtype
    if not dtype.is_floating_point:
        return True
    return bool((numbers.abs() <= torch.finfo(dtype).max / 4).all())


def check_exact(numbers: NDArray[Any]) -> None:
    """Raise if an array holds integers too large for the floating numbers that they become."""
    if numbers.dtype.kind not in "iu" or numbers.size == 0:
        return
    if max(-int(numbers.min()), int(numbers.max())) > MAX_EXACT_INTEGER:
        raise inexact_error("rows or background hold")


def inexact_error(place: str) -> InputError:
    """Return the error for integers, at a place, that floating numbers cannot hold exactly."""
    return InputError(
        f"background: {place} integers beyond 2^53, which floats cannot hold exactly; pass rows "
        "and background as integers, as with ('mode', rows)"
    )


# Tensors as arrays


def as_numpy(numbers: Tensor) -> NDArray[Any]:
    """Return a tensor as a numpy array."""
    return numbers.cpu().numpy()


def in_type_of_numpy(numbers: Tensor) -> NDArray[Any]:
    """Return a tensor as a numpy array, in double precision if numpy lacks its type."""
    is_known = numbers.dtype != torch.bfloat16
    return as_numpy(numbers if is_known else numbers.double())
