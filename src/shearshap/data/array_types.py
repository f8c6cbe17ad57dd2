"""The one type in which an array and its background are mixed: the model's, else the rows'.

    rows         background          the model takes     mixed as
    float64      any                 float32             float32
    float64      any                 any type            float64
    uint8        int64, 7            any type            uint8
    uint8        int64, 300          any type            int64, a wider type of integers
    int64        float64, 0.5        any type            float64, or int64: integers.py has the rule
    indices      int64, 7            float32             int64

Indices, such as those of an embedding's rows, are what a tensor of integers holds.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from shearshap.data.array_background import ArrayBackground
from shearshap.data.float_trial import MAX_TRIED_ROWS, FloatTrial, try_floats
from shearshap.data.integers import (
    MODEL_TELLS,
    ROWS_HOLD_IDS,
    Rounding,
    columns_of_ids,
    fits_integer_type,
    ids_error,
    not_whole_error,
    warn_of_rounding,
)
from shearshap.data.tensors import as_numpy, in_type_of_numpy, numpy_type
from shearshap.models import AdaptedModel


@dataclass(frozen=True, eq=False)
class CommonType:
    """The type in which rows and background are mixed."""

    dtype: torch.dtype
    background: Tensor  #: (b, d) as it is, or rounded to integers
    evaluations: int = 0  #: of the model, that it took to find out


@dataclass(frozen=True, eq=False)
class ArrayPair:
    """An array and its background, which are to be mixed."""

    rows: Tensor  #: (r, *shape)
    background: ArrayBackground
    columns: Sequence[str]  #: the inputs' names; empty where they are not known
    model: AdaptedModel
    decode: Callable[[Tensor], Any]  #: makes of a tensor what the model takes

    def common_type(self, *, are_indices: bool) -> CommonType:
        """Return the type to mix in: the model's, else the rows'.

        Indices stay integers whatever type the model's parameters have.
        """
        if are_indices:
            self.background.check_whole(self.rows.dtype)
            return self._integers()
        if self.model.dtype is not None:
            return CommonType(self.model.dtype, self.background.rows)
        if self.rows.is_floating_point():
            return CommonType(self.rows.dtype, self.background.rows)
        return self._beside_integers()

    # Rows of integers, or of truth values

    def _beside_integers(self) -> CommonType:
        """Return the type for rows of integers, or of truth values."""
        if fits_integer_type(self.background.rows, self.rows.dtype):
            return self._integers()

        promoted = self._promoted_type()
        is_wider_integer = not promoted.is_floating_point and self.rows.dtype != torch.bool
        if is_wider_integer:
            return CommonType(promoted, self.background.rows)
        if self._ids.any():
            return self._beside_ids()
        return self._by_trial(promoted)

    def _promoted_type(self) -> torch.dtype:
        """Return the type that numpy gives to a sum of rows and background."""
        own = numpy_type(self.rows.dtype)
        other = in_type_of_numpy(self.background.rows).dtype
        return torch.from_numpy(np.empty(0, np.promote_types(own, other))).dtype

    @cached_property
    def _ids(self) -> NDArray[np.bool_]:
        """Which columns hold integers that floats cannot hold, (d,)."""
        in_rows = columns_of_ids(as_numpy(self.rows.flatten(1)))
        in_source = columns_of_ids(in_type_of_numpy(self.background.source.flatten(1)))
        return in_rows | in_source

    def _beside_ids(self) -> CommonType:
        """Return the integers' type, as a type of floats would change the ids."""
        if self.background.given.statistic is None:
            raise ids_error(self.background.given.argument)
        return self._rounded(ROWS_HOLD_IDS)

    def _by_trial(self, floats: torch.dtype) -> CommonType:
        """Return a type of floats where it does no harm, else the integers' type."""
        trial = self._trial(floats)
        if trial.harmless:
            return CommonType(floats, self.background.rows, trial.evaluations)
        if self.background.given.statistic is None:
            raise not_whole_error(self.background.given, self._columns_not_whole())
        return replace(self._rounded(MODEL_TELLS), evaluations=trial.evaluations)

    def _trial(self, floats: torch.dtype) -> FloatTrial:
        """Call the model with a few rows as integers, and as floats."""
        source = self.background.source
        # of the background where possible: a row's answer must not depend on its neighbours
        tried = source if source.dtype == self.rows.dtype else self.rows
        first = tried[:MAX_TRIED_ROWS]
        as_they_are = self.decode(first.clone())  # the model may write into it
        as_floats = self.decode(first.to(floats, copy=True))
        return try_floats(self.model, as_they_are, as_floats, len(first))

    # A statistic that is rounded

    def _integers(self) -> CommonType:
        """Return the rows' type, and a statistic rounded to it."""
        dtype = self.rows.dtype
        return CommonType(dtype, self.background.rounded(dtype))

    def _rounded(self, cause: str) -> CommonType:
        """Return the rows' type, and warn of the columns whose statistic was rounded to it."""
        integers = self._integers()
        numbers = self.background.rows[0].tolist()
        whole = integers.background[0].tolist()
        roundings = [
            Rounding(self._names[column], numbers[column], int(whole[column]))
            for column in np.flatnonzero(~self._ids).tolist()  # the mean of ids means nothing
            if numbers[column] != whole[column]
        ]
        warn_of_rounding(self.background.given, roundings, cause)
        return integers

    def _columns_not_whole(self) -> list[Any]:
        """Return the names of the columns whose background does not fit the rows' integers."""
        return [
            name
            for name, column in zip(self._names, self.background.rows.unbind(1), strict=True)
            if not fits_integer_type(column, self.rows.dtype)
        ]

    @property
    def _names(self) -> Sequence[Any]:
        """The inputs' names, or their numbers."""
        return self.columns or range(self.background.rows.shape[1])
