"""A trained network with scikit-learn's habits, for raw rows of its data set.

raw row           {"age": 38, "workclass": "Private", ...}
encoded           [-0.04, 0, 0, 0, 1, ...]
decision_function  (n, 2) logits
predict_proba      (n, 2) probabilities
predict            (n,) names of classes
"""

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import narwhals.stable.v2 as nw
import numpy as np
import pandas as pd
import torch
from numpy.typing import NDArray
from torch import Tensor

from shearshap.errors import InputError
from shearshap_lab.data import Dataset
from shearshap_lab.data import load as load_data
from shearshap_lab.data.dataset import MISSING, from_log_scale
from shearshap_lab.networks.training import Trained, config_for, is_saved
from shearshap_lab.networks.training import load as load_network

Words = NDArray[np.str_]
Encode = Callable[[Any], NDArray[np.float32]]


@dataclass(frozen=True, eq=False)
class NetworkClassifier:
    """A trained network that takes raw rows, and the data set whose encoder they go through.

    Rows are frames of pandas, polars or pyarrow with the columns of the data set, as
    `Dataset.write` writes them. Columns are found by name; others are left alone.
    """

    trained: Trained
    dataset: Dataset

    @property
    def classes_(self) -> NDArray[np.str_]:
        """The names of the classes, (k,)."""
        return np.array(self.dataset.classes)

    @property
    def feature_names_in_(self) -> NDArray[np.str_]:
        """The columns of a raw row, (p,)."""
        return np.array(self.dataset.feature_names)

    @property
    def text_columns_(self) -> tuple[str, ...]:
        """The columns that hold categories, even if these look like numbers."""
        return tuple(self.dataset.encoder.categories)

    @cached_property
    def background_(self) -> dict[str, float | str]:
        """One raw row: the training mean of each number, the training mode of each category."""
        encoder = self.dataset.encoder
        row: dict[str, float | str] = {}
        for at, name in enumerate(self.dataset.feature_names):
            if name in encoder.numeric:
                mean, _ = encoder.numeric[name]
                row[name] = from_log_scale(mean) if encoder.logarithmic else mean
            else:
                cells = self.dataset.display[self.dataset.train, at]
                row[name] = str(pd.Series(cells, dtype=str).mode()[0])
        return row

    @property
    def encoded_(self) -> tuple[torch.nn.Module, Encode, dict[str, list[int]]]:
        """The network of margins, the function that encodes raw rows for it, and its groups.

        The groups are the network's inputs that each raw column is encoded as. Who explains many
        small blocks mixes encoded rows: that is much faster than to encode mixes of raw ones.
        """
        return self.trained.network, self.encode, self.dataset.groups

    def predict(self, rows: Any) -> NDArray[np.str_]:
        """Return the name of the likeliest class of each row, (n,)."""
        return np.asarray(self.classes_[self.decision_function(rows).argmax(axis=1)])

    def predict_proba(self, rows: Any) -> NDArray[np.float64]:
        """Return the probability of each class, (n, k)."""
        return self._logits(rows).double().softmax(dim=1).numpy()

    def decision_function(self, rows: Any) -> NDArray[np.float32]:
        """Return the logit of each class, (n, k)."""
        return self._logits(rows).numpy()

    def _logits(self, rows: Any) -> Tensor:
        with torch.no_grad():
            logits: Tensor = self.trained.network(torch.from_numpy(self.encode(rows)))
        return logits

    def encode(self, rows: Any) -> NDArray[np.float32]:
        """Return the network's inputs (n, d) for raw rows."""
        return self.dataset.encoder.encode(self._columns(_frame(rows)))

    def unseen(self, rows: Any) -> list[str]:
        """Return a note for each column with categories that training did not have.

        Raise if rows cannot be read at all, such as when a number is missing.
        """
        frame = _frame(rows)
        columns = self._columns(frame)
        encoder = self.dataset.encoder
        encoder.encode(columns)
        if encoder.style == "index":
            return []  # rare categories share an index there, so an unseen one is nothing strange
        notes = []
        for name in self.text_columns_:
            unknown = np.flatnonzero(encoder.index(name, columns[name]) == 0)
            if unknown.size:
                notes.append(
                    f"{name}: {unknown.size} of {len(frame):,} cells hold a category that training "
                    f"did not have, such as {str(columns[name][unknown[0]])!r}"
                )
        return notes

    def _columns(self, frame: pd.DataFrame) -> dict[str, NDArray[Any]]:
        """Return the columns as the encoder takes them: numbers, and codes of categories."""
        names = self.dataset.feature_names
        missing = [name for name in names if name not in frame.columns]
        if missing:
            raise InputError(
                f"rows: column {missing[0]!r} is missing; {self.dataset.name} has "
                f"{', '.join(names)}"
            )
        numeric = self.dataset.encoder.numeric
        return {
            name: _numbers(frame[name]) if name in numeric else self._codes(name, frame[name])
            for name in names
        }

    def _codes(self, name: str, column: "pd.Series[Any]") -> Words:
        """Return the codes of categories that people read as words; what has no code stays."""
        meanings = self.dataset.meanings
        codes = self.dataset.encoder.categories[name]
        code_of = {meanings.get(code, code): code for code in codes}
        return np.array([code_of.get(word, word) for word in _words(column)], dtype=np.str_)


def open_folder(path: Path | str, data: Path | str | None = None) -> NetworkClassifier | None:
    """Open a folder made by `shear paper train`; None if it holds no network.

    `data` is the user's copy of Criteo's file, if the network was trained on it.
    """
    if not is_saved(path):
        return None
    trained = load_network(path)
    dataset = load_data(
        trained.dataset, seed=trained.seed, path=data, preparation=trained.preparation
    )
    if trained.config != config_for(dataset, trained.config.activation):
        raise InputError(
            f"path: the network in {path} was trained on other data of {dataset.name}; pass the "
            "file that it was trained on"
        )
    return NetworkClassifier(trained, dataset)


def _frame(rows: Any) -> pd.DataFrame:
    if not nw.dependencies.is_into_dataframe(rows):
        raise InputError(
            f"rows: expected a pandas, polars or pyarrow frame, got {type(rows).__name__}"
        )
    return nw.from_native(rows, eager_only=True).to_pandas()


def _numbers(column: "pd.Series[Any]") -> NDArray[Any]:
    """Return a column as numbers, NaN if one is missing; the encoder reads text as numbers."""
    if pd.api.types.is_numeric_dtype(column):
        return np.asarray(column.to_numpy(dtype=np.float64, na_value=np.nan))
    return np.array(["nan" if word in ("", MISSING) else word for word in _words(column)])


def _words(column: "pd.Series[Any]") -> list[str]:
    """Return a column as text without blanks around it, "" for what is missing."""
    cells = zip(column.tolist(), column.isna().tolist(), strict=True)
    return ["" if null else str(cell).strip() for cell, null in cells]
