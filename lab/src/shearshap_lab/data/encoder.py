"""How the features of a table become the inputs of a network, fitted to the training rows alone.

feature      one-hot               index
size  3.0    [0.7]                 [0.7]      a number is standardised
colour red   [0, 0, 1]             [3]        a category: its block, or its place from 1 on
colour pink  [0, 0, 0]             [0]        a category that training did not have

The columns of a block can be standardised as well, as numbers are.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from shearshap.errors import InputError

Frame = Mapping[str, NDArray[Any]]
Floats = NDArray[np.float64]
Ints = NDArray[np.int64]
Style = Literal["one-hot", "index"]


@dataclass(frozen=True)
class Encoder:
    """The inputs that stand for each feature.

    A number is standardised: one input. A category is a one-hot block, or with style "index" one
    input that holds its index in an embedding table, where rare categories share index 0. A
    category not seen in training is an all-zero block, or index 0. A missing number (NaN) is an
    error, or with `fill` it is replaced by the training mean.
    """

    features: tuple[str, ...]  #: in the order of the players
    numeric: dict[str, tuple[float, float]]  #: feature -> mean and standard deviation
    categories: dict[str, tuple[str, ...]]  #: feature -> its categories in training, sorted
    style: Style = "one-hot"
    fill: bool = False
    logarithmic: bool = False  #: whether numbers are put on a log scale before anything else
    #: feature -> means and standard deviations of its one-hot columns; none where they stay 0/1
    blocks: dict[str, tuple[tuple[float, ...], tuple[float, ...]]] = field(default_factory=dict)

    @classmethod
    def fit(
        cls,
        frame: Frame,
        numeric: Sequence[str],
        *,
        style: Style = "one-hot",
        fill: bool = False,
        logarithmic: bool = False,
        at_least: int = 1,
        standardised: bool = False,
    ) -> "Encoder":
        """Fit to training rows; categories seen fewer than `at_least` times count as rare.

        `standardised`: one-hot columns get mean 0 and standard deviation 1, as numbers do.
        """
        moments = {}
        categories = {}
        for name, values in frame.items():
            if name in numeric:
                numbers = _numbers(name, values)
                scaled = log_scale(numbers) if logarithmic else numbers
                moments[name] = _moments(name, scaled, fill=fill)
            else:
                categories[name] = _frequent(values, at_least)

        encoder = cls(tuple(frame), moments, categories, style, fill, logarithmic)
        return encoder._with_blocks(frame) if standardised else encoder

    def _with_blocks(self, frame: Frame) -> "Encoder":
        """Return the encoder that standardises one-hot columns by the rows of a frame."""
        inputs = self.encode(frame)
        blocks = {}
        for name in self.categories:
            columns = inputs[:, self.groups[name]].astype(np.float64)
            deviation = columns.std(axis=0)
            deviation[deviation == 0] = 1
            blocks[name] = (tuple(columns.mean(axis=0).tolist()), tuple(deviation.tolist()))
        return replace(self, blocks=blocks)

    @cached_property
    def groups(self) -> dict[str, list[int]]:
        """The input columns of each feature."""
        groups = {}
        start = 0
        for name in self.features:
            stop = start + self._width(name)
            groups[name] = list(range(start, stop))
            start = stop
        return groups

    def _width(self, name: str) -> int:
        if name in self.numeric or self.style == "index":
            return 1
        # a feature whose categories were all rare still needs a column, to be a player
        return max(1, len(self.categories[name]))

    def encode(self, frame: Frame) -> NDArray[np.float32]:
        """Return the inputs (n, d) of a frame, whose columns are found by name."""
        self._check_names(frame)
        rows = len(frame[self.features[0]])
        width = sum(len(columns) for columns in self.groups.values())
        inputs = np.zeros((rows, width), dtype=np.float32)

        for name, columns in self.groups.items():
            first = columns[0]
            if name in self.numeric:
                inputs[:, first] = self._standardised(name, frame[name])
                continue
            index = self.index(name, frame[name])
            if self.style == "index":
                inputs[:, first] = index
            else:
                seen = np.flatnonzero(index)
                inputs[seen, first + index[seen] - 1] = 1
            if name in self.blocks:
                mean, deviation = self.blocks[name]
                inputs[:, columns] = (inputs[:, columns] - mean) / deviation
        return inputs

    def _standardised(self, name: str, values: NDArray[Any]) -> Floats:
        mean, deviation = self.numeric[name]
        numbers = _numbers(name, values)
        if self.logarithmic:
            numbers = log_scale(numbers)

        missing = np.isnan(numbers)
        if missing.any() and not self.fill:
            raise _missing(name, missing)
        return (np.where(missing, mean, numbers) - mean) / deviation

    def index(self, name: str, values: NDArray[Any]) -> Ints:
        """Return each value's index among a feature's categories, from 1 on; 0 for any other."""
        values = np.asarray(values).astype(np.str_)
        if not self.categories[name]:
            return np.zeros(len(values), np.int64)
        known = np.array(self.categories[name])
        order = np.argsort(known)
        place = np.searchsorted(known, values, sorter=order).clip(max=len(known) - 1)
        nearest = order[place]
        return np.where(known[nearest] == values, nearest + 1, 0)

    def _check_names(self, frame: Frame) -> None:
        missing = [name for name in self.features if name not in frame]
        unknown = [name for name in frame if name not in self.features]
        if missing or unknown:
            raise InputError(
                f"the frame's columns are not the encoder's: missing {missing}, unknown {unknown}; "
                f"wanted {list(self.features)}"
            )


def log_scale(numbers: Floats) -> Floats:
    """Return sign(x) log(1 + |x|), for counts that are skewed over many orders of magnitude."""
    return np.asarray(np.sign(numbers) * np.log1p(np.abs(numbers)))


def from_log_scale(number: float) -> float:
    """Return the number that `log_scale` maps to this one."""
    return float(np.sign(number) * np.expm1(np.abs(number)))


def _moments(name: str, numbers: Floats, *, fill: bool) -> tuple[float, float]:
    """Return mean and standard deviation, which is 1 where all numbers are equal."""
    missing = np.isnan(numbers)
    if missing.any() and not fill:
        raise _missing(name, missing)
    known = numbers[~missing]
    if not known.size:
        return 0.0, 1.0
    return float(known.mean()), float(known.std()) or 1.0


def _numbers(name: str, values: NDArray[Any]) -> Floats:
    try:
        return np.asarray(values, dtype=np.float64)
    except (TypeError, ValueError) as error:
        raise InputError(f"column {name!r} must hold numbers: {error}") from error


def _missing(name: str, missing: NDArray[np.bool_]) -> InputError:
    row = int(missing.argmax())
    return InputError(f"column {name!r} is missing in row {row}; fill it in or drop the row")


def _frequent(values: NDArray[Any], at_least: int) -> tuple[str, ...]:
    kinds, counts = np.unique(values, return_counts=True)
    return tuple(kinds[counts >= at_least].tolist())
