"""Labels of rows, as an array in which every label stays what it is, and as text."""

from collections.abc import Iterable
from typing import Any

import numpy as np
from numpy.typing import NDArray


def label_array(labels: Iterable[Any]) -> NDArray[Any]:
    """Return labels (r,) of pandas, polars, pyarrow, numpy or a list as an array.

    Numbers, texts and times have an array of their own type. Anything else is an array of objects:
    tuples, of which numpy would make a second axis; labels of several kinds; and columns with
    missing labels, where whole numbers would become floating ones and lose digits.
    """
    if isinstance(labels, np.ndarray):
        return labels
    if hasattr(labels, "to_numpy") and not _is_delicate(labels):
        return np.asarray(labels.to_numpy())
    return _from_list(_listed(labels))


def _is_delicate(labels: Any) -> bool:
    """Return whether a library's conversion to numpy may change a label."""
    if hasattr(labels, "isna"):  # an Index or a Series of pandas; one of several levels has tuples
        return getattr(labels, "nlevels", 1) == 1 and bool(labels.isna().any())
    missing = getattr(labels, "null_count", 0)  # a method of polars, a number of pyarrow
    if callable(missing):
        missing = missing()
    kind = str(getattr(labels, "dtype", getattr(labels, "type", "")))
    has_zone = "time_zone='" in kind or "tz=" in kind
    return bool(missing) or has_zone


def _listed(labels: Any) -> list[Any]:
    for name in ("to_list", "to_pylist", "tolist"):
        if hasattr(labels, name):
            return list(getattr(labels, name)())
    return list(labels)


def _from_list(labels: list[Any]) -> NDArray[Any]:
    types = {type(label) for label in labels}
    if len(types) == 1 and types <= {bool, int, float, str}:
        return np.asarray(labels)
    objects = np.empty(len(labels), dtype=object)
    objects[:] = labels
    return objects


def is_missing(content: object) -> bool:
    """Return whether a label or a cell is empty: None, NaN, or pandas' NaT and NA."""
    if isinstance(content, str):
        return False
    return content is None or str(content) in ("nan", "NaN", "NaT", "<NA>")


def label_text(label: object) -> str:
    """Return a label or a cell as text."""
    return "missing" if is_missing(label) else str(label)
