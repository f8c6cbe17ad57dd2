"""Networks made by `shear train`, with the raw columns of their data set as players."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from torch import nn

from shearshap.paper.data import Dataset, criteo, uci
from shearshap.paper.data import load as load_data
from shearshap.paper.networks.saved import load as load_network

Cells = NDArray[np.str_]


@dataclass(frozen=True, eq=False)
class Network:
    """A trained network and the data set that says how raw rows become its inputs."""

    module: nn.Module
    dataset: Dataset
    told: str  #: what it is, in words

    @property
    def features(self) -> tuple[str, ...]:
        """The columns of raw rows, which are the players."""
        return tuple(self.dataset.feature_names)

    @property
    def classes(self) -> tuple[str, ...]:
        """What each output is the logit of."""
        return self.dataset.classes

    @property
    def text(self) -> tuple[str, ...]:
        """The columns that hold categories, even where they look like numbers."""
        return tuple(self.dataset.encoder.categories)

    def encode(self, cells: Mapping[str, Cells]) -> NDArray[np.float32]:
        """Return the inputs (n, d) of raw columns of text, as `Dataset.write` writes them; "" is a
        missing one.
        """
        return self.dataset.encoder.encode(self._codes(cells))

    def unseen(self, cells: Mapping[str, Cells]) -> dict[str, tuple[int, str]]:
        """Return by column how many categories training did not have, and one of them."""
        codes = self._codes(cells)
        strange = {
            name: np.flatnonzero(self.dataset.encoder.index(name, codes[name]) == 0)
            for name in self.text
        }
        rare = (
            self.dataset.encoder.style == "index"
        )  # where rare ones share an index, an unseen one is nothing strange
        return (
            {}
            if rare
            else {
                name: (len(at), str(cells[name][at[0]])) for name, at in strange.items() if len(at)
            }
        )

    def _codes(self, cells: Mapping[str, Cells]) -> dict[str, NDArray[Any]]:
        """Return columns as the data set's file has them: codes for what people read, numbers as
        numbers.
        """
        told: dict[str, NDArray[Any]] = {}
        for name in self.features:
            read = _number if name in self.dataset.encoder.numeric else _category
            told[name] = read(self.dataset, name, cells[name])
        return told


def network(folder: Path, path: Path | None) -> Network:
    """Open a folder made by `shear train`, with the data set that it was trained on."""
    trained = load_network(folder)
    dataset = load_data(trained.dataset, seed=trained.seed, path=path)
    told = f"{trained.config.kind} with {trained.config.activation}, trained on {dataset.name}"
    return Network(trained.network, dataset, told)


def _number(dataset: Dataset, name: str, cells: Cells) -> NDArray[Any]:
    blank = np.where(np.isin(cells, ("", "missing")), "", cells)
    if dataset.name.startswith("criteo"):
        return criteo.log_scale(name, blank)
    return np.where(blank == "", "nan", blank)


def _category(dataset: Dataset, name: str, cells: Cells) -> NDArray[Any]:
    if dataset.name not in uci.SOURCES:
        return np.where(cells == "missing", "", cells)
    meanings = uci.SOURCES[dataset.name].meanings
    code = {meanings.get(own, own): own for own in dataset.encoder.categories[name]}
    return np.array([code.get(cell, cell) for cell in cells.tolist()], dtype=np.str_)
