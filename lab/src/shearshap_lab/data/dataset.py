"""A data set that a network can be trained on and explained with."""

import csv
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from shearshap.errors import InputError
from shearshap.store import written_whole
from shearshap_lab.data.encoder import Encoder, Ints
from shearshap_lab.data.preparation import OURS, Preparation

MISSING = "missing"  #: how people read a blank cell


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

    def check_replaced(self, path: Path | str) -> None:
        """Raise if writing to a path would replace a file that `write` has not written."""
        path = Path(path)
        if not path.is_file() or not path.stat().st_size:
            return
        with path.open(encoding="utf-8", errors="replace") as file:
            first = file.readline(1 << 16)
        if next(csv.reader([first]), []) != [*self.feature_names, "class", "split"]:
            raise InputError(
                f"out: {path} is there already, and does not hold rows of {self.name}; choose "
                "another name"
            )

    def write(self, path: Path | str) -> Path:
        """Write the rows as CSV: the features as people read them, the class and the split.

        What is missing is an empty cell, so that a column of numbers is read as numbers.
        """
        path = Path(path)
        features = np.where(self.display == MISSING, "", self.display)
        classes = np.array(self.classes, dtype=object)[self.labels]
        table = np.column_stack((features, classes, self._split_names()))

        with (
            written_whole(path) as partial,
            partial.open("w", newline="", encoding="utf-8") as file,
        ):
            writer = csv.writer(file)
            writer.writerow([*self.feature_names, "class", "split"])
            writer.writerows(table.tolist())
        return path

    def _split_names(self) -> NDArray[np.object_]:
        """Return the name of each row's split, (n,)."""
        names = np.empty(len(self.labels), dtype=object)
        names[self.train] = "train"
        names[self.validation] = "validation"
        names[self.test] = "test"
        return names

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

    They use scikit-learn's `train_test_split` twice, with random state 0: first for the test rows,
    then, of the rest in its new order, for the validation rows. It takes the first of a permutation
    each time. The order of the rows is kept.
    """
    order = np.random.RandomState(0).permutation(rows)
    rest = order[test:]
    again = np.random.RandomState(0).permutation(len(rest))
    return rest[again[validation:]], rest[again[:validation]], order[:test]
