"""What rows of every kind become: tensors to mix, and the way back to what the model takes.

Arrays, tensors and nested lists become tensors as they are:

    passed                                   tensor
    np.array([[1, 2]], dtype=np.uint8)       uint8       the same type, and the same memory
    np.array([[1, 2]], dtype=">f4")          float32     the order of bytes that torch knows
    [[1, Fraction(1, 2)]]                    float64     Python's numbers
    [["1", "2"]]                             refused

What is refused is refused here, with what to try instead.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from numbers import Real
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from shearshap.data.display import Display
from shearshap.errors import InputError

MAX_EXACT_INTEGER = 1 << 53
"""Beyond this number, two integers may be one number in double precision."""


@dataclass(frozen=True, eq=False)
class Inputs:
    """Rows and background as tensors of one type, their players, and how people read them."""

    rows: Tensor  #: (r, d)
    background: Tensor  #: (b, d)
    shape: tuple[int, ...]  #: of one row, as `decode` takes it
    owner: NDArray[np.int64]  #: (d,) the player that owns each input
    names: list[str]  #: of the players; empty where they are not known
    decode: Callable[[Tensor], Any]  #: inputs (n, *shape) to what the model takes
    display: Display  #: what the players' inputs are, for people
    index: NDArray[Any]  #: (r,) the rows' labels

    #: Rows exactly as the model gets them if nothing is mixed.
    untouched: Callable[[slice], Any]

    type_changes: tuple[str, ...] = ()  #: of the rows, on their way to the model, in words
    index_name: str | tuple[str | None, ...] | None = None  #: of several levels, all their names
    smooth: bool = True  #: whether there are points between a row and its background
    notes: tuple[str, ...] = ()  #: on what is not as the user gave it
    least_batch: int = 1  #: rows for which `decode` is worth its trouble
    #: (b,) of the background rows, with the sum 1; None: they count equally
    weights: NDArray[np.float64] | None = None
    #: (d,) the input that each column of what the model takes is; None: they are in order
    order: NDArray[np.int64] | None = None

    @property
    def players(self) -> int:
        """The number of players p."""
        return int(self.owner.max()) + 1

    @property
    def data(self) -> NDArray[np.float64]:
        """A number for each player of each row, (r, p); computed when first read."""
        return self.display.data

    @property
    def display_data(self) -> NDArray[np.object_] | None:
        """Words for each player of each row, (r, p); None where they say no more than `data`.

        They are computed when first read.
        """
        return self.display.words


def row_numbers(rows: int, shape: tuple[int, ...], device: torch.device | str = "cpu") -> Tensor:
    """Return the cells of a pool, each known by the row that it stands in: (n, *shape).

    For n = 2 rows of shape (3,) that is 0 0 0, 1 1 1. A mix of the pool's rows is a mix of them.
    """
    numbers = torch.arange(rows, device=device)
    return numbers.reshape(-1, *(1 for _ in shape)).expand(-1, *shape)


def background_numbers(cells: Tensor, same: Tensor, background: int) -> Tensor:
    """Return cells (n, *shape) of a pool, of which some are those of a background row.

    Where the content is the `same`, the cell is known by the number of that row: so a player whose
    cells are all like that is known to be null.
    """
    return torch.where(same, background, cells) if same.any() else cells


# Numbers


def checked_rows(
    rows: Any, argument: str, *, missing: bool = False, columns: Sequence[str] = ()
) -> Tensor:
    """Return rows as a tensor of numbers (r, *shape), or raise with what is wrong.

    NaN is refused unless `missing`. `columns` are the inputs' names, where they are known.
    """
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
        check_tensor(numbers, argument)
        return numbers.detach()

    for method in ("toarray", "collect"):  # sparse matrices, and lazy frames
        if hasattr(numbers, method):
            raise InputError(
                f"{argument}: a {type(numbers).__name__} has no rows to mix as it is; pass "
                f"rows.{method}()"
            )
    refuse_masked(numbers, argument)
    try:
        array = np.asarray(numbers)
    except ValueError as error:
        raise InputError(
            f"{argument}: wanted a numeric array, got ragged lists ({error})"
        ) from error

    known = _in_type_of_torch(array, argument)
    return torch.from_numpy(np.require(known, requirements=["C", "W"]))


# What cannot be mixed


def refuse_masked(numbers: Any, argument: str) -> None:
    """Raise if an array has masked entries, which a model would read as numbers."""
    if isinstance(numbers, np.ma.MaskedArray):
        raise InputError(
            f"{argument}: masked entries are no numbers; fill them in, as in rows.filled(0), or "
            "pass a frame with missing values"
        )


def check_tensor(numbers: Tensor, argument: str) -> None:
    """Raise where a tensor's numbers cannot be mixed one by one."""
    wrong = None
    if numbers.is_nested:
        wrong = ("nested", "rows.to_padded_tensor(0.0)")
    elif numbers.layout != torch.strided:
        wrong = ("sparse", "rows.to_dense()")
    elif numbers.is_quantized:
        wrong = ("quantized", "rows.dequantize()")
    elif numbers.is_meta:
        wrong = ("without numbers (on the meta device)", "one that holds numbers")
    elif numbers.is_complex():
        wrong = ("of complex numbers", "torch.view_as_real(rows)")
    if wrong is not None:
        kind, remedy = wrong
        raise InputError(f"{argument}: wanted numbers, got a tensor that is {kind}; pass {remedy}")


def _in_type_of_torch(array: NDArray[Any], argument: str) -> NDArray[Any]:
    """Return an array in a type that torch knows, or raise where it does not hold real numbers."""
    kind = array.dtype.kind
    wrong = f"{argument}: wanted numbers, got an array of {array.dtype}"
    if kind in "USVcMm":  # text, records, complex numbers and times
        raise InputError(wrong + _remedy(array))
    if _is_known_to_torch(array.dtype):
        return array.view(array.dtype.str)  # numpy has two names for some, and torch knows one

    if kind == "O" and not all(_is_number(cell) for cell in array.flat):
        raise InputError(f"{wrong}s that are not all numbers; pass a frame, or rows.astype(float)")
    if kind == "O" and any(_is_inexact(cell) for cell in array.flat):
        raise inexact_error(argument, "there are")
    native = array.dtype.newbyteorder("=")
    wanted = native if _is_known_to_torch(native) else np.dtype(np.float64)
    try:
        converted = array.astype(wanted)
    except (TypeError, ValueError) as error:
        raise InputError(wrong) from error
    if kind == "f" and not np.array_equal(converted, array, equal_nan=True):
        raise InputError(
            f"{argument}: {array.dtype} has more digits than can be mixed; pass "
            "rows.astype(np.float64)"
        )
    return converted


def is_of_objects(rows: Any) -> bool:
    """Return whether rows are an array, or lists, of objects."""
    if isinstance(rows, Tensor):
        return False
    try:
        return np.asarray(rows).dtype == object
    except ValueError:  # lists of several lengths
        return False


def _is_known_to_torch(dtype: np.dtype[Any]) -> bool:
    return dtype.kind in "biuf" and dtype.itemsize <= 8 and dtype.isnative


def _is_number(cell: Any) -> bool:
    """Return whether a cell of an array of objects is a real number, or missing."""
    if cell is None or isinstance(cell, Real | np.bool_):
        return True
    return type(cell).__name__ == "Decimal"  # which Python does not count among real numbers


def _remedy(array: NDArray[Any]) -> str:
    """Return what to do with an array that holds something else than real numbers."""
    kind = array.dtype.kind
    if kind in "Mm":
        return "; pass a frame, or make numbers of the times, rows.astype('int64')"
    if kind == "c":
        return "; pass real and imaginary parts, or the absolute value"
    try:
        array.astype(np.float64)
    except (TypeError, ValueError):
        return ""
    return "; make numbers of the text first, rows.astype(float)"


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


def check_range(numbers: Tensor, argument: str) -> None:
    """Raise where numbers are so large that the difference of two may not be finite."""
    if not can_be_subtracted(numbers):
        raise InputError(
            f"rows or {argument}: there are numbers too large for the model's {numbers.dtype}"
        )


def can_be_subtracted(numbers: Tensor) -> bool:
    """Return whether the difference of any two numbers is finite."""
    dtype = numbers.dtype
    if not dtype.is_floating_point:
        return True
    return bool((numbers.abs() <= torch.finfo(dtype).max / 4).all())


def check_exact(numbers: NDArray[Any], argument: str) -> None:
    """Raise if an array holds integers too large for the floating numbers that they become."""
    if numbers.dtype.kind not in "iu" or numbers.size == 0:
        return
    if _is_inexact(int(numbers.min())) or _is_inexact(int(numbers.max())):
        raise inexact_error(argument, "rows or background hold")


def _is_inexact(number: Any) -> bool:
    return isinstance(number, int) and abs(number) > MAX_EXACT_INTEGER


def inexact_error(argument: str, place: str) -> InputError:
    """Return the error for integers, at a place, that floating numbers cannot hold exactly."""
    return InputError(
        f"{argument}: {place} integers beyond 2^53, which floating numbers cannot hold exactly; "
        "pass rows and background as integers, as with ('mode', rows)"
    )


# Tensors as arrays


def as_numpy(numbers: Tensor) -> NDArray[Any]:
    """Return a tensor as a numpy array."""
    return numbers.cpu().numpy()


def in_type_of_numpy(numbers: Tensor) -> NDArray[Any]:
    """Return a tensor as a numpy array, in double precision where numpy lacks its type."""
    is_known = numbers.dtype != torch.bfloat16
    return as_numpy(numbers if is_known else numbers.double())


def numpy_type(dtype: torch.dtype) -> np.dtype[Any]:
    """Return numpy's name for a type; raise a TypeError where numpy has no such type."""
    return torch.empty(0, dtype=dtype, device="cpu").numpy().dtype
