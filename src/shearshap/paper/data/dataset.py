"""A data set ready for a network and for explaining it: inputs, labels, players, splits and what
people read.
"""

import csv
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from shearshap.engine.store import written_whole
from shearshap.errors import InputError

Frame = Mapping[str, NDArray[Any]]
Ints = NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class Dataset:
    """Rows encoded for a network, with the players (original features) that own its input columns."""

    name: str
    title: str  #: what the data are, and what the paper calls them
    inputs: NDArray[np.float32]  #: (n, d)
    labels: Ints  #: (n,)
    classes: tuple[str, ...]  #: what label 0, 1, ... means
    groups: dict[str, list[int]]  #: feature -> its input columns
    display: NDArray[Any]  #: (n, p) of text: the features as people read them
    encoder: "Encoder"
    train: Ints
    validation: Ints
    test: Ints
    reference: NDArray[
        np.float32
    ]  #: (d,) what absent features are replaced with, from the training rows
    source: str  #: attribution and licence
    synthetic: bool = False
    planted: tuple[tuple[str, ...], ...] = ()  #: interactions put into synthetic data

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
        """Write the rows as people read them, as CSV: the features, the class and the split of
        each.
        """
        path, split_of = Path(path), np.empty(len(self.labels), dtype=object)
        for name in ("train", "validation", "test"):
            split_of[getattr(self, name)] = name
        with (
            written_whole(path) as partial,
            partial.open("w", newline="", encoding="utf-8") as file,
        ):
            rows = csv.writer(file)
            rows.writerow([*self.feature_names, "class", "split"])
            classes = np.array(self.classes, dtype=object)[self.labels]
            rows.writerows(np.column_stack((self.display, classes, split_of)).tolist())
        return path

    def __repr__(self) -> str:
        """Return the size, the kinds of features and the splits in one line."""
        return (
            f"Dataset({self.name!r}{', synthetic' if self.synthetic else ''}, {len(self.inputs)} "
            "rows, "
            f"{self.continuous} continuous + {self.categorical} categorical features in "
            f"{self.inputs.shape[1]} inputs, "
            f"{len(self.train)}/{len(self.validation)}/{len(self.test)} train/validation/test)"
        )


@dataclass(frozen=True)
class Encoder:
    """How features become inputs, fitted to the training rows alone.

    A number is standardised: one input. A category is a one-hot block, or (style "index") one input
    that holds its index in an embedding table, 0 for rare ones. A category not seen in training is
    an all-zero block, or index 0. A number that is missing (NaN) is an error, or (fill=True)
    replaced by the training mean.
    """

    features: tuple[str, ...]  #: in the order of the players
    numeric: dict[str, tuple[float, float]]  #: feature -> mean and standard deviation
    categories: dict[str, tuple[str, ...]]  #: feature -> its categories in training, in their order
    style: Literal["one-hot", "index"] = "one-hot"
    fill: bool = False
    groups: dict[str, list[int]] = field(init=False)

    def __post_init__(self) -> None:
        """Lay the inputs out, feature by feature."""
        groups, start = {}, 0
        for name in self.features:
            width = max(1, len(self.categories.get(name, ""))) if self.style == "one-hot" else 1
            groups[name] = list(range(start, start + width))
            start += width
        object.__setattr__(self, "groups", groups)

    @classmethod
    def fit(
        cls,
        frame: Frame,
        numeric: Sequence[str],
        *,
        style: Literal["one-hot", "index"] = "one-hot",
        fill: bool = False,
        at_least: int = 1,
    ) -> "Encoder":
        """Fit to a frame of training rows; categories seen fewer than `at_least` times count as
        rare.
        """
        features = tuple(frame)
        moments = {
            name: _moments(name, frame[name], fill=fill) for name in features if name in numeric
        }
        categories = {
            name: _frequent(frame[name], at_least) for name in features if name not in numeric
        }
        return cls(features, moments, categories, style, fill)

    def encode(self, frame: Frame) -> NDArray[np.float32]:
        """Return the inputs (n, d) of a frame; its columns are found by name, in whatever order
        they stand.
        """
        self._check_names(frame)
        rows = len(frame[self.features[0]])
        inputs = np.zeros((rows, sum(map(len, self.groups.values()))), dtype=np.float32)
        for name, columns in self.groups.items():
            if name in self.numeric:
                mean, deviation = self.numeric[name]
                inputs[:, columns[0]] = (
                    _filled(name, frame[name], mean, fill=self.fill) - mean
                ) / deviation
            elif self.style == "index":
                inputs[:, columns[0]] = self.index(name, frame[name])
            else:
                index = self.index(name, frame[name])
                seen = np.flatnonzero(index)
                inputs[seen, columns[0] + index[seen] - 1] = 1
        return inputs

    def index(self, name: str, values: NDArray[Any]) -> Ints:
        """Return each value's index among the feature's categories, counted from 1; 0 if it is none
        of them.
        """
        values = np.asarray(values).astype(np.str_)
        if not self.categories[name]:
            return np.zeros(len(values), np.int64)
        known = np.array(self.categories[name])
        order = np.argsort(known)
        place = np.searchsorted(known, values, sorter=order).clip(max=len(known) - 1)
        found = order[place]
        return np.where(known[found] == values, found + 1, 0)

    def _check_names(self, frame: Frame) -> None:
        missing = [name for name in self.features if name not in frame]
        unknown = [name for name in frame if name not in self.features]
        if missing or unknown:
            raise InputError(
                f"the frame's columns are not the encoder's: missing {missing}, unknown {unknown}; "
                f"wanted {list(self.features)}"
            )


def split(labels: Ints, validation: int, test: int, seed: int) -> tuple[Ints, Ints, Ints]:
    """Return the indices of train, validation and test rows, stratified by label to within a row.

    Ordered by their random rank within their label, over the label's count, any prefix holds each
    label in proportion.
    """
    rng = np.random.default_rng(seed)
    key = np.empty(len(labels))
    for label in np.unique(labels):
        members = np.flatnonzero(labels == label)
        key[members] = (rng.permutation(len(members)) + rng.random()) / len(members)
    order = np.argsort(key, kind="stable")
    held = order[: test + validation]
    return np.sort(order[test + validation :]), np.sort(held[test:]), np.sort(held[:test])


def _moments(name: str, values: NDArray[Any], *, fill: bool) -> tuple[float, float]:
    numbers = _numbers(name, values)
    known = numbers[~np.isnan(numbers)] if fill else numbers
    if not fill and np.isnan(numbers).any():
        raise _missing(name, numbers)
    if not known.size:
        return 0.0, 1.0
    mean, deviation = float(known.mean()), float(known.std())
    return mean, deviation or 1.0


def _filled(name: str, values: NDArray[Any], mean: float, *, fill: bool) -> NDArray[np.float64]:
    numbers = _numbers(name, values)
    if np.isnan(numbers).any():
        if not fill:
            raise _missing(name, numbers)
        numbers = np.where(np.isnan(numbers), mean, numbers)
    return numbers


def _numbers(name: str, values: NDArray[Any]) -> NDArray[np.float64]:
    try:
        return np.asarray(values, dtype=np.float64)
    except (TypeError, ValueError) as error:
        raise InputError(f"column {name!r} must hold numbers: {error}") from error


def _missing(name: str, numbers: NDArray[np.float64]) -> InputError:
    row = int(np.flatnonzero(np.isnan(numbers))[0])
    return InputError(f"column {name!r} is missing in row {row}; fill it in or drop the row")


def _frequent(values: NDArray[Any], at_least: int) -> tuple[str, ...]:
    kinds, counts = np.unique(values, return_counts=True)
    return tuple(kinds[counts >= at_least].tolist())
