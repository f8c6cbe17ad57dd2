"""The three UCI data sets that ship inside the package."""

import hashlib
import lzma
from collections.abc import Callable
from dataclasses import dataclass, field
from importlib.resources import files
from typing import Any

import numpy as np
from numpy.typing import NDArray

from shearshap.errors import InputError
from shearshap.paper.data.dataset import Dataset, Encoder, split


@dataclass(frozen=True)
class Source:
    """A file of the package: its hash, its columns and what they mean."""

    file: str
    sha256: str
    title: str
    attribution: str
    separator: str
    columns: tuple[str, ...]
    numeric: tuple[str, ...]
    label: str
    positive: str
    classes: tuple[str, str]
    validation: int
    test: int
    header: bool = False
    dropped: tuple[str, ...] = ()
    meanings: dict[str, str] = field(default_factory=dict)

    @property
    def rows(self) -> int:
        """How many rows the file has."""
        return len(self.read()[self.label])

    @property
    def features(self) -> int:
        """How many features the data set has."""
        return len(self.columns) - 1 - len(self.dropped)

    def read(self) -> dict[str, NDArray[Any]]:
        """Return the columns of the file, as text, after checking its hash."""
        packed = (files("shearshap.paper.data") / "files" / self.file).read_bytes()
        try:
            raw = lzma.decompress(packed)
        except lzma.LZMAError:
            raw = b""
        if hashlib.sha256(raw).hexdigest() != self.sha256:
            raise InputError(
                f"{self.file} is damaged: its hash is not the one it was shipped with; reinstall "
                "shearshap"
            )
        lines = raw.decode().splitlines()[int(self.header) :]
        cells = [
            [cell.strip().strip('"') for cell in line.split(self.separator)]
            for line in lines
            if line.strip()
        ]
        return dict(zip(self.columns, np.array(cells).T, strict=True))


def load(name: str, source: Source, seed: int) -> Dataset:
    """Return a shipped data set, encoded and split."""
    frame = source.read()
    labels = (frame.pop(source.label) == source.positive).astype(np.int64)
    for column in source.dropped:
        del frame[column]
    train, validation, test = split(labels, source.validation, source.test, seed)
    encoder = Encoder.fit(
        {column: values[train] for column, values in frame.items()}, source.numeric
    )
    inputs = encoder.encode(frame)
    read: Callable[[Any], Any] = np.vectorize(
        lambda cell: source.meanings.get(cell, cell), otypes=[object]
    )
    display = np.column_stack([read(values) for values in frame.values()])
    reference = inputs[train].mean(axis=0, dtype=np.float64).astype(np.float32)
    return Dataset(
        name, source.title, inputs, labels, source.classes, encoder.groups, display, encoder,
        train, validation, test, reference, source.attribution,
    )  # fmt: skip


_GERMAN_CODES = {
    "A11": "below 0 DM", "A12": "0 to 200 DM", "A13": "200 DM or more", "A14": "no checking account",
    "A30": "no credits, or all paid back", "A31": "all credits here paid back", "A32": "credits paid back so far",
    "A33": "delays in the past", "A34": "critical account, or credits elsewhere",
    "A40": "new car", "A41": "used car", "A42": "furniture", "A43": "radio or television", "A44": "appliances",
    "A45": "repairs", "A46": "education", "A47": "vacation", "A48": "retraining", "A49": "business", "A410": "others",
    "A61": "below 100 DM", "A62": "100 to 500 DM", "A63": "500 to 1000 DM", "A64": "1000 DM or more",
    "A65": "unknown or none",
    "A71": "unemployed", "A72": "below 1 year", "A73": "1 to 4 years", "A74": "4 to 7 years", "A75": "7 years or more",
    "A91": "male, divorced or separated", "A92": "female, divorced, separated or married", "A93": "male, single",
    "A94": "male, married or widowed", "A95": "female, single",
    "A101": "none", "A102": "co-applicant", "A103": "guarantor",
    "A121": "real estate", "A122": "building society savings or life insurance", "A123": "car or other",
    "A124": "unknown or none",
    "A141": "bank", "A142": "stores", "A143": "none",
    "A151": "rented", "A152": "own", "A153": "for free",
    "A171": "unskilled, not resident, or unemployed", "A172": "unskilled, resident", "A173": "skilled",
    "A174": "management, self-employed or highly qualified",
    "A191": "none", "A192": "registered", "A201": "yes", "A202": "no",
}  # fmt: skip

SOURCES: dict[str, Source] = {
    "census": Source(
        file="adult.data.xz",
        sha256="5b00264637dbfec36bdeaab5676b0b309ff9eb788d63554ca0a249491c86603d",
        title="UCI Adult, training file (the paper's Census Income)",
        attribution="B. Becker and R. Kohavi (1996), UCI Machine Learning Repository, DOI 10.24432/C5XW20, CC BY 4.0",
        separator=",",
        columns=(
            "age", "workclass", "fnlwgt", "education", "education-num", "marital-status", "occupation", "relationship",
            "race", "sex", "capital-gain", "capital-loss", "hours-per-week", "native-country", "income",
        ),
        numeric=("age", "education-num", "capital-gain", "capital-loss", "hours-per-week"),
        label="income", positive=">50K", classes=("at most 50K a year", "more than 50K a year"),
        validation=5210, test=6513, dropped=("fnlwgt",),
    ),
    "bank": Source(
        file="bank-full.csv.xz",
        sha256="b44507c26634736d4a0619ec2d7c4b6ff56a2c63cbeb5176d3134e7b25e416f0",
        title='UCI Bank Marketing (what the paper calls "German Credit")',
        attribution="S. Moro, P. Rita and P. Cortez (2014), UCI Machine Learning Repository, DOI 10.24432/C5K306, "
        "CC BY 4.0",
        separator=",",
        columns=(
            "age", "job", "marital", "education", "default", "balance", "housing", "loan", "contact", "day", "month",
            "duration", "campaign", "pdays", "previous", "poutcome", "y",
        ),
        numeric=("age", "balance", "day", "duration", "campaign", "pdays", "previous"),
        label="y", positive="yes", classes=("no deposit", "deposit"),
        validation=7234, test=9043, header=True,
    ),
    "german": Source(
        file="german.data.xz",
        sha256="b21f3d81db8071257d5ff1deaeba1fd4303b62712e6fcc9715c7a86202cb5871",
        title="UCI Statlog German Credit (the data set that the paper names, but does not use)",
        attribution="H. Hofmann (1994), UCI Machine Learning Repository, DOI 10.24432/C5NC77, CC BY 4.0",
        separator=" ",
        columns=(
            "checking", "duration", "history", "purpose", "amount", "savings", "employment", "rate", "personal",
            "debtors", "residence", "property", "age", "plans", "housing", "credits", "job", "dependents", "telephone",
            "foreign", "risk",
        ),
        numeric=("duration", "amount", "rate", "residence", "age", "credits", "dependents"),
        label="risk", positive="1", classes=("bad", "good"),
        validation=160, test=200, meanings=_GERMAN_CODES,
    ),
}  # fmt: skip
