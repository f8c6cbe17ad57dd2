"""The three UCI data sets that ship inside the package."""

import tomllib
from dataclasses import dataclass, field
from importlib.resources import files
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from shearshap_lab.data.dataset import OURS, Dataset, Encoder, Preparation, scikit_split, split

FILES = files("shearshap_lab.data") / "files"


@dataclass(frozen=True)
class Source:
    """A file of the package: its columns and what they mean."""

    file: str
    title: str
    attribution: str
    separator: str
    columns: list[str]
    numeric: list[str]
    label: str
    positive: str  #: the label's value that is class 1
    classes: list[str]
    validation: int  #: rows
    test: int  #: rows
    header: int = 0  #: lines before the rows
    dropped: list[str] = field(default_factory=list)
    meanings: dict[str, str] = field(default_factory=dict)  #: code -> how people read it

    @property
    def rows(self) -> int:
        """How many rows the file has."""
        return len(self.read()[self.label])

    @property
    def features(self) -> int:
        """How many features the data set has."""
        return len(self.columns) - 1 - len(self.dropped)

    def read(self) -> dict[str, NDArray[Any]]:
        """Return the columns of the file, as text."""
        with (FILES / self.file).open("rb") as file:
            frame = pd.read_csv(
                file,
                sep=self.separator,
                names=self.columns,
                skiprows=self.header,
                compression="xz",
                dtype=str,
                keep_default_na=False,
                skipinitialspace=True,
            )
        return {name: frame[name].to_numpy(dtype=np.str_) for name in self.columns}


def load(name: str, source: Source, seed: int, preparation: Preparation = OURS) -> Dataset:
    """Return a shipped data set, encoded and split."""
    frame = source.read()
    labels = (frame.pop(source.label) == source.positive).astype(np.int64)
    for column in source.dropped:
        del frame[column]

    if preparation.split == "scikit-learn":
        splits = scikit_split(len(labels), source.validation, source.test)
    else:
        splits = split(labels, source.validation, source.test, seed)
    train, validation, test = splits
    fitted = frame
    if preparation.fitted == "training rows":
        fitted = {column: values[train] for column, values in frame.items()}
    standardised = preparation.encoding == "standardised"
    encoder = Encoder.fit(fitted, source.numeric, standardised=standardised)
    inputs = encoder.encode(frame)
    return Dataset(
        name=name,
        title=source.title,
        inputs=inputs,
        labels=labels,
        classes=tuple(source.classes),
        groups=encoder.groups,
        display=_display(frame, source.meanings),
        encoder=encoder,
        train=train,
        validation=validation,
        test=test,
        background=_background(inputs[train], encoder, preparation),
        source=source.attribution,
        meanings=source.meanings,
        preparation=preparation,
    )


def _background(
    training_inputs: NDArray[np.float32], encoder: Encoder, preparation: Preparation
) -> NDArray[np.float32]:
    """Return what absent features are replaced with, (d,)."""
    mean = training_inputs.mean(axis=0, dtype=np.float64)
    if preparation.background == "quirk":
        for name in encoder.numeric:
            mean[encoder.groups[name]] = 0
        for name, (block_mean, _) in encoder.blocks.items():
            # these are means of 0/1 columns, in a space where the columns are standardised
            mean[encoder.groups[name]] = block_mean
    return np.asarray(mean, dtype=np.float32)


def _display(frame: dict[str, NDArray[Any]], meanings: dict[str, str]) -> NDArray[np.object_]:
    """Return the cells as people read them, (n, p)."""
    cells = np.column_stack(list(frame.values())).astype(object)
    for code, meaning in meanings.items():
        cells[cells == code] = meaning
    return cells


def _sources() -> dict[str, Source]:
    described = tomllib.loads((FILES / "sources.toml").read_text(encoding="utf-8"))
    codes = pd.read_csv(str(FILES / "german-codes.csv"), index_col="code")["meaning"].to_dict()
    described["german"]["meanings"] = codes
    return {name: Source(**facts) for name, facts in described.items()}


SOURCES = _sources()
"""What ships, by name."""
