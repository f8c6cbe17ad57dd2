"""Whether a model tells integers from floats: it is called with both, and its answers compared.

    rows as they are     (1, 2)          answer  0.7
    rows as floats       (1.0, 2.0)      answer  0.7     floats do no harm
                                                 0.4     they do, unless the model is random
                                                 error   they do

A tree answers the same for both. A model that looks 1 up in a dictionary by str(1) does not.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from shearshap.models import AdaptedModel

MAX_TRIED_ROWS = 32
"""Rows that the model is called with, as they are and as floats.

A model may tell integers from floats at a few rows only. If none is among these, the comparison of
all predictions with the model's own still finds it (agreement.py).
"""

TOLERANCE = 1e-6
"""The relative difference up to which two answers are the same."""


@dataclass(frozen=True)
class FloatTrial:
    """Whether a model answers the same for integers and for the same numbers as floats."""

    harmless: bool
    evaluations: int  #: that it took


def try_floats(model: AdaptedModel, as_they_are: Any, as_floats: Any, rows: int) -> FloatTrial:
    """Call a model with `rows` rows as they are, and as floats, and compare its answers."""
    with torch.no_grad():
        try:
            usual = model.call(as_they_are)
        except Exception:  # noqa: BLE001  (whatever the model raises)
            # it may take floats alone; if it does not, the game says what is wrong
            return FloatTrial(harmless=True, evaluations=rows)
        try:
            other = model.call(as_floats)
        except Exception:  # noqa: BLE001  (whatever the model raises)
            return FloatTrial(harmless=False, evaluations=2 * rows)
        if _is_same_answer(usual, other):
            return FloatTrial(harmless=True, evaluations=2 * rows)

        # a random model differs from itself, too, and types have nothing to do with it
        again = model.call(as_they_are)
    is_random = not _is_same_answer(usual, again)
    return FloatTrial(harmless=is_random, evaluations=3 * rows)


def _is_same_answer(answer: Any, other: Any) -> bool:
    """Return whether two answers of a model are the same; True where they cannot be compared."""
    try:
        first = _as_array(answer)
        second = _as_array(other)
        if first.shape != second.shape:
            return False
        if not _is_of_numbers(first) or not _is_of_numbers(second):
            return all(map(_is_same_cell, first.flat, second.flat))

        # of each output by itself: one in millions must not hide the change of a probability
        scale = np.nanmax(np.abs(first), axis=0, initial=0.0)
        close = np.isclose(first, second, rtol=TOLERANCE, atol=TOLERANCE * scale, equal_nan=True)
        return bool(close.all())
    except Exception:  # noqa: BLE001  (an answer may be anything)
        return True


def _is_same_cell(cell: Any, other: Any) -> bool:
    """Return whether two cells are the same, or both missing."""
    return bool(cell == other) or (cell is None and other is None) or bool(cell != cell)


def _as_array(answer: Any) -> NDArray[Any]:
    """Return a model's answer as an array, its numbers in double precision."""
    if isinstance(answer, Tensor):
        return answer.detach().cpu().double().numpy()
    array = np.asarray(answer)
    return array.astype(np.float64) if _is_of_numbers(array) else array


def _is_of_numbers(array: NDArray[Any]) -> bool:
    return array.dtype.kind in "biuf"
