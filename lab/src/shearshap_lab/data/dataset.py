"""A data set that a network can be trained on and explained with, and how it was prepared.

Features become inputs by an encoder that is fitted to the training rows alone:

feature      one-hot               index
size  3.0    [0.7]                 [0.7]      a number is standardised
colour red   [0, 0, 1]             [3]        a category: its block, or its place from 1 on
colour pink  [0, 0, 0]             [0]        a category that training did not have

The columns of a block can be standardised as well, as numbers are.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import Any, Literal

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from shearshap.errors import InputError
from shearshap.store import written_whole

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
    #: feature -> means and standard deviations of its one-hot columns; none if they stay 0/1
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
                kinds, counts = np.unique(values, return_counts=True)
                categories[name] = tuple(kinds[counts >= at_least].tolist())

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
            single = name in self.numeric or self.style == "index"
            # a feature whose categories were all rare still needs a column, to be a player
            width = 1 if single else max(1, len(self.categories[name]))
            groups[name] = list(range(start, start + width))
            start += width
        return groups

    def encode(self, frame: Frame) -> NDArray[np.float32]:
        """Return the inputs (n, d) of a frame, whose columns are found by name."""
        if set(frame) != set(self.features):
            raise InputError(
                f"expected the columns {', '.join(self.features)}; got {', '.join(frame)}"
            )
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

        missing = _missing(name, numbers, self.fill)
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


def log_scale(numbers: Floats) -> Floats:
    """Return sign(x) log(1 + |x|), for counts that are skewed over many orders of magnitude."""
    return np.asarray(np.sign(numbers) * np.log1p(np.abs(numbers)))


def from_log_scale(number: float) -> float:
    """Return the number that `log_scale` maps to this one."""
    return float(np.sign(number) * np.expm1(np.abs(number)))


def _moments(name: str, numbers: Floats, *, fill: bool) -> tuple[float, float]:
    """Return mean and standard deviation, which is 1 if all numbers are equal."""
    known = numbers[~_missing(name, numbers, fill)]
    if not known.size:
        return 0.0, 1.0
    return float(known.mean()), float(known.std()) or 1.0


def _numbers(name: str, values: NDArray[Any]) -> Floats:
    try:
        return np.asarray(values, dtype=np.float64)
    except (TypeError, ValueError) as error:
        raise InputError(f"column {name!r} must hold numbers: {error}") from error


def _missing(name: str, numbers: Floats, fill: bool) -> NDArray[np.bool_]:
    """Return which numbers are missing; raise if there are some, and they are not filled in."""
    missing = np.isnan(numbers)
    if missing.any() and not fill:
        row = int(missing.argmax())
        raise InputError(f"column {name!r} is missing in row {row}; fill it in or drop the row")
    return missing


# Data sets

MISSING = "missing"  #: how people read a blank cell


@dataclass(frozen=True)
class Preparation:
    """The choices between a table and the inputs of a network; the paper states none of them.

    Parameters
    ----------
    encoding
        Of one-hot columns: left at "0/1", or "standardised" to mean 0 and standard deviation 1, as
        numbers always are.
    fitted
        The rows that means, standard deviations and categories are of.
    split
        "stratified" by label, which the seed decides, or "scikit-learn": its `train_test_split`
        twice with random state 0, whatever the seed.
    background
        The "mean" of the training rows, or the authors' "quirk": 0 for a number, and for a category
        the mean of its 0/1 columns, even if the columns are standardised.
    """

    encoding: Literal["0/1", "standardised"] = "0/1"
    fitted: Literal["training rows", "all rows"] = "training rows"
    split: Literal["stratified", "scikit-learn"] = "stratified"
    background: Literal["mean", "quirk"] = "mean"


OURS = Preparation()
AUTHORS = Preparation("standardised", "all rows", "scikit-learn", "quirk")


@dataclass(frozen=True, eq=False)
class Dataset:
    """Rows encoded for a network, and the players (original features) that own its inputs."""

    name: str
    title: str  #: what the data are, and what the paper calls them
    inputs: NDArray[np.float32]  #: (n, d)
    labels: Ints  #: (n,)
    classes: tuple[str, ...]  #: what label 0, 1, ... means
    groups: dict[str, list[int]]  #: feature -> its input columns
    display: NDArray[Any]  #: (n, p) of text: the features as people read them
    encoder: Encoder
    train: Ints
    validation: Ints
    test: Ints
    background: NDArray[np.float32]  #: (d,) from the training rows
    source: str  #: attribution and licence
    meanings: Mapping[str, str] = field(default_factory=dict)  #: code -> how people read it
    preparation: Preparation = OURS  #: how the rows were split and encoded

    @property
    def feature_names(self) -> list[str]:
        """The players' names, in their order."""
        return list(self.groups)

    @property
    def continuous(self) -> int:
        """How many features are numbers."""
        return len(self.encoder.numeric)

    @property
    def categorical(self) -> int:
        """How many features are categories."""
        return len(self.encoder.categories)

    def write(self, path: Path | str) -> Path:
        """Write the rows as CSV: the features as people read them, the class and the split.

        What is missing is an empty cell, so that a column of numbers is read as numbers.
        """
        features = np.where(self.display == MISSING, "", self.display)
        frame = pd.DataFrame(features, columns=self.feature_names)
        frame["class"] = np.array(self.classes)[self.labels]
        for name in ("train", "validation", "test"):
            frame.loc[getattr(self, name), "split"] = name
        with written_whole(Path(path)) as partial:
            frame.to_csv(partial, index=False)
        return Path(path)

    def __repr__(self) -> str:
        """Return the size, the kinds of features and the splits in one line."""
        rows, width = self.inputs.shape
        splits = f"{len(self.train)}/{len(self.validation)}/{len(self.test)}"
        return (
            f"Dataset({self.name!r}, {rows} rows, {self.continuous} continuous + "
            f"{self.categorical} categorical features in {width} inputs, "
            f"{splits} train/validation/test)"
        )


def split(labels: Ints, validation: int, test: int, seed: int) -> tuple[Ints, Ints, Ints]:
    """Return the indices of train, validation and test rows, stratified by label to within a row.

    Each row gets a random rank within its label, divided by the label's count. Sorted by that, any
    prefix of the rows holds each label in proportion::

        label      a     b     a     a     b     a
        rank/count 1/8   1/4   3/8   5/8   3/4   7/8
    """
    rng = np.random.default_rng(seed)
    key = np.empty(len(labels))
    for label in np.unique(labels):
        members = np.flatnonzero(labels == label)
        ranks = rng.permutation(len(members)) + rng.random()
        key[members] = ranks / len(members)

    order = np.argsort(key, kind="stable")
    held_out = test + validation
    return (
        np.sort(order[held_out:]),
        np.sort(order[test:held_out]),
        np.sort(order[:test]),
    )


def scikit_split(rows: int, validation: int, test: int) -> tuple[Ints, Ints, Ints]:
    """Return the indices of train, validation and test rows as the paper's authors have them.

    First the test rows are split off, then, of the rest in its new order, the validation rows.
    """
    from sklearn.model_selection import train_test_split  # most splits are ours, and need it not

    rest, tested = train_test_split(np.arange(rows), test_size=test, random_state=0)
    trained, validated = train_test_split(rest, test_size=validation, random_state=0)
    return trained, validated, tested
