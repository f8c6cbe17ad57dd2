"""Backgrounds that shap makes: its maskers, and its summaries of rows.

They are known by the names of their classes, so that shap is not imported.

    shap.kmeans(X, 10)               rows, each with the size of its cluster as its weight
    shap.maskers.Independent(X)      rows
    shap.maskers.Partition(X)        rows, and a clustering of columns, which is not used here
    other maskers                    refused: they do not replace absent players by rows

`shap.sample(X, 100)` is of the same kind as X, and needs nothing from here.
"""

import warnings
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from shearshap.errors import InputError, ShearWarning, level_of_caller

HINTS = {
    "Composite": "pass one background for each input, as a tuple",
    "Fixed": "it masks nothing; leave that input out of the rows",
    "FixedComposite": "pass what it wraps",
    "Image": "pass an image for the absent pixels, and patches as groups",
    "Impute": "pass the rows that it was made of",
    "Masker": "pass background rows",
    "OutputComposite": "pass what it wraps",
    "SparseData": "pass the rows as a dense array",
    "Text": "explain a transformers pipeline, and leave the background out",
}
"""What to try instead, for the classes of shap that cannot be a background here."""


@dataclass(frozen=True, eq=False)
class WeightedRows:
    """Background rows and, where they do not count equally, their weights."""

    rows: Any
    weights: NDArray[np.float64] | None  #: (b,) with the sum 1


def weighted_rows(background: Any, argument: str) -> WeightedRows:
    """Return the rows of a background, which may be shap's or anything else, and their weights."""
    names = _names_in_shap(background)
    if not names and callable(background):
        raise InputError(
            f"{argument}: wanted rows, got a function; shap takes one as a masker, and here an "
            "absent player is replaced with background rows"
        )
    if "DenseData" in names:
        return _summary(background, argument)
    if "Tabular" in names:
        return WeightedRows(_masker_rows(background), None)
    refused = [name for name in names if name in HINTS]
    if refused:
        raise InputError(
            f"{argument}: shap's {refused[0]} cannot be used here; {HINTS[refused[0]]}"
        )
    return WeightedRows(background, None)


def _names_in_shap(background: Any) -> list[str]:
    """Return the names of an object's class and its bases, as far as they are shap's."""
    return [
        kind.__name__
        for kind in type(background).__mro__
        if kind.__module__.partition(".")[0] == "shap"
    ]


def _summary(summary: Any, argument: str) -> WeightedRows:
    """Return the rows and weights of `shap.kmeans`."""
    if summary.transposed or any(len(group) != 1 for group in summary.groups):
        raise InputError(
            f"{argument}: shap's DenseData has groups of columns; pass its rows, and groups="
        )
    weights = np.asarray(summary.weights, dtype=np.float64)
    weights = weights / weights.sum()
    equal = np.allclose(weights, weights[0])

    # of a frame, the names are an index, and of an array a list of numbers
    names = None if isinstance(summary.group_names, list) else summary.group_names
    return WeightedRows(_named(summary.data, names), None if equal else weights)


def _masker_rows(masker: Any) -> Any:
    """Return the background rows of `shap.maskers.Independent` or `Partition`."""
    if masker.clustering is not None or masker.partition is not None:
        warnings.warn(
            f"shap's {type(masker).__name__} has a clustering of the columns, which is not used: "
            "these are Shapley values, and not Owen values; to keep columns together pass groups=",
            ShearWarning,
            stacklevel=level_of_caller(),
        )
    return _named(masker.data, masker.feature_names if masker.output_dataframe else None)


def _named(rows: Any, columns: Any) -> Any:
    """Return rows as a pandas frame where their columns have names."""
    if columns is None:
        return rows
    import pandas as pd

    # an array of mixed columns holds objects; a frame gives each column its own type again
    return pd.DataFrame(rows, columns=columns).infer_objects()
