"""Rows that are an array or a tensor: they are mixed as they are, in the type the model takes."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from numbers import Real
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from shearshap.adapters import AdaptedModel
from shearshap.errors import InputError
from shearshap.inputs.background import (
    STATISTICS,
    ParsedBackground,
    is_single_number,
    refuse_masked,
)
from shearshap.inputs.display import NumberDisplay
from shearshap.inputs.encoded import Inputs
from shearshap.inputs.frames import aligned, as_frame, matrix, named_cells
from shearshap.inputs.integers import (
    TRIED_ROWS,
    columns_of_ids,
    refuse_floats,
    try_floats,
    warn_of_rounding,
    whole_statistic,
)
from shearshap.inputs.players import Players


def encode_array(
    rows: Any,
    background: ParsedBackground,
    find_players: Callable[[tuple[int, ...]], Players],
    model: AdaptedModel,
    columns: Sequence[str] = (),
) -> Inputs:
    """Encode an array (r, *shape) whose columns have names or none."""
    table = checked_rows(rows, "rows", missing=model.takes_missing, columns=columns)
    shape = tuple(table.shape[1:])
    players = find_players(shape)
    source = background_source(background, table, missing=model.takes_missing, columns=columns)
    absent = absent_rows(background, source, players.owner)

    reach = way_to_model(rows, table.dtype, model)
    sides = _Sides(table, source, absent, background, model, reach, players.columns)
    fit = sides.fit(indices=isinstance(rows, Tensor) and not rows.is_floating_point())
    mixed = _placed(table.flatten(1), model, fit.dtype, background.argument)

    def untouched(count: int) -> Any:
        if model.takes_tensors:
            return mixed[:count].reshape(-1, *shape).clone()
        if isinstance(rows, Tensor):
            return reach(table[:count].clone())
        return np.array(np.asarray(rows)[:count])

    return Inputs(
        rows=mixed,
        background=_placed(fit.absent, model, fit.dtype, background.argument),
        shape=shape,
        owner=players.owner,
        names=players.names,
        decode=reach,
        display=NumberDisplay(table.flatten(1), mixed, players.owner, players.columns),
        index=np.arange(len(table)),
        untouched=untouched,
        evaluations=fit.evaluations,
    )


# How a tensor reaches the model


def way_to_model(rows: Any, dtype: torch.dtype, model: AdaptedModel) -> Callable[[Tensor], Any]:
    """Return what makes of a tensor (n, *shape) what the model takes.

    That is a tensor, or an array. What has the rows' own type, `dtype` in torch, keeps it to the
    order of its bytes.
    """
    if model.takes_tensors:
        return _same
    if isinstance(rows, Tensor):
        if model.takes_either:
            return lambda inputs: inputs.to(rows.device)
        check_numpy_knows(dtype, "rows")
        return as_numpy

    own = np.asarray(rows).dtype

    def as_given(inputs: Tensor) -> NDArray[Any]:
        array = as_numpy(inputs)
        return array.astype(own, copy=False) if inputs.dtype == dtype else array

    return as_given


def _same(inputs: Tensor) -> Tensor:
    return inputs


def as_numpy(inputs: Tensor) -> NDArray[Any]:
    """Return a tensor as a numpy array."""
    return inputs.cpu().numpy()


def check_numpy_knows(dtype: torch.dtype, argument: str) -> None:
    """Raise where numpy has no such type."""
    try:
        torch.empty(0, dtype=dtype, device="cpu").numpy()
    except TypeError as error:
        raise InputError(
            f"{argument}: this kind of model takes numpy arrays, which cannot be {dtype}; pass "
            "rows.float()"
        ) from error


# Rows


def checked_rows(
    rows: Any, argument: str, *, missing: bool = False, columns: Sequence[str] = ()
) -> Tensor:
    """Return rows as a tensor of numbers (r, *shape), or raise with what is wrong."""
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
    return torch.from_numpy(np.require(_of_numbers(array, argument), requirements=["C", "W"]))


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


def _of_numbers(array: NDArray[Any], argument: str) -> NDArray[Any]:
    """Return an array in a type that torch knows, or raise where it does not hold real numbers."""
    kind = array.dtype.kind
    wrong = f"{argument}: wanted numbers, got an array of {array.dtype}"
    if kind in "USVcMm":
        raise InputError(wrong + _remedy(array))
    if _known_to_torch(array.dtype):
        return array

    if kind == "O" and not all(_is_number(cell) for cell in array.flat):
        raise InputError(f"{wrong}s that are not all numbers; pass a frame, or rows.astype(float)")
    native = array.dtype.newbyteorder("=")
    wanted = native if _known_to_torch(native) else np.dtype(np.float64)
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


def _is_number(cell: Any) -> bool:
    """Return whether a cell of an array of objects is a real number, or missing."""
    if cell is None or isinstance(cell, Real | np.bool_):
        return True
    return type(cell).__name__ == "Decimal"


def _known_to_torch(dtype: np.dtype[Any]) -> bool:
    return dtype.kind in "biuf" and dtype.itemsize <= 8 and dtype.isnative


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


def background_source(
    background: ParsedBackground,
    explained: Tensor,
    *,
    missing: bool = False,
    columns: Sequence[str] = (),
) -> Tensor:
    """Return the rows that the background is, or that its statistic is taken of, (b, *shape).

    `explained` (r, *shape) are the rows to explain. A bare name is their statistic. NaN is refused
    unless `missing`.
    """
    background.check_count(len(explained))
    if background.of_explained:
        return explained
    shape = tuple(explained.shape[1:])
    numbers = _as_numbers(background.rows, shape, columns, background.argument)
    return _checked_background(numbers, shape, background.argument, missing=missing)


def absent_rows(background: ParsedBackground, source: Tensor, owner: NDArray[np.int64]) -> Tensor:
    """Return the background of rows (b, *shape), (b, d): a single row where it is a statistic."""
    rows = source.flatten(1)
    if background.statistic is None:
        return rows
    return _statistic(background.statistic, rows.cpu(), owner)


def _as_numbers(rows: Any, shape: tuple[int, ...], columns: Sequence[str], argument: str) -> Any:
    """Return a frame, a row by name, or a single number for all inputs, as numbers.

    They are in the order of `columns`. Anything else is returned as it is.
    """
    if is_single_number(rows):
        return np.full(shape, rows)
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
    table = known_numpy(rows)
    if table.dtype.kind == "f":
        table = table.astype(np.float64, copy=False)
    if table.dtype.kind == "b":
        table = table.astype(np.uint8)  # truth values have no mean
    return torch.as_tensor(STATISTICS[name](table, owner))[None]


def known_numpy(numbers: Tensor) -> NDArray[Any]:
    """Return a tensor as a numpy array, in double precision where numpy lacks its type."""
    is_known = numbers.dtype != torch.bfloat16
    return as_numpy(numbers if is_known else numbers.double())


def numpy_type(dtype: torch.dtype) -> np.dtype[Any]:
    """Return numpy's name for a type."""
    return torch.empty(0, dtype=dtype, device="cpu").numpy().dtype


# Integers


def whole_rows(
    background: ParsedBackground, source: Tensor, absent: Tensor, dtype: torch.dtype
) -> Tensor:
    """Return a statistic (1, d), of rows (b, *shape), in an integer type: the nearest integers.

    Where doubles cannot hold the integers of a column, its statistic is computed without them.
    """
    wanted = numpy_type(dtype)
    row = known_numpy(absent)[0]
    whole = _rounded(row, wanted)
    rows = known_numpy(source.flatten(1))
    if row.dtype.kind == "f" and wanted.kind != "b":
        assert background.statistic is not None
        for column in np.flatnonzero(columns_of_ids(rows)):
            whole[column] = whole_statistic(background.statistic, rows[:, column].tolist())
    return torch.from_numpy(whole)[None]


def _rounded(row: NDArray[Any], dtype: np.dtype[Any]) -> NDArray[Any]:
    """Return the integers of a type that are nearest to numbers (d,)."""
    if dtype.kind == "b":
        return np.asarray(np.rint(row) > 0)
    limits = np.iinfo(dtype)
    numbers = [min(max(round(number), limits.min), limits.max) for number in row.tolist()]
    return np.array(numbers, dtype=dtype)


def check_whole(background: Tensor, dtype: torch.dtype, argument: str) -> None:
    """Raise where a background does not fit the integer type of the rows."""
    if not fits(background, dtype):
        raise InputError(f"{argument}: integer rows need an integer background; try ('mode', rows)")


def fits(numbers: Tensor, dtype: torch.dtype) -> bool:
    """Return whether numbers are the same in an integer type, or that of truth values."""
    own = known_numpy(numbers)
    wanted = numpy_type(dtype)
    if own.dtype == wanted:
        return True
    if own.dtype.kind == "f" and not (own == np.trunc(own)).all():
        return False

    limits = None if wanted.kind == "b" else np.iinfo(wanted)
    lowest = 0 if limits is None else limits.min
    highest = 1 if limits is None else limits.max
    # as Python's numbers, which compare exactly: the largest integers are no doubles
    return bool(lowest <= own.min().item() and own.max().item() <= highest)


# Types


@dataclass(frozen=True)
class _Fit:
    """The background, and the type in which the rows and it are mixed."""

    absent: Tensor  #: (b, d)
    dtype: torch.dtype
    evaluations: int = 0  #: of the model, that it took to find out


@dataclass(frozen=True)
class _Sides:
    """Rows and a background that are to be mixed in one type."""

    table: Tensor  #: (r, *shape) the rows
    source: Tensor  #: (b, *shape) the rows that the background comes from
    absent: Tensor  #: (b, d) the background
    background: ParsedBackground
    model: AdaptedModel
    reach: Callable[[Tensor], Any]  #: makes of a tensor what the model takes
    columns: Sequence[str]  #: the inputs' names; empty where they are not known

    def fit(self, *, indices: bool) -> _Fit:
        """Return the background and the type to mix in: the model's, else the rows'.

        With `indices`, the rows are a tensor of integers: indices of embeddings, which stay
        integers whatever type the model's parameters have.
        """
        own = self.table.dtype
        if indices:
            check_whole(self.absent, own, self.background.argument)
            return _Fit(self._whole(), own)
        if self.model.dtype is not None:
            return _Fit(self.absent, self.model.dtype)
        if own.is_floating_point:
            return _Fit(self.absent, own)
        return self._fit_to_integers()

    def _whole(self) -> Tensor:
        """Return the background in the rows' type, a statistic rounded to it."""
        if self.background.statistic is None:
            return self.absent
        return whole_rows(self.background, self.source, self.absent, self.table.dtype)

    def _fit_to_integers(self) -> _Fit:
        """Return the type for an array of integers, or of truth values."""
        own = self.table.dtype
        if fits(self.absent, own):
            return _Fit(self._whole(), own)

        kinds = [numpy_type(part.dtype) for part in (self.table, self.absent)]
        common = torch.from_numpy(np.empty(0, np.promote_types(*kinds))).dtype
        if not common.is_floating_point and own != torch.bool:
            return _Fit(self.absent, common)  # a wider type of integers

        ids = columns_of_ids(as_numpy(self.table.flatten(1)))
        ids |= columns_of_ids(known_numpy(self.source.flatten(1)))
        if ids.any():
            return self._fit_beside_ids(ids)
        return self._fit_by_trial(common)

    def _fit_beside_ids(self, ids: NDArray[np.bool_]) -> _Fit:
        """Return the fit to an array with columns of ids, which must stay integers."""
        if self.background.statistic is None:
            raise InputError(
                f"{self.background.argument}: rows or background hold integers beyond 2^53, which "
                "floating numbers cannot hold exactly, beside other numbers; pass both as integers"
            )
        return self._fit_rounded("the rows hold integers beyond 2^53", ~ids)

    def _fit_by_trial(self, common: torch.dtype) -> _Fit:
        """Return the fit of floats where they do no harm, else of integers."""
        alike = self.source.dtype == self.table.dtype
        first = (self.source if alike else self.table)[:TRIED_ROWS]
        as_they_are = self.reach(first.clone())
        as_floats = self.reach(first.to(common, copy=True))
        trial = try_floats(self.model, as_they_are, as_floats, len(first))
        if trial.harmless:
            return _Fit(self.absent, common, trial.evaluations)

        if self.background.statistic is None:
            other = [
                name
                for name, column in zip(self._names, self.absent.unbind(1), strict=True)
                if not fits(column, self.table.dtype)
            ]
            raise refuse_floats(self.background, other)
        everywhere = np.ones(len(self._names), dtype=np.bool_)
        fit = self._fit_rounded("the model tells integers from floating numbers", everywhere)
        return replace(fit, evaluations=trial.evaluations)

    def _fit_rounded(self, cause: str, reported: NDArray[np.bool_]) -> _Fit:
        """Return a statistic rounded to the rows' integers, and warn of the columns reported."""
        whole = self._whole()
        numbers = self.absent[0].tolist()
        integers = whole[0].tolist()
        rounded = [
            (self._names[place], numbers[place], int(integers[place]))
            for place in np.flatnonzero(reported).tolist()
            if numbers[place] != integers[place]
        ]
        if rounded:
            warn_of_rounding(self.background, rounded, cause)
        return _Fit(whole, self.table.dtype)

    @property
    def _names(self) -> Sequence[Any]:
        """The inputs' names, or their numbers."""
        return self.columns or range(self.absent.shape[1])


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
