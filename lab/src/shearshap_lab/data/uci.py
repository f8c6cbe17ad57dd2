"""The three UCI data sets that ship inside the package."""

import csv
import lzma
from dataclasses import dataclass, field
from importlib.resources import files
from typing import Any

import numpy as np
from numpy.typing import NDArray

from shearshap_lab.data.dataset import OURS, Dataset, Encoder, Preparation, scikit_split, split


@dataclass(frozen=True)
class Source:
    """A file of the package: its columns and what they mean."""

    file: str
    title: str
    attribution: str
    separator: str
    columns: tuple[str, ...]
    numeric: tuple[str, ...]
    label: str
    positive: str  #: the label's value that is class 1
    classes: tuple[str, str]
    validation: int  #: rows
    test: int  #: rows
    header: int = 0  #: lines before the rows
    dropped: tuple[str, ...] = ()
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
        packed = (files("shearshap_lab.data") / "files" / self.file).read_bytes()
        lines = lzma.decompress(packed).decode().splitlines()
        rows = [
            [cell.strip().strip('"') for cell in line.split(self.separator)]
            for line in lines[self.header :]
            if line.strip()
        ]
        return dict(zip(self.columns, np.array(rows).T, strict=True))


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
        classes=source.classes,
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


def _german_codes() -> dict[str, str]:
    """Return what the codes of German Credit mean."""
    text = (files("shearshap_lab.data") / "files" / "german-codes.csv").read_text()
    return {row["code"]: row["meaning"] for row in csv.DictReader(text.splitlines())}


_CENSUS = Source(
    file="adult.data.xz",
    title="UCI Adult, training file (the paper's Census Income)",
    attribution=(
        "B. Becker and R. Kohavi (1996), UCI Machine Learning Repository, DOI 10.24432/C5XW20, "
        "CC BY 4.0"
    ),
    separator=",",
    columns=(
        "age", "workclass", "fnlwgt", "education", "education-num", "marital-status",
        "occupation", "relationship", "race", "sex", "capital-gain", "capital-loss",
        "hours-per-week", "native-country", "income",
    ),
    numeric=("age", "education-num", "capital-gain", "capital-loss", "hours-per-week"),
    label="income",
    positive=">50K",
    classes=("at most 50K a year", "more than 50K a year"),
    validation=5210,
    test=6513,
    dropped=("fnlwgt",),
)  # fmt: skip

_BANK = Source(
    file="bank-full.csv.xz",
    title='UCI Bank Marketing (what the paper calls "German Credit")',
    attribution=(
        "S. Moro, P. Rita and P. Cortez (2014), UCI Machine Learning Repository, "
        "DOI 10.24432/C5K306, CC BY 4.0"
    ),
    separator=",",
    columns=(
        "age", "job", "marital", "education", "default", "balance", "housing", "loan",
        "contact", "day", "month", "duration", "campaign", "pdays", "previous", "poutcome", "y",
    ),
    numeric=("age", "balance", "day", "duration", "campaign", "pdays", "previous"),
    label="y",
    positive="yes",
    classes=("no deposit", "deposit"),
    validation=7234,
    test=9043,
    header=1,
)  # fmt: skip

_GERMAN = Source(
    file="german.data.xz",
    title="UCI Statlog German Credit (the data set that the paper names, but does not use)",
    attribution=(
        "H. Hofmann (1994), UCI Machine Learning Repository, DOI 10.24432/C5NC77, CC BY 4.0"
    ),
    separator=" ",
    columns=(
        "checking", "duration", "history", "purpose", "amount", "savings", "employment", "rate",
        "personal", "debtors", "residence", "property", "age", "plans", "housing", "credits",
        "job", "dependents", "telephone", "foreign", "risk",
    ),
    numeric=("duration", "amount", "rate", "residence", "age", "credits", "dependents"),
    label="risk",
    positive="1",
    classes=("bad", "good"),
    validation=160,
    test=200,
    meanings=_german_codes(),
)  # fmt: skip

SOURCES = {"census": _CENSUS, "bank": _BANK, "german": _GERMAN}
